//! Elements written where elements say. Writes go in row-major order, each with what is there before it: no loop of them is
//! parallel, as two may meet.

use super::Request;
use super::builder::{Buffer, Builder};
use super::indexing::{Broadcasted, Negative, Tuples};
use super::movement::{broadcast_index, with};
use super::total::wide;
use crate::formula::{Scalar, extremum};
use relax_syntax::ir::tensor::BinOp;

/// The result while it is written: the data, in f64 where what is written is combined and rounded once.
struct Written {
    state: Buffer,
    output: Buffer,
    reduction: String,
}

impl Written {
    fn new(builder: &mut Builder, data: &Buffer, reduction: &str) -> Self {
        let (output, reduction) = (builder.output(), reduction.to_owned());
        let is_rounded = matches!(&*reduction, "add" | "mul" | "mean");
        let dtype = if is_rounded { wide(output.dtype) } else { output.dtype };
        let state = if dtype == output.dtype {
            output.clone()
        } else {
            builder.allocate("T", &output.dims, dtype)
        };
        builder.fill(&state, |at| data.at(at).cast(data.dtype, dtype));
        Self { state, output, reduction }
    }

    /// Writes a value of the dtype of the data.
    fn write(&self, builder: &mut Builder, at: &[Scalar], value: Scalar) {
        let value = value.cast(self.output.dtype, self.state.dtype);
        let there = self.state.at(at);
        match &*self.reduction {
            "add" => builder.update(&self.state, at, BinOp::Add, value),
            "mul" => builder.update(&self.state, at, BinOp::Mul, value),
            "mean" => builder.store(&self.state, at, (there + value) / 2.0),
            "max" | "min" => {
                let op = if self.reduction == "max" { BinOp::Max } else { BinOp::Min };
                let (there, value) = (builder.bind(there), builder.bind(value));
                let kept = extremum(op, self.output.dtype, &there, &value);
                builder.store(&self.state, at, kept);
            }
            _ => builder.store(&self.state, at, value),
        }
    }

    fn finish(self, mut builder: Builder) -> Builder {
        let Self { state, output, .. } = self;
        if state.dtype != output.dtype {
            builder.fill(&output, |at| state.at(at).cast(state.dtype, output.dtype));
        }
        builder
    }
}

/// `scatter_elements`: each update goes to its own place, with the element along the axis.
pub(in crate::ops) fn scatter_elements(request: &Request) -> Option<Builder> {
    let axis = request.axis("axis", request.data()?.rank())?;
    let mut builder = Builder::new(request);
    let (data, indices) = (builder.input("data")?, builder.input("indices")?);
    let updates = builder.input("updates")?;
    let written = Written::new(&mut builder, &data, request.str("reduction")?);
    builder.nest(&indices.dims, |builder, at| {
        let extent = Scalar::from(&data.dims[axis]);
        let element = (indices.at(at), indices.dtype);
        Negative::FromEnd.check(builder, "scatter_elements/C4", &extent, element.clone());
        let index = Negative::FromEnd.resolved(builder, &extent, element);
        written.write(builder, &with(at, axis, index), updates.at(at));
    });
    Some(written.finish(builder))
}

/// `scatter_nd`: slices go to where the tuples of indices say.
pub(in crate::ops) fn scatter_nd(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (data, indices) = (builder.input("data")?, builder.input("indices")?);
    let updates = builder.input("updates")?;
    let tuples = Tuples::of(indices, 0, "scatter_nd/C4")?;
    tuples.check(&mut builder, &data);
    let written = Written::new(&mut builder, &data, request.str("reduction")?);
    let lead = tuples.lead().len();
    builder.nest(&updates.dims, |builder, at| {
        let place = tuples.place(builder, &data, &at[..lead], &at[lead..]);
        written.write(builder, &place, updates.at(at));
    });
    Some(written.finish(builder))
}

/// `index_put`: values go to where the index tensors say together.
pub(in crate::ops) fn index_put(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (data, values) = (builder.input("data")?, builder.input("values")?);
    let indices = Broadcasted::of(builder.list("indices"), "index_put/C4")?;
    indices.check(&mut builder, &data)?;
    let reduction = if request.bool("accumulate")? { "add" } else { "update" };
    let written = Written::new(&mut builder, &data, reduction);
    let lead = indices.dims.len();
    let count = data.rank() - (builder.list("indices").len());
    let place = [&indices.dims, &data.dims[data.rank() - count..]].concat();
    let mut known = true;
    builder.nest(&place, |builder, at| {
        let to = indices.place(builder, &data, &at[..lead], &at[lead..]);
        match to.zip(broadcast_index(&values.dims, &place, at)) {
            Some((to, from)) => written.write(builder, &to, values.at(&from)),
            None => known = false,
        }
    });
    known.then(|| written.finish(builder))
}
