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

/// Whether each thread looks, at the end of an entry, whether its loops were ended early (`rx_look_for_cut_loops`). A device whose
/// driver may do that compiles the text with [`LOOKS`] in the place of this line: an `override` would have naga fold the text anew.
pub(crate) const LOOKS_NOT: &str = "const rx_counts_loops = false;";
/// See [`LOOKS_NOT`].
#[cfg(feature = "wgpu")]
pub(crate) const LOOKS: &str = "const rx_counts_loops = true;";

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

/// Most iterations of loops that the functions take which a text calls, if it comes to each call once; none where they depend on
/// what they are called with.
pub(crate) fn iterations(text: &str) -> Option<u64> {
    let known = functions().into_iter().collect();
    calls(text)
        .into_iter()
        .try_fold(0, |sum: u64, name| Some(sum.saturating_add(in_function(&known, name)?)))
}

/// Iterations of the loops of a function and of those that it calls; 0 for a name that is none of the prelude.
fn in_function(known: &BTreeMap<&str, &str>, name: &str) -> Option<u64> {
    let Some((_, body)) = known.get(name).and_then(|text| text.split_once(") ")) else {
        return Some(0);
    };
    in_text(known, body)
}

/// The same of a part of a function.
fn in_text(known: &BTreeMap<&str, &str>, text: &str) -> Option<u64> {
    let (before, rest) = text.split_once("for (").unwrap_or((text, ""));
    let straight = calls(before)
        .into_iter()
        .try_fold(0, |sum: u64, name| Some(sum.saturating_add(in_function(known, name)?)))?;
    let Some((head, rest)) = rest.split_once(") {") else { return Some(straight) };
    let (body, rest) = split_at_brace(rest);
    let turns = turns(head)?;
    let each = in_text(known, body)?.saturating_add(in_text(known, head)?).saturating_add(1);
    let looped = turns.saturating_mul(each);
    Some(straight.saturating_add(looped).saturating_add(in_text(known, rest)?))
}

/// What is before and after the brace that ends a body.
fn split_at_brace(text: &str) -> (&str, &str) {
    let mut depth = 0u32;
    let end = text.find(|c| {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return true,
            '}' => depth -= 1,
            _ => {}
        }
        false
    });
    let end = end.unwrap_or(text.len());
    (&text[..end], text.get(end + 1..).unwrap_or(""))
}

/// How often a loop is gone through, and one more for the question at its end: from the greatest literal of its head.
fn turns(head: &str) -> Option<u64> {
    // An integer of 32 bits that is halved.
    if head.contains("/ 2i") {
        return Some(33);
    }
    // As often as an argument says.
    if head.contains("abs(") {
        return None;
    }
    let words = head.split(|c: char| !c.is_ascii_alphanumeric());
    let literals = words.filter_map(|word| word.strip_suffix('i')?.parse::<u64>().ok());
    Some(literals.max()? + 2)
}

#[cfg(test)]
mod tests {
    use super::{functions, in_text, iterations, of};

    #[test]
    fn iterations_of_functions_are_bounded() {
        let of = |text: &str| in_text(&functions().into_iter().collect(), text);
        assert_eq!(of("for (var n = rx_few(24i); n >= 1i; n--) { x = x + 1; }"), Some(26));
        let nested = "for (var a = 0i; a < 3i; a++) { for (var b = 9i; b >= 0i; b--) {} } y;";
        assert_eq!(of(nested), Some(5 * (11 + 1)));
        let after =
            "for (var a = 0i; a < 3i; a++) { if x { y; } } for (var b = 9i; b >= 0i; b--) {}";
        assert_eq!(of(after), Some(5 + 11));
        assert_eq!(of("for (var rest = abs(k); rest > 0i; rest = rest / 2i) {}"), Some(33));
        assert_eq!(of("for (var n = 0i; n < i32(abs(b)); n++) {}"), None);
        assert_eq!(iterations("let a = b + rx_few(3i);"), Some(0));
        let once = iterations("rx_exp_f64(x)").expect("it has a bound");
        assert!((15..200).contains(&once), "{once}");
        assert_eq!(iterations("rx_exp_f64(x) + rx_exp_f64(y)"), Some(2 * once));
        let within = of("for (var a = 0i; a < 3i; a++) { y = rx_exp_f64(y); }");
        assert_eq!(within, Some(5 * (once + 1)));
        assert_eq!(iterations("rx_pow_f64(x, y)"), None);
        let twice = iterations("rx_fmod_f32(x, y)").expect("it has a bound");
        assert!(twice >= 300 * 300, "{twice}");
    }

    #[test]
    fn a_text_gets_what_it_calls() {
        let text = of("let a = rx_floormod_f32(x, y);");
        assert!(text.contains("fn rx_fmod_f32"));
        assert!(text.contains("fn rx_bits"));
        assert!(!text.contains("fn rx_exp_f32"));
        assert_eq!(of("a + b"), "");
    }
}
