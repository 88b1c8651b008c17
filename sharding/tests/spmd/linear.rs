//! Operators that the checker lets take partial tensors are those that are derived to carry them.

use crate::planned;
use relax_semantics::check::partial::carries;
use relax_semantics::ops::lookup;
use relax_sharding::layout::text;
use relax_sharding::propagate::Step;
use relax_syntax::annotation::Reduction;

/// A call of a partial tensor `y` of (3, 4), and which of its operands are partial.
const CALLS: &[(&str, &str, &[bool])] = &[
    ("add", "add(y, y)", &[true, true]),
    ("subtract", "subtract(y, y)", &[true, true]),
    ("concat", "concat((y, y), axis=0)", &[true, true]),
    ("stack", "stack((y, y), axis=0)", &[true, true]),
    ("multiply", "multiply(y, c)", &[true, false]),
    ("multiply", "multiply(c, y)", &[false, true]),
    ("matmul", "matmul(y, permute_dims(c))", &[true, false]),
    ("negative", "negative(y)", &[true]),
    ("sum", "sum(y, axis=[1])", &[true]),
    ("reshape", "reshape(y, shape(12))", &[true]),
    ("permute_dims", "permute_dims(y)", &[true]),
    ("expand_dims", "expand_dims(y, axis=[0])", &[true]),
    ("squeeze", "squeeze(expand_dims(y, axis=[0]), axis=[0])", &[true]),
    ("flatten", "flatten(y)", &[true]),
    ("broadcast_to", "broadcast_to(y, shape(2, 3, 4))", &[true]),
    ("strided_slice", "strided_slice(y, axes=[0], begin=[1], end=[3])", &[true]),
];

/// Calls that are not linear, and one that is linear only where both operands are partial.
const OTHERS: &[(&str, &str, &[bool])] = &[
    ("relu", "relu(y)", &[true]),
    ("add", "add(y, c)", &[true, false]),
    ("exp", "exp(y)", &[true]),
    ("softmax", "softmax(y, axis=1)", &[true]),
    ("max", "max(y, axis=[1])", &[true]),
    ("maximum", "maximum(y, y)", &[true, true]),
];

/// The layout of the value that a call of a partial tensor gives.
fn layout(call: &str) -> String {
    let text_of = format!(
        "module_attr(\"mesh[0]\", \"2\")\n\ndef main(x: DTensor((3, \"k\"), \"f32\", \"mesh[0]\", \"S[1]\"), \
         w: DTensor((\"k\", 4), \"f32\", \"mesh[0]\", \"S[0]\"), c: Tensor((3, 4), \"f32\")):\n    \
         y = matmul(x, w)\n    z = {call}\n    return z\n"
    );
    let (module, plan) = planned(&text_of).unwrap_or_else(|refused| panic!("{refused:?}"));
    let function = module.function("main").expect("a main");
    let mut bound = plan.steps.iter().rev().filter_map(|step| match step {
        Step::Bind { var, layout, .. } if function.var(*var).name == "z" => Some(text(layout)),
        _ => None,
    });
    bound.next().expect("z is bound")
}

#[test]
fn the_checker_lets_pass_what_is_derived_to_be_linear() {
    for (name, call, partial) in CALLS {
        let row = lookup(name).expect("a row");
        assert!(carries(row, Reduction::Sum, partial), "{call}");
        assert_eq!(layout(call), "P(sum)", "{call}");
    }
    for (name, call, partial) in OTHERS {
        let row = lookup(name).expect("a row");
        assert!(!carries(row, Reduction::Sum, partial), "{call}");
        assert_ne!(layout(call), "P(sum)", "{call}");
    }
}
