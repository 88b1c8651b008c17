//! Answers as lines, and dims as JSON: a number, a name, or `["+", a, b]`.

use crate::answers::Answers;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use serde_json::{Value, json};
use std::fmt::Write;

/// Refuted claims, simplifications, then every proof with its header.
pub(super) fn write(text: &mut String, answers: &Answers) -> std::fmt::Result {
    for (claim, all) in &answers.refuted {
        for values in all {
            let values: serde_json::Map<String, Value> =
                values.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
            let values = Value::Object(values);
            writeln!(text, "{{\"refuted\": {}, \"values\": {values}}}", json!(claim))?;
        }
    }
    for (dim, all) in &answers.equal {
        for simple in all {
            let (is, given) = (dim_value(&simple.dim), json!(simple.given));
            writeln!(text, "{{\"simplify\": {}, \"is\": {is}, \"given\": {given}}}", json!(dim))?;
        }
    }
    for proof in answers.proved.values().flatten() {
        text.push_str(&proof.text);
    }
    Ok(())
}

fn dim_value(dim: &Dim) -> Value {
    match dim {
        Dim::Int(value) => json!(value),
        Dim::Var(name) => json!(name.as_str()),
        Dim::Op(op, operands) => {
            json!([op.symbol(), dim_value(&operands.0), dim_value(&operands.1)])
        }
    }
}

/// A dim; `None` where it is none. The reader of JSON limits how deep it goes.
pub(super) fn read_dim(value: &Value) -> Option<Dim> {
    match value {
        Value::Number(number) => number.as_i64().map(Dim::Int),
        Value::String(name) => Some(Dim::Var(Name::new(name))),
        Value::Array(parts) => {
            let [Value::String(symbol), a, b] = parts.as_slice() else { return None };
            let op = DimOp::of_symbol(symbol)?;
            Some(Dim::Op(op, Box::new((read_dim(a)?, read_dim(b)?))))
        }
        _ => None,
    }
}
