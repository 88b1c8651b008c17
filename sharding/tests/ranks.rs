//! Groups of a mesh; ranks that disagree trap with both places, in the same way on every run.

use ndarray::ArrayD;
use relax_semantics::interp::Options;
use relax_semantics::ranks::{Mesh, RanRank, cause, run};
use relax_semantics::stop::{Stop, Trap};
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;

fn mesh(extents: &[usize]) -> Mesh {
    Mesh { name: "mesh[0]".into(), extents: extents.to_vec() }
}

fn module(body: &str) -> Module {
    let text = format!(
        "module_attr(\"mesh[0]\", \"2\")\n\ndef main(world: Shape([\"r\"]), x: Tensor((\"m\",), \"i64\")):\n{body}\n"
    );
    let (file, wrong) = parse_file(&Source::new("ranks", text));
    assert!(wrong.is_empty(), "{wrong:?}");
    let (module, wrong) = resolve_file(&file);
    assert!(wrong.is_empty(), "{wrong:?}");
    module
}

fn arguments(rank: i64, values: &[i128]) -> Vec<Value> {
    let x = Tensor::from_ints(
        DType::I64,
        ArrayD::from_shape_vec(vec![values.len()], values.to_vec()).expect("a vector"),
    );
    vec![Value::Shape(vec![rank]), Value::Tensor(x)]
}

fn ran(body: &str, values: [&[i128]; 2]) -> Vec<RanRank> {
    let given = vec![arguments(0, values[0]), arguments(1, values[1])];
    run(&module(body), &mesh(&[2]), "main", given, &Options::default()).expect("a mesh of two")
}

fn trap(ran: &[RanRank]) -> (usize, Trap) {
    match cause(ran) {
        Some((rank, Stop::Trap(trap))) => (rank, *trap),
        other => panic!("no trap: {other:?}"),
    }
}

#[test]
fn a_group_differs_along_one_axis() {
    let mesh = crate::mesh(&[2, 3]);
    assert_eq!(mesh.coordinates(4), [1, 1]);
    assert_eq!(mesh.group(4, 0), [1, 4]);
    assert_eq!(mesh.group(4, 1), [3, 4, 5]);
    assert_eq!(crate::mesh(&[1 << 40, 1 << 40]).workers(), None);
    assert_eq!(crate::mesh(&[2, 0]).workers(), None);
}

#[test]
fn shards_are_gathered_without_padding() {
    let body = "    return spmd.all_gather(x, \"mesh[0]\", 0, 2, r, 0, 3)";
    for ran in ran(body, [&[1, 2], &[3]]) {
        let Ok(Value::Tensor(value)) = ran.result else { panic!("{:?}", ran.result) };
        assert_eq!(value.to_ints().into_raw_vec_and_offset().0, [1, 2, 3]);
    }
}

#[test]
fn a_shard_of_another_extent_traps() {
    let body = "    return spmd.all_gather(x, \"mesh[0]\", 0, 2, r, 0, 4)";
    let (rank, trap) = trap(&ran(body, [&[1, 2], &[3]]));
    assert_eq!((rank, trap.id.as_str()), (1, "spmd.all_gather/C3"));
}

#[test]
fn other_collectives_trap_with_both_places() {
    let body = "    if equal(const(1, \"i64\"), max(x)):\n        y = spmd.all_reduce(x, \"mesh[0]\", 0, 2, r)\n    else:\n        y = spmd.all_reduce(x, \"mesh[0]\", 0, 2, r, \"max\")\n    return y";
    let (_, trap) = trap(&ran(body, [&[1], &[2]]));
    assert_eq!(trap.id, "ranks/mismatch");
    assert_eq!(trap.places.len(), 1);
    assert_ne!(trap.places[0].0, trap.span);
}

#[test]
fn a_rank_that_ends_early_is_a_deadlock() {
    let body = "    if equal(const(1, \"i64\"), max(x)):\n        y = spmd.all_reduce(x, \"mesh[0]\", 0, 2, r)\n    else:\n        y = x\n    return y";
    let (rank, trap) = trap(&ran(body, [&[1], &[2]]));
    assert_eq!((rank, trap.id.as_str()), (0, "ranks/deadlock"));
}

#[test]
fn a_wrong_rank_and_a_wrong_mesh_trap() {
    for body in [
        "    return spmd.all_reduce(x, \"mesh[0]\", 0, 2, 0)",
        "    return spmd.all_reduce(x, \"mesh[1]\", 0, 2, r)",
        "    return spmd.all_reduce(x, \"mesh[0]\", 1, 2, r)",
        "    return spmd.all_reduce(x, \"mesh[0]\", 0, 3, r)",
    ] {
        assert_eq!(trap(&ran(body, [&[1], &[2]])).1.id, "ranks/mesh", "{body}");
    }
}

#[test]
fn other_shapes_on_ranks_trap() {
    let body = "    return spmd.all_reduce(x, \"mesh[0]\", 0, 2, r)";
    assert_eq!(trap(&ran(body, [&[1], &[2, 3]])).1.id, "spmd.all_reduce/C3");
}
