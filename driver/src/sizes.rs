//! Numbers of bytes as people read them.

/// Bytes in binary units, such as `1.5 MiB`.
#[must_use]
pub fn binary(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = if bytes < 1.0 { 0 } else { (bytes.log2() / 10.0) as usize };
    let power = power.min(units.len() - 1);
    let scaled = bytes / 1024f64.powi(i32::try_from(power).unwrap_or(0));
    let text = format!("{scaled:.1}");
    format!("{} {}", text.trim_end_matches(".0"), units[power])
}

/// The number that a text such as `8G`, `512M` or `4096` says, in binary units; `None` for other texts and beyond u64.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => Some(1_u64),
        "K" | "KB" | "KIB" => Some(1 << 10),
        "M" | "MB" | "MIB" => Some(1 << 20),
        "G" | "GB" | "GIB" => Some(1 << 30),
        "T" | "TB" | "TIB" => Some(1 << 40),
        _ => None,
    };
    digits.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::{binary, bytes};

    #[test]
    fn texts_have_binary_units() {
        let read = ["0", "17", "3b", "2K", "2kib", "5MB", "1g", "16T"].map(bytes);
        let expected = [0, 17, 3, 2048, 2048, 5 << 20, 1 << 30, 16 << 40].map(Some);
        assert_eq!(read, expected);
        let wrong = ["", "K", "1.5M", "-1", "1 M", "1P", "M1", "18014398509481984K"];
        assert!(wrong.into_iter().all(|text| bytes(text).is_none()));
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1.0, 1023.0, 1024.0, 1536.0, 10_240.0, 1_048_576.0].map(binary);
        assert_eq!(shown, ["0 B", "1 B", "1023 B", "1 KiB", "1.5 KiB", "10 KiB", "1 MiB"]);
        assert_eq!(binary(f64::from(u32::MAX) + 1.0), "4 GiB");
    }
}
