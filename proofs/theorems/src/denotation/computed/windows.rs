//! Convolution and pooling: what windows over data see. Of a convolution, padding is a zero that is multiplied,
//! too; of a pooling it is left out.

use super::number::Number;
use super::{Op, Tensor};
use crate::denotation::program::{applied, cast, float, integer, state};
use crate::denotation::term::{Known, Term};
use relax_semantics::ops::Known as Value;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::{Claim, Relation};

pub(super) fn element(op: &mut Op, _: usize, at: &[Dim]) -> Option<Known<Term>> {
    let term = match op.row.name {
        "nn.conv1d" | "nn.conv2d" => convolution(op, at, false),
        "nn.conv1d_transpose" | "nn.conv2d_transpose" => convolution(op, at, true),
        "nn.max_pool1d" | "nn.max_pool2d" => greatest(op, at),
        "nn.avg_pool1d" | "nn.avg_pool2d" => average(op, at),
        _ => return None,
    }?;
    Some(Ok(term))
}

fn minus(a: Dim, b: Dim) -> Dim {
    Dim::op(DimOp::Sub, a, b)
}

fn times(a: Dim, b: Dim) -> Dim {
    Dim::op(DimOp::Mul, a, b)
}

/// Where each letter of the canonical order stands.
fn layout(canonical: &str, op: &Op, param: &str, otherwise: &str) -> Option<Vec<usize>> {
    let text = match op.attrs.get(param)? {
        Value::None => op.attrs.get(otherwise)?,
        given => given,
    };
    let Value::Str(text) = text else { return None };
    canonical.chars().map(|letter| text.find(letter)).collect()
}

fn canonical<T: Clone>(places: &[usize], items: &[T]) -> Vec<T> {
    places.iter().map(|&place| items[place].clone()).collect()
}

fn arranged(places: &[usize], items: &[Dim]) -> Vec<Dim> {
    let mut result = items.to_vec();
    for (item, &place) in items.iter().zip(places) {
        result[place] = item.clone();
    }
    result
}

/// Integers, one for each of `count` spatial dims.
fn ints(op: &Op, param: &str, count: usize) -> Option<Vec<i64>> {
    let one =
        |known: &Value| if let Value::Dim(Dim::Int(value)) = known { Some(*value) } else { None };
    let all: Vec<i64> = match op.attrs.get(param)? {
        Value::List(items) => items.iter().map(one).collect::<Option<_>>()?,
        single => vec![one(single)?],
    };
    if all.len() == 1 { Some(vec![all[0]; count]) } else { Some(all) }
}

struct Window {
    strides: Vec<i64>,
    before: Vec<i64>,
    after: Vec<i64>,
    dilation: Vec<i64>,
}

fn window(op: &Op, spatial: usize) -> Option<Window> {
    let padding = ints(op, "padding", spatial)?;
    let (before, after) = if padding.len() == 2 * spatial && spatial > 0 {
        (padding[..spatial].to_vec(), padding[spatial..].to_vec())
    } else {
        (padding.clone(), padding)
    };
    let (strides, dilation) = (ints(op, "strides", spatial)?, ints(op, "dilation", spatial)?);
    Some(Window { strides, before, after, dilation })
}

fn chosen(claims: &[Claim], then: Term, otherwise: &Term) -> Term {
    claims
        .iter()
        .rev()
        .fold(then, |term, claim| Term::choose(claim.clone(), term, otherwise.clone()))
}

const DATA: [&str; 3] = ["NC", "NCW", "NCHW"];
const KERNEL: [&str; 3] = ["OI", "OIW", "OIHW"];

fn over(dim: &Dim, groups: i64) -> Dim {
    Dim::op(DimOp::FloorDiv, dim.clone(), Dim::Int(groups))
}

