//! Operators that move elements or stretch them along an axis, and those that create tensors.

use super::Adjoint::{Build, Formulas, Zero};
use super::selection;
use super::site::Site;
use super::tape::{Made, Tape, axes_atom, int, minus, plus, times};
use relax_semantics::philox::dropout_scale;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Atom;

const RESHAPED: &str = "d_x = reshape(g, shape_of(x))";

pub(super) static ROWS: super::Rows = &[
    (&["arange", "eye", "eye_like", "full_like", "ones", "ones_like", "zeros", "zeros_like"], Zero),
    (&["full"], Formulas("d_fill_value = g")),
    (&["tril"], Formulas("d_x = tril(g, k)")),
    (&["triu"], Formulas("d_x = triu(g, k)")),
    (&["broadcast_to"], Formulas("d_x = g")),
    (
        &["collapse_sum_like", "collapse_sum_to"],
        Formulas("d_data = broadcast_to(g, shape_of(data))"),
    ),
    (&["expand_dims", "flatten", "reshape", "squeeze"], Formulas(RESHAPED)),
    (&["nn.batch_flatten"], Formulas("d_data = reshape(g, shape_of(data))")),
    (&["flip"], Formulas("d_data = flip(g, axis)")),
    (
        &["reverse_sequence"],
        Formulas("d_data = reverse_sequence(g, seq_lengths, seq_axis, batch_axis)"),
    ),
    (&["permute_dims"], Build(permute)),
    (&["concat"], Build(concat)),
    (&["stack"], Build(stack)),
    (&["split"], Build(split)),
    (&["repeat"], Build(repeat)),
    (&["tile"], Build(tile)),
    (&["nn.pixel_shuffle"], Build(pixel_shuffle)),
    (&["nn.pad"], Build(pad)),
    (&["meshgrid"], Build(meshgrid)),
    (&["nn.dropout"], Build(dropout)),
];

fn permute(site: &mut Site) -> Made<()> {
    let (x, g) = (site.param("x"), site.g()?);
    let rank = site.tape.rank(&x)?;
    let axes =
        if site.is_none("axes") { (0..rank).rev().collect() } else { site.axes("axes", rank)? };
    let given = site.tape.permute(&g, &inverse(&axes))?;
    site.give("x", &given)
}

/// The permutation that undoes one.
pub(super) fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; axes.len()];
    axes.iter().enumerate().for_each(|(at, &axis)| inverse[axis] = at);
    inverse
}

/// `g[…, begin:end, …]` along one axis.
pub(super) fn slice(site: &mut Site, g: &Atom, axis: usize, begin: &Dim, end: &Dim) -> Made<Atom> {
    let list = |dim: &Dim| Atom::List(vec![Atom::Dim(dim.clone())]);
    site.tape.call("strided_slice", &[g, &axes_atom(&[axis]), &list(begin), &list(end)])
}

fn concat(site: &mut Site) -> Made<()> {
    let (g, parts) = (site.g()?, site.elements("tensors")?);
    let rank = site.tape.rank(&g)?;
    let axis = site.axis("axis", rank)?;
    let mut begin = Dim::Int(0);
    for (at, part) in parts.iter().enumerate() {
        let end = plus(&begin, &site.tape.known_dims(part)?[axis]);
        if site.wants_element("tensors", at) {
            let given = slice(site, &g, axis, &begin, &end)?;
            let shape = site.tape.shape(part)?;
            let given = site.tape.call("reshape", &[&given, &shape])?;
            site.give_element("tensors", at, part, &given)?;
        }
        begin = end;
    }
    Ok(())
}

fn stack(site: &mut Site) -> Made<()> {
    let (g, parts) = (site.g()?, site.elements("tensors")?);
    let rank = site.tape.rank(&g)?;
    let axis = site.axis("axis", rank)?;
    for (at, part) in parts.iter().enumerate() {
        if site.wants_element("tensors", at) {
            let begin = i64::try_from(at).unwrap_or(i64::MAX);
            let given = slice(site, &g, axis, &Dim::Int(begin), &Dim::Int(begin + 1))?;
            let given = site.tape.call("squeeze", &[&given, &int(axis)])?;
            site.give_element("tensors", at, part, &given)?;
        }
    }
    Ok(())
}

