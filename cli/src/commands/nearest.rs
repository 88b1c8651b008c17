//! "Did you mean": the known words that are near to one that is not.

use crate::exit::Failure;

/// How many are suggested at most.
const SUGGESTIONS: usize = 3;

/// The error for an unknown word of some kind, with what was probably meant.
pub(super) fn unknown(kind: &str, word: &str, known: &[&str]) -> Failure {
    let near = nearest(word, known);
    let hint = match (near.as_slice(), known) {
        ([], []) => String::new(),
        ([], known) if known.len() <= 12 => format!("; there is {}", quoted(known)),
        ([], _) => String::new(),
        (near, _) => format!("; did you mean {}?", quoted(near)),
    };
    Failure::usage(format!("there is no {kind} `{word}`{hint}"))
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The known words within a third of the length of edits, the nearest first.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Vec<&'k str> {
    let allowed = (word.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = known
        .iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed + 2)
        .map(|candidate| (edits(&word.to_lowercase(), &candidate.to_lowercase()), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    found.sort_unstable();
    found.into_iter().take(SUGGESTIONS).map(|(_, candidate)| candidate).collect()
}

/// Levenshtein's distance, one row at a time.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_come_first() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(nearest("matmull", &["add", "matmul", "mul"]), ["matmul"]);
        assert_eq!(nearest("rx0203", &["RX0203", "RX0303"]), ["RX0203", "RX0303"]);
        assert!(nearest("zzz", &["add"]).is_empty());
        assert!(nearest("", &["add"]).is_empty());
    }
}
