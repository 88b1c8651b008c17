//! What is planned together: the tensors whose sizes are known from the same place on.

use super::Sizes;
use super::allocations::{Allocation, allocations};
use crate::memory::aliases::Aliases;
use crate::memory::extents::{Bytes, Extents};
use crate::memory::packing::Tenant;
use crate::memory::timeline::{Position, ScopeId, Timeline};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::{Function, VarId};
use std::collections::BTreeMap;

/// A tensor with a storage to itself.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) var: VarId,
    /// Its storage so far.
    pub(super) storage: VarId,
    pub(super) tenant: Tenant,
    /// After this position it is released by its name.
    pub(super) dies: Option<Position>,
}

/// Tensors whose memory is taken at one place.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// After the binding at this position; `None`: where the function begins.
    pub(super) after: Option<Position>,
    pub(super) tensors: Vec<Tensor>,
}

/// A tensor that keeps its storage, which is released with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub(super) var: VarId,
    pub(super) storage: VarId,
    pub(super) dies: Option<Position>,
}

/// The tensors of a function that have a storage to themselves.
pub(super) fn groups(
    function: &Function,
    timeline: &Timeline,
    aliases: &Aliases,
    sizes: Sizes,
    extents: &mut Extents,
) -> (Vec<Group>, Vec<Alone>) {
    let body = function.lambda.body.as_ref().expect("invariant: it has a timeline");
    let allocations = allocations(body, aliases);
    let unit = allocations.iter().map(|a| a.dtype.size()).max().unwrap_or(1);
    let last_uses = aliases.last_uses(timeline);
    let results = aliases.roots(&body.result);
    let mut groups: BTreeMap<Option<Position>, Vec<Tensor>> = BTreeMap::new();
    let mut alone = Vec::new();
    for allocation in &allocations {
        let after = allocation.known_after(timeline);
        let root = aliases.root(allocation.var);
        let lifetime = Lifetime {
            timeline,
            born: timeline.bound(allocation.var),
            last: last_uses[&root],
            is_result: results.contains(&root),
            sizes,
            region: after.map_or(0, |position| timeline.scope(position)),
        };
        let size = size(function, allocation, unit, sizes, extents);
        match size.and_then(|size| lifetime.tensor(allocation, size)) {
            Some(tensor) => groups.entry(after).or_default().push(tensor),
            None => {
                let (var, storage) = (allocation.var, allocation.storage);
                alone.push(Alone { var, storage, dies: lifetime.released() });
            }
        }
    }
    let groups = groups.into_iter().map(|(after, tensors)| Group { after, tensors });
    (groups.collect(), alone)
}

/// The bytes of a tensor, rounded up so that the next one is aligned; `None` where it may have a
/// negative dim, or no value: it must fail where it stands.
fn size(
    function: &Function,
    allocation: &Allocation,
    unit: usize,
    sizes: Sizes,
    extents: &mut Extents,
) -> Option<Bytes> {
    let mut dims = Vec::with_capacity(allocation.dims.len());
    for dim in allocation.dims {
        let claim = Claim::new(0, Relation::AtMost, dim.clone());
        if !has_value(dim) || !(is_natural(dim) || extents.is_proved(&claim)) {
            return None;
        }
        let bound = upper(function, dim).filter(|_| sizes == Sizes::AtBounds);
        dims.push(bound.map_or_else(|| dim.clone(), Dim::Int));
    }
    let literal = |size: usize| Dim::Int(i64::try_from(size).unwrap_or(i64::MAX));
    let size = allocation.dtype.size();
    let bytes = dims.into_iter().fold(literal(size), |acc, dim| Dim::op(DimOp::Mul, acc, dim));
    let bytes = extents.bytes(&bytes);
    let whole = extents.dim(bytes).clone();
    let aligned = Claim::new(literal(unit), Relation::Divides, whole.clone());
    if size == unit || extents.is_proved(&aligned) {
        return Some(bytes);
    }
    let units = Dim::op(DimOp::CeilDiv, whole, literal(unit));
    Some(extents.bytes(&Dim::op(DimOp::Mul, units, literal(unit))))
}

/// Whether an expression has a value for all dims: it divides by positive literals only.
fn has_value(dim: &Dim) -> bool {
    match dim {
        Dim::Int(_) | Dim::Var(_) => true,
        Dim::Op(op, operands) => {
            let divides = matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv);
            let positive = operands.1.as_int().is_some_and(|divisor| divisor > 0);
            has_value(&operands.0) && has_value(&operands.1) && (positive || !divides)
        }
    }
}

fn is_natural(dim: &Dim) -> bool {
    matches!(dim, Dim::Var(_)) || dim.as_int().is_some_and(|value| value >= 0)
}

/// The value at the upper bounds of the variables, for expressions that grow with each of them.
fn upper(function: &Function, dim: &Dim) -> Option<i64> {
    match dim {
        Dim::Int(value) => (*value >= 0).then_some(*value),
        Dim::Var(name) => function.dim(name)?.upper,
        Dim::Op(op, operands) => {
            let grows = match op {
                DimOp::Add | DimOp::Mul | DimOp::Min | DimOp::Max => true,
                DimOp::FloorDiv | DimOp::CeilDiv => operands.1.as_int().is_some(),
                DimOp::Sub | DimOp::FloorMod => false,
            };
            let (a, b) = (upper(function, &operands.0)?, upper(function, &operands.1)?);
            grows.then(|| op.apply(a, b)).flatten()
        }
    }
}

/// When a tensor is in use.
struct Lifetime<'a> {
    timeline: &'a Timeline,
    born: Position,
    /// The last mention of a variable that may name it.
    last: Position,
    is_result: bool,
    sizes: Sizes,
    /// The body where its memory would be taken.
    region: ScopeId,
}

impl Lifetime<'_> {
    /// `None` where it cannot be planned: it is used after the body in which its memory would be taken,
    /// or is a result that not every run makes.
    fn tensor(&self, allocation: &Allocation, size: Bytes) -> Option<Tensor> {
        let scope = self.timeline.scope(self.born);
        let is_host = self.is_result;
        // A graph of launches needs memory that is the same at every call, which results never have.
        if is_host && (scope != 0 || self.sizes == Sizes::AtBounds) {
            return None;
        }
        let end = if is_host {
            self.timeline.end()
        } else {
            // Used outside of the branch that makes it, it is released with its storage.
            let own = self.released();
            own.or_else(|| self.timeline.seen_from(self.last(), self.region))?
        };
        let tenant = Tenant { size, born: self.born, dies: end, scope, is_host };
        let (var, storage) = (allocation.var, allocation.storage);
        Some(Tensor { var, storage, tenant, dies: self.released() })
    }

    /// After which position its name is still known, and it is not used any more.
    fn released(&self) -> Option<Position> {
        let scope = self.timeline.scope(self.born);
        self.timeline.seen_from(self.last(), scope).filter(|_| !self.is_result)
    }

    fn last(&self) -> Position {
        self.last.max(self.born)
    }
}
