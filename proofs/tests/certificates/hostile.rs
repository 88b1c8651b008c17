//! What is no certificate, or one that would take for ever: always an answer, and soon.

use crate::samples::{RULES, certificate, samples};
use proptest::prelude::*;
use relax_proofs::{check, check_all};
use std::time::{Duration, Instant};

fn refusal(goal: &str, fails: &str) -> String {
    let begin = Instant::now();
    let refused = check(&certificate(&[], goal, "{\"closed\": 10}", fails), Some(RULES));
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    refused.expect_err("it is hostile").why
}

#[test]
fn nesting_is_limited() {
    let deep =
        |open: &str, close: &str| format!("{}x{} == x", open.repeat(50_000), close.repeat(50_000));
    for goal in [deep("(", ")"), deep("-", ""), deep("min(1, ", ")"), deep("1 + (", ")")] {
        assert!(refusal(&goal, "").contains("operators nest deeper than 250"));
    }
    let nots = format!("{}x == x", "not ".repeat(50_000));
    assert!(refusal(&nots, "").contains("operators nest deeper than 250"));
    let parts = vec!["x == x"; 50_000].join(" and ");
    assert!(refusal(&parts, "").contains("a statement of more than 1000 parts"));
    let json = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(check(&json, None).is_err());
}

#[test]
fn long_chains_are_no_deep_recursion() {
    let sum = vec!["x"; 5_000].join(" + ");
    let text = certificate(
        &[],
        &format!("{sum} == 5000 * x"),
        "{\"closed\": 10}",
        "{\"id\": [51], \"open\": 50}\n{\"closed\": 51}",
    );
    assert!(check(&text, None).is_ok());
    let parts = vec!["x == x"; 900].join(" and ");
    assert!(refusal(&parts, "{\"closed\": 50}").contains("may be"));
}

#[test]
fn branches_nest_as_deep_as_they_like() {
    let mut fails = String::from("{\"id\": [51], \"open\": 50}\n");
    let depth = 50_000;
    for level in 0..depth {
        let id = 52 + level;
        fails += &format!("{{\"split\": \"x\"}}\n{{\"case\": [{id}]}}\n");
    }
    fails += "{\"closed\": 51}";
    for id in 52 + depth..52 + 2 * depth {
        fails += &format!(
            "\n{{\"end\": true}}\n{{\"case\": [{id}]}}\n{{\"closed\": 51}}\n{{\"end\": true}}"
        );
    }
    let text = certificate(&[], "x == x", "{\"closed\": 10}", &fails);
    assert_eq!(check(&text, None).map(|checked| checked.steps), Ok(3 * depth - depth + 3));
}

#[test]
fn polynomials_are_limited() {
    let why = |text: &str| refusal("x == y", &format!("{{\"split\": \"{text}\"}}"));
    let names: Vec<String> = (0..200).map(|index| format!("x{index}")).collect();
    let sum = format!("({})", names.join(" + "));
    assert!(why(&format!("{sum} * {sum}")).contains("more than 5000 terms"));
    assert!(why(&vec!["x"; 200].join(" * ")).contains("more than 100 factors"));
    let nines = "9".repeat(500);
    assert!(why(&format!("{nines} * {nines}")).contains("more than 2000 bits"));
    assert!(why(&"9".repeat(100_000)).contains("more than 600 digits"));
    assert!(why("001").contains("a number that begins with 0"));
    assert!(why(&" ".repeat(2 << 20)).contains("a line of more than"));
}

#[test]
fn work_is_limited() {
    let names: Vec<String> = (0..60).map(|index| format!("x{index}")).collect();
    let sum = format!("({})", names.join(" + "));
    let mut fails = String::new();
    for level in 0..20_000 {
        fails += &format!("{{\"split\": \"{sum} * {sum}\"}}\n{{\"case\": [{}]}}\n", 51 + level);
    }
    assert!(refusal("x == y", &fails).contains("takes too much work"));
}

#[test]
fn messages_are_short_and_printable() {
    let quotients = (0..60).fold("x".to_owned(), |text, _| format!("(x * y // ({text}))"));
    let line = format!("{{\"id\": 51, \"square\": \"{quotients}\", \"is\": \"0 >= 0\"}}");
    assert!(refusal("x == y", &line).len() < 1_100);
    let refused = check("{\"\\u001b[2J\": 1, \"relax\": \"certificate\"}", None);
    assert!(!refused.expect_err("no header").to_string().contains('\u{1b}'));
    let named =
        "{\"relax\": \"certificate\", \"version\": 1, \"hypotheses\": [], \"goal\": \"\\u001b\"}";
    assert!(!check(named, None).expect_err("no goal").to_string().contains('\u{1b}'));
}

/// A piece of what certificates are made of, or anything.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "{\"id\": 51, ",
        "\"is\": ",
        "\"lin\": [[",
        "]], ",
        "\"x >= 0\"",
        "}\n",
        "{\"case\": [",
        "]}\n",
        "{\"end\": true}\n",
        "{\"closed\": ",
        "50",
        "0",
        "\"x // 0\"",
        "-1",
        "\"relax\": ",
        "{",
        "[",
        "null",
        "\"quotient\": ",
        "\"with\": {",
        "\"rule\": \"div-multiple\", ",
        "1e99",
        "\"min(x, y)\"",
        "\\u0000",
    ]);
    prop_oneof![words.prop_map(str::to_owned), ".{0,4}"]
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pieces_never_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        let text = pieces.concat();
        let after = format!("{}\n{text}", certificate(&["x >= 0"], "x == x", "{\"closed\": 10}", ""));
        prop_assert!(check_all(&text, Some(RULES)).iter().all(Result::is_err));
        prop_assert!(check(&after, Some(RULES)).is_err());
    }

    #[test]
    fn broken_bytes_never_panic(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let samples = samples();
        let mut bytes = which.get(&samples).text.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = check(&String::from_utf8_lossy(&bytes), Some(RULES));
    }

    #[test]
    fn terms_of_pieces_never_panic(words in prop::collection::vec(prop::sample::select(vec![
        "x", "0", "7", "(", ")", "+", "-", "*", "//", "%", "==", "<", "and", "or", "not", "min(", "max(",
        "ceildiv(", "divides(", "implies(", ",", "True", " ",
    ]), 0..30)) {
        let _ = check(&certificate(&[], &words.concat(), "{\"closed\": 10}", "{\"cases\": 50}"), None);
    }
}
