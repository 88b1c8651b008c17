//! Versions behind guards: which guards there are, that none is empty, and that every version is right where it is
//! called; and the costs that are compared for it.

use relax_program::frontend::Program;
use relax_rewrite::classes::{Class, Sizes, Tree};
use relax_rewrite::pass::{Exactness, Settings};
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_rewrite::saturation::{
    Options, Polynomial, RuleKind, Versioned, Witness, version_module,
};
use relax_rewrite::verify::{Effort, verify};
use relax_semantics::check::{Checked, Phase, check};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts};
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

/// A prover to whom no question on guards is decided.
struct Silent;

impl Facts for Silent {
    fn assume(&mut self, _: Claim) {}
    fn push(&mut self) {}
    fn pop(&mut self) {}
    fn decide(&mut self, _: &Claim) -> Answer {
        Answer::Unknown
    }
    fn simplify(&mut self, dim: &Dim) -> Dim {
        dim.clone()
    }
}

fn checked(text: &str) -> Checked {
    let program = Program::load(Source::new("case", text));
    assert!(program.diagnostics.is_empty(), "{text}\n{:?}", program.diagnostics);
    let route = PIPELINE.named("lift_lambdas,normalize,eliminate_broadcasts").expect("they exist");
    let facts = &mut Prover::new();
    let module = run(&program.module, &route, &Settings::default(), facts, &mut Unwatched);
    check(&module.expect("it is normalized"), facts, Phase::P0)
}

fn versions(checked: &Checked, of_guards: &mut dyn Facts) -> (Module, Vec<Versioned>) {
    let (facts, options) = (&mut Prover::new(), Options::default());
    let kind = RuleKind::Approximate;
    let (module, report) = version_module(checked, facts, Some(of_guards), &options, kind);
    (module, report.versions)
}

fn guards(versioned: &[Versioned]) -> Vec<String> {
    let versions = versioned.iter().flat_map(|function| &function.versions);
    let text = |guard: &[Claim]| guard.iter().map(ToString::to_string).collect::<Vec<_>>();
    versions.map(|version| text(&version.guard).join(" and ")).collect()
}

const TAIL: &str = r#"
def main(x: Tensor(("n",), "f32"), y: Tensor(("m",), "f32")):
    n, m = sym_var(), sym_var()
    return strided_slice(concat([x, y], 0), [0], [m], [m + n])
