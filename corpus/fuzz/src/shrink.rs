//! Shrinker: removes lines and parameters, and replaces calls by operands, as long as the oracle reports the same
//! finding. It works on the text, so that the remaining lines stay as they were written.

use crate::case::{Case, Finding};
use crate::oracles::Oracle;
use crate::session::{Found, Statistics, try_one};
use relax_rewrite::pass::Device;
use std::collections::BTreeSet;

/// Programs that are tried.
const TRIES: usize = 3000;

/// The smallest program that was found to show the same, with what it shows.
#[must_use]
pub fn shrink(found: &Found, backend: Device) -> Found {
    let mut state = State { found: found.clone(), backend, tries: 0 };
    loop {
        let before = state.found.text.len();
        state.drop_blocks();
        state.simplify_calls();
        state.rename_uses();
        state.drop_parameters();
        state.drop_annotations();
        if state.found.text.len() >= before || state.tries >= TRIES {
            return state.found;
        }
    }
}

struct State {
    found: Found,
    backend: Device,
    tries: usize,
}

impl State {
    fn lines(&self) -> Vec<String> {
        self.found.text.lines().map(str::to_owned).collect()
    }

    /// Takes another text when it shows the same.
    fn accept(&mut self, text: String) -> bool {
        if self.tries >= TRIES || text == self.found.text {
            return false;
        }
        self.tries += 1;
        match shows(self.found.oracle, &text, self.found.seed, self.backend) {
            Some(finding) if finding.kind == self.found.finding.kind => {
                (self.found.text, self.found.finding) = (text, finding);
                true
            }
            _ => false,
        }
    }

    /// A line with what is indented under it; large ones first, later ones first.
    fn drop_blocks(&mut self) {
        for longest in [usize::MAX, 8, 4, 2, 1] {
            let mut at = self.lines().len();
            while at > 0 {
                at -= 1;
                let lines = self.lines();
                if at >= lines.len() || lines[at].trim().is_empty() {
                    continue;
                }
                let end = if longest == usize::MAX {
                    block_end(&lines, at)
                } else {
                    (at + longest).min(lines.len())
                };
                let mut kept = lines[..at].to_vec();
                kept.extend_from_slice(&lines[end..]);
                self.accept(joined(&kept));
            }
        }
        // A header without what is under it, which moves out.
        for at in (0..self.lines().len()).rev() {
            let lines = self.lines();
            if at < lines.len() && (lines[at].ends_with("dataflow():") || lines[at].contains("if "))
            {
                let end = block_end(&lines, at);
                let mut kept = lines[..at].to_vec();
                kept.extend(
                    lines[at + 1..end]
                        .iter()
                        .map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned()),
                );
                kept.extend_from_slice(&lines[end..]);
                self.accept(joined(&kept));
            }
        }
    }

    /// The value of a binding becomes one of the names in it.
    fn simplify_calls(&mut self) {
        for at in 0..self.lines().len() {
            let lines = self.lines();
            let Some((target, value)) = lines.get(at).and_then(|line| line.split_once(" = "))
            else {
                continue;
            };
            for name in words(value) {
                let mut tried = lines.clone();
                tried[at] = format!("{target} = {name}");
                if self.accept(joined(&tried)) {
                    break;
                }
            }
        }
    }

    /// A name becomes another one everywhere below its binding, which then can go.
    fn rename_uses(&mut self) {
        for at in (0..self.lines().len()).rev() {
            let lines = self.lines();
            let Some((target, value)) = lines.get(at).and_then(|line| line.split_once(" = "))
            else {
                continue;
            };
            let target = target.trim().split(':').next().unwrap_or_default().to_owned();
            for name in words(value) {
                let mut tried = lines[..at].to_vec();
                tried.extend(lines[at + 1..].iter().map(|line| replaced(line, &target, &name)));
                if self.accept(joined(&tried)) {
                    break;
                }
            }
        }
    }

    fn drop_parameters(&mut self) {
        for at in 0..self.lines().len() {
            let mut index = 0;
            loop {
                let lines = self.lines();
                let Some((head, params, tail)) = lines.get(at).and_then(|line| header(line)) else {
                    break;
                };
                if index >= params.len() {
                    break;
                }
                let mut fewer = params.clone();
                fewer.remove(index);
                let mut tried = lines.clone();
                tried[at] = format!("{head}({}){tail}", fewer.join(", "));
                if !self.accept(joined(&tried)) {
                    index += 1;
                }
            }
        }
    }

    /// Annotations of bindings and results, facts.
    fn drop_annotations(&mut self) {
        for at in 0..self.lines().len() {
            let mut tried = self.lines();
            let Some(line) = tried.get(at).cloned() else { continue };
            let shorter = match (line.find(") -> "), line.split_once(": Tensor(")) {
                (Some(arrow), _) => format!("{}:", &line[..=arrow]),
                (None, Some((name, rest))) if !line.contains("def ") => {
                    match rest.split_once(" = ") {
                        Some((_, value)) => format!("{name} = {value}"),
                        None => continue,
                    }
                }
                _ => continue,
            };
            tried[at] = shorter;
            self.accept(joined(&tried));
        }
    }
}

fn shows(oracle: Oracle, text: &str, seed: u64, backend: Device) -> Option<Finding> {
    let mut statistics = Statistics::default();
    let read = std::panic::catch_unwind(|| Case::read(text, seed));
    match read {
        Ok(case) => try_one(oracle, &case?, backend, &mut statistics).err(),
        Err(_) => Some(Finding::new("panic", "a panic", "check FILE")),
    }
}

fn joined(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

/// Where what is indented under a line ends.
fn block_end(lines: &[String], at: usize) -> usize {
    let indent = |line: &String| line.len() - line.trim_start().len();
    let own = indent(&lines[at]);
    let decorated = usize::from(lines[at].starts_with('@'));
    let rest = lines.iter().enumerate().skip(at + 1 + decorated);
    let mut rest = rest.filter(|(_, line)| !line.trim().is_empty());
    rest.find(|(_, line)| indent(line) <= own).map_or(lines.len(), |(end, _)| end)
}

/// The names in a text, once each.
fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.ends_with(|c: char| c.is_ascii_digit() || word.len() == 1)
    };
    let names: BTreeSet<String> = split.filter(is_name).map(str::to_owned).collect();
    names.into_iter().collect()
}

/// A line with one name in the place of another.
fn replaced(line: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars().chain(std::iter::once('\n')) {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        out.push_str(if word == from { to } else { &word });
        word.clear();
        if c != '\n' {
            out.push(c);
        }
    }
    out
}

/// What stands before the parameters of a `def`, the parameters, and what stands behind.
fn header(line: &str) -> Option<(String, Vec<String>, String)> {
    if !line.starts_with("def ") {
        return None;
    }
    let open = line.find('(')?;
    let (mut depth, mut params, mut current) = (0_usize, Vec::new(), String::new());
    for (at, c) in line.char_indices().skip(open) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            params.push(current);
            params.retain(|param| !param.trim().is_empty());
            let params = params.iter().map(|param| param.trim().to_owned()).collect();
            return Some((line[..open].to_owned(), params, line[at + 1..].to_owned()));
        }
        if c == ',' && depth == 1 {
            params.push(std::mem::take(&mut current));
        } else if at > open {
            current.push(c);
        }
    }
    None
}
