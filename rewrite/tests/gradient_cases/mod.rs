//! Calls by which adjoints are tested beside those of tensor programs, and what is known of the latter.

pub(crate) mod calls;

pub(crate) use calls::own;

/// Calls that the pass refuses, and a part of why.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    (
        "scatter_elements(x, clip(i, 0, 1), u, axis=1, reduction=\"mul\")",
        "with the reduction `mul` a result depends on the order of its writes",
    ),
    (
        "scatter_elements(x, clip(i, 0, 1), u, axis=1, reduction=\"mean\")",
        "with the reduction `mean` a result depends on the order of its writes",
    ),
];

/// Whether the loss takes a field of the result: cotangents of running statistics are refused.
pub(crate) fn counts(row: &str, field: usize) -> bool {
    row != "nn.batch_norm" || field == 0
}

/// A number where the operator is smooth.
pub(crate) fn domain(row: &str, param: usize, value: f64) -> f64 {
    let away = |least: f64| value.signum() * (least + value.abs());
    match (row, param) {
        ("acos" | "asin" | "atanh", _) => 0.9 * value.sin(),
        ("acosh", _) => 1.2 + value.abs(),
        ("log" | "sqrt" | "rsqrt" | "power", _) => 0.5 + value.abs(),
        ("divide" | "mod" | "floor_mod" | "floor_divide" | "atan2", _) => away(0.5),
        ("nn.batch_norm", 4) => 0.5 + value.abs(),
        _ => value,
    }
}
