//! Properties of generated modules: they check, print and parse back, and run; deduced annotations are true of
//! every run.

use proptest::prelude::*;
use relax_generate::module;
use relax_program::compare::{Relation, compare};
use relax_program::frontend::{Program, RunOptions, parameters, print, print_and_parse, run};
use relax_program::signature::{Dims, random_value};
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;

/// Sizes that find bugs.
const DIMS: [i64; 5] = [0, 1, 2, 3, 5];

/// What became of runs: a property that nothing gets to says nothing.
#[derive(Debug, Default)]
struct Tally {
    values: u32,
    traps: u32,
    /// Whose constraints are never satisfied: sizes are not chosen with all of them in mind.
    refused: u32,
    exhausted: u32,
}

fn resolved(text: &str) -> Module {
    let (file, parse) = parse_file(&Source::new("generated", text));
    let (module, resolve) = resolve_file(&file);
    assert!(parse.is_empty() && resolve.is_empty(), "{parse:#?} {resolve:#?}\n{text}");
    module
}

/// Text and IR are inverse, before and after deduction.
fn prints_and_parses(raw: &Module, checked: &Module, text: &str) {
    for module in [raw, checked] {
        let read = print_and_parse(module).unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert!(!read.has_errors(), "{:#?}\n{}", read.diagnostics, print(module));
        let again = resolved(&read.source.text);
        assert_eq!(print(&again), read.source.text);
    }
}

fn arguments(module: &Module, function: &str, dims: &Dims, seed: u64) -> Vec<Value> {
    let parameters = parameters(module, function).expect("the function is there");
    let value = |(name, annotation): &(Name, _)| {
        let mut random = Random::new(seed, name);
        random_value(annotation, dims, &mut random, &(-4..=4), 1 << 20)
            .expect("parameters are tensors of known dims")
    };
    parameters.iter().map(value).collect()
}

/// Runs a function with and without deduced annotations: both do the same, and none is false.
fn runs_alike(raw: &Module, checked: &Module, function: &str, dims: &Dims, tally: &mut Tally) {
    let options = RunOptions { steps: Some(1_000_000), ..RunOptions::default() };
    let arguments = arguments(raw, function, dims, 7);
    let plain = run(raw, function, arguments.clone(), &options).result;
    let annotated = run(checked, function, arguments, &options).result;
    let shown = || format!("{function} at {dims:?}\n{}", print(checked));
    match (plain, annotated) {
        (Ok(a), Ok(b)) => {
            tally.values += 1;
            compare(Relation::Equal, &a, &b).unwrap_or_else(|why| panic!("{why}\n{}", shown()));
        }
        (Err(Stop::Trap(a)), Err(Stop::Trap(b))) => {
            tally.traps += 1;
            assert!(!b.id.starts_with("annotation/") || a.id == b.id, "{b}\n{}", shown());
            assert_eq!(a.id, b.id, "{}", shown());
        }
        (Err(Stop::Exhausted { .. }), Err(Stop::Exhausted { .. })) => tally.exhausted += 1,
        (a, b) => panic!("{a:?}\n{b:?}\n{}", shown()),
    }
}

fn holds(bytes: &[u8], tally: &mut Tally) {
    let text = module(bytes);
    let raw = resolved(&text);
    let program = Program::load(Source::new("generated", text.as_str()));
    if program.has_errors() {
        tally.refused += 1;
        return;
    }
    prints_and_parses(&raw, &program.module, &text);
    let mut random = Random::new(0, &text);
    for function in raw.functions() {
        for _ in 0..3 {
            let mut dim = || DIMS[usize::try_from(random.int(&(0..=4))).expect("0 to 4")];
            let declared = function.dims.iter().filter(|dim| dim.in_signature);
            let dims = declared.map(|declared| (declared.name.clone(), dim())).collect();
            runs_alike(&raw, &program.module, &function.name, &dims, tally);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_modules_hold(bytes in proptest::collection::vec(any::<u8>(), 0..240)) {
        holds(&bytes, &mut Tally::default());
    }
}

#[test]
fn generated_modules_reach_values_and_every_form() {
    let (mut tally, mut texts) = (Tally::default(), String::new());
    // The first are held too; the others show that every form comes.
    for seed in 0..800 {
        let mut random = Random::new(seed, "bytes");
        let bytes: Vec<u8> = (0..160).map(|_| random.bits().to_le_bytes()[0]).collect();
        texts.push_str(&module(&bytes));
        if seed < 60 {
            holds(&bytes, &mut tally);
        }
    }
    assert!(tally.values > tally.traps && tally.refused < 8, "{tally:?}");
    let forms = [
        "with dataflow",
        "output(",
        "if c",
        "    def g",
        "match_cast(",
        "call_tir(",
        "out_shape=",
        "module_attr",
        "func_attr",
        "matmul(",
        "concat(",
        "softmax(",
        "conv2d(",
        "unique(",
        "call_tir_inplace(",
        "make_closure(",
        "reshape(",
        "nan",
        "-0.0",
        "u64",
        "= f0(",
    ];
    for form in forms {
        assert!(texts.contains(form), "no generated module has `{form}`");
    }
}
