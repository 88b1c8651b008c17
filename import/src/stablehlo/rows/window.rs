//! `reduce_window`: prefix sums and products where the window is all that comes before, else a value for each place of the
//! window, combined element by element.

use super::super::call::{Call, Row};
use super::super::syntax::Attribute;
use super::movement::padded;
use super::pattern::binary;
use super::reduce::{combined, is_neutral, on_elements};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::arithmetic::pair;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};

pub(super) const ROWS: &[(&str, Row)] = &[
    ("reduce_window", |call| {
        let windows = fixed(call)?;
        let operator = binary(call.region(0)?)?;
        reduce_window(call, &operator, windows)
    }),
    ("dynamic_reduce_window", dynamic),
];

/// Places of a window that are written out.
const MOST: i64 = 512;

struct Windows {
    size: Vec<Dim>,
    strides: Vec<Dim>,
    base_dilations: Vec<Dim>,
    dilations: Vec<Dim>,
    /// Before and after, an axis after the other.
    padding: Vec<Dim>,
}

fn fixed(call: &Call) -> Done<Windows> {
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
    let rank = call.rank(x);
    let lists = [&windows.size, &windows.strides, &windows.base_dilations, &windows.dilations];
    let fits = lists.iter().all(|list| list.len() == rank) && windows.padding.len() == 2 * rank;
    if call.args.len() != 2 && call.args.len() != 7 || !fits {
        return unsupported("several operands, or windows of another rank");
    }
    let elementwise = on_elements(operator, call.dtype(x))?;
    let is_neutral = is_neutral(call, init, elementwise, call.dtype(x));
    if is_neutral && let Some(prefix) = prefix(call, elementwise, x, &windows)? {
        return Ok(vec![prefix]);
    }
    let low: Vec<Dim> = windows.padding.iter().step_by(2).cloned().collect();
    let high: Vec<Dim> = windows.padding.iter().skip(1).step_by(2).cloned().collect();
    let interior: Vec<Dim> = windows
        .base_dilations
        .iter()
        .map(|dilation| call.dim(DimOp::Sub, dilation, &Dim::Int(1)))
        .collect();
    let x = padded(call, x, init, [&low, &high, &interior])?;
    let reduced = written_out(call, operator, x, &windows)?;
    // Each window begins with the initial value, which padding is too.
    Ok(vec![if is_neutral { reduced } else { pair(call, elementwise, reduced, init)? }])
}

/// Along one axis: each element with all those before it, or with all those behind it.
fn prefix(call: &mut Call, elementwise: &str, x: V, windows: &Windows) -> Done<Option<V>> {
    let operator = match elementwise {
        "add" => "cumsum",
        "multiply" => "cumprod",
        _ => return Ok(None),
    };
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
    let x = flip(call, x)?;
    let dtype = call.dtype(x);
    let sums = call.call(operator, &[x.into(), key("axis", axis), key("dtype", dtype)])?;
    flip(call, sums).map(Some)
}

/// A strided part for each place of the window.
fn written_out(call: &mut Call, operator: &str, x: V, windows: &Windows) -> Done<V> {
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
    let own = call.dims(x);
    let mut lengths = Vec::new();
    for axis in 0..own.len() {
        let reach = (size[axis] - 1) * dilations[axis] + 1;
        let room = call.dim(DimOp::Sub, &own[axis], &Dim::Int(reach));
        let steps = call.dim(DimOp::FloorDiv, &room, &Dim::Int(strides[axis]));
        let count = call.dim(DimOp::Add, &steps, &Dim::Int(1));
        lengths.push(call.dim(DimOp::Max, &count, &Dim::Int(0)));
    }
    let mut result = None;
    let mut place = vec![0; own.len()];
    for _ in 0..count.unwrap_or(0) {
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for axis in 0..own.len() {
            let begin = place[axis] * dilations[axis];
            let length = call.dim(DimOp::Mul, &lengths[axis], &Dim::Int(strides[axis]));
            ends.push(call.dim(DimOp::Add, &length, &Dim::Int(begin - strides[axis] + 1)));
            begins.push(Dim::Int(begin));
        }
        // No window: the end is before the begin, and not counted from the end.
        let ends = ends.iter().map(|end| call.dim(DimOp::Max, end, &Dim::Int(0))).collect();
        let axes: Vec<i64> = (0..own.len() as i64).collect();
        let args =
            [x.into(), axes.into(), Arg::Dims(begins), Arg::Dims(ends), strides.clone().into()];
        let part = call.call("strided_slice", &args)?;
        call.values[part.0].dims.clone_from(&lengths);
        result = Some(match result {
            None => part,
            Some(so_far) => combined(call, operator, so_far, part)?,
        });
        for axis in (0..own.len()).rev() {
            place[axis] += 1;
            if place[axis] < size[axis] {
                break;
            }
            place[axis] = 0;
        }
    }
    result.ok_or(crate::reason::Reason::Invalid("an empty window".to_owned()))
}
