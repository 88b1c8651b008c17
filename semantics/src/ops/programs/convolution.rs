//! Convolution and its adjoint: for every element of the result a sum over input channels and window.
//! What a window sees of the padding is a zero, which is multiplied, too.

use super::Request;
use super::builder::{Buffer, Builder};
use super::pooling::{Layout, Window};
use super::reduction::{stored, summed, total};
use crate::formula::{Scalar, select};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

/// The letters of data and kernel in canonical order, by the number of spatial dims.
const KERNEL: [&str; 3] = ["OI", "OIW", "OIHW"];

/// `conv1d` and `conv2d`
pub(in crate::ops) fn forward(request: &Request) -> Option<Builder> {
    convolution(request, false)
}

/// `conv1d_transpose` and `conv2d_transpose`
pub(in crate::ops) fn transposed(request: &Request) -> Option<Builder> {
    convolution(request, true)
}

/// What a call computes.
struct Problem {
    data: Buffer,
    kernel: Buffer,
    layouts: [Layout; 3],
    window: Window,
    groups: i64,
    is_transposed: bool,
}

fn convolution(request: &Request, is_transposed: bool) -> Option<Builder> {
    let spatial = request.data()?.rank().checked_sub(2)?;
    let mut builder = Builder::new(request);
    let (data, kernel, output) =
        (builder.input("data")?, builder.input("weight")?, builder.output());
    if !data.dtype.is_float() && output.dtype.is_float() {
        return None;
    }
    let data_layout = Layout::data(request.str("data_layout")?, spatial)?;
    let out_layout = match request.is_none("out_layout") {
        true => data_layout.clone(),
        false => Layout::data(request.str("out_layout")?, spatial)?,
    };
    let kernel_layout = Layout::parse(KERNEL.get(spatial)?, request.str("kernel_layout")?)?;
    let problem = Problem {
        layouts: [data_layout, kernel_layout, out_layout],
        window: Window::of(request, spatial)?,
        groups: request.int("groups")?,
        data,
        kernel,
        is_transposed,
    };
    let dtype = problem.data.dtype;
    let total = total(&mut builder, &output, dtype);
    let inner = problem.inner();
    builder.nest(&output.dims, |builder, at| {
        let at_canonical = problem.layouts[2].canonical(at);
        summed(builder, &total, at, &inner, |along| {
            problem.term(&at_canonical, along, dtype, total.dtype)
        });
        stored(builder, &output, at, &total, total.value(at));
    });
    Some(builder)
}

impl Problem {
    /// Channels and window that a sum is over.
    fn inner(&self) -> Vec<Dim> {
        let mut dims = self.layouts[1].canonical(&self.kernel.dims)[1..].to_vec();
        if self.is_transposed {
            dims[0] = over(&dims[0], self.groups);
        }
        dims
    }

    fn term(&self, at: &[Scalar], along: &[Scalar], from: DType, wide: DType) -> Scalar {
        let [data_layout, kernel_layout, _] = &self.layouts;
        let data_dims = data_layout.canonical(&self.data.dims);
        let kernel_dims = kernel_layout.canonical(&self.kernel.dims);
        let (output, channel) = (&at[1], &along[0]);
        // Output channels of a group, and which group this one is in.
        let each = match self.is_transposed {
            true => Scalar::from(&kernel_dims[0]),
            false => Scalar::from(&over(&kernel_dims[0], self.groups)),
        };
        let grouped = self.groups != 1;
        let inputs = match self.is_transposed {
            true => Scalar::from(&over(&kernel_dims[1], self.groups)),
            false => Scalar::from(&kernel_dims[1]),
        };
        let of_data = match grouped {
            true => output.clone().floor_div(each.clone()) * inputs + channel,
            false => channel.clone(),
        };
        let (mut inside, mut place) = (Scalar::from(true), vec![at[0].clone(), of_data.clone()]);
        for (axis, (tap, dim)) in along[1..].iter().zip(&data_dims[2..]).enumerate() {
            let index = self.tapped(axis, &at[axis + 2], tap, &mut inside);
            if self.is_transposed || !self.window.stays_inside(axis) {
                inside = inside.and(index.at_least(0)).and(index.less(dim));
            }
            place.push(index);
        }
        let mut own = match (self.is_transposed, grouped) {
            (true, true) => vec![output.clone() % each, of_data],
            _ => vec![output.clone(), channel.clone()],
        };
        own.extend_from_slice(&along[1..]);
        let x = self.data.at(&data_layout.arranged(&place)).cast(from, wide);
        let zero = if wide.is_float() { Scalar::from(0.0) } else { 0.into() };
        let weight = self.kernel.at(&kernel_layout.arranged(&own)).cast(from, wide);
        select(inside, x, zero) * weight
    }

    /// What an element of a window sees; transposed, the data is spread by the stride.
    fn tapped(&self, axis: usize, at: &Scalar, tap: &Scalar, inside: &mut Scalar) -> Scalar {
        let window = &self.window;
        let step = tap.clone() * window.dilation[axis];
        if !self.is_transposed {
            return at.clone() * window.strides[axis] - window.before[axis] + step;
        }
        let spread = at.clone() + window.before[axis] - step;
        let stride = window.strides[axis];
        if stride != 1 {
            *inside = inside.clone().and((spread.clone() % stride).equals(0));
        }
        spread.floor_div(stride)
    }
}

fn over(dim: &Dim, groups: i64) -> Dim {
    if groups == 1 { dim.clone() } else { Dim::op(DimOp::FloorDiv, dim.clone(), Dim::Int(groups)) }
}
