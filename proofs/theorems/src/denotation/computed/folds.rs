//! Sums and what is made of them, as operators form them: of narrower floats in f64, of f64 with the error of
//! each addition carried along, of integers in the dtype of the result, in which they wrap.

use super::number::{Number, select};
use super::{Op, Tensor};
use crate::denotation::program::{Recurrence, applied, cast, float, integer, iterated, state};
use crate::denotation::term::{Binder, Domain, Known, Term};
use relax_semantics::ops::{Known as Value, normalize_axis};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) fn element(op: &mut Op, part: usize, at: &[Dim]) -> Option<Known<Term>> {
    let term = match op.row.name {
        "sum" | "prod" => reduced(op, at),
        "mean" => mean(op, at),
        "variance" | "std" => variance(op, at),
        "cumsum" | "cumprod" => scan(op, at),
        "matmul" => matmul(op, at),
        "nn.softmax" | "nn.log_softmax" => softmax(op, at),
        "nn.layer_norm" | "nn.rms_norm" => over_axes(op, at),
        "nn.batch_norm" => batch_norm(op, part, at),
        "nn.group_norm" | "nn.instance_norm" => by_channel(op, at),
        "nn.cross_entropy_with_logits" => cross_entropy(op),
        "nn.attention" | "nn.attention_bias" => super::attention::attention(op, at),
        _ => return None,
    }?;
    Some(Ok(term))
}

/// What elements of a dtype are summed in.
fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

impl Op<'_> {
    pub(super) fn name(&mut self, kind: &str) -> Name {
        *self.fresh += 1;
        format!("{kind}#{}", self.fresh).into()
    }

    /// A fresh index for each dim.
    pub(super) fn indices(&mut self, dims: &[Dim]) -> (Vec<Binder>, Vec<Dim>) {
        let binders: Vec<Binder> = dims.iter().map(|dim| (self.name("k"), dim.clone())).collect();
        let vars = binders.iter().map(|(name, _)| Dim::Var(name.clone())).collect();
        (binders, vars)
    }

    pub(super) fn iterate(
        &mut self,
        dtype: DType,
        inits: Vec<Term>,
        steps: Vec<Term>,
        binders: &[Binder],
    ) -> Option<Term> {
        let recurrence = Recurrence { dtype, inits, steps, binders: binders.to_vec() };
        iterated(recurrence, &mut *self.facts).ok()
    }

    /// The sum of numbers of f64, or of integers; `from` is what the elements were.
    pub(super) fn total(
        &mut self,
        from: DType,
        value: &Number,
        binders: &[Binder],
    ) -> Option<Number> {
        let dtype = value.dtype;
        let zero = if dtype.is_float() { float(0.0, dtype) } else { integer(0, dtype) };
        if binders.is_empty() {
            // One element: the sum of 0 and it.
            return (from != DType::F64).then(|| {
                Number::new(applied(dtype, "add", vec![zero, value.term.clone()]), dtype)
            });
        }
        let add = |at: usize| applied(dtype, "add", vec![state(at), value.term.clone()]);
        let sum = self.iterate(dtype, vec![zero.clone()], vec![add(0)], binders)?;
        let sum = Number::new(sum, dtype);
        if from != DType::F64 {
            return Some(sum);
        }
        let (before, next) = (Number::new(state(1), dtype), Number::new(add(1), dtype));
        let larger = before.call("abs").is("greater_equal", &value.call("abs"));
        let of_value = before.sub(&next).add(value);
        let of_sum = value.sub(&next).add(&before);
        let error = select(larger, &of_value, &of_sum);
        let lost = Number::new(state(0), dtype).add(&error);
        let inits = vec![zero.clone(), zero];
        let lost = self.iterate(dtype, inits, vec![lost.term, next.term], binders)?;
        let exact = sum.add(&Number::new(lost, dtype));
        Some(select(sum.sub(&sum).is_number("equal", 0.0), &exact, &sum))
    }

    /// Literal axes, counted from 0; none: all.
    pub(super) fn axes(&self, param: &str, rank: usize) -> Option<Vec<usize>> {
        let position = |known: &Value| match known {
            Value::Dim(Dim::Int(axis)) => normalize_axis(*axis, rank),
            _ => None,
        };
        match self.attrs.get(param)? {
            Value::None => Some((0..rank).collect()),
            Value::List(items) => items.iter().map(position).collect(),
            one => Some(vec![position(one)?]),
        }
    }

    pub(super) fn flag(&self, param: &str) -> bool {
        self.attrs.get(param) == Some(&Value::Bool(true))
    }
}

