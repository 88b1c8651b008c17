//! Functions of single elements, with broadcasting.

use super::indices::{applied, as_index};
use super::{Meaning, like_first, meaning, shape_of_first, type_argument};
use crate::denotation::denoter::{Denoter, Stops, tensor};
use crate::denotation::names::{ADD, MAXIMUM, MINIMUM, MULTIPLY};
use crate::denotation::order::LARGEST_OF_ALL;
use crate::denotation::term::{Domain, Known, Term, Test, domain_of, unknown};
use crate::rules::rule::{Arg, Axis, Call, Node};
use relax_semantics::ops::{self, Defined, Layout};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// Those of which more is known than that an element is some function of the operands' elements.
pub(super) static MEANINGS: &[Meaning] = &[
    Meaning { name: "where", element: where_element, ..PLAIN },
    meaning("ewise_fma", shape, fma),
    Meaning {
        dtype: |denoter, call| type_argument(denoter, call, "dtype"),
        ..meaning("astype", shape_of_first, astype)
    },
    meaning("clip", shape_of_first, clip),
    meaning("nn.relu", shape_of_first, relu),
];

const PLAIN: Meaning = Meaning { dtype: deduced, ..meaning("", shape, element) };
static PARTIAL: Meaning = Meaning { stops, ..PLAIN };
static TOTAL: Meaning = PLAIN;

/// The meaning of any other row with a formula.
pub(super) fn by_formula(name: &str) -> Option<&'static Meaning> {
    let own = ops::lookup(name)?.elementwise()?;
    if own.layout != Layout::Broadcast {
        return None;
    }
    Some(if own.partial.is_some() { &PARTIAL } else { &TOTAL })
}

fn deduced(denoter: &Denoter, call: &Call) -> Known<DType> {
    let dtypes = operands(call).into_iter().map(|node| denoter.dtype(node));
    let dtype = call.row.result_dtype(&dtypes.collect::<Known<Vec<_>>>()?);
    dtype.map_or_else(|| unknown("operands that deduction rejects"), Ok)
}

fn operands(call: &Call) -> Vec<&Node> {
    let nodes = call.args.iter().filter_map(|arg| match arg {
        Arg::Node(node) => Some(node),
        _ => None,
    });
    nodes.collect()
}

fn shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let mut shape = Vec::new();
    for node in operands(call) {
        let other = denoter.shape(node)?;
        shape = broadcast(denoter, &shape, &other)?;
    }
    Ok(shape)
}

/// What two shapes broadcast to, aligned at the last axis.
pub(super) fn broadcast(denoter: &mut Denoter, a: &[Axis], b: &[Axis]) -> Known<Vec<Axis>> {
    let mut shape = Vec::new();
    let (mut left, mut right) = (a.iter().rev(), b.iter().rev());
    loop {
        let axis = match (left.next(), right.next()) {
            (None, None) => break,
            (Some(axis), None) | (None, Some(axis)) => axis.clone(),
            (Some(a), Some(b)) if denoter.same(a, b) => a.clone(),
            (Some(Axis::Dim(a)), Some(axis @ Axis::Dim(b)))
            | (Some(axis @ Axis::Dim(b)), Some(Axis::Dim(a)))
                if *a == Dim::Int(1) && *b != Dim::Int(1) =>
            {
                axis.clone()
            }
            (Some(a), Some(b)) => return unknown(format!("{a:?} and {b:?} do not broadcast")),
        };
        shape.push(axis);
    }
    shape.reverse();
    Ok(shape)
}

/// The index into an operand that is stretched to `out`.
pub(super) fn stretched(
    denoter: &mut Denoter,
    own: &[Axis],
    out: &[Axis],
    at: &[Dim],
) -> Known<Vec<Dim>> {
    let Some(lead) = out.len().checked_sub(own.len()) else {
        return unknown("an operand of a higher rank than the result");
    };
    let pairs = own.iter().zip(out[lead..].iter().zip(&at[lead..]));
    pairs
        .map(|(own, (axis, index))| {
            if denoter.same(own, axis) {
                Ok(index.clone())
            } else if denoter.is_one(own) && matches!(axis, Axis::Dim(_)) {
                Ok(Dim::Int(0))
            } else {
                unknown(format!("{own:?} is not stretched to {axis:?}"))
            }
        })
        .collect()
}

