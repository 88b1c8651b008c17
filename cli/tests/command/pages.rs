//! Completion scripts and man pages.

use super::folder::{Folder, object, text};
use std::process::{Command, Stdio};

/// What `relax --help` lists.
pub(crate) fn subcommands() -> Vec<String> {
    let help = super::relax(&["--help"]).output().expect("the command runs").stdout;
    let help = text(&help);
    let listed = help.split_once("Usage:").expect("help has a usage").1;
    let listed = listed.split_once("\nOptions:").expect("help lists options").0;
    let row = |line: &str| Some(line.strip_prefix("  ")?.split_whitespace().next()?.to_owned());
    let names: Vec<String> = listed.lines().filter_map(row).collect();
    assert!(names.len() > 20 && names.iter().any(|name| name == "inspect"), "{names:?}");
    names
}

#[test]
fn shells_get_completions() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = folder.relax(&["completions", shell]);
        let script = text(&ended.stdout);
        assert_eq!(ended.status.code(), Some(0), "{shell}");
        for name in subcommands() {
            assert!(script.contains(&name), "{shell} does not know {name}");
        }
        let json = folder.relax(&["completions", shell, "--format", "json"]);
        assert_eq!(object(&text(&json.stdout), "completions")["script"], script.as_str());
        folder.write(shell, &script);
    }
    assert_eq!(folder.ended(&["completions", "bush"]).1, Some(2));
    let mut bash = Command::new("bash");
    bash.arg("-n").arg(folder.0.path().join("bash")).stdin(Stdio::null());
    // A machine may have no bash.
    if let Ok(read) = bash.output() {
        assert!(read.status.success(), "{}", text(&read.stderr));
    }
}

#[test]
fn every_subcommand_has_a_man_page() {
    let folder = Folder::new();
    let ended = folder.relax(&["man", "pages", "--format", "json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let subcommands = subcommands();
    assert_eq!(text(&ended.stdout).lines().count(), subcommands.len() + 1);
    for name in &subcommands {
        let page = folder.0.path().join(format!("pages/relax-{name}.1"));
        let page = std::fs::read_to_string(page).expect("the page is written");
        assert!(
            page.contains(".SH SYNOPSIS") && page.contains("relax") && page.contains("Examples:")
        );
    }
    folder.write("file", "");
    assert_eq!(folder.ended(&["man", "file"]).1, Some(2), "no folder");
}
