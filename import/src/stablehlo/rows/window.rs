//! `reduce_window`: prefix sums and products where the window is all that comes before, else a value for each place of the
//! window, combined element by element.

use super::super::call::{Call, Row};
use super::super::syntax::{Attribute, Region};
use super::elementwise::applied;
use super::movement::padded;
use super::pattern::{binary, normal};
use super::reduce::{is_neutral, on_elements};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::arithmetic::pair;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("reduce_window", |call| {
        let (windows, region) = (fixed(call)?, call.region(0)?);
        windows.fit(call)?;
        let operator =
            if is_log_add_exp(region) { Ok(LOG_ADD_EXP.to_owned()) } else { binary(region) };
        match operator {
            Ok(operator) if call.args.len() == 2 => reduce_window(call, &operator, windows),
            _ => super::folded::windows(call, &windows),
        }
    }),
    ("dynamic_reduce_window", dynamic),
];

/// Places of a window that are written out.
const MOST: i64 = 512;

/// The name of a region that JAX has no operation for.
const LOG_ADD_EXP: &str = "log_add_exp";

/// `log(exp(a) + exp(b))` as JAX writes it.
fn is_log_add_exp(region: &Region) -> bool {
    let form = "maximum 0 1; subtract 0 1; compare NE 3 3; add 0 1; abs 3; negate 6; exponential 7; log_plus_one 8; add 2 9; \
                select 4 5 10; return 11; ";
    normal(region) == form
}

pub(super) struct Windows {
    size: Vec<Dim>,
    strides: Vec<Dim>,
    base_dilations: Vec<Dim>,
    dilations: Vec<Dim>,
    /// Before and after, an axis after the other.
    pub(super) padding: Vec<Dim>,
}

impl Windows {
    pub(super) fn fit(&self, call: &Call) -> Done<()> {
        let rank = call.rank(call.arg(0)?);
        let lists = [&self.size, &self.strides, &self.base_dilations, &self.dilations];
        match lists.iter().all(|list| list.len() == rank) && self.padding.len() == 2 * rank {
            true => Ok(()),
            false => unsupported("windows of another rank"),
        }
    }

    /// Before, after and between the elements of each axis.
    pub(super) fn pads(&self, call: &mut Call) -> [Vec<Dim>; 3] {
        let low = self.padding.iter().step_by(2).cloned().collect();
        let high = self.padding.iter().skip(1).step_by(2).cloned().collect();
        let between = |dilation| call.dim(DimOp::Sub, dilation, &Dim::Int(1));
        [low, high, self.base_dilations.iter().map(between).collect()]
    }
}

pub(super) fn fixed(call: &Call) -> Done<Windows> {
    let rank = call.rank(call.arg(0)?);
    let ones = vec![1; rank];
    let list = |name: &str| -> Done<Vec<Dim>> {
        Ok(call.ints_or(name, &ones)?.into_iter().map(Dim::Int).collect())
    };
    let padding = call.ints_or("padding", &vec![0; 2 * rank])?;
    Ok(Windows {
        size: list("window_dimensions")?,
        strides: list("window_strides")?,
        base_dilations: list("base_dilations")?,
        dilations: list("window_dilations")?,
        padding: padding.into_iter().map(Dim::Int).collect(),
    })
}

/// Sizes and padding are operands, and the region is a function.
fn dynamic(call: &mut Call) -> Done<Vec<V>> {
    let size = call.extents_of(2, "window_dimensions")?;
    let strides = call.extents_of(3, "window_strides")?;
    let base_dilations = call.extents_of(4, "base_dilations")?;
    let dilations = call.extents_of(5, "window_dilations")?;
    let padding = call.arg(6)?;
    let Some(padding) = super::creation::grid(call.walk, padding) else {
        return unsupported("a padding that only the run knows");
    };
    let name = match call.attribute("called_computations") {
        Some(Attribute::List(items)) => match items.as_slice() {
            [Attribute::Symbol(name)] => name,
            _ => return invalid("it must have one computation"),
        },
        _ => return invalid("its computation is missing"),
    };
    let Some(function) = call.walk.module.functions.get(name) else {
        return invalid(format!("there is no function @{name}"));
    };
    let operator = match function.ops.as_slice() {
        [op, end] if end.name == "func.return" && op.operands.len() == 2 => {
            op.name.trim_start_matches("stablehlo.").to_owned()
        }
        _ => return unsupported(format!("the computation @{name}")),
    };
    reduce_window(call, &operator, Windows { size, strides, base_dilations, dilations, padding })
}

