//! What is deployed: module files and models, the numerics that they have, and how they are compared with the interpreter.

use super::{compiler, relax};
use serde_json::Value;
use std::process::Output;
use tempfile::TempDir;

/// A folder with programs and a cache of its own.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("the file is written");
    }

    fn relax(&self, arguments: &[&str]) -> Output {
        let mut command = relax(arguments);
        command.current_dir(self.0.path()).env("XDG_CACHE_HOME", self.0.path().join("cache"));
        command.output().expect("the command runs")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The object of a type among lines of JSON.
fn object(lines: &str, kind: &str) -> Value {
    let objects = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.into_iter().find(|object| object["type"] == kind).expect(lines)
}

const PRODUCT: &str = "def main(x: Tensor((\"n\", 4), \"f32\"), w: Tensor((4, 2), \"f32\")):\n    return exp(matmul(x, w))\n";
const DOUBLED: &str = "def main(x: Tensor((\"n\",), \"f32\")):\n    return add(x, x)\n";

#[test]
fn a_module_file_says_its_numerics() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("product.rx", PRODUCT);
    folder.write("doubled.rx", DOUBLED);
    let random = ["--random", "--sym", "n=3"];
    for (program, flags, name, words, rounded) in [
        ("product.rx", &[][..], "reassociated", "float sums reassociated", 1),
        ("product.rx", &["--exact"], "exact", "exact (1 with functions that round", 1),
        ("doubled.rx", &["--exact"], "exact", "1 kernels, exact\n", 0),
    ] {
        // The second time it comes from the cache.
        for _ in 0..2 {
            let build = [&["build", program, "-o", "m.rxm", "--format", "json"], flags].concat();
            let built = folder.relax(&build);
            let facts = object(&text(&built.stdout), "module");
            assert_eq!(facts["numerics"], name, "{program} {flags:?}: {facts}");
            assert_eq!(
                (&facts["rounded_kernels"], &facts["kernels"]),
                (&rounded.into(), &1.into())
            );
            let build = folder.relax(&[&["build", program, "-o", "m.rxm"], flags].concat());
            assert!(text(&build.stderr).contains(words.trim_end()), "{}", text(&build.stderr));
        }
        for command in ["run", "bench"] {
            let random = if command == "run" { &random[..] } else { &random[1..] };
            let said = folder.relax(&[&[command, "m.rxm", "-v"], random].concat());
            assert!(text(&said.stderr).contains(words), "{}", text(&said.stderr));
            let json =
                folder.relax(&[&[command, "m.rxm", "-v", "--format", "json"], random].concat());
            assert_eq!(object(&text(&json.stderr), "module")["numerics"], name);
            let quiet = folder.relax(&[&[command, "m.rxm"], random].concat());
            assert_eq!(text(&quiet.stderr), "", "it is a detail");
        }
    }
}
