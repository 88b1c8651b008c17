//! How alike sentences are: the cosines of their embeddings, as a table.

use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that a sentence may take in the table.
const WIDEST_LABEL: usize = 48;

/// The cosine of the angle between every two vectors.
#[must_use]
pub fn cosines(vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let lengths: Vec<f64> = vectors.iter().map(|v| dot(v, v).sqrt()).collect();
    let cosine = |i: usize, j: usize| dot(&vectors[i], &vectors[j]) / (lengths[i] * lengths[j]);
    (0..vectors.len()).map(|i| (0..vectors.len()).map(|j| cosine(i, j)).collect()).collect()
}

/// A row a sentence; the columns are the sentences by number.
#[must_use]
pub fn table(sentences: &[String], cosines: &[Vec<f64>]) -> String {
    let number = sentences.len().to_string().len();
    let labels: Vec<String> = sentences.iter().map(|sentence| label(sentence)).collect();
    let widest = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let mut text = " ".repeat(number + 2 + widest);
    (1..=sentences.len()).for_each(|column| text.push_str(&format!("  {column:>7}")));
    text.push('\n');
    for (row, (label, cosines)) in labels.iter().zip(cosines).enumerate() {
        let space = " ".repeat(widest - label.width());
        let _ = write!(text, "{:>number$}  {label}{space}", row + 1);
        cosines.iter().for_each(|cosine| text.push_str(&format!("  {cosine:>7.4}")));
        text.push('\n');
    }
    text
}

/// A sentence on one line, shortened; what would move the cursor is a space.
fn label(sentence: &str) -> String {
    let plain: String = sentence.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if plain.width() <= WIDEST_LABEL {
        return plain;
    }
    let mut short = String::new();
    let mut width = 0;
    for c in plain.chars() {
        width += c.width().unwrap_or(0);
        if width >= WIDEST_LABEL {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_do_not_depend_on_lengths() {
        let found = cosines(&[vec![3.0, 0.0], vec![0.0, 0.5], vec![1.0, 1.0]]);
        let half = 0.5_f64.sqrt();
        let expected = [[1.0, 0.0, half], [0.0, 1.0, half], [half, half, 1.0]];
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
    }

    #[test]
    fn columns_align_whatever_the_sentences_are() {
        let long = "word ".repeat(40);
        let sentences =
            ["short", "広い文字", "two\nlines\x1b[2J", long.as_str()].map(str::to_owned);
        let text = table(&sentences, &vec![vec![-0.5; 4]; 4]);
        let widths: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(widths.len(), 5, "{text}");
        assert!(widths.iter().all(|&width| width == widths[0]), "{text}");
        assert!(text.contains('…') && !text.contains('\x1b'), "{text}");
    }
}
