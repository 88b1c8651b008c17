//! Every pass on a part of the corpus, validated: `validation.txt` says of each pass how many of the functions
//! that it was run on are proved to mean what they meant; `RELAX_BLESS=1` writes it, and the share of what is
//! proved must not fall. And every way in which a test breaks what a pass made is found out.

use relax_corpus::files;
use relax_corpus::pipeline::{Program, print};
use relax_corpus::well_formed_part::well_formed_part;
use relax_lower::pipeline::PIPELINE;
use relax_rewrite::pass::{Exactness, Settings};
use relax_rewrite::pipeline::{Applied, Watch, run};
use relax_rewrite::verify::{Effort, verify};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use relax_theorems::validation::{Outcome, validate};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/validation.txt");
const STACK: usize = 256 << 20;
/// Runs that show a difference, if there is one.
const EFFORT: Effort = Effort { cases: 12, seed: 7 };
/// From graphs to fused tensor programs, and passes by name.
const ROUTES: [&str; 3] = [
    "P2.1",
    "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,inline_buffers,\
     eliminate_dead_code",
    "lift_lambdas,normalize,inline_private_functions,combine_parallel_matmul,lower_views",
];
/// Every so many programs of the corpus.
const STEP: usize = 6;

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

/// What became of the functions that a pass was run on.
#[derive(Default)]
struct Tally {
    proved: usize,
    all: usize,
    whys: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Validated {
    tallies: BTreeMap<&'static str, Tally>,
    seen: Vec<(&'static str, Module, Module)>,
}

impl Watch for Validated {
    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        // From P2.2 on annotations are code.
        if !applied.changed() || applied.pass.to > Phase::P21 {
            return Ok(());
        }
        let known = |(pass, before, after): &(&str, Module, Module)| {
            *pass == applied.pass.name && before == applied.before && after == applied.after
        };
        if self.seen.iter().any(known) {
            return Ok(());
        }
        let now = std::time::Instant::now();
        let tally = self.tallies.entry(applied.pass.name).or_default();
        for finding in validate(applied.before, applied.after, &mut prover) {
            tally.all += 1;
            match finding.outcome {
                Outcome::Proved => tally.proved += 1,
                Outcome::Unproved(why) | Outcome::Refuted(why) => {
                    *tally.whys.entry(why).or_default() += 1;
                }
            }
        }
        if now.elapsed().as_millis() > 500 {
            eprintln!("{} took {:?}", applied.pass.name, now.elapsed());
        }
        self.seen.push((applied.pass.name, applied.before.clone(), applied.after.clone()));
        Ok(())
    }
}

fn programs() -> Vec<PathBuf> {
    files::programs().into_iter().step_by(STEP).collect()
}

fn module(path: &PathBuf) -> Option<Module> {
    let text = std::fs::read_to_string(path).ok()?;
    let program = Program::load(Source::new("corpus", text.as_str()));
    Some(well_formed_part(&program))
}

fn on_a_large_stack(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(test);
    thread.expect("a thread starts").join().expect("the test passes");
}

#[test]
fn passes_are_validated() {
    on_a_large_stack(validated);
}

fn validated() {
    let mut watch = Validated::default();
    for path in programs() {
        let Some(module) = module(&path) else { continue };
        watch.seen.clear();
        for route in ROUTES {
            let route = match Phase::parse(route) {
                Some(phase) => PIPELINE.to(phase),
                None => PIPELINE.named(route).expect("the passes are there"),
            };
            let settings = Settings::default();
            let _ = run(&module, &route, &settings, &mut Prover::new(), &mut watch);
        }
    }
    let mut lines = "# Functions that passes were run on, of the corpus: proved, all.\n".to_owned();
    for (pass, tally) in &watch.tallies {
        let _ = writeln!(lines, "{pass} {} {}", tally.proved, tally.all);
        let mut whys: Vec<_> = tally.whys.iter().collect();
        whys.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (why, count) in whys.into_iter().take(12) {
            eprintln!("{pass} {count} {}", why.chars().take(200).collect::<String>());
        }
    }
    eprintln!("{lines}");
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(LOCK, &lines).expect("the file can be written");
        return;
    }
    let known = std::fs::read_to_string(LOCK).expect("the file is there");
    for line in known.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let pass = words.next().expect("a pass");
        let mut number =
            || words.next().and_then(|word| word.parse::<usize>().ok()).expect("a number");
        let (proved, all) = (number(), number());
        let now = watch.tallies.get(pass).map_or((0, 1), |tally| (tally.proved, tally.all));
        assert!(
            now.0 * all >= proved * now.1,
            "{pass}: {now:?} functions are proved, it were {proved} of {all}"
        );
    }
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
/// Every so many programs on passes are broken.
const MUTATED: usize = 3;
/// Of one module.
const MOST_MUTANTS: usize = 12;

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

#[test]
fn broken_results_of_passes_are_not_proved() {
    on_a_large_stack(broken);
}

fn broken() {
    let (mut refused, mut equal, mut of_memory, mut wrong) = (0, 0, 0, Vec::new());
    let of_passes = |path: &PathBuf| {
        let name = files::name(path);
        name.starts_with("suite/passes") || name.starts_with("paper/")
    };
    for path in files::programs().into_iter().filter(of_passes).step_by(MUTATED) {
        let name = files::name(&path);
        let now = std::time::Instant::now();
        let Some(module) = module(&path) else { continue };
        let route = PIPELINE.named(ROUTES[1]).expect("the passes are there");
        let mut kept = Kept::default();
        let _ = run(&module, &route, &Settings::default(), &mut Prover::new(), &mut kept);
        for (before, after) in kept.0 {
            for mutant in mutants(&after) {
                let findings = validate(&before, &mutant, &mut prover);
                if findings.is_empty() || findings.iter().any(|f| f.outcome != Outcome::Proved) {
                    refused += 1;
                    continue;
                }
                // What is proved must do the same in the interpreter.
                match verify(&before, &mutant, Exactness::Approximate, EFFORT, &BTreeMap::new()) {
                    Ok(_) => equal += 1,
                    // Whether memory holds what is put into it is asked elsewhere.
                    Err(why) if why.to_string().contains("[memory.") => of_memory += 1,
                    Err(why) => wrong.push(format!("{name}: {why}\n{}", print(&mutant))),
                }
            }
        }
        eprintln!("{name} {:?}", now.elapsed());
    }
    eprintln!(
        "{refused} mutants are not proved, {equal} are and make no difference, {of_memory} are and break a plan \
         of memory"
    );
    assert!(wrong.is_empty(), "{} are proved:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 300, "only {refused} mutants");
}

/// Well-formed modules that differ from this one in one place.
fn mutants(module: &Module) -> Vec<Module> {
    let text = print(module);
    let mut found = Vec::new();
    for (from, to) in BREAKS {
        for (at, _) in text.match_indices(from).take(3) {
            let broken = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
            let program = Program::load(Source::new("mutant", broken.as_str()));
            if !program.has_errors() && program.module != *module {
                found.push(program.module);
            }
        }
    }
    let step = found.len().div_ceil(MOST_MUTANTS).max(1);
    found.into_iter().step_by(step).collect()
}
