//! Normalizations: over some axes, `n = (x - mean) * r` with `r = 1 / sqrt(variance + epsilon)`.

use super::Adjoint::Build;
use super::movement::inverse;
use super::site::Site;
use super::tape::{Made, Tape, axes_atom};
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["nn.layer_norm"], Build(layer_norm)),
    (&["nn.rms_norm"], Build(rms_norm)),
    (&["nn.group_norm"], Build(group_norm)),
    (&["nn.instance_norm"], Build(instance_norm)),
    (&["nn.batch_norm"], Build(batch_norm)),
];

const CENTERED: &str = "centered = x - mean(x, axis=axes, keepdims=True)
    r = rsqrt(variance(x, axis=axes, keepdims=True) + epsilon)
    n = centered * r
    value = r * (h - mean(h, axis=axes, keepdims=True) - n * mean(h * n, axis=axes, keepdims=True))";

const NORMALIZED: &str = "centered = x - mean(x, axis=axes, keepdims=True)
    value = centered * rsqrt(variance(x, axis=axes, keepdims=True) + epsilon)";

const ROOT_MEAN_SQUARE: &str = "r = rsqrt(mean(x * x, axis=axes, keepdims=True) + epsilon)
    n = x * r
    value = r * (h - n * mean(h * n, axis=axes, keepdims=True))";

const SCALED: &str = "value = x * rsqrt(mean(x * x, axis=axes, keepdims=True) + epsilon)";

/// A parameter whose dims are some axes of data, in this order, so that it broadcasts to data.
fn wide(site: &mut Site, param: &Atom, axes: &[usize], rank: usize) -> Made<Atom> {
    let order = sorted(axes);
    let param = site.tape.permute(param, &order)?;
    let own = site.tape.known_dims(&param)?;
    let mut dims = vec![Dim::Int(1); rank];
    order.iter().zip(own).for_each(|(&at, dim)| dims[axes[at]] = dim);
    site.tape.reshape(&param, dims)
}

/// The positions in `axes`, from the least axis to the greatest.
fn sorted(axes: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&at| axes[at]);
    order
}

/// The cotangent of a parameter as [`wide`] took it: `given`, of the shape of data, summed over the other axes.
fn give_narrow(site: &mut Site, name: &str, given: &Atom, axes: &[usize]) -> Made<()> {
    let rank = site.tape.rank(given)?;
    let others: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    let given = site.tape.call("sum", &[given, &axes_atom(&others)])?;
    let given = site.tape.permute(&given, &inverse(&sorted(axes)))?;
    site.give(name, &given)
}

/// Cotangents of scale and shift.
fn give_affine(
    site: &mut Site,
    normalized: &str,
    x: &Atom,
    axes: &[usize],
    along: &[usize],
) -> Made<()> {
    if site.wants("gamma") && site.bool("scale") {
        let g = site.g()?;
        let more = [("x", x.clone()), ("axes", axes_atom(axes))];
        let n = site.lines(normalized, &more)?;
        let given = site.tape.call("multiply", &[&g, &n])?;
        give_narrow(site, "gamma", &given, along)?;
    }
    if site.wants("beta") && site.bool("center") {
        let g = site.g()?;
        give_narrow(site, "beta", &g, along)?;
    }
    Ok(())
}

/// The cotangent of what is scaled.
fn unscaled(site: &mut Site, along: &[usize], rank: usize) -> Made<Atom> {
    let g = site.g()?;
    if !site.bool("scale") {
        return Ok(g);
    }
    let gamma = site.param("gamma");
    let gamma = wide(site, &gamma, along, rank)?;
    site.tape.call("multiply", &[&g, &gamma])
}

fn layer_norm(site: &mut Site) -> Made<()> {
    let rank = site.tape.rank(&site.param("data"))?;
    let axes = site.axes("axes", rank)?;
    over_axes(site, &axes, &axes)
}

fn instance_norm(site: &mut Site) -> Made<()> {
    let rank = site.tape.rank(&site.param("data"))?;
    let (axes, channel) = (site.axes("axes", rank)?, site.axis("channel_axis", rank)?);
    over_axes(site, &axes, &[channel])
}

fn over_axes(site: &mut Site, axes: &[usize], along: &[usize]) -> Made<()> {
    let x = site.param("data");
    let rank = site.tape.rank(&x)?;
    if site.wants("data") {
        let h = unscaled(site, along, rank)?;
        let given =
            site.lines(CENTERED, &[("x", x.clone()), ("h", h), ("axes", axes_atom(axes))])?;
        site.give("data", &given)?;
    }
    give_affine(site, NORMALIZED, &x, axes, along)
}

