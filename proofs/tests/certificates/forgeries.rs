//! Proofs of true statements with the header of false ones, and proofs with a case left out.

use crate::reading::counterexample;
use crate::samples::{RULES, Sample, certificate, hashed, samples};
use relax_proofs::check;
use serde_json::{Value, json};

/// False statements with their hypotheses, of those that the checker can read.
fn refuted() -> Vec<(Vec<String>, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../symbolic/tests/arith_cases.jsonl");
    let data = std::fs::read_to_string(path).expect("the cases of the prover's tests");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let mut found = Vec::new();
    for line in data.lines() {
        let case: Value = serde_json::from_str(line).expect("a JSON object a line");
        if case["expect"] == "refuted" {
            let assumed = case["assume"].as_array().expect("a list").iter().map(text).collect();
            let case = (assumed, text(&case["query"]));
            if can_be_read(&case) {
                found.push(case);
            }
        }
    }
    found
}

fn header((hypotheses, goal): &(Vec<String>, String), like: &str) -> String {
    let mut header: Value = serde_json::from_str(like).expect("a header");
    header["hypotheses"] = json!(hypotheses);
    header["goal"] = json!(goal);
    header.to_string()
}

/// Without `select` and comparisons of statements: a certificate that only trusts reads the header.
fn can_be_read(case: &(Vec<String>, String)) -> bool {
    let plain = certificate(&[], "True", "", "");
    let header = header(case, plain.lines().next().expect("a header"));
    let question = "0".repeat(64);
    let known: Vec<&str> = case.0.iter().map(String::as_str).collect();
    let statement = hashed(&known, &case.1);
    let trust = json!({"trust": "z3", "version": "4", "rlimit": 1, "question": question, "statement": statement});
    check(&format!("{header}\n{trust}\n"), None).is_ok()
}

/// A proof under another header.
fn forged(sample: &Sample, case: &(Vec<String>, String)) -> String {
    let (old, proof) = sample.text.split_once('\n').expect("a header and a proof");
    format!("{}\n{proof}", header(case, old))
}

#[test]
fn proofs_of_other_statements_are_refused() {
    let (samples, refuted) = (samples(), refuted());
    assert!(refuted.len() > 500, "there are false statements: {}", refuted.len());
    for case in &refuted {
        for sample in &samples {
            let text = forged(sample, case);
            assert!(check(&text, Some(RULES)).is_err(), "{}: {text}", sample.name);
        }
    }
}

/// What a careless checker could fall for: a goal that is closed at once, in all its shapes.
#[test]
fn false_statements_have_no_short_proofs() {
    let ends = [
        "{\"closed\": 50}",
        "{\"cases\": 50}",
        "{\"id\": [51], \"open\": 50}\n{\"closed\": 51}",
        "{\"id\": [51, 52], \"open\": 50}\n{\"closed\": 52}",
        "{\"id\": [51], \"open\": 0}\n{\"closed\": 51}",
        "{\"closed\": 0}",
    ];
    for case in &refuted() {
        for end in ends {
            for undefined in ["{\"closed\": 10}", "{\"cases\": 10}"] {
                let first = 10.max(case.0.len());
                let shape =
                    certificate(&[], "True", undefined, end).replace("10", &first.to_string());
                let (old, proof) = shape.split_once('\n').expect("a header and a proof");
                let text = format!("{}\n{proof}", header(case, old));
                assert!(check(&text, None).is_err(), "{text}");
            }
        }
    }
}

/// The lines of each case, from `case` to its `end`.
fn cases(lines: &[&str]) -> Vec<(usize, usize)> {
    let (mut open, mut cases) = (Vec::new(), Vec::new());
    for (index, line) in lines.iter().enumerate() {
        if line.contains("\"case\"") {
            open.push(index);
        } else if line.contains("\"end\"") {
            cases.push((open.pop().expect("an end of a case"), index));
        }
    }
    cases
}

#[test]
fn no_case_can_be_left_out() {
    let mut left_out = 0;
    for sample in samples() {
        let lines: Vec<&str> = sample.text.lines().collect();
        for (begin, end) in cases(&lines) {
            let text = [&lines[..begin], &lines[end + 1..]].concat().join("\n");
            assert!(check(&text, Some(RULES)).is_err(), "{}: {text}", sample.name);
            left_out += 1;
        }
    }
    assert!(left_out > 80, "{left_out}");
}

/// A goal that fails nowhere, but has no value somewhere.
#[test]
fn undefined_goals_are_no_theorems() {
    let goal = "x // n <= x // n";
    assert!(counterexample(&[], goal).is_some());
    let fails = "{\"id\": [51, 52, 53], \"open\": 50}\n{\"closed\": 53}";
    let why = |undefined: &str| {
        check(&certificate(&[], goal, undefined, fails), None).expect_err("it is false").why
    };
    assert_eq!(why("{\"closed\": 10}"), "the fact 10, `a statement`, may be");
    let case = "{\"cases\": 10}\n{\"case\": [11]}\n{\"closed\": 11}\n{\"end\": true}";
    assert_eq!(why(case), "the fact 11, `n == 0`, may be");
}
