//! Programs without layouts whose weights are cut: the layouts of the textbook, and its bytes.

use crate::{Sharded, arguments, load, near};
use relax_program::frontend::print;
use relax_sharding::layout::text;
use relax_sharding::movement::Collective;
use relax_sharding::tensor::cut_weights;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::Reduction;
use std::collections::BTreeMap;

/// Two blocks of a transformer without norms: attention, whose heads are split off the columns of its projections, and an MLP.
const BLOCK: &str = r#"module_attr("mesh[0]", "4")

def main(x: Tensor(("n", 8), "f32"), q: Tensor((8, 16), "f32"), k: Tensor((8, 16), "f32"), v: Tensor((8, 16), "f32"), o: Tensor((16, 8), "f32"), up: Tensor((8, 32), "f32"), down: Tensor((32, 8), "f32"), mask: Tensor(("n", "n"), "f32")):
    n = sym_var()
    a = permute_dims(reshape(matmul(x, q), shape(n, 8, 2)), axes=[1, 0, 2])
    b = permute_dims(reshape(matmul(x, k), shape(n, 8, 2)), axes=[1, 2, 0])
    c = permute_dims(reshape(matmul(x, v), shape(n, 8, 2)), axes=[1, 0, 2])
    each = matmul(softmax(add(matmul(a, b), mask), axis=-1), c)
    y = matmul(reshape(permute_dims(each, axes=[1, 0, 2]), shape(n, 16)), o)
    z = add(x, y)
    return add(z, matmul(relu(matmul(z, up)), down))
"#;

const MLP: &str = r#"module_attr("mesh[0]", "4")

def main(x: Tensor(("n", 4), "f32"), up: Tensor((4, "f"), "f32"), down: Tensor(("f", 4), "f32")):
    return matmul(relu(matmul(x, up)), down)
"#;

fn cut(text: &str, named: &[&str]) -> Result<Sharded, String> {
    let (module, sizes) = (load(text), BTreeMap::new());
    let named: Vec<Name> = named.iter().map(Name::new).collect();
    let cut = cut_weights(&module, "main", &named, &sizes, &mut Prover::new());
    cut.map(|module| crate::sharded(&print(&module)))
}

/// The layouts of parameters.
fn layouts(sharded: &Sharded) -> Vec<String> {
    sharded
        .plan
        .params
        .iter()
        .map(|layout| layout.as_ref().map(|own| text(own)).unwrap_or_default())
        .collect()
}

fn collectives(sharded: &Sharded) -> Vec<Collective> {
    sharded.plan.moves().flat_map(|(_, movements)| movements).map(|one| one.collective).collect()
}

/// Columns, then rows, and one all-reduce of 2 (p - 1) n d elements.
#[test]
fn an_mlp_is_cut_by_columns_and_rows() {
    for (mesh, p) in [("2", 2), ("3", 3), ("4", 4)] {
        let text = MLP.replace("\"4\")", &format!("\"{mesh}\")"));
        let sharded = cut(&text, &["up", "down"]).expect("it has weights");
        assert_eq!(layouts(&sharded), ["R", "S[1]", "S[0]"], "{mesh}");
        assert_eq!(collectives(&sharded), [Collective::AllReduce(Reduction::Sum)]);
        let bytes = sharded.plan.bytes(&mut Prover::new());
        assert_eq!(
            bytes.eval(&|name| (name == "n").then_some(100)).ok(),
            Some(2 * (p - 1) * 100 * 4 * 4)
        );
        for (n, f) in [(0, 3), (3, 0), (5, 7)] {
            let shapes = [vec![n, 4], vec![4, f], vec![f, 4]];
            let arguments = arguments(&shapes);
            let found = sharded.on_ranks(&sharded.local, &arguments).expect("all ranks end");
            assert!(near(&found, &sharded.on_one(&arguments)), "{n}, {f}: {found:?}");
        }
    }
}

/// The block with other extents: of rows, of heads together, of a head, and of the MLP.
fn block([rows, columns, head, wide]: [usize; 4]) -> String {
    let heads = columns / head;
    let text = BLOCK.replace(", 8, 2)", &format!(", {heads}, {head})"));
    let text = text.replace("n, 16)", &format!("n, {columns})"));
    let text = text.replace("(8, 16)", &format!("({rows}, {columns})"));
    let text = text.replace("(16, 8)", &format!("({columns}, {rows})"));
    let text = text.replace("(8, 32)", &format!("({rows}, {wide})"));
    text.replace("(32, 8)", &format!("({wide}, {rows})"))
        .replace("\"n\", 8", &format!("\"n\", {rows}"))
}

/// Six weights, which are compared in turn. Each of the two reductions moves 2 (p - 1) n d elements, at once or by halves.
#[test]
fn a_block_moves_the_bytes_of_the_textbook() {
    let sharded = cut(&block([4096, 4096, 128, 16384]), &[]).expect("it has weights");
    assert_eq!(layouts(&sharded), ["R", "S[1]", "S[1]", "S[1]", "S[0]", "S[1]", "S[0]", "R"]);
    let bytes = sharded.plan.bytes(&mut Prover::new());
    let bytes = bytes.eval(&|name| (name == "n").then_some(100)).ok();
    assert_eq!(bytes, Some(2 * 2 * 3 * 100 * 4096 * 4), "{:?}", collectives(&sharded));
}

/// Where weights are small beside what is computed, other layouts may move fewer bytes; results are the same.
#[test]
fn ranks_compute_a_block_as_one_does() {
    let sharded = cut(&block([8, 16, 2, 32]), &[]).expect("it has weights");
    for n in [0, 1, 5] {
        let shapes = [
            vec![n, 8],
            vec![8, 16],
            vec![8, 16],
            vec![8, 16],
            vec![16, 8],
            vec![8, 32],
            vec![32, 8],
            vec![n, n],
        ];
        let arguments = arguments(&shapes);
        let found = sharded.on_ranks(&sharded.local, &arguments).expect("all ranks end");
        assert!(near(&found, &sharded.on_one(&arguments)), "{n}: {found:?}");
    }
}

/// Weights are cut over the last axis, beside data over the first.
#[test]
fn a_mesh_of_two_axes_has_data_and_weights() {
    let text = MLP.replace("\"4\")", "\"2, 2\")");
    let text = text.replace(
        "x: Tensor((\"n\", 4), \"f32\")",
        "x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"S[0], R\")",
    );
    let sharded = cut(&text, &["up", "down"]).expect("it has weights");
    assert_eq!(layouts(&sharded), ["S[0], R", "R, S[1]", "R, S[0]"]);
}

#[test]
fn what_are_no_weights_is_refused() {
    let why = |text: &str, named: &[&str]| cut(text, named).err().expect("it is refused");
    assert_eq!(
        why(MLP, &[]),
        "no parameter of `main` has two axes, no symbolic dim and no layout: name the weights"
    );
    assert_eq!(
        why(MLP, &["up", "left"]),
        "`left` is no parameter of `main` that is a tensor without a layout"
    );
    let without = MLP.replace("module_attr(\"mesh[0]\", \"4\")", "");
    assert_eq!(why(&without, &["up"]), "the program must declare one mesh");
    let unknown = "module_attr(\"mesh[0]\", \"4\")\n\ndef main(w: Tensor((2, 2), \"f32\")):\n    return unique(w)\n";
    assert_eq!(why(unknown, &[]), "no layout is found with weights that are cut");
}
