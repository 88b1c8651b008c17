//! Random blocks of calls of tensor programs, of every pattern and with traps among them, through
//! fusion: the module means the same, every group is one that the rules admit, and groups are made.

use relax_corpus::structure::count;
use relax_program::frontend::{Program, print, print_and_parse};
use relax_rewrite::pass::Exactness;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Failed, PIPELINE, Unwatched, run};
use relax_rewrite::verify::{Effort, is_private, verify};
use relax_semantics::random::Random;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::fmt::Write;

const EFFORT: Effort = Effort { cases: 4, seed: 5 };
const BLOCKS: u64 = 400;

/// Name, inputs beside the first, body: all on `(n, 3)`, `i32`.
const PROGRAMS: &[(&str, usize, &str)] = &[
    ("double", 0, "for i, j in grid(n, 3):\n        Y[i, j] = X[i, j] * 2"),
    ("clamp", 0, "for i, j in grid(n, 3):\n        Y[i, j] = max(X[i, j], 0)"),
    ("mirror", 0, "for i, j in grid(n, 3):\n        Y[i, j] = X[i, 2 - j]"),
    ("plus", 1, "for i, j in grid(n, 3):\n        Y[i, j] = X[i, j] + Z[i, j]"),
    (
        "products",
        1,
        "for i, j, k in grid(n, 3, 3):\n        with block():\n            with init():\n                \
         Y[i, j] = 0\n            Y[i, j] += X[i, k] * Z[i, j]",
    ),
    (
        "most",
        0,
        "for i, j, k in grid(n, 3, 3):\n        with block():\n            with init():\n                \
         Y[i, j] = 0\n            Y[i, j] = max(Y[i, j], X[i, k])",
    ),
    ("quotient", 1, "for i, j in grid(n, 3):\n        Y[i, j] = X[i, j] // Z[i, j]"),
    ("look_up", 0, "for i, j in grid(n, 3):\n        Y[i, j] = X[i, i64(X[i, j])]"),
];

fn block(random: &mut Random) -> String {
    let shape = "Tensor((n, 3), \"i32\")";
    let mut text = format!("def main(v0: Tensor((\"n\", 3), \"i32\"), v1: {shape}):\n");
    text.push_str("    n = sym_var()\n    with dataflow():\n");
    let last = random.int(&(4..=12));
    let mut outputs = vec![format!("v{last}")];
    for at in 2..=last {
        // Most calls read what was just made, so that there are chains.
        let recent = |random: &mut Random| random.int(&(0.max(at - 3)..=at - 1));
        // Programs that can stop are rarer.
        let choices = if random.int(&(0..=1)) == 0 { PROGRAMS.len() } else { 6 };
        let choice = random.int(&(0..=i64::try_from(choices).expect("few") - 1));
        let (name, more, _) = PROGRAMS[usize::try_from(choice).expect("not negative")];
        let args: Vec<String> = (0..=more).map(|_| format!("v{}", recent(random))).collect();
        let args = args.join(", ");
        writeln!(text, "        v{at} = call_tir({name}, [{args}], {shape})").expect("a string");
        if at != last && random.int(&(0..=7)) == 0 {
            outputs.push(format!("v{at}"));
        }
    }
    let outputs = outputs.join(", ");
    writeln!(text, "        output({outputs})\n    return ({outputs},)").expect("a string");
    for (name, more, body) in PROGRAMS {
        let buffer = |name| format!("{name}: Buffer((\"n\", 3), \"i32\")");
        let names = if *more == 0 { vec!["X", "Y"] } else { vec!["X", "Z", "Y"] };
        let params: Vec<String> = names.into_iter().map(buffer).collect();
        let params = params.join(", ");
        write!(text, "\n@tensorir_function\ndef {name}({params}):\n    {body}\n")
            .expect("a string");
    }
    text
}

const GROUPS: &str = "normalize,annotate_tir_op_pattern,fuse_ops";

fn fused(module: &Module, passes: &str, text: &str) -> Module {
    let passes = PIPELINE.named(passes);
    let passes = passes.expect("the passes are registered");
    run(module, &passes, &Settings::default(), &mut Prover::new(), &mut Unwatched)
        .unwrap_or_else(|ended| panic!("{ended:#?}\n{text}"))
}

