//! Random blocks of calls of tensor programs, of every pattern and with traps among them, through
//! fusion: the module means the same, every group is one that the rules admit, and groups are made. Patterns: how their text is
//! read, and which there are for devices.

use relax_corpus::structure::count;
use relax_program::frontend::{Program, print, print_and_parse};
use relax_rewrite::pass::{Device, Exactness, Settings};
use relax_rewrite::pipeline::{Failed, PIPELINE, Unwatched, run};
use relax_rewrite::verify::{Effort, is_private, verify};
use relax_semantics::library::function;
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

/// A program whose pattern is this text.
fn with_pattern(pattern: &str, definitions: &str) -> Module {
    let text = format!("module_attr(\"pattern.mine.f\", \"{pattern}\")\n\n{definitions}");
    let program = Program::load(Source::new("pattern", text.as_str()));
    assert!(!program.has_errors(), "{:#?}\n{text}", program.diagnostics);
    program.module
}

/// What passes that look for patterns say of a text.
fn why(pattern: &str) -> String {
    let module = with_pattern(pattern, "def f(x: Object):\n    return x\n");
    let mut said = ["lower_to_library", "fuse_ops_by_pattern", "run_codegen"].map(|pass| {
        let route = PIPELINE.named(pass).expect("the passes are registered");
        let (settings, mut facts) = (Settings::default(), Prover::new());
        let ended = run(&module, &route, &settings, &mut facts, &mut Unwatched);
        let Err(Failed::Refused { diagnostics, .. }) = ended else { panic!("{pass}: {ended:#?}") };
        assert_eq!(diagnostics[0].code, "RX0311");
        diagnostics[0].message.clone()
    });
    said.sort();
    assert_eq!(said[0], said[2]);
    let begin = "the module attribute `pattern.mine.f` is no pattern: ";
    said[0].strip_prefix(begin).expect("it names the attribute").to_owned()
}

#[test]
fn what_is_no_pattern_is_told_with_its_place() {
    assert_eq!(why("x"), "column 1: a pattern is a call of an operator");
    assert_eq!(why("relux(x)"), "column 1: there is no operator `relux`");
    assert_eq!(why("relu(x"), "column 7: expected `,`");
    assert_eq!(why("relu(x) wher"), "column 9: expected `where`, `,` or the end");
    assert_eq!(
        why("relu(x) where dim(y, 0) >= 2"),
        "column 1: a condition is about `y`, which is no operand"
    );
    assert_eq!(why("relu(x) where dim(x, 0) 2"), "column 25: expected a comparison");
    assert_eq!(why("relu(x) where dtype(x) is f33"), "column 27: expected a dtype");
    assert_eq!(why("relu(§)"), "column 6: `§` has no meaning");
    let deep = format!("{}x{}", "relu(".repeat(100), ")".repeat(100));
    assert!(why(&deep).contains("nest too deeply"));
}

/// A product with a bias, and whether the pattern finds it.
fn is_found(pattern: &str, [x, w, b]: [&str; 3], result: &str) -> bool {
    let definitions = format!(
        "def main(x: {x}, w: {w}, b: {b}):\n    with dataflow():\n        \
         p = matmul(x, w)\n        q = add(p, b)\n        r = relu(q)\n        \
         output({result})\n    return {result}\n"
    );
    let module = with_pattern(pattern, &definitions);
    let text = print(&fused(&module, "fuse_ops_by_pattern", &definitions));
    assert!(!text.contains("fused_mine_f(") || text.contains("fused_mine_f(x, w, b)"), "{text}");
    text.contains("fused_mine_f(x, w, b)")
}

/// An operator that may be missing, operands in their order, and conditions of three kinds.
#[test]
fn patterns_are_read() {
    let pattern =
        "relu?(add(matmul(x, w), b)) where rank(x) == 2, dim(x, -2) >= 2, dtype(b) is f16 or f32";
    let of =
        |dtype: &str, dims: [&str; 3]| dims.map(|dims| format!("Tensor(({dims}), \"{dtype}\")"));
    let plain = ["2, 3", "3, 4", "4,"];
    for (dtype, dims, result, wanted) in [
        ("f32", plain, "r", true),
        ("f16", plain, "r", true),
        ("f32", plain, "q", true),
        ("f64", plain, "r", false),
        ("f32", ["1, 3", "3, 4", "4,"], "r", false),
        ("f32", ["3, 2, 3", "3, 4", "4,"], "r", false),
    ] {
        let types = of(dtype, dims);
        let found = is_found(pattern, types.each_ref().map(String::as_str), result);
        assert_eq!(found, wanted, "{types:?} {result}");
    }
}

