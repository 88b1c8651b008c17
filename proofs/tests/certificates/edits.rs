//! Random edits of right certificates: what is still accepted must still be true.

use crate::reading::counterexample;
use crate::samples::{RULES, samples};
use proptest::prelude::*;
use relax_proofs::{Outcome, check};

/// One edit; positions are taken modulo what there is.
#[derive(Clone, Debug)]
enum Edit {
    Delete(usize),
    Repeat(usize, usize),
    Swap(usize, usize),
    /// The n-th number becomes this one.
    Number(usize, i8),
    /// The n-th number becomes the m-th.
    Copy(usize, usize),
    /// The n-th operator or word becomes another of its kind.
    Word(usize, usize),
}

/// What may stand for each other.
const KINDS: &[&[&str]] = &[
    &[">=", "<=", "==", "!=", " < ", " > "],
    &[" + ", " - ", " * ", " // ", " % "],
    &[" and ", " or "],
    &["min", "max"],
    &["low", "high"],
    &["\"x\"", "\"n\"", "\"a\"", "\"y\""],
    &["x", "y", "n"],
];

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<u16>().prop_map(usize::from);
    let two = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| (usize::from(a), usize::from(b)));
    prop_oneof![
        place.prop_map(Edit::Delete),
        two.clone().prop_map(|(a, b)| Edit::Repeat(a, b)),
        two.clone().prop_map(|(a, b)| Edit::Swap(a, b)),
        (any::<u16>(), -3..6i8).prop_map(|(a, b)| Edit::Number(usize::from(a), b)),
        two.clone().prop_map(|(a, b)| Edit::Copy(a, b)),
        two.prop_map(|(a, b)| Edit::Word(a, b)),
    ]
}

/// Where numbers stand, the version and the hash left out.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    for piece in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = piece.trim_end_matches(|c: char| !c.is_ascii_digit()).len();
        if digits > 0 {
            found.push((at, at + digits));
        }
        at += piece.len();
    }
    found
}

fn replaced(text: &str, (begin, end): (usize, usize), new: &str) -> String {
    format!("{}{new}{}", &text[..begin], &text[end..])
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let count = lines.len();
    match *edit {
        Edit::Delete(line) => {
            lines.remove(line % count);
        }
        Edit::Repeat(line, to) => lines.insert(to % count, lines[line % count]),
        Edit::Swap(a, b) => lines.swap(a % count, b % count),
        Edit::Number(n, value) => {
            let places = numbers(text);
            return replaced(text, places[n % places.len()], &value.to_string());
        }
        Edit::Copy(n, from) => {
            let places = numbers(text);
            let (begin, end) = places[from % places.len()];
            return replaced(text, places[n % places.len()], &text[begin..end]);
        }
        Edit::Word(n, to) => {
            let kind = KINDS[to % KINDS.len()];
            let words = kind.iter().flat_map(|word| text.match_indices(word));
            let mut places: Vec<(usize, &str)> = words.collect();
            places.sort_unstable();
            if places.is_empty() {
                return text.to_owned();
            }
            let (begin, word) = places[n % places.len()];
            return replaced(
                text,
                (begin, begin + word.len()),
                kind[to / KINDS.len() % kind.len()],
            );
        }
    }
    lines.join("\n")
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases.unwrap_or(3_000))
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_accepted_is_true(which in any::<prop::sample::Index>(), edits in prop::collection::vec(edit(), 1..4)) {
        let samples = samples();
        let sample = which.get(&samples);
        let text = edits.iter().fold(sample.text.clone(), |text, edit| apply(&text, edit));
        if let Ok(checked) = check(&text, Some(RULES)) {
            prop_assert_eq!(checked.outcome, Outcome::Proved);
            let found = counterexample(&checked.hypotheses, &checked.goal);
            prop_assert_eq!(found, None, "{}", text);
        }
    }
}

#[test]
fn edits_are_sometimes_harmless() {
    let mut accepted = 0;
    for sample in samples() {
        for n in 0..numbers(&sample.text).len() {
            for value in 0..4 {
                let text = apply(&sample.text, &Edit::Number(n, value));
                if let Ok(checked) = check(&text, Some(RULES)) {
                    let found = counterexample(&checked.hypotheses, &checked.goal);
                    assert_eq!(found, None, "{text}");
                    accepted += 1;
                }
            }
        }
    }
    assert!(accepted > 50, "the test would say nothing of accepted certificates: {accepted}");
}
