//! Rule files with one mistake. A certificate of arithmetic names the rule file that it uses by its hash, and the checker
//! of compilations has one file, which is built into it. So a proof is refused under any other file, and a proof that
//! names another file is refused under this one.

use relax_proofs::check;
use relax_symbolic::Prover;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_validation::RULES;
use relax_validation::derive::hash;

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

/// Proofs that use rules, as certificates of compilations hold them.
pub(crate) fn proofs() -> Vec<String> {
    let var = |name: &str| Dim::var(name);
    let op = |op: DimOp, a: &Dim, b: &Dim| Dim::op(op, a.clone(), b.clone());
    let (x, a, b) = (var("x"), var("a"), var("b"));
    let (times, div, rest) = (DimOp::Mul, DimOp::FloorDiv, DimOp::FloorMod);
    let product = op(times, &a, &b);
    let digits = op(times, &b, &op(rest, &op(div, &x, &b), &a));
    let equations = [
        (op(rest, &x, &product), op(DimOp::Add, &digits, &op(rest, &x, &b))),
        (op(div, &op(div, &x, &a), &b), op(div, &x, &product)),
        (op(div, &op(rest, &x, &product), &b), op(rest, &op(div, &x, &b), &a)),
    ];
    let mut proofs = Vec::new();
    for (left, right) in equations {
        let mut prover = Prover::new();
        prover.assume(Claim::new(1, Relation::AtMost, a.clone()));
        prover.assume(Claim::new(1, Relation::AtMost, b.clone()));
        let (_, proof) = prover.decide_certified(&Claim::new(left, Relation::Equal, right));
        proofs.extend(proof.filter(|proof| proof.contains(&hash(RULES))));
    }
    proofs
}

/// Whether a proof is refused under a wrong file, and where it names the wrong file under the right one.
pub(crate) fn is_refused(proof: &str, mutant: &str) -> bool {
    let forged = proof.replace(&hash(RULES), &hash(mutant));
    check(proof, Some(mutant)).is_err() && check(&forged, Some(RULES)).is_err()
}
