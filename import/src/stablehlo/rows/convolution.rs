//! `convolution`: layouts of any order, brought to those of `conv1d` and `conv2d`.

use super::super::call::{Call, Row};
use super::super::syntax::{Attribute, Attributes};
use super::movement::padded;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::{inverse, permuted};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::Dim;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("convolution", |call| {
        let rank = call.rank(call.arg(0)?).saturating_sub(2);
        let pads = window(call, &["pad", "padding"], &vec![0; 2 * rank])?;
        convolution(call, pads.into_iter().map(Dim::Int).collect())
    }),
    ("dynamic_conv", |call| {
        let padding = call.arg(2)?;
        match super::creation::grid(call.walk, padding) {
            Some(padding) => convolution(call, padding),
            None => unsupported("a padding that only the run knows"),
        }
    }),
];

/// An attribute of the generic form, or of `window = {…}`.
fn window(call: &Call, names: &[&str], default: &[i64]) -> Done<Vec<i64>> {
    let none = Attributes::new();
    let inner = match call.attribute("window") {
        Some(Attribute::Dictionary(fields)) => fields,
        _ => &none,
    };
    let found = names.iter().find_map(|name| inner.get(*name).or_else(|| call.attribute(name)));
    let Some(found) = found else { return Ok(default.to_vec()) };
    let ints = match found {
        Attribute::List(items) if is_words(items) => {
            Some(items.iter().map(|item| i64::from(is_true(item))).collect())
        }
        found => super::super::call::ints(call.walk.text, found),
    };
    ints.ok_or_else(|| Reason::Invalid(format!("the attribute `{}`", names[0])))
}

fn is_words(items: &[Attribute]) -> bool {
    !items.is_empty() && items.iter().all(|item| matches!(item, Attribute::Word(..)))
}

fn is_true(item: &Attribute) -> bool {
    matches!(item, Attribute::Word(word, _) if word == "true")
}

/// Axes of data, kernel and result, as letters first, then by spatial number.
struct Layout {
    data: Vec<i64>,
    kernel: Vec<i64>,
    result: Vec<i64>,
}

/// `[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`
fn layout(text: &str, rank: usize) -> Option<Layout> {
    let lists =
        text.split(['[', ']']).skip(1).step_by(2).map(|list| {
            list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<String>>()
        });
    let lists: Vec<Vec<String>> = lists.collect();
    let [data, kernel, result] = lists.as_slice() else { return None };
    let order = |names: &[String], letters: [&str; 2]| {
        let wanted = letters.iter().map(|&letter| letter.to_owned());
        let wanted = wanted.chain((0..rank - 2).map(|number| number.to_string()));
        let place = |name: String| names.iter().position(|own| *own == name).map(|at| at as i64);
        let axes = wanted.map(place).collect::<Option<Vec<i64>>>();
        axes.filter(|axes| axes.len() == names.len())
    };
    Some(Layout {
        data: order(data, ["b", "f"])?,
        kernel: order(kernel, ["o", "i"])?,
        result: order(result, ["b", "f"])?,
    })
}

fn layout_of(call: &Call, rank: usize) -> Done<Layout> {
    let text = match (call.attribute("dim_numbers"), call.attribute("dimension_numbers")) {
        (Some(Attribute::Text(text)), _) => text,
        (_, Some(Attribute::Word(_, inner))) => match &**inner {
            Attribute::Text(text) => text,
            _ => return invalid("its dimension numbers"),
        },
        _ => return invalid("its dimension numbers are missing"),
    };
    layout(text, rank).ok_or_else(|| Reason::Invalid(format!("the dimension numbers {text}")))
}

fn convolution(call: &mut Call, pads: Vec<Dim>) -> Done<Vec<V>> {
    let (x, w) = call.two()?;
    let rank = call.rank(x);
    let operator = match rank {
        3 => "conv1d",
        4 => "conv2d",
        _ => return unsupported(format!("data of rank {rank}")),
    };
    let layout = layout_of(call, rank)?;
    if call.rank(w) != rank {
        return invalid("its operands have different ranks");
    }
    if call.int_or("batch_group_count", 1)? != 1 {
        return unsupported("groups of the batch");
    }
    let space = rank - 2;
    let ones = vec![1; space];
    let strides = window(call, &["stride", "window_strides"], &ones)?;
    let spread = window(call, &["lhs_dilate", "lhs_dilation"], &ones)?;
    let dilations = window(call, &["rhs_dilate", "rhs_dilation"], &ones)?;
    let reversal = window(call, &["reverse", "window_reversal"], &vec![0; space])?;
    let lists = [&strides, &spread, &dilations, &reversal];
    let is_whole = lists.iter().all(|list| list.len() == space) && pads.len() == 2 * space;
    if !is_whole || spread.iter().any(|&by| by < 1) {
        return invalid("its window has not one entry a spatial dim");
    }
    let (_, dtype) = call.result(0)?;
    let (x, w) = (convert(call, x, dtype)?, convert(call, w, dtype)?);
    let mut x = permuted(call, x, &layout.data)?;
    let mut w = permuted(call, w, &layout.kernel)?;
    for (axis, _) in reversal.iter().enumerate().filter(|(_, reversed)| **reversed != 0) {
        w = call.call("flip", &[w.into(), key("axis", axis + 2)])?;
    }
    let is_plain = |dim: &Dim| dim.as_int().is_some_and(|width| width >= 0);
    let mut padding = vec![0; 2 * space];
    if pads.iter().all(is_plain) && spread.iter().all(|&by| by == 1) {
        for axis in 0..space {
            padding[axis] = pads[2 * axis].as_int().unwrap_or(0);
            padding[axis + space] = pads[2 * axis + 1].as_int().unwrap_or(0);
        }
    } else {
        let mut lists = [vec![Dim::Int(0); 2], vec![Dim::Int(0); 2], vec![Dim::Int(0); 2]];
        for axis in 0..space {
            lists[0].push(pads[2 * axis].clone());
            lists[1].push(pads[2 * axis + 1].clone());
            lists[2].push(Dim::Int(spread[axis] - 1));
        }
        let zero = call.scalar(dtype, 0.0);
        x = padded(call, x, zero, [&lists[0], &lists[1], &lists[2]])?;
    }
    let groups = call.int_or("feature_group_count", 1)?;
    let args = [
        x.into(),
        w.into(),
        key("strides", strides),
        key("padding", padding),
        key("dilation", dilations),
        key("groups", Arg::from(groups)),
    ];
    let result = call.call(operator, &args)?;
    // From batch, features and space to the order of the result.
    Ok(vec![permuted(call, result, &inverse(&layout.result))?])
}
