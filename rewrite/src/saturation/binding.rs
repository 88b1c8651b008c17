//! What a match of a rule stands for: a class for each operand, and what their annotations and the attributes of
//! calls tell of dims, groups of axes and element types.

use super::questions::Questions;
use super::spelling::{is_axis, rank_of_axes, spelled};
use super::term::{Attr, Scalar};
use egg::Id;
use relax_semantics::ops::Operator;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::{Claim, Relation};
use relax_theorems::rules::rule::{Arg, Axis, Call, ElementType, Entry, Operand, Param, rank_of};
use std::collections::BTreeMap;

/// What the names of a rule stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound {
    pub(super) params: BTreeMap<usize, Id>,
    pub(super) floats: BTreeMap<usize, u64>,
    pub(super) dims: BTreeMap<Name, Dim>,
    pub(super) groups: BTreeMap<Name, Vec<Dim>>,
    pub(super) types: BTreeMap<ElementType, DType>,
    /// A dim of the rule, and what it must be.
    equations: Vec<(Dim, Dim)>,
    /// Dims of the program that must be equal.
    same: Vec<(Dim, Dim)>,
}

/// A call of the side that is found, with what the graph has in its place.
#[derive(Clone, Debug)]
pub(super) struct Met<'r> {
    pub(super) call: &'r Call,
    pub(super) attrs: Vec<Attr>,
    /// The rank of the first operand.
    pub(super) first: Option<usize>,
}

impl Bound {
    /// Binds the dims, groups and types of the operands that were found; all ways to divide axes among groups.
    pub(super) fn of_operands(
        params: &[Param],
        classes: &BTreeMap<usize, Id>,
        annotation: &dyn Fn(Id) -> Option<Annotation>,
        questions: &mut Questions,
    ) -> Vec<Bound> {
        let mut ways = vec![Bound { params: classes.clone(), ..Bound::default() }];
        for (&at, &id) in classes {
            let Operand::Tensor(axes, kind) = &params[at].what else { return Vec::new() };
            let Some(Annotation::Tensor(TensorType { extents, dtype: Some(dtype) })) =
                annotation(id)
            else {
                return Vec::new();
            };
            let Some(dims) = extents.dims() else { return Vec::new() };
            let extend = |way: Bound| way.with_operand(axes, dims, kind, dtype, questions);
            ways = ways.into_iter().flat_map(extend).collect();
        }
        ways
    }

    fn with_operand(
        mut self,
        axes: &[Axis],
        dims: &[Dim],
        kind: &ElementType,
        dtype: DType,
        questions: &mut Questions,
    ) -> Vec<Bound> {
        if !self.bind_type(kind, dtype) {
            return Vec::new();
        }
        let mut found = Vec::new();
        self.axes(axes, dims, questions, &mut found);
        found
    }

    fn axes(&self, axes: &[Axis], dims: &[Dim], questions: &mut Questions, found: &mut Vec<Bound>) {
        let Some((axis, rest)) = axes.split_first() else {
            if dims.is_empty() {
                found.push(self.clone());
            }
            return;
        };
        match axis {
            Axis::Dim(pattern) => {
                let Some((dim, others)) = dims.split_first() else { return };
                let mut next = self.clone();
                next.meet(pattern, dim);
                next.axes(rest, others, questions, found);
            }
            Axis::Group(name) => {
                let least = rest.iter().filter(|axis| matches!(axis, Axis::Dim(_))).count();
                let known = self.groups.get(name).map(Vec::len);
                let most = dims.len().checked_sub(least);
                let Some(most) = most else { return };
                let only_one = !rest.iter().any(|axis| matches!(axis, Axis::Group(_)));
                let from = known.unwrap_or(if only_one { most } else { 0 });
                for rank in from..=known.unwrap_or(most).min(most) {
                    let (own, others) = dims.split_at(rank);
                    let mut next = self.clone();
                    if next.bind_group(name, own, questions) {
                        next.axes(rest, others, questions, found);
                    }
                }
            }
        }
    }

    fn bind_group(&mut self, name: &Name, dims: &[Dim], questions: &mut Questions) -> bool {
        if let Some(known) = self.groups.get(name) {
            return known.len() == dims.len()
                && known.iter().zip(dims).all(|(a, b)| questions.equal(a, b));
        }
        self.groups.insert(name.clone(), dims.to_vec());
        let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
        self.dims.insert(rank_of(name), Dim::Int(rank));
        true
    }

    /// Notes that a dim of the rule is this one.
    fn meet(&mut self, pattern: &Dim, dim: &Dim) {
        match pattern {
            Dim::Var(name) if !self.dims.contains_key(name) => {
                self.dims.insert(name.clone(), dim.clone());
            }
            _ => self.equations.push((pattern.clone(), dim.clone())),
        }
    }

