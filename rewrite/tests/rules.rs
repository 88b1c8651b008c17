//! Every rule is proved as `rules.lock` says, holds in the interpreter, and has mutants, none of which is
//! proved. `RELAX_BLESS=1` writes the lock.

use relax_rewrite::rules::{self, Rule, Status};
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

fn proved(rule: &Rule) -> Status {
    rules::prove(rule, &mut prover)
}

/// What has no proof and no counterexample counts as tested.
fn status(rule: &Rule) -> Status {
    match proved(rule) {
        Status::Unproved(why) => {
            println!("{}: {why}", rule.name);
            let found = rules::evaluate(rule);
            if found.difference.is_none() { Status::Tested } else { Status::Unproved(why) }
        }
        status => status,
    }
}

#[test]
fn rules_are_proved_as_the_lock_says() {
    let proved: Vec<(Rule, Status)> = rules::all()
        .into_iter()
        .map(|rule| {
            let status = status(&rule);
            (rule, status)
        })
        .collect();
    let text = rules::lock_text(&proved);
    if std::env::var_os("RELAX_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/rules/rules.lock");
        std::fs::write(path, &text).expect("the lock can be written");
        return;
    }
    for (rule, status) in &proved {
        assert_eq!(rules::status_of(rule).word(), status.word(), "{}: {status:?}", rule.name);
    }
    assert_eq!(rules::locked().len(), proved.len(), "the lock has lines of rules that are gone");
}

#[test]
fn rules_hold_in_the_interpreter() {
    for rule in rules::all() {
        let found = rules::evaluate(&rule);
        assert_eq!(found.difference, None, "{}", rule.name);
        assert!(found.equal > 0, "{}: no case", rule.name);
    }
}

#[test]
fn mutants_are_refused() {
    let (mut refused, mut problems) = (0, Vec::new());
    for rule in rules::all() {
        let mutants = rules::mutants(&rule);
        let mut wrong = 0;
        for mutant in &mutants {
            let Some(why) = rules::evaluate(mutant).difference else { continue };
            wrong += 1;
            if proved(mutant).is_proved() {
                problems.push(format!("{}: {:?} is proved, but {why}", rule.name, mutant.right));
            }
        }
        refused += wrong;
        if wrong == 0 {
            problems.push(format!("{}: none of {} mutants is wrong", rule.name, mutants.len()));
        }
    }
    println!("{refused} mutants are wrong, and refused");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
