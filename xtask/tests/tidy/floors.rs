//! Who may know whom: a crate depends on crates of lower floors only, and some third-party crates
//! stay out of some folders.

use crate::project::{report, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The floor of each folder. `xtask` looks at all of them and nobody looks at it. Of the backends a later
/// one may know an earlier one.
const FLOORS: &[(&str, u32)] = &[
    ("backends/runtime", 0),
    ("backends/runtime/capi", 1),
    ("syntax", 0),
    ("semantics", 1),
    ("symbolic", 1),
    ("program", 2),
    ("proofs", 2),
    ("proofs/theorems", 2),
    ("corpus", 3),
    ("corpus/generate", 3),
    ("tir", 2),
    ("sharding", 3),
    ("proofs/validation", 3),
    ("import", 3),
    ("llm", 3),
    ("rewrite", 3),
    ("lower", 4),
    ("backends/emit", 5),
    ("backends/cpu", 5),
    ("backends/reference", 5),
    ("backends/cuda", 5),
    ("backends/webgpu", 5),
    ("driver", 6),
    ("backends/mpi", 7),
    ("train", 7),
    ("corpus/fuzz", 7),
    ("cli", 8),
    ("examples/encoder", 8),
    ("python", 8),
    ("corpus/mutants", 9),
    ("xtask", 9),
];

/// The folder of the runtime, and of the crates that know a device.
const BACKENDS: &str = "backends/";

/// The crate of the programs of the corpus and their harness: a dev-dependency everywhere.
const HARNESS: &str = "relax-corpus";

/// The front end, which tests of every floor but the lowest load their programs with.
const FRONT_END: &str = "relax-program";

/// Compiles programs for every backend: tests of a backend compile by it what they run.
const DRIVER: &str = "relax-driver";

/// Third-party crates that a folder must not know.
const STRANGERS: &[(&str, &[&str])] = &[
    ("syntax", &["ndarray", "egg", "z3", "z3-sys"]),
    ("semantics", &["egg", "z3", "z3-sys"]),
    ("symbolic", &["ndarray"]),
    ("proofs", &["egg", "z3", "z3-sys", "relax-symbolic"]),
    (
        "proofs/validation",
        &[
            "egg",
            "z3",
            "z3-sys",
            "relax-symbolic",
            "relax-program",
            "relax-corpus",
            "relax-rewrite",
        ],
    ),
    ("backends/", &["egg", "z3", "z3-sys", "lalrpop", "lalrpop-util"]),
];

/// A crate of the workspace.
struct Member {
    folder: String,
    manifest: String,
    dependencies: Vec<Dependency>,
}

/// A line of its manifest.
struct Dependency {
    name: String,
    /// `normal`, `dev` or `build`.
    kind: String,
}

fn members() -> BTreeMap<String, Member> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("tidy asks cargo for the crates of the workspace");
    assert!(output.status.success(), "cargo: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    packages.iter().map(|package| (string(&package["name"]), member(package))).collect()
}

fn member(package: &Value) -> Member {
    let manifest = string(&package["manifest_path"]);
    let folder = Path::new(&manifest).parent().and_then(|folder| folder.strip_prefix(root()).ok());
    let folder = folder.expect("a manifest lies in a folder of the project");
    let folder = folder.to_string_lossy().into_owned();
    let lines = package["dependencies"].as_array().expect("a package lists dependencies");
    let dependency = |line: &Value| Dependency {
        name: string(&line["name"]),
        kind: line["kind"].as_str().unwrap_or("normal").to_owned(),
    };
    Member {
        manifest: format!("{folder}/Cargo.toml"),
        dependencies: lines.iter().map(dependency).collect(),
        folder,
    }
}

fn string(value: &Value) -> String {
    value.as_str().expect("cargo writes this as a string").to_owned()
}

/// The floor of a folder, and for backends the place among them.
fn floor(folder: &str) -> Option<(u32, usize)> {
    let at = FLOORS.iter().position(|(name, _)| *name == folder)?;
    Some((FLOORS[at].1, if folder.starts_with(BACKENDS) { at } else { 0 }))
}

#[test]
fn crates_depend_on_lower_floors_only() {
    let members = members();
    let mut findings = Vec::new();
    for member in members.values() {
        let manifest = &member.manifest;
        let Some(own) = floor(&member.folder) else {
            findings.push(format!("{manifest}: `{}` has no floor in the table", member.folder));
            continue;
        };
        for dependency in &member.dependencies {
            let Some(other) = members.get(&dependency.name) else { continue };
            // Tests of every floor may load and run programs, those of backends also compile them.
            let mut of_tests = vec![HARNESS, FRONT_END];
            of_tests.extend(member.folder.starts_with(BACKENDS).then_some(DRIVER));
            let harness = of_tests.contains(&&*dependency.name) && dependency.kind == "dev";
            let lower = floor(&other.folder).is_some_and(|floor| floor < own);
            if !lower && !harness {
                let (folder, kind) = (&other.folder, &dependency.kind);
                findings
                    .push(format!("{manifest}: a {kind} dependency on `{folder}`, no lower floor"));
            }
        }
    }
    report("floors", &findings);
}

/// A build dependency is part of the product too.
#[test]
fn only_tests_know_the_corpus() {
    let members = members();
    assert!(members.contains_key(HARNESS), "there is no crate `{HARNESS}`");
    let mut findings = Vec::new();
    for member in members.values() {
        let of_product = member.dependencies.iter().filter(|dependency| dependency.kind != "dev");
        for dependency in of_product.filter(|dependency| dependency.name == HARNESS) {
            let (manifest, kind) = (&member.manifest, &dependency.kind);
            findings
                .push(format!("{manifest}: a {kind} dependency on `{HARNESS}`, for tests only"));
        }
    }
    report("the corpus", &findings);
}

#[test]
fn strangers_stay_out() {
    let members = members();
    let mut findings = Vec::new();
    for member in members.values() {
        let forbidden = STRANGERS.iter().find(|(folder, _)| {
            *folder == member.folder || (folder.ends_with('/') && member.folder.starts_with(folder))
        });
        let Some((_, forbidden)) = forbidden else { continue };
        for dependency in &member.dependencies {
            if forbidden.contains(&dependency.name.as_str()) {
                let (manifest, name) = (&member.manifest, &dependency.name);
                findings.push(format!("{manifest}: `{name}` must not be known here"));
            }
        }
    }
    report("must not know", &findings);
}

/// The page with the floor table for people.
const PAGE: &str = "ARCHITECTURE.md";

/// A row of the floor table on the page: its line, floor (none for `–`) and folder.
fn page_rows(text: &str) -> Vec<(usize, Option<u32>, String)> {
    let row = |(index, line): (usize, &str)| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (floor, folder) = (cells.next()?, cells.next()?);
        let folder = folder.strip_prefix('`')?.strip_suffix("/`")?;
        let is_floor = floor == "–" || floor.parse::<u32>().is_ok();
        is_floor.then(|| (index + 1, floor.parse().ok(), folder.to_owned()))
    };
    text.lines().enumerate().filter_map(row).collect()
}

