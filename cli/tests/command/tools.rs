//! What tools read: JSON lines of every subcommand, SARIF logs and annotations, and findings that are run again.

use super::compiler;
use super::folder::{DOUBLED, Folder, editing, object, text};
use super::pages::subcommands;
use serde_json::Value;
use std::collections::BTreeSet;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/onnx/gpt2.onnx");

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/llm/tiny/llama");

/// A run of each subcommand that takes no long time; `p.rx`, `p.rxm` and `p.cert` are there.
const RUNS: &[&[&str]] = &[
    &["check", "-v", "p.rx"],
    &["check", "wrong.rx"],
    &["fmt", "p.rx"],
    &["fmt", "--check", "p.rx"],
    &["inspect", "p.rxm"],
    &["inspect", "p.rx"],
    &["import", MODEL, "--params", "w.safetensors"],
    &["export", "p.rx"],
    &["run", "p.rx", "--input", "x=ones(3)"],
    &["run", "printing.rx", "--input", "x=ones(1)"],
    &["generate", TINY, "--tokens", "1", "--max-tokens", "1", "--no-model-cache"],
    &["train", "train.toml"],
    &["bench", "p.rxm", "--sym", "n=3", "--seconds", "0"],
    &["devices"],
    &["tune", "--show", "--extents", "nx64x64"],
    &["cache"],
    &["build", "p.rx", "-o", "again.rxm"],
    &["opt", "p.rx", "--to", "P1"],
    &["opt", "--list-passes"],
    &["opt", "p.rx", "--to", "P2.1", "--memory-report"],
    &["opt", "p.rx", "--to", "P2.1", "--memory-report=svg"],
    &["opt", "p.rx", "--to", "P2.3", "--emit", "c"],
    &["grad", "loss.rx"],
    &["shard", "shards.rx"],
    &["shard", "shards.rx", "--explain", "--local", "--mesh", "3"],
    &["shard", "loss.rx", "--mesh", "3", "--data", "n"],
    &["shard", "shards.rx", "--local", "-o", "local.rx", "--certificate", "ranks.cert"],
    &["run", "shards.rx", "--ranks", "2", "--input", "x=ones(3)"],
    &["run", "shards.rx", "--ranks", "2", "--backend", "cpu", "--input", "x=ones(3)"],
    &["rewrite", "p.rx"],
    &["rewrite", "p.rx", "--explain"],
    &["versions", "p.rx"],
    &["diff", "p.rx", "--cases", "2"],
    &["diff", "loss.rx", "--grad", "--cases", "2"],
    &["diff", "p.rx", "--against", "other.rx", "--cases", "2"],
    &["equiv", "p.rx", "p.rx", "--cases", "2"],
    &["fuzz", "--programs", "2", "--oracle", "print"],
    &["fuzz", "--show"],
    &["fuzz", "--replay", "p.rx", "--oracle", "print"],
    &["prove", "n * 4 == 4 * n", "--stats"],
    &["prove", "--simplify", "n + n"],
    &["verify", "p.cert"],
    &["verify", "p.rxm"],
    &["ops"],
    &["ops", "--markdown"],
    &["rules", "--family", "matmul"],
    &["explain", "RX0203"],
    &["completions", "fish"],
    &["man", "pages"],
];

/// A loss, and data for it.
const FIT: &str = "def main(x: Tensor((\"n\",), \"f32\"), w: Tensor((), \"f32\")):\n    return sum(square(subtract(x, w)))\n\n\
    def data(x: Tensor((\"n\",), \"f32\")):\n    func_attr(\"output.0\", \"x\")\n    return x\n";

const TRAIN: &str = "program = \"fit.rx\"\nbackend = \"interp\"\nsteps = 2\nweights = { w = \"zeros\" }\n\
    optimizer = { name = \"sgd\", rate = 0.1 }\ndata = { files = \"data.npz\" }\ncheckpoint = { folder = \"out\" }\n";

const SHARDS: &str = "module_attr(\"mesh[0]\", \"2\")\n\ndef main(x: DTensor((\"n\",), \"f32\", \"mesh[0]\", \"S[0]\")):\n    return sum(x)\n";

