//! Which parts of its operands a call needs for a part of its result along one axis.

use super::Slice;
use crate::passes::normalize::broadcasts;
use relax_semantics::ops::{Kind, Operator, by_position, lookup, normalize_axis};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Binding, Callee, Expr, VarId};
use std::collections::BTreeMap;

/// Rows with `axis` and `keepdims` that make one element of all along the axes.
const REDUCTIONS: &[&str] = &["mean", "sum", "max", "min", "prod", "variance", "std"];

/// Whether each element of the result is a function of the element at its place in the only tensor.
fn is_elementwise(row: &Operator) -> bool {
    let tensors = row.params.iter().filter(|param| param.kind == Kind::Tensor).count();
    tensors == 1 && row.elementwise().is_some()
}

/// A call of an operator on tensors of known dims.
pub(super) struct Call<'a> {
    row: &'static Operator,
    annotations: &'a [Annotation],
    args: &'a [Atom],
    /// What each parameter is.
    slots: Vec<Atom>,
    dims: &'a [Dim],
}

/// How a call is written that makes a part of its result.
pub(super) struct Narrowed {
    /// The operands of which a part is read, and along which axis.
    pub(super) operands: BTreeMap<VarId, usize>,
    /// The shape argument, where the operator takes one.
    shape: Option<Vec<Dim>>,
}