fn convolution(op: &mut Op, at: &[Dim], transposed: bool) -> Option<Term> {
    let (data, kernel) = (op.tensor("data")?, op.tensor("weight")?);
    let spatial = data.dims.len().checked_sub(2)?;
    let of_data = layout(DATA[spatial], op, "data_layout", "data_layout")?;
    let of_out = layout(DATA[spatial], op, "out_layout", "data_layout")?;
    let of_kernel = layout(KERNEL[spatial], op, "kernel_layout", "kernel_layout")?;
    let (window, groups) = (window(op, spatial)?, *ints(op, "groups", 1)?.first()?);
    let out = op.results[0].1;
    let dtype = if data.dtype.is_float() || out.is_float() { DType::F64 } else { out };
    let (at, dims) = (canonical(&of_out, at), canonical(&of_data, &data.dims));
    let sizes = canonical(&of_kernel, &kernel.dims);
    let mut inner = sizes[1..].to_vec();
    if transposed {
        inner[0] = over(&inner[0], groups);
    }
    let each = if transposed { sizes[0].clone() } else { over(&sizes[0], groups) };
    let inputs = if transposed { over(&sizes[1], groups) } else { sizes[1].clone() };
    let (binders, along) = op.indices(&inner);
    let channel = if groups == 1 {
        along[0].clone()
    } else {
        let group = Dim::op(DimOp::FloorDiv, at[1].clone(), each.clone());
        Dim::op(DimOp::Add, times(group, inputs), along[0].clone())
    };
    let (mut claims, mut place) = (Vec::new(), vec![at[0].clone(), channel.clone()]);
    for axis in 0..spatial {
        let index = tapped(&window, axis, &at[axis + 2], &along[axis + 1], transposed, &mut claims);
        if transposed || window.before[axis] != 0 || window.after[axis] != 0 {
            claims.push(Claim::new(0, Relation::AtMost, index.clone()));
            claims.push(Claim::new(index.clone(), Relation::Less, dims[axis + 2].clone()));
        }
        place.push(index);
    }
    let mut own = match (transposed, groups != 1) {
        (true, true) => vec![Dim::op(DimOp::FloorMod, at[1].clone(), each), channel],
        _ => vec![at[1].clone(), along[0].clone()],
    };
    own.extend_from_slice(&along[1..]);
    let x = cast(data.at(&arranged(&of_data, &place)), data.dtype, dtype);
    let zero = if dtype.is_float() { float(0.0, dtype) } else { integer(0, dtype) };
    let x = Number::new(chosen(&claims, x, &zero), dtype);
    let y = cast(kernel.at(&arranged(&of_kernel, &own)), kernel.dtype, dtype);
    let value = x.mul(&Number::new(y, dtype));
    Some(op.total(data.dtype, &value, &binders)?.to(out).term)
}

/// What an element of a window sees; transposed, the data is spread by the stride.
fn tapped(
    window: &Window,
    axis: usize,
    at: &Dim,
    tap: &Dim,
    transposed: bool,
    claims: &mut Vec<Claim>,
) -> Dim {
    let (stride, before) = (Dim::Int(window.strides[axis]), Dim::Int(window.before[axis]));
    let step = times(tap.clone(), Dim::Int(window.dilation[axis]));
    if !transposed {
        return Dim::op(DimOp::Add, minus(times(at.clone(), stride), before), step);
    }
    let spread = minus(Dim::op(DimOp::Add, at.clone(), before), step);
    if stride != Dim::Int(1) {
        let rest = Dim::op(DimOp::FloorMod, spread.clone(), stride.clone());
        claims.push(Claim::new(rest, Relation::Equal, 0));
    }
    Dim::op(DimOp::FloorDiv, spread, stride)
}

/// What pooling sees: the data, the element at a tap, the claims that there is one, and its window.
struct Pool {
    data: Tensor,
    window: Window,
    sizes: Vec<i64>,
    dims: Vec<Dim>,
    at: Vec<Dim>,
    places: Vec<usize>,
}

fn pool(op: &Op, at: &[Dim]) -> Option<Pool> {
    let data = op.tensor("data")?;
    let spatial = data.dims.len().checked_sub(2)?;
    let places = layout(DATA[spatial], op, "layout", "layout")?;
    let of_out = layout(DATA[spatial], op, "out_layout", "layout")?;
    Some(Pool {
        window: window(op, spatial)?,
        sizes: ints(op, "pool_size", spatial)?,
        dims: canonical(&places, &data.dims),
        at: canonical(&of_out, at),
        data,
        places,
    })
}