/// How many there are, as a float.
fn count(dims: &[Dim]) -> Number {
    let each = dims.iter().map(|dim| match dim {
        Dim::Int(value) => Number::new(float(*value as f64, DType::F64), DType::F64),
        dim => Number::new(cast(Term::Extent(dim.clone()), DType::I64, DType::F64), DType::F64),
    });
    each.reduce(|a, b| a.mul(&b)).unwrap_or(Number::new(float(1.0, DType::F64), DType::F64))
}

/// The index of an element of a reduced tensor, with fresh variables on the axes; the dims of those.
fn source(
    op: &mut Op,
    dims: &[Dim],
    axes: &[usize],
    at: &[Dim],
    keeps: bool,
) -> Option<(Vec<Binder>, Vec<Dim>)> {
    let inner: Vec<Dim> =
        (0..dims.len()).filter(|axis| axes.contains(axis)).map(|axis| dims[axis].clone()).collect();
    let (binders, vars) = op.indices(&inner);
    let (mut outer, mut along) = (at.iter(), vars.into_iter());
    let mut index = Vec::new();
    for axis in 0..dims.len() {
        if axes.contains(&axis) {
            if keeps {
                outer.next();
            }
            index.push(along.next()?);
        } else {
            index.push(outer.next()?.clone());
        }
    }
    Some((binders, index))
}

fn extents(binders: &[Binder]) -> Vec<Dim> {
    binders.iter().map(|(_, extent)| extent.clone()).collect()
}

/// The operand, its reduced axes and whether they stay.
fn reduction(op: &Op) -> Option<(Tensor, Vec<usize>, bool)> {
    let x = op.first()?;
    let axes = op.axes("axis", x.dims.len())?;
    Some((x, axes, op.flag("keepdims")))
}

fn reduced(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let (x, axes, keeps) = reduction(op)?;
    let out = op.results[0].1;
    let (binders, index) = source(op, &x.dims, &axes, at, keeps)?;
    let is_sum = op.row.name == "sum";
    if binders.is_empty() {
        return None;
    }
    if x.dtype == DType::Bool {
        let name = if is_sum { "bitwise_or" } else { "bitwise_and" };
        let init = Term::Number(Domain::Bits, f64::from(u8::from(!is_sum)));
        let step = applied(DType::Bool, name, vec![state(0), x.at(&index)]);
        return op.iterate(DType::Bool, vec![init], vec![step], &binders);
    }
    let dtype = if x.dtype.is_float() { DType::F64 } else { out };
    let value = Number::new(x.at(&index), x.dtype).to(dtype);
    if is_sum {
        return Some(op.total(x.dtype, &value, &binders)?.to(out).term);
    }
    let dtype = wide(x.dtype);
    let one = if dtype.is_float() { float(1.0, dtype) } else { integer(1, dtype) };
    let value = Number::new(x.at(&index), x.dtype).to(dtype);
    let step = applied(dtype, "multiply", vec![state(0), value.term]);
    let product = op.iterate(dtype, vec![one], vec![step], &binders)?;
    Some(cast(product, dtype, out))
}

fn mean(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let (x, axes, keeps) = reduction(op)?;
    let out = op.results[0].1;
    let (binders, index) = source(op, &x.dims, &axes, at, keeps)?;
    let inner = extents(&binders);
    if x.dtype.is_float() {
        let value = Number::new(x.at(&index), x.dtype).wide();
        return Some(op.total(x.dtype, &value, &binders)?.div(&count(&inner)).to(out).term);
    }
    let value = Number::new(x.at(&index), x.dtype).to(DType::I64);
    let sum = op.total(x.dtype, &value, &binders)?;
    Some(truncated(&sum, &Number::new(Term::Extent(Dim::product(&inner)), DType::I64)).to(out).term)
}

