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
    let op = |op: DimOp, a: &Dim, b: &Dim| Dim::op(op, a.clone(), b.clone());
    let (n, k, x, a, b) =
        (Dim::var("n"), Dim::var("k"), Dim::var("x"), Dim::var("a"), Dim::var("b"));
    let (times, div, rest) = (DimOp::Mul, DimOp::FloorDiv, DimOp::FloorMod);
    let chunk = op(div, &n, &k);
    let digit = op(div, &op(rest, &x, &op(times, &a, &b)), &b);
    let products = op(div, &op(times, &x, &n), &op(times, &a, &k));
    let quotients = op(times, &op(div, &x, &a), &op(div, &n, &k));
    let claims = [
        Claim::new(op(div, &n, &op(div, &n, &chunk)), Relation::Equal, chunk),
        Claim::new(digit, Relation::Equal, op(rest, &op(div, &x, &b), &a)),
        Claim::new(op(DimOp::Min, &quotients, &products), Relation::Equal, quotients),
    ];
    let mut proofs = Vec::new();
    for claim in claims {
        let mut prover = Prover::new();
        for positive in [&k, &a, &b, &x] {
            prover.assume(Claim::new(1, Relation::AtMost, positive.clone()));
        }
        prover.assume(Claim::new(k.clone(), Relation::AtMost, n.clone()));
        let (_, proof) = prover.decide_certified(&claim);
        proofs.extend(proof.filter(|proof| proof.contains(&hash(RULES))));
    }
    proofs
}

/// Whether a proof is refused under a wrong file, and where it names the wrong file under the right one.
pub(crate) fn is_refused(proof: &str, mutant: &str) -> bool {
    let forged = proof.replace(&hash(RULES), &hash(mutant));
    check(proof, Some(mutant)).is_err() && check(&forged, Some(RULES)).is_err()
}
