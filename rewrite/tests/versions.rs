//! Versions behind guards: which guards there are, that none is empty, and that every version is right where it is
//! called.

use relax_program::frontend::Program;
use relax_rewrite::pass::{Exactness, Settings};
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_rewrite::saturation::{Options, RuleKind, Versioned, Witness, version_module};
use relax_rewrite::verify::{Effort, verify};
use relax_semantics::check::{Checked, Phase, check};
use relax_symbolic::Prover;
use relax_syntax::dim::Dim;
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
    version_module(checked, facts, Some(of_guards), &options, RuleKind::Approximate)
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
