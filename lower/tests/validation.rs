//! Every way in which a test breaks what a pass made is found out: what validation proves of such a module, the
//! interpreter finds to make no difference.

use relax_corpus::files;
use relax_corpus::par_map::par_map_chunks;
use relax_corpus::sample::{Sample, is_whole};
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print};
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::pass::{Exactness, Settings};
use relax_rewrite::pipeline::{Applied, Watch, run};
use relax_rewrite::verify::{Effort, verify};
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Module;
use relax_syntax::ir::references::texts_from;
use relax_syntax::span::Source;
use relax_theorems::validation::{FUEL, Finding, Outcome, validate};
use relax_validation::kernels::filled;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs that show a difference, if there is one.
const EFFORT: Effort = Effort { cases: 12, seed: 7 };
/// From graphs to fused tensor programs.
const ROUTE: &str = "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,inline_buffers,\
                     eliminate_dead_code";

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

fn module(path: &PathBuf) -> Option<Module> {
    let text = std::fs::read_to_string(path).ok()?;
    let program = Program::load(Source::new("corpus", text.as_str()));
    Some(well_formed_part(&program))
}

/// Texts and what they are broken to, each at every place, one at a time.
const BREAKS: [(&str, &str); 16] = [
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" / ", " * "),
    (" // ", " % "),
    (" % ", " // "),
    (" < ", " <= "),
    ("max(", "min("),
    ("0.0", "1.0"),
    ("exp(", "tanh("),
    ("relu(", "tanh("),
    ("add(", "multiply("),
    ("i0, i1]", "i1, i0]"),
    ("axis=1", "axis=0"),
    (" += ", " = "),
    ("f64(", "f64(-"),
];
/// One in so many programs on passes is broken.
const STRIDE: usize = 3;

/// How often one module is broken.
fn most_mutants() -> usize {
    if is_whole() { 100 } else { 12 }
}

/// Keeps what passes made of a program.
#[derive(Default)]
struct Kept(Vec<(Module, Module)>);

impl Watch for Kept {
    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        if applied.changed() {
            self.0.push((applied.before.clone(), applied.after.clone()));
        }
        Ok(())
    }
}

/// What became of broken modules.
#[derive(Default)]
struct Mutants {
    /// Those that are not proved.
    refused: usize,
    /// Those that are, and make no difference.
    equal: usize,
    /// Those that are, and break a plan of memory.
    of_memory: usize,
    /// Those that are, and may not be.
    wrong: Vec<String>,
}

