//! Rewrite rules in certificates: each is proved again from its text, so that a text that was exchanged is refused.

use super::header;
use relax_lower::certify::{Stages, certified};
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::run;
use relax_rewrite::saturation;
use relax_symbolic::Prover;
use relax_syntax::span::Source;
use relax_theorems::rules;
use relax_validation::check::verify;
use relax_validation::derive::{Stage, hash};
use relax_validation::obligation::{Kind, Obligation, Outcome};
use relax_validation::used_rules::UsedRule;

const PROGRAM: &str =
    "def main(x: Tensor((\"n\",), \"f32\")):\n    y = relu(relu(x))\n    return y\n";

/// Rules whose proof needs an answer on dims that has no certificate yet; a list that may only become shorter.
const WITHOUT_REPLAY: &[&str] = &["reshape_of_reshape", "reshape_of_concat_as_stack"];

/// The certificate of a run of `saturate`.
fn rewritten() -> String {
    let input = Program::load(Source::new("program", PROGRAM)).module;
    let mut stages = Stages::of(&input);
    let saturation = saturation::Options { explain: true, ..saturation::Options::default() };
    let settings = Settings { saturation, ..Settings::default() };
    let route = PIPELINE.named("normalize,saturate").expect("these passes exist");
    let output = run(&input, &route, &settings, &mut Prover::new(), &mut stages);
    stages.end(&output.expect("the program is well-formed"));
    stages.certified(header()).expect("what is printed reads back").text()
}

fn of_rules(obligations: &[Obligation]) -> Vec<&Obligation> {
    obligations.iter().filter(|each| each.kind == Kind::Rule).collect()
}

#[test]
fn rules_in_certificates_are_proved_again() {
    let text = rewritten();
    let verified = verify(&text, None).expect("a certificate as it is written is accepted");
    let [rule] = of_rules(&verified.obligations)[..] else { panic!("{text}") };
    assert_eq!((rule.function.as_str(), &rule.outcome), ("relu_of_relu", &Outcome::Proved));
    let line = text.lines().find(|line| line.starts_with("{\"rule\"")).expect("a line of the rule");
    let stated = rules::all().into_iter().find(|rule| rule.name == "relu_of_relu");
    let stated = stated.expect("there is such a rule").text;
    let with = |name: &str, sha: &str, text: &str| {
        let text = serde_json::json!(text);
        format!("{{\"rule\": \"{name}\", \"sha256\": \"{sha}\", \"text\": {text}}}")
    };
    assert_eq!(line, with("relu_of_relu", &hash(&stated), &stated));
    let wrong = stated.replace("right = relu(x)", "right = x");
    let other = stated.replace("relu_of_relu", "another");
    let twice = format!("{stated}\n\n{}", stated.replace("relu_of_relu", "another"));
    assert!(wrong != *stated && other != *stated);
    for (forged, why) in [
        (with("relu_of_relu", &hash(&wrong), &wrong), "is not proved, and the certificate does"),
        (with("relu_of_relu", &hash(&stated), &wrong), "the hash is not that of the text of the"),
        (with("relu_of_relu", &hash(&other), &other), "it must define this rule alone"),
        (with("relu_of_relu", &hash(&twice), &twice), "it must define this rule alone"),
        (with("relu_of_relu", &hash("no"), "no"), "the text of rule `relu_of_relu` is wrong"),
        (String::new(), "it is no JSON"),
        (format!("{line}\n{line}"), "does not say of its obligations what is derived"),
    ] {
        let refused = verify(&text.replace(line, &forged), None).expect_err(&forged);
        assert!(refused.contains(why), "{forged}: {refused}");
    }
    let without = verify(&text.replace(&format!("{line}\n"), ""), None);
    assert!(without.is_err(), "a summary of a rule that is not there");
}

#[test]
fn rules_of_relax_have_proofs_that_replay() {
    let all = rules::all();
    let read = |rule: &rules::Rule| UsedRule::read(rule.name.as_str(), &rule.text);
    let mut stage = Stage::read("saturate", PROGRAM).expect("it reads");
    stage.rules = all.iter().map(|rule| read(rule).expect("it reads")).collect();
    let input = Stage::read("input", PROGRAM).expect("it reads");
    let text = certified(header(), vec![input, stage]).text();
    let verified = verify(&text, None).expect("a certificate as it is written is accepted");
    let found = of_rules(&verified.obligations);
    assert_eq!(found.len(), all.len());
    let open: Vec<&str> = found
        .iter()
        .filter(|rule| rule.outcome != Outcome::Proved)
        .map(|rule| rule.function.as_str())
        .collect();
    let known = all.iter().map(|rule| rule.name.as_str());
    let known: Vec<&str> = known.filter(|rule| WITHOUT_REPLAY.contains(rule)).collect();
    assert_eq!(open, known, "the rules whose proofs do not replay, and those on record");
}
