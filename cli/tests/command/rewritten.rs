//! Rules of one's own in the pipeline of a target: `relax build --rules`, `run` and `bench`.

use super::compiler;
use super::folder::{Folder, object, text};

/// Calls that rules below leave one of each kind of.
const PROGRAM: &str = "def main(x: Tensor((\"n\",), \"f32\")):\n    return sort(sort(relu(relu(relu(x))), 0, True))\n";
const PROVED: &str = "@rewrite_rule(\"exact\", reason=\"r\")\ndef relu_thrice(x: Tensor((\"n\",), \"f32\")):\n    left = relu(relu(relu(x)))\n    right = relu(x)\n";
const UNPROVED: &str = "@rewrite_rule(\"exact\", reason=\"r\")\ndef sort_of_sort(x: Tensor((\"n\",), \"f32\")):\n    left = sort(sort(x, 0, True))\n    right = sort(x)\n";
const WRONG: &str = "@rewrite_rule(\"exact\", reason=\"r\")\ndef wrong(x: Tensor((\"n\",), \"f32\")):\n    left = relu(relu(x))\n    right = x\n";
const OF_REALS: &str = "@rewrite_rule(\"approximate\", reason=\"r\")\ndef abs_by_square(x: Tensor((\"n\",), \"f32\")):\n    left = abs(x)\n    right = sqrt(multiply(x, x))\n";

fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in [
        ("program.rx", PROGRAM),
        ("proved.rx", PROVED),
        ("unproved.rx", UNPROVED),
        ("wrong.rx", WRONG),
        ("reals.rx", OF_REALS),
    ] {
        folder.write(name, text);
    }
    folder
}

/// What a build says for tools, and what it wrote to the standard error, with its exit code.
fn built(folder: &Folder, flags: &[&str]) -> (String, String, Option<i32>) {
    let arguments = ["build", "program.rx", "-o", "m.rxm"];
    let ended = folder.relax(&[&arguments[..], flags].concat());
    (text(&ended.stdout), text(&ended.stderr), ended.status.code())
}

#[test]
fn a_build_uses_rules_and_says_which() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    let json = |flags: &[&str]| {
        let (out, err, code) = built(&folder, &[flags, &["--format", "json"]].concat());
        assert_eq!(code, Some(0), "{err}");
        object(&out, "module")
    };
    assert!(json(&["--rules", "none"])["rewrites"].is_null());
    let by_default = &json(&[])["rewrites"];
    // What fuses is one kernel in any form.
    assert_eq!((&by_default["rewritten"], &by_default["regions"]), (&0.into(), &1.into()));
    let facts = json(&["--rules", "proved.rx"]);
    let rule = serde_json::json!({ "rule": "relu_thrice", "proved": true, "regions": 1 });
    let rewrites =
        serde_json::json!({ "rewritten": 1, "regions": 1, "rules": [rule], "versions": [] });
    assert_eq!(facts["rewrites"], rewrites);
    let flags = ["--rules", "proved.rx,unproved.rx", "--unproved"];
    let both = json(&flags);
    assert_eq!(both["rewrites"]["rules"][1]["proved"], false, "{both}");
    assert!(both["kernels"].as_u64() < facts["kernels"].as_u64(), "{both} {facts}");
    let same = folder.relax(&["diff", "program.rx", "--against", "m.rxm", "--cases", "20"]);
    assert!(same.status.success(), "{}", text(&same.stderr));
    let (_, said, _) = built(&folder, &flags);
    let names = "1 of 1 regions rewritten by relu_thrice, sort_of_sort (not proved)";
    let warned = "rewritten by `sort_of_sort`, which is not proved";
    assert!(said.contains(names) && said.contains(warned), "{said}");
    assert!(!said.contains("`relu_thrice`, which"), "{said}");
}

