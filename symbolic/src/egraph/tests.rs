//! The record of a proof: few instances, each true, which suffice for the first stage.

use super::*;
use crate::prover::Prover;
use crate::statement;
use relax_syntax::facts::{Answer, Facts};

struct Case {
    text: &'static str,
    context: Context,
    engine: Engine,
    query: Formula,
}

fn cases() -> Vec<Case> {
    let lines = include_str!("../../tests/egraph_questions.txt").lines();
    lines.filter(|line| line.contains("|-")).map(case).collect()
}

fn case(text: &'static str) -> Case {
    let (facts, query) = text.split_once("|-").expect("a turnstile");
    let (mut context, mut engine) = (Context::default(), Engine::default());
    for fact in facts.split(';').filter(|fact| !fact.trim().is_empty()) {
        let Ok(Formula::Claim(claim)) = statement::formula(fact) else { panic!("{fact}") };
        engine.fuel = PROOF_FUEL;
        engine.assume(&mut context, &claim);
    }
    Case { text, context, engine, query: statement::formula(query).expect("in the syntax") }
}

#[test]
fn the_instances_suffice_and_each_is_needed() {
    for Case { text, context, mut engine, query } in cases() {
        let evidence = instances(&mut engine, &context, &query).expect(text);
        let found = &evidence.instances;
        assert!((1..=6).contains(&found.len()), "{text}: {found:#?}");
        let question = Question { context, formula: &query };
        assert!(question.follows(&mut engine, &evidence), "{text}");
        for index in 0..found.len() {
            let mut fewer = evidence.clone();
            fewer.instances.remove(index);
            assert!(!question.follows(&mut engine, &fewer), "{text}: {index} of {found:#?}");
        }
    }
}

#[test]
fn conditions_of_instances_are_proved_by_the_first_stage() {
    for Case { text, context, mut engine, query } in cases() {
        let evidence = instances(&mut engine, &context, &query).expect(text);
        for instance in &evidence.instances {
            let rule = rules::all().iter().find(|rule| rule.name == instance.rule).expect("named");
            assert_eq!(*instance, Instance::new(rule, instance.with.clone()), "{text}");
            for condition in &instance.conditions {
                engine.fuel = 20_000;
                assert!(engine.proves(&context, condition), "{text}: {condition:?}");
            }
        }
    }
}

/// The equations, assumed as facts like any other, let a prover without rules answer.
#[test]
fn equations_as_facts_prove_the_question() {
    for case in cases() {
        let (context, mut engine) = (case.context.clone(), case.engine.clone());
        let evidence = instances(&mut engine, &context, &case.query).expect(case.text);
        let mut prover = Prover::new();
        let (facts, _) = case.text.split_once("|-").expect("a turnstile");
        for fact in facts.split(';').filter(|fact| !fact.trim().is_empty()) {
            let Ok(Formula::Claim(claim)) = statement::formula(fact) else { panic!("{fact}") };
            prover.assume(claim);
        }
        for instance in &evidence.instances {
            let (left, right) = (instance.left.clone(), instance.right.clone());
            prover.assume(Claim::new(right, Relation::Equal, left));
        }
        let verdict = prover.judge(&case.query);
        assert_eq!(verdict.answer, Answer::Proved, "{}", case.text);
    }
}

#[test]
fn the_same_question_has_the_same_instances() {
    for Case { text, context, mut engine, query } in cases() {
        let first = instances(&mut engine.clone(), &context, &query).expect(text);
        let again = instances(&mut engine, &context, &query).expect(text);
        assert_eq!(first.instances, again.instances, "{text}");
    }
}
