//! The port through which floor 1 asks questions about dims. Who answers is wired in the command.

use crate::Name;
use crate::annotation::OWN;
use crate::dim::{Dim, DimOp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The answer to a question about all values of the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds for every assignment that satisfies the facts.
    Proved,
    /// It fails for this assignment, which satisfies the facts.
    Refuted(Counterexample),
    /// Not decided: a run-time check must decide.
    Unknown,
}

impl Answer {
    /// `proved`, `refuted` or `unknown`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Answer::Proved => "proved",
            Answer::Refuted(_) => "refuted",
            Answer::Unknown => "unknown",
        }
    }
}

/// An assignment of variables that shows a claim wrong.
pub type Counterexample = BTreeMap<Name, i64>;

/// A relation between two dims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relation {
    /// `a == b`
    Equal,
    /// `a != b`
    NotEqual,
    /// `a <= b`
    AtMost,
    /// `a < b`
    Less,
    /// `a` divides `b`: `b % a == 0`, `a != 0`
    Divides,
}

/// A statement on dims, as a hypothesis or as a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// Left.
    pub left: Dim,
    /// How they relate.
    pub relation: Relation,
    /// Right.
    pub right: Dim,
}

impl Claim {
    /// `left relation right`
    #[must_use]
    pub fn new(left: impl Into<Dim>, relation: Relation, right: impl Into<Dim>) -> Self {
        Self { left: left.into(), relation, right: right.into() }
    }

    /// Replaces every variable that `map` knows, all at once.
    #[must_use]
    pub fn substitute(&self, map: &BTreeMap<Name, Dim>) -> Self {
        Self::new(self.left.substitute(map), self.relation, self.right.substitute(map))
    }

    /// The values of both sides under an assignment; `None` where a side has none.
    #[must_use]
    pub fn sides(&self, values: &Counterexample) -> Option<(i64, i64)> {
        let value_of = |name: &Name| values.get(name).copied();
        Some((self.left.eval(&value_of).ok()?, self.right.eval(&value_of).ok()?))
    }

    /// Whether it holds under an assignment; `None` where a side has no value.
    #[must_use]
    pub fn holds(&self, values: &Counterexample) -> Option<bool> {
        let (a, b) = self.sides(values)?;
        Some(match self.relation {
            Relation::Equal => a == b,
            Relation::NotEqual => a != b,
            Relation::AtMost => a <= b,
            Relation::Less => a < b,
            Relation::Divides => a != 0 && crate::dim::floor_mod(b, a) == Some(0),
        })
    }
}

impl Claim {
    /// How it fails under an assignment: `for n = 1: 4 is not 5`. `None` where it does not fail, or
    /// has no variables, so that the claim itself shows it.
    #[must_use]
    pub fn failure(&self, values: &Counterexample) -> Option<String> {
        if self.holds(values) != Some(false) {
            return None;
        }
        let (a, b) = self.sides(values)?;
        let own = self.vars();
        let shown: Vec<String> = values
            .iter()
            .filter(|(name, _)| own.contains(name))
            .map(|(name, value)| format!("{} = {value}", name.trim_start_matches(OWN)))
            .collect();
        if shown.is_empty() {
            return None;
        }
        let fails = match self.relation {
            Relation::Equal => format!("{a} is not {b}"),
            Relation::NotEqual => format!("both are {a}"),
            Relation::AtMost => format!("{a} is above {b}"),
            Relation::Less => format!("{a} is not below {b}"),
            Relation::Divides => format!("{a} does not divide {b}"),
        };
        Some(format!("for {}: {fails}", shown.join(", ")))
    }

    /// The claim that holds exactly where this one has a value and fails, for `divides(a, b)` where
    /// `a` is not 0.
    #[must_use]
    pub fn opposite(&self) -> Claim {
        let (left, right) = (self.left.clone(), self.right.clone());
        match self.relation {
            Relation::Equal => Claim::new(left, Relation::NotEqual, right),
            Relation::NotEqual => Claim::new(left, Relation::Equal, right),
            Relation::AtMost => Claim::new(right, Relation::Less, left),
            Relation::Less => Claim::new(right, Relation::AtMost, left),
            Relation::Divides => {
                Claim::new(Dim::op(DimOp::FloorMod, right, left), Relation::NotEqual, 0)
            }
        }
    }

    /// The variables of both sides.
    #[must_use]
    pub fn vars(&self) -> BTreeSet<&Name> {
        let mut vars = BTreeSet::new();
        self.visit_vars(&mut |name| _ = vars.insert(name));
        vars
    }

    /// Calls `visit` on each variable, left to right, repeated ones too.
    pub fn visit_vars<'a>(&'a self, visit: &mut dyn FnMut(&'a Name)) {
        self.left.visit_vars(visit);
        self.right.visit_vars(visit);
    }
}

/// The text, as a statement of the language.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim { left, relation, right } = self;
        match relation {
            Relation::Equal => write!(f, "{left} == {right}"),
            Relation::NotEqual => write!(f, "{left} != {right}"),
            Relation::AtMost => write!(f, "{left} <= {right}"),
            Relation::Less => write!(f, "{left} < {right}"),
            Relation::Divides => write!(f, "divides({left}, {right})"),
        }
    }
}

/// Decides claims on dims under a scoped set of facts. Sound: `Proved` and `Refuted` are never
/// wrong; `Unknown` is always allowed.
///
/// A variable is any integer until [`Facts::assume`] says more; whoever declares a dim assumes that
/// it is at least 0.
pub trait Facts {
    /// Adds a fact to the innermost scope.
    fn assume(&mut self, claim: Claim);
    /// Opens a scope.
    fn push(&mut self);
    /// Closes the innermost scope and forgets what it assumed.
    fn pop(&mut self);
    /// Decides a claim.
    fn decide(&mut self, claim: &Claim) -> Answer;
    /// An equal expression in canonical form.
    fn simplify(&mut self, dim: &Dim) -> Dim;

    /// Single facts, each of which would decide a claim that is not decided: the weakest first, few.
    fn missing(&mut self, claim: &Claim) -> Vec<Claim> {
        let _ = claim;
        Vec::new()
    }

    /// Decides `a == b`.
    fn equal(&mut self, a: &Dim, b: &Dim) -> Answer {
        if a == b {
            return Answer::Proved;
        }
        self.decide(&Claim::new(a.clone(), Relation::Equal, b.clone()))
    }
}
