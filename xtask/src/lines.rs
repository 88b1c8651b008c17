//! `cargo run -p xtask -- lines [COMMIT ...]`: lines of Rust code by crate, without blank lines, comments and tests.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

/// The table: a column for each commit, or one for the last commit.
///
/// # Errors
/// What git or the system says.
pub fn table(root: &Path, commits: &[String]) -> io::Result<String> {
    let last = ["HEAD".to_owned()];
    let commits = if commits.is_empty() { &last } else { commits };
    let columns = commits.iter().map(|commit| by_crate(root, commit));
    let columns: Vec<BTreeMap<String, usize>> = columns.collect::<io::Result<_>>()?;
    let mut folders: Vec<&String> = columns.iter().flat_map(BTreeMap::keys).collect();
    folders.sort();
    folders.dedup();
    let mut text = format!("| crate |{}\n|---|{}\n", cells(commits), "---|".repeat(commits.len()));
    for folder in folders {
        let counts = columns.iter().map(|column| column.get(folder));
        let counts: Vec<String> =
            counts.map(|count| count.map_or("–".to_owned(), ToString::to_string)).collect();
        text += &format!("| {folder} |{}\n", cells(&counts));
    }
    let totals: Vec<String> =
        columns.iter().map(|column| column.values().sum::<usize>().to_string()).collect();
    text += &format!("| all |{}\n", cells(&totals));
    Ok(text)
}

fn cells(items: &[String]) -> String {
    items.iter().map(|item| format!(" {item} |")).collect()
}

fn by_crate(root: &Path, commit: &str) -> io::Result<BTreeMap<String, usize>> {
    let listed = git(root, &["ls-tree", "-r", "--name-only", "-z", commit])?;
    let mut counts = BTreeMap::new();
    for path in listed.split('\0').filter(|path| is_counted(path)) {
        let Some((folder, _)) = path.split_once("/src/") else { continue };
        let text = git(root, &["show", &format!("{commit}:{path}")])?;
        *counts.entry(folder.to_owned()).or_insert(0) += count(&text);
    }
    Ok(counts)
}

fn git(root: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("git {}: {why}", arguments.join(" "))));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

/// Sources of crates but their tests.
fn is_counted(path: &str) -> bool {
    path.ends_with(".rs")
        && !path.ends_with("/tests.rs")
        && !path.split('/').any(|part| part == "tests")
}

/// Lines with code. A module of tests reaches to the brace that closes it in its own column.
fn count(text: &str) -> usize {
    let (mut lines, mut found, mut after_test) = (text.lines(), 0, false);
    while let Some(line) = lines.next() {
        let code = line.trim();
        if code.is_empty() || code.starts_with("//") {
            continue;
        }
        if code == "#[cfg(test)]" {
            after_test = true;
        } else if after_test {
            after_test = code.starts_with("#[");
            if code.ends_with('{') {
                let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
                lines.by_ref().find(|line| *line == end);
            }
        } else {
            found += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_counts() {
        let text = "//! Page.\n\nuse a;\n\n/// Says.\nfn f() {\n    // Why.\n    g();\n}\n";
        assert_eq!(count(text), 4);
    }

    #[test]
    fn tests_do_not_count() {
        let text = "fn f() {}\n#[cfg(test)]\n#[allow(a)]\nmod tests {\n    fn t() {\n    }\n}\n#[cfg(test)]\nmod tests;\nfn g() {}\n";
        assert_eq!(count(text), 2);
        assert!(
            !is_counted("a/src/tests.rs")
                && !is_counted("a/tests/b.rs")
                && is_counted("a/src/b.rs")
        );
    }
}
