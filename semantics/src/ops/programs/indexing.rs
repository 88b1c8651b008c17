//! Elements found by elements. One that is out of range stops the program with the code of the operator's
//! constraint.

use super::Request;
use super::builder::{Buffer, Builder};
use super::creation::number;
use super::movement::{broadcast_index, flat, with};
use super::ranking::{Order, is_before, is_equal};
use super::total::Total;
use crate::formula::{Scalar, select};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// What a negative index means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Negative {
    /// It is out of range.
    Refused,
    /// It counts from the end.
    FromEnd,
}

impl Negative {
    /// Stops the program where an element is no index of an axis.
    pub(super) fn check(
        self,
        builder: &mut Builder,
        trap: &str,
        extent: &Scalar,
        (element, dtype): (Scalar, DType),
    ) {
        let element = builder.bind(element);
        let index = element.clone().cast(dtype, DType::I64);
        // Of an unsigned dtype what is beyond i64 is negative in it.
        let low = if self == Negative::FromEnd && dtype != DType::U64 {
            -extent.clone()
        } else {
            0.into()
        };
        let inside = index.at_least(low).and(index.less(extent));
        let extent = (extent.clone(), DType::I64);
        let (message, values) = match self {
            Negative::Refused => (OUT_OF_RANGE, vec![extent, (element, dtype)]),
            Negative::FromEnd => (OUT_OF_BOTH, vec![extent.clone(), extent, (element, dtype)]),
        };
        builder.check_elements(&inside, trap, message, &values);
    }

    /// An element that was checked, as an index from the front.
    pub(super) fn resolved(
        self,
        builder: &mut Builder,
        extent: &Scalar,
        (element, dtype): (Scalar, DType),
    ) -> Scalar {
        let index = builder.bind(element.cast(dtype, DType::I64));
        match self {
            Negative::Refused => index,
            Negative::FromEnd => {
                builder.bind(select(index.less(0), index.clone() + extent, &index))
            }
        }
    }
}

/// What operators say of an index out of range.
const OUT_OF_RANGE: &str = "an index must satisfy 0 <= index < {}, found {}";
/// The same where a negative one counts from the end.
const OUT_OF_BOTH: &str = "an index must satisfy -{} <= index < {}, found {}";

/// `take`: indices are checked before anything is taken, as an empty result has some to check, too.
pub(in crate::ops) fn take(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    let axis = if request.is_none("axis") { 0 } else { request.axis("axis", x.rank())? };
    let mode = request.str("mode")?;
    let extent = x.dims[axis].as_int();
    let is_total = match mode {
        "clip" | "wrap" => extent.is_some_and(|extent| extent > 0),
        "nan" => true,
        _ => extent.is_some_and(|extent| {
            request.lies_in("indices", |low, high| 0 <= low && high < i128::from(extent))
        }),
    };
    let mut builder = Builder::new(request);
    let (x, indices, output) = (builder.input("x")?, builder.input("indices")?, builder.output());
    if !is_total {
        builder.nest(&indices.dims, |builder, at| {
            let (extent, element) = (Scalar::from(&x.dims[axis]), indices.at(at));
            let (inside, found) = match mode {
                "clip" => (extent.greater(0), (0.into(), DType::I64)),
                "wrap" => (extent.greater(0), (builder.bind(element), indices.dtype)),
                _ => {
                    let element = (element, indices.dtype);
                    return Negative::Refused.check(builder, "take/C4", &extent, element);
                }
            };
            builder.check_elements(
                &inside,
                "take/C4",
                OUT_OF_RANGE,
                &[(extent, DType::I64), found],
            );
        });
    }
    builder.nest(&output.dims, |builder, at| {
        let dim = Scalar::from(&x.dims[axis]);
        let own = &at[axis..axis + indices.rank()];
        let index = match mode {
            "clip" => indices.limited(own, dim - 1),
            "wrap" if indices.dtype == DType::U64 => {
                (indices.at(own) % dim.into_dtype(DType::U64)).into_dtype(DType::I64)
            }
            // One beyond i64 is negative afterwards, and out of range as before.
            _ => indices.at(own).cast(indices.dtype, DType::I64),
        };
        let index = builder.bind(if mode == "wrap" { index % &x.dims[axis] } else { index });
        let mut source = at[..axis].to_vec();
        source.push(index.clone());
        source.extend_from_slice(&at[axis + indices.rank()..]);
        let value = x.at(&source);
        // Written so that equal programs are equal values, which a literal NaN is not.
        let nan = Scalar::from(f64::INFINITY) - f64::INFINITY;
        let inside = index.at_least(0).and(index.less(&x.dims[axis]));
        let value = if mode == "nan" { select(inside, value, nan) } else { value };
        builder.store(&output, at, value);
    });
    Some(builder)
}