#[test]
fn every_subcommand_speaks_json() {
    if !compiler::is_there() {
        return;
    }
    // A server runs until a signal ends it: the test target `serve` reads its JSON.
    let named: BTreeSet<&str> = RUNS.iter().map(|run| run[0]).chain(["serve"]).collect();
    let all = subcommands();
    assert_eq!(named, all.iter().map(String::as_str).collect(), "each subcommand is run");
    let folder = Folder::new();
    folder.write("p.rx", DOUBLED);
    folder.write("other.rx", &DOUBLED.replace("add", "multiply"));
    folder.write("wrong.rx", &DOUBLED.replace("add", "ad"));
    folder.write(
        "printing.rx",
        "def main(x: Tensor((\"n\",), \"f32\")):\n    print(x, format=\"{}\")\n    return x\n",
    );
    folder.write("shards.rx", SHARDS);
    folder.write("loss.rx", "def main(x: Tensor((\"n\",), \"f32\")):\n    return sum(square(x))\n");
    folder.write("fit.rx", FIT);
    folder.write("train.toml", TRAIN);
    let fill =
        ["run", "fit.rx", "--entry", "data", "--random", "--sym", "n=3", "--output", "data.npz"];
    assert_eq!(folder.ended(&fill).1, Some(0));
    assert_eq!(folder.ended(&["build", "p.rx", "-o", "p.rxm", "--certify"]).1, Some(0));
    assert_eq!(folder.ended(&["prove", "n == n", "--certificate", "p.cert"]).1, Some(0));
    for run in RUNS {
        let ended = folder.relax(&[run, &["--format", "json"][..]].concat());
        let (said, why) = (text(&ended.stdout), text(&ended.stderr));
        assert!(!said.is_empty(), "{run:?} says nothing: {why}");
        for line in said.lines() {
            let object: Result<Value, _> = serde_json::from_str(line);
            assert!(object.is_ok_and(|object| object.is_object()), "{run:?}: {line}");
        }
    }
}

/// An operator and a name that there are not.
fn two_mistakes() -> String {
    let other = DOUBLED.replace("main", "other").replace("add(x, x)", "add(x, z)");
    DOUBLED.replace("add(", "addd(") + &other
}

fn sarif(folder: &Folder, arguments: &[&str]) -> (Value, Option<i32>) {
    let ended = folder.relax(&[arguments, &["--format", "sarif"]].concat());
    let log: Value = serde_json::from_slice(&ended.stdout).expect("one JSON value");
    assert_eq!(log["version"], "2.1.0");
    (log["runs"][0].clone(), ended.status.code())
}

#[test]
fn findings_are_told_as_sarif() {
    let folder = Folder::new();
    folder.write("fine.rx", DOUBLED);
    folder.write("a b.rx", &two_mistakes());
    let (run, code) = sarif(&folder, &["check", "a b.rx", "fine.rx"]);
    assert_eq!((code, run["results"].as_array().map(Vec::len)), (Some(1), Some(2)));
    let result = &run["results"][0];
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "a%20b.rx");
    let region = &place["region"];
    assert_eq!((&region["startLine"], &region["startColumn"]), (&2.into(), &12.into()));
    assert_eq!((&region["endLine"], &region["endColumn"]), (&2.into(), &16.into()));
    assert_eq!((&result["ruleId"], &result["level"]), (&"RX0504".into(), &"error".into()));
    let rule = usize::try_from(result["ruleIndex"].as_u64().expect("a rule")).expect("small");
    assert_eq!(run["tool"]["driver"]["rules"][rule]["id"], "RX0504");
    let edit = &result["fixes"][0]["artifactChanges"][0]["replacements"][0];
    assert_eq!(edit["insertedContent"]["text"], "add");
    assert_eq!(run["columnKind"], "unicodeCodePoints");

    let (run, code) = sarif(&folder, &["check", "fine.rx"]);
    assert_eq!((code, run["results"].as_array().map(Vec::len)), (Some(0), Some(0)));
    let (run, code) = sarif(&folder, &["check", "missing.rx"]);
    let invocation = &run["invocations"][0];
    assert_eq!((code, &invocation["executionSuccessful"]), (Some(2), &false.into()));
    let (run, code) = sarif(&folder, &["fuzz", "--programs", "2", "--oracle", "print"]);
    assert!(run["results"].as_array().is_some_and(Vec::is_empty), "{run} {code:?}");
    for format in ["sarif", "github"] {
        let (said, code) = folder.ended(&["run", "fine.rx", "--format", format]);
        assert_eq!((code, said.contains("are for `check` and `fuzz`")), (Some(2), true), "{said}");
    }
}