impl<'a> Call<'a> {
    pub(super) fn of(binding: &'a Binding, annotations: &'a [Annotation]) -> Option<Self> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return None;
        };
        let row = lookup(name)?;
        let dims = annotations[binding.var.0 as usize].dims()?;
        let slots = by_position(row, args, attrs)?;
        Some(Self { row, annotations, args, slots, dims })
    }

    /// Of `strided_slice` along one axis, one element after the other: the operand and the slice.
    pub(super) fn slice(&self) -> Option<(VarId, Slice)> {
        if self.row.name != "strided_slice" {
            return None;
        }
        let &Atom::Var(of) = self.slot("x")? else { return None };
        let ([axis], [begin], [end]) = (self.list("axes")?, self.list("begin")?, self.list("end")?)
        else {
            return None;
        };
        let (Atom::Dim(Dim::Int(axis)), Atom::Dim(begin), Atom::Dim(end)) = (axis, begin, end)
        else {
            return None;
        };
        let steps = match self.slot("strides")? {
            Atom::None => true,
            Atom::List(steps) => matches!(steps.as_slice(), [Atom::Dim(Dim::Int(1))]),
            _ => false,
        };
        let inbound = *self.slot("assume_inbound")? == Atom::Bool(true);
        let axis = normalize_axis(*axis, self.dims.len())?;
        let extent = self.dims[axis].clone();
        let (begin, end) = (begin.clone(), end.clone());
        (steps && !inbound).then_some((of, Slice { axis, begin, end, extent }))
    }

    /// The call with literals in the place of its dims.
    pub(super) fn anywhere(&self) -> Expr {
        let literal = |arg: &Atom| match arg {
            Atom::Var(_) => arg.clone(),
            _ => Atom::List(vec![Atom::Dim(Dim::Int(0))]),
        };
        let args = self.args.iter().map(literal).collect();
        let callee = Callee::Operator(Name::new(self.row.name));
        Expr::Call { callee, args, attrs: Vec::new() }
    }

    /// The call for a part of the result along an axis; `None` where that takes other parts of operands.
    pub(super) fn narrowed(&self, axis: usize, extent: &Dim) -> Option<Narrowed> {
        let mut shape = None;
        let read: Vec<(usize, usize)> = match self.row.name {
            "matmul" => self.product(axis)?,
            "reshape" => {
                let mut dims = self.kept(axis)?.to_vec();
                dims[axis] = extent.clone();
                shape = Some(dims);
                vec![(0, axis)]
            }
            "permute_dims" => vec![(0, self.permuted(axis)?)],
            "concat" if !self.axes("axis")?.contains(&axis) => return self.joined(axis),
            "nn.softmax" | "nn.log_softmax" | "repeat" if !self.axes("axis")?.contains(&axis) => {
                vec![(0, axis)]
            }
            "nn.layer_norm" | "nn.rms_norm" | "strided_slice"
                if !self.axes("axes")?.contains(&axis) =>
            {
                vec![(0, axis)]
            }
            name if REDUCTIONS.contains(&name) => {
                let kept = *self.slot("keepdims")? == Atom::Bool(true);
                (kept && !self.axes("axis")?.contains(&axis)).then(|| vec![(0, axis)])?
            }
            _ if is_elementwise(self.row) => vec![(0, axis)],
            _ if broadcasts(self.row) => self.broadcast(axis)?,
            _ => return None,
        };
        let mut operands = BTreeMap::new();
        for (at, along) in read {
            let Some(&Atom::Var(var)) = self.args.get(at) else { return None };
            let same = self.dims_at(at)?.get(along)? == self.dims.get(axis)?;
            if !same || operands.insert(var, along).is_some_and(|before| before != along) {
                return None;
            }
        }
        // An operand that is read whole as well stays whole.
        let whole = |(at, arg): (usize, &Atom)| match arg {
            Atom::Var(var) => operands.contains_key(var) && !self.is_read(at, axis),
            _ => false,
        };
        let twice = self.args.iter().enumerate().any(whole);
        (!twice && !operands.is_empty()).then_some(Narrowed { operands, shape })
    }

    /// Whether the operand at a place is read in part: of others than products and broadcasts the first alone is.
    fn is_read(&self, at: usize, axis: usize) -> bool {
        let read = match self.row.name {
            "matmul" => self.product(axis),
            _ if broadcasts(self.row) => self.broadcast(axis),
            _ => Some(vec![(0, axis)]),
        };
        read.is_some_and(|read| read.iter().any(|(part, _)| *part == at))
    }

    /// Of a product rows come from the left operand, matrices of a batch from both.
    fn product(&self, axis: usize) -> Option<Vec<(usize, usize)>> {
        let rank = self.dims.len();
        let [left, right] = [self.dims_at(0)?, self.dims_at(1)?];
        if left.len() < 2 || right.len() < 2 || axis + 1 == rank {
            return None;
        }
        if axis + 2 == rank {
            return Some(vec![(0, left.len() - 2)]);
        }
        self.stretched(&[0, 1], axis)
    }

    fn broadcast(&self, axis: usize) -> Option<Vec<(usize, usize)>> {
        let places: Vec<usize> = (0..self.args.len()).collect();
        self.stretched(&places, axis)
    }

    /// The operands that have the axis, counted from the last one, and do not repeat one element along it.
    fn stretched(&self, places: &[usize], axis: usize) -> Option<Vec<(usize, usize)>> {
        let from_last = self.dims.len() - axis;
        let mut read = Vec::new();
        for &at in places {
            if let Atom::Constant(constant) = &self.args[at] {
                let along = constant.shape.len().checked_sub(from_last);
                if along.is_some_and(|along| constant.shape[along] != 1) {
                    return None;
                }
                continue;
            }
            let dims = self.dims_at(at)?;
            match dims.len().checked_sub(from_last) {
                Some(along) if dims[along] != Dim::Int(1) => read.push((at, along)),
                _ => {}
            }
        }
        Some(read)
    }

    /// The shape of a reshape that leaves the axis, and those before it, as they are.
    fn kept(&self, axis: usize) -> Option<&'a [Dim]> {
        let before = self.dims_at(0)?;
        (before.get(..=axis)? == self.dims.get(..=axis)?).then_some(self.dims)
    }

    fn permuted(&self, axis: usize) -> Option<usize> {
        let rank = self.dims.len();
        match self.slot("axes")? {
            Atom::None => Some(rank - 1 - axis),
            _ => self.axes("axes")?.get(axis).copied(),
        }
    }

    /// Of tensors side by side along another axis, a part of each.
    fn joined(&self, axis: usize) -> Option<Narrowed> {
        let Some(Atom::Tuple(items) | Atom::List(items)) = self.args.first() else { return None };
        let mut operands = BTreeMap::new();
        for item in items {
            let Atom::Var(var) = item else { return None };
            if self.annotations[var.0 as usize].dims()?.get(axis)? != self.dims.get(axis)? {
                return None;
            }
            operands.insert(*var, axis);
        }
        Some(Narrowed { operands, shape: None })
    }

    fn slot(&self, param: &str) -> Option<&Atom> {
        self.slots.get(self.row.params.iter().position(|it| it.name == param)?)
    }

    fn list(&self, param: &str) -> Option<&[Atom]> {
        match self.slot(param)? {
            Atom::List(items) | Atom::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Axes that are written out, counted from the first.
    fn axes(&self, param: &str) -> Option<Vec<usize>> {
        let rank = self.dims.len();
        let one = |atom: &Atom| match atom {
            Atom::Dim(Dim::Int(axis)) => normalize_axis(*axis, rank),
            _ => None,
        };
        match self.slot(param)? {
            Atom::List(items) | Atom::Tuple(items) => items.iter().map(one).collect(),
            atom => Some(vec![one(atom)?]),
        }
    }

    fn dims_at(&self, at: usize) -> Option<&'a [Dim]> {
        match self.args.get(at)? {
            Atom::Var(var) => self.annotations[var.0 as usize].dims(),
            _ => None,
        }
    }

    /// The extent of a value along an axis.
    pub(super) fn extent(&self, var: VarId, axis: usize) -> Option<&'a Dim> {
        self.annotations[var.0 as usize].dims()?.get(axis)
    }
}

impl Narrowed {
    /// The call of parts in the place of operands.
    pub(super) fn expr(&self, expr: &Expr, parts: &BTreeMap<VarId, VarId>) -> Expr {
        let Expr::Call { callee, args, attrs } = expr else { return expr.clone() };
        let var = |atom: &Atom| match atom {
            Atom::Var(var) => Atom::Var(parts.get(var).copied().unwrap_or(*var)),
            other => other.clone(),
        };
        let mut args: Vec<Atom> = args
            .iter()
            .map(|arg| match arg {
                Atom::Tuple(items) => Atom::Tuple(items.iter().map(var).collect()),
                Atom::List(items) => Atom::List(items.iter().map(var).collect()),
                other => var(other),
            })
            .collect();
        let mut attrs: Vec<(Name, Atom)> = attrs.clone();
        if let Some(dims) = &self.shape {
            args.truncate(1);
            attrs.clear();
            args.push(Atom::Shape(dims.clone()));
        }
        Expr::Call { callee: callee.clone(), args, attrs }
    }
}
