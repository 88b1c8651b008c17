//! Elementwise operators: tables of derivatives. Broadcast needs nothing here: a cotangent is summed over
//! the axes along which its operand was stretched.

use super::Adjoint::{Build, Formulas, Zero};
use super::site::Site;
use super::tape::Made;
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["abs"], Formulas("d_x = g * sign(x)")),
    (&["acos"], Formulas("d_x = -g / sqrt(1 - x * x)")),
    (&["acosh"], Formulas("d_x = g / (sqrt(x - 1) * sqrt(x + 1))")),
    (&["asin"], Formulas("d_x = g / sqrt(1 - x * x)")),
    (&["asinh"], Formulas("d_x = g / sqrt(x * x + 1)")),
    (&["atan"], Formulas("d_x = g / (1 + x * x)")),
    (&["atanh"], Formulas("d_x = g / (1 - x * x)")),
    (&["cos"], Formulas("d_x = -g * sin(x)")),
    (&["cosh"], Formulas("d_x = g * sinh(x)")),
    // 2 / sqrt(pi)
    (&["erf"], Formulas("d_x = g * (1.1283791670955126 * exp(-(x * x)))")),
    (&["exp"], Formulas("d_x = g * y")),
    (&["log"], Formulas("d_x = g / x")),
    (&["negative"], Formulas("d_x = -g")),
    (&["rsqrt"], Formulas("d_x = g * (-0.5 * (y * y * y))")),
    (&["sigmoid"], Formulas("d_x = g * (y * (1 - y))")),
    (&["sin"], Formulas("d_x = g * cos(x)")),
    (&["sinh"], Formulas("d_x = g * cosh(x)")),
    (&["sqrt"], Formulas("d_x = g / (2 * y)")),
    (&["square"], Formulas("d_x = g * (2 * x)")),
    (&["tan"], Formulas("d_x = g * (1 + y * y)")),
    (&["tanh"], Formulas("d_x = g * (1 - y * y)")),
    (&["ceil", "floor", "round", "sign", "trunc", "floor_divide"], Zero),
    // At a limit itself the operand does not count, as in PyTorch's clamp.
    (&["clip"], Formulas("d_x = where(x > min and x < max, g, 0)")),
    (&["add"], Formulas("d_x1 = g\nd_x2 = g")),
    (&["subtract"], Formulas("d_x1 = g\nd_x2 = -g")),
    (&["multiply"], Formulas("d_x1 = g * x2\nd_x2 = g * x1")),
    (&["divide"], Formulas("d_x1 = g / x2\nd_x2 = -g * (y / x2)")),
    (
        &["atan2"],
        Formulas(
            "norm = x1 * x1 + x2 * x2
             d_x1 = g * (x2 / norm)
             d_x2 = g * (-x1 / norm)",
        ),
    ),
    (&["log_add_exp"], Formulas("d_x1 = g * exp(x1 - y)\nd_x2 = g * exp(x2 - y)")),
    // Half for each where both are equal, as in PyTorch.
    (
        &["maximum"],
        Formulas(
            "half = where(x1 == x2, g * 0.5, g)
             d_x1 = where(x1 < x2, 0, half)
             d_x2 = where(x2 < x1, 0, half)",
        ),
    ),
    (
        &["minimum"],
        Formulas(
            "half = where(x1 == x2, g * 0.5, g)
             d_x1 = where(x1 > x2, 0, half)
             d_x2 = where(x2 > x1, 0, half)",
        ),
    ),
    (&["floor_mod"], Formulas("d_x1 = g\nd_x2 = -g * floor_divide(x1, x2)")),
    (&["mod"], Formulas("d_x1 = g\nd_x2 = -g * trunc(x1 / x2)")),
    // At an exponent of 0 the base does not count; at a base of 0 the exponent does not: as in PyTorch.
    (
        &["power"],
        Formulas(
            "d_x1 = where(x2 == 0, 0, g * (x2 * power(x1, x2 - 1)))
             d_x2 = where(x1 == 0 and x2 >= 0, 0, g * (y * log(x1)))",
        ),
    ),
    (&["where"], Formulas("d_x1 = where(condition, g, 0)\nd_x2 = where(condition, 0, g)")),
    (&["ewise_fma"], Formulas("d_x1 = g * x2\nd_x2 = g * x1\nd_x3 = g")),
    (&["astype"], Formulas("d_x = g")),
    // Of the result, so that 0 counts as negative, as in PyTorch.
    (&["nn.relu"], Formulas("d_data = where(y > 0, g, 0)")),
    (&["nn.leakyrelu"], Formulas("d_data = where(data > 0, g, g * alpha)")),
    (&["nn.prelu"], Build(prelu)),
    // 1 / sqrt(2) and 1 / sqrt(2 pi)
    (
        &["nn.gelu"],
        Formulas(
            "below = 0.5 * (1 + erf(data * 0.7071067811865476))
             density = 0.3989422804014327 * exp(-0.5 * (data * data))
             d_data = g * (below + data * density)",
        ),
    ),
    // sqrt(2 / pi)
    (
        &["nn.gelu_tanh"],
        Formulas(
            "square = data * data
             t = tanh(0.7978845608028654 * (data * (1 + 0.044715 * square)))
             slope = 0.7978845608028654 * (1 + 0.134145 * square)
             d_data = g * (0.5 * (1 + t) + 0.5 * (data * ((1 - t * t) * slope)))",
        ),
    ),
    (&["nn.silu"], Formulas("s = sigmoid(data)\nd_data = g * (s * (1 + data * (1 - s)))")),
    // Scale, and scale times alpha, of Klambauer et al. 2017.
    (
        &["nn.selu"],
        Formulas(
            "d_data = g * where(data > 0, 1.0507009873554805, 1.7580993408473766 * exp(minimum(data, 0)))",
        ),
    ),
    (
        &["nn.softplus"],
        Formulas("d_data = where(data * beta > threshold, g, g * sigmoid(data * beta))"),
    ),
    (&["dequantize"], Build(dequantize)),
];

