//! Edits of the text of a certificate.

use super::Compiled;
use super::random::Random;
use relax_validation::check::verify;

/// Edits of each certificate.
const EDITS: u64 = 260;

/// How many edits are refused, and how many are accepted and change nothing that is said.
pub(crate) fn corrupt(compiled: &Compiled) -> (usize, usize) {
    let lines: Vec<&str> = compiled.text.lines().collect();
    let (mut refused, mut harmless) = (0, 0);
    for seed in 0..EDITS {
        let Some(text) = edited(&lines, &mut Random::new(seed + 1), seed) else { continue };
        if text == compiled.text {
            continue;
        }
        match verify(&text, None) {
            Err(_) => refused += 1,
            Ok(verified) => {
                let is_same = compiled.is_same(&verified);
                assert!(
                    is_same,
                    "{}: edit {seed} is accepted: {}",
                    compiled.name,
                    shown(&lines, &text)
                );
                harmless += 1;
            }
        }
    }
    (refused, harmless)
}

/// The lines that an edit changed.
fn shown(lines: &[&str], text: &str) -> String {
    let edited: Vec<&str> = text.lines().collect();
    let pairs = lines.iter().zip(&edited).enumerate().filter(|(_, (old, new))| old != new);
    let all = pairs.map(|(at, (old, new))| format!("\n{at}: {old}\n{at}: {new}"));
    all.take(4).collect()
}

/// One edit. Texts of stages are long, so lines are chosen, not characters.
fn edited(lines: &[&str], random: &mut Random, seed: u64) -> Option<String> {
    let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let at = random.below(lines.len());
    let other = random.below(lines.len());
    match seed % 8 {
        0 => _ = lines.remove(at),
        1 => lines.swap(at, other),
        2 => {
            let copy = lines[other].clone();
            lines[at] = copy;
        }
        3 | 4 => lines[at] = other_digit(&lines[at], random)?,
        5 => lines[at] = other_relation(&lines[at], random)?,
        6 => {
            let copy = lines[at].clone();
            lines.insert(other, copy);
        }
        _ => {
            let end = random.below(lines[at].len().max(1));
            let cut: String = lines[at].chars().take(end).collect();
            lines[at] = cut;
        }
    }
    Some(lines.join("\n") + "\n")
}

/// A number that is another one by 1.
fn other_digit(line: &str, random: &mut Random) -> Option<String> {
    let digits: Vec<usize> =
        line.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
    let at = *digits.get(random.below(digits.len().max(1)))?;
    let digit = line.as_bytes()[at] - b'0';
    let other = char::from(b'0' + (digit + 1) % 10);
    Some(format!("{}{other}{}", &line[..at], &line[at + 1..]))
}

/// Another relation, or another operation.
fn other_relation(line: &str, random: &mut Random) -> Option<String> {
    let pairs =
        [(">=", "=="), ("==", "!="), ("<=", "<"), (" < ", " <= "), (" + ", " - "), (" * ", " + ")];
    let start = random.below(pairs.len());
    let pairs = pairs[start..].iter().chain(&pairs[..start]);
    let mut found = pairs.filter_map(|(from, to)| line.find(from).map(|at| (at, from, to)));
    let (at, from, to) = found.next()?;
    Some(format!("{}{to}{}", &line[..at], &line[at + from.len()..]))
}
