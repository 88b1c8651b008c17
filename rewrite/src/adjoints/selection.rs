//! Operators each of whose result elements is an element of one operand, at places that the operator itself
//! tells: it is run once more, on the numbers of the elements. Cotangents are added at these places, in
//! row-major order of the result. Used where no direct inverse is known.

use super::Adjoint::Build;
use super::movement::{rest, volume, with_zeros};
use super::site::Site;
use super::tape::{Made, dtype_atom, int};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Relation};
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["strided_slice"], Build(strided_slice)),
    (&["dynamic_strided_slice"], Build(|site| by_places(site, "x"))),
    (&["sort"], Build(sort)),
    (&["topk"], Build(topk)),
    (&["median"], Build(median)),
];

/// The numbers of the elements of a tensor, row-major, as a tensor of its shape.
pub(super) fn numbers(site: &mut Site, of: &Atom) -> Made<Atom> {
    let dims = site.tape.known_dims(of)?;
    let flat = site.tape.iota(&volume(&dims))?;
    let shape = Atom::Shape(dims);
    site.tape.call("reshape", &[&flat, &shape])
}

/// The adjoint of a selection from one operand.
pub(super) fn by_places(site: &mut Site, operand: &str) -> Made<()> {
    let own = site.param(operand);
    let numbers = numbers(site, &own)?;
    let chosen = site.again(&[(operand, &numbers)])?;
    let mut flat =
        site.tape.zeros(vec![volume(&site.tape.known_dims(&own)?)], site.tape.dtype(&own)?)?;
    let is_tuple = matches!(site.tape.annotation(&chosen), Annotation::Tuple(_));
    for (at, g) in site.cotangents.clone().into_iter().enumerate() {
        let Some(g) = g else { continue };
        let places = if is_tuple { site.tape.field(&chosen, at) } else { chosen.clone() };
        let places = site.tape.call("expand_dims", &[&places, &Atom::Dim(Dim::Int(-1))])?;
        flat = site.tape.call("scatter_nd", &[&flat, &places, &g, &Atom::Str("add".into())])?;
    }
    let shape = site.tape.shape(&own)?;
    let given = site.tape.call("reshape", &[&flat, &shape])?;
    site.give(operand, &given)
}

pub(super) fn scatter_add(
    site: &mut Site,
    into: &Atom,
    places: &Atom,
    g: &Atom,
    axis: usize,
) -> Made<Atom> {
    let add = Atom::Str("add".into());
    site.tape.call("scatter_elements", &[into, places, g, &int(axis), &add])
}

/// A slice without steps is undone by padding, where its place is known.
fn strided_slice(site: &mut Site) -> Made<()> {
    if let Some(widths) = padding(site)? {
        let g = site.g()?;
        let given = with_zeros(site, &g, &widths)?;
        return site.give("x", &given);
    }
    by_places(site, "x")
}

/// How many zeros belong before and after each axis, where that is proved.
fn padding(site: &mut Site) -> Made<Option<Vec<(Dim, Dim)>>> {
    let (x, y) = (site.param("x"), site.y.clone());
    let dims = site.tape.known_dims(&x)?;
    let Some(kept) = site.tape.dims(&y) else { return Ok(None) };
    let steps = if site.is_none("strides") { Ok(Vec::new()) } else { site.ints("strides") };
    if !steps.is_ok_and(|steps| steps.iter().all(|step| *step == 1)) {
        return Ok(None);
    }
    let axes = site.axes("axes", dims.len())?;
    let begins = match site.param("begin") {
        Atom::Tuple(items) | Atom::List(items) => items,
        single => vec![single],
    };
    let mut widths = vec![(Dim::Int(0), Dim::Int(0)); dims.len()];
    for (at, &axis) in axes.iter().enumerate() {
        let Some(Atom::Dim(begin)) = begins.get(at) else { return Ok(None) };
        let mut proved = |claim: Claim| site.tape.facts.decide(&claim) == Answer::Proved;
        let Some(before) = first_element(begin, &dims[axis], &mut proved) else { return Ok(None) };
        let after = rest(&dims[axis], &[&before, &kept[axis]]);
        if !proved(Claim::new(Dim::Int(0), Relation::AtMost, after.clone())) {
            return Ok(None);
        }
        let [before, after] = [before, after].map(|width| site.tape.facts.simplify(&width));
        widths[axis] = (before, after);
    }
    Ok(Some(widths))
}

/// The index of the first element of a slice, within the axis: one that is negative counts from the end.
fn first_element(begin: &Dim, extent: &Dim, proved: &mut dyn FnMut(Claim) -> bool) -> Option<Dim> {
    let at_most = |a: &Dim, b: &Dim| Claim::new(a.clone(), Relation::AtMost, b.clone());
    // Such an index, and an extent, may leave i64 together.
    if begin.as_int().is_some_and(|begin| begin.unsigned_abs() > 1 << 40) {
        return None;
    }
    let zero = Dim::Int(0);
    let first = if proved(at_most(&zero, begin)) {
        begin.clone()
    } else if proved(at_most(begin, &Dim::Int(-1))) {
        Dim::op(DimOp::Max, Dim::op(DimOp::Add, extent.clone(), begin.clone()), zero)
    } else {
        return None;
    };
    let is_inside = proved(at_most(&first, extent));
    Some(if is_inside { first } else { Dim::op(DimOp::Min, first, extent.clone()) })
}

fn sort(site: &mut Site) -> Made<()> {
    let (x, g) = (site.param("x"), site.g()?);
    let (axis, descending) = (site.param("axis"), site.param("descending"));
    let places = site.tape.call("argsort", &[&x, &axis, &descending, &dtype_atom(DType::I64)])?;
    let rank = site.tape.rank(&x)?;
    let axis = site.axis("axis", rank)?;
    let zeros = site.tape.call("zeros_like", &[&x])?;
    let given = scatter_add(site, &zeros, &places, &g, axis)?;
    site.give("x", &given)
}

fn topk(site: &mut Site) -> Made<()> {
    let Some(g) = site.cotangents.first().cloned().flatten() else { return Ok(()) };
    if site.str("ret_type")? == "indices" {
        return Ok(());
    }
    let x = site.param("data");
    let indices = Atom::Str("indices".into());
    let places = site.again(&[("ret_type", &indices), ("dtype", &dtype_atom(DType::I64))])?;
    let rank = site.tape.rank(&x)?;
    let axis = site.axis("axis", rank)?;
    let zeros = site.tape.call("zeros_like", &[&x])?;
    let given = scatter_add(site, &zeros, &places, &g, axis)?;
    site.give("data", &given)
}

/// With an axis the operator gives the places; without, all elements that are the median share, as in PyTorch.
fn median(site: &mut Site) -> Made<()> {
    let Some(g) = site.cotangents.first().cloned().flatten() else { return Ok(()) };
    if site.is_none("axis") {
        let text = "d_x = where(x == y, g / sum(where(x == y, 1, 0)), 0)";
        return site.formulas(text, &[]);
    }
    let (x, y) = (site.param("x"), site.y.clone());
    let rank = site.tape.rank(&x)?;
    let axis = site.axis("axis", rank)?;
    let kept = site.bool("keepdims");
    let places = site.tape.field(&y, 1);
    let places = site.keep(&places, &[axis], kept)?;
    let g = site.keep(&g, &[axis], kept)?;
    let zeros = site.tape.call("zeros_like", &[&x])?;
    let given = scatter_add(site, &zeros, &places, &g, axis)?;
    site.give("x", &given)
}
