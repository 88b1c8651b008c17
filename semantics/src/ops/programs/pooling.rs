//! Windows over data, and what pooling makes of them.

use super::Request;
use super::builder::{Buffer, Builder};
use super::creation::number;
use super::reduction::{summed, truncated};
use super::total::Total;
use crate::formula::{Scalar, extremum, select};
use crate::ops::Known;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::BinOp;

/// The letters of data in canonical order, by the number of spatial dims.
const DATA: [&str; 3] = ["NC", "NCW", "NCHW"];

/// The order of a tensor's dims as a string of letters, such as `NHWC`.
#[derive(Clone)]
pub(super) struct Layout {
    /// Where each dim of the canonical order stands.
    places: Vec<usize>,
}

impl Layout {
    pub(super) fn parse(canonical: &str, text: &str) -> Option<Self> {
        Some(Self {
            places: canonical.chars().map(|letter| text.find(letter)).collect::<Option<_>>()?,
        })
    }

    pub(super) fn data(text: &str, spatial: usize) -> Option<Self> {
        Self::parse(DATA.get(spatial)?, text)
    }

    /// From this order to the canonical one.
    pub(super) fn canonical<T: Clone>(&self, items: &[T]) -> Vec<T> {
        self.places.iter().map(|&place| items[place].clone()).collect()
    }

    /// From the canonical order to this one.
    pub(super) fn arranged<T: Clone>(&self, canonical: &[T]) -> Vec<T> {
        let mut items = canonical.to_vec();
        for (item, &place) in canonical.iter().zip(&self.places) {
            items[place] = item.clone();
        }
        items
    }
}

/// The attributes `strides`, `padding` and `dilation`, one entry a spatial dim.
pub(super) struct Window {
    pub(super) strides: Vec<i64>,
    pub(super) before: Vec<i64>,
    pub(super) after: Vec<i64>,
    pub(super) dilation: Vec<i64>,
}

/// A list with an entry for each of `spatial` dims; one entry stands for all.
fn for_each_dim(list: &[i64], spatial: usize) -> Option<Vec<i64>> {
    match list {
        [one] => Some(vec![*one; spatial]),
        list => (list.len() == spatial).then(|| list.to_vec()),
    }
}

/// Beyond that, arithmetic on places could leave i64.
const FAR: i64 = 1 << 31;

impl Window {
    pub(super) fn of(request: &Request, spatial: usize) -> Option<Self> {
        let padding = request.ints("padding")?;
        let sides = match padding.len() == 2 * spatial {
            true => [padding[..spatial].to_vec(), padding[spatial..].to_vec()],
            false => [for_each_dim(&padding, spatial)?, for_each_dim(&padding, spatial)?],
        };
        let [before, after] = sides;
        let strides = for_each_dim(&request.ints("strides")?, spatial)?;
        let dilation = for_each_dim(&request.ints("dilation")?, spatial)?;
        let all = [&strides, &before, &after, &dilation];
        let near = all.iter().all(|list| list.iter().all(|&entry| entry < FAR));
        near.then_some(Self { strides, before, after, dilation })
    }

    /// Whether windows see no padding (and do not stick out: nothing beyond the end either).
    pub(super) fn stays_inside(&self, axis: usize) -> bool {
        self.before[axis] == 0 && self.after[axis] == 0
    }

    fn index(&self, axis: usize, at: &Scalar, tap: &Scalar) -> Scalar {
        at.clone() * self.strides[axis] - self.before[axis] + tap.clone() * self.dilation[axis]
    }

    /// How many elements of a window see an index below `end`.
    fn below(&self, axis: usize, at: &Scalar, end: Scalar, size: i64) -> Scalar {
        let room = end - (at.clone() * self.strides[axis] - self.before[axis]);
        room.ceil_div(self.dilation[axis]).clamped(0, size)
    }
}

/// Pooling of a call.
struct Pool {
    data: Buffer,
    layouts: [Layout; 2],
    window: Window,
    sizes: Vec<i64>,
}

impl Pool {
    fn of(request: &Request, builder: &Builder) -> Option<Self> {
        let data = builder.input("data")?;
        let spatial = data.rank().checked_sub(2)?;
        let sizes = for_each_dim(&request.ints("pool_size")?, spatial)?;
        if sizes.iter().any(|&size| size >= FAR) {
            return None;
        }
        let window = Window::of(request, spatial)?;
        Some(Self { layouts: layouts(request, spatial)?, window, sizes, data })
    }

    /// The element that a window sees, and whether there is one.
    fn seen(&self, at: &[Scalar], taps: &[Scalar]) -> (Scalar, Scalar) {
        let dims = self.layouts[0].canonical(&self.data.dims);
        let at = self.layouts[1].canonical(at);
        let (mut inside, mut place) = (Scalar::from(true), at[..2].to_vec());
        for (axis, tap) in taps.iter().enumerate() {
            let index = self.window.index(axis, &at[axis + 2], tap);
            inside = inside.and(index.at_least(0)).and(index.less(&dims[axis + 2]));
            place.push(index);
        }
        (self.data.at(&self.layouts[0].arranged(&place)), inside)
    }

    fn taps(&self) -> Vec<Dim> {
        self.sizes.iter().copied().map(Dim::Int).collect()
    }

