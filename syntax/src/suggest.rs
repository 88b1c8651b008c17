//! "Did you mean": the known words nearest to an unknown one, by edit distance.

/// How many are suggested at most.
const SUGGESTIONS: usize = 3;
/// Longer words are no misspellings, and the distance takes time in proportion to the length.
const LONGEST: usize = 64;
/// A list of at most this many known words is shown whole.
const LISTED: usize = 16;

/// The known words within a third of the length of edits, the nearest first. Words that are farther
/// than the nearest one are left out.
#[must_use]
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let length = word.chars().count();
    if length > LONGEST {
        return Vec::new();
    }
    let allowed = (length / 3).max(1);
    let lower = word.to_lowercase();
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed + 2)
        .map(|candidate| (edits(&lower, &candidate.to_lowercase()), candidate))
        // A word of which nothing is left is another word.
        .filter(|(distance, _)| *distance <= allowed && *distance < length)
        .collect();
    found.sort_unstable();
    found.dedup();
    let least = found.first().map_or(0, |(distance, _)| *distance);
    let nearest = found.into_iter().take_while(|(distance, _)| *distance == least);
    nearest.take(SUGGESTIONS).map(|(_, candidate)| candidate).collect()
}

/// What to say of an unknown word: what was probably meant, or the known words where they are few.
#[must_use]
pub fn hint(word: &str, known: &[&str]) -> Option<String> {
    let near = nearest(word, known.iter().copied());
    match (near.as_slice(), known) {
        ([], []) => None,
        ([], known) if known.len() <= LISTED => Some(format!("there is {}", quoted(known))),
        ([], _) => None,
        (near, _) => Some(format!("did you mean {}?", quoted(near))),
    }
}

/// `` `a`, `b` ``
#[must_use]
pub fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Edit distance with exchanges of neighbours (optimal string alignment), a row at a time.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
