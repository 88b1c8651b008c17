//! The rule file and instances of its rules.
//!
//! A line is `name: left == right where c1, c2   # reason`. A rule is a theorem on integers: for all
//! values of its variables under which the conditions have values and hold, both sides have values
//! and are equal. The checker takes that on trust from whoever proved the file, which the header of
//! a certificate names by its hash.

use crate::polynomial::{Algebra, Poly};
use crate::statement::{Fact, Relation, Sign, Statement};
use crate::text::{Reader, variables};
use crate::{Checks, refuse};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The rules of a file, by name.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    rules: BTreeMap<&'a str, &'a str>,
}

/// A rule with terms for its variables.
#[derive(Debug)]
pub(crate) struct Instance {
    /// One fact a condition.
    pub(crate) conditions: Vec<Fact>,
    /// `left - right`, and that it is 0.
    pub(crate) difference: (Poly, Sign),
}

/// What the header says of a rule file.
pub(crate) fn hash(file: &str) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(file.as_bytes()) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl<'a> Rules<'a> {
    /// The rules of a file.
    pub(crate) fn read(file: &'a str) -> Checks<Self> {
        let mut rules = BTreeMap::new();
        for (index, line) in file.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some((name, text)) = line.split_once(':') else {
                return refuse(format!("line {} of the rule file has no `:`", index + 1));
            };
            if rules.insert(name.trim(), text).is_some() {
                return refuse(format!("the rule file has two rules `{}`", name.trim()));
            }
        }
        Ok(Rules { rules })
    }

    /// A rule with the given terms for its variables.
    ///
    /// The terms may have divisors that are 0: a variable then stands for whatever integer the term
    /// is under the reading of atoms in [`crate::polynomial`], and the rule holds for all integers.
    pub(crate) fn instance(
        &self,
        name: &str,
        terms: &BTreeMap<String, Poly>,
        algebra: &mut Algebra,
    ) -> Checks<Instance> {
        let Some(text) = self.rules.get(name) else {
            return refuse(format!("the rule file has no rule `{name}`"));
        };
        let known: BTreeSet<&str> = variables(text)?.into_iter().collect();
        if let Some(other) = terms.keys().find(|given| !known.contains(given.as_str())) {
            return refuse(format!("the rule `{name}` has no variable `{other}`"));
        }
        let mut reader = Reader::new(text, algebra, Some(terms))?;
        let equation = reader.statement()?;
        let mut comparisons = Vec::new();
        if reader.take("where") {
            comparisons.push(reader.statement()?);
            while reader.take(",") {
                comparisons.push(reader.statement()?);
            }
        }
        reader.end()?;
        let mut conditions = Vec::new();
        for comparison in comparisons {
            let fact = condition(&comparison, &conditions, algebra)?;
            conditions.push(fact);
        }
        let Statement::Compare(sides) = &*equation else {
            return refuse(format!("the rule `{name}` is no equation"));
        };
        if sides.relation != Relation::Equal {
            return refuse(format!("the rule `{name}` is no equation"));
        }
        let difference = algebra.plus(&sides.left, -1, &sides.right)?;
        Ok(Instance { conditions, difference: (difference, Sign::Zero) })
    }
}

/// The fact that a condition is. In the theorem a condition holds only where it has a value, so that
/// conditions before it must keep its divisors from 0: `x % b == 0` alone would be true of atoms at
/// x = 0, b = 0.
fn condition(text: &Statement, before: &[Fact], algebra: &mut Algebra) -> Checks<Fact> {
    let Statement::Compare(comparison) = text else {
        return refuse("a condition of the rule is no comparison");
    };
    for divisor in &comparison.divisors {
        let nonzero = [
            Fact::Number(algebra.linear(1, divisor, 0)?, Sign::NotZero),
            Fact::Number(algebra.linear(1, divisor, -1)?, Sign::AtLeastZero),
            Fact::Number(algebra.linear(-1, divisor, -1)?, Sign::AtLeastZero),
        ];
        if !nonzero.iter().any(|fact| before.contains(fact)) {
            return refuse(
                "no condition before it keeps a divisor in a condition of the rule from 0",
            );
        }
    }
    match comparison.form(algebra)? {
        Some(fact) => Ok(fact),
        None => refuse("a condition of the rule is `divides`"),
    }
}
