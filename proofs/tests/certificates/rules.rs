//! Rules are taken on trust by the checker: here each is evaluated.

use crate::reading::counterexample;
use crate::samples::RULES;

/// The rules of a file, each as its name, its conditions and its equation.
fn rules(file: &str) -> Vec<(String, Vec<String>, String)> {
    let texts = file.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let rule = |line: &str| {
        let (name, text) = line.split_once(':').expect("a rule has a name");
        let (equation, conditions) = text.split_once(" where ").unwrap_or((text, ""));
        let conditions = conditions.split(", ").filter(|condition| !condition.is_empty());
        (name.to_owned(), conditions.map(str::to_owned).collect(), equation.trim().to_owned())
    };
    texts.filter(|line| !line.is_empty()).map(rule).collect()
}

#[test]
fn rules_hold_where_their_conditions_do() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../symbolic/rules/dims.rules");
    let file = std::fs::read_to_string(path).expect("the rules of the prover");
    let (all, samples) = (rules(&file), rules(RULES));
    assert!(all.len() > 50 && samples.len() == 6, "{} {}", all.len(), samples.len());
    for (name, conditions, equation) in all.into_iter().chain(samples) {
        let found = counterexample(&conditions, &equation);
        assert_eq!(found, None, "{name}");
    }
}
