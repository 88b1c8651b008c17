//! Numbers out of tensors, and assertions. Arithmetic on dims is none of these: a description has its results.

use crate::aten::call::{Argument, Call, Row};
use crate::aten::guards::{assert, require};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::reshape;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("_local_scalar_dense", element),
    ("item", element),
    ("_assert_scalar", assert_scalar),
    ("_assert_async.msg", assert_tensor),
    ("_assert_tensor_metadata", nothing),
    ("sym_constrain_range_for_size", nothing),
    ("sym_constrain_range", nothing),
];

fn element(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    if call.dtype(x).is_float() {
        return unsupported("a float of a tensor as a number of Python");
    }
    let x = reshape(call, x, Vec::new())?;
    Ok(vec![convert(call, x, DType::I64)?])
}

fn message(call: &Call, name: &str) -> String {
    let text = call.string(name).unwrap_or_default();
    let place = call.at.map_or_else(String::new, |at| format!(" ({at})"));
    format!("{text}{place}")
}

fn assert_scalar(call: &mut Call) -> Done<Vec<V>> {
    let text = message(call, "assert_msg");
    match call.argument("self").clone() {
        Argument::Claim(claim) => require(call.builder, &claim, &text)?,
        Argument::List(claims) => {
            for claim in claims {
                let Argument::Claim(claim) = claim else { return invalid("no claim") };
                require(call.builder, &claim, &text)?;
            }
        }
        Argument::Bool(true) => {}
        other => return unsupported(format!("the condition {other:?}")),
    }
    Ok(Vec::new())
}

fn assert_tensor(call: &mut Call) -> Done<Vec<V>> {
    let text = message(call, "assert_msg");
    let condition = call.tensor("self")?;
    let condition = convert(call, condition, DType::Bool)?;
    let condition = reshape(call, condition, Vec::new())?;
    assert(call.builder, condition.into(), &text);
    Ok(Vec::new())
}

/// The import deduces shapes and dtypes itself, and bounds of unbacked symbols are those of their tensors.
fn nothing(_: &mut Call) -> Done<Vec<V>> {
    Ok(Vec::new())
}