    pub(super) fn bind_type(&mut self, kind: &ElementType, dtype: DType) -> bool {
        match kind {
            ElementType::Fixed(fixed) => *fixed == dtype,
            ElementType::Variable(_) => {
                let of_class = match kind.class().unwrap_or_default() {
                    "float" => dtype.is_float(),
                    "int" => dtype.is_integer(),
                    "uint" => dtype.class() == Class::Unsigned,
                    "number" => dtype.is_float() || dtype.is_integer(),
                    "bool" => dtype == DType::Bool,
                    "any" => true,
                    _ => false,
                };
                of_class && *self.types.entry(kind.clone()).or_insert(dtype) == dtype
            }
        }
    }

    /// Holds the attributes of a call against those of the rule, and binds what they tell.
    pub(super) fn attributes(&mut self, met: &Met) -> bool {
        let args = met.call.args.iter().zip(&met.attrs);
        let mut pairs = met.call.row.params.iter().zip(args);
        pairs.all(|(param, (arg, attr))| {
            if is_axis(param.name) && !matches!(arg, Arg::None) {
                return self.axes_attribute(met, arg, attr);
            }
            self.attribute(arg, attr)
        })
    }

    fn axes_attribute(&mut self, met: &Met, arg: &Arg, attr: &Attr) -> bool {
        let Some(pattern) = self.resolved(arg) else { return false };
        let row = met.call.row;
        // `rank_of_axes` counts the axes that are named, which only the whole list of attributes tells.
        let mut attrs = met.attrs.clone();
        let Some(at) = row.params.iter().position(|param| is_axis(param.name)) else {
            return false;
        };
        attrs[at] = pattern;
        debug_assert!(rank_of_axes(row, &attrs, met.first).is_some() || met.first.is_none());
        let spelled = spelled(row, attrs, met.first, None);
        spelled.is_some_and(|attrs| attrs[at] == *attr)
    }

    fn attribute(&mut self, arg: &Arg, attr: &Attr) -> bool {
        match (arg, attr) {
            (Arg::Node(_), Attr::Operand) | (Arg::None, Attr::None) => true,
            (Arg::Nodes(nodes), Attr::Operands(count)) => nodes.len() == *count,
            (Arg::Integer(pattern), Attr::Dim(dim)) => {
                self.meet(pattern, dim);
                true
            }
            (Arg::Integer(pattern), Attr::List(dims)) => match dims.as_slice() {
                [dim] => {
                    self.meet(pattern, dim);
                    true
                }
                _ => false,
            },
            (Arg::Integer(Dim::Int(value)), Attr::Float(bits)) => {
                *bits == (*value as f64).to_bits()
            }
            (Arg::List(entries), Attr::List(dims)) => self.list(entries, dims),
            (Arg::Float(value), Attr::Float(bits)) => value.to_bits() == *bits,
            (Arg::Scalar(at), Attr::Float(bits)) => {
                *self.floats.entry(*at).or_insert(*bits) == *bits
            }
            (Arg::Bool(a), Attr::Bool(b)) => a == b,
            (Arg::Str(a), Attr::Str(b)) => a == b,
            (Arg::Type(kind), Attr::Str(name)) => {
                DType::parse(name).is_some_and(|dtype| self.bind_type(kind, dtype))
            }
            _ => false,
        }
    }

    fn list(&mut self, entries: &[Entry], dims: &[Dim]) -> bool {
        let mut left = dims;
        for entry in entries {
            match entry {
                Entry::One(pattern) => {
                    let Some((dim, rest)) = left.split_first() else { return false };
                    self.meet(pattern, dim);
                    left = rest;
                }
                Entry::Dims(group) => {
                    let Some(known) = self.groups.get(group).cloned() else { return false };
                    let Some((own, rest)) = left.split_at_checked(known.len()) else {
                        return false;
                    };
                    self.same.extend(known.into_iter().zip(own.iter().cloned()));
                    left = rest;
                }
                Entry::Unpadded(group) => {
                    let Some(rank) = self.groups.get(group).map(Vec::len) else { return false };
                    let Some((own, rest)) = left.split_at_checked(2 * rank) else { return false };
                    self.same.extend(own.iter().map(|width| (Dim::Int(0), width.clone())));
                    left = rest;
                }
                Entry::Span(..) => return false,
            }
        }
        left.is_empty()
    }

    /// Holds a constant of the graph against one of the rule.
    pub(super) fn constant(&mut self, scalar: Scalar, kind: &ElementType) -> bool {
        self.bind_type(kind, scalar.dtype())
    }

