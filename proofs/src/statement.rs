//! Statements, facts, and what a statement opens to.

use crate::Checks;
use crate::polynomial::{Algebra, Poly};
use std::rc::Rc;

/// What is known of a statement. Under every assignment it has exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It has a value and is true.
    Holds,
    /// It has a value and is false.
    Fails,
    /// It has no value: a divisor is 0 where it counts.
    Undefined,
}

impl Status {
    /// The status of the negation.
    fn negated(self) -> Self {
        match self {
            Status::Holds => Status::Fails,
            Status::Fails => Status::Holds,
            Status::Undefined => Status::Undefined,
        }
    }
}

/// What is known of a polynomial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// `>= 0`
    AtLeastZero,
    /// `== 0`
    Zero,
    /// `!= 0`
    NotZero,
}

impl Sign {
    /// As in the text of a fact.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Sign::AtLeastZero => ">=",
            Sign::Zero => "==",
            Sign::NotZero => "!=",
        }
    }
}

/// Something known in a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// On a statement.
    Stated(Rc<Statement>, Status),
    /// On a polynomial.
    Number(Poly, Sign),
}

/// What can be proved or assumed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// `True` or `False`.
    Constant(bool),
    /// Two terms compared.
    Compare(Comparison),
    /// `not p`
    Not(Rc<Statement>),
    /// `p and q`, `p or q`, `implies(p, q)`
    Join(Connective, Rc<Statement>, Rc<Statement>),
}

/// How two statements are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connective {
    /// Decided by a left part that fails.
    And,
    /// Decided by a left part that holds.
    Or,
    /// Decided by a left part that fails.
    Implies,
}

/// What a comparison claims of its two terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// `a == b`
    Equal,
    /// `a != b`
    NotEqual,
    /// `a <= b`
    AtMost,
    /// `a < b`
    Less,
    /// `divides(a, b)`
    Divides,
}

/// Two terms compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// How.
    pub(crate) relation: Relation,
    /// The first.
    pub(crate) left: Poly,
    /// The second.
    pub(crate) right: Poly,
    /// Every divisor in the text of both, inner before outer, left before right, but constants
    /// other than 0. From the text: `0 * (x // y)` has no value where `y` is 0, though the
    /// polynomial is 0.
    pub(crate) divisors: Vec<Poly>,
}

/// What a statement opens to.
#[derive(Debug)]
pub(crate) enum Opened {
    /// All of them.
    Facts(Vec<Fact>),
    /// All of at least one of them.
    Cases(Vec<Vec<Fact>>),
}

impl Statement {
    /// The facts or cases that say the same as that this statement has a status.
    pub(crate) fn open(&self, status: Status, algebra: &mut Algebra) -> Checks<Opened> {
        match self {
            Statement::Constant(value) => {
                let its = if *value { Status::Holds } else { Status::Fails };
                let impossible = || Opened::Cases(Vec::new());
                Ok(if status == its { Opened::Facts(Vec::new()) } else { impossible() })
            }
            Statement::Compare(comparison) => comparison.open(status, algebra),
            Statement::Not(p) => {
                Ok(Opened::Facts(vec![Fact::Stated(Rc::clone(p), status.negated())]))
            }
            Statement::Join(connective, p, q) => Ok(connective.open(p, q, status)),
        }
    }
}

impl Connective {
    /// Parts are read from left to right: the second counts only where the first does not decide.
    fn open(self, p: &Rc<Statement>, q: &Rc<Statement>, status: Status) -> Opened {
        // Where p has the status `open`, the whole has that of q; where p has the other one of
        // holds and fails, the whole has the status `decided`.
        let (open, decided) = match self {
            Connective::And => (Status::Holds, Status::Fails),
            Connective::Or => (Status::Fails, Status::Holds),
            Connective::Implies => (Status::Holds, Status::Holds),
        };
        let is = |part: &Rc<Statement>, status| Fact::Stated(Rc::clone(part), status);
        let by_second = vec![is(p, open), is(q, status)];
        if status == Status::Undefined {
            Opened::Cases(vec![vec![is(p, Status::Undefined)], by_second])
        } else if status == decided {
            Opened::Cases(vec![vec![is(p, open.negated())], by_second])
        } else {
            Opened::Facts(by_second)
        }
    }
}

impl Comparison {
    fn open(&self, status: Status, algebra: &mut Algebra) -> Checks<Opened> {
        for divisor in &self.divisors {
            algebra.keep(divisor)?;
        }
        let defined = self.divisors.iter().map(|d| Fact::Number(d.clone(), Sign::NotZero));
        let mut facts: Vec<Fact> = defined.collect();
        let (a, b) = (&self.left, &self.right);
        let nonzero = Fact::Number(a.clone(), Sign::NotZero);
        let last = match (status, self.relation) {
            (Status::Undefined, _) => return self.undefined(algebra),
            (Status::Fails, Relation::Divides) => {
                let mut zero = facts.clone();
                zero.push(Fact::Number(a.clone(), Sign::Zero));
                let remainder = algebra.remainder(b, a)?;
                facts.extend([nonzero, Fact::Number(remainder, Sign::NotZero)]);
                return Ok(Opened::Cases(vec![zero, facts]));
            }
            (Status::Holds, Relation::Divides) => {
                facts.push(nonzero);
                related(a, Relation::Divides, b, algebra)?
            }
            (Status::Holds, relation) => related(a, relation, b, algebra)?,
            (Status::Fails, Relation::Equal) => related(a, Relation::NotEqual, b, algebra)?,
            (Status::Fails, Relation::NotEqual) => related(a, Relation::Equal, b, algebra)?,
            (Status::Fails, Relation::AtMost) => related(b, Relation::Less, a, algebra)?,
            (Status::Fails, Relation::Less) => related(b, Relation::AtMost, a, algebra)?,
        };
        facts.push(last);
        Ok(Opened::Facts(facts))
    }

    /// The polynomial form of a comparison that has a value and holds; `None` for `divides`, which
    /// is more than one fact.
    pub(crate) fn form(&self, algebra: &mut Algebra) -> Checks<Option<Fact>> {
        match self.relation {
            Relation::Divides => Ok(None),
            relation => related(&self.left, relation, &self.right, algebra).map(Some),
        }
    }

    /// One case a divisor: it is the first that is 0.
    fn undefined(&self, algebra: &mut Algebra) -> Checks<Opened> {
        let mut cases = Vec::new();
        for (index, divisor) in self.divisors.iter().enumerate() {
            let mut facts = Vec::new();
            for before in &self.divisors[..index] {
                algebra.keep(before)?;
                facts.push(Fact::Number(before.clone(), Sign::NotZero));
            }
            facts.push(Fact::Number(divisor.clone(), Sign::Zero));
            cases.push(facts);
        }
        Ok(Opened::Cases(cases))
    }
}

/// The polynomial form of a comparison of terms that have values.
fn related(a: &Poly, relation: Relation, b: &Poly, algebra: &mut Algebra) -> Checks<Fact> {
    let (poly, sign) = match relation {
        Relation::Equal => (algebra.plus(a, -1, b)?, Sign::Zero),
        Relation::NotEqual => (algebra.plus(a, -1, b)?, Sign::NotZero),
        Relation::AtMost => (algebra.plus(b, -1, a)?, Sign::AtLeastZero),
        Relation::Less => {
            let difference = algebra.plus(b, -1, a)?;
            (algebra.linear(1, &difference, -1)?, Sign::AtLeastZero)
        }
        Relation::Divides => (algebra.remainder(b, a)?, Sign::Zero),
    };
    Ok(Fact::Number(poly, sign))
}
