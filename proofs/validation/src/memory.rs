//! Plans of memory: for all dims, tensors that are in use together lie apart, each lies inside its storage, nothing
//! is used after its release, nothing is read before it is written. When tensors are in use is found out from the
//! text ([sites]), whatever the pass that made the plan believed.

pub mod demands;
mod life;
mod names;
mod sites;

use crate::answers::Source;
use crate::obligation::{Kind, Obligation, Outcome};
use life::{Life, exclude};
use names::{Keywords, Returns};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{Function, Module, VarId};
use sites::{Open, Sites, Tensor};
use std::collections::BTreeSet;

/// The obligations of every function that places tensors in storages. `initialized` are the parameters that a tensor
/// program reads, but writes before.
pub(crate) fn obligations(
    module: &Module,
    initialized: &BTreeSet<(Name, BufferId)>,
    source: &mut dyn Source,
) -> Vec<Obligation> {
    let mut found = Vec::new();
    for_each_plan(module, initialized, Keywords::Open, source, &mut |plan, source| {
        plan.derive();
        let trusted = source.was_trusted();
        found.extend(plan.found.drain(..).map(
            |Finding { place, question, mut outcome, .. }| {
                if trusted && outcome == Outcome::Proved {
                    outcome = Outcome::Trusted;
                }
                let (function, place) = (plan.function.name.clone(), format!("`{place}`"));
                let what = question.text().to_owned();
                Obligation { kind: Kind::Memory, function, place, what, outcome }
            },
        ));
    });
    found
}

/// Every function that places tensors in storages, with what is known of its dims.
fn for_each_plan(
    module: &Module,
    initialized: &BTreeSet<(Name, BufferId)>,
    keywords: Keywords,
    source: &mut dyn Source,
    visit: &mut dyn FnMut(&mut Plan<'_>, &mut dyn Source),
) {
    let returns = Returns::of(module, initialized, keywords);
    for function in module.functions() {
        let sites = Sites::of(function, module, &returns);
        if sites.tensors.is_empty() && sites.storages.is_empty() {
            continue;
        }
        let mut facts = source.facts();
        assume_signature(function, &mut *facts);
        let mut plan = Plan { function, sites: &sites, facts: &mut *facts, found: Vec::new() };
        visit(&mut plan, source);
    }
}

/// What is declared of the variables of a function, and that tensors that it is given have no negative dims:
/// calls are checked for it.
fn assume_signature(function: &Function, facts: &mut dyn Facts) {
    relax_semantics::tir::ranges::assume_declared(facts, &function.dims);
    for &param in &function.lambda.params {
        function.param_annotation(param).visit_dims(&mut |dim| {
            if matches!(dim, Dim::Op(..)) {
                facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
            }
        });
    }
}

struct Plan<'a> {
    function: &'a Function,
    sites: &'a Sites,
    facts: &'a mut dyn Facts,
    found: Vec<Finding>,
}

/// What became of a question about a tensor or a storage.
struct Finding {
    /// Its name, or what else it is about.
    place: Name,
    /// The binding to look at; `None` where the function ends.
    binding: Option<VarId>,
    /// Another tensor that it is about.
    other: Option<VarId>,
    question: Question,
    outcome: Outcome,
}

/// What must hold of a tensor or a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// A tensor lies inside its storage.
    Inside,
    /// It shares no byte with what is in use with it.
    Apart,
    /// It is not used after its release.
    Released,
    /// A tensor is written before it is read.
    Written,
    /// Nothing else uses its bytes.
    Followed,
    /// A storage is released.
    Freed,
}

impl Question {
    /// As a sentence goes on after the name: `lies inside its storage`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Question::Inside => "lies inside its storage",
            Question::Apart => "shares no byte with what is in use with it",
            Question::Released => "is not used after its release",
            Question::Written => "is written before it is read",
            Question::Followed => "nobody else uses its bytes",
            Question::Freed => "is released",
        }
    }
}