/// `one_hot`: an element that is no index of the new axis meets none.
pub(in crate::ops) fn one_hot(request: &Request) -> Option<Builder> {
    let out = request.out();
    let axis = request.axis("axis", out.rank())?;
    let mut builder = Builder::new(request);
    let (indices, output) = (builder.input("indices")?, builder.output());
    let choice = |param: &str| match builder.input(param) {
        Some(tensor) => Some(tensor.at(&[])),
        None => number(out.dtype, request.attrs.get(param)?),
    };
    let (on, off) = (choice("on_value")?, choice("off_value")?);
    builder.fill(&output, |at| {
        let mut own = at.to_vec();
        let index = own.remove(axis);
        select(indices.at(&own).cast(indices.dtype, DType::I64).equals(index), on, off)
    });
    Some(builder)
}

/// `bucketize`: how many boundaries come before each element.
pub(in crate::ops) fn bucketize(request: &Request) -> Option<Builder> {
    let right = request.bool("right")?;
    let mut builder = Builder::new(request);
    let (input, bounds) = (builder.input("input_tensor")?, builder.input("boundaries")?);
    let output = builder.output();
    builder.nest(&output.dims, |builder, at| {
        builder.store(&output, at, 0);
        builder.nest(&bounds.dims, |builder, bound| {
            let (a, b) = (bounds.at(bound), input.at(at));
            let before = is_before(input.dtype, Order::Ascending, &a, &b);
            let counts = if right { before.or(is_equal(input.dtype, &a, &b)) } else { before };
            builder.update(&output, at, BinOp::Add, select(counts, 1, 0));
        });
    });
    Some(builder)
}

/// `gather_elements`: the index of the result, with the element along the axis.
pub(in crate::ops) fn gather_elements(request: &Request) -> Option<Builder> {
    let axis = request.axis("axis", request.data()?.rank())?;
    let mut builder = Builder::new(request);
    let (data, indices) = (builder.input("data")?, builder.input("indices")?);
    let output = builder.output();
    builder.nest(&output.dims, |builder, at| {
        let extent = Scalar::from(&data.dims[axis]);
        let element = (indices.at(at), indices.dtype);
        Negative::Refused.check(builder, "gather_elements/C4", &extent, element.clone());
        let index = Negative::Refused.resolved(builder, &extent, element);
        builder.store(&output, at, data.at(&with(at, axis, index)));
    });
    Some(builder)
}

/// The index tuples in the last dim of a tensor: for the leading dims of the data after the first `batch`.
pub(super) struct Tuples {
    indices: Buffer,
    batch: usize,
    count: usize,
    trap: &'static str,
}

impl Tuples {
    /// Of tuples whose length is a literal.
    pub(super) fn of(indices: Buffer, batch: usize, trap: &'static str) -> Option<Self> {
        let count = usize::try_from(indices.dims.last()?.as_int()?).ok()?;
        Some(Self { indices, batch, count, trap })
    }

    /// One tuple for each index of these.
    pub(super) fn lead(&self) -> &[Dim] {
        &self.indices.dims[..self.indices.rank() - 1]
    }

    fn element(&self, lead: &[Scalar], place: usize) -> (Scalar, DType) {
        let place = i64::try_from(place).expect("invariant: less than a rank");
        (self.indices.at(&[lead, &[place.into()]].concat()), self.indices.dtype)
    }

    /// All are checked before anything is moved: where nothing is, too.
    pub(super) fn check(&self, builder: &mut Builder, data: &Buffer) {
        if self.count == 0 {
            return;
        }
        builder.nest(self.lead(), |builder, lead| {
            for place in 0..self.count {
                let extent = Scalar::from(&data.dims[self.batch + place]);
                let element = self.element(lead, place);
                Negative::Refused.check(builder, self.trap, &extent, element);
            }
        });
    }