#[test]
fn random_blocks_mean_the_same_after_fusion() {
    let (mut groups, mut compared, mut trapped) = (0, 0, 0);
    for seed in 0..BLOCKS {
        let text = block(&mut Random::new(seed, "fusion"));
        let program = Program::load(Source::new("block", text.as_str()));
        assert!(!program.has_errors(), "{:#?}\n{text}", program.diagnostics);
        let result = fused(&program.module, GROUPS, &text);
        let merged = fused(&result, "fuse_tir", &text);
        let inlined = fused(&merged, "inline_buffers", &text);
        for module in [&result, &merged, &inlined] {
            print_and_parse(module).unwrap_or_else(|why| panic!("{why}\n{text}"));
            let tally = verify(&program.module, module, Exactness::Exact, EFFORT, &BTreeMap::new())
                .unwrap_or_else(|why| panic!("{why}\n{}", print(module)));
            (compared, trapped) = (compared + tally.compared, trapped + tally.trapped);
        }
        assert_eq!(merged.functions().count(), 1, "every group is merged\n{}", print(&merged));
        groups += result.functions().filter(|function| is_private(function)).count();
        // What a group took out may have stood between two calls: they join later, and then none do.
        let again = fused(&fused(&result, GROUPS, &text), GROUPS, &text);
        assert_eq!(print(&fused(&again, GROUPS, &text)), print(&again), "{text}");
    }
    assert!(groups > 100, "{groups} groups");
    assert!(compared > 100 && trapped > 20, "{compared} compared, {trapped} trapped");
}

#[test]
fn long_chains_are_grouped_in_pieces() {
    let mut text = "def main(v0: Tensor((\"n\",), \"f32\")):\n    n = sym_var()\n".to_owned();
    text.push_str("    with dataflow():\n");
    for at in 1..=1000 {
        let call = format!("call_tir(next, [v{}], Tensor((n,), \"f32\"))", at - 1);
        writeln!(text, "        v{at} = {call}").expect("a string");
    }
    text.push_str("        output(v1000)\n    return v1000\n\n@tensorir_function\n");
    text.push_str("def next(X: Buffer((\"n\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")):\n");
    text.push_str("    for i in range(n):\n        Y[i] = X[i] + 1.0\n");
    let program = Program::load(Source::new("chain", text.as_str()));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let result = fused(&program.module, GROUPS, "the chain");
    let main = result.function("main").expect("it is kept");
    let calls = main.lambda.body.as_ref().expect("it has one").bindings().count();
    assert_eq!(
        (calls, result.functions().count()),
        (8, 3),
        "1000 calls, at most 128 in a group: 7 are alike"
    );
    // One program, in which names are put in place of each other as far as text can be read back.
    let merged = fused(&result, "fuse_tir,inline_buffers", "the chain");
    print_and_parse(&merged).unwrap_or_else(|why| panic!("{why}"));
    let buffers = count(&merged, "buffers").expect("it is counted");
    assert!((2..60).contains(&buffers), "{buffers} buffers are left of 992");
    let effort = Effort { cases: 2, seed: 0 };
    verify(&program.module, &merged, Exactness::Exact, effort, &BTreeMap::new()).expect("the same");
}

#[test]
fn what_is_no_pattern_is_refused() {
    let text =
        "module_attr(\"pattern.mine.relu\", \"relu(x\")\n\ndef f(x: Object):\n    return x\n";
    let program = Program::load(Source::new("pattern", text));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    for pass in ["lower_to_library", "fuse_ops_by_pattern", "run_codegen"] {
        let route = PIPELINE.named(pass).expect("the passes are registered");
        let (settings, mut facts) = (Settings::default(), Prover::new());
        let ended = run(&program.module, &route, &settings, &mut facts, &mut Unwatched);
        let Err(Failed::Refused { diagnostics, .. }) = ended else { panic!("{pass}: {ended:#?}") };
        let why = "the module attribute `pattern.mine.relu` is no pattern: column 7: expected `,`";
        assert_eq!((diagnostics[0].code, diagnostics[0].message.as_str()), ("RX0311", why));
    }
}
