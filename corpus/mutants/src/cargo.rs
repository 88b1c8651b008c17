//! Building the copy with cargo: what it refuses, and which tests there are.

use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test binary, or the command.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where its tests expect to be run.
    pub(crate) folder: PathBuf,
    pub(crate) is_test: bool,
}

/// An error of the compiler: where, and in its words.
pub(crate) struct Error {
    /// Files from the root of the copy, with bytes; the place it is about first.
    pub(crate) spans: Vec<(String, Range<usize>)>,
    pub(crate) text: String,
}

/// What came of a build.
pub(crate) struct Built {
    pub(crate) fine: bool,
    pub(crate) errors: Vec<Error>,
    pub(crate) binaries: Vec<Binary>,
}

/// Builds the tests of a workspace.
pub(crate) fn build(tree: &Path, target: &Path, arguments: &[String]) -> Result<Built, String> {
    let output = Command::new("cargo")
        .args(["test", "--no-run", "--workspace", "--message-format=json", "--offline"])
        .args(arguments)
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok(Built {
        fine: output.status.success(),
        errors: messages.iter().filter_map(error).collect(),
        binaries: messages.iter().filter_map(binary).collect(),
    })
}

fn error(message: &Value) -> Option<Error> {
    let message = message.get("message")?;
    if message["level"] != "error" {
        return None;
    }
    let mut spans = Vec::new();
    for span in message["spans"].as_array()? {
        let file = span["file_name"].as_str()?.to_owned();
        let byte = |name: &str| usize::try_from(span[name].as_u64().unwrap_or(0)).unwrap_or(0);
        let place = (file, byte("byte_start")..byte("byte_end"));
        if span["is_primary"] == true { spans.insert(0, place) } else { spans.push(place) }
    }
    Some(Error { spans, text: message["rendered"].as_str().unwrap_or_default().to_owned() })
}

fn binary(message: &Value) -> Option<Binary> {
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_path_buf();
    let of = folder.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?;
    let is_test = message["profile"]["test"] == true;
    Some(Binary { name: format!("{of}/{target}"), path, folder, is_test })
}