    /// How many elements a window averages, at least 1.
    fn count(&self, at: &[Scalar], with_padding: bool) -> Scalar {
        let dims = self.layouts[0].canonical(&self.data.dims);
        let at = self.layouts[1].canonical(at);
        let along = (0..self.sizes.len()).map(|axis| {
            let below = |end| self.window.below(axis, &at[axis + 2], end, self.sizes[axis]);
            let end = Scalar::from(&dims[axis + 2]);
            if with_padding {
                return below(end + self.window.after[axis]);
            }
            let all = below(end);
            if self.window.before[axis] == 0 { all } else { all - below(0.into()) }
        });
        along.reduce(|a, b| a * b).unwrap_or(1.into()).max(1)
    }
}

fn layouts(request: &Request, spatial: usize) -> Option<[Layout; 2]> {
    let layout = Layout::data(request.str("layout")?, spatial)?;
    let out = match request.is_none("out_layout") {
        true => layout.clone(),
        false => Layout::data(request.str("out_layout")?, spatial)?,
    };
    Some([layout, out])
}

/// The least value of a dtype.
fn least(dtype: DType) -> Option<Scalar> {
    let bits = dtype.size() * 8;
    Some(match dtype.class() {
        Class::Float => f64::NEG_INFINITY.into(),
        // One more than the least integer, less one: its own size is no literal.
        Class::Signed if bits == 64 => Scalar::from(-i64::MAX) - 1,
        Class::Signed => Scalar::from(-(1i64 << (bits - 1))),
        Class::Unsigned => 0.into(),
        Class::Bool => number(dtype, &Known::Bool(false))?,
    })
}

/// `max_pool1d` and `max_pool2d`: a window over nothing is the least value.
pub(in crate::ops) fn maximum(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (pool, output) = (Pool::of(request, &builder)?, builder.output());
    let least = least(output.dtype)?;
    builder.nest(&output.dims, |builder, at| {
        builder.store(&output, at, least);
        builder.nest(&pool.taps(), |builder, taps| {
            let (element, inside) = pool.seen(at, taps);
            builder.when(inside, |builder| {
                let most = extremum(BinOp::Max, output.dtype, &output.at(at), &element);
                builder.store(&output, at, most);
            });
        });
    });
    Some(builder)
}

/// Sums of elements of a dtype: of integers in i64, if that holds them.
fn average_total(builder: &mut Builder, output: &Buffer) -> Option<Total> {
    let dtype = match output.dtype {
        DType::I64 | DType::U64 | DType::Bool => return None,
        dtype if dtype.is_float() => dtype,
        _ => DType::I64,
    };
    Some(Total::new(builder, "T", &output.dims, dtype))
}

fn averaged(builder: &mut Builder, output: &Buffer, at: &[Scalar], total: &Total, count: Scalar) {
    let sum = builder.bind(total.value(at));
    let average = match output.dtype.is_float() {
        true => sum / count.into_dtype(DType::F64),
        false => truncated(sum, count),
    };
    builder.store(output, at, average.cast(total.dtype, output.dtype));
}

/// `avg_pool1d` and `avg_pool2d`
pub(in crate::ops) fn average(request: &Request) -> Option<Builder> {
    let with_padding = request.bool("count_include_pad")?;
    let mut builder = Builder::new(request);
    let (pool, output) = (Pool::of(request, &builder)?, builder.output());
    let total = average_total(&mut builder, &output)?;
    builder.nest(&output.dims, |builder, at| {
        summed(builder, &total, at, &pool.taps(), |taps| {
            let (element, inside) = pool.seen(at, taps);
            let zero = if total.dtype.is_float() { Scalar::from(0.0) } else { 0.into() };
            select(inside, element.cast(output.dtype, total.dtype), zero)
        });
        averaged(builder, &output, at, &total, pool.count(at, with_padding));
    });
    Some(builder)
}

/// `adaptive_avg_pool2d`: window `i` of `m` goes from `i * n // m` to `ceildiv((i + 1) * n, m)`.
pub(in crate::ops) fn adaptive(request: &Request) -> Option<Builder> {
    let layouts = layouts(request, 2)?;
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let total = average_total(&mut builder, &output)?;
    let dims = [layouts[0].canonical(&data.dims), layouts[1].canonical(&output.dims)];
    builder.nest(&output.dims, |builder, at| {
        let at_canonical = layouts[1].canonical(at);
        let bounds = |axis: usize| {
            let (n, m) = (&dims[0][axis], &dims[1][axis]);
            let index = &at_canonical[axis];
            let start = (index.clone() * n).floor_div(m);
            (start, ((index.clone() + 1) * n).ceil_div(m))
        };
        let ranges = [bounds(2), bounds(3)];
        total.clear(builder, at);
        builder.ranges(&ranges, |builder, along| {
            let place = [&at_canonical[..2], along].concat();
            let element = data.at(&layouts[0].arranged(&place));
            total.add(builder, at, element.cast(data.dtype, total.dtype));
        });
        let sizes = ranges.map(|(start, stop)| stop - start);
        let count = sizes.into_iter().reduce(|a, b| a * b).unwrap_or(1.into());
        averaged(builder, &output, at, &total, count);
    });
    Some(builder)
}
