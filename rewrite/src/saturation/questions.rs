//! Questions on dims, each asked of the prover once, and deductions of the operator table, each made once.
//! What is known here is what is known of the function; deduction may not add to it.

use super::term::Attr;
use relax_semantics::ops::{Infer, Kind as ParamKind, Known, Operand, Operator};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::HashMap;

/// A call: its row, attributes and operands.
type Called = (&'static str, Vec<Attr>, Vec<Annotation>);

/// The prover with what it has answered.
pub(super) struct Questions<'f> {
    facts: &'f mut dyn Facts,
    answers: HashMap<Claim, bool>,
    simple: HashMap<Dim, Dim>,
    deduced: HashMap<Called, Option<Annotation>>,
}

impl<'f> Questions<'f> {
    pub(super) fn new(facts: &'f mut dyn Facts) -> Self {
        let (answers, simple, deduced) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { facts, answers, simple, deduced }
    }

    /// Whether a claim holds for all dims.
    pub(super) fn proves(&mut self, claim: &Claim) -> bool {
        if let Some(&known) = self.answers.get(claim) {
            return known;
        }
        let proved = self.facts.decide(claim) == Answer::Proved;
        self.answers.insert(claim.clone(), proved);
        proved
    }

    pub(super) fn equal(&mut self, a: &Dim, b: &Dim) -> bool {
        a == b || self.proves(&Claim::new(a.clone(), Relation::Equal, b.clone()))
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

    /// Whether two annotations say the same of a value.
    pub(super) fn same(&mut self, a: &Annotation, b: &Annotation) -> bool {
        match (a, b) {
            _ if a == b => true,
            (Annotation::Tensor(a), Annotation::Tensor(b)) => {
                let (Extents::Known(m), Extents::Known(n)) = (&a.extents, &b.extents) else {
                    return false;
                };
                a.dtype == b.dtype
                    && m.len() == n.len()
                    && m.iter().zip(n).all(|(m, n)| self.equal(m, n))
            }
            (Annotation::Tuple(a), Annotation::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same(a, b))
            }
            _ => false,
        }
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
        let mut infer = Infer {
            row,
            operands: &known,
            facts: self.facts,
            obligations: Vec::new(),
            module: None,
        };
        let found = (row.infer)(&mut infer).ok();
        let left = !infer.obligations.is_empty();
        self.facts.pop();
        let found = found.filter(|_| !left);
        self.deduced.insert(key, found.clone());
        found
    }
}

/// What deduction is told of the arguments of a call.
fn arguments(row: &Operator, attrs: &[Attr], operands: &[Annotation]) -> Vec<Operand> {
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