    /// The index into the data for a tuple, and an index into the dims that it leaves.
    pub(super) fn place(
        &self,
        builder: &mut Builder,
        data: &Buffer,
        lead: &[Scalar],
        rest: &[Scalar],
    ) -> Vec<Scalar> {
        let mut place = lead[..self.batch].to_vec();
        for at in 0..self.count {
            let extent = Scalar::from(&data.dims[self.batch + at]);
            let element = self.element(lead, at);
            place.push(Negative::Refused.resolved(builder, &extent, element));
        }
        place.extend_from_slice(rest);
        place
    }
}

/// `gather_nd`: what each tuple of indices means.
pub(in crate::ops) fn gather_nd(request: &Request) -> Option<Builder> {
    let batch = usize::try_from(request.int("batch_dims")?).ok()?;
    let mut builder = Builder::new(request);
    let (data, indices) = (builder.input("data")?, builder.input("indices")?);
    let output = builder.output();
    let tuples = Tuples::of(indices, batch, "gather_nd/C5")?;
    tuples.check(&mut builder, &data);
    let lead = tuples.lead().len();
    builder.nest(&output.dims, |builder, at| {
        let place = tuples.place(builder, &data, &at[..lead], &at[lead..]);
        builder.store(&output, at, data.at(&place));
    });
    Some(builder)
}

/// Index tensors that broadcast against each other, one for each leading dim of the data.
pub(super) struct Broadcasted {
    indices: Vec<Buffer>,
    /// The dims that they broadcast to.
    pub(super) dims: Vec<Dim>,
    trap: &'static str,
}

impl Broadcasted {
    /// `None` where only the run knows which dims they broadcast to.
    pub(super) fn of(indices: Vec<Buffer>, trap: &'static str) -> Option<Self> {
        let rank = indices.iter().map(Buffer::rank).max()?;
        let mut dims = vec![Dim::Int(1); rank];
        for index in &indices {
            for (wide, dim) in dims[rank - index.rank()..].iter_mut().zip(&index.dims) {
                if *wide == Dim::Int(1) {
                    *wide = dim.clone();
                } else if *dim != Dim::Int(1) && dim != wide {
                    return None;
                }
            }
        }
        Some(Self { indices, dims, trap })
    }

    fn element(&self, axis: usize, at: &[Scalar]) -> Option<(Scalar, DType)> {
        let index = &self.indices[axis];
        Some((index.at(&broadcast_index(&index.dims, &self.dims, at)?), index.dtype))
    }

    /// Axis by axis, before anything is moved: where nothing is, too.
    pub(super) fn check(&self, builder: &mut Builder, data: &Buffer) -> Option<()> {
        let mut known = Some(());
        for axis in 0..self.indices.len() {
            let extent = Scalar::from(&data.dims[axis]);
            builder.nest(&self.dims, |builder, at| match self.element(axis, at) {
                Some(element) => Negative::FromEnd.check(builder, self.trap, &extent, element),
                None => known = None,
            });
        }
        known
    }

    /// The index into the data for one of those dims and of the dims that are left.
    pub(super) fn place(
        &self,
        builder: &mut Builder,
        data: &Buffer,
        lead: &[Scalar],
        rest: &[Scalar],
    ) -> Option<Vec<Scalar>> {
        let mut place = Vec::with_capacity(data.rank());
        for axis in 0..self.indices.len() {
            let extent = Scalar::from(&data.dims[axis]);
            let element = self.element(axis, lead)?;
            place.push(Negative::FromEnd.resolved(builder, &extent, element));
        }
        place.extend_from_slice(rest);
        Some(place)
    }
}

/// `index_tensor`: what the index tensors mean together.
pub(in crate::ops) fn index_tensor(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let indices = Broadcasted::of(builder.list("indices"), "index_tensor/C4")?;
    indices.check(&mut builder, &data)?;
    let (lead, mut known) = (indices.dims.len(), true);
    builder.nest(&output.dims, |builder, at| {
        match indices.place(builder, &data, &at[..lead], &at[lead..]) {
            Some(place) => builder.store(&output, at, data.at(&place)),
            None => known = false,
        }
    });
    known.then_some(builder)
}

