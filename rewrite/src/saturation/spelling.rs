//! One spelling for what may be written in several ways: axes count from the front, a list stands where one
//! integer may stand for it, and shapes that are inferred are written out.

use super::term::Attr;
use relax_semantics::ops::{Family, Kind, Operator};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// Rows whose shape is that of their result.
const SHAPED: &[&str] = &["reshape", "broadcast_to"];
/// Reductions that run over all axes when none is named.
const REDUCTIONS: &[&str] = &["sum", "mean", "max", "min", "prod", "std", "variance"];
/// Parameters of `strided_slice` that are lists.
const CUTS: &[&str] = &["begin", "end", "strides"];

/// The rank in which the axes of a call count; `None` where it is not known.
pub(super) fn rank_of_axes(row: &Operator, attrs: &[Attr], first: Option<usize>) -> Option<usize> {
    let named = || match attrs.get(row.params.iter().position(|p| is_axis(p.name))?)? {
        Attr::List(axes) => Some(axes.len()),
        _ => Some(1),
    };
    match row.name {
        "expand_dims" => Some(first? + named()?),
        "stack" => Some(first? + 1),
        _ => first,
    }
}

/// Whether a parameter takes axes.
pub(super) fn is_axis(param: &str) -> bool {
    matches!(param, "axis" | "axes")
}

/// The attributes of a call in their one spelling. `first` is the rank of the first operand, `result` what is
/// deduced of the call.
pub(super) fn spelled(
    row: &Operator,
    attrs: Vec<Attr>,
    first: Option<usize>,
    result: Option<&Annotation>,
) -> Option<Vec<Attr>> {
    let rank = rank_of_axes(row, &attrs, first);
    let one = |(param, attr): (&relax_semantics::ops::Param, Attr)| {
        let is_list = matches!(param.kind, Kind::Dims | Kind::OptionalDims);
        Some(match attr {
            Attr::Dim(axis) if is_axis(param.name) && is_list => {
                Attr::List(vec![from_front(&axis, rank?)?])
            }
            Attr::Dim(axis) if is_axis(param.name) => Attr::Dim(from_front(&axis, rank?)?),
            Attr::List(axes) if is_axis(param.name) => {
                let axes = axes.iter().map(|axis| from_front(axis, rank?));
                let mut axes = axes.collect::<Option<Vec<_>>>()?;
                if row.family == Family::Reduction {
                    axes.sort();
                }
                Attr::List(axes)
            }
            Attr::None if is_axis(param.name) && REDUCTIONS.contains(&row.name) => {
                Attr::List((0..rank?).map(axis).collect())
            }
            Attr::None if row.name == "permute_dims" => {
                Attr::List((0..rank?).rev().map(axis).collect())
            }
            _ if param.name == "shape" && SHAPED.contains(&row.name) && result.is_some() => {
                Attr::List(result?.dims()?.to_vec())
            }
            Attr::Dim(cut) if CUTS.contains(&param.name) => Attr::List(vec![cut]),
            Attr::List(steps) if param.name == "strides" && steps.iter().all(is_one) => Attr::None,
            Attr::Dim(Dim::Int(value)) if is_float(param.kind) => {
                Attr::Float((value as f64).to_bits())
            }
            Attr::Str(text) if matches!(param.kind, Kind::DType | Kind::OptionalDType) => {
                Attr::Str(DType::parse(&text)?.name().into())
            }
            other => other,
        })
    };
    row.params.iter().zip(attrs).map(one).collect()
}

fn is_one(dim: &Dim) -> bool {
    *dim == Dim::Int(1)
}

fn is_float(kind: Kind) -> bool {
    matches!(kind, Kind::Float | Kind::OptionalFloat)
}

fn axis(at: usize) -> Dim {
    Dim::Int(i64::try_from(at).unwrap_or(i64::MAX))
}

fn from_front(dim: &Dim, rank: usize) -> Option<Dim> {
    let position = relax_semantics::ops::normalize_axis(dim.as_int()?, rank)?;
    Some(axis(position))
}