/// The quotient towards zero by a positive number.
pub(super) fn truncated(sum: &Number, count: &Number) -> Number {
    let negative = sum.neg().with("floor_divide", count).neg();
    select(sum.is_number("less", 0.0), &negative, &sum.with("floor_divide", count))
}

/// Mean and variance of what `element` gives, over the same binders.
fn moments(
    op: &mut Op,
    from: DType,
    binders: &[Binder],
    element: &Number,
    dims: &[Dim],
) -> Option<(Number, Number)> {
    let mean = op.total(from, element, binders)?.div(&count(dims));
    let distance = element.sub(&mean);
    let variance = op.total(from, &distance.mul(&distance), binders)?.div(&count(dims));
    Some((mean, variance))
}

fn variance(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let (x, axes, keeps) = reduction(op)?;
    let (binders, index) = source(op, &x.dims, &axes, at, keeps)?;
    let value = Number::new(x.at(&index), x.dtype).wide();
    let (_, variance) = moments(op, x.dtype, &binders, &value, &extents(&binders))?;
    let value = if op.row.name == "std" { variance.call("sqrt") } else { variance };
    Some(value.to(x.dtype).term)
}

/// The index of an element of `from` dims with the same place in row-major order.
pub(super) fn viewed(from: &[Dim], to: &[Dim], at: &[Dim]) -> Vec<Dim> {
    if from == to {
        return at.to_vec();
    }
    let place = to.iter().zip(at).fold(None, |total: Option<Dim>, (dim, at)| {
        Some(match total {
            None => at.clone(),
            Some(total) => Dim::op(DimOp::Add, Dim::op(DimOp::Mul, total, dim.clone()), at.clone()),
        })
    });
    let place = place.unwrap_or(Dim::Int(0));
    let each = (0..from.len()).map(|axis| {
        let counted = Dim::op(DimOp::FloorDiv, place.clone(), Dim::product(&from[axis + 1..]));
        if axis == 0 { counted } else { Dim::op(DimOp::FloorMod, counted, from[axis].clone()) }
    });
    each.collect()
}

/// What is before an element, and the element.
fn scan(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let (dims, out) = op.results[0].clone();
    let axis = match op.attrs.get("axis")? {
        Value::None => 0,
        _ => op.axes("axis", dims.len())?[0],
    };
    let dtype = wide(out);
    let (name, exclusive) = (op.name("k"), op.flag("exclusive"));
    let value = |at: &[Dim]| {
        let element = Number::new(x.at(&viewed(&x.dims, &dims, at)), x.dtype);
        element.to(out).to(dtype)
    };
    let mut before = at.to_vec();
    before[axis] = Dim::Var(name.clone());
    let binders = vec![(name, at[axis].clone())];
    if out == DType::F64 && op.row.name == "cumsum" {
        return None;
    }
    let (first, function) = if op.row.name == "cumsum" { (0.0, "add") } else { (1.0, "multiply") };
    let init = if dtype.is_float() { float(first, dtype) } else { integer(first as i64, dtype) };
    let step = applied(dtype, function, vec![state(0), value(&before).term]);
    let so_far = Number::new(op.iterate(dtype, vec![init], vec![step], &binders)?, dtype);
    let result = if exclusive { so_far } else { so_far.with(function, &value(at)) };
    Some(result.to(out).term)
}