fn reduce_window(call: &mut Call, operator: &str, windows: Windows) -> Done<Vec<V>> {
    let (x, init) = call.two()?;
    windows.fit(call)?;
    let dtype = call.dtype(x);
    let elementwise = on_window(operator, dtype)?;
    let is_neutral = is_neutral(call, init, elementwise, dtype);
    if is_neutral && let Some(prefix) = prefix(call, elementwise, (x, init), &windows)? {
        return Ok(vec![prefix]);
    }
    let [low, high, interior] = windows.pads(call);
    let x = padded(call, x, init, [&low, &high, &interior])?;
    let reduced = written_out(call, elementwise, x, &windows)?;
    // Each window begins with the initial value, which padding is too.
    Ok(vec![if is_neutral { reduced } else { pair(call, elementwise, reduced, init)? }])
}

fn on_window(operator: &str, dtype: DType) -> Done<&'static str> {
    if operator == LOG_ADD_EXP { Ok(LOG_ADD_EXP) } else { on_elements(operator, dtype) }
}

/// Along one axis: each element with all those before it, or with all those behind it.
fn prefix(
    call: &mut Call,
    elementwise: &str,
    (x, init): (V, V),
    windows: &Windows,
) -> Done<Option<V>> {
    let one = Dim::Int(1);
    let lists = [&windows.strides, &windows.base_dilations, &windows.dilations];
    if lists.iter().any(|list| list.iter().any(|dim| *dim != one)) {
        return Ok(None);
    }
    let own = call.dims(x);
    let wide: Vec<usize> = (0..own.len()).filter(|&axis| windows.size[axis] != one).collect();
    let [axis] = *wide else { return Ok(None) };
    let rest = (0..own.len()).filter(|&other| other != axis);
    let plain = rest.flat_map(|other| &windows.padding[2 * other..2 * other + 2]);
    if plain.into_iter().any(|dim| *dim != Dim::Int(0)) {
        return Ok(None);
    }
    let less = call.dim(DimOp::Sub, &own[axis], &one);
    let (low, high) = (&windows.padding[2 * axis], &windows.padding[2 * axis + 1]);
    let is_whole = call.same(&windows.size[axis], &own[axis]);
    let is_forward = call.same(low, &less) && call.same(high, &Dim::Int(0));
    let is_backward = call.same(high, &less) && call.same(low, &Dim::Int(0));
    if !is_whole || !(is_forward || is_backward) {
        return Ok(None);
    }
    let flip = |call: &mut Call, x: V| match is_forward {
        true => Ok(x),
        false => call.call("flip", &[x.into(), key("axis", axis)]),
    };
    let operator = match elementwise {
        "add" => "cumsum",
        "multiply" => "cumprod",
        _ => {
            let Some(extent) = own[axis].as_int() else { return Ok(None) };
            let x = flip(call, x)?;
            let scanned = scan(call, elementwise, (x, init), (axis, extent))?;
            return flip(call, scanned).map(Some);
        }
    };
    let x = flip(call, x)?;
    let dtype = call.dtype(x);
    let sums = call.call(operator, &[x.into(), key("axis", axis), key("dtype", dtype)])?;
    flip(call, sums).map(Some)
}

