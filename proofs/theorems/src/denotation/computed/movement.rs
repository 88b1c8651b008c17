//! Tensors that are filled by a formula, and elements that are moved by one.

use super::Op;
use super::number::Number;
use crate::denotation::program::{applied, cast, float, integer, without_casts};
use crate::denotation::term::{Domain, Known, Term, Test};
use relax_semantics::ops::Known as Value;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) fn element(op: &mut Op, part: usize, at: &[Dim]) -> Option<Known<Term>> {
    let out = op.results.get(part)?.1;
    let term = match op.row.name {
        "full" | "full_like" => filled(op, out)?,
        "zeros" | "zeros_like" => written(&Value::Dim(Dim::Int(0)), out)?,
        "ones" | "ones_like" => written(&Value::Dim(Dim::Int(1)), out)?,
        "eye" | "eye_like" => eye(op, at, out)?,
        "arange" => arange(op, at, out)?,
        "size" => size(op)?,
        "nn.batch_flatten" => {
            let x = op.first()?;
            let to = op.results[0].0.clone();
            x.at(&super::folds::viewed(&x.dims, &to, at))
        }
        "tile" => tiled(op, at)?,
        "repeat" if op.attrs.get("axis") == Some(&Value::None) => {
            let x = op.first()?;
            let place = Dim::op(DimOp::FloorDiv, at[0].clone(), dim(op, "repeats")?);
            x.at(&super::folds::viewed(&x.dims, &[Dim::product(&x.dims)], &[place]))
        }
        "nn.pixel_shuffle" => shuffled(op, at)?,
        "meshgrid" => meshgrid(op, part, at)?,
        "nn.dropout" if part == 0 => op.first()?.at(at),
        "nn.dropout" => written(&Value::Dim(Dim::Int(1)), out)?,
        "nn.pad" => padded(op, at)?,
        "one_hot" => one_hot(op, at, out)?,
        "take" => taken(op, at)?,
        _ => return None,
    };
    Some(Ok(term))
}

fn dim(op: &Op, param: &str) -> Option<Dim> {
    match op.attrs.get(param)? {
        Value::Dim(dim) => Some(dim.clone()),
        _ => None,
    }
}

fn op_of(of: DimOp, a: &Dim, b: &Dim) -> Dim {
    Dim::op(of, a.clone(), b.clone())
}

/// A number of the text in a dtype, as `astype` converts it.
fn written(known: &Value, dtype: DType) -> Option<Term> {
    let whole = |value: i64| match dtype {
        DType::Bool => Term::Number(Domain::Bits, f64::from(u8::from(value != 0))),
        _ if !dtype.is_float() && dtype != DType::I64 && !(0..=127).contains(&value) => {
            cast(Term::Extent(Dim::Int(value)), DType::I64, dtype)
        }
        _ => integer(value, dtype),
    };
    Some(match known {
        Value::Dim(Dim::Int(value)) => whole(*value),
        Value::Bool(value) => whole(i64::from(*value)),
        Value::Float(value) => match dtype {
            DType::Bool => Term::Number(Domain::Bits, f64::from(u8::from(*value != 0.0))),
            _ if dtype.is_float() => float(*value, dtype),
            _ => cast(float(*value, DType::F32), DType::F32, dtype),
        },
        _ => return None,
    })
}

fn filled(op: &Op, out: DType) -> Option<Term> {
    if let Some(value) = op.tensor("fill_value") {
        return Some(cast(value.at(&[]), value.dtype, out));
    }
    match op.attrs.get("fill_value")? {
        Value::Dim(value) if value.as_int().is_none() => {
            Some(cast(Term::Extent(value.clone()), DType::I64, out))
        }
        known => written(known, out),
    }
}

fn eye(op: &Op, at: &[Dim], out: DType) -> Option<Term> {
    let distance = op_of(DimOp::Sub, &at[1], &at[0]);
    let claim = Claim::new(distance, Relation::Equal, dim(op, "k")?);
    let number = |value| written(&Value::Dim(Dim::Int(value)), out);
    Some(Term::choose(claim, number(1)?, number(0)?))
}

fn arange(op: &Op, at: &[Dim], out: DType) -> Option<Term> {
    let zero = Value::Dim(Dim::Int(0));
    let none = *op.attrs.get("end")? == Value::None;
    let start = if none { &zero } else { op.attrs.get("start")? };
    let step = op.attrs.get("step")?;
    if let (Value::Dim(start), Value::Dim(step)) = (start, step) {
        let place = op_of(DimOp::Mul, &at[0], step);
        return Some(cast(Term::Extent(op_of(DimOp::Add, start, &place)), DType::I64, out));
    }
    let wide = |known: &Value| match known {
        Value::Float(value) => Some(float(*value, DType::F64)),
        Value::Dim(dim) => Some(cast(Term::Extent(dim.clone()), DType::I64, DType::F64)),
        _ => None,
    };
    let number = |term| Number::new(term, DType::F64);
    let index = number(cast(Term::Extent(at[0].clone()), DType::I64, DType::F64));
    let place = index.mul(&number(wide(step)?));
    Some(number(wide(start)?).add(&place).to(out).term)
}

/// The product of dims, which wraps.
fn size(op: &Op) -> Option<Term> {
    let each =
        op.first()?.dims.into_iter().map(|dim| cast(Term::Extent(dim), DType::I64, DType::U64));
    let product = each.reduce(|a, b| applied(DType::U64, "multiply", vec![a, b]));
    Some(match product {
        Some(product) => cast(product, DType::U64, DType::I64),
        None => Term::Extent(Dim::Int(1)),
    })
}

