//! A folder for a test of the command, a C compiler that is wrong, and what the command prints.

use super::{relax, warm};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

pub(crate) const DOUBLED: &str = "def main(x: Tensor((\"n\",), \"f32\")):\n    return add(x, x)\n";

/// A folder with programs and a cache of its own.
pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("the file is written");
    }

    pub(crate) fn relax(&self, arguments: &[&str]) -> Output {
        let mut command = relax(arguments);
        command
            .current_dir(self.0.path())
            .env("XDG_CACHE_HOME", warm::cache(self.0.path().join("cache")));
        command.output().expect("the command runs")
    }

    /// What both streams have, and the exit code.
    pub(crate) fn ended(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let output = self.relax(arguments);
        (text(&[output.stdout, output.stderr].concat()), output.status.code())
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The object of a type among lines of JSON.
pub(crate) fn object(lines: &str, kind: &str) -> Value {
    let objects = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.into_iter().find(|object| object["type"] == kind).expect(lines)
}

/// A C compiler that gets an edited text: what it makes is wrong, and finite.
#[cfg(unix)]
pub(crate) fn editing(folder: &Path, edit: &str) -> PathBuf {
    let path = folder.join("edited-cc");
    let loops =
        format!("for a in \"$@\"; do case \"$a\" in *.c) sed -i '{edit}' \"$a\";; esac; done");
    relax_corpus::script::executable(&path, &format!("{loops}\nexec cc \"$@\"\n"));
    path
}