impl Pool {
    fn taps(&self) -> Vec<Dim> {
        self.sizes.iter().map(|&size| Dim::Int(size)).collect()
    }

    fn seen(&self, taps: &[Dim]) -> (Term, Vec<Claim>) {
        let (mut claims, mut place) = (Vec::new(), self.at[..2].to_vec());
        for (axis, tap) in taps.iter().enumerate() {
            let index = tapped(&self.window, axis, &self.at[axis + 2], tap, false, &mut Vec::new());
            claims.push(Claim::new(0, Relation::AtMost, index.clone()));
            claims.push(Claim::new(index.clone(), Relation::Less, self.dims[axis + 2].clone()));
            place.push(index);
        }
        (self.data.at(&arranged(&self.places, &place)), claims)
    }

    /// How many elements of a window lie before an end.
    fn below(&self, axis: usize, end: Dim) -> Dim {
        let window = &self.window;
        let first = times(self.at[axis + 2].clone(), Dim::Int(window.strides[axis]));
        let room = minus(end, minus(first, Dim::Int(window.before[axis])));
        let dilation = window.dilation[axis];
        let steps = if dilation == 1 {
            room
        } else {
            let opposite = minus(Dim::Int(0), room);
            minus(Dim::Int(0), Dim::op(DimOp::FloorDiv, opposite, Dim::Int(dilation)))
        };
        let most = Dim::op(DimOp::Min, steps, Dim::Int(self.sizes[axis]));
        Dim::op(DimOp::Max, most, Dim::Int(0))
    }

    fn count(&self, with_padding: bool) -> Dim {
        let each = (0..self.sizes.len()).map(|axis| {
            let end = self.dims[axis + 2].clone();
            if with_padding {
                let end = Dim::op(DimOp::Add, end, Dim::Int(self.window.after[axis]));
                return self.below(axis, end);
            }
            let all = self.below(axis, end);
            if self.window.before[axis] == 0 {
                all
            } else {
                minus(all, self.below(axis, Dim::Int(0)))
            }
        });
        let all = each.reduce(times).unwrap_or(Dim::Int(1));
        Dim::op(DimOp::Max, all, Dim::Int(1))
    }
}

fn least(dtype: DType) -> Term {
    let bits = dtype.size() * 8;
    match dtype.class() {
        Class::Float => float(f64::NEG_INFINITY, dtype),
        Class::Signed if bits == 64 => integer(i64::MIN, dtype),
        Class::Signed => integer(-(1_i64 << (bits - 1)), dtype),
        _ => integer(0, dtype),
    }
}

fn greatest(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let pool = pool(op, at)?;
    let dtype = op.results[0].1;
    let (binders, taps) = op.indices(&pool.taps());
    let (element, claims) = pool.seen(&taps);
    let name = if dtype == DType::Bool { "bitwise_or" } else { "maximum" };
    let more = applied(dtype, name, vec![state(0), element]);
    let step = chosen(&claims, more, &state(0));
    op.iterate(dtype, vec![least(dtype)], vec![step], &binders)
}

fn average(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let pool = pool(op, at)?;
    let out = op.results[0].1;
    let dtype = if out.is_float() { DType::F64 } else { DType::I64 };
    let (binders, taps) = op.indices(&pool.taps());
    let (element, claims) = pool.seen(&taps);
    let zero = if out.is_float() { float(0.0, dtype) } else { integer(0, dtype) };
    let value = chosen(&claims, cast(element, pool.data.dtype, dtype), &zero);
    let from = if out.is_float() { out } else { DType::I64 };
    let sum = op.total(from, &Number::new(value, dtype), &binders)?;
    let count = Number::new(Term::Extent(pool.count(op.flag("count_include_pad"))), DType::I64);
    let value =
        if out.is_float() { sum.div(&count.wide()) } else { super::folds::truncated(&sum, &count) };
    Some(value.to(out).term)
}
