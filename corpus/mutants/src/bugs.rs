//! Bugs that people make, written by hand in `bugs/*.txt`: a text of a source and what stands there instead. Each is built as a
//! second body of its function.

use crate::edits::Edits;
use std::ops::Range;
use std::path::Path;
use syn::visit::{self, Visit};

/// A bug of the list.
#[derive(Clone, Debug)]
pub(crate) struct Bug {
    /// What is wrong, in a line.
    pub(crate) what: String,
    pub(crate) file: String,
    old: String,
    new: String,
    /// Where it is written down.
    place: String,
}

/// Where a bug lies in its source.
pub(crate) struct Found {
    /// The function's name.
    pub(crate) function: String,
    /// Where the old text stands.
    pub(crate) at: Range<usize>,
    /// Between the braces of the function.
    body: Range<usize>,
    new: String,
}

/// Every bug of the lists in a folder.
pub(crate) fn read(folder: &Path) -> Result<Vec<Bug>, String> {
    let listed =
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut bugs = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        bugs.extend(parse(&name, &text)?);
    }
    Ok(bugs)
}

/// Blocks of `bug:`, `file:`, lines that go (`-`) and lines that come (`+`), apart by empty lines; `#` comments.
fn parse(name: &str, text: &str) -> Result<Vec<Bug>, String> {
    let mut bugs: Vec<Bug> = Vec::new();
    let mut file = String::new();
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        if let Some(path) = line.strip_prefix("file: ") {
            file = path.trim().to_owned();
        } else if let Some(what) = line.strip_prefix("bug: ") {
            let (old, new) = (String::new(), String::new());
            bugs.push(Bug { what: what.trim().to_owned(), file: file.clone(), old, new, place });
        } else if let Some((sign @ ('-' | '+'), rest)) = split(line) {
            let bug = bugs.last_mut().ok_or_else(|| format!("{place}: no `bug:` before"))?;
            let side = if sign == '-' { &mut bug.old } else { &mut bug.new };
            side.push_str(rest.trim());
            side.push('\n');
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            return Err(format!("{place}: neither `file:`, `bug:`, `-` nor `+`"));
        }
    }
    Ok(bugs)
}

fn split(line: &str) -> Option<(char, &str)> {
    let sign = line.chars().next()?;
    Some((sign, &line[sign.len_utf8()..]))
}

impl Bug {
    /// Where the old text stands: once, in a function that does not run in the compiler.
    pub(crate) fn find(&self, source: &str) -> Result<Found, String> {
        let said = |why: &str| format!("{}: {}: {why}: {}", self.place, self.file, self.old.trim());
        let places = places(source, &self.old);
        let [at] = places.as_slice() else {
            return Err(said(&format!("the old text stands there {} times", places.len())));
        };
        let tree = syn::parse_file(source).map_err(|error| said(&error.to_string()))?;
        let mut functions = Functions { at: at.clone(), found: None };
        functions.visit_file(&tree);
        let (function, body) = functions.found.ok_or_else(|| said("it stands in no function"))?;
        Ok(Found { function, at: at.clone(), body, new: self.new.trim().to_owned() })
    }
}

/// Where a text stands, with any white space for white space.
fn places(source: &str, text: &str) -> Vec<Range<usize>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some(first) = words.first() else { return Vec::new() };
    let mut found = Vec::new();
    for (start, _) in source.match_indices(first) {
        let mut end = start;
        let mut fits = true;
        for (index, word) in words.iter().enumerate() {
            let rest = &source[end..];
            let skipped = rest.len() - rest.trim_start().len();
            let gap = if index == 0 { 0 } else { skipped };
            fits = fits && (index == 0 || gap > 0) && rest[gap..].starts_with(word);
            if !fits {
                break;
            }
            end += gap + word.len();
        }
        if fits {
            found.push(start..end);
        }
    }
    found
}

/// The function around a place.
struct Functions {
    at: Range<usize>,
    found: Option<(String, Range<usize>)>,
}

impl Functions {
    fn look(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let braces = &block.brace_token.span;
        let body = braces.open().byte_range().end..braces.close().byte_range().start;
        let within = body.start <= self.at.start && self.at.end <= body.end;
        if within && signature.constness.is_none() {
            self.found = Some((signature.ident.to_string(), body));
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.look(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.look(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.look(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

impl Found {
    /// The function with the bug, beside the one without.
    pub(crate) fn put(&self, number: u32, source: &str, edits: &mut Edits) {
        let before = &source[self.body.start..self.at.start];
        let after = &source[self.at.end..self.body.end];
        let text =
            format!(" if ::mutation::pick({number}) {{ {before}{}{after} }} else {{ ", self.new);
        edits.around(number, self.body.clone(), &text, " }");
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, read};
    use crate::edits::Edits;
    use std::path::Path;

    #[test]
    fn a_bug_is_a_second_body() {
        let bug = "file: f.rs\nbug: one too far\n- a  < b\n+ a <= b\n";
        let bug = &parse("list", bug).expect("a list")[0];
        let source = "fn f(a: u8, b: u8) -> bool {\n    a <\n        b\n}\n";
        let mut edits = Edits::default();
        bug.find(source).expect("it stands there").put(7, source, &mut edits);
        let text = edits.apply(source, |_| true).0;
        assert!(text.contains("if ::mutation::pick(7) { \n    a <= b\n }"), "{text}");
        assert!(syn::parse_file(&text).is_ok());
    }

    #[test]
    fn a_text_that_is_gone_or_stands_twice_is_an_error() {
        let bug = &parse("list", "file: f.rs\nbug: x\n- a < b\n+ a\n").expect("a list")[0];
        assert!(bug.find("fn f() { g() }").is_err());
        assert!(bug.find("fn f() { a < b; a < b }").is_err());
        assert!(bug.find("const A: bool = a < b;").is_err());
    }

    /// The lists do not rot: every old text stands where it is said to stand.
    #[test]
    fn every_bug_of_the_lists_can_still_be_made() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let bugs = read(&here.join("bugs")).expect("the lists can be read");
        let mut stale = Vec::new();
        for bug in &bugs {
            let source = std::fs::read_to_string(here.join("../..").join(&bug.file));
            let source = source.unwrap_or_default();
            stale.extend(bug.find(&source).err());
        }
        assert!(stale.is_empty(), "{}", stale.join("\n"));
        assert!(!bugs.is_empty());
    }
}