fn rms_norm(site: &mut Site) -> Made<()> {
    let (x, g) = (site.param("data"), site.g()?);
    let rank = site.tape.rank(&x)?;
    let axes = site.axes("axes", rank)?;
    let list = axes_atom(&axes);
    if site.wants("data") {
        let h = match site.param("weight") {
            Atom::None => g.clone(),
            weight => {
                let weight = wide(site, &weight, &axes, rank)?;
                site.tape.call("multiply", &[&g, &weight])?
            }
        };
        let given =
            site.lines(ROOT_MEAN_SQUARE, &[("x", x.clone()), ("h", h), ("axes", list.clone())])?;
        site.give("data", &given)?;
    }
    if site.wants("weight") {
        let n = site.lines(SCALED, &[("x", x), ("axes", list)])?;
        let given = site.tape.call("multiply", &[&g, &n])?;
        give_narrow(site, "weight", &given, &axes)?;
    }
    Ok(())
}

/// As over axes, with the channels as two dims: runs, and the channels of a run, which are reduced too.
fn group_norm(site: &mut Site) -> Made<()> {
    let x = site.param("data");
    let dims = site.tape.known_dims(&x)?;
    let rank = dims.len();
    let (axes, channel) = (site.axes("axes", rank)?, site.axis("channel_axis", rank)?);
    let (Dim::Int(groups), Dim::Int(channels)) = (site.dim("num_groups")?, &dims[channel]) else {
        return Err("the numbers of channels and of runs are not literals".to_owned());
    };
    let mut split = dims.clone();
    split.splice(channel..=channel, [Dim::Int(groups), Dim::Int(channels / groups.max(1))]);
    let mut reduced: Vec<usize> =
        axes.iter().map(|&axis| if axis > channel { axis + 1 } else { axis }).collect();
    reduced.push(channel + 1);
    let parts = site.tape.call("reshape", &[&x, &Atom::Shape(split.clone())])?;
    let list = axes_atom(&reduced);
    if site.wants("data") {
        let h = unscaled(site, &[channel], rank)?;
        let h = site.tape.call("reshape", &[&h, &Atom::Shape(split)])?;
        let given =
            site.lines(CENTERED, &[("x", parts.clone()), ("h", h), ("axes", list.clone())])?;
        let given = site.tape.call("reshape", &[&given, &Atom::Shape(dims.clone())])?;
        site.give("data", &given)?;
    }
    if site.wants("gamma") && site.bool("scale") {
        let g = site.g()?;
        let n = site.lines(NORMALIZED, &[("x", parts), ("axes", list)])?;
        let n = site.tape.call("reshape", &[&n, &Atom::Shape(dims)])?;
        let given = site.tape.call("multiply", &[&g, &n])?;
        give_narrow(site, "gamma", &given, &[channel])?;
    }
    if site.wants("beta") && site.bool("center") {
        let g = site.g()?;
        give_narrow(site, "beta", &g, &[channel])?;
    }
    Ok(())
}

/// In training the statistics are those of data; else they are operands, and the running ones pass through.
fn batch_norm(site: &mut Site) -> Made<()> {
    let x = site.param("data");
    let rank = site.tape.rank(&x)?;
    let axis = site.axis("axis", rank)?;
    let others: Vec<usize> = (0..rank).filter(|at| *at != axis).collect();
    let training = site.bool("training");
    if site.cotangents.iter().skip(1).any(Option::is_some) {
        return Err("a cotangent of a running statistic is not derived".to_owned());
    }
    if site.cotangents[0].is_none() {
        return Ok(());
    }
    if training {
        return over_axes(site, &others, &[axis]);
    }
    let mut more = vec![("x", x)];
    for (name, param) in [("m", "moving_mean"), ("v", "moving_var"), ("w", "gamma")] {
        let own = site.param(param);
        more.push((name, wide(site, &own, &[axis], rank)?));
    }
    if !site.bool("scale") {
        let dtype = site.tape.dtype(&more[0].1)?;
        more[3].1 = Tape::number(1.0, dtype);
    }
    let moved = "value = -g * w * rsqrt(v + epsilon)";
    let spread = "r = rsqrt(v + epsilon)\nvalue = -0.5 * (g * w * (x - m)) * (r * r * r)";
    let scaled = "value = g * ((x - m) * rsqrt(v + epsilon))";
    for (name, formula) in [("moving_mean", moved), ("moving_var", spread), ("gamma", scaled)] {
        if site.wants(name) && (name != "gamma" || site.bool("scale")) {
            let given = site.lines(formula, &more)?;
            give_narrow(site, name, &given, &[axis])?;
        }
    }
    if site.wants("beta") && site.bool("center") {
        let g = site.g()?;
        give_narrow(site, "beta", &g, &[axis])?;
    }
    if site.wants("data") {
        let given = site.lines("value = g * w * rsqrt(v + epsilon)", &more)?;
        site.give("data", &given)?;
    }
    Ok(())
}