/// `scale * (data - zero_point)`, of operands that are floats.
fn dequantize(site: &mut Site) -> Made<()> {
    let (data, g) = (site.param("data"), site.g()?);
    let dtype = site.tape.dtype(&g)?;
    let rank = site.tape.rank(&data)?;
    let axis = if rank == 0 { 0 } else { site.axis("axis", rank)? };
    let mut wide = Vec::new();
    for name in ["scale", "zero_point"] {
        let own = site.param(name);
        let own = site.tape.cast(&own, dtype)?;
        wide.push(along(site, &own, axis, rank)?);
    }
    let data = site.tape.cast(&data, dtype)?;
    let more = [("s", wide[0].clone()), ("z", wide[1].clone()), ("x", data)];
    for (name, text) in [("data", "g * s"), ("scale", "g * (x - z)"), ("zero_point", "-g * s")] {
        if site.wants(name) {
            let given = site.value(text, &more)?;
            give_along(site, name, &given, axis, rank)?;
        }
    }
    Ok(())
}

/// A vector with an entry for each index of an axis, or of one entry, so that it broadcasts to the tensor.
fn along(site: &mut Site, vector: &Atom, axis: usize, rank: usize) -> Made<Atom> {
    match site.tape.known_dims(vector)?.as_slice() {
        [entries] => {
            let dims = dims_along(entries, axis, rank);
            site.tape.reshape(vector, dims)
        }
        _ => Ok(vector.clone()),
    }
}

fn dims_along(entries: &Dim, axis: usize, rank: usize) -> Vec<Dim> {
    let mut dims = vec![Dim::Int(1); rank.max(1)];
    dims[axis] = entries.clone();
    dims
}

/// The cotangent of an operand that [`along`] took.
fn give_along(site: &mut Site, name: &str, given: &Atom, axis: usize, rank: usize) -> Made<()> {
    let own = site.param(name);
    let dims = site.tape.known_dims(&own)?;
    let [entries] = dims.as_slice() else { return site.give(name, given) };
    let wide = Atom::Shape(dims_along(entries, axis, rank));
    let given = site.tape.call("collapse_sum_to", &[given, &wide])?;
    let given = site.tape.reshape(&given, dims)?;
    site.give(name, &given)
}

fn prelu(site: &mut Site) -> Made<()> {
    let (data, alpha) = (site.param("data"), site.param("alpha"));
    let rank = site.tape.rank(&data)?;
    let axis = site.axis("axis", rank)?;
    let wide = along(site, &alpha, axis, rank)?;
    if site.wants("data") {
        let given = site.value("where(data > 0, g, g * wide)", &[("wide", wide)])?;
        site.give("data", &given)?;
    }
    if site.wants("alpha") {
        let given = site.value("where(data > 0, 0, g * data)", &[])?;
        give_along(site, "alpha", &given, axis, rank)?;
    }
    Ok(())
}
