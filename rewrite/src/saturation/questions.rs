//! Questions on dims, each asked of the prover once, and deductions of the operator table, each made once.
//! What is known here is what is known of the function; deduction may not add to it.

use super::term::Attr;
use crate::guarded::Guard;
use relax_semantics::ops::traps::calls::inferred;
use relax_semantics::ops::{Kind as ParamKind, Known, Operand, Operator};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::{BTreeMap, HashMap};

/// A call: its row, attributes and operands.
type Called = (&'static str, Vec<Attr>, Vec<Annotation>);

/// The prover with what it has answered.
pub(super) struct Questions<'f> {
    facts: &'f mut dyn Facts,
    answers: HashMap<Claim, bool>,
    simple: HashMap<Dim, Dim>,
    deduced: HashMap<Called, Option<Annotation>>,
    /// What would have let a rule be used had it been proved, and how often.
    undecided: BTreeMap<Guard, usize>,
    effort: Effort,
}

/// What was done so far; who looks before and after knows what a rule took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    /// Places that were held against a side of a rule: its operators stand there.
    pub(super) tried: usize,
    /// Claims that the prover was asked.
    pub(super) asked: usize,
}

/// The most claims that are noted together: a guard of more would seldom hold.
const MOST_TOGETHER: usize = 2;

impl<'f> Questions<'f> {
    pub(super) fn new(facts: &'f mut dyn Facts) -> Self {
        let (answers, simple, deduced) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (undecided, effort) = (BTreeMap::new(), Effort::default());
        Self { facts, answers, simple, deduced, undecided, effort }
    }

    /// The prover itself, with what is assumed.
    pub(super) fn facts(&mut self) -> &mut dyn Facts {
        &mut *self.facts
    }

    /// Whether a claim holds for all dims.
    pub(super) fn proves(&mut self, claim: &Claim) -> bool {
        if let Some(&known) = self.answers.get(claim) {
            return known;
        }
        self.effort.asked += 1;
        let proved = self.facts.decide(claim) == Answer::Proved;
        self.answers.insert(claim.clone(), proved);
        proved
    }

    pub(super) fn equal(&mut self, a: &Dim, b: &Dim) -> bool {
        a == b || self.proves(&Claim::new(a.clone(), Relation::Equal, b.clone()))
    }

    /// Proves all of them, or notes those that are left as what would have been needed together.
    pub(super) fn all_hold(&mut self, claims: impl IntoIterator<Item = Claim>) -> bool {
        let mut left = Guard::new();
        for claim in claims {
            if claim.left == claim.right && claim.relation == Relation::Equal {
                continue;
            }
            if !self.proves(&claim) {
                if left.len() == MOST_TOGETHER {
                    return false;
                }
                let (a, b) = (self.simplify(&claim.left), self.simplify(&claim.right));
                left.push(Claim::new(a, claim.relation, b));
            }
        }
        left.sort();
        left.dedup();
        if left.is_empty() {
            return true;
        }
        *self.undecided.entry(left).or_default() += 1;
        false
    }

    /// Notes that places are held against a side.
    pub(super) fn trying(&mut self, places: usize) {
        self.effort.tried += places;
    }

    pub(super) fn effort(&self) -> Effort {
        self.effort
    }

    /// What was undecided.
    pub(super) fn undecided(&self) -> &BTreeMap<Guard, usize> {
        &self.undecided
    }

    pub(super) fn not_negative(&mut self, dim: &Dim) -> bool {
        match dim {
            Dim::Int(value) => *value >= 0,
            _ => self.proves(&Claim::new(0, Relation::AtMost, dim.clone())),
        }
    }

    pub(super) fn simplify(&mut self, dim: &Dim) -> Dim {
        if let Some(known) = self.simple.get(dim) {
            return known.clone();
        }
        let simple = self.facts.simplify(dim);
        self.simple.insert(dim.clone(), simple.clone());
        simple
    }

    /// Whether two annotations say the same of a value, given some more claims.
    pub(super) fn same(&mut self, a: &Annotation, b: &Annotation, given: Vec<Claim>) -> bool {
        let mut claims = given;
        must_be_equal(a, b, &mut claims) && self.all_hold(claims)
    }

    /// What a call gives, if all that it demands of annotations is proved.
    pub(super) fn deduce(
        &mut self,
        row: &'static Operator,
        attrs: &[Attr],
        operands: &[Annotation],
    ) -> Option<Annotation> {
        let key = (row.name, attrs.to_vec(), operands.to_vec());
        if let Some(known) = self.deduced.get(&key) {
            return known.clone();
        }
        let known = arguments(row, attrs, operands);
        self.facts.push();
        let found = inferred(row, &known, self.facts);
        self.facts.pop();
        let found = found.filter(|(_, left)| !left).map(|(found, _)| found);
        self.deduced.insert(key, found.clone());
        found
    }
}

/// Notes which dims must be equal for two annotations to say the same; false where they never do.
fn must_be_equal(a: &Annotation, b: &Annotation, claims: &mut Vec<Claim>) -> bool {
    match (a, b) {
        _ if a == b => true,
        (Annotation::Tensor(a), Annotation::Tensor(b)) => {
            let (Extents::Known(m), Extents::Known(n)) = (&a.extents, &b.extents) else {
                return false;
            };
            let pairs = m.iter().zip(n).filter(|(m, n)| m != n);
            claims.extend(pairs.map(|(m, n)| Claim::new(m.clone(), Relation::Equal, n.clone())));
            a.dtype == b.dtype && m.len() == n.len()
        }
        (Annotation::Tuple(a), Annotation::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| must_be_equal(a, b, claims))
        }
        _ => false,
    }
}

/// What deduction is told of the arguments of a call.
pub(super) fn arguments(row: &Operator, attrs: &[Attr], operands: &[Annotation]) -> Vec<Operand> {
    let mut next = operands.iter().cloned();
    let list = |dims: &[Dim]| Known::List(dims.iter().cloned().map(Known::Dim).collect());
    let mut found = Vec::with_capacity(attrs.len());
    for (param, attr) in row.params.iter().zip(attrs) {
        let known = match attr {
            Attr::Operand => {
                let annotation = next.next().unwrap_or(Annotation::Object);
                found.push(Operand { annotation, known: None });
                continue;
            }
            Attr::Operands(count) => {
                let annotation = Annotation::Tuple(next.by_ref().take(*count).collect());
                found.push(Operand { annotation, known: None });
                continue;
            }
            Attr::None => Known::None,
            Attr::Dim(dim) => Known::Dim(dim.clone()),
            Attr::Float(bits) => Known::Float(f64::from_bits(*bits)),
            Attr::Bool(value) => Known::Bool(*value),
            Attr::Str(text) => Known::Str(Name::new(text)),
            Attr::List(dims) if is_shape(param.kind) => {
                let annotation = Annotation::Shape(Extents::Known(dims.clone()));
                found.push(Operand { annotation, known: Some(list(dims)) });
                continue;
            }
            Attr::List(dims) => list(dims),
        };
        found.push(Operand::of_known(known));
    }
    found
}

fn is_shape(kind: ParamKind) -> bool {
    matches!(kind, ParamKind::Shape | ParamKind::OptionalShape | ParamKind::InferredShape)
}
