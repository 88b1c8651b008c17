//! Which single fact would decide a claim that is not decided? Candidates come from the claim's own
//! variables and operations; each is assumed in a scope of its own, must leave an assignment that
//! satisfies all facts, and must make the claim provable.

use crate::claims::Formula;
use crate::prover::Prover;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::BTreeSet;

/// How many candidates are tried, and how many facts are told.
const MOST_TRIED: usize = 40;
const MOST_TOLD: usize = 3;
/// Steps of work for one candidate: less than a question gets, for there are many.
const FUEL: u32 = 2_000;

/// Facts that would each decide `claim`, the weakest first, at most three.
pub(crate) fn deciding(prover: &mut Prover, claim: &Claim) -> Vec<Claim> {
    let is_plain = |dim: &Dim| !matches!(dim, Dim::Op(..));
    if is_plain(&claim.left) && is_plain(&claim.right) {
        // Nothing is weaker, and simpler, than the claim itself.
        return Vec::new();
    }
    if !Formula::Claim(claim.clone()).is_moderate() {
        return Vec::new();
    }
    let mut found: Vec<Claim> = Vec::new();
    for candidate in candidates(claim) {
        let follows = found.iter().any(|weaker| suffices(prover, &candidate, weaker));
        if !follows && suffices(prover, &candidate, claim) && is_possible(prover, &candidate) {
            found.retain(|stronger| !suffices(prover, stronger, &candidate));
            found.push(candidate);
        }
    }
    found.truncate(MOST_TOLD);
    found
}

/// Whether `goal` is proved with `fact`.
fn suffices(prover: &mut Prover, fact: &Claim, goal: &Claim) -> bool {
    prover.push();
    prover.assume(fact.clone());
    prover.engine.fuel = FUEL;
    let proved = prover.engine.proves(&prover.context, goal);
    prover.pop();
    proved
}

/// Whether an assignment satisfies the facts and `fact`.
fn is_possible(prover: &mut Prover, fact: &Claim) -> bool {
    prover.push();
    prover.assume(fact.clone());
    let answer = prover.decide_formula(&Formula::False);
    prover.pop();
    matches!(answer, Answer::Refuted(_))
}

/// What a claim is made of.
#[derive(Default)]
struct Parts {
    vars: BTreeSet<Dim>,
    constants: BTreeSet<i64>,
    /// Numerators with their divisors.
    divisions: BTreeSet<(Dim, Dim)>,
    /// Operands of `min` and `max`.
    extremes: BTreeSet<(Dim, Dim)>,
}

impl Parts {
    fn collect(&mut self, dim: &Dim) {
        match dim {
            Dim::Int(value) => _ = self.constants.insert(value.saturating_abs()),
            Dim::Var(_) => _ = self.vars.insert(dim.clone()),
            Dim::Op(op, operands) => {
                match op {
                    DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv => {
                        self.divisions.insert((operands.0.clone(), operands.1.clone()));
                    }
                    DimOp::Min | DimOp::Max => {
                        self.extremes.insert((operands.0.clone(), operands.1.clone()));
                    }
                    DimOp::Add | DimOp::Sub | DimOp::Mul => {}
                }
                self.collect(&operands.0);
                self.collect(&operands.1);
            }
        }
    }
}

