//! Pooling. What has three spatial dims is pooled over two, then over the third: a maximum of maxima,
//! and an average of averages, since the number of elements in a window is a product too.

use super::activation::scaled;
use super::convolution::{Windows, padded, windows};
use super::shape::reshape;
use crate::argument::{Arg, key};
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("MaxPool", max_pool),
    ("AveragePool", average_pool),
    ("LpPool", lp_pool),
    ("GlobalAveragePool", |node| global(node, "mean")),
    ("GlobalMaxPool", |node| global(node, "max")),
];

fn window(node: &mut Node, x: V) -> Done<Windows> {
    let space = node.dims(x).get(2..).map(<[Dim]>::to_vec).unwrap_or_default();
    let kernel = node.ints("kernel_shape").unwrap_or_default();
    windows(node, &space, kernel.into_iter().map(Dim::Int).collect())
}

/// One of the pools of the language, over one or two spatial dims.
pub(crate) fn pooled(
    node: &mut Builder,
    family: &str,
    x: V,
    windows: &Windows,
    flags: &[Arg],
) -> Done<V> {
    if windows.pads.iter().any(|pad| pad.as_int().is_none()) {
        return pooled_open(node, family, x, windows, flags);
    }
    let count = windows.strides.len();
    let mut args = vec![
        x.into(),
        key("pool_size", windows.kernel.clone()),
        key("strides", windows.strides.as_slice()),
        key("padding", windows.pads.clone()),
        key("dilation", windows.dilations.as_slice()),
    ];
    args.extend_from_slice(flags);
    match count {
        1 | 2 => node.call(&format!("{family}{count}d"), &args),
        3 => pooled_in_space(node, family, x, windows, flags),
        _ => unsupported(format!("data of rank {}", count + 2)),
    }
}

/// Windows whose padding is symbolic: around x before it is pooled. Where padding does not count, averages are divided
/// by those of ones.
fn pooled_open(
    node: &mut Builder,
    family: &str,
    x: V,
    windows: &Windows,
    flags: &[Arg],
) -> Done<V> {
    let dtype = node.dtype(x);
    if !dtype.is_float() {
        return unsupported("integers within symbolic padding");
    }
    let mut free = windows.clone();
    if family == "max_pool" {
        let least = node.scalar(dtype, f64::NEG_INFINITY);
        let x = padded(node, x, &mut free, least)?;
        return pooled(node, family, x, &free, flags);
    }
    let counts = |arg: &Arg| matches!(arg, Arg::Key("count_include_pad", arg) if matches!(**arg, Arg::Bool(true)));
    let zero = node.scalar(dtype, 0.0);
    let inner = padded(node, x, &mut free, zero)?;
    let sums = pooled(node, family, inner, &free, flags)?;
    if flags.iter().any(counts) {
        return Ok(sums);
    }
    let ones = node.call("ones_like", &[x.into()])?;
    let ones = padded(node, ones, &mut windows.clone(), zero)?;
    let shares = pooled(node, family, ones, &free, flags)?;
    node.call("divide", &[sums.into(), shares.into()])
}

fn pooled_in_space(node: &mut Builder, family: &str, x: V, w: &Windows, flags: &[Arg]) -> Done<V> {
    let dims = node.dims(x);
    let part = |axes: std::ops::Range<usize>| {
        let pads = axes.clone().map(|axis| w.pads[axis].clone());
        let after = axes.clone().map(|axis| w.pads[axis + 3].clone());
        Windows {
            kernel: w.kernel[axes.clone()].to_vec(),
            strides: w.strides[axes.clone()].to_vec(),
            dilations: w.dilations[axes.clone()].to_vec(),
            pads: pads.chain(after).collect(),
        }
    };
    let outer = Dim::product(&dims[..3]);
    let flat = reshape(node, x, vec![outer, Dim::Int(1), dims[3].clone(), dims[4].clone()])?;
    let flat = pooled(node, family, flat, &part(1..3), flags)?;
    let (h, v) = (node.dims(flat)[2].clone(), node.dims(flat)[3].clone());
    let plane = Dim::product([&h, &v]);
    let channels = Dim::product(&dims[..2]);
    let column = reshape(node, flat, vec![channels, dims[2].clone(), plane])?;
    let column = node.call("permute_dims", &[column.into(), key("axes", vec![0, 2, 1])])?;
    let column = pooled(node, family, column, &part(0..1), flags)?;
    let column = node.call("permute_dims", &[column.into(), key("axes", vec![0, 2, 1])])?;
    let depth = node.dims(column)[1].clone();
    reshape(node, column, vec![dims[0].clone(), dims[1].clone(), depth, h, v])
}

fn max_pool(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    if node.has_output(1) {
        return unsupported("the places of the maxima");
    }
    let windows = window(node, x)?;
    let flags = ceil_flag(node);
    Ok(vec![pooled(node, "max_pool", x, &windows, &flags)?])
}

fn ceil_flag(node: &Node) -> Vec<Arg> {
    if node.int("ceil_mode", 0) == 0 { Vec::new() } else { vec![key("ceil_mode", true)] }
}

fn average_pool(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let windows = window(node, x)?;
    let mut flags = ceil_flag(node);
    flags.push(key("count_include_pad", node.int("count_include_pad", 0) != 0));
    Ok(vec![pooled(node, "avg_pool", x, &windows, &flags)?])
}

/// `sum(|x|^p)^(1/p)` over each window.
fn lp_pool(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let p = node.int("p", 2) as f64;
    let windows = window(node, x)?;
    let size = windows.kernel.iter().try_fold(1_i64, |size, dim| size.checked_mul(dim.as_int()?));
    let size = size.ok_or_else(|| Reason::Unsupported("a symbolic kernel".to_owned()))?;
    let own = node.dtype(x);
    let wide = super::elementwise::convert(node, x, DType::F64)?;
    let exponent = |value: f64| Arg::Scalar(DType::F64, Number::Float(value));
    let sizes = node.call("abs", &[wide.into()])?;
    let powers = node.call("power", &[sizes.into(), exponent(p)])?;
    if node.int("ceil_mode", 0) != 0 {
        return unsupported("ceil_mode");
    }
    let flags = [key("count_include_pad", true)];
    let averages = pooled(node, "avg_pool", powers, &windows, &flags)?;
    let sums = scaled(node, averages, size as f64)?;
    let roots = node.call("power", &[sums.into(), exponent(1.0 / p)])?;
    Ok(vec![super::elementwise::convert(node, roots, own)?])
}

fn global(node: &mut Node, operator: &str) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let axes: Vec<i64> = (2..node.rank(x) as i64).collect();
    Ok(vec![node.call(operator, &[x.into(), key("axis", axes), key("keepdims", true)])?])
}
