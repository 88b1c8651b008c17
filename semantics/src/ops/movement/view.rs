//! The same elements in the same order, under another shape.

use crate::ops::dims::{tensor, volume};
use crate::ops::{Eval, Infer, Operator, Reject};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::{Atom, Callee, Expr};

/// Rows whose result has the elements of their first operand, in the same order.
const VIEWS: [&str; 5] = ["reshape", "flatten", "nn.batch_flatten", "expand_dims", "squeeze"];

/// Others whose result has no other elements than their first operand.
const MOVES: [&str; 5] = ["broadcast_to", "permute_dims", "repeat", "tile", "flip"];

impl Operator {
    /// Whether the result has the elements of the first operand, in the same order: under another shape at most.
    #[must_use]
    pub fn is_view(&self) -> bool {
        VIEWS.contains(&self.name)
    }

    /// Whether the result has no other elements than those of the first operand, which is the only tensor.
    #[must_use]
    pub fn moves_elements(&self) -> bool {
        self.is_view() || MOVES.contains(&self.name)
    }
}

/// The call that gives the elements of a tensor another shape.
#[must_use]
pub fn reshaped(tensor: Atom, dims: Vec<Dim>) -> Expr {
    let callee = Callee::Operator(Name::new("reshape"));
    Expr::Call { callee, args: vec![tensor, Atom::Shape(dims)], attrs: Vec::new() }
}

pub(super) fn eval_view(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    Ok(Value::Tensor(eval.tensor_as_it_is("x").reshaped(&shape)))
}

pub(super) fn infer_flatten(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let extents = match &x.extents {
        Extents::Known(dims) => infer.settled("C1", &[volume(dims)])?,
        _ => Extents::Rank(1),
    };
    Ok(tensor(extents, x.dtype))
}

pub(super) fn infer_expand_dims(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let axes = infer.ints("axis")?;
    let Some(rank) = x.extents.rank() else { return Ok(tensor(Extents::Unknown, x.dtype)) };
    let rank = rank + axes.len();
    let axes = infer.axes("C1", &axes, rank)?;
    let extents = match &x.extents {
        Extents::Known(dims) => {
            let mut dims = dims.iter().cloned();
            let dim = |axis| if axes.contains(&axis) { Some(Dim::Int(1)) } else { dims.next() };
            Extents::Known((0..rank).map_while(dim).collect())
        }
        _ => Extents::Rank(rank),
    };
    Ok(tensor(extents, x.dtype))
}

pub(super) fn infer_squeeze(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let extents = if infer.is_none("axis") {
        squeeze_all(infer, &x.extents)
    } else {
        squeeze_axes(infer, &x.extents)?
    };
    Ok(tensor(extents, x.dtype))
}

fn squeeze_all(infer: &mut Infer, extents: &Extents) -> Extents {
    let Extents::Known(dims) = extents else { return Extents::Unknown };
    let mut kept = Vec::new();
    for dim in dims {
        if infer.proves_equal(dim, &Dim::Int(1)) {
            continue;
        }
        if !infer.proves(&Claim::new(dim.clone(), Relation::NotEqual, 1)) {
            return Extents::Unknown;
        }
        kept.push(dim.clone());
    }
    Extents::Known(kept)
}

fn squeeze_axes(infer: &mut Infer, extents: &Extents) -> Result<Extents, Reject> {
    let axes = infer.ints("axis")?;
    let Some(rank) = extents.rank() else { return Ok(Extents::Unknown) };
    let axes = infer.axes("C1", &axes, rank)?;
    let Extents::Known(dims) = extents else { return Ok(Extents::Rank(rank - axes.len())) };
    for &axis in &axes {
        infer.require_equal("C2", &dims[axis], &Dim::Int(1), || {
            format!("only a dim of 1 can be squeezed, found {} at axis {axis}", dims[axis])
        })?;
    }
    let kept = dims.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    Ok(Extents::Known(kept.map(|(_, dim)| dim.clone()).collect()))
}

pub(super) fn infer_reshape(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let shape = infer.shape("shape")?;
    let Extents::Known(dims) = shape else { return Ok(tensor(shape, x.dtype)) };
    let inferred: Vec<usize> = (0..dims.len()).filter(|&at| dims[at] == Dim::Int(-1)).collect();
    if inferred.len() > 1 {
        return Err(infer.reject("C1", "at most one dim of the shape may be -1"));
    }
    let size = x.extents.dims().map(volume);
    let extents = match (inferred.first(), size) {
        (None, size) => reshape_to(infer, &x.extents, size, &dims)?,
        (Some(&at), size) => {
            let mut others = dims;
            others.remove(at);
            infer.require_nonnegative("C1", &others)?;
            match size {
                Some(size) => infer_dim(infer, &x.extents, &size, others, at)?,
                None => Extents::Rank(others.len() + 1),
            }
        }
    };
    Ok(tensor(extents, x.dtype))
}

fn reshape_to(
    infer: &mut Infer,
    from: &Extents,
    size: Option<Dim>,
    dims: &[Dim],
) -> Result<Extents, Reject> {
    infer.require_nonnegative("C1", dims)?;
    if let (Some(size), Some(from)) = (size, from.dims()) {
        let asked = volume(dims);
        infer.require_equal("C2", &asked, &size, || {
            format!(
                "a tensor of shape {} has {size} elements and can't take the shape {} of {asked}",
                shown(from),
                shown(dims)
            )
        })?;
    }
    infer.settled("C1", dims)
}

/// The dim at `at` from the size and the other dims.
fn infer_dim(
    infer: &mut Infer,
    from: &Extents,
    size: &Dim,
    mut others: Vec<Dim>,
    at: usize,
) -> Result<Extents, Reject> {
    let rest = volume(&others);
    let claim = Claim::new(rest.clone(), Relation::Divides, size.clone());
    infer.require("C3", claim, || {
        format!("no dim for -1 makes {size} elements out of {rest} times it")
    })?;
    // The divisor is not 0 from here on, so what stands on both sides may be left out.
    let mut numerator = from.dims().unwrap_or_default().to_vec();
    let mut denominator = others.clone();
    denominator.retain(|dim| match numerator.iter().position(|other| other == dim) {
        Some(at) => {
            numerator.remove(at);
            false
        }
        None => true,
    });
    let dim = Dim::op(DimOp::FloorDiv, volume(&numerator), volume(&denominator));
    others.insert(at, dim);
    infer.settled("C1", &others)
}

fn shown(dims: &[Dim]) -> String {
    Annotation::Shape(Extents::Known(dims.to_vec())).to_string()
}
