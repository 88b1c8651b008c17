//! `docs/bugs-found.md`: the headers of `corpus/regressions/*.rx`.

use super::GENERATED;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What begins a line of a header that is for the harness.
const DIRECTIVES: [&str; 6] = ["run:", "trap[", "check:", "race:", "structure[", "params:"];

pub(super) fn page() -> String {
    let mut text = format!("# Bugs found\n\n{GENERATED}\n");
    text.push_str(
        "\nBugs found so far, each with its smallest reproducer, which is a regression test since.\n",
    );
    for path in regressions() {
        let name = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        let program = std::fs::read_to_string(&path).unwrap_or_default();
        let title = name.replace('_', " ");
        let _ = write!(
            text,
            "\n## {title}\n\n{}\n\n[{name}.rx](../corpus/regressions/{name}.rx)\n",
            header_text(&program)
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
fn header_text(program: &str) -> String {
    let header = program.lines().take_while(|line| line.starts_with('#'));
    let lines = header.map(|line| line.trim_start_matches('#').trim());
    let text = lines.filter(|line| !DIRECTIVES.iter().any(|start| line.starts_with(start)));
    text.collect::<Vec<_>>().join("\n")
}