fn tiled(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let lead = at.len().checked_sub(x.dims.len())?;
    let pairs = x.dims.iter().zip(&at[lead..]);
    let index: Vec<Dim> = pairs.map(|(dim, at)| op_of(DimOp::FloorMod, at, dim)).collect();
    Some(x.at(&index))
}

fn shuffled(op: &Op, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let factor = dim(op, "upscale_factor")?;
    let (batch, [channel, row, column]) = at.split_last_chunk::<3>()?;
    let square = op_of(DimOp::Mul, &factor, &factor);
    let inner = |index: &Dim| op_of(DimOp::FloorMod, index, &factor);
    let pixel = op_of(DimOp::Add, &op_of(DimOp::Mul, &inner(row), &factor), &inner(column));
    let mut index = batch.to_vec();
    index.push(op_of(DimOp::Add, &op_of(DimOp::Mul, channel, &square), &pixel));
    index.push(op_of(DimOp::FloorDiv, row, &factor));
    index.push(op_of(DimOp::FloorDiv, column, &factor));
    Some(x.at(&index))
}

fn meshgrid(op: &Op, part: usize, at: &[Dim]) -> Option<Term> {
    let exchanged = op.attrs.get("indexing") == Some(&Value::Str("xy".into()));
    let (_, own) = op.tensors.get(part)?;
    let axis = if exchanged && op.tensors.len() > 1 && part < 2 { 1 - part } else { part };
    Some(own.at(if own.dims.is_empty() { &[] } else { &at[axis..=axis] }))
}

fn padded(op: &Op, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let Value::List(widths) = op.attrs.get("pad_width")? else { return None };
    let Value::Str(mode) = op.attrs.get("pad_mode")? else { return None };
    let (mut index, mut claims) = (Vec::new(), Vec::new());
    for ((at, dim), pair) in at.iter().zip(&x.dims).zip(widths.chunks_exact(2)) {
        let [Value::Dim(before), Value::Dim(after)] = pair else { return None };
        if *before == Dim::Int(0) && *after == Dim::Int(0) {
            index.push(at.clone());
            continue;
        }
        let own = op_of(DimOp::Sub, at, before);
        let last = op_of(DimOp::Sub, dim, &Dim::Int(1));
        let size = |dim: Dim| {
            let opposite = Dim::op(DimOp::Sub, Dim::Int(0), dim.clone());
            Dim::op(DimOp::Max, dim, opposite)
        };
        index.push(match mode.as_str() {
            "reflect" => {
                let beyond = size(op_of(DimOp::Sub, &last, &size(own)));
                op_of(DimOp::Sub, &last, &beyond)
            }
            "replicate" => Dim::op(DimOp::Max, Dim::op(DimOp::Min, own, last), Dim::Int(0)),
            "circular" => op_of(DimOp::FloorMod, &own, dim),
            _ => {
                claims.push(Claim::new(0, Relation::AtMost, own.clone()));
                claims.push(Claim::new(own.clone(), Relation::Less, dim.clone()));
                own
            }
        });
    }
    let fill = written(&Value::Float(op.float("pad_value")?), x.dtype)?;
    let inside = x.at(&index);
    Some(
        claims
            .into_iter()
            .rev()
            .fold(inside, |term, claim| Term::choose(claim, term, fill.clone())),
    )
}

fn one_hot(op: &Op, at: &[Dim], out: DType) -> Option<Term> {
    let indices = op.tensor("indices")?;
    let axis = *op.axes("axis", at.len())?.first()?;
    let mut own = at.to_vec();
    let index = own.remove(axis);
    let choice = |param: &str| match op.tensor(param) {
        Some(tensor) => Some(tensor.at(&[])),
        None => written(op.attrs.get(param)?, out),
    };
    let here = Number::new(indices.at(&own), indices.dtype).to(DType::I64);
    let index = Number::new(Term::Extent(index), DType::I64);
    let test = Test::Element(Box::new(here.is("equal", &index)));
    Some(Term::If(test, Box::new(choice("on_value")?), Box::new(choice("off_value")?)))
}

fn taken(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let (x, indices) = (op.tensor("x")?, op.tensor("indices")?);
    let axis = match op.attrs.get("axis")? {
        Value::None => 0,
        _ => *op.axes("axis", x.dims.len())?.first()?,
    };
    let width = indices.dims.len();
    let extent = x.dims[axis].clone();
    let index = Number::new(indices.at(&at[axis..axis + width]), indices.dtype);
    let Value::Str(mode) = op.attrs.get("mode")?.clone() else { return None };
    let number = |dim: Dim| Number::new(Term::Extent(dim), DType::I64);
    let index = match (mode.as_str(), index.dtype) {
        ("clip" | "wrap", DType::U64) => return None,
        ("clip", _) => {
            let last = number(op_of(DimOp::Sub, &extent, &Dim::Int(1)));
            let index = index.to(DType::I64).with("minimum", &last);
            index.with("maximum", &number(Dim::Int(0))).term
        }
        ("wrap", _) => index.to(DType::I64).with("floor_mod", &number(extent.clone())).term,
        ("nan", _) => return None,
        _ => without_casts(index.term),
    };
    let name = op.name("@");
    let mut place = at[..axis].to_vec();
    place.push(Dim::Var(name.clone()));
    place.extend_from_slice(&at[axis + width..]);
    Some(Term::Lookup(Box::new(without_casts(index)), (name, extent), Box::new(x.at(&place))))
}
