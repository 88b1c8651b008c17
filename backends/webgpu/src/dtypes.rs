//! How WGSL holds each dtype: in memory, where every element of at most 32 bits is a word of its own and 64 bits are two, but for
//! f16 where the device has it; and while it is computed with.

use crate::{Doubles, Formats, Halves};
use relax_semantics::round::{int_to_odd_f64, to_bf16, to_f16};
use relax_syntax::dtype::DType;

/// The type of an element in memory.
pub(crate) fn stored(dtype: DType, formats: Formats) -> &'static str {
    match dtype {
        DType::F16 if formats.halves == Halves::Native => "f16",
        DType::F32 => "f32",
        DType::F64 => held(dtype, formats.doubles),
        DType::I8 | DType::I16 | DType::I32 => "i32",
        DType::F16 | DType::BF16 | DType::U8 | DType::U16 | DType::U32 | DType::Bool => "u32",
        DType::I64 | DType::U64 => "vec2<u32>",
    }
}

/// The type of a value.
pub(crate) fn held(dtype: DType, doubles: Doubles) -> &'static str {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => "f32",
        DType::F64 if doubles == Doubles::Native => "f64",
        DType::F64 => "f32",
        DType::I8 | DType::I16 | DType::I32 => "i32",
        DType::U8 | DType::U16 | DType::U32 => "u32",
        DType::I64 | DType::U64 => "vec2<u32>",
        DType::Bool => "bool",
    }
}

/// Words of 32 bits that so many elements take in a buffer of the device.
pub(crate) fn words(dtype: DType, count: u64, formats: Formats) -> u64 {
    match dtype {
        DType::F16 if formats.halves == Halves::Native => count.div_ceil(2),
        DType::F64 if formats.doubles == Doubles::Narrowed => count,
        DType::F64 | DType::I64 | DType::U64 => count.saturating_mul(2),
        _ => count,
    }
}

/// Whether memory holds it in another form than values.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The name of an element of memory as a value.
pub(crate) fn loaded(dtype: DType, element: String, formats: Formats) -> String {
    match dtype {
        DType::F16 if formats.halves == Halves::Native => format!("f32({element})"),
        DType::F16 | DType::BF16 => format!("rx_f32_of_{dtype}({element})"),
        DType::Bool => format!("({element} != 0u)"),
        _ => element,
    }
}

/// A value as an element of memory.
pub(crate) fn to_store(dtype: DType, value: String, formats: Formats) -> String {
    match dtype {
        // A value is one of f16 already, whatever way the device would round.
        DType::F16 if formats.halves == Halves::Native => format!("f16({value})"),
        DType::F16 | DType::BF16 => format!("rx_{dtype}_of_f32({value})"),
        DType::Bool => format!("select(0u, 1u, {value})"),
        _ => value,
    }
}

/// A float as a literal of `dtype`, rounded once.
pub(crate) fn float(dtype: DType, value: f64, doubles: Doubles) -> String {
    let value = match dtype {
        DType::F16 => to_f16(value).to_f64(),
        DType::BF16 => to_bf16(value).to_f64(),
        _ => value,
    };
    if dtype == DType::F64 && doubles == Doubles::Native {
        return double(value);
    }
    let narrow = value as f32;
    if !narrow.is_normal() && narrow.to_bits() != 0 {
        return format!("rx_bits({:#x}u)", narrow.to_bits());
    }
    signed(value.is_sign_negative(), format!("{:?}f", narrow.abs()))
}

/// Subnormal numbers are none of WGSL's literals; they are made of two that are.
fn double(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        return "rx_nan_f64()".to_owned();
    }
    let text = if size.is_infinite() {
        "rx_inf_f64()".to_owned()
    } else if size == 0.0 {
        "rx_d(0.0f)".to_owned()
    } else if size < f64::MIN_POSITIVE {
        format!("({:?}lf * rx_power_f64(-100i))", size * f64::powi(2.0, 100))
    } else {
        format!("{size:?}lf")
    };
    signed(value.is_sign_negative(), text)
}

fn signed(negative: bool, text: String) -> String {
    if negative { format!("(-{text})") } else { text }
}

/// An integer literal as a value of `dtype`, of which it is one.
pub(crate) fn integer(dtype: DType, value: i64, doubles: Doubles) -> String {
    match dtype {
        DType::F64 => float(dtype, value as f64, doubles),
        DType::F32 => float(dtype, f64::from(value as f32), doubles),
        DType::F16 | DType::BF16 => float(dtype, int_to_odd_f64(i128::from(value)), doubles),
        DType::I64 | DType::U64 => {
            let bits = value as u64;
            format!("vec2<u32>({}u, {}u)", bits as u32, bits >> 32)
        }
        DType::U8 | DType::U16 | DType::U32 => format!("{}u", value as u32),
        DType::Bool => (value != 0).to_string(),
        DType::I8 | DType::I16 | DType::I32 => index(value),
    }
}

/// An integer of 32 bits as a literal.
pub(crate) fn index(value: i64) -> String {
    if value == i64::from(i32::MIN) {
        return "(-2147483647i - 1i)".to_owned();
    }
    signed(value < 0, format!("{}i", value.unsigned_abs()))
}

/// The functions of 64-bit integers are named by sign where that matters.
pub(crate) fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::U64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_round_once() {
        let doubles = Doubles::Native;
        assert_eq!(float(DType::F32, 0.1, doubles), "0.1f");
        assert_eq!(float(DType::F64, -1.0, doubles), "(-1.0lf)");
        assert_eq!(float(DType::F64, 0.1, Doubles::Narrowed), "0.1f");
        assert_eq!(float(DType::F16, 2049.0, doubles), "2048.0f");
        assert_eq!(float(DType::F32, f64::NEG_INFINITY, doubles), "rx_bits(0xff800000u)");
        assert_eq!(integer(DType::I64, -1, doubles), "vec2<u32>(4294967295u, 4294967295u)");
        assert_eq!(integer(DType::U8, 200, doubles), "200u");
        assert_eq!(index(i64::from(i32::MIN)), "(-2147483647i - 1i)");
    }
}
