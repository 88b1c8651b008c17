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
/// what they are called with. Loops of a function may be nested.
pub(crate) fn iterations(text: &str) -> Option<u64> {
    fn of_calls(known: &BTreeMap<&str, &str>, text: &str, within: &[&str]) -> Option<u64> {
        calls(text).into_iter().filter(|name| !within.contains(name)).try_fold(
            0,
            |sum: u64, name| {
                let Some(body) = known.get(name) else { return Some(sum) };
                let own = loops(body)?;
                let called = of_calls(known, body, &[within, &[name]].concat())?;
                Some(sum.saturating_add(
                    own.saturating_add(own.saturating_add(1).saturating_mul(called)),
                ))
            },
        )
    }
    of_calls(&functions().into_iter().collect(), text, &[])
}

/// Iterations of the loops of a function, as if each were within the others: from the greatest literal of each head.
fn loops(body: &str) -> Option<u64> {
    let heads = body.split("for (").skip(1).map(|rest| rest.split(") {").next().unwrap_or(rest));
    let mut all = heads.map(|head| {
        let words = head.split(|c: char| !c.is_ascii_alphanumeric());
        let literals = words.filter_map(|word| word.strip_suffix('i')?.parse::<u64>().ok());
        let most = match (head.contains("/ 2i"), head.contains("abs(")) {
            // An integer of 32 bits that is halved.
            (true, _) => Some(32),
            (false, true) => None,
            (false, false) => literals.max(),
        };
        most.map(|most| most + 2)
    });
    all.try_fold(1, |product: u64, turns| Some(product.saturating_mul(turns?))).map(|it| it - 1)
}

#[cfg(test)]
mod tests {
    use super::{iterations, loops, of};

    #[test]
    fn iterations_of_functions_are_bounded() {
        assert_eq!(loops("fn f() { for (var n = rx_few(24i); n >= 1i; n--) { g(); } }"), Some(25));
        let nested = "for (var a = 0i; a < 3i; a++) { for (var b = 9i; b >= 0i; b--) {} }";
        assert_eq!(loops(nested), Some(5 * 11 - 1));
        assert_eq!(loops("for (var rest = abs(k); rest > 0i; rest = rest / 2i) {}"), Some(33));
        assert_eq!(loops("for (var n = 0i; n < i32(abs(b)); n++) {}"), None);
        assert_eq!(iterations("let a = b + rx_few(3i);"), Some(0));
        let once = iterations("rx_exp_f64(x)").expect("it has a bound");
        assert!((15..10_000).contains(&once), "{once}");
        assert_eq!(iterations("rx_exp_f64(x) + rx_exp_f64(y)"), Some(2 * once));
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