/// The composite functions that are made of a text for a device, by the names of their libraries.
fn composites(device: Device, params: &str, body: &str) -> Vec<String> {
    let text = format!(
        "def main({params}):\n    with dataflow():\n{body}        output(y)\n    return y\n"
    );
    let program = Program::load(Source::new("composites", text.as_str()));
    assert!(!program.has_errors(), "{:#?}\n{text}", program.diagnostics);
    let settings = Settings { device, ..Settings::default() };
    let route = PIPELINE.named("fuse_ops_by_pattern").expect("the pass is registered");
    let made = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched);
    let made = made.unwrap_or_else(|ended| panic!("{ended:#?}\n{text}"));
    let names = made.functions().map(|function| function.name.to_string());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_prefix("fused_")?.to_owned())).collect();
    names.sort();
    names
}

/// A section in the place of a name: each line of it is tried, with the conditions of both.
#[test]
fn a_line_for_a_section_stands_for_each_line_of_it() {
    let params = |dtype: &str, dims: [&str; 3]| {
        let [x, w, b] = dims.map(|dims| format!("Tensor(({dims}), \"{dtype}\")"));
        format!("x: {x}, w: {w}, b: {b}")
    };
    let plain = ["2, 3", "3, 4", "4,"];
    for (after, name) in [
        ("gelu_tanh(add(p, b))", "matmul_bias_gelu"),
        ("relu(add(p, b))", "matmul_bias_relu"),
        ("negative(add(p, b))", "matmul_bias"),
        ("gelu_tanh(p)", "matmul_gelu"),
        ("relu(p)", "matmul_relu"),
        ("negative(p)", "matmul"),
    ] {
        let body = format!("        p = matmul(x, w)\n        y = {after}\n");
        let made = |device, dtype, dims| composites(device, &params(dtype, dims), &body);
        let batched = ["5, 2, 3", "5, 3, 4", "4,"];
        assert_eq!(made(Device::Cpu, "f64", plain), [format!("native_{name}")]);
        for dims in [plain, ["5, 2, 3", "3, 4", "4,"], batched] {
            assert_eq!(made(Device::Cuda, "f32", dims), [format!("cublas_{name}")], "{dims:?}");
        }
        // Of the line of the device: the dtype, and two rows.
        assert!(made(Device::Cuda, "f64", plain).is_empty());
        assert!(made(Device::Cuda, "f32", ["1, 3", "3, 4", "4,"]).is_empty());
        assert!(made(Device::Wgpu, "f32", plain).is_empty());
        // Of the line of the section: a bias for each column.
        let other = ["2, 3", "3, 4", "1,"];
        let own = if name.contains("bias") { "matmul" } else { name };
        assert_eq!(made(Device::Cpu, "f32", other), [format!("native_{own}")]);
        assert_eq!(made(Device::Cuda, "f32", other), [format!("cublas_{own}")]);
    }
    let norm = |weight: &str, epsilon: &str| {
        let body = format!("        y = rms_norm(x{weight}, axes=[-1], epsilon={epsilon})\n");
        composites(Device::Cuda, "x: Tensor((2, 4), \"f32\"), w: Tensor((4,), \"f32\")", &body)
    };
    assert_eq!(norm(", w", "1e-5"), ["cutlass_rms_norm"]);
    assert_eq!(norm(", ones((4,), dtype=\"f32\")", "1e-5"), ["cutlass_rms_norm"]);
    assert!(norm(", w", "1e-6").is_empty());
}

/// What patterns of devices name, the library has.
#[test]
fn every_pattern_of_a_target_has_a_library_function() {
    let text = include_str!("../src/matching/builtin.patterns");
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut section = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((name, _)) = line.split_once(" = ") {
            sections.entry(section).or_default().push(name);
        }
    }
    for device in [Device::Cpu, Device::Cuda] {
        for name in &sections[device.name()] {
            let names = match name.strip_suffix('*') {
                Some(library) => {
                    sections["products"].iter().map(|end| format!("{library}{end}")).collect()
                }
                None => vec![(*name).to_owned()],
            };
            assert!(!names.is_empty());
            assert!(names.iter().all(|name| function(name).is_some()), "{names:?}");
        }
    }
    assert!(!sections.contains_key(Device::Wgpu.name()));
}
