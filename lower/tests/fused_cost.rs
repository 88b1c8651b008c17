//! Forms of regions compared by what they cost after fusion: a call that fuses is free, and calls on weights are evaluated
//! once.

use relax_lower::pipeline::{FUSION, FUSION_FAST};
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::normalize;
use relax_rewrite::passes::saturate::PREPARATION;
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_rewrite::saturation::{
    Constants, Extraction, Fusion, Options, Report, RuleKind, saturate_module,
};
use relax_semantics::check::{Phase, check};
use relax_symbolic::Prover;
use relax_syntax::span::Source;

const EVALUATED: Fusion = Fusion { passes: &FUSION_FAST, constants: Constants::Evaluated };
const COMPUTED: Fusion = Fusion { passes: &FUSION, constants: Constants::Computed };

/// What saturation by all rules does to a text.
fn saturated(text: &str, fusion: Option<Fusion>) -> Report {
    let module = Program::load(Source::new("program", text)).module;
    let mut prover = Prover::new();
    let route = Route::Passes([&[&normalize::PASS], PREPARATION].concat());
    let module = run(&module, &route, &Settings::default(), &mut prover, &mut Unwatched);
    let module = module.expect("the program is well-formed");
    let checked = check(&module, &mut prover, Phase::P0);
    assert!(checked.is_ok(), "{text}");
    let options = Options { fusion, ..Options::default() };
    let (kind, extraction) = (RuleKind::Approximate, Extraction::Explained);
    let (_, report) = saturate_module(&checked, &mut prover, &options, kind, extraction);
    for region in report.functions.iter().flat_map(|function| &function.regions) {
        assert!(region.replays, "{text}");
    }
    report
}

fn rules(report: &Report) -> Vec<String> {
    report.rules_used().iter().map(|rule| rule.name.to_string()).collect()
}

/// A norm that is written out is one kernel. With the operator `variance` in it, it is two.
#[test]
fn a_stitched_norm_is_not_taken_apart() {
    let text = "def main(x: Tensor((\"n\", 64), \"f32\")):\n    m = mean(x, [1], True)\n    d = subtract(x, m)\n    \
                v = mean(multiply(d, d), [1], True)\n    return multiply(d, rsqrt(add(v, const(0.00001, \"f32\"))))\n";
    let apart = rules(&saturated(text, None));
    assert!(apart.iter().any(|rule| rule == "variance_as_distance"), "{apart:?}");
    for fusion in [EVALUATED, COMPUTED] {
        assert_eq!(saturated(text, Some(fusion)).rewritten, 0);
    }
}

/// Two transposes and an activation are gone on any machine.
#[test]
fn what_costs_less_after_fusion_is_taken() {
    let text = "def main(a: Tensor((\"n\", \"m\"), \"f32\"), b: Tensor((\"m\", \"k\"), \"f32\")):\n    \
                y = matmul(permute_dims(b), permute_dims(a))\n    return relu(relu(permute_dims(y)))\n";
    for fusion in [EVALUATED, COMPUTED] {
        let report = saturated(text, Some(fusion));
        assert!(
            rules(&report).iter().any(|rule| rule == "transpose_of_matmul"),
            "{:?}",
            rules(&report)
        );
    }
}

/// A product of weights costs nothing where it is evaluated when the module is built.
#[test]
fn weights_are_multiplied_where_that_is_done_once() {
    let text = "def main(x: Tensor((\"n\", 64), \"f32\")):\n    a = param(\"a\", Tensor((64, 64), \"f32\"))\n    \
                b = param(\"b\", Tensor((64, 64), \"f32\"))\n    return matmul(matmul(x, a), b)\n";
    let merged = saturated(text, Some(EVALUATED));
    assert_eq!((merged.rewritten, rules(&merged)), (1, vec!["matmul_associates".to_owned()]));
    assert_eq!(saturated(text, Some(COMPUTED)).rewritten, 0);
}