/// Facts that people declare or check, on the parts of the claim: the simplest first.
fn candidates(claim: &Claim) -> Vec<Claim> {
    let mut parts = Parts::default();
    parts.collect(&claim.left);
    parts.collect(&claim.right);
    if claim.relation == Relation::Divides {
        parts.divisions.insert((claim.right.clone(), claim.left.clone()));
    }
    let mut all = Vec::new();
    let divisors = parts.divisions.iter().map(|(_, divisor)| divisor);
    for part in divisors.chain(&parts.vars).filter(|part| part.as_int().is_none()) {
        all.push(Claim::new(part.clone(), Relation::NotEqual, 0));
        all.push(Claim::new(0, Relation::AtMost, part.clone()));
        all.push(Claim::new(1, Relation::AtMost, part.clone()));
    }
    for (a, b) in &parts.extremes {
        all.push(Claim::new(a.clone(), Relation::AtMost, b.clone()));
        all.push(Claim::new(b.clone(), Relation::AtMost, a.clone()));
    }
    for (numerator, divisor) in &parts.divisions {
        all.push(Claim::new(divisor.clone(), Relation::Divides, numerator.clone()));
        all.push(Claim::new(numerator.clone(), Relation::Less, divisor.clone()));
    }
    for var in &parts.vars {
        for constant in parts.constants.iter().filter(|&&constant| constant > 1) {
            all.push(Claim::new(*constant, Relation::Divides, var.clone()));
        }
        for (_, divisor) in parts.divisions.iter().filter(|(_, d)| d.as_int().is_none()) {
            all.push(Claim::new(divisor.clone(), Relation::Divides, var.clone()));
        }
    }
    for (index, a) in parts.vars.iter().enumerate() {
        for b in parts.vars.iter().skip(index + 1) {
            all.push(Claim::new(a.clone(), Relation::Equal, b.clone()));
        }
    }
    all.push(Claim::new(claim.left.clone(), Relation::AtMost, claim.right.clone()));
    all.push(Claim::new(claim.right.clone(), Relation::AtMost, claim.left.clone()));
    let mut seen = BTreeSet::new();
    all.retain(|fact| !says_the_same(fact, claim) && seen.insert(fact.clone()));
    all.truncate(MOST_TRIED);
    all
}

/// Whether a fact is the claim itself, perhaps in other words.
fn says_the_same(fact: &Claim, claim: &Claim) -> bool {
    let turned = fact.left == claim.right && fact.right == claim.left;
    let symmetric = matches!(fact.relation, Relation::Equal | Relation::NotEqual);
    let is_bound = |claim: &Claim| {
        matches!(claim.relation, Relation::AtMost | Relation::Less)
            && claim.left.as_int().is_some() != claim.right.as_int().is_some()
    };
    fact == claim
        || (turned && symmetric && fact.relation == claim.relation)
        || (is_bound(fact) && is_bound(claim))
}

#[cfg(test)]
mod tests {
    use crate::Prover;
    use crate::claims::Formula;
    use crate::statement::formula;
    use relax_syntax::facts::Facts;

    fn missing(assume: &[&str], text: &str) -> Vec<String> {
        let mut prover = Prover::new();
        let read = |text: &str| formula(text).expect("a statement");
        prover.suppose(assume.iter().map(|text| read(text)).collect::<Vec<_>>());
        let Formula::Claim(claim) = read(text) else { panic!("{text} is one claim") };
        prover.missing(&claim).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn divisibility_and_signs() {
        assert_eq!(missing(&["n >= 0"], "n // 4 * 4 == n"), ["divides(4, n)"]);
        assert_eq!(missing(&[], "n // n == 1"), ["n != 0"]);
        assert_eq!(missing(&[], "n * m // n == m"), ["n != 0"]);
        assert_eq!(missing(&[], "min(n, m) == n"), ["n <= m"]);
        assert_eq!(missing(&["n >= 0"], "n <= n * m"), ["1 <= m"]);
    }

    #[test]
    fn neither_the_claim_nor_what_is_impossible() {
        assert_eq!(missing(&[], "n == m"), [] as [&str; 0]);
        assert_eq!(missing(&["n % 4 == 1"], "n // 4 * 4 == n"), [] as [&str; 0]);
        assert_eq!(missing(&[], "1 <= n"), [] as [&str; 0]);
        assert_eq!(missing(&["n < 0", "n > 0"], "n == m * 2"), [] as [&str; 0]);
    }

    #[test]
    fn scopes_are_left_as_they_were() {
        let mut prover = Prover::new();
        let claim = match formula("n // 4 * 4 == n") {
            Ok(Formula::Claim(claim)) => claim,
            other => panic!("{other:?}"),
        };
        assert_eq!(prover.missing(&claim), prover.missing(&claim));
        assert_ne!(prover.decide(&claim), relax_syntax::facts::Answer::Proved);
    }
}