fn matmul(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let (a, b) = (op.tensor("x1")?, op.tensor("x2")?);
    let (dims, out) = op.results[0].clone();
    let dtype = if a.dtype.is_float() || out.is_float() { wide(a.dtype) } else { out };
    let (rows, columns) = (usize::from(a.dims.len() > 1), usize::from(b.dims.len() > 1));
    let batch = dims.len().checked_sub(rows + columns)?;
    let (binders, along) = op.indices(&a.dims[a.dims.len() - 1..]);
    let k = along[0].clone();
    let shaped = |tensor: &Tensor, matrix: &[Dim]| {
        let own = tensor.dims.len().saturating_sub(2);
        let mut out: Vec<Dim> = dims[batch.saturating_sub(own)..batch].to_vec();
        let mut index = at[batch.saturating_sub(own)..batch].to_vec();
        out.extend_from_slice(&tensor.dims[own..]);
        index.extend_from_slice(matrix);
        (out, index)
    };
    let mut of_a: Vec<Dim> = at[batch..batch + rows].to_vec();
    of_a.push(k.clone());
    let mut of_b = vec![k];
    of_b.extend_from_slice(&at[batch + rows..]);
    let ((a_out, a_at), (b_out, b_at)) = (shaped(&a, &of_a), shaped(&b, &of_b));
    let x = Number::new(op.stretched(&a, &a_out, &a_at)?, a.dtype).to(dtype);
    let y = Number::new(op.stretched(&b, &b_out, &b_at)?, b.dtype).to(dtype);
    Some(op.total(a.dtype, &x.mul(&y), &binders)?.to(out).term)
}

/// The greatest of a lane, as a running one from the least float on; of equal ones the first.
pub(super) fn most(op: &mut Op, value: &Number, binders: &[Binder]) -> Option<Number> {
    let init = float(f64::NEG_INFINITY, DType::F64);
    let step = applied(DType::F64, "greater or first", vec![state(0), value.term.clone()]);
    let most = op.iterate(DType::F64, vec![init], vec![step], binders)?;
    Some(Number::new(most, DType::F64))
}

fn softmax(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let axis = *op.axes("axis", x.dims.len())?.first()?;
    let (binders, along) = op.indices(&x.dims[axis..=axis]);
    let mut index = at.to_vec();
    index[axis] = along[0].clone();
    let value = Number::new(x.at(&index), x.dtype).wide();
    let most = most(op, &value, &binders)?;
    let total = op.total(x.dtype, &value.sub(&most).call("exp"), &binders)?;
    let shifted = Number::new(x.at(at), x.dtype).wide().sub(&most);
    let value = if op.row.name == "nn.softmax" {
        shifted.call("exp").div(&total)
    } else {
        shifted.sub(&total.call("log"))
    };
    Some(value.to(x.dtype).term)
}

/// Multiplied by `gamma` and moved by `beta`, where the call asks for it.
fn scaled(op: &Op, value: Number, at: &[Dim]) -> Option<Number> {
    let mut value = value;
    for (flag, param, name) in [("scale", "gamma", "multiply"), ("center", "beta", "add")] {
        if op.flag(flag) {
            let own = op.tensor(param)?;
            value = value.with(name, &Number::new(own.at(at), own.dtype).wide());
        }
    }
    Some(value)
}

fn over_axes(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let axes = op.axes("axes", x.dims.len())?;
    let epsilon = op.float("epsilon")?;
    let outer: Vec<Dim> =
        (0..at.len()).filter(|axis| !axes.contains(axis)).map(|axis| at[axis].clone()).collect();
    let own: Vec<Dim> = axes.iter().map(|&axis| at[axis].clone()).collect();
    let (binders, index) = source(op, &x.dims, &axes, &outer, false)?;
    let element = Number::new(x.at(&index), x.dtype).wide();
    let dims = extents(&binders);
    let here = Number::new(x.at(at), x.dtype).wide();
    let deviation = |variance: Number| variance.add(&variance.number(epsilon)).call("sqrt");
    let value = if op.row.name == "nn.rms_norm" {
        let power = op.total(x.dtype, &element.mul(&element), &binders)?.div(&count(&dims));
        let value = here.div(&deviation(power));
        match op.tensor("weight") {
            Some(weight) => value.mul(&Number::new(weight.at(&own), weight.dtype).wide()),
            None => value,
        }
    } else {
        let (mean, variance) = moments(op, x.dtype, &binders, &element, &dims)?;
        scaled(op, here.sub(&mean).div(&deviation(variance)), &own)?
    };
    Some(value.to(x.dtype).term)
}

