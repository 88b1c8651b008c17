//! Decimal digits of floats: the fewest that read back to the same number of the dtype, cut off at
//! the precision of the display.

use crate::round::round_to;
use relax_syntax::dtype::DType;

/// Digits after the point at most.
fn precision(dtype: DType) -> usize {
    if matches!(dtype, DType::F16 | DType::BF16) { 4 } else { 8 }
}

/// `d.ddd` and the power of ten: as few digits as read back to the same number of `dtype`.
fn shortest(dtype: DType, value: f64) -> (String, i32) {
    let text = match dtype {
        DType::F64 => format!("{value:e}"),
        DType::F32 => format!("{:e}", value as f32),
        _ => (0..8)
            .map(|digits| format!("{value:.digits$e}"))
            .find(|text| text.parse().is_ok_and(|back| round_to(dtype, back) == value))
            .unwrap_or_else(|| format!("{value:e}")),
    };
    let (mantissa, exponent) = text.split_once('e').expect("invariant: `e` formatting writes an e");
    let exponent = exponent.parse().expect("invariant: `e` formatting writes an integer exponent");
    (mantissa.to_owned(), exponent)
}

/// The shortest digits without an exponent, `precision` of them after the point at most; always
/// with a point, without zeros at the end.
fn positional(dtype: DType, value: f64, precision: usize) -> String {
    let (mantissa, exponent) = shortest(dtype, value);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let after_point = usize::try_from(length - 1 - exponent).unwrap_or(0);
    if after_point > precision {
        let cut = format!("{value:.precision$}");
        return cut.trim_end_matches('0').to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    let padded = format!("{digits:0<whole$}");
    let (whole, fraction) = padded.split_at(whole);
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
}

/// `1.25e-05`, with at most or exactly that many digits after the point.
fn exponential(dtype: DType, value: f64, digits: Option<usize>) -> String {
    let (mut mantissa, mut exponent) = shortest(dtype, value);
    let limit = digits.unwrap_or_else(|| precision(dtype));
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if fraction > limit {
        let text = format!("{value:.limit$e}");
        if let Some((m, e)) = text.split_once('e') {
            mantissa = m.to_owned();
            exponent = e.parse().unwrap_or(exponent);
        }
    }
    if let Some(digits) = digits {
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((&mantissa, ""));
        mantissa = format!("{whole}.{fraction:0<digits$}");
    }
    join_exponent(&mantissa, exponent)
}

fn join_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("nan")
    } else if value == f64::INFINITY {
        Some("inf")
    } else if value == f64::NEG_INFINITY {
        Some("-inf")
    } else {
        None
    }
}

/// A float on its own: every digit that is needed to read it back.
pub(super) fn alone(dtype: DType, value: f64) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    if value == 0.0 || (1e-4..1e16).contains(&value.abs()) {
        let text = positional(dtype, value, usize::MAX);
        return if text.ends_with('.') { format!("{text}0") } else { text };
    }
    let (mantissa, exponent) = shortest(dtype, value);
    join_exponent(&mantissa, exponent)
}

/// How the floats of one tensor are written, so that they align.
pub(super) struct FloatStyle {
    dtype: DType,
    exponents: bool,
    /// Digits after the point, of the widest fraction.
    fraction: usize,
}

impl FloatStyle {
    /// Exponents when the magnitudes are extreme or far apart, as NumPy decides it.
    pub(super) fn of(dtype: DType, values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let magnitudes = || finite().map(f64::abs).filter(|&value| value != 0.0);
        let largest = magnitudes().fold(0.0, f64::max);
        let least = magnitudes().fold(f64::INFINITY, f64::min);
        let exponents =
            largest > 0.0 && (largest >= 1e8 || least < 1e-4 || largest / least > 1000.0);
        let text = |value| {
            if exponents {
                exponential(dtype, value, None)
            } else {
                positional(dtype, value, precision(dtype))
            }
        };
        let fraction = finite().map(|value| {
            let text = text(value);
            let mantissa = text.split('e').next().unwrap_or("");
            mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len())
        });
        Self { dtype, exponents, fraction: fraction.max().unwrap_or(0) }
    }

    /// One element; columns of them align at the right.
    pub(super) fn text(&self, value: f64) -> String {
        if let Some(text) = special(value) {
            return text.to_owned();
        }
        if self.exponents {
            return exponential(self.dtype, value, Some(self.fraction));
        }
        let text = positional(self.dtype, value, precision(self.dtype));
        let present = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        format!("{text}{}", " ".repeat(self.fraction - present))
    }
}
