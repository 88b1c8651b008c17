//! Images by coordinates: the rows of ONNX, whose operators are the same.

use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::node::Node;
use crate::operators;
use crate::proto;
use crate::reason::{Done, Reason, unsupported};
use ndarray::{ArrayD, IxDyn};
use prost::bytes::Bytes;
use relax_semantics::tensor::Tensor;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("upsample_nearest2d.vec", |call| resize(call, "nearest")),
    ("upsample_bilinear2d.vec", |call| resize(call, "linear")),
    ("grid_sampler_2d", grid_sample),
    ("col2im", col2im),
];

enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Text(&'static str),
}

/// The operator of ONNX, of its newest operator set.
fn onnx(
    call: &mut Call,
    operator: &str,
    inputs: Vec<Option<V>>,
    attributes: Vec<(&str, Attribute)>,
) -> Done<Vec<V>> {
    let attribute = attributes.into_iter().map(|(name, value)| {
        let mut attribute =
            proto::Attribute { name: Some(name.to_owned()), ..proto::Attribute::default() };
        match value {
            Attribute::Int(value) => attribute.i = Some(value),
            Attribute::Ints(values) => attribute.ints = values,
            Attribute::Text(text) => attribute.s = Some(Bytes::from_static(text.as_bytes())),
        }
        attribute
    });
    let message = proto::Node {
        op_type: Some(operator.to_owned()),
        output: vec!["y".to_owned()],
        attribute: attribute.collect(),
        ..proto::Node::default()
    };
    let importer = operators::importer(&message)
        .ok_or_else(|| Reason::Unsupported(format!("ONNX's {operator}")))?;
    let mut node =
        Node { builder: call.builder, message: &message, inputs, opset: 22, beside: None };
    importer(&mut node)
}

fn resize(call: &mut Call, mode: &'static str) -> Done<Vec<V>> {
    let x = call.tensor("input")?;
    if !call.dtype(x).is_float() {
        return unsupported("integers");
    }
    let corners = call.bool("align_corners")?;
    let (mut scales, mut sizes) = (None, None);
    if call.has("output_size") {
        let mut dims = call.dims(x)[..2].to_vec();
        dims.extend(call.dims_of("output_size")?);
        sizes = Some(call.integers(dims, 1, DType::I64));
    } else if corners {
        // ONNX keeps the fraction of a size there, PyTorch does not.
        sizes = Some(scaled_sizes(call, x)?);
    } else {
        let mut factors = vec![1.0, 1.0];
        factors.extend(call.floats("scale_factors")?);
        let array = ArrayD::from_shape_vec(IxDyn(&[factors.len()]), factors);
        let array = array.map_err(|error| Reason::Invalid(error.to_string()))?;
        scales = Some(call.constant(Tensor::from_floats(DType::F32, array)));
    }
    let coordinates = match (mode, corners) {
        ("nearest", _) => "asymmetric",
        (_, true) => "align_corners",
        _ => "half_pixel",
    };
    let attributes = vec![
        ("mode", Attribute::Text(mode)),
        ("coordinate_transformation_mode", Attribute::Text(coordinates)),
        ("nearest_mode", Attribute::Text("floor")),
    ];
    onnx(call, "Resize", vec![Some(x), None, scales, sizes], attributes)
}

fn scaled_sizes(call: &mut Call, x: V) -> Done<V> {
    let own = call.dims(x);
    let mut dims = own[..2].to_vec();
    for (dim, factor) in own[2..].iter().zip(call.floats("scale_factors")?) {
        dims.push(match dim.as_int() {
            Some(extent) => Dim::Int((extent as f64 * factor).floor() as i64),
            None if factor.fract() == 0.0 => call.dim(DimOp::Mul, dim, &Dim::Int(factor as i64)),
            None => return unsupported("a fraction of a symbolic size with align_corners"),
        });
    }
    Ok(call.integers(dims, 1, DType::I64))
}

fn grid_sample(call: &mut Call) -> Done<Vec<V>> {
    let (x, grid) = (call.tensor("input")?, call.tensor("grid")?);
    let mode = match call.int("interpolation_mode")? {
        0 => "linear",
        1 => "nearest",
        2 => "cubic",
        other => return unsupported(format!("interpolation_mode = {other}")),
    };
    let padding = match call.int("padding_mode")? {
        0 => "zeros",
        1 => "border",
        2 => "reflection",
        other => return unsupported(format!("padding_mode = {other}")),
    };
    let attributes = vec![
        ("mode", Attribute::Text(mode)),
        ("padding_mode", Attribute::Text(padding)),
        ("align_corners", Attribute::Int(call.bool("align_corners")?.into())),
    ];
    onnx(call, "GridSample", vec![Some(x), Some(grid)], attributes)
}

fn col2im(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let (x, is_alone) = super::movement::without_batch(call, x, 3)?;
    let (image, block) = (call.ints_for("output_size", 2)?, call.ints_for("kernel_size", 2)?);
    let pads = call.ints_for("padding", 2)?;
    let (image, block) = (call.vector(&image), call.vector(&block));
    let attributes = vec![
        ("dilations", Attribute::Ints(call.ints_for("dilation", 2)?)),
        ("pads", Attribute::Ints(vec![pads[0], pads[1], pads[0], pads[1]])),
        ("strides", Attribute::Ints(call.ints_for("stride", 2)?)),
    ];
    let y = onnx(call, "Col2Im", vec![Some(x), Some(image), Some(block)], attributes)?[0];
    if !is_alone {
        return Ok(vec![y]);
    }
    let dims: Vec<Dim> = call.dims(y)[1..].to_vec();
    Ok(vec![operators::shape::reshape(call, y, dims)?])
}
