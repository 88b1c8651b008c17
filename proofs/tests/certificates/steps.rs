//! Every sample is accepted, and every wrong neighbour of it refused for its reason.

use crate::reading::counterexample;
use crate::samples::{RULES, certificate, hashed, samples};
use relax_proofs::{Outcome, check, check_all};

#[test]
fn samples_are_accepted() {
    for sample in samples() {
        let checked = check(&sample.text, Some(RULES));
        let checked =
            checked.unwrap_or_else(|why| panic!("{}: {why}\n{}", sample.name, sample.text));
        assert_eq!(checked.outcome, Outcome::Proved, "{}", sample.name);
        let found = counterexample(&checked.hypotheses, &checked.goal);
        assert_eq!(found, None, "{}", sample.name);
    }
}

#[test]
fn wrong_neighbours_are_refused() {
    let mut findings = Vec::new();
    for sample in samples() {
        let name = sample.name;
        for (from, to, reason) in sample.wrong {
            assert!(sample.text.contains(from), "{name}: there is no `{from}`");
            match check(&sample.text.replacen(from, to, 1), Some(RULES)) {
                Err(refused) if refused.why.contains(reason) => {}
                other => findings.push(format!("{name}: `{from}` to `{to}`: {other:?}")),
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn what_was_checked_is_told() {
    let of = |name| samples().into_iter().find(|sample| sample.name == name).expect("a sample");
    let checked = check(&of("rule").text, Some(RULES)).expect("a right certificate");
    assert_eq!(
        (checked.hypotheses, checked.goal),
        (vec!["n >= 1".into()], "(m * n) // n == m".into())
    );
    assert_eq!((checked.steps, checked.rules_used), (8, vec!["div-multiple".to_owned()]));
    let refused = check(&of("rule").text, None).expect_err("without rules");
    assert_eq!(
        refused.to_string(),
        "line 1: the certificate uses rules, of which this checker has none"
    );
}

/// The line of a solver under the header of this goal.
fn trust(goal: &str) -> String {
    let (question, statement) = ("ab".repeat(32), hashed(&[], goal));
    format!(
        r#"{{"trust": "z3", "version": "4.16.0", "rlimit": 12, "question": "{question}", "statement": "{statement}"}}"#
    )
}

fn header(goal: &str) -> String {
    let text = certificate(&[], goal, "", "");
    text.lines().next().expect("a header").to_owned()
}

#[test]
fn what_a_solver_decided_is_only_trusted() {
    let trust = trust("x == x");
    let text = format!("{}\n{trust}\n", header("x == x"));
    let checked = check(&text, None).expect("a certificate that trusts");
    let solver = Outcome::Trusted {
        solver: "z3".into(),
        version: "4.16.0".into(),
        rlimit: 12,
        question: "ab".repeat(32),
    };
    assert_eq!(checked.outcome, solver);
    let why = |text: &str| check(text, None).expect_err("it is wrong").why;
    assert_eq!(why(&format!("{text}{trust}\n")), "the proof ended before this line");
    assert_eq!(why(&text.replace(", \"rlimit\": 12", "")), "the key `rlimit` is missing");
    assert_eq!(
        why(&text.replace("x == x", "x ==")),
        "the goal: expected a term or a statement, found the end of the text"
    );
    assert_eq!(
        why(&text.replace("abab", "ab")),
        "`question` must be a SHA-256, 64 hexadecimal digits"
    );
    assert_eq!(why(&text.replace("\"z3\"", "\"me\"")), "`trust` must be `z3`");
    for other in ["x == x + 0", "x != x"] {
        let why = why(&format!("{}\n{trust}\n", header(other)));
        assert!(why.starts_with("`statement` is of another statement"), "{why}");
    }
    let assumed = certificate(&["x > 0"], "x == x", "", "");
    let assumed = assumed.lines().next().expect("a header");
    assert!(why(&format!("{assumed}\n{trust}\n")).contains(&hashed(&["x > 0"], "x == x")));
    let unbound = text.replace("statement", "statements");
    assert_eq!(why(&unbound), "the key `statement` is missing");
    let late = format!("{}\n{{\"case\": [0]}}\n{trust}\n", header("x == x"));
    assert_eq!(why(&late), "neither a derivation nor the end of a branch");
}

#[test]
fn headers_are_read_strictly() {
    let why = |text: &str| check(text, None).expect_err("it is wrong").to_string();
    assert_eq!(why(""), "line 1: there is no certificate");
    let header = header("x == x");
    assert_eq!(why(&header), "line 1: the certificate ends before its proof does");
    assert_eq!(why(&header.replace("1,", "2,")), "line 1: no certificate of version 1");
    assert_eq!(why(&header.replace("\"goal\"", "\"gaol\"")), "line 1: the key `goal` is missing");
    assert_eq!(why("[1]").split(':').nth(1), Some(" no JSON object"));
}

#[test]
fn terms_are_read_strictly() {
    let of = |goal: &str| {
        check(&format!("{}\n{}\n", header(goal), trust(goal)), None).map_err(|e| e.why)
    };
    for right in
        ["-x // 2 == x", "not not x < -1", "min(a, b, c) == max(a, b) % 3", "(((x))) == (1)"]
    {
        assert!(of(right).is_ok(), "{right}");
    }
    for wrong in [
        "x",
        "x == 1 == 2",
        "x < y < z",
        "1 + (x == y) == 2",
        "and == 1",
        "min == 1",
        "x = 1",
        "x == 1;",
        "x / 2 == 1",
        "true",
        "x == not y",
        "not x",
        "divides(x)",
        "implies(x == 1, y)",
        "f(x) == 1",
        "x y == 1",
        "x == (1",
        "x == 1)",
        "ceildiv(x, 2, 3) == 1",
        "x == 1.5",
        "é == 1",
        "x ** 2 == 1",
        "x == 0x10",
        "x ==\\n1",
        "where == 1",
        "",
        "True == True",
        "x == - -",
    ] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn several_certificates_stand_in_a_text() {
    let one = &samples()[0].text;
    let text = format!(
        "\n{one}\n{}\n{}\n{one}{{\"end\": true}}\n{one}",
        header("x == x"),
        trust("x == x")
    );
    let found: Vec<Result<(), usize>> = check_all(&text, None)
        .into_iter()
        .map(|result| result.map(|_| ()).map_err(|refused| refused.line))
        .collect();
    let lines = one.lines().count();
    assert_eq!(found, [Ok(()), Ok(()), Err(2 * lines + 5), Ok(())]);
    assert!(check_all("", None)[0].is_err());
}
