//! Calls by which adjoints are tested and proved beside those of tensor programs.

use crate::legalized_cases::Case;

/// Broadcast by name and by accident, ranks, and operands that other tests do not vary.
static OWN: &[Case] = &[
    own_case("add", "a: Tensor((\"n\",), DT), b: Tensor((\"m\",), DT)", "add(a, b)"),
    own_case(
        "multiply",
        "a: Tensor((\"n\", \"m\"), DT), b: Tensor((\"k\", 1), DT)",
        "multiply(a, b)",
    ),
    own_case("divide", "a: Tensor((\"n\", 3), DT), b: Tensor((\"m\",), DT)", "divide(a, b)"),
    own_case("subtract", "a: Tensor((1, \"m\"), DT), b: Tensor((\"n\", 1), DT)", "subtract(a, b)"),
    own_case("maximum", "a: Tensor((), DT), b: Tensor((\"n\", \"m\"), DT)", "maximum(a, b)"),
    own_case("power", "a: Tensor((\"n\", \"m\"), DT), b: Tensor((\"m\",), DT)", "power(a, b)"),
    own_case(
        "where",
        "c: Tensor((\"n\", \"m\"), \"bool\"), a: Tensor((\"m\",), DT), b: Tensor((), DT)",
        "where(c, a, b)",
    ),
    own_case(
        "ewise_fma",
        "a: Tensor((\"n\", \"m\"), DT), b: Tensor((\"n\", \"m\"), DT)",
        "ewise_fma(a, b, a)",
    ),
    own_case(
        "broadcast_to",
        "x: Tensor((\"n\",), DT), s: Shape([\"m\"])",
        "broadcast_to(x, (m, n))",
    ),
    own_case("matmul", "a: Tensor((\"n\", \"k\"), DT), b: Tensor((\"k\",), DT)", "matmul(a, b)"),
    own_case("matmul", "a: Tensor((\"k\",), DT), b: Tensor((3, \"k\", \"m\"), DT)", "matmul(a, b)"),
    own_case(
        "matmul",
        "a: Tensor((\"n\", 2, 3), DT), b: Tensor((\"m\", 3, 2), DT)",
        "matmul(a, b)",
    ),
    own_case(
        "take",
        "x: Tensor((\"n\", 4), DT), i: Tensor((\"k\",), \"i64\")",
        "take(x, i, axis=0)",
    ),
    own_case(
        "take",
        "x: Tensor((3, \"n\", 5), DT), i: Tensor((\"k\", 2), \"i64\")",
        "take(x, i, axis=1, mode=\"wrap\")",
    ),
    own_case(
        "one_hot",
        "i: Tensor((\"n\",), \"i64\"), a: Tensor((), DT), b: Tensor((), DT)",
        "one_hot(i, a, b, 3)",
    ),
    own_case("nn.softmax", "x: Tensor((\"n\", \"m\"), DT)", "softmax(x, axis=-2)"),
    own_case(
        "permute_dims",
        "x: Tensor((\"n\", \"m\", 2, 3), DT)",
        "permute_dims(x, (2, 0, 3, 1))",
    ),
    own_case("tile", "x: Tensor((\"n\", 2), DT), s: Shape([\"k\"])", "tile(x, (k, 2))"),
    own_case(
        "nn.conv2d",
        "x: Tensor((\"n\", 4, \"h\", 5), DT), w: Tensor((6, 2, 3, 2), DT)",
        "conv2d(x, w, strides=[2, 2], padding=[1, 1], groups=2)",
    ),
    own_case(
        "nn.conv2d",
        "x: Tensor((2, 6, 5, 3), DT), w: Tensor((3, 2, 3, 4), DT)",
        "conv2d(x, w, data_layout=\"NHWC\", kernel_layout=\"HWIO\", dilation=[2, 1])",
    ),
    own_case(
        "nn.conv1d_transpose",
        "x: Tensor((\"n\", 4, \"m\"), DT), w: Tensor((4, 2, 3), DT)",
        "conv1d_transpose(x, w, strides=2, padding=1, output_padding=1, groups=2)",
    ),
    own_case(
        "nn.max_pool2d",
        "x: Tensor((\"n\", 2, \"h\", 6), DT)",
        "max_pool2d(x, [2, 2], [2, 2], 1)",
    ),
    own_case("nn.avg_pool2d", "x: Tensor((2, 3, \"h\", 6), DT)", "avg_pool2d(x, [2, 3], [2, 1])"),
    own_case(
        "nn.attention",
        "q: Tensor((2, \"s\", 2, 3), DT), k: Tensor((2, \"s\", 2, 3), DT), v: Tensor((2, \"s\", 2, 3), DT)",
        "attention(q, k, v, None, None, \"TopLeft\")",
    ),
    own_case("cumsum", "x: Tensor((\"n\", \"m\"), DT)", "cumsum(x, axis=0)"),
    own_case(
        "dequantize",
        "x: Tensor((\"n\", \"m\"), \"i8\"), s: Tensor((\"m\",), DT), z: Tensor((), \"i8\")",
        "dequantize(x, s, z, -1, DT)",
    ),
];

const fn own_case(row: &'static str, params: &'static str, call: &'static str) -> Case {
    Case { row, params, call, dtypes: &["f64"] }
}

pub(crate) fn own() -> impl Iterator<Item = &'static Case> {
    OWN.iter()
}
