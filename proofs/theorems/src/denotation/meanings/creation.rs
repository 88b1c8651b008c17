//! Tensors of which every element is known.

use super::{Meaning, meaning, shape_of_first, type_argument};
use crate::denotation::denoter::{Denoter, tensor};
use crate::denotation::term::{Domain, Known, Term, domain_of, unknown};
use crate::rules::rule::{Arg, Axis, Call};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) static MEANINGS: &[Meaning] = &[
    made("full", given_shape, |d, call, _| filled(d, call)),
    made("zeros", given_shape, |d, call, _| number(d, call, 0.0)),
    made("ones", given_shape, |d, call, _| number(d, call, 1.0)),
    made("full_like", shape_of_first, |d, call, _| filled(d, call)),
    made("zeros_like", shape_of_first, |d, call, _| number(d, call, 0.0)),
    made("ones_like", shape_of_first, |d, call, _| number(d, call, 1.0)),
    made("eye", eye_shape, eye),
    Meaning { dtype: range_dtype, ..meaning("arange", range_shape, range) },
    meaning("tril", shape_of_first, |d, call, at| triangle(d, call, at, Relation::AtMost)),
    meaning("triu", shape_of_first, |d, call, at| triangle(d, call, at, Relation::Less)),
];

const fn made(name: &'static str, shape: super::ShapeOf, element: super::ElementOf) -> Meaning {
    Meaning { dtype, ..meaning(name, shape, element) }
}

fn dtype(denoter: &Denoter, call: &Call) -> Known<DType> {
    match call.arg("dtype") {
        Arg::None => super::like_first(denoter, call),
        _ => type_argument(denoter, call, "dtype"),
    }
}

fn domain(denoter: &Denoter, call: &Call) -> Known<Domain> {
    Ok(domain_of(dtype(denoter, call)?, denoter.reals))
}

fn given_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    denoter.extents(call.arg("shape"))
}

fn number(denoter: &Denoter, call: &Call, value: f64) -> Known<Term> {
    Ok(Term::Number(domain(denoter, call)?, value))
}

fn filled(denoter: &mut Denoter, call: &Call) -> Known<Term> {
    match call.arg("fill_value") {
        Arg::Node(node) => {
            if denoter.dtype(node)? == dtype(denoter, call)? && denoter.shape(node)?.is_empty() {
                denoter.element(node, &[])
            } else {
                unknown("a value of another dtype")
            }
        }
        Arg::Float(value) => number(denoter, call, *value),
        Arg::Integer(dim)
            if domain(denoter, call)? == Domain::Real || dtype(denoter, call)? == DType::I64 =>
        {
            Ok(Term::Extent(dim.clone()))
        }
        _ => unknown("a value that is not written out"),
    }
}

fn integer(call: &Call, param: &str) -> Known<Dim> {
    match call.arg(param) {
        Arg::Integer(dim) => Ok(dim.clone()),
        _ => unknown(format!("`{param}` is no integer")),
    }
}

/// Start, end and step, all integers; with one bound that is the end.
fn bounds(call: &Call) -> Known<[Dim; 3]> {
    let (start, step) = (integer(call, "start")?, integer(call, "step")?);
    Ok(match call.arg("end") {
        Arg::None => [Dim::Int(0), start, step],
        _ => [start, integer(call, "end")?, step],
    })
}

fn range_dtype(denoter: &Denoter, call: &Call) -> Known<DType> {
    bounds(call)?;
    match call.arg("dtype") {
        Arg::None => Ok(DType::I64),
        _ => type_argument(denoter, call, "dtype"),
    }
}

fn range_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let [start, end, step] = bounds(call)?;
    if !denoter.at_most(1, step.clone()) {
        return unknown("a range that may go backwards");
    }
    let mut steps = Dim::op(DimOp::CeilDiv, Dim::op(DimOp::Sub, end, start), step);
    if !denoter.at_most(0, steps.clone()) {
        steps = Dim::op(DimOp::Max, Dim::Int(0), steps);
    }
    Ok(vec![Axis::Dim(denoter.facts.simplify(&steps))])
}

fn range(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let [start, _, step] = bounds(call)?;
    let is_real = domain_of(range_dtype(denoter, call)?, denoter.reals) == Domain::Real;
    if !is_real && range_dtype(denoter, call)? != DType::I64 {
        return unknown("a range of numbers that wrap or are rounded");
    }
    let moved = Dim::op(DimOp::Mul, at[0].clone(), step);
    let place = Dim::op(DimOp::Add, start, moved);
    Ok(Term::Extent(denoter.facts.simplify(&place)))
}

fn eye_shape(_: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let rows = integer(call, "n")?;
    let columns = if *call.arg("m") == Arg::None { rows.clone() } else { integer(call, "m")? };
    Ok(vec![Axis::Dim(rows), Axis::Dim(columns)])
}

fn eye(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let domain = domain(denoter, call)?;
    let diagonal = Dim::op(DimOp::Add, at[0].clone(), integer(call, "k")?);
    let claim = Claim::new(at[1].clone(), Relation::Equal, diagonal);
    Ok(Term::choose(claim, Term::Number(domain, 1.0), Term::Number(domain, 0.0)))
}

/// `tril` keeps where column - row <= k, `triu` drops where column - row < k.
fn triangle(denoter: &mut Denoter, call: &Call, at: &[Dim], relation: Relation) -> Known<Term> {
    let x = tensor(call, "x")?;
    let zero = Term::Number(denoter.domain(x)?, 0.0);
    let own = denoter.element(x, at)?;
    let [.., row, column] = at else { return unknown("no matrix") };
    let diagonal = Dim::op(DimOp::Add, row.clone(), integer(call, "k")?);
    let claim = Claim::new(column.clone(), relation, diagonal);
    Ok(match relation {
        Relation::AtMost => Term::choose(claim, own, zero),
        _ => Term::choose(claim, zero, own),
    })
}