/// The parts put together again, where they are proved to be the whole; else by the places they came from.
fn split(site: &mut Site) -> Made<()> {
    let x = site.param("x");
    let dims = site.tape.known_dims(&x)?;
    let axis = site.axis("axis", dims.len())?;
    let y = site.y.clone();
    let mut parts = Vec::new();
    let mut sum = Dim::Int(0);
    for (at, own) in site.cotangents.clone().into_iter().enumerate() {
        let part = site.tape.field(&y, at);
        sum = plus(&sum, &site.tape.known_dims(&part)?[axis]);
        parts.push(match own {
            Some(own) => own,
            None => site.tape.call("zeros_like", &[&part])?,
        });
    }
    if site.tape.equal(&sum, &dims[axis]) {
        let given = site.tape.call("concat", &[&Atom::Tuple(parts), &int(axis)])?;
        return site.give("x", &given);
    }
    selection::by_places(site, "x")
}

/// Each element is the sum over its copies, which are a dim of their own after `axis`.
fn repeat(site: &mut Site) -> Made<()> {
    let (x, g, repeats) = (site.param("data"), site.g()?, site.dim("repeats")?);
    let mut dims = site.tape.known_dims(&x)?;
    let axis = if site.is_none("axis") {
        dims = vec![Dim::product(&dims)];
        0
    } else {
        site.axis("axis", dims.len())?
    };
    dims.insert(axis + 1, repeats);
    let given = site.tape.call("reshape", &[&g, &Atom::Shape(dims)])?;
    let given = site.tape.call("sum", &[&given, &axes_atom(&[axis + 1])])?;
    let shape = site.tape.shape(&x)?;
    let given = site.tape.call("reshape", &[&given, &shape])?;
    site.give("data", &given)
}

/// Each axis of the result is one of copies and one of the operand.
fn tile(site: &mut Site) -> Made<()> {
    let (x, g) = (site.param("data"), site.g()?);
    let repeats = match site.param("repeats") {
        Atom::Dim(dim) => vec![dim],
        Atom::Tuple(items) | Atom::List(items) => items
            .iter()
            .map(|item| match item {
                Atom::Dim(dim) => Ok(dim.clone()),
                _ => Err("`repeats` is not spelled".to_owned()),
            })
            .collect::<Made<_>>()?,
        _ => return Err("`repeats` is not spelled".to_owned()),
    };
    let dims = site.tape.known_dims(&x)?;
    let rank = dims.len().max(repeats.len());
    let led = |list: &[Dim], at: usize| {
        (at + list.len()).checked_sub(rank).map_or(Dim::Int(1), |own| list[own].clone())
    };
    let pairs = (0..rank).flat_map(|at| [led(&repeats, at), led(&dims, at)]).collect();
    let given = site.tape.call("reshape", &[&g, &Atom::Shape(pairs)])?;
    let copies: Vec<usize> = (0..rank).map(|at| 2 * at).collect();
    let given = site.tape.call("sum", &[&given, &axes_atom(&copies)])?;
    let given = site.tape.reshape(&given, dims)?;
    site.give("data", &given)
}

/// The inverse: blocks of r × r become r² channels.
fn pixel_shuffle(site: &mut Site) -> Made<()> {
    let (x, g) = (site.param("data"), site.g()?);
    let dims = site.tape.known_dims(&x)?;
    let factor = Dim::Int(site.ints("upscale_factor")?[0]);
    let lead = dims.len() - 3;
    let narrow = site.tape.known_dims(&g)?[lead].clone();
    let mut wide = dims[..lead].to_vec();
    wide.extend([narrow, dims[lead + 1].clone(), factor.clone(), dims[lead + 2].clone(), factor]);
    let given = site.tape.call("reshape", &[&g, &Atom::Shape(wide)])?;
    let mut axes: Vec<usize> = (0..=lead).collect();
    axes.extend([lead + 2, lead + 4, lead + 1, lead + 3]);
    let given = site.tape.permute(&given, &axes)?;
    let given = site.tape.call("reshape", &[&given, &Atom::Shape(dims)])?;
    site.give("data", &given)
}

