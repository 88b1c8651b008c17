//! Forms of regions compared by what they cost after fusion: a call that fuses is free, and calls on weights are evaluated
//! once.

use relax_lower::pipeline::{FUSION, FUSION_FAST};
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::normalize;
use relax_rewrite::passes::saturate::PREPARATION;
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_rewrite::saturation::{
    Constants, Extraction, Fusion, Options, Report, RuleKind, Units, saturate_module,
    version_module,
};
use relax_semantics::check::{Checked, Phase, check};
use relax_symbolic::Prover;
use relax_syntax::span::Source;

const EVALUATED: Fusion =
    Fusion { passes: &FUSION_FAST, constants: Constants::Evaluated, units: Units::PROCESSOR };
const COMPUTED: Fusion =
    Fusion { passes: &FUSION, constants: Constants::Computed, units: Units::PROCESSOR };

/// A program in the form that rules are about.
fn prepared(text: &str, prover: &mut Prover) -> Checked {
    let module = Program::load(Source::new("program", text)).module;
    let route = Route::Passes([&[&normalize::PASS], PREPARATION].concat());
    let module = run(&module, &route, &Settings::default(), prover, &mut Unwatched);
    let module = module.expect("the program is well-formed");
    let checked = check(&module, prover, Phase::P0);
    assert!(checked.is_ok(), "{text}");
    checked
}

/// What saturation by all rules does to a text.
fn saturated(text: &str, fusion: Option<Fusion>) -> Report {
    saturated_by(text, &Options { fusion, ..Options::default() })
}