/// Where the page differs from [`FLOORS`]. Crates that the page gives no floor are above all others.
fn page_differences(text: &str) -> Vec<String> {
    let rows = page_rows(text);
    let highest = FLOORS.iter().map(|(_, floor)| *floor).max();
    let mut findings = Vec::new();
    for (line, floor, folder) in &rows {
        match FLOORS.iter().find(|(name, _)| name == folder) {
            None => findings.push(format!("{PAGE}:{line}: `{folder}` has no floor in the tests")),
            Some((_, wanted)) if floor.or(highest) != Some(*wanted) => {
                findings.push(format!("{PAGE}:{line}: `{folder}` is on floor {wanted}"));
            }
            Some(_) => {}
        }
    }
    let missing = FLOORS.iter().filter(|(name, _)| rows.iter().all(|(_, _, row)| row != name));
    findings.extend(missing.map(|(name, _)| format!("{PAGE}:1: no row for `{name}`")));
    findings
}

#[test]
fn the_page_shows_the_floors() {
    let text = std::fs::read_to_string(root().join(PAGE)).expect("the page is there");
    report("floors on the page", &page_differences(&text));
}

#[test]
fn a_page_that_differs_is_found() {
    let row = |(name, floor): &(&str, u32)| match *name {
        "syntax" => "| 3 | `syntax/` | |\n| 0 | `nowhere/` | |\n".to_owned(),
        "symbolic" => String::new(),
        "xtask" => "| – | `xtask/` | |\n".to_owned(),
        _ => format!("| {floor} | `{name}/` | |\n"),
    };
    let page: String = FLOORS.iter().map(row).collect();
    let found = page_differences(&page);
    let expected = ["`syntax` is on floor 0", "`nowhere` has no floor", "no row for `symbolic`"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}

/// What checks certificates must not reach what searches for them, by any way but that of tests.
#[test]
fn the_checker_of_compilations_reaches_no_prover() {
    let reached = reached_from("relax-validation");
    for stranger in
        ["egg", "z3", "z3-sys", "relax-symbolic", "relax-program", "relax-corpus", "relax-rewrite"]
    {
        assert!(!reached.contains(stranger), "`relax-validation` reaches `{stranger}`");
    }
    for expected in ["relax-proofs", "relax-semantics", "relax-syntax", "relax-theorems"] {
        assert!(reached.contains(expected), "`relax-validation` does not reach `{expected}`");
    }
}

/// The crates that a crate is built from, third-party ones included.
fn reached_from(name: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--package", name, "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(root())
        .output()
        .expect("tidy asks cargo for what a crate is built from");
    assert!(output.status.success(), "cargo: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