fn by_channel(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let rank = x.dims.len();
    let channel = *op.axes("channel_axis", rank)?.first()?;
    let axes = op.axes("axes", rank)?;
    let epsilon = op.float("epsilon")?;
    let mut inner: Vec<Dim> =
        (0..rank).filter(|axis| axes.contains(axis)).map(|axis| x.dims[axis].clone()).collect();
    let groups = match op.attrs.get("num_groups") {
        Some(Value::Dim(Dim::Int(groups))) => Some(*groups),
        _ => None,
    };
    let run =
        groups.map(|groups| Dim::op(DimOp::FloorDiv, x.dims[channel].clone(), Dim::Int(groups)));
    inner.extend(run.clone());
    let (binders, vars) = op.indices(&inner);
    let mut along = vars.iter();
    let mut index = Vec::new();
    for (axis, own) in at.iter().enumerate().take(rank) {
        index.push(if axes.contains(&axis) { along.next()?.clone() } else { own.clone() });
    }
    if let Some(run) = run {
        let first = Dim::op(DimOp::FloorDiv, at[channel].clone(), run.clone());
        let first = Dim::op(DimOp::Mul, first, run);
        index[channel] = Dim::op(DimOp::Add, first, along.next()?.clone());
    }
    let element = Number::new(x.at(&index), x.dtype).wide();
    let (mean, variance) = moments(op, x.dtype, &binders, &element, &extents(&binders))?;
    let here = Number::new(x.at(at), x.dtype).wide().sub(&mean);
    let value = here.div(&variance.add(&variance.number(epsilon)).call("sqrt"));
    Some(scaled(op, value, &at[channel..=channel])?.to(x.dtype).term)
}

fn batch_norm(op: &mut Op, part: usize, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let rank = x.dims.len();
    let channel = *op.axes("axis", rank)?.first()?;
    let (epsilon, momentum) = (op.float("epsilon")?, op.float("momentum")?);
    let running = [op.tensor("moving_mean")?, op.tensor("moving_var")?];
    let own = if part == 0 { at[channel].clone() } else { at[0].clone() };
    let old = |which: usize| {
        Number::new(running[which].at(std::slice::from_ref(&own)), running[which].dtype)
    };
    let (mean, variance) = if op.flag("training") {
        let axes: Vec<usize> = (0..rank).filter(|&axis| axis != channel).collect();
        let (binders, index) = source(op, &x.dims, &axes, std::slice::from_ref(&own), false)?;
        let element = Number::new(x.at(&index), x.dtype).wide();
        moments(op, x.dtype, &binders, &element, &extents(&binders))?
    } else {
        (old(0).wide(), old(1).wide())
    };
    if part > 0 {
        let dtype = running[part - 1].dtype;
        if !op.flag("training") {
            return Some(old(part - 1).term);
        }
        let new = if part == 1 { mean } else { variance };
        let kept = new.number(1.0 - momentum).mul(&old(part - 1).wide());
        return Some(kept.add(&new.number(momentum).mul(&new)).to(dtype).term);
    }
    let here = Number::new(x.at(at), x.dtype).wide().sub(&mean);
    let value = here.div(&variance.add(&variance.number(epsilon)).call("sqrt"));
    Some(scaled(op, value, &[own])?.to(x.dtype).term)
}

fn cross_entropy(op: &mut Op) -> Option<Term> {
    let (a, b) = (op.tensor("predictions")?, op.tensor("labels")?);
    let out = op.results[0].1;
    let (binders, at) = op.indices(&a.dims);
    let product =
        Number::new(a.at(&at), a.dtype).wide().mul(&Number::new(b.at(&at), b.dtype).wide());
    let total = op.total(a.dtype, &product, &binders)?;
    let batch = if a.dims.len() > 1 { count(&a.dims[..1]) } else { total.number(1.0) };
    Some(total.neg().div(&batch).to(out).term)
}
