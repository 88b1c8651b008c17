//! Where operations come from: the first line of Python that a location names.

use super::syntax::{Module, Op};

/// Aliases that are followed.
const DEEPEST: usize = 16;

pub(super) struct Places<'m> {
    module: &'m Module,
}

impl<'m> Places<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        Self { module }
    }

    /// The last part of the path and the line, as `model.py:14`.
    pub(super) fn of(&self, op: &Op) -> Option<String> {
        place(self.module, op.location.as_deref()?, 0)
    }
}

fn place(module: &Module, location: &str, depth: usize) -> Option<String> {
    if depth > DEEPEST {
        return None;
    }
    let mut rest = location;
    while let Some(at) = rest.find(['"', '#']) {
        if rest[at..].starts_with('#') {
            let name = &rest[at + 1..];
            let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
            let inner = module.locations.get(&name[..end]);
            if let Some(found) = inner.and_then(|inner| place(module, inner, depth + 1)) {
                return Some(found);
            }
            rest = &name[end..];
            continue;
        }
        let quoted = &rest[at + 1..];
        let end = quoted.find('"')?;
        let after = &quoted[end + 1..];
        if let Some(line) = after.strip_prefix(':') {
            let file = quoted[..end].rsplit('/').next().unwrap_or_default();
            let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
            return Some(format!("{file}:{}", &line[..digits]));
        }
        rest = after;
    }
    None
}

/// The name that a location gives to a value: `"x"`, with nothing behind it.
pub(super) fn name(module: &Module, location: &str) -> Option<String> {
    let mut location = location;
    for _ in 0..DEEPEST {
        match location.strip_prefix('#') {
            Some(alias) => location = module.locations.get(alias)?,
            None => break,
        }
    }
    let name = location.strip_prefix('"')?.strip_suffix('"')?;
    (!name.is_empty() && !name.contains('"')).then(|| name.to_owned())
}