/// Each element with all those before it, in as many steps as the logarithm of the extent: after each of them an element has combined
/// twice as many.
fn scan(
    call: &mut Call,
    elementwise: &str,
    (mut x, neutral): (V, V),
    (axis, extent): (usize, i64),
) -> Done<V> {
    let mut shift = 1;
    while shift < extent {
        let mut dims = call.dims(x);
        dims[axis] = Dim::Int(shift);
        let first = call.call_kept("broadcast_to", &[neutral.into(), Arg::Shape(dims)])?;
        let args = [
            x.into(),
            Arg::from(vec![axis as i64]),
            Arg::from(vec![0_i64]),
            Arg::from(vec![extent - shift]),
        ];
        let kept = call.call("strided_slice", &args)?;
        let before = call.call("concat", &[vec![first, kept].into(), key("axis", axis)])?;
        x = pair(call, elementwise, before, x)?;
        shift *= 2;
    }
    Ok(x)
}

/// The places of a window that are written out: how many windows there are along each axis, and where the first one has each element.
pub(super) struct Places {
    pub(super) lengths: Vec<Dim>,
    pub(super) begins: Vec<Vec<i64>>,
    pub(super) strides: Vec<i64>,
}

pub(super) fn places(call: &mut Call, dims: &[Dim], windows: &Windows) -> Done<Places> {
    let numbers = |list: &[Dim]| list.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>();
    let (Some(size), Some(strides), Some(dilations)) =
        (numbers(&windows.size), numbers(&windows.strides), numbers(&windows.dilations))
    else {
        return unsupported("a window whose size depends on dims");
    };
    let count = size.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent.max(0)));
    let is_step = |step: &i64| (1..=i64::from(i32::MAX)).contains(step);
    if !strides.iter().chain(&dilations).all(is_step) {
        return invalid("strides and dilations must be at least 1");
    }
    if count.is_none_or(|count| !(1..=MOST).contains(&count)) {
        return unsupported(format!("a window of more than {MOST} elements"));
    }
    let mut lengths = Vec::new();
    for axis in 0..dims.len() {
        let reach = (size[axis] - 1) * dilations[axis] + 1;
        let room = call.dim(DimOp::Sub, &dims[axis], &Dim::Int(reach));
        let steps = call.dim(DimOp::FloorDiv, &room, &Dim::Int(strides[axis]));
        let count = call.dim(DimOp::Add, &steps, &Dim::Int(1));
        lengths.push(call.dim(DimOp::Max, &count, &Dim::Int(0)));
    }
    let mut begins = vec![Vec::new()];
    for (&extent, &dilation) in size.iter().zip(&dilations) {
        let longer = |begin: &Vec<i64>| {
            let begin = begin.clone();
            (0..extent).map(move |at| [begin.as_slice(), &[at * dilation]].concat())
        };
        begins = begins.iter().flat_map(longer).collect();
    }
    Ok(Places { lengths, begins, strides })
}

/// The element of all windows that the first one has there.
pub(super) fn part(call: &mut Call, x: V, places: &Places, begin: &[i64]) -> Done<V> {
    let mut ends = Vec::new();
    for (axis, begin) in begin.iter().enumerate() {
        let stride = places.strides[axis];
        let length = call.dim(DimOp::Mul, &places.lengths[axis], &Dim::Int(stride));
        let end = call.dim(DimOp::Add, &length, &Dim::Int(begin - stride + 1));
        // No window: the end is before the begin, and not counted from the end.
        ends.push(call.dim(DimOp::Max, &end, &Dim::Int(0)));
    }
    let axes: Vec<i64> = (0..begin.len() as i64).collect();
    let begins = begin.iter().copied().map(Dim::Int).collect();
    let strides = places.strides.clone().into();
    let args = [x.into(), axes.into(), Arg::Dims(begins), Arg::Dims(ends), strides];
    let part = call.call("strided_slice", &args)?;
    call.values[part.0].dims.clone_from(&places.lengths);
    Ok(part)
}

/// A strided part for each place of the window.
fn written_out(call: &mut Call, elementwise: &str, x: V, windows: &Windows) -> Done<V> {
    let dims = call.dims(x);
    let places = places(call, &dims, windows)?;
    let mut result = None;
    for begin in &places.begins {
        let part = part(call, x, &places, begin)?;
        result = Some(match result {
            None => part,
            Some(so_far) => applied(call, elementwise, so_far, part)?,
        });
    }
    result.ok_or(crate::reason::Reason::Invalid("an empty window".to_owned()))
}
