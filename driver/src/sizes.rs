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

#[cfg(test)]
mod tests {
    use super::binary;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1.0, 1023.0, 1024.0, 1536.0, 10_240.0, 1_048_576.0].map(binary);
        assert_eq!(shown, ["0 B", "1 B", "1023 B", "1 KiB", "1.5 KiB", "10 KiB", "1 MiB"]);
        assert_eq!(binary(f64::from(u32::MAX) + 1.0), "4 GiB");
    }
}
