//! `docs/bugs-found.md`: what the headers of `corpus/regressions/*.rx` tell.

use super::GENERATED;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What begins a line of a header that is for the harness.
const DIRECTIVES: [&str; 6] = ["run:", "trap[", "check:", "race:", "structure[", "params:"];

pub(super) fn page() -> String {
    let mut text = format!("# Bugs found\n\n{GENERATED}\n");
    text.push_str(
        "\nMistakes that were found after they were made, each with the smallest program that shows it, \
         which runs with every test since.\n",
    );
    for path in regressions() {
        let name = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        let program = std::fs::read_to_string(&path).unwrap_or_default();
        let title = name.replace('_', " ");
        let _ = write!(
            text,
            "\n## {title}\n\n{}\n\n[{name}.rx](../corpus/regressions/{name}.rx)\n",
            told(&program)
        );
    }
    text
}

/// The programs of `corpus/regressions/`, in the order of their names.
fn regressions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/regressions");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_program = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rx");
    let mut programs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_program).collect();
    programs.sort();
    programs
}

/// The sentences of a header, as they are wrapped there.
fn told(program: &str) -> String {
    let header = program.lines().take_while(|line| line.starts_with('#'));
    let lines = header.map(|line| line.trim_start_matches('#').trim());
    let told = lines.filter(|line| !DIRECTIVES.iter().any(|start| line.starts_with(start)));
    told.collect::<Vec<_>>().join("\n")
}
