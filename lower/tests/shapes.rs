//! `lower_shapes` on programs that no pass has brought to P2.1: the interpreter runs operators beside
//! lowered dims, which no phase allows. So the checks that take the place of annotations meet what
//! the corpus and generated modules have in store: same values, and the same traps.

use relax_corpus::files;
use relax_generate::module;
use relax_lower::passes::{lower_builtins, lower_shapes, to_non_dataflow};
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print};
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::pass::{Exactness, Pass, PassContext, Settings};
use relax_rewrite::pipeline::{Unwatched, run};
use relax_rewrite::verify::{Effort, Tally, verify};
use relax_semantics::check::{Phase, check};
use relax_semantics::ops::{Kind, lookup};
use relax_semantics::random::Random;
use relax_symbolic::Prover;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Module};
use relax_syntax::parse::read_source;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

const EFFORT: Effort = Effort { cases: 8, seed: 5 };
/// Deep recursion in a program is the interpreter's to limit, not the thread's.
const STACK: usize = 256 << 20;

/// A pass alone: what it makes need not be well-formed.
fn applied(pass: &Pass, module: &Module) -> Module {
    let checked = check(module, &mut Prover::new(), Phase::Surface);
    let settings = Settings::default();
    let facts = &mut Prover::new();
    (pass.run)(module, &mut PassContext::new(&checked, &settings, facts))
        .unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// Symbolic outputs of `call_tir` are annotations, and a computed dim of a `reshape` is told from a
/// literal -1 by its text: lowering both is for the passes before.
fn is_for_earlier_passes(body: &Body) -> bool {
    body.bindings().any(|binding| match &binding.expr {
        Expr::Call { callee: Callee::Operator(name), args, attrs } => {
            let row = lookup(name).expect("invariant: the module is well-formed");
            let declares = row.params.iter().any(|param| {
                (param.kind == Kind::Annotation && param.name != "ret")
                    || param.kind == Kind::InferredShape
            });
            let atoms = args.iter().chain(attrs.iter().map(|(_, atom)| atom));
            declares && atoms.into_iter().any(|atom| !matches!(atom, Atom::Var(_)))
        }
        Expr::If { then, otherwise, .. } => {
            is_for_earlier_passes(then) || is_for_earlier_passes(otherwise)
        }
        _ => false,
    })
}

fn hold(name: &str, module: &Module, tally: &mut Tally) -> bool {
    let route = PIPELINE.to(Phase::P0);
    let (settings, facts) = (Settings::default(), &mut Prover::new());
    let Ok(module) = run(module, &route, &settings, facts, &mut Unwatched) else { return false };
    let bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
    if bodies.into_iter().any(is_for_earlier_passes) {
        return false;
    }
    let before = applied(&to_non_dataflow::PASS, &module);
    let after = applied(&lower_shapes::PASS, &before);
    assert!(after.functions().all(|function| function.dims.is_empty()));
    let after = applied(&lower_builtins::PASS, &after);
    let shown = |why: &dyn std::fmt::Display| format!("{name}: {why}\n{}", print(&after));
    match verify(&before, &after, Exactness::Exact, EFFORT, &BTreeMap::new()) {
        Ok(more) => tally.add(&more),
        Err(difference) => panic!("{}", shown(&difference)),
    }
    true
}

#[test]
fn generated_modules() {
    let (mut tally, mut held) = (Tally::default(), 0);
    for seed in 0..400 {
        let mut random = Random::new(seed, "shapes");
        let length = random.int(&(20..=240));
        let bytes: Vec<u8> = (0..length).map(|_| random.bits().to_le_bytes()[0]).collect();
        let text = module(&bytes);
        let program = Program::load(Source::new("generated", text.as_str()));
        held += usize::from(hold(&text, &program.module, &mut tally));
    }
    assert!(held > 80 && tally.compared > 2000, "{held}: {tally:?}");
}

fn corpus() {
    let (mut tally, mut held) = (Tally::default(), 0);
    let suite = files::root().join("suite");
    for path in files::programs().into_iter().filter(|path| path.starts_with(&suite)) {
        let bytes = std::fs::read(&path).expect("the file is there");
        let name = path.display().to_string();
        let Ok(source) = read_source(&name, &bytes) else { continue };
        let part = well_formed_part(&Program::load(source));
        held += usize::from(hold(&name, &part, &mut tally));
    }
    assert!(held > 100 && tally.compared > 2000 && tally.trapped > 800, "{held}: {tally:?}");
}

#[test]
fn programs_of_the_corpus() {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(corpus);
    thread.expect("a thread starts").join().expect("no program differs");
}
