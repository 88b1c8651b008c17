//! Mutants that nobody can tell from the program, each with the reason: `equal.txt`. They count neither way.

use crate::sites::Mutant;
use std::path::Path;

/// Mutants that change nothing that can be seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Equal {
    file: String,
    function: String,
    text: String,
    edit: String,
    why: String,
}

impl Equal {
    /// Is it this one?
    pub(crate) fn is(&self, mutant: &Mutant) -> bool {
        (&*self.file, &*self.function, &*self.text, &*self.edit)
            == (&*mutant.file, &*mutant.function, &*mutant.text, &*mutant.edit)
    }
}

/// The list: `why:`, `file:`, `function:`, `line:` and `edit:` in this order; what a later one leaves out is as before.
/// A bug that people wrote has no line, and its own words for an edit.
pub(crate) fn read(path: &Path) -> Result<Vec<Equal>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut equal = Vec::new();
    let mut current = Equal::default();
    for (index, line) in text.lines().enumerate() {
        let Some((key, value)) = line.split_once(':').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        let field = match key {
            "why" => &mut current.why,
            "file" => &mut current.file,
            "function" => &mut current.function,
            "line" => &mut current.text,
            "edit" => &mut current.edit,
            _ => return Err(format!("{}:{}: `{key}`", path.display(), index + 1)),
        };
        value.clone_into(field);
        if key == "edit" {
            equal.push(current.clone());
        }
    }
    Ok(equal)
}

#[cfg(test)]
mod tests {
    use super::{Equal, read};
    use crate::{bugs, sites};
    use std::path::Path;

    /// The list does not rot: each is a mutant that there is, and has its reason.
    #[test]
    fn every_equal_mutant_is_still_one() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let bugs = bugs::read(&here.join("bugs")).expect("the bugs can be read");
        for equal in read(&here.join("equal.txt")).expect("the list can be read") {
            let source = std::fs::read_to_string(here.join("../..").join(&equal.file));
            let source = source.unwrap_or_else(|error| panic!("{}: {error}", equal.file));
            let found = sites::find(&equal.file, &source, 0).expect("sources are Rust");
            let is_bug = bugs.iter().any(|bug| {
                let Equal { file, function, text, edit, .. } = &equal;
                let place = bug.find(&source);
                text.is_empty()
                    && (&bug.file, &bug.what) == (file, edit)
                    && place.is_ok_and(|place| place.function == *function)
            });
            let is_mutant = found.mutants.iter().any(|mutant| equal.is(mutant));
            assert!(is_mutant || is_bug, "stale: {equal:?}");
            assert!(!equal.why.is_empty(), "without a reason: {equal:?}");
        }
    }
}
