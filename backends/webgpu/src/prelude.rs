//! The functions that WGSL lacks. A kernel gets those that it calls, and what they call: a device compiles each text. Loops
//! over terms of a series have a bound that compilers do not see (`rx_few`), or they write each term out.
//! What keeps a value from being folded (`rx_keep`) is no product with 1 for f64: a driver takes common factors out of sums.

use std::collections::{BTreeMap, BTreeSet};

const PARTS: [&str; 4] = [
    include_str!("prelude/integers.wgsl"),
    include_str!("prelude/rounding.wgsl"),
    include_str!("prelude/functions.wgsl"),
    include_str!("prelude/doubles.wgsl"),
];

/// Every function by its name, in the order of the files.
fn functions() -> Vec<(&'static str, &'static str)> {
    let texts = PARTS.iter().flat_map(|part| part.split("\n\n"));
    texts
        .filter_map(|text| Some((called(text.trim_start().strip_prefix("fn ")?), text.trim())))
        .collect()
}

/// The name that a text begins with.
fn called(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The functions that a text needs, each before those that call it.
pub(crate) fn of(text: &str) -> String {
    let functions = functions();
    let known: BTreeMap<&str, &str> = functions.iter().copied().collect();
    let mut needed = BTreeSet::new();
    let mut open = calls(text);
    while let Some(name) = open.pop() {
        if let Some(body) = known.get(name)
            && needed.insert(name)
        {
            open.extend(calls(body));
        }
    }
    let wanted = functions.iter().filter(|(name, _)| needed.contains(name));
    wanted.map(|(_, body)| format!("{body}\n\n")).collect()
}

fn calls(text: &str) -> Vec<&str> {
    text.match_indices("rx_").map(|(at, _)| called(&text[at..])).collect()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_text_gets_what_it_calls() {
        let text = of("let a = rx_floormod_f32(x, y);");
        assert!(text.contains("fn rx_fmod_f32"));
        assert!(text.contains("fn rx_bits"));
        assert!(!text.contains("fn rx_exp_f32"));
        assert_eq!(of("a + b"), "");
    }
}
