//! The rewrites that other compilers list are stated here as `rules/yardstick.txt` says.

use relax_theorems::rules::yardstick::{SOURCES, Verdict, yardstick};
use relax_theorems::rules::{self, Status};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_named_rule_is_proved() {
    let rewrites = yardstick().expect("every line is well-formed");
    let rules: BTreeMap<String, Status> =
        rules::all().iter().map(|rule| (rule.name.to_string(), rules::status_of(rule))).collect();
    let mut wrong = Vec::new();
    for rewrite in &rewrites {
        let Verdict::Rules(names) = &rewrite.verdict else { continue };
        for name in names {
            match rules.get(*name) {
                Some(status) if status.is_proved() => {}
                Some(status) => wrong.push(format!("{}: `{name}` is {status}", rewrite.text)),
                None => wrong.push(format!("{}: there is no rule `{name}`", rewrite.text)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_rewrite_is_listed_twice() {
    let rewrites = yardstick().expect("every line is well-formed");
    let mut seen = BTreeSet::new();
    for rewrite in &rewrites {
        assert!(seen.insert((rewrite.source, rewrite.text)), "{} twice", rewrite.text);
    }
}

/// The figures may rise; rules that are taken back show here.
#[test]
fn most_rewrites_are_rules() {
    let rewrites = yardstick().expect("every line is well-formed");
    for ((source, _), least) in SOURCES.iter().zip([190, 40, 13]) {
        let of: Vec<_> = rewrites.iter().filter(|rewrite| rewrite.source == *source).collect();
        let stated = of.iter().filter(|own| matches!(own.verdict, Verdict::Rules(_))).count();
        eprintln!("{source}: {stated} of {} are rules", of.len());
        assert!(stated >= least, "{source}: {stated}");
    }
}
