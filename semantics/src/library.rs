//! The registry of named reference functions: what `call_dps_library` and `call_packed` may call.
//!
//! A name stands for a library's function on a device. What it computes is stated once, as data: calls of operators
//! of the table, one after the other. The interpreter runs them; the pass `expand_libraries` writes them in the place
//! of a call where the target does not have the library.

use crate::ops::{Limits, Literal, apply, lookup};
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
    /// The calls that define it; the last one gives the result.
    pub steps: &'static [Step],
}

/// A call of an operator in the definition of a library function.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// A row of the table of operators.
    pub operator: &'static str,
    /// The operands, by position.
    pub operands: &'static [Source],
    /// The attributes, by keyword.
    pub attrs: &'static [(&'static str, Literal)],
}

/// Where an operand of a step comes from. Arguments that are not given are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// All arguments of the library function, in order.
    Arguments,
    /// One argument, counted from 0.
    Argument(usize),
    /// The result of an earlier step.
    Result(usize),
    /// A field of the tuple that an earlier step gives.
    Field(usize, usize),
}

impl Step {
    /// The operands by position, given the arguments of the function; `of` gives the result of an earlier step, or a field of it.
    ///
    /// # Errors
    /// Those of `of`.
    pub fn operands<T: Clone, E>(
        &self,
        args: &[T],
        mut of: impl FnMut(usize, Option<usize>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let mut operands = Vec::with_capacity(self.operands.len());
        for source in self.operands {
            match *source {
                Arguments => operands.extend(args.iter().cloned()),
                Argument(at) => operands.extend(args.get(at).cloned()),
                Of(at) => operands.push(of(at, None)?),
                Field(at, field) => operands.push(of(at, Some(field))?),
            }
        }
        Ok(operands)
    }
}

use Source::{Argument, Arguments, Field, Result as Of};

const fn step(operator: &'static str, operands: &'static [Source]) -> Step {
    Step { operator, operands, attrs: &[] }
}

/// The product that epilogues are applied to.
const PRODUCT: Step = step("matmul", &[Argument(0), Argument(1)]);
/// A bias of the product.
const BIAS: Step = step("add", &[Of(0), Argument(2)]);

const MATMUL: Definition = (
    "The matrix product of two tensors; see the operator `matmul`.",
    &[step("matmul", &[Arguments])],
);
const MATMUL_BIAS: Definition =
    ("A matrix product and a bias for each column: `add(matmul(x, w), b)`.", &[PRODUCT, BIAS]);
const MATMUL_RELU: Definition = (
    "A matrix product whose negative elements become 0: `relu(matmul(x, w))`.",
    &[PRODUCT, step("relu", &[Of(0)])],
);
const MATMUL_BIAS_RELU: Definition =
    ("`relu(add(matmul(x, w), b))`.", &[PRODUCT, BIAS, step("relu", &[Of(1)])]);
const MATMUL_GELU: Definition = (
    "A matrix product, and GELU with the hyperbolic tangent: `gelu_tanh(matmul(x, w))`.",
    &[PRODUCT, step("gelu_tanh", &[Of(0)])],
);
const MATMUL_BIAS_GELU: Definition =
    ("`gelu_tanh(add(matmul(x, w), b))`.", &[PRODUCT, BIAS, step("gelu_tanh", &[Of(1)])]);
const RMS_NORM: Definition = (
    "Root-mean-square normalization of the last axis (epsilon 1e-5), with an optional weight; see the \
     operator `rms_norm`.",
    &[step("rms_norm", &[Arguments])],
);
const RELU: Definition = ("max(x, 0); see the operator `relu`.", &[step("relu", &[Arguments])]);
/// (n, 1, heads, d) → (1, n, heads, d), the layout of the operator.
const fn batch_first(part: &'static [Source]) -> Step {
    Step {
        operator: "permute_dims",
        operands: part,
        attrs: &[("axes", Literal::Ints(&[1, 0, 2, 3]))],
    }
}
const ATTENTION: Definition = (
    "Attention over a packed (n, 3, heads, d) tensor of query, key and value: softmax(q k^T / sqrt(d)) v \
     for each head, (n, heads, d).",
    &[
        Step {
            operator: "split",
            operands: &[Argument(0)],
            attrs: &[("indices_or_sections", Literal::Int(3)), ("axis", Literal::Int(1))],
        },
        batch_first(&[Field(0, 0)]),
        batch_first(&[Field(0, 1)]),
        batch_first(&[Field(0, 2)]),
        step("attention", &[Of(1), Of(2), Of(3)]),
        Step { operator: "squeeze", operands: &[Of(4)], attrs: &[("axis", Literal::Ints(&[0]))] },
    ],
);

/// What a function computes: in words, and as calls of operators.
type Definition = (&'static str, &'static [Step]);

const fn named(name: &'static str, (doc, steps): Definition) -> LibraryFunction {
    LibraryFunction { name, doc, steps }
}

/// Every function of the registry. Those of `native` are the compiler's own on every target.
pub static FUNCTIONS: &[LibraryFunction] = &[
    named("cublas.matmul", MATMUL),
    named("cublas.matmul_bias", MATMUL_BIAS),
    named("cublas.matmul_relu", MATMUL_RELU),
    named("cublas.matmul_bias_relu", MATMUL_BIAS_RELU),
    named("cublas.matmul_gelu", MATMUL_GELU),
    named("cublas.matmul_bias_gelu", MATMUL_BIAS_GELU),
    named("native.matmul", MATMUL),
    named("native.matmul_bias", MATMUL_BIAS),
    named("native.matmul_relu", MATMUL_RELU),
    named("native.matmul_bias_relu", MATMUL_BIAS_RELU),
    named("native.matmul_gelu", MATMUL_GELU),
    named("native.matmul_bias_gelu", MATMUL_BIAS_GELU),
    named("cutlass.matmul", MATMUL),
    named("cutlass.rms_norm", RMS_NORM),
    named("cutlass.attention", ATTENTION),
    named("builtin.relu", RELU),
];

/// The function of a name.
#[must_use]
pub fn function(name: &str) -> Option<&'static LibraryFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

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
    let Some(function) = function(name) else {
        let known: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
        let message = format!("no library function `{name}`; there are {}", known.join(", "));
        return Err(Stop::trap("library/unknown", message));
    };
    let result = run(function.steps, args, limits)?;
    if let (Some([declared]), Value::Tensor(tensor)) = (outputs, &result)
        && let Some(dtype) = declared.dtype
    {
        return Ok(Value::Tensor(tensor.cast(dtype)));
    }
    Ok(result)
}