/// The order of two products depends on dims: each version is called where its guard holds, and both give what the interpreter gives.
#[test]
fn a_build_has_versions_and_says_their_guards() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    let program = "def main(a: Tensor((\"n\", \"k\"), \"f32\"), b: Tensor((\"k\", \"m\"), \"f32\"), c: Tensor((\"m\", \"p\"), \"f32\")):\n    \
                   return matmul(matmul(a, b), c)\n";
    folder.write("program.rx", program);
    let (out, said, code) = built(&folder, &["--format", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let versions = &object(&out, "module")["rewrites"]["versions"][0];
    assert_eq!(versions["function"], "main", "{out}");
    let guards =
        versions["versions"].as_array().map(|all| all.iter().map(|one| one["guard"].to_string()));
    let guards: Vec<String> = guards.into_iter().flatten().collect();
    assert!(guards.len() > 1 && guards.last().is_some_and(|last| last == "[]"), "{guards:?}");
    let same = folder.relax(&["diff", "program.rx", "--against", "m.rxm", "--cases", "40"]);
    assert!(same.status.success(), "{}", text(&same.stderr));
    let (_, said, _) = built(&folder, &[]);
    assert!(said.contains("program.rx: versions of main: main_"), "{said}");
    for flags in [&["--exact"][..], &["--certify"], &["--rules", "none"]] {
        let (_, said, code) = built(&folder, flags);
        assert!(code == Some(0) && !said.contains("versions of"), "{flags:?}: {said}");
    }
}

#[test]
fn a_build_refuses_rules_that_must_not_be_used() {
    let folder = folder();
    for (flags, code, why) in [
        (&["--rules", "wrong.rx"][..], 1, "the rule `wrong` is not used"),
        (&["--rules", "wrong.rx", "--unproved"], 1, "def main("),
        (&["--rules", "unproved.rx"], 1, "--unproved uses it all the same"),
        (&["--rules", "reals.rx", "--exact"], 2, "`abs_by_square` holds over the reals"),
        (&["--rules", "nothing"], 2, "there is no family `nothing`"),
        (&["--unproved"], 2, "--rules"),
    ] {
        let (_, said, ended) = built(&folder, flags);
        assert!(ended == Some(code) && said.contains(why), "{flags:?}: {ended:?} {said}");
        assert!(!folder.0.path().join("m.rxm").exists(), "{flags:?}");
    }
    let lowered = folder.relax(&["opt", "program.rx", "--to", "P2.1", "--output", "program.rx"]);
    assert!(lowered.status.success());
    let (_, said, ended) = built(&folder, &["--rules", "proved.rx"]);
    assert!(ended == Some(2) && said.contains("rules rewrite modules up to P1"), "{said}");
}

/// Of two calls of `relu` as of one there is a proof that needs no rule; of a rule without one the certificate says so.
#[test]
fn a_certificate_has_the_rules_that_were_used() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    let certified = |flags: &[&str]| {
        let json = ["--certify", "--exact", "--format", "json"];
        let (out, err, code) = built(&folder, &[flags, &json].concat());
        assert_eq!(code, Some(0), "{err}");
        let verified = folder.relax(&["verify", "m.rxm"]);
        (object(&out, "module")["rewrites"]["certified"].clone(), text(&verified.stdout))
    };
    let (proved, said) = certified(&["--rules", "proved.rx"]);
    assert_eq!((&proved["rules"], &proved["rules_proved"]), (&1.into(), &1.into()), "{proved}");
    assert!(said.contains("\nrule                   1 "), "{said}");
    let (both, said) = certified(&["--rules", "proved.rx,unproved.rx", "--unproved"]);
    assert_eq!((&both["rules"], &both["rules_proved"]), (&2.into(), &1.into()), "{both}");
    assert!(said.contains("rule: sort_of_sort: in `saturate`: both sides"), "{said}");
    let (_, said, _) = built(&folder, &["--rules", "proved.rx", "--certify"]);
    assert!(said.contains("in the certificate 1 of 1 rules are proved; "), "{said}");
    assert!(certified(&[]).0.is_null());
}

#[test]
fn compiled_runs_take_rules_and_others_refuse_them() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    let rules = ["--rules", "proved.rx"];
    let run = ["run", "program.rx", "--input", "x=[-2, 1, 3]"];
    let compiled = folder.relax(&[&run[..], &["--backend", "cpu"], &rules].concat());
    assert!(text(&compiled.stdout).contains("[0. 1. 3.]"), "{}", text(&compiled.stderr));
    assert!(text(&compiled.stderr).contains("rewritten by relu_thrice"));
    let bench = ["bench", "program.rx", "--sym", "n=4", "--seconds", "0"];
    let measured = folder.relax(&[&bench[..], &rules].concat());
    assert!(text(&measured.stderr).contains("rewritten by relu_thrice"));
    let interpreted = folder.relax(&[&run[..], &rules].concat());
    assert!(text(&interpreted.stderr).contains("give a --backend"));
    assert_eq!(built(&folder, &[]).2, Some(0));
    let of_file =
        folder.relax(&[&["run", "m.rxm", "--random", "--sym", "n=3"][..], &rules].concat());
    assert!(text(&of_file.stderr).contains("is rewritten when it is built"));
}