#[test]
fn broken_results_of_passes_are_not_proved() {
    let of_passes = |path: &PathBuf| {
        let name = files::name(path);
        name.starts_with("suite/passes") || name.starts_with("paper/")
    };
    let sample = Sample::of("programs on passes that are broken", STRIDE);
    let paths = sample.take(files::programs().into_iter().filter(of_passes));
    let mut all = Mutants::default();
    for share in par_map_chunks(paths.collect(), of_files) {
        all.refused += share.refused;
        all.equal += share.equal;
        all.of_memory += share.of_memory;
        all.wrong.extend(share.wrong);
    }
    let Mutants { refused, equal, of_memory, wrong } = all;
    eprintln!(
        "{refused} mutants are not proved, {equal} are and make no difference, {of_memory} are and break a plan \
         of memory"
    );
    assert!(wrong.is_empty(), "{} are proved:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 300, "only {refused} mutants");
}

fn of_files(paths: Vec<PathBuf>) -> Mutants {
    let mut seen = Mutants::default();
    for path in paths {
        let Some(module) = module(&path) else { continue };
        let route = PIPELINE.named(ROUTE).expect("the passes are there");
        let mut kept = Kept::default();
        let _ = run(&module, &route, &Settings::default(), &mut Prover::new(), &mut kept);
        for (before, after) in kept.0 {
            mutants(&after).iter().for_each(|mutant| seen.note(&path, &before, mutant));
        }
    }
    seen
}

impl Mutants {
    fn note(&mut self, path: &Path, before: &Module, mutant: &Module) {
        let findings = validate(before, mutant, FUEL, &mut prover, filled);
        if findings.is_empty() || findings.iter().any(|f| f.outcome != Outcome::Proved) {
            self.refused += 1;
            return;
        }
        // What is proved must do the same in the interpreter.
        match verify(before, mutant, Exactness::Exact, EFFORT, &BTreeMap::new()) {
            Ok(_) => self.equal += 1,
            // Whether memory holds what is put into it is asked elsewhere.
            Err(why) if why.to_string().contains("[memory.") => self.of_memory += 1,
            Err(why) => self.wrong.push(format!("{}: {why}\n{}", path.display(), print(mutant))),
        }
    }
}

/// Well-formed modules that differ from this one in one place.
fn mutants(module: &Module) -> Vec<Module> {
    let text = print(module);
    let mut found = Vec::new();
    for (from, to) in BREAKS {
        for (at, _) in text.match_indices(from).take(most_mutants() / 4) {
            let broken = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
            let program = Program::load(Source::new("mutant", broken.as_str()));
            if !program.has_errors() && program.module != *module {
                found.push(program.module);
            }
        }
    }
    let step = found.len().div_ceil(most_mutants()).max(1);
    found.into_iter().step_by(step).collect()
}

/// What a name stands for counts where an operator that is not looked into is given a function.
#[test]
fn programs_of_one_name_are_told_apart() {
    let module = |update: &str| {
        let text = format!(
            "def main(x: Tensor((\"n\",), \"f32\")):\n    \
                 return call_tir_inplace(bump, [x], inplace=[0], out=Tensor((n,), \"f32\"))\n\n\
             @tensorir_function\n\
             def bump(X: Buffer((\"n\",), \"f32\")):\n    \
                 for i in range(n):\n        \
                     X[i] {update} 1.0\n"
        );
        let program = Program::load(Source::new("bump", text.as_str()));
        assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
        well_formed_part(&program)
    };
    let proved = |before: &Module, after: &Module| {
        let findings = validate(before, after, FUEL, &mut prover, filled);
        !findings.is_empty() && findings.iter().all(|found| found.outcome == Outcome::Proved)
    };
    assert!(proved(&module("+="), &module("+=")));
    assert!(!proved(&module("+="), &module("=")));
}

/// Pairs of modules in `pairs/`, each with what is to be found out: `proved`; `differs`, which the interpreter finds too;
/// `refused`, the same of a function that is not compared at all, not even with itself; or `open`, where the interpreter is
/// not asked.
#[test]
fn pairs_are_what_they_say() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pairs"));
    let entries = std::fs::read_dir(&folder).expect("the pairs are there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a pair").path()).collect();
    paths.sort();
    assert!(paths.len() > 10);
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a pair can be read");
        if let Err(why) = pair(&text) {
            wrong.push(format!("{}: {why}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn pair(text: &str) -> Result<(), String> {
    let (before, after) = text.split_once("# after\n").ok_or("there is no `# after`")?;
    let wanted = before.lines().nth(1).and_then(|line| line.strip_prefix("# "));
    found(wanted.ok_or("the second line says what is to be found out")?, before, after)
}

/// What may be found of two modules.
const VERDICTS: [&str; 4] = ["proved", "differs", "refused", "open"];

fn found(wanted: &str, before: &str, after: &str) -> Result<(), String> {
    let load = |text: &str| {
        let program = Program::load(Source::new("pair", text));
        match program.diagnostics.iter().find(|_| program.has_errors()) {
            Some(found) => Err(found.message.clone()),
            None => Ok(program.module),
        }
    };
    let (before, after) = (load(before)?, load(after)?);
    let open = |after: &Module| -> Vec<Finding> {
        let findings = validate(&before, after, FUEL, &mut prover, filled).into_iter();
        findings.filter(|finding| finding.outcome != Outcome::Proved).collect()
    };
    let mut open_after = open(&after);
    // Of functions that are the same nothing is asked.
    open_after.retain(|finding| {
        texts_from(&before, &finding.function) != texts_from(&after, &finding.function)
    });
    let beyond = open(&before);
    let is_beyond = |finding: &Finding| beyond.iter().any(|each| each.function == finding.function);
    let seen = || verify(&before, &after, Exactness::Exact, EFFORT, &BTreeMap::new()).is_err();
    match wanted {
        "proved" if open_after.is_empty() => Ok(()),
        "proved" => Err(format!("{open_after:?}")),
        _ if open_after.is_empty() => Err("it is proved".to_owned()),
        "differs" if open_after.iter().all(is_beyond) => {
            Err(format!("it is beyond: {open_after:?}"))
        }
        "refused" if !open_after.iter().all(is_beyond) => Err("it is understood".to_owned()),
        "differs" | "refused" if !seen() => Err("the interpreter finds no difference".to_owned()),
        "differs" | "refused" | "open" => Ok(()),
        other => Err(format!("what is {other}?")),
    }
}

/// Programs in `edits/`, with comments that change them in one place and say what is to be found of it, as [`pair`] has it:
/// `# differs: FROM => TO`, where `\n` ends a line. What is found must not depend on which of the two came first.
#[test]
fn edits_are_what_they_say() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/edits"));
    let entries = std::fs::read_dir(&folder).expect("the programs are there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a program").path()).collect();
    paths.sort();
    let (mut tried, mut wrong) = (0, Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a program can be read");
        for (wanted, from, to) in text.lines().filter_map(edit) {
            tried += 1;
            if let Err(why) = edited(&text, wanted, &from, &to) {
                wrong.push(format!("{}: {wanted}: {from} => {to}: {why}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 70, "only {tried} edits");
}

/// What is to be found, what stands in the program, and what comes in its place.
fn edit(line: &str) -> Option<(&str, String, String)> {
    let (wanted, change) = line.strip_prefix("# ")?.split_once(": ")?;
    let (from, to) = change.split_once(" =>").filter(|_| VERDICTS.contains(&wanted))?;
    let plain = |text: &str| text.replace("\\n", "\n");
    Some((wanted, plain(from), plain(to.strip_prefix(' ').unwrap_or(to))))
}

fn edited(text: &str, wanted: &str, from: &str, to: &str) -> Result<(), String> {
    let lines = text.lines().filter(|line| edit(line).is_none());
    let before: String = lines.map(|line| format!("{line}\n")).collect();
    if before.matches(from).count() != 1 {
        return Err("it does not stand there once".to_owned());
    }
    let after = before.replacen(from, to, 1);
    found(wanted, &before, &after)?;
    found(wanted, &after, &before).map_err(|why| format!("the other way round: {why}"))
}