fn run(steps: &[Step], args: &[Value], limits: &Limits) -> Result<Value, Stop> {
    let mut results: Vec<Value> = Vec::with_capacity(steps.len());
    for step in steps {
        let row = lookup(step.operator)
            .ok_or_else(|| Stop::Unsupported(format!("the operator `{}`", step.operator)))?;
        let operands = step.operands(args, |at, field| match (&results[at], field) {
            (result, None) => Ok(result.clone()),
            (Value::Tuple(fields), Some(field)) => Ok(fields[field].clone()),
            _ => Err(Stop::Unsupported("a field of what is no tuple".to_owned())),
        })?;
        let attrs = step.attrs.iter().map(|(key, value)| (Name::from(*key), value.value()));
        results.push(apply(row, operands, attrs.collect(), limits, None)?);
    }
    Ok(results.pop().expect("invariant: a function has a step"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A definition calls operators that there are, on results of earlier steps, and nothing is unused.
    #[test]
    fn definitions_are_calls_of_operators_in_order() {
        for function in FUNCTIONS {
            let mut used = vec![false; function.steps.len()];
            for (at, step) in function.steps.iter().enumerate() {
                assert!(lookup(step.operator).is_some(), "{}: {}", function.name, step.operator);
                for source in step.operands {
                    if let Of(from) | Field(from, _) = *source {
                        assert!(from < at, "{}: {source:?} in step {at}", function.name);
                        used[from] = true;
                    }
                }
            }
            assert_eq!(used.pop(), Some(false), "{}", function.name);
            assert!(used.into_iter().all(|is| is), "{}: an unused step", function.name);
        }
    }

    /// Functions of a name in several libraries compute the same.
    #[test]
    fn products_of_all_libraries_have_the_same_steps() {
        for own in FUNCTIONS.iter().filter_map(|function| function.name.strip_prefix("native.")) {
            let steps = |library: &str| {
                let found = function(&format!("{library}.{own}"));
                found.map(|found| format!("{:?}", found.steps))
            };
            assert_eq!(steps("native"), steps("cublas"), "{own}");
        }
    }
}
