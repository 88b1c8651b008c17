//! Programs without layouts, cut along a dim.

use crate::{Sharded, arguments, load, near};
use relax_program::frontend::print;
use relax_sharding::data::cut_along;

const PLAIN: &str = r#"module_attr("mesh[0]", "3, 2")

def main(x: Tensor(("b", "n", 4), "f32"), w: Tensor((4, 5), "f32"), kept: Tensor(("n", "b"), "f32")):
    h = relu(matmul(x, w))
    return multiply(sum(h, axis=[2]), permute_dims(kept))
"#;

fn cut(dim: &str) -> Result<Sharded, String> {
    cut_along(&load(PLAIN), "main", &dim.into()).map(|module| crate::sharded(&print(&module)))
}

#[test]
fn a_program_without_layouts_is_cut_along_a_dim() {
    let sharded = cut("b").expect("two parameters have it");
    assert!(sharded.text.contains("x: Tensor((\"min(max(b - rank_0"), "{}", sharded.text);
    // The result has no layout in the text: it is gathered. Nothing else is moved.
    assert_eq!(sharded.plan.moves().count(), 1, "{}", sharded.text);
    for (b, n) in [(0, 3), (1, 1), (2, 0), (5, 7), (9, 2)] {
        let shapes = [vec![b, n, 4], vec![4, 5], vec![n, b]];
        let arguments = arguments(&shapes);
        let found = sharded.on_ranks(&sharded.local, &arguments).expect("all ranks end");
        assert!(near(&found, &sharded.on_one(&arguments)), "{b}, {n}: {found:?}");
    }
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let why = |result: Result<Sharded, String>| result.err().expect("it is refused");
    assert_eq!(why(cut("m")), "no parameter of `main` has the dim `m`");
    let refused = |text: &str, function: &str| cut_along(&load(text), function, &"b".into()).err();
    let without = PLAIN.replace("module_attr(\"mesh[0]\", \"3, 2\")", "");
    assert_eq!(refused(&without, "main").as_deref(), Some("the program must declare one mesh"));
    assert_eq!(refused(PLAIN, "other").as_deref(), Some("there is no function `other`"));
}
