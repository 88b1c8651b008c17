//! MLIR by its first bytes: text, as StableHLO is given here, or bytecode.

/// The bytes that MLIR bytecode begins with, as those of `Exported.mlir_module_serialized` and of portable artifacts.
pub const BYTECODE: &[u8] = b"ML\xefR";

/// Bytes that are looked at.
const BEGIN: usize = 4096;

/// Whether bytes begin as MLIR text does: with a module, a function, or an alias of a location or an attribute.
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    let begin = &bytes[..bytes.len().min(BEGIN)];
    let begin = match std::str::from_utf8(begin) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&begin[..error.valid_up_to()]).unwrap_or_default(),
    };
    let mut lines = begin.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with("//")).is_some_and(is_first)
}

fn is_first(line: &str) -> bool {
    let operations = ["\"builtin.module\"(", "\"func.func\"(", "func.func "];
    if operations.iter().any(|word| line.starts_with(word)) {
        return true;
    }
    if let Some(rest) = line.strip_prefix("module") {
        let rest = rest.trim_start();
        return ["@", "{", "attributes "].iter().any(|next| rest.starts_with(next));
    }
    // `#loc1 = loc(unknown)`; a comment of a program has a space behind its mark, or no such alias.
    let Some(rest) = line.strip_prefix('#') else { return false };
    let Some((name, value)) = rest.split_once(" = ") else { return false };
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name && (value.starts_with("loc(") || value.starts_with('#') || value.contains('<'))
}

#[cfg(test)]
mod tests {
    use super::is_text;

    #[test]
    fn texts_are_told_apart() {
        for text in [
            "#loc = loc(unknown)\nmodule @jit_f {\n}",
            "// a comment\nmodule {\n}",
            "module @m attributes {a = 1 : i32} {",
            "func.func @main() {\n}",
            "\"builtin.module\"() ({\n}) : () -> ()",
        ] {
            assert!(is_text(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "module_attr(\"phase\", \"P1\")\ndef main(): ...",
            "# module @m {\ndef main(x: Object):\n    return x",
            "#n = 3 rows\ndef main(x: Object):\n    return x",
            "def main(x: Object):\n    return x",
        ] {
            assert!(!is_text(text.as_bytes()), "{text}");
        }
    }
}
