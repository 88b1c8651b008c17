//! `relax tune` and `relax build --tuned`: a table is measured, shown, and an input of a build like the program.

mod warm;

use relax_cpu::hardware;
use relax_emit::tiles::{Hardware, Isa, Table};
use std::process::{Command, Output};
use tempfile::TempDir;

const PROGRAM: &str = r#"
def main(x: Tensor(("n", 3), "f32"), w: Tensor((3, 70), "f32")):
    return matmul(x, w)
"#;

/// A folder with a program, a table of a processor that is made up, and a cache of its own.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder for the test"));
        let tables = Isa::ALL.map(|isa| Table::built_in(Hardware::assumed(isa)));
        folder.write("p.rx", PROGRAM);
        for mut table in tables {
            table.hardware.l1 = 8 << 10;
            folder.write(&format!("{}.txt", table.hardware.isa.name()), &table.to_text());
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("the file is written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(name)).expect("the file is there")
    }

    fn relax(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.args(arguments).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", warm::cache(self.0.path().join("cache")));
        command.output().expect("the command runs")
    }

    /// What it prints when all is well.
    fn fine(&self, arguments: &[&str]) -> String {
        let output = self.relax(arguments);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{messages}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The exit code and the message of a build.
    fn refused(&self, table: &[&str]) -> (Option<i32>, String) {
        let arguments = [&["build", "p.rx", "--fast", "-o", "m.rxm", "--tuned"], table].concat();
        let output = self.relax(&arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn a_table_is_an_input_of_a_build() {
    let folder = Folder::new();
    let run = |file: &str| {
        let inputs = ["--input", "x=ones(5, 3)", "--input", "w=arange(3, 70)"];
        folder.fine(&[&["run", file], inputs.as_slice()].concat())
    };
    let wanted = run("p.rx");
    folder.fine(&["build", "p.rx", "--fast", "-o", "plain.rxm"]);
    assert_eq!(run("plain.rxm"), wanted);
    let own = hardware().isa;
    for isa in Isa::ALL {
        let table = format!("{}.txt", isa.name());
        if isa != own {
            let (code, message) = folder.refused(&[&table]);
            assert_eq!(code, Some(2), "{message}");
            let [isa, own] = [isa, own].map(Isa::name);
            let said = format!("of {isa} vectors, code for --cpu native has {own}");
            assert!(message.contains(&said), "{message}");
            continue;
        }
        for file in ["first.rxm", "second.rxm"] {
            folder.fine(&["build", "p.rx", "--fast", "-o", file, "--tuned", &table]);
        }
        assert!(folder.read("first.rxm") == folder.read("second.rxm"), "{table}");
        assert_eq!(run("first.rxm"), wanted);
        assert!(folder.read("first.rxm") != folder.read("plain.rxm"), "{table}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_table_of_another_processor_is_for_its_code() {
    let folder = Folder::new();
    let build = |tuned: &[&str], file| {
        let cpu = ["build", "p.rx", "--cpu", "x86-64-v3", "-o", file];
        folder.fine(&[&cpu, tuned].concat());
        folder.read(file)
    };
    assert_ne!(build(&[], "plain.rxm"), build(&["--tuned", "avx2.txt"], "tuned.rxm"));
    let (code, message) = folder.refused(&["avx512.txt", "--cpu", "x86-64-v3"]);
    assert_eq!(code, Some(2), "{message}");
}

#[test]
fn what_is_no_table_is_refused() {
    let folder = Folder::new();
    folder.write("wrong.txt", "relax tiles 1\nisa avx9\n");
    let (code, message) = folder.refused(&["wrong.txt"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("wrong.txt: line 2") && message.contains("avx9"), "{message}");
    let (code, message) = folder.refused(&[]);
    assert_eq!(code, Some(4), "{message}");
    assert!(message.contains("relax tune"), "{message}");
}

#[test]
fn what_was_measured_is_shown_and_used() {
    let folder = Folder::new();
    let shown = folder.fine(&["tune", "--show", "--extents", "nx768x2304"]);
    assert!(shown.contains("not measured") && shown.contains("n from 1 to 1: one row"), "{shown}");
    let measured = folder.fine(&["tune", "-o", "own.txt"]);
    assert!(measured.contains("own.txt") && measured.contains(" x 4 "), "{measured}");
    assert_eq!(folder.fine(&["tune", "--show", "-o", "own.txt"]), measured);
    folder.fine(&["build", "p.rx", "--fast", "-o", "m.rxm", "--tuned", "own.txt"]);
}