impl Plan<'_> {
    fn derive(&mut self) {
        for (at, tensor) in self.sites.tensors.iter().enumerate() {
            let inside = self.lies_inside(tensor);
            self.note(tensor, Question::Inside, inside);
            let (apart, other) = self.lies_apart(at, tensor);
            self.note(tensor, Question::Apart, apart);
            self.found.last_mut().expect("invariant: it was noted").other = other;
            self.is_not_used_later(tensor.var, &tensor.name, &tensor.life);
            self.note(tensor, Question::Written, tensor.unwritten.clone());
        }
        for storage in &self.sites.storages {
            self.is_not_used_later(storage.var, &storage.name, &storage.life);
        }
        for Open { binding, place, why } in &self.sites.open {
            let (place, question) = (place.clone(), Question::Followed);
            let outcome = Outcome::Unproved((*why).to_owned());
            self.found.push(Finding { place, binding: *binding, other: None, question, outcome });
        }
    }

    fn note(&mut self, tensor: &Tensor, question: Question, outcome: Outcome) {
        let (place, binding) = (tensor.name.clone(), Some(tensor.var));
        self.found.push(Finding { place, binding, other: None, question, outcome });
    }

    fn is_not_used_later(&mut self, var: VarId, place: &Name, life: &Life) {
        let (outcome, binding) = life.used_after_release();
        let (place, question, other) = (place.clone(), Question::Released, Some(var));
        self.found.push(Finding { place, binding, other, question, outcome });
    }

    fn lies_inside(&mut self, tensor: &Tensor) -> Outcome {
        let (Some(offset), Some(end)) = (&tensor.offset, tensor.end()) else {
            return Outcome::Unproved("its size or place is not written as dims".to_owned());
        };
        if tensor.foreign || tensor.storages.is_empty() {
            return Outcome::Unproved("its storage is not one of this function".to_owned());
        }
        self.facts.push();
        self.assume_allocated(tensor);
        let mut claims = vec![Claim::new(0, Relation::AtMost, offset.clone())];
        let mut outcome = Outcome::Proved;
        for &storage in &tensor.storages {
            match &self.sites.storages[storage].bytes {
                Some(bytes) => {
                    claims.push(Claim::new(end.clone(), Relation::AtMost, bytes.clone()))
                }
                None => {
                    outcome = Outcome::Unproved("the size of its storage is not written".to_owned())
                }
            }
        }
        for claim in claims {
            match self.facts.decide(&claim) {
                Answer::Proved => {}
                Answer::Refuted(values) => {
                    outcome = Outcome::Refuted(failure(&claim, &values));
                    break;
                }
                Answer::Unknown => outcome = Outcome::Unproved(format!("`{claim}`")),
            }
        }
        self.facts.pop();
        outcome
    }

    /// A tensor that is made has no negative dims, or the program stops there.
    fn assume_allocated(&mut self, tensor: &Tensor) {
        for dim in tensor.dims.iter().flatten().filter(|dim| matches!(dim, Dim::Op(..))) {
            self.facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
        }
    }

    /// Beside each tensor that was made before it and is in use with it.
    fn lies_apart(&mut self, at: usize, tensor: &Tensor) -> (Outcome, Option<VarId>) {
        let mut open = (Outcome::Proved, None);
        for other in &self.sites.tensors[..at] {
            if !tensor.meets(other) || !tensor.may_share_storage(other) {
                continue;
            }
            match self.are_apart(tensor, other) {
                Outcome::Proved | Outcome::Trusted => {}
                Outcome::Unproved(why) => {
                    let why = format!("`{}`: {why}", other.name);
                    open = (Outcome::Unproved(why), Some(other.var));
                }
                Outcome::Refuted(why) => {
                    let why = format!("`{}`: {why}", other.name);
                    return (Outcome::Refuted(why), Some(other.var));
                }
            }
        }
        open
    }

    fn are_apart(&mut self, a: &Tensor, b: &Tensor) -> Outcome {
        let parts = (&a.offset, a.end(), &b.offset, b.end());
        let (Some(a_from), Some(a_to), Some(b_from), Some(b_to)) = parts else {
            return Outcome::Unproved("its size or place is not written as dims".to_owned());
        };
        if a.foreign || b.foreign {
            return Outcome::Unproved("both lie in storages of other functions".to_owned());
        }
        self.facts.push();
        self.assume_allocated(a);
        self.assume_allocated(b);
        let before = Claim::new(a_to, Relation::AtMost, b_from.clone());
        let after = Claim::new(b_to, Relation::AtMost, a_from.clone());
        let outcome = match (self.facts.decide(&before), &after) {
            (Answer::Proved, _) => Outcome::Proved,
            (Answer::Refuted(values), after)
                if after.holds(&values) == Some(false)
                    && a.has_bytes(&values)
                    && b.has_bytes(&values) =>
            {
                Outcome::Refuted(failure(after, &values))
            }
            _ => match self.facts.decide(&after) {
                Answer::Proved => Outcome::Proved,
                _ => self.overlap_with_bytes(a, b, &before, &after),
            },
        };
        self.facts.pop();
        outcome
    }

    /// Neither is proved, and the counterexample of `before` is a tensor without bytes, or none: looks for one with bytes.
    fn overlap_with_bytes(
        &mut self,
        a: &Tensor,
        b: &Tensor,
        before: &Claim,
        after: &Claim,
    ) -> Outcome {
        let open = Outcome::Unproved(format!("neither `{before}` nor `{after}`"));
        for bytes in [a.bytes(), b.bytes()].into_iter().flatten() {
            self.facts.assume(Claim::new(0, Relation::Less, bytes));
        }
        for (claim, other) in [(before, after), (after, before)] {
            if let Answer::Refuted(values) = self.facts.decide(claim)
                && other.holds(&values) == Some(false)
            {
                return Outcome::Refuted(failure(other, &values));
            }
        }
        open
    }
}

impl Tensor {
    fn end(&self) -> Option<Dim> {
        Some(Dim::op(DimOp::Add, self.offset.clone()?, self.bytes()?))
    }

    fn bytes(&self) -> Option<Dim> {
        let dims = self.dims.as_ref()?;
        let size = Dim::Int(i64::try_from(self.dtype?.size()).ok()?);
        Some(dims.iter().fold(size, |acc, dim| Dim::op(DimOp::Mul, acc, dim.clone())))
    }

    fn has_bytes(&self, values: &Counterexample) -> bool {
        let bytes = self.bytes().map(|bytes| Claim::new(0, Relation::Less, bytes));
        bytes.is_some_and(|claim| claim.holds(values) == Some(true))
    }

    /// Both in use at the same time, in some run.
    fn meets(&self, other: &Tensor) -> bool {
        let (a, b) = (&self.life, &other.life);
        a.made <= b.last && b.made <= a.last && !exclude(&a.path, &b.path)
    }

    fn may_share_storage(&self, other: &Tensor) -> bool {
        (self.foreign && other.foreign)
            || self.storages.intersection(&other.storages).next().is_some()
    }
}

fn failure(claim: &Claim, values: &Counterexample) -> String {
    claim.failure(values).unwrap_or_else(|| format!("`{claim}` does not hold"))
}
