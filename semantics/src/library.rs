//! The registry of named reference functions: what `call_dps_library` and `call_packed` may call.
//!
//! A name stands for a library's function on a device; here is its meaning, composed of operators
//! of the table.

use crate::ops::{Limits, apply, lookup};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::TensorType;

/// One named function.
pub struct LibraryFunction {
    /// `cutlass.rms_norm`
    pub name: &'static str,
    /// What it computes.
    pub doc: &'static str,
    run: fn(&[Value], &Limits) -> Result<Value, Stop>,
}

/// Every function of the registry.
pub static FUNCTIONS: &[LibraryFunction] = &[
    LibraryFunction {
        name: "cublas.matmul",
        doc: "The matrix product of two tensors; see the operator `matmul`.",
        run: |args, limits| operator("matmul", args, &[], limits),
    },
    LibraryFunction {
        name: "cublas.matmul_bias",
        doc: "A matrix product and a bias for each column: `add(matmul(x, w), b)`.",
        run: |args, limits| epilogue(args, &["add"], limits),
    },
    LibraryFunction {
        name: "cublas.matmul_relu",
        doc: "A matrix product whose negative elements become 0: `relu(matmul(x, w))`.",
        run: |args, limits| epilogue(args, &["relu"], limits),
    },
    LibraryFunction {
        name: "cublas.matmul_bias_relu",
        doc: "`relu(add(matmul(x, w), b))`.",
        run: |args, limits| epilogue(args, &["add", "relu"], limits),
    },
    LibraryFunction {
        name: "cublas.matmul_gelu",
        doc: "A matrix product, and GELU with the hyperbolic tangent: `gelu_tanh(matmul(x, w))`.",
        run: |args, limits| epilogue(args, &["gelu_tanh"], limits),
    },
    LibraryFunction {
        name: "cublas.matmul_bias_gelu",
        doc: "`gelu_tanh(add(matmul(x, w), b))`.",
        run: |args, limits| epilogue(args, &["add", "gelu_tanh"], limits),
    },
    LibraryFunction {
        name: "cutlass.matmul",
        doc: "The matrix product of two tensors; see the operator `matmul`.",
        run: |args, limits| operator("matmul", args, &[], limits),
    },
    LibraryFunction {
        name: "cutlass.rms_norm",
        doc: "Root-mean-square normalization of the last axis (epsilon 1e-5), with an optional \
              weight; see the operator `rms_norm`.",
        run: |args, limits| operator("rms_norm", args, &[], limits),
    },
    LibraryFunction {
        name: "cutlass.attention",
        doc: "Attention over a packed (n, 3, heads, d) tensor of query, key and value: \
              softmax(q k^T / sqrt(d)) v for each head, (n, heads, d).",
        run: packed_attention,
    },
    LibraryFunction {
        name: "builtin.relu",
        doc: "max(x, 0); see the operator `relu`.",
        run: |args, limits| operator("relu", args, &[], limits),
    },
];

/// Calls a function of the registry.
///
/// # Errors
/// A trap when the name is unknown, or what the function says of its operands.
pub fn call(
    name: &str,
    args: &[Value],
    outputs: Option<&[TensorType]>,
    limits: &Limits,
) -> Result<Value, Stop> {
    let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
        let known: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
        let message = format!("no library function `{name}`; there are {}", known.join(", "));
        return Err(Stop::trap("library/unknown", message));
    };
    let result = (function.run)(args, limits)?;
    if let (Some([declared]), Value::Tensor(tensor)) = (outputs, &result)
        && let Some(dtype) = declared.dtype
    {
        return Ok(Value::Tensor(tensor.cast(dtype)));
    }
    Ok(result)
}

fn operator(
    name: &str,
    args: &[Value],
    attrs: &[(&str, Value)],
    limits: &Limits,
) -> Result<Value, Stop> {
    let row = lookup(name).ok_or_else(|| Stop::Unsupported(format!("the operator `{name}`")))?;
    let attrs = attrs.iter().map(|(key, value)| (Name::from(*key), value.clone())).collect();
    apply(row, args.to_vec(), attrs, limits, None)
}

/// A matrix product, and what is done to each element of it: operators that take the operands which
/// are left, one each, or none.
fn epilogue(args: &[Value], steps: &[&str], limits: &Limits) -> Result<Value, Stop> {
    let (factors, mut rest) = args.split_at(args.len().min(2));
    let mut value = operator("matmul", factors, &[], limits)?;
    for step in steps {
        let mut operands = vec![value];
        if *step == "add"
            && let Some((bias, others)) = rest.split_first()
        {
            operands.push(bias.clone());
            rest = others;
        }
        value = operator(step, &operands, &[], limits)?;
    }
    Ok(value)
}

fn packed_attention(args: &[Value], limits: &Limits) -> Result<Value, Stop> {
    let parts = operator(
        "split",
        &[args.first().cloned().unwrap_or(Value::None)],
        &[("indices_or_sections", Value::int(3)), ("axis", Value::int(1))],
        limits,
    )?;
    let Value::Tuple(parts) = parts else {
        return Err(Stop::Unsupported("split gives a tuple".to_owned()));
    };
    // (n, 1, heads, d) → (1, n, heads, d), the layout of the operator.
    let axes = Value::Tuple([1, 0, 2, 3].map(Value::int).to_vec());
    let operands = parts
        .iter()
        .map(|part| operator("permute_dims", &[part.clone(), axes.clone()], &[], limits))
        .collect::<Result<Vec<_>, _>>()?;
    let result = operator("attention", &operands, &[], limits)?;
    operator("squeeze", &[result], &[("axis", Value::Tuple(vec![Value::int(0)]))], limits)
}
