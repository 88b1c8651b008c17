//! How C holds each dtype: in memory, and while it is computed with.

use relax_semantics::round::{int_to_odd_f64, to_bf16, to_f16};
use relax_syntax::dtype::DType;

/// The type of an element in memory.
pub(crate) fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 | DType::BF16 | DType::U16 => "uint16_t",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::U8 | DType::Bool => "uint8_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
    }
}

/// The type of a value: 16-bit floats are held as floats.
pub(crate) fn held(dtype: DType) -> &'static str {
    if is_half(dtype) { "float" } else { stored(dtype) }
}

/// Whether memory holds it in another form than values.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The part of names of C functions that stands for it: those of values.
pub(crate) fn suffix(dtype: DType) -> &'static str {
    if is_half(dtype) { "f32" } else { dtype.name() }
}

/// A float of f64 as a literal of `dtype`, rounded once.
pub(crate) fn float(dtype: DType, value: f64) -> String {
    match dtype {
        DType::F64 => spelled(value, format!("{value:?}"), ""),
        DType::F16 => float(DType::F32, to_f16(value).to_f64()),
        DType::BF16 => float(DType::F32, to_bf16(value).to_f64()),
        _ => {
            let narrow = value as f32;
            spelled(f64::from(narrow), format!("{narrow:?}"), "f")
        }
    }
}

fn spelled(value: f64, digits: String, suffix: &str) -> String {
    if value.is_nan() {
        return "NAN".to_owned();
    }
    let text = if value.is_infinite() {
        if value > 0.0 { "INFINITY".to_owned() } else { "-INFINITY".to_owned() }
    } else {
        digits + suffix
    };
    if value.is_sign_negative() { format!("({text})") } else { text }
}

/// An integer literal as a value of `dtype`, of which it is one.
pub(crate) fn integer(dtype: DType, value: i64) -> String {
    match dtype {
        DType::F64 => return float(dtype, value as f64),
        DType::F32 => return float(dtype, f64::from(value as f32)),
        DType::F16 | DType::BF16 => return float(dtype, int_to_odd_f64(i128::from(value))),
        _ => {}
    }
    match value {
        _ if value == i64::MIN => "INT64_MIN".to_owned(),
        ..0 => format!("({value})"),
        _ if value > i64::from(i32::MAX) => format!("INT64_C({value})"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_round_once() {
        assert_eq!(float(DType::F32, 0.1), "0.1f");
        assert_eq!(float(DType::F64, -1.0), "(-1.0)");
        assert_eq!(float(DType::F16, 2049.0), "2048.0f");
        assert_eq!(float(DType::F32, f64::NEG_INFINITY), "(-INFINITY)");
        assert_eq!(float(DType::F32, 1e30), "1e30f");
        assert_eq!(integer(DType::I32, -3), "(-3)");
        assert_eq!(integer(DType::F32, 16_777_217), "16777216.0f");
    }
}