/// The elements of all operands at an index of the result.
fn arguments(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Vec<Term>> {
    let out = shape(denoter, call)?;
    let nodes = operands(call);
    let mut terms = Vec::with_capacity(nodes.len());
    for node in nodes {
        let own = denoter.shape(node)?;
        let index = stretched(denoter, &own, &out, at)?;
        terms.push(denoter.element(node, &index)?);
    }
    Ok(terms)
}

/// The domain in which an operator computes: that of its first operand.
fn domain(denoter: &Denoter, call: &Call) -> Known<Domain> {
    Ok(domain_of(like_first(denoter, call)?, denoter.reals))
}

fn element(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let mut terms = arguments(denoter, call, at)?;
    let domain = domain(denoter, call)?;
    for arg in &call.args {
        match arg {
            Arg::Node(_) => {}
            Arg::Float(value) => terms.push(Term::Number(domain, *value)),
            _ => return unknown("a parameter that is not written out"),
        }
    }
    let name = call.row.short_name();
    if like_first(denoter, call)? == DType::I64
        && let Some(known) = applied(denoter, name, &terms)
    {
        return Ok(known);
    }
    Ok(Term::apply(domain, name, terms))
}

fn where_element(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let mut terms = arguments(denoter, call, at)?.into_iter();
    match (terms.next(), terms.next(), terms.next()) {
        (Some(condition), Some(a), Some(b)) => {
            Ok(Term::If(Test::Element(Box::new(condition)), Box::new(a), Box::new(b)))
        }
        _ => unknown("`where` takes three tensors"),
    }
}

fn fma(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let terms = arguments(denoter, call, at)?;
    let domain = domain(denoter, call)?;
    let [a, b, c] =
        <[Term; 3]>::try_from(terms).or_else(|_| unknown("`ewise_fma` takes three tensors"))?;
    if domain == Domain::Bits {
        return Ok(Term::apply(domain, "fma", vec![a, b, c]));
    }
    Ok(Term::apply(domain, ADD, vec![Term::apply(domain, MULTIPLY, vec![a, b]), c]))
}

fn astype(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = tensor(call, "x")?;
    let (from, to) = (denoter.dtype(x)?, type_argument(denoter, call, "dtype")?);
    let term = denoter.element(x, at)?;
    // A rule says the same of every dtype of a class: only one and the same type is known to be equal.
    if from == to {
        return Ok(term);
    }
    let domain = domain_of(to, denoter.reals);
    Ok(Term::apply(domain, &format!("astype {from} {to}"), vec![term]))
}

fn clip(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = tensor(call, "x")?;
    let domain = denoter.domain(x)?;
    let bound = |param| match call.arg(param) {
        Arg::Float(value) => Ok(Term::Number(domain, *value)),
        Arg::Integer(Dim::Int(value)) => Ok(Term::Number(domain, *value as f64)),
        _ => unknown("a bound that is not written out"),
    };
    let (low, high) = (bound("min")?, bound("max")?);
    let below = Term::apply(domain, MINIMUM, vec![denoter.element(x, at)?, high]);
    Ok(Term::apply(domain, MAXIMUM, vec![below, low]))
}

fn relu(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = tensor(call, "data")?;
    let domain = denoter.domain(x)?;
    let term = denoter.element(x, at)?;
    Ok(Term::apply(domain, MAXIMUM, vec![term, Term::Number(domain, 0.0)]))
}

/// Integers that have no result: noted for all elements of the result.
fn stops(denoter: &mut Denoter, call: &Call) -> Known<()> {
    if !like_first(denoter, call)?.is_integer() {
        return Ok(());
    }
    let out = shape(denoter, call)?;
    let over = denoter.indices(&out);
    let at: Vec<Dim> = over.iter().map(|(name, _)| Dim::Var(name.clone())).collect();
    let mut terms = arguments(denoter, call, &at)?;
    // What stops depends on the second operand alone: a divisor, an exponent, an amount.
    let terms = terms.split_off(1);
    if never_stops(denoter, call, &terms)? {
        return Ok(());
    }
    let what = format!("{}/C3", call.row.short_name());
    denoter.stops.push(Stops { what, over, terms });
    Ok(())
}

/// Whether a divisor is known to be other than 0, or an amount of a shift to be below the bits of every dtype.
fn never_stops(denoter: &mut Denoter, call: &Call, terms: &[Term]) -> Known<bool> {
    let defined = call.row.elementwise().and_then(|own| own.partial).map(|partial| partial.defined);
    let ([term], Some(defined)) = (terms, defined) else { return Ok(false) };
    let range = match defined {
        Defined::Nonzero => 1..=LARGEST_OF_ALL,
        Defined::NotNegative => 0..=LARGEST_OF_ALL,
        Defined::BelowWidth => 0..=7,
    };
    if let Term::Number(_, value) = term {
        return Ok(range.contains(&(*value as i64)) && value.trunc() == *value);
    }
    let is_divisor = defined == Defined::Nonzero && like_first(denoter, call)? == DType::I64;
    let divisor = if is_divisor { as_index(denoter, term) } else { None };
    Ok(divisor.is_some_and(|divisor| denoter.at_most(1, divisor)))
}