fn pad(site: &mut Site) -> Made<()> {
    if site.str("pad_mode")? != "constant" {
        return selection::by_places(site, "data");
    }
    let (data, mut given) = (site.param("data"), site.g()?);
    let dims = site.tape.known_dims(&data)?;
    let widths = match site.param("pad_width") {
        Atom::Tuple(items) | Atom::List(items) => items,
        _ => return Err("`pad_width` is not spelled".to_owned()),
    };
    for (axis, dim) in dims.iter().enumerate() {
        let (Some(Atom::Dim(before)), Some(Atom::Dim(after))) =
            (widths.get(2 * axis), widths.get(2 * axis + 1))
        else {
            return Err("`pad_width` is not spelled".to_owned());
        };
        if *before != Dim::Int(0) || *after != Dim::Int(0) {
            given = slice(site, &given, axis, before, &plus(before, dim))?;
        }
    }
    let given = site.tape.reshape(&given, dims)?;
    site.give("data", &given)
}

/// Zeros before and after each axis; `pad` takes literal widths only, so others are joined on.
pub(super) fn with_zeros(site: &mut Site, g: &Atom, widths: &[(Dim, Dim)]) -> Made<Atom> {
    let all = || widths.iter().flat_map(|(before, after)| [before, after]);
    if all().all(|width| width.as_int().is_some()) {
        let widths = Atom::List(all().cloned().map(Atom::Dim).collect());
        return site.tape.call("nn.pad", &[g, &widths]);
    }
    let dtype = site.tape.dtype(g)?;
    let mut padded = g.clone();
    for (axis, (before, after)) in widths.iter().enumerate() {
        let dims = site.tape.known_dims(&padded)?;
        let mut zeros = |width: &Dim| {
            let mut own = dims.clone();
            own[axis] = width.clone();
            (*width != Dim::Int(0)).then(|| site.tape.zeros(own, dtype)).transpose()
        };
        let parts = [zeros(before)?, Some(padded.clone()), zeros(after)?];
        let parts: Vec<Atom> = parts.into_iter().flatten().collect();
        if parts.len() > 1 {
            padded = site.tape.call("concat", &[&Atom::Tuple(parts), &int(axis)])?;
        }
    }
    Ok(padded)
}

/// Grid i repeats vector i along all dims but one.
fn meshgrid(site: &mut Site) -> Made<()> {
    let parts = site.elements("tensors")?;
    let exchanged = matches!(site.param("indexing"), Atom::Str(text) if text == "xy");
    for (at, part) in parts.iter().enumerate() {
        let own = site.cotangents.get(at).cloned().flatten();
        let (true, Some(own)) = (site.wants_element("tensors", at), own) else { continue };
        let dim = match at {
            0 | 1 if exchanged && parts.len() > 1 => 1 - at,
            other => other,
        };
        let others: Vec<usize> = (0..parts.len()).filter(|axis| *axis != dim).collect();
        let given = site.tape.call("sum", &[&own, &axes_atom(&others)])?;
        let dims = site.tape.known_dims(part)?;
        let given = site.tape.reshape(&given, dims)?;
        site.give_element("tensors", at, part, &given)?;
    }
    Ok(())
}

/// At inference the cotangent; in training that of kept elements, multiplied as they were. The mask does not change with data.
fn dropout(site: &mut Site) -> Made<()> {
    let Some(given) = site.cotangents.first().cloned().flatten() else { return Ok(()) };
    if site.is_none("state") {
        return site.give("data", &given);
    }
    let (y, dtype) = (site.y.clone(), site.tape.dtype(&given)?);
    let rate = match site.param("rate") {
        Atom::Float(rate) => rate,
        Atom::Dim(Dim::Int(rate)) => rate as f64,
        _ => return Err("`rate` is not spelled".to_owned()),
    };
    let (wide, scale) = dropout_scale(rate, dtype);
    let given = site.tape.cast(&given, wide)?;
    let given = site.tape.call("multiply", &[&given, &Tape::number(scale, wide)])?;
    let given = site.tape.cast(&given, dtype)?;
    let mask = site.tape.field(&y, 1);
    let mask = site.tape.cast(&mask, DType::Bool)?;
    let given = site.tape.call("where", &[&mask, &given, &Tape::number(0.0, dtype)])?;
    site.give("data", &given)
}

/// The product of some dims.
pub(super) fn volume(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Int(1), |product, dim| times(&product, dim))
}

/// What is left of an extent.
pub(super) fn rest(whole: &Dim, parts: &[&Dim]) -> Dim {
    parts.iter().fold(whole.clone(), |rest, part| minus(&rest, part))
}