#[test]
fn findings_are_told_as_annotations() {
    let folder = Folder::new();
    folder.write("a,b.rx", &two_mistakes());
    let ended = folder.relax(&["check", "a,b.rx", "--format", "github"]);
    let said = text(&ended.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((ended.status.code(), lines.len()), (Some(1), 2), "{said}");
    let place = "::error file=a%2Cb.rx,line=2,endLine=2,col=12,endColumn=16,title=RX0504::";
    assert!(lines[0].starts_with(place), "{said}");
    assert!(lines[0].ends_with("%0AHelp: did you mean `add`?"), "{said}");
}

#[test]
#[cfg(unix)]
fn a_finding_is_run_again() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let header = "# Found by the oracle `vm` with seed 3: value.\n#   expected 1\n";
    folder.write("found.rx", &format!("{header}{DOUBLED}"));
    folder.write("plain.rx", DOUBLED);
    let replay = ["fuzz", "--replay", "found.rx", "--backend", "cpu"];
    let (said, code) = folder.ended(&replay);
    assert_eq!((said.as_str(), code), ("vm: nothing found\n", Some(0)));
    let wrong = editing(folder.0.path(), r"s/\[i0\] + /[i0] * 1.5f + /");
    let ended = super::relax(&[&replay[..], &["--format", "json"]].concat())
        .current_dir(folder.0.path())
        .env("XDG_CACHE_HOME", folder.0.path().join("other"))
        .env("CC", wrong)
        .output()
        .expect("the command runs");
    let found = object(&text(&ended.stdout), "replay");
    assert_eq!((ended.status.code(), &found["verdict"]), (Some(1), &"found".into()), "{found}");
    assert_eq!((&found["oracle"], &found["seed"]), (&"vm".into(), &3.into()));
    let (said, code) = folder.ended(&["fuzz", "--replay", "plain.rx"]);
    assert_eq!((code, said.contains("names no oracle")), (Some(2), true), "{said}");
    let (said, code) = folder.ended(&["fuzz", "--replay", "plain.rx", "--oracle", "print,check"]);
    assert_eq!((said.as_str(), code), ("print: nothing found\ncheck: nothing found\n", Some(0)));
    for other in ["--programs", "--seconds"] {
        assert_eq!(folder.ended(&["fuzz", "--replay", "found.rx", other, "1"]).1, Some(2));
    }
}

#[test]
fn questions_of_a_command_are_asked_again() {
    let folder = Folder::new();
    let fails =
        "def main(x: Tensor((\"n\", 4), \"f32\")):\n    return reshape(x, shape(n * 2, 2))\n";
    folder.write("p.rx", fails);
    for command in [&["check", "p.rx"][..], &["opt", "p.rx", "--to", "P2.3"]] {
        let ended = folder.ended(&[command, &["--questions", "asked.jsonl"]].concat());
        assert_eq!(ended.1, Some(0), "{}", ended.0);
        let path = folder.0.path().join("asked.jsonl");
        let asked = std::fs::read_to_string(path).expect("it is written");
        let product = asked.lines().find(|line| line.contains("n * 2 * 2")).expect(&asked);
        let product: Value = serde_json::from_str(product).expect(product);
        assert_eq!(
            (&product["assume"][0], &product["expect"]),
            (&"0 <= n".into(), &"proved".into())
        );
        // Each as text means what it meant, and gets the answer that it got.
        let (said, code) = folder.ended(&["prove", "--file", "asked.jsonl", "--no-solver"]);
        let contradictions = said.lines().filter(|line| {
            let (expected, found) = line.split_once(": ").expect("expected ANSWER: COUNT ANSWER");
            found.rsplit(' ').next() != expected.rsplit(' ').next()
        });
        assert_eq!((contradictions.count(), code), (0, Some(0)), "{said}");
    }
    let (said, code) = folder.ended(&["check", "p.rx", "--questions", "nowhere/asked.jsonl"]);
    assert_eq!((said.contains("cannot write"), code), (true, Some(2)), "{said}");
}
