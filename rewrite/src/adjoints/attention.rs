//! Attention: the probabilities are computed again, then the rules of products and softmax.

use super::Adjoint::Build;
use super::site::Site;
use super::tape::{Made, Tape, axes_atom, int, minus};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[(&["nn.attention", "nn.attention_bias"], Build(attention))];

/// Between (b, s, h, d) and (b, h, s, d).
const SWAPPED: [usize; 4] = [0, 2, 1, 3];
/// The last two dims exchanged.
const TRANSPOSED: [usize; 4] = [0, 1, 3, 2];

fn attention(site: &mut Site) -> Made<()> {
    let g = site.g()?;
    let g = site.tape.permute(&g, &SWAPPED)?;
    let query = site.param("query");
    let query = site.tape.permute(&query, &SWAPPED)?;
    let heads = site.tape.known_dims(&query)?[1].clone();
    let key = shared(site, "key", &heads)?;
    let value = shared(site, "value", &heads)?;
    let dtype = site.tape.dtype(&query)?;
    let scale = scale(site, &query, dtype)?;
    let transposed = site.tape.permute(&key, &TRANSPOSED)?;
    let mut scores = site.lines(
        "value = matmul(q, k) * scale",
        &[("q", query.clone()), ("k", transposed), ("scale", scale.clone())],
    )?;
    if !site.is_none("bias") {
        scores = site.value("scores + bias", &[("scores", scores)])?;
    }
    if let Some(seen) = seen(site, &scores)? {
        let least = Tape::number(f64::NEG_INFINITY, dtype);
        scores = site.tape.call("where", &[&seen, &scores, &least])?;
    }
    let p = site.tape.call("nn.softmax", &[&scores])?;
    let more = [("p", p), ("v", value), ("k", key), ("q", query), ("g", g), ("scale", scale)];
    if site.wants("value") {
        let given = site.lines("value = matmul(permute_dims(p, [0, 1, 3, 2]), g)", &more)?;
        give_shared(site, "value", &given)?;
    }
    if !["query", "key", "bias"].iter().any(|name| site.wants(name)) {
        return Ok(());
    }
    let slopes = site.lines(
        "d_p = matmul(g, permute_dims(v, [0, 1, 3, 2]))
         value = p * (d_p - sum(p * d_p, axis=-1, keepdims=True))",
        &more,
    )?;
    if site.wants("bias") {
        site.give("bias", &slopes)?;
    }
    let mut more = more.to_vec();
    more.push(("slopes", slopes));
    if site.wants("query") {
        let given = site.lines("value = matmul(slopes, k) * scale", &more)?;
        let given = site.tape.permute(&given, &SWAPPED)?;
        site.give("query", &given)?;
    }
    if site.wants("key") {
        let text = "value = matmul(permute_dims(slopes, [0, 1, 3, 2]), q) * scale";
        let given = site.lines(text, &more)?;
        give_shared(site, "key", &given)?;
    }
    Ok(())
}

/// Keys or values as (b, h, t, d): each repeated for the heads that share it.
fn shared(site: &mut Site, name: &str, heads: &Dim) -> Made<Atom> {
    let own = site.param(name);
    let own = site.tape.permute(&own, &SWAPPED)?;
    let few = site.tape.known_dims(&own)?[1].clone();
    if site.tape.equal(&few, heads) {
        return Ok(own);
    }
    let times = Dim::op(DimOp::FloorDiv, heads.clone(), few);
    site.tape.call("repeat", &[&own, &Atom::Dim(times), &int(1)])
}

/// The cotangent of what [`shared`] gave, summed over the heads that share a key.
fn give_shared(site: &mut Site, name: &str, given: &Atom) -> Made<()> {
    let own = site.param(name);
    let few = site.tape.known_dims(&own)?[2].clone();
    let dims = site.tape.known_dims(given)?;
    let mut given = given.clone();
    if !site.tape.equal(&few, &dims[1]) {
        let times = Dim::op(DimOp::FloorDiv, dims[1].clone(), few.clone());
        let split = vec![dims[0].clone(), few, times, dims[2].clone(), dims[3].clone()];
        given = site.tape.call("reshape", &[&given, &Atom::Shape(split)])?;
        given = site.tape.call("sum", &[&given, &axes_atom(&[2])])?;
    }
    let given = site.tape.permute(&given, &SWAPPED)?;
    site.give(name, &given)
}

fn scale(site: &mut Site, query: &Atom, dtype: DType) -> Made<Atom> {
    match site.param("scale") {
        Atom::None => {
            let dim = site.tape.known_dims(query)?[3].clone();
            let dim = site.tape.scalar(&dim, dtype)?;
            site.value("1 / sqrt(dim)", &[("dim", dim)])
        }
        Atom::Float(value) => Ok(Tape::number(value, dtype)),
        Atom::Dim(dim) => site.tape.scalar(&dim, dtype),
        _ => Err("`scale` is not spelled".to_owned()),
    }
}

/// Which columns a row sees: those up to its own number and an offset, of these the last ones of the window.
fn seen(site: &mut Site, scores: &Atom) -> Made<Option<Atom>> {
    let Atom::Str(mask) = site.param("causal_mask") else { return Ok(None) };
    let dims = site.tape.known_dims(scores)?;
    let (rows, columns) = (dims[2].clone(), dims[3].clone());
    let offset = match mask.as_str() {
        "TopLeft" => Dim::Int(0),
        // |s - t|
        _ => Dim::op(DimOp::Max, minus(&rows, &columns), minus(&columns, &rows)),
    };
    let row = site.tape.iota(&rows)?;
    let row = site.tape.reshape(&row, vec![rows, Dim::Int(1)])?;
    let column = site.tape.iota(&columns)?;
    let offset = site.tape.scalar(&offset, DType::I64)?;
    let last = site.tape.call("add", &[&row, &offset])?;
    let mut seen = site.tape.call("less_equal", &[&column, &last])?;
    if !site.is_none("window_size") {
        let window = site.dim("window_size")?;
        let window = site.tape.scalar(&window, DType::I64)?;
        let first = site.tape.call("subtract", &[&last, &window])?;
        let near = site.tape.call("greater", &[&column, &first])?;
        seen = site.tape.call("logical_and", &[&seen, &near])?;
    }
    Ok(Some(seen))
}