fn saturated_by(text: &str, options: &Options) -> Report {
    let mut prover = Prover::new();
    let checked = prepared(text, &mut prover);
    let (kind, extraction) = (RuleKind::Approximate, Extraction::Explained);
    let (_, report) = saturate_module(&checked, &mut prover, options, kind, extraction);
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

/// The cosine and the sine of one tensor are one kernel with two results: what it costs is known, so that the norm beside it is compared
/// after fusion as well.
#[test]
fn a_kernel_with_two_results_has_a_cost() {
    let text = "def main(x: Tensor((\"n\", 64), \"f32\"), t: Tensor((\"n\", 64), \"f32\")):\n    \
                m = mean(x, [1], True)\n    d = subtract(x, m)\n    v = mean(multiply(d, d), [1], True)\n    \
                y = multiply(d, rsqrt(add(v, const(0.00001, \"f32\"))))\n    return (y, cos(t), sin(t))\n";
    assert!(saturated(text, None).rewritten > 0);
    for fusion in [EVALUATED, COMPUTED] {
        assert_eq!(saturated(text, Some(fusion)).rewritten, 0);
    }
}

/// What is saved beside such a kernel is known.
#[test]
fn a_form_is_taken_beside_a_kernel_with_two_results() {
    let text = "def main(a: Tensor((\"n\", \"m\"), \"f32\"), b: Tensor((\"m\", \"k\"), \"f32\"), t: Tensor((\"n\", 64), \"f32\")):\n    \
                y = matmul(permute_dims(b), permute_dims(a))\n    return (relu(permute_dims(y)), cos(t), sin(t))\n";
    for fusion in [EVALUATED, COMPUTED] {
        let rules = rules(&saturated(text, Some(fusion)));
        assert!(rules.iter().any(|rule| rule == "transpose_of_matmul"), "{rules:?}");
    }
}

/// In builds exponentials are not formed without the maximum, nor variances of squares: such rules of the reals overflow or cancel.
#[test]
fn builds_use_rules_of_products_and_exact_ones() {
    let text = "def main(x: Tensor((\"n\", \"m\"), \"f32\"), a: Tensor((\"m\", \"k\"), \"f32\")):\n    \
                y = permute_dims(permute_dims(matmul(x, a)))\n    return (nn.softmax(y), variance(x, [1]), y)\n";
    let options = Options { fusion: Some(EVALUATED), ..Options::of_builds() };
    let report = saturated_by(text, &options);
    let mut applied = report.uses.iter().filter(|(_, uses)| uses.applications > 0);
    assert!(report.uses.keys().all(|name| !name.starts_with("softmax_as_exps")));
    assert!(applied.any(|(name, _)| name == "transpose_of_transpose"));
    assert!(report.uses.keys().any(|name| name.starts_with("matmul_as_broadcast_sum")));
}

/// The guards of the versions of a program, with the limits of builds.
fn guards(text: &str, fusion: Fusion) -> Vec<String> {
    let mut prover = Prover::new();
    let checked = prepared(text, &mut prover);
    let options = Options { fusion: Some(fusion), ..Options::of_builds() };
    let kind = RuleKind::Approximate;
    let (module, report) = version_module(&checked, &mut prover, None, &options, kind);
    assert!(check(&module, &mut prover, Phase::P0).is_ok(), "{text}");
    let versions = report.versions.iter().flat_map(|function| &function.versions);
    versions.map(|version| version.comparisons().join(" and ")).collect()
}

/// The order of products depends on dims.
#[test]
fn the_cheaper_order_after_fusion_gets_a_guard() {
    for (text, expected) in [
        (include_str!("../../bench/rewrites/programs/latent_attention.rx"), &["m <= n", ""][..]),
        (
            include_str!("../../bench/rewrites/programs/linear_attention.rx"),
            &["n <= 64", "m <= 31", ""],
        ),
        (include_str!("../../bench/rewrites/programs/adapter.rx"), &["n <= 383", ""]),
        (
            include_str!("../../bench/rewrites/programs/graph_convolution.rx"),
            &["f <= h and c <= h", ""],
        ),
    ] {
        for fusion in [EVALUATED, COMPUTED] {
            assert_eq!(guards(text, fusion), expected, "{text}");
        }
    }
}

/// Only the run decides whether `r` has so many elements, and whether the window fits. The one is a check; for the other a pass puts the body into
/// functions of its own, and these count.
#[test]
fn checks_are_free_and_functions_that_passes_make_are_not() {
    for x in ["add(reshape(r, [n, 768]), t)", "multiply(t, sum(nn.conv2d(u, v)))"] {
        let text = format!(
            "def main(r: Tensor((\"l\",), \"f32\"), t: Tensor((\"n\", 768), \"f32\"), u: Tensor((1, 1, \"h\", \"g\"), \"f32\"), v: Tensor((1, 1, 4, 4), \"f32\"), \
             w: Tensor((768, 768), \"f32\"), a: Tensor((768, \"k\"), \"f32\"), b: Tensor((\"k\", 768), \"f32\")):\n    n = sym_var()\n    x = {x}\n    \
             return matmul(x, add(w, matmul(a, b)))\n"
        );
        for fusion in [EVALUATED, COMPUTED] {
            let guards = guards(&text, fusion);
            assert!(guards.iter().any(|guard| guard.contains("n <= ")), "{text}: {guards:?}");
        }
    }
}

/// A launch of a GPU takes as long as these products: they stay as they are.
#[test]
fn a_device_with_slow_launches_has_fewer_versions() {
    let text = "def main(a: Tensor((\"n\", \"k\"), \"f32\"), b: Tensor((\"k\", \"m\"), \"f32\"), c: Tensor((\"m\", \"p\"), \"f32\")):\n    \
                n, k, m, p = sym_var(upper_bound=256), sym_var(upper_bound=256), sym_var(upper_bound=256), sym_var(upper_bound=256)\n    \
                return matmul(matmul(a, b), c)\n";
    assert!(!guards(text, COMPUTED).is_empty());
    assert!(guards(text, Fusion { units: Units::GPU, ..COMPUTED }).is_empty());
}

/// A sum of a tensor and itself reads it once: its double costs the same.
#[test]
fn a_tensor_that_is_read_twice_moves_once() {
    let text = "def main(x: Tensor((\"n\",), \"f32\")):\n    return add(x, x)\n";
    assert_eq!(saturated(text, Some(EVALUATED)).rewritten, 0);
}

/// Where all dims gain by one form, there is nothing to choose.
#[test]
fn one_form_for_all_dims_has_no_versions() {
    let text = "def main(a: Tensor((\"n\", \"m\"), \"f32\"), b: Tensor((\"m\", \"k\"), \"f32\")):\n    \
                return relu(relu(matmul(a, b)))\n";
    for fusion in [EVALUATED, COMPUTED] {
        assert!(guards(text, fusion).is_empty());
    }
}
