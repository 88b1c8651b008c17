//! Parametric activations, padding, losses; quantization.

use super::{Call, Form, each, int, one, roughly, times};
use crate::body::Body;
use crate::scope::{Class, Type, product};
use relax_syntax::dim::{Dim, DimOp};

pub(super) const FORMS: &[Form] = &[prelu, dropout, pad, shuffle, flatten, cross_entropy, nll];
pub(super) const QUANTIZATION: &[Form] = &[quantize, dequantize];

fn prelu(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 1..=5);
    let axis = body.axis(&x);
    let dim = if body.choices.once_in(3) { Dim::Int(1) } else { x.ty.dims[axis].clone() };
    let alpha = body.exact(&Type::new(vec![dim], x.ty.dtype));
    one(format!("prelu({}, {alpha}, axis={axis})", x.name), x.ty)
}

fn dropout(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 0..=5);
    let text = if body.choices.once_in(3) {
        format!("dropout({}, 0.25)", x.name)
    } else {
        let (state, stream) = (state(body), body.choices.of(&["0", "1", "4294967295"]));
        let rate = body.choices.of(&["0.0", "0.25", "0.5", "0.875"]);
        format!("dropout({}, {rate}, {state}, {stream})", x.name)
    };
    each(text, vec![x.ty.clone(), x.ty])
}

/// A state of random bits.
pub(super) fn state(body: &mut Body) -> String {
    body.exact(&Type::new(vec![int(4)], "u32"))
}

fn pad(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=4);
    let mut widths = Vec::new();
    for dim in &mut x.ty.dims {
        let (before, after) = (body.choices.of(&[0, 1, 2]), body.choices.of(&[0, 1, 3]));
        widths.extend([before, after]);
        *dim = Dim::op(DimOp::Add, dim.clone(), Dim::Int(before + after));
    }
    let modes = ["constant", "constant", "reflect", "replicate", "circular"];
    let (mode, value) = (body.choices.of(&modes), body.choices.of(&["0.0", "-0.0", "1.5"]));
    let value = if Class::Float.has(x.ty.dtype) { value } else { "1" };
    let text = format!("pad({}, {widths:?}, pad_mode=\"{mode}\", pad_value={value})", x.name);
    roughly(text, x.ty)
}

fn shuffle(body: &mut Body) -> Option<Call> {
    let dims = [int(4), body.dim(), body.dim()];
    let x = body.exact(&Type::f32(dims.to_vec()));
    let dims = vec![int(1), times(&dims[1], 2), times(&dims[2], 2)];
    roughly(format!("pixel_shuffle({x}, 2)"), Type::f32(dims))
}

fn flatten(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 2..=5);
    let dims = vec![x.ty.dims[0].clone(), product(&x.ty.dims[1..])];
    one(format!("batch_flatten({})", x.name), Type::new(dims, x.ty.dtype))
}

fn cross_entropy(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 1..=3);
    let labels = body.exact(&x.ty);
    let ty = Type::new(Vec::new(), x.ty.dtype);
    one(format!("cross_entropy_with_logits({}, {labels})", x.name), ty)
}

fn nll(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 2..=2);
    let targets = body.index(&x.ty.dims[..1], false);
    let weights = body.exact(&Type::new(vec![x.ty.dims[1].clone()], x.ty.dtype));
    let reduction = body.choices.of(&["mean", "sum", "none"]);
    let dims = if reduction == "none" { vec![x.ty.dims[0].clone()] } else { Vec::new() };
    let text = format!("nll_loss({}, {targets}, {weights}, \"{reduction}\")", x.name);
    one(text, Type::new(dims, x.ty.dtype))
}

/// One scale and zero point for all, or one for each index of the last axis.
fn scales(
    body: &mut Body,
    dims: &[Dim],
    dtype: &'static str,
    zero: &'static str,
) -> (String, String) {
    let of = match dims.last() {
        Some(dim) if body.choices.once_in(2) => vec![dim.clone()],
        _ => Vec::new(),
    };
    let scale = body.exact(&Type::new(of.clone(), dtype));
    (scale, body.exact(&Type::new(of, zero)))
}

fn quantize(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 0..=4);
    let zero = body.choices.of(&["i8", "i32", "u8", "f16"]);
    let (scale, zero) = scales(body, &x.ty.dims, "f32", zero);
    let out = body.choices.of(&["i8", "u8", "i16", "u16"]);
    axis_less(&x.ty, format!("quantize({}, {scale}, {zero}, out_dtype=\"{out}\")", x.name), out)
}

fn dequantize(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Integer, 0..=4);
    if matches!(x.ty.dtype, "i64" | "u64") {
        let narrow = body.scope.fresh("q");
        body.line(&format!("{narrow} = astype({}, \"i8\")", x.name));
        x.name = narrow;
    }
    let (scale, zero) = scales(body, &x.ty.dims, "f32", "i8");
    let out = body.choices.of(&["f32", "f16", "f64"]);
    axis_less(&x.ty, format!("dequantize({}, {scale}, {zero}, out_dtype=\"{out}\")", x.name), out)
}

/// A scalar has no axis for the default one.
fn axis_less(ty: &Type, text: String, dtype: &'static str) -> Option<Call> {
    if ty.dims.is_empty() { None } else { one(text, ty.of(dtype)) }
}
