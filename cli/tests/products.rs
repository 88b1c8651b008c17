//! `relax tune --backend`: what a device takes for products is measured, kept, shown and used. Without a device nothing is held
//! of it, and with `RELAX_REQUIRE_WGPU=1` that is a failure.
#![cfg(feature = "wgpu")]

use relax_lower::gpu::measured::Table;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

const PROGRAM: &str = r#"
def main(x: Tensor(("n", 5), "f32"), w: Tensor((5, 70), "f32")):
    return matmul(x, w)
"#;

/// A folder with a program and a cache of its own.
struct Folder(TempDir);

impl Folder {
    /// None where there is no device.
    fn new() -> Option<Self> {
        let folder = Self(tempfile::tempdir().expect("a folder for the test"));
        std::fs::write(folder.0.path().join("p.rx"), PROGRAM).expect("the file is written");
        let devices = folder.relax(&["devices"]);
        if String::from_utf8_lossy(&devices.stdout).contains("wgpu:") {
            return Some(folder);
        }
        let required = std::env::var_os("RELAX_REQUIRE_WGPU").is_some_and(|value| value == "1");
        assert!(!required, "there is no device of WebGPU");
        eprintln!("SKIPPED: there is no device of WebGPU");
        None
    }

    fn relax(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.args(arguments).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", self.0.path().join("cache"));
        command.output().expect("the command runs")
    }

    /// What it prints when all is well.
    fn fine(&self, arguments: &[&str]) -> String {
        let output = self.relax(arguments);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{messages}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn refused(&self, arguments: &[&str], code: i32, told: &str) {
        let output = self.relax(arguments);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{messages}");
        assert!(messages.contains(told), "{messages}");
    }

    /// The one table in its cache.
    fn table(&self) -> PathBuf {
        let cache = self.0.path().join("cache/relax");
        let files = std::fs::read_dir(cache).expect("the cache is there");
        let names = files.map(|file| file.expect("it has a name").path());
        let is_table = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("products-"))
        };
        let mut tables = names.filter(is_table);
        tables.next().expect("there is a table")
    }
}

const RUN: [&str; 8] =
    ["run", "p.rx", "--backend", "wgpu", "--input", "x=arange(9, 5)", "--input", "w=arange(5, 70)"];

#[test]
fn what_was_measured_of_a_device_is_shown_and_used() {
    let Some(folder) = Folder::new() else { return };
    let show = ["tune", "--backend", "wgpu", "--show", "--extents", "nx5x70"];
    let shown = folder.fine(&show);
    assert!(shown.contains("not measured") && shown.contains("squares"), "{shown}");
    let wanted = folder.fine(&RUN);
    let mut measure = vec!["tune", "--backend", "wgpu"];
    measure.extend(["1x8x8", "16x8x8"].iter().flat_map(|over| ["--over", over]));
    let measured = folder.fine(&measure);
    assert!(measured.contains("2 products"), "{measured}");
    let path = folder.table();
    let text = std::fs::read_to_string(&path).expect("the table is read");
    let table = Table::parse(&text).expect("it is a table");
    assert_eq!(table.to_text(), text);
    assert!(measured.contains(&table.tree.to_string()), "{measured}");
    let measured: Vec<&str> = measured.lines().collect();
    let shown = folder.fine(&show);
    assert!(shown.lines().zip(&measured).all(|(a, b)| a == *b), "{shown}");
    // Whatever was learned, and whatever stands there instead: the elements are the same.
    assert_eq!(folder.fine(&RUN), wanted);
    for tree in ["elements", "if m < 9\nelements\nelse\nsquares"] {
        let (before, _) = text.split_once("tree\n").expect("it has one");
        let other = format!("{before}tree\n{tree}\n");
        std::fs::write(&path, other).expect("the table is written");
        assert_eq!(folder.fine(&RUN), wanted);
    }
    // What is damaged, or another device's, is told, and how it is mended.
    std::fs::write(&path, text.replacen("tree", "three", 1)).expect("the table is written");
    folder.refused(&RUN, 2, "line 7");
    folder.refused(&RUN, 2, "relax tune");
    folder.refused(&show, 2, "line 7");
    std::fs::write(&path, text.replacen("device ", "device another ", 1)).expect("it is written");
    folder.refused(&RUN, 2, "it is of another");
}

#[test]
fn what_is_no_product_is_refused() {
    let Some(folder) = Folder::new() else { return };
    folder.refused(&["tune", "--over", "1x2x3"], 2, "--backend");
    folder.refused(&["tune", "--backend", "wgpu", "--over", "1x2"], 2, "1x2");
    folder.refused(&["tune", "--backend", "wgpu", "--over", "0x2x3"], 2, "0x2x3");
    folder.refused(&["tune", "--backend", "wgpu", "--show", "--extents", "nx2"], 2, "nx2");
}
