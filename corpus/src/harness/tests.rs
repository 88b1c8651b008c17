//! Tests of the harness: expectations that it must refuse.

use super::*;

fn failures(text: &str) -> Vec<String> {
    let outcome = run_file("test.rx", text.as_bytes(), Mode::Hold);
    outcome.failures.iter().map(ToString::to_string).collect()
}

const DOUBLE: &str = "def double(x: Tensor((\"n\",), \"f32\")):\n    return add(x, x)\n";

#[test]
fn a_right_value_passes_on_every_route_and_a_wrong_one_fails_on_every_route() {
    assert_eq!(failures(&format!("# run: double([1, 2]) == [2.0, 4.0]\n{DOUBLE}")), [""; 0]);
    let wrong = failures(&format!("# run: double([1, 2]) == [2.0, 5.0]\n{DOUBLE}"));
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].starts_with("line 1: route interpreter"), "{wrong:?}");
    assert!(wrong[0].contains("at [1]: expected 5.0, found 4.0"), "{wrong:?}");
}

#[test]
fn a_missing_trap_and_another_trap_fail() {
    let missing = failures(&format!("# trap[boundary/dim]: double([1])\n{DOUBLE}"));
    assert!(missing[0].contains("expected the trap boundary/dim, found"), "{missing:?}");
    let other = failures(&format!("# trap[boundary/dim]: double([[1]])\n{DOUBLE}"));
    assert!(other[0].contains("found boundary/rank"), "{other:?}");
}

#[test]
fn diagnostics_are_exactly_those_announced() {
    let unexpected = failures("def f(x: Tensor((2,), \"f32\")):\n    return y\n");
    assert!(unexpected.iter().any(|failure| failure.starts_with("line 2: unexpected [RX")));
    let absent = failures(&format!("{DOUBLE}# error[RX0999]\n"));
    assert_eq!(absent, ["line 3: expected a diagnostic RX0999, found none"]);
}

#[test]
fn blessing_rewrites_the_value_alone() {
    let text = format!("# run: double([1, 2]) == [0.0]\n# run: double([3]) == [6.0]\n{DOUBLE}");
    let outcome = run_file("test.rx", text.as_bytes(), Mode::Bless);
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let expected = text.replace("== [0.0]", "== [2.0, 4.0]");
    assert_eq!(outcome.rewritten.as_deref(), Some(expected.as_str()));
}
