//! Decimal integers that the lexer of the language has no token for: written as `(a * 2^62 + b)` before a statement is parsed.

/// Bits of the lowest part.
pub(super) const BITS: u32 = 62;

/// The greatest integer that the prover calculates with.
const MOST: u128 = 1 << 110;

/// The text with every decimal integer beyond u64 split.
pub(super) fn split(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_of_name) {
        let (before, word) = rest.split_at(at);
        let end = word.find(|c| !is_of_name(c));
        let (word, after) = word.split_at(end.unwrap_or(word.len()));
        out.push_str(before);
        push(&mut out, word)?;
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Adds a name or a number.
fn push(out: &mut String, word: &str) -> Result<(), String> {
    let is_decimal = word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || c == '_');
    let digits = word.replace('_', "");
    if !is_decimal || digits.parse::<u64>().is_ok() {
        out.push_str(word);
        return Ok(());
    }
    match digits.parse::<u128>() {
        Ok(value) if value <= MOST => {
            out.push_str(&written(value));
            Ok(())
        }
        _ => Err("an integer beyond 2^110: the prover does not calculate with it".to_owned()),
    }
}

fn written(value: u128) -> String {
    let (high, low) = (value >> BITS, value % (1 << BITS));
    format!("({high} * {} + {low})", 1_u128 << BITS)
}

/// Whether names, keywords and numbers have it.
pub(crate) fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