/// `nll_loss`: targets are checked first, in row-major order; each but the one that is ignored has the negative of its
/// prediction, times its weight.
pub(in crate::ops) fn nll_loss(request: &Request) -> Option<Builder> {
    let (ignored, reduction) = (request.number("ignore_index")?, request.str("reduction")?);
    let mut builder = Builder::new(request);
    let (predictions, targets) = (builder.input("predictions")?, builder.input("targets")?);
    let (weights, output) = (builder.input("weights"), builder.output());
    let axis = usize::from(predictions.rank() > 1);
    let classes = Scalar::from(&predictions.dims[axis]);
    builder.nest(&targets.dims, |builder, at| {
        let target = builder.bind(targets.at(at));
        let class = builder.bind(target.clone().cast(targets.dtype, DType::I64));
        let mut is_ignored = class.equals(&ignored);
        if targets.dtype == DType::U64 {
            is_ignored = class.at_least(0).and(is_ignored);
        }
        let holds = is_ignored.or(class.at_least(0).and(class.less(&classes)));
        let place = (flat(&targets.dims, at), DType::I64);
        let values = [place, (target, targets.dtype), (classes.clone(), DType::I64)];
        let message = "target {} is {}, and there are {} classes";
        builder.check_elements(&holds, "nll_loss/C6", message, &values);
    });
    // The loss and the weight of a target.
    let each = |builder: &mut Builder, at: &[Scalar]| {
        let class = builder.bind(targets.at(at).cast(targets.dtype, DType::I64));
        let is_ignored = class.equals(&ignored);
        let weight = weights.as_ref().map(|weights| weights.wide(std::slice::from_ref(&class)));
        let mut place = at.to_vec();
        place.insert(axis, class);
        let loss = -predictions.wide(&place);
        let loss = match &weight {
            Some(weight) => loss * weight,
            None => loss,
        };
        let one = || Scalar::from(1.0).into_dtype(DType::F64);
        let weight = select(is_ignored.clone(), 0.0, weight.unwrap_or_else(one));
        (select(is_ignored, 0.0, loss), weight)
    };
    if reduction == "none" {
        builder.nest(&output.dims, |builder, at| {
            let (loss, _) = each(builder, at);
            builder.store(&output, at, loss.cast(DType::F64, output.dtype));
        });
        return Some(builder);
    }
    let losses = Total::new(&mut builder, "T", &[], DType::F64);
    let used = (reduction == "mean").then(|| Total::new(&mut builder, "W", &[], DType::F64));
    builder.nest(&[], |builder, one| {
        losses.clear(builder, one);
        used.iter().for_each(|used| used.clear(builder, one));
        builder.nest(&targets.dims, |builder, at| {
            let (loss, weight) = each(builder, at);
            losses.add(builder, one, loss);
            if let Some(used) = &used {
                used.add(builder, one, weight);
            }
        });
        let value = match &used {
            Some(used) => losses.value(one) / used.value(one),
            None => losses.value(one),
        };
        builder.store(&output, one, value.cast(DType::F64, output.dtype));
    });
    Some(builder)
}

/// Whether an element counts as true: NaN does.
fn is_true(x: &Buffer, at: &[Scalar]) -> Scalar {
    match x.dtype {
        DType::Bool => x.at(at),
        dtype if dtype.is_float() => x.at(at).differs(0.0),
        _ => x.at(at).differs(0),
    }
}

/// How many elements `nonzero` finds.
pub(in crate::ops) fn nonzero_count(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    builder.nest(&[], |builder, _| {
        builder.store(&output, &[0.into()], 0);
        builder.nest(&x.dims, |builder, at| {
            let one = select(is_true(&x, at), 1, 0);
            builder.update(&output, &[0.into()], BinOp::Add, one);
        });
    });
    Some(builder)
}

/// `nonzero`: the indices of what is found, in row-major order.
pub(in crate::ops) fn nonzero(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    // Every place gets indices, which only the count knows: so that others see it too, something is written to each before.
    builder.fill(&output, |_| 0.into());
    let found = builder.allocate("N", &[], DType::I64);
    builder.nest(&[], |builder, one| {
        builder.store(&found, one, 0);
        builder.nest(&x.dims, |builder, at| {
            builder.when(is_true(&x, at), |builder| {
                let place = builder.bind(found.at(one));
                // A scalar counts as a vector.
                let index = if at.is_empty() { vec![0.into()] } else { at.to_vec() };
                for (row, index) in (0..).zip(index) {
                    builder.store(&output, &[Scalar::from(row), place.clone()], index);
                }
                builder.update(&found, one, BinOp::Add, 1.into());
            });
        });
    });
    Some(builder)
}