"#;
const VECTORS: &str = r#"
def main(x: Tensor(("n",), "f32")):
    n = sym_var()
    return relu(strided_slice(x, [0], [0], [n // 4 * 4]))
"#;
const TRUNCATED: &str = r#"
def main(x: Tensor(("b", "n"), "f32")):
    n = sym_var()
    return relu(strided_slice(x, [1], [0], [min(n, 64)]))
"#;
/// The product of the first two is tall: what is cheap where `m <= k` is of no use.
const TALL: &str = r#"
def main(a: Tensor(("m", "k"), "f32"), b: Tensor(("k", "n"), "f32"), x: Tensor(("n", "p"), "f32")):
    m, k, n, p = sym_var(), sym_var(), sym_var(), sym_var()
    tall = match_cast(a, Tensor((k + 1, k), "f32"))
    wide = match_cast(x, Tensor((p + 1, p), "f32"))
    return (matmul(matmul(a, b), x), tall, wide)
"#;

#[test]
fn what_is_undecided_becomes_a_guard() {
    for (text, expected) in [(TAIL, "m == n"), (VECTORS, "divides(4, n)"), (TRUNCATED, "n <= 64")] {
        let before = checked(text);
        let (module, versioned) = versions(&before, &mut Prover::new());
        assert_eq!(guards(&versioned), [expected, ""], "{text}");
        for version in &versioned[0].versions {
            assert!(matches!(version.witness, Witness::Dims(_)), "{text}");
        }
        assert_eq!(
            versioned[0].versions.iter().map(|it| it.needs_guard).collect::<Vec<_>>(),
            [true, false]
        );
        assert!(check(&module, &mut Prover::new(), Phase::P0).is_ok(), "{text}");
        let effort = Effort { cases: 60, seed: 5 };
        let tally = verify(&before.module, &module, Exactness::Exact, effort, &BTreeMap::new());
        let tally = tally.unwrap_or_else(|difference| panic!("{text}: {difference}"));
        assert!(tally.compared >= 20, "{text}: {tally}");
    }
}

/// Under what the casts say, `m <= k` never holds.
#[test]
fn an_empty_guard_is_dropped() {
    let before = checked(TALL);
    let (_, versioned) = versions(&before, &mut Prover::new());
    let found = guards(&versioned);
    assert!(
        found.iter().all(|guard| !guard.contains("m <= k") && !guard.contains("n <= p")),
        "{found:?}"
    );
}

/// Whoever cannot decide it keeps the version, and says so.
#[test]
fn an_undecided_guard_is_kept_and_listed() {
    let before = checked(TALL);
    let (_, versioned) = versions(&before, &mut Silent);
    let unknown = versioned.iter().flat_map(|function| &function.versions);
    assert!(unknown.filter(|version| version.witness == Witness::Unknown).count() > 0);
}

fn poly(text: &str) -> Polynomial {
    let parse = |part: &str| {
        let factors = part.split('*').map(|factor| match factor.trim().parse() {
            Ok(value) => Dim::Int(value),
            Err(_) => Dim::var(factor.trim()),
        });
        factors.fold(Dim::Int(1), |all, factor| Dim::op(DimOp::Mul, all, factor))
    };
    let sum = text.split('+').map(parse);
    Polynomial::of(&sum.fold(Dim::Int(0), |all, part| Dim::op(DimOp::Add, all, part)))
}

#[test]
fn compares_for_all_dims() {
    let one = |_: &Name| 1;
    let zero = |_: &Name| 0;
    assert!(poly("n").is_at_most(&poly("n*m"), &one));
    assert!(!poly("n").is_at_most(&poly("n*m"), &zero));
    assert!(poly("n+n*m").is_at_most(&poly("m*n*2"), &one));
    assert!(!poly("n").is_at_most(&poly("m"), &one));
    assert!(!poly("n*m").is_at_most(&poly("n"), &one));
}

#[test]
fn prints_as_a_sum() {
    assert_eq!(poly("2*n*m+n+3").to_string(), "2 * m * n + n + 3");
}

/// Which version a product gets on a device.
const TREE: &str = "if m*n < 4096\n  if m < 8\n    elements\n  else\n    tiles\nelse\n  squares\n";

fn read(text: &str) -> Result<Tree, String> {
    Tree::parse(&text.lines().collect::<Vec<_>>(), 3)
}

#[test]
fn a_tree_is_its_text() {
    let tree = read(TREE).expect("it is a tree");
    assert_eq!(tree.to_string(), TREE);
    assert_eq!(tree.depth(), 2);
    let class = |rows, columns| tree.class(&Sizes { rows, terms: 1, columns, bytes: 4 });
    assert_eq!(class(7, 8), Class::Elements);
    assert_eq!(class(8, 8), Class::Tiles);
    assert_eq!(class(64, 64), Class::Squares);
    assert_eq!(class(i64::MAX, i64::MAX), Class::Squares);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (from, to, told) in [
        ("m < 8", "q < 8", "line 4"),
        ("m < 8", "m < 0", "line 4"),
        ("m < 8", "m < 99999999999999999999", "line 4"),
        ("elements", "atoms", "line 5"),
        ("  else\n", "", "line 6"),
        ("else\n  squares\n", "", "line 8"),
        ("squares", "squares\ntiles", "line 10"),
        ("squares", "if m < 2\nif m < 2\nif m < 2", "line 11"),
    ] {
        let error = read(&TREE.replacen(from, to, 1)).expect_err(to);
        assert!(error.starts_with(told), "{to}: {error}");
    }
}

/// Found by halves, and so that all versions between are the tree's.
#[test]
fn versions_along_a_number_are_those_of_each() {
    let tree = read(TREE).expect("it is a tree");
    for sizes in [
        (|rows| Sizes { rows, terms: 3, columns: 100, bytes: 4 }) as fn(i64) -> Sizes,
        |both| Sizes { rows: both, terms: both, columns: both, bytes: 4 },
        |terms| Sizes { rows: 9, terms, columns: 9, bytes: 4 },
    ] {
        let found = tree.along(&sizes);
        assert_eq!(found[0].0, 1);
        for number in 1..5000 {
            let last = found.iter().rfind(|(start, _)| *start <= number);
            assert_eq!(last.map(|(_, class)| *class), Some(tree.class(&sizes(number))));
        }
    }
}
