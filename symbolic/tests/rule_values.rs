//! Every rule of the e-graph against brute force: it holds wherever its conditions do, in a box.

mod query_text;

use relax_symbolic::RULES;
use relax_symbolic::claims::Formula;
use relax_syntax::Name;
use relax_syntax::facts::{Claim, Counterexample, Relation};
use std::collections::BTreeSet;

/// The values that variables take, for rules with few and with many variables.
const WIDE: i64 = 12;
const NARROW: i64 = 6;

fn claim(text: &str) -> Claim {
    match query_text::formula(text) {
        Some(Formula::Claim(claim)) => claim,
        other => panic!("`{text}` is not one relation: {other:?}"),
    }
}

/// Name, equation and conditions of each rule.
fn rules() -> Vec<(&'static str, Claim, Vec<Claim>)> {
    let lines = RULES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &'static str| {
        let (rule, reason) = line.split_once("   # ").expect("every rule has its reason");
        assert!(!reason.is_empty());
        let (name, rest) = rule.split_once(": ").expect("every rule has a name");
        let (equation, conditions) = rest.split_once(" where ").unwrap_or((rest, ""));
        let conditions = conditions.split(", ").filter(|text| !text.is_empty()).map(claim);
        (name, claim(equation), conditions.collect())
    };
    lines.map(read).collect()
}

fn names(claim: &Claim) -> Vec<Name> {
    let mut names = BTreeSet::new();
    for dim in [&claim.left, &claim.right] {
        dim.visit_vars(&mut |name| _ = names.insert(name.clone()));
    }
    names.into_iter().collect()
}

/// Steps to the next assignment; false after the last.
fn advance(values: &mut [i64], limit: i64) -> bool {
    for value in values {
        if *value < limit {
            *value += 1;
            return true;
        }
        *value = -limit;
    }
    false
}

#[test]
fn every_rule_holds_in_a_box() {
    for (rule, equation, conditions) in rules() {
        assert_eq!(equation.relation, Relation::Equal, "{rule}");
        let names = names(&equation);
        let limit = if names.len() < 4 { WIDE } else { NARROW };
        let mut numbers = vec![-limit; names.len()];
        let mut reached = 0;
        loop {
            let values: Counterexample = names.iter().cloned().zip(numbers.clone()).collect();
            if conditions.iter().all(|condition| condition.holds(&values) == Some(true)) {
                reached += 1;
                assert_eq!(equation.holds(&values), Some(true), "{rule} at {values:?}");
            }
            if !advance(&mut numbers, limit) {
                break;
            }
        }
        assert!(reached > 20, "{rule}: its conditions hold {reached} times");
    }
}

#[test]
fn rules_have_different_names_and_texts() {
    let rules = rules();
    assert!(rules.len() >= 80, "{}", rules.len());
    let names: BTreeSet<_> = rules.iter().map(|rule| rule.0).collect();
    let texts: BTreeSet<_> = rules.iter().map(|rule| (&rule.1, &rule.2)).collect();
    assert_eq!((names.len(), texts.len()), (rules.len(), rules.len()));
}

#[test]
fn conditions_speak_of_variables_of_the_left_side() {
    for (rule, equation, conditions) in rules() {
        let mut bound = BTreeSet::new();
        equation.left.visit_vars(&mut |name| _ = bound.insert(name.clone()));
        for name in conditions.iter().chain([&equation]).flat_map(names) {
            assert!(bound.contains(&name), "{rule}: `{name}` is not on the left");
        }
    }
}
