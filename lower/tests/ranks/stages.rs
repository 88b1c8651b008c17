//! Certificates of pipelines: what one worker of an axis alone has, and the branches that it takes alone.

use crate::pipelines::{pipelines, pipelines_on};
use crate::programs::Case;
use crate::{Sharded, bugs_by_rule, certificate, demand_proofs, is_proved, open, sharded};
use relax_corpus::sample::Sample;
use std::collections::BTreeSet;

#[test]
fn pipelines_are_proved_for_all_dims() {
    demand_proofs(Sample::of("certificates of pipelines", 2).take(pipelines()).collect());
}

/// Of any number of workers there need be no second one: a run stops then, where one device does not.
#[test]
fn workers_that_need_not_be_there_are_open() {
    for case in pipelines_on("p") {
        let sharded = sharded(&case);
        let open = open(&certificate(&sharded, &sharded.text).expect("a program"));
        assert!(!open.is_empty(), "{}: {}", case.name, sharded.text);
    }
}

/// Each occurrence of a text with another one in its place.
fn replaced(text: &str, old: &str, new: &str) -> Vec<String> {
    let each = text.match_indices(old);
    each.map(|(at, _)| [&text[..at], new, &text[at + old.len()..]].concat()).collect()
}

/// What is wrong, a text and another in its place.
const BUGS: &[(&str, &str, &str)] = &[
    ("all but the worker take the branch", " equal(", " not_equal("),
    ("another worker takes the branch", "full(shape(), 1, \"i64\")", "full(shape(), 0, \"i64\")"),
    ("another worker takes the branch", "full(shape(), 0, \"i64\")", "full(shape(), 1, \"i64\")"),
    ("a worker that is not there", "full(shape(), 1, \"i64\")", "full(shape(), 9, \"i64\")"),
    ("all workers take the branch", "full(shape(), rank_0, \"i64\")", "full(shape(), 1, \"i64\")"),
    (
        "the worker of the other axis",
        "full(shape(), rank_0, \"i64\")",
        "full(shape(), rank_1, \"i64\")",
    ),
    ("rows on all workers", "n * max(1 - rank_0, 0)", "n"),
    ("another function", " = relu(", " = negative("),
    ("a cast that stops a rank", "match_cast(h, Tensor((n", "match_cast(h, Tensor((4"),
    ("a check in the other branch", " = zeros(shape(n", " = ones(shape(1 - rank_0 + n"),
];

#[test]
fn no_bug_of_stages_is_proved() {
    let all: Vec<(Case, Sharded)> = pipelines()
        .into_iter()
        .map(|case| {
            let own = sharded(&case);
            (case, own)
        })
        .collect();
    let mut bugs = Vec::new();
    for (what, old, new) in BUGS {
        let before = bugs.len();
        for own in &all {
            bugs.extend(
                replaced(&own.1.text, old, new).into_iter().map(|edited| (what, own, edited)),
            );
        }
        assert!(bugs.len() > before, "{what}: there is no such text");
    }
    for (what, (case, sharded), edited) in Sample::of("bugs of stages", 16).take(bugs) {
        assert!(!is_proved(sharded, &edited), "{what} in {}:\n{edited}", case.name);
    }
}

#[test]
fn no_bug_by_rule_in_a_pipeline_is_proved() {
    let texts: BTreeSet<String> = pipelines().into_iter().map(|case: Case| case.text).collect();
    let all: Vec<Sharded> = texts.iter().map(|text| crate::of_text(text)).collect();
    let bugs = bugs_by_rule(&all);
    assert!(bugs.len() >= 200, "{} bugs", bugs.len());
    for (sharded, edit) in Sample::of("bugs of pipelines that are certified", 32).take(bugs) {
        assert!(!is_proved(sharded, &edit.text), "{}\n{}", edit.what, edit.text);
    }
}
