//! Every rule is proved as `rules.lock` says, holds in the interpreter, and has mutants, none of which is
//! proved. `RELAX_BLESS=1` writes the lock.

use relax_rewrite::rules::{self, Rule, Status};
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

fn status(rule: &Rule) -> Status {
    rules::prove(rule, &mut prover)
}

#[test]
fn rules_are_proved_as_the_lock_says() {
    let proved: Vec<(Rule, Status)> = rules::all()
        .into_iter()
        .map(|rule| {
            let start = std::time::Instant::now();
            let status = status(&rule);
            println!("{} {status:?} {:?}", rule.name, start.elapsed());
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
    for rule in rules::all() {
        let (mut wrong, mut total) = (0, 0);
        for mutant in rules::mutants(&rule) {
            total += 1;
            let refuted = rules::evaluate(&mutant).difference;
            wrong += usize::from(refuted.is_some());
            if let Some(why) = refuted {
                let status = status(&mutant);
                assert!(!status.is_proved(), "{}: {:?} is proved, but {why}", rule.name, mutant.right);
            }
        }
        println!("{}: {wrong} of {total} wrong", rule.name);
        assert!(wrong > 0, "{}: none of {total} mutants is wrong", rule.name);
    }
}
