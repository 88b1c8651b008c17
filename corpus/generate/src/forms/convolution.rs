//! Convolutions and pools, over spatial dims that may be smaller than the window.

use super::{Call, Form, int, unknown};
use crate::body::Body;
use crate::scope::{Class, Type, Var};

pub(super) const FORMS: &[Form] =
    &[conv1d, conv2d, transposed1d, transposed2d, pool1d, pool2d, adaptive];

/// A tensor of this many dims whose channels are two, and how many groups they form.
fn data(body: &mut Body, rank: usize) -> (Var, usize) {
    let mut dims = vec![body.dim(), int(2)];
    dims.resize_with(rank, || body.dim());
    let ty = Type::new(dims, body.choices.of(&["f32", "i32", "f16", "f64"]));
    let name = body.exact(&ty);
    (Var { name, ty }, body.choices.of(&[1, 1, 2]))
}

/// Strides, padding and dilation.
fn window(body: &mut Body) -> String {
    let strides = body.choices.of(&[1, 2, 3]);
    let (padding, dilation) = (body.choices.of(&[1, 0, 2]), body.choices.of(&[1, 1, 2]));
    format!("strides={strides}, padding={padding}, dilation={dilation}")
}

fn convolution(body: &mut Body, name: &str, rank: usize) -> Option<Call> {
    let (x, groups) = data(body, rank);
    let mut dims = vec![int(2), int(2 / groups)];
    dims.resize(rank, int(body.choices.of(&[1, 2, 3])));
    let weight = body.exact(&Type::new(dims, x.ty.dtype));
    let window = window(body);
    let text = format!("{name}({}, {weight}, {window}, groups={groups})", x.name);
    unknown(text, rank, x.ty.dtype)
}

fn conv1d(body: &mut Body) -> Option<Call> {
    convolution(body, "conv1d", 3)
}

fn conv2d(body: &mut Body) -> Option<Call> {
    convolution(body, "conv2d", 4)
}

fn transposed(body: &mut Body, name: &str, rank: usize) -> Option<Call> {
    let (x, groups) = data(body, rank);
    let mut dims = vec![int(2), int(1)];
    dims.resize(rank, int(body.choices.of(&[1, 2, 3])));
    let weight = body.exact(&Type::new(dims, x.ty.dtype));
    let strides = body.choices.of(&[1, 2, 3]);
    let text = format!("{name}({}, {weight}, strides={strides}, groups={groups})", x.name);
    unknown(text, rank, x.ty.dtype)
}

fn transposed1d(body: &mut Body) -> Option<Call> {
    transposed(body, "conv1d_transpose", 3)
}

fn transposed2d(body: &mut Body) -> Option<Call> {
    transposed(body, "conv2d_transpose", 4)
}

fn pool(body: &mut Body, dims: usize) -> Option<Call> {
    let x = body.pick(Class::Number, dims + 2..=dims + 2);
    let name = body.choices.of(&["max_pool", "avg_pool"]);
    let size = vec![body.choices.of(&[1, 2, 3]); dims];
    let padding = vec![body.choices.of(&[0, 1]); dims];
    let strides = vec![body.choices.of(&[1, 2]); dims];
    let more = body.choices.of(&["", ", ceil_mode=True", ", count_include_pad=True"]);
    let text = format!(
        "{name}{dims}d({}, {size:?}, strides={strides:?}, padding={padding:?}{more})",
        x.name
    );
    unknown(text, dims + 2, x.ty.dtype)
}

fn pool1d(body: &mut Body) -> Option<Call> {
    pool(body, 1)
}

fn pool2d(body: &mut Body) -> Option<Call> {
    pool(body, 2)
}

fn adaptive(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 4..=4);
    let size = body.choices.of(&["[1, 1]", "[2, 3]", "[4]"]);
    unknown(format!("adaptive_avg_pool2d({}, {size})", x.name), 4, x.ty.dtype)
}
