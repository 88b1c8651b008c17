//! What the pipeline makes meets the demands of each phase of P2: over a sample of the corpus, on the processor and for
//! graphs. Bugs planted in it are found.

use relax_corpus::directive::{Marker, read as expectations};
use relax_corpus::files;
use relax_corpus::par_map::par_map_chunks;
use relax_corpus::sample::Sample;
use relax_lower::demands::demands;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print};
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::{Unwatched, run};
use relax_semantics::check::Phase;
use relax_semantics::ops::{Family, called_by_name, lookup};
use relax_symbolic::Prover;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::ir::{Body, Callee, Expr, Module};
use relax_syntax::span::Source;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The way to P2.1 takes most of the time.
const STRIDE: usize = 3;

const PHASES: [Phase; 3] = [Phase::P21, Phase::P22, Phase::P23];

fn read(text: &str) -> Module {
    well_formed_part(&Program::load(Source::new("corpus", text)))
}

/// The module in each phase of P2; `None` where a pass refuses it.
fn lowered(module: &Module, target: Device) -> Vec<(Phase, Module)> {
    let settings = Settings { device: target, ..Settings::default() };
    let mut module = module.clone();
    let mut found = Vec::new();
    for phase in PHASES {
        let route = PIPELINE.to(phase);
        let Ok(next) = run(&module, &route, &settings, &mut Prover::new(), &mut Unwatched) else {
            break;
        };
        found.push((phase, next.clone()));
        module = next;
    }
    found
}

/// Whether a program manages memory, or calls operators by name: then mistakes are its own.
fn manages_memory(module: &Module) -> bool {
    fn of_body(body: &Body) -> bool {
        body.bindings().any(|binding| match &binding.expr {
            Expr::If { then, otherwise, .. } => of_body(then) || of_body(otherwise),
            Expr::Closure(lambda) => lambda.body.as_ref().is_some_and(of_body),
            Expr::Call { callee: Callee::Operator(name), args, .. } => {
                lookup(name).is_some_and(|row| {
                    row.family == Family::Memory || called_by_name(row, args.first()).is_some()
                })
            }
            _ => false,
        })
    }
    module.functions().filter_map(|function| function.lambda.body.as_ref()).any(of_body)
}

fn of_file(path: &Path) -> Vec<String> {
    // Some programs are there because they are no text.
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let module = read(&text);
    if module.definitions.is_empty() || manages_memory(&module) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for target in [Device::Cpu, Device::Cuda] {
        for (phase, lowered) in lowered(&module, target) {
            let found = demands(&lowered, phase);
            for each in &found {
                let name = files::name(path);
                let line =
                    format!("{name} {target:?} {} {}: {}", phase.name(), each.code, each.message);
                if each.severity == Severity::Error {
                    wrong.push(format!("{line}\n{}", print(&lowered)));
                }
            }
        }
    }
    wrong
}

#[test]
fn what_the_pipeline_makes_meets_the_demands() {
    let sample: Vec<PathBuf> =
        Sample::of("programs whose phases are checked", STRIDE).take(files::programs()).collect();
    let shares = par_map_chunks(sample, |share| -> Vec<String> {
        share.iter().flat_map(|path| of_file(path)).collect()
    });
    let wrong: Vec<String> = shares.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a text is found to do against the demands of the phase that it records.
fn found(text: &str) -> BTreeSet<Marker> {
    let program = Program::load(Source::new("corpus", text));
    let module = well_formed_part(&program);
    let phase = Phase::of_module(&module).unwrap_or(Phase::Surface);
    let marker = |found: Diagnostic| {
        let (line, _) = program.source.line_column(found.primary.span.start);
        Marker { line, severity: found.severity, code: found.code.to_owned() }
    };
    demands(&module, phase).into_iter().map(marker).collect()
}

#[test]
fn programs_do_against_demands_what_they_say() {
    let mut wrong = Vec::new();
    for path in files::programs() {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let (expected, found) = (expectations(&text).demands, found(&text));
        for marker in expected.symmetric_difference(&found) {
            let how = if found.contains(marker) { "unexpected" } else { "expected" };
            wrong.push(format!("{}:{}: {how} {}", files::name(&path), marker.line, marker.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const CHAIN: &str = r#"
def main(x: Tensor(("n", 4), "f32"), w: Tensor((4, 4), "f32")):
    a = matmul(x, w)
    b = matmul(a, w)
    c = matmul(b, w)
    return exp(c)
"#;

/// Edits of what the pipeline makes of [`CHAIN`], each with what is found.
const BUGS: &[(&str, &str, &str)] = &[
    ("alloc_storage(shape(n * 16), \"u8\")", "alloc_storage(shape(n * 15), \"u8\")", "RX0313"),
    (
        "alloc_tensor(storage_1, shape(n, 4), \"f32\")",
        "alloc_tensor(storage, shape(n, 4), \"f32\")",
        "RX0314",
    ),
    ("    memory.kill_storage(storage_2)\n", "", "RX0316"),
    (
        "    memory.kill_storage(storage_2)\n",
        "    memory.kill_storage(storage_2)\n    memory.kill_storage(storage_2)\n",
        "RX0315",
    ),
    (
        "    memory.kill_tensor(b)\n",
        "    memory.kill_tensor(b)\n    memory.kill_tensor(b)\n",
        "RX0315",
    ),
    (
        "    legal_matmul(x, w, ",
        "    e = builtin.call_operator(\"exp\", x)\n    legal_matmul(e, w, ",
        "RX0312",
    ),
];

#[test]
fn planted_bugs_are_found() {
    for (phase, module) in lowered(&read(CHAIN), Device::Cpu).into_iter().take(2) {
        let text = print(&module);
        assert_eq!(found(&text), BTreeSet::new(), "{text}");
        for (from, to, code) in BUGS {
            assert!(text.contains(from), "{from}\n{text}");
            let broken = text.replacen(from, to, 1);
            let found = found(&broken);
            assert!(
                found.iter().any(|each| each.code == *code && each.severity == Severity::Error),
                "{}: {to}: expected {code}, found {found:?}",
                phase.name()
            );
        }
    }
}

/// As a module of P2.3 has them: heaps instead of dims.
const HEAP_BUGS: &[(&str, &str, &str)] = &[
    ("alloc_storage(dims_1, ", "alloc_storage(shape(0), ", "RX0313"),
    ("    memory.kill_storage(storage_2)\n", "", "RX0316"),
    (
        "    legal_matmul(x, w, ",
        "    e = builtin.run_operator(\"exp\", x)\n    legal_matmul(e, w, ",
        "RX0312",
    ),
];

#[test]
fn planted_bugs_are_found_behind_heaps() {
    let (_, module) = lowered(&read(CHAIN), Device::Cpu).pop().expect("it has a last phase");
    let text = print(&module);
    assert_eq!(found(&text), BTreeSet::new(), "{text}");
    for (from, to, code) in HEAP_BUGS {
        assert!(text.contains(from), "{from}\n{text}");
        let found = found(&text.replacen(from, to, 1));
        assert!(found.iter().any(|each| each.code == *code), "{to}: found {found:?}\n{text}");
    }
}