    /// Solves what is open for the names that have no value yet, and proves all equations.
    pub(super) fn close(&mut self, questions: &mut Questions) -> bool {
        let equations = std::mem::take(&mut self.equations);
        let mut open: Vec<&(Dim, Dim)> = equations.iter().collect();
        loop {
            let before = open.len();
            open.retain(|(pattern, dim)| !self.solve(pattern, dim, questions));
            if open.is_empty() || open.len() == before {
                break;
            }
        }
        let mut claims = Vec::new();
        for (pattern, dim) in &equations {
            let Some(value) = self.value(pattern) else { return false };
            claims.push(Claim::new(value, Relation::Equal, dim.clone()));
        }
        let same = std::mem::take(&mut self.same).into_iter();
        claims.extend(same.map(|(a, b)| Claim::new(a, Relation::Equal, b)));
        // Every dim of a rule is an extent.
        self.dims.values().all(|dim| questions.not_negative(dim)) && questions.all_hold(claims)
    }

    /// Whether an equation has no name without a value, after solving it for the only one if there is one.
    fn solve(&mut self, pattern: &Dim, dim: &Dim, questions: &mut Questions) -> bool {
        if self.value(pattern).is_some() {
            return true;
        }
        let Some((name, value)) = self.inverted(pattern, dim) else { return false };
        let value = questions.simplify(&value);
        self.dims.insert(name, value);
        true
    }

    /// What a name must be for the pattern to be `dim`, if it is the only one without a value.
    fn inverted(&self, pattern: &Dim, dim: &Dim) -> Option<(Name, Dim)> {
        match pattern {
            Dim::Var(name) => Some((name.clone(), dim.clone())),
            Dim::Int(_) => None,
            Dim::Op(op, operands) => {
                let (a, b) = (self.value(&operands.0), self.value(&operands.1));
                let (known, other) = match (a, b) {
                    (Some(known), None) if *op != DimOp::Sub => (known, &operands.1),
                    (None, Some(known)) if *op != DimOp::Sub => (known, &operands.0),
                    _ => return None,
                };
                let back = match op {
                    DimOp::Add => DimOp::Sub,
                    // Where it does not divide, the equation has no proof.
                    DimOp::Mul => DimOp::FloorDiv,
                    _ => return None,
                };
                self.inverted(other, &Dim::op(back, dim.clone(), known))
            }
        }
    }

    /// The dim that one of the rule stands for.
    pub(super) fn value(&self, pattern: &Dim) -> Option<Dim> {
        let is_known = |name: &Name| self.dims.contains_key(name);
        pattern.vars_all(&is_known).then(|| pattern.substitute(&self.dims))
    }

    /// An attribute of the rule with everything in it known.
    pub(super) fn resolved(&self, arg: &Arg) -> Option<Attr> {
        Some(match arg {
            Arg::Node(_) => Attr::Operand,
            Arg::Nodes(nodes) => Attr::Operands(nodes.len()),
            Arg::Integer(dim) => Attr::Dim(self.value(dim)?),
            Arg::List(entries) => {
                let mut dims = Vec::new();
                for entry in entries {
                    match entry {
                        Entry::One(dim) => dims.push(self.value(dim)?),
                        Entry::Dims(group) => dims.extend(self.groups.get(group)?.iter().cloned()),
                        Entry::Unpadded(group) => {
                            let rank = self.groups.get(group)?.len();
                            dims.extend(vec![Dim::Int(0); 2 * rank]);
                        }
                        Entry::Span(first, group) => {
                            let first = self.value(first)?.as_int()?;
                            let rank = i64::try_from(self.groups.get(group)?.len()).ok()?;
                            dims.extend((first..first + rank).map(Dim::Int));
                        }
                    }
                }
                Attr::List(dims)
            }
            Arg::Float(value) => Attr::Float(value.to_bits()),
            Arg::Scalar(at) => Attr::Float(*self.floats.get(at)?),
            Arg::Bool(value) => Attr::Bool(*value),
            Arg::Str(text) => Attr::Str(text.clone()),
            Arg::Type(kind) => Attr::Str(self.dtype(kind)?.name().into()),
            Arg::None => Attr::None,
        })
    }

    pub(super) fn dtype(&self, kind: &ElementType) -> Option<DType> {
        match kind {
            ElementType::Fixed(dtype) => Some(*dtype),
            ElementType::Variable(_) => self.types.get(kind).copied(),
        }
    }
}

/// The row of a call of a rule with its attributes in their one spelling.
pub(super) fn attributes_of(
    bound: &Bound,
    call: &Call,
    first: Option<usize>,
) -> Option<(&'static Operator, Vec<Attr>)> {
    let attrs = call.args.iter().map(|arg| bound.resolved(arg)).collect::<Option<Vec<_>>>()?;
    Some((call.row, spelled(call.row, attrs, first, None)?))
}
