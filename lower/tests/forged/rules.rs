//! Rule files with one mistake. A certificate of arithmetic names the rule file that it uses by its hash, and the checker
//! of compilations has one file, which is built into it. So a proof is refused under any other file, and a proof that
//! names another file is refused under this one.

use super::Compiled;
use relax_proofs::check;
use relax_validation::RULES;
use relax_validation::check::verify;
use relax_validation::derive::hash;

/// How the certificates of arithmetic begin.
const PROOF: &str = "{\"relax\": \"certificate\"";

/// Files that differ from the right one in one rule: a number, a side, a condition, a relation or an operation.
pub(crate) fn mutants() -> Vec<String> {
    let lines: Vec<&str> = RULES.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let (rule, reason) = line.split_once('#').unwrap_or((line, ""));
        let Some((name, statement)) = rule.split_once(':') else { continue };
        for broken in broken(statement) {
            let mut file: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            file[at] = format!("{name}:{broken} # {reason}");
            found.push(file.join("\n") + "\n");
        }
    }
    found
}

fn broken(statement: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some((equation, conditions)) = statement.split_once(" where ") {
        found.push(equation.to_owned());
        if let Some((_, rest)) = conditions.split_once(", ") {
            found.push(format!("{equation} where {rest}"));
        }
    }
    if let Some((left, right)) = statement.split_once(" == ") {
        let (side, conditions) = match right.split_once(" where ") {
            Some((side, conditions)) => (side, format!(" where {conditions}")),
            None => (right.trim_end(), String::new()),
        };
        found.push(format!("{left} == 0{conditions}"));
        found.push(format!("{left} == {side} + 1{conditions}"));
    }
    for (from, to) in
        [(" + ", " - "), (" * ", " + "), ("//", "%"), ("0 <", "1 <"), ("!= 0", "!= 1")]
    {
        if statement.contains(from) {
            found.push(statement.replacen(from, to, 1));
        }
    }
    found
}

/// The proofs of a certificate that use rules.
pub(crate) fn proofs(compiled: &Compiled) -> Vec<String> {
    let mut proofs: Vec<String> = Vec::new();
    for line in compiled.text.lines() {
        if line.starts_with(PROOF) {
            proofs.push(String::new());
        }
        if let Some(proof) = proofs.last_mut() {
            proof.push_str(line);
            proof.push('\n');
        }
    }
    proofs.retain(|proof| proof.contains(&hash(RULES)));
    proofs
}

/// Whether a proof is refused under a wrong file, and where it names the wrong file under the right one.
pub(crate) fn is_refused(proof: &str, mutant: &str) -> bool {
    let forged = proof.replace(&hash(RULES), &hash(mutant));
    check(proof, Some(mutant)).is_err() && check(&forged, Some(RULES)).is_err()
}

/// Whether a whole certificate is refused that names a wrong file.
pub(crate) fn is_refused_as_a_whole(compiled: &Compiled, mutant: &str) -> bool {
    verify(&compiled.text.replace(&hash(RULES), &hash(mutant)), None).is_err()
}
