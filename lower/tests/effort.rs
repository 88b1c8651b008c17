//! The way to P2.3 asks the prover in proportion to the length of a program. Times depend on the machine,
//! questions do not; `bench/compile_time` measures times. And passes count what they did.

use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::{Applied, Unwatched, Watch, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};
use relax_syntax::span::Source;

/// A prover that counts what it is asked and told.
#[derive(Default)]
struct Counting {
    prover: Prover,
    asked: usize,
    /// Operations, variables and literals of the longest claim.
    longest: usize,
}

impl Facts for Counting {
    fn assume(&mut self, claim: Claim) {
        self.asked += 1;
        self.prover.assume(claim);
    }

    fn push(&mut self) {
        self.prover.push();
    }

    fn pop(&mut self) {
        self.prover.pop();
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        self.asked += 1;
        self.longest = self.longest.max(claim.left.size() + claim.right.size());
        self.prover.decide(claim)
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        self.asked += 1;
        self.prover.simplify(dim)
    }
}

/// So many operators, each on the result of the one before: every fiftieth a product, every twentieth on
/// an earlier result as well.
fn chain(operators: usize) -> String {
    let mut text = "def main(x: Tensor((\"n\", 64), \"f32\"), w: Tensor((64, 64), \"f32\")):\n    \
                    with dataflow():\n        v0 = relu(x)\n"
        .to_owned();
    for at in 1..operators {
        let before = format!("v{}", at - 1);
        let expression = match at {
            _ if at % 50 == 49 => format!("matmul({before}, w)"),
            _ if at % 20 == 19 => format!("add({before}, v{})", at - 7),
            _ if at % 2 == 0 => format!("relu({before})"),
            _ => format!("multiply({before}, const(0.5, \"f32\"))"),
        };
        text += &format!("        v{at} = {expression}\n");
    }
    let last = operators - 1;
    text + &format!("        output(v{last})\n    return v{last}\n")
}

/// Attention of sequences of four lengths to each other, so many times.
fn lengths(times: usize) -> String {
    let names = ["n", "m", "k", "l"];
    let params = names.map(|name| format!("{name}0: Tensor((\"{name}\", 64), \"f32\")"));
    let mut text = format!("def main({}):\n", params.join(", "));
    let mut made = [0; 4];
    for at in 0..times {
        let (queries, keys) = (at * at / 3 % 4, (at * 3 + at / 4) % 4);
        let (query, key) = (names[queries], names[keys]);
        let (before, other) = (made[queries], i64::max(0, made[keys] - at as i64 % 5));
        made[queries] += 1;
        text += &format!("    t{at} = permute_dims({key}{other}, axes=[1, 0])\n");
        text += &format!("    s{at} = softmax(matmul({query}{before}, t{at}), axis=1)\n");
        text += &format!("    {query}{} = matmul(s{at}, {key}{other})\n", before + 1);
    }
    let sums = names.iter().zip(made).map(|(name, last)| format!("sum({name}{last})"));
    text + &format!("    return ({})\n", sums.collect::<Vec<_>>().join(", "))
}

fn asked(text: &str) -> Counting {
    let program = Program::load(Source::new("effort.rx", text));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let mut facts = Counting::default();
    let route = PIPELINE.to(Phase::P23);
    run(&program.module, &route, &Settings::default(), &mut facts, &mut Unwatched)
        .unwrap_or_else(|ended| panic!("{ended:#?}"));
    facts
}

#[test]
fn plans_of_sizes_that_cannot_be_compared_ask_short_questions() {
    let facts = asked(&lengths(30));
    assert!(facts.asked > 1_000, "the passes ask: {}", facts.asked);
    assert!(facts.longest <= 250, "a claim of {} operations", facts.longest);
}

#[test]
fn twice_the_operators_are_twice_the_questions() {
    let (short, long) = (asked(&chain(400)).asked, asked(&chain(800)).asked);
    assert!(short > 400, "the passes ask: {short}");
    assert!(long * 100 <= short * 205, "{short} questions, then {long}");
}

/// What the passes say that they did.
#[derive(Default)]
struct Said(Vec<String>);

impl Watch for Said {
    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        let counted: Vec<String> = applied.counters.iter().map(ToString::to_string).collect();
        self.0.push(format!("{}: {}", applied.pass.name, counted.join(", ")));
        Ok(())
    }
}

const COUNTED: &str = r#"
def chain(x: Tensor(("n", 2), "f32")):
    n = sym_var()
    with dataflow():
        a = call_tir(double, [x], Tensor((n, 2), "f32"))
        b = call_tir(double, [a], Tensor((n, 2), "f32"))
        c = call_tir(double, [b], Tensor((n, 2), "f32"))
        output(c)
    return c

def products(x: Tensor((2, 2), "f32"), w: Tensor((2, 2), "f32")):
    with dataflow():
        a = matmul(x, w)
        b = relu(a)
        output(b)
    return b

@tensorir_function
def double(X: Buffer(("n", 2), "f32"), Y: Buffer(("n", 2), "f32")):
    for i, j in grid(n, 2):
        Y[i, j] = X[i, j] * 2.0
"#;

/// The last lines of what the passes of a list say.
fn said(target: Device, list: &str) -> Vec<String> {
    let program = Program::load(Source::new("counted.rx", COUNTED));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let route = PIPELINE.named(list).expect("there are these passes");
    let (settings, mut said) =
        (Settings { device: target, ..Settings::default() }, Said::default());
    run(&program.module, &route, &settings, &mut Prover::new(), &mut said)
        .unwrap_or_else(|ended| panic!("{ended:#?}"));
    said.0
}

#[test]
fn passes_count_what_they_did() {
    let fused = said(Device::Cpu, "annotate_tir_op_pattern,fuse_ops,fuse_tir,inline_buffers");
    assert_eq!(
        fused,
        [
            "annotate_tir_op_pattern: classified 1 of 1 tensor programs",
            "fuse_ops: fused 3 calls, made 1 primitive functions",
            "fuse_tir: merged 1 of 1 primitive functions",
            "inline_buffers: inlined 2 of 2 buffers",
        ]
    );
    let list = "lower_operators,to_non_dataflow,lower_call_tir,canonicalize_bindings,plan_memory";
    let planned = said(Device::Cpu, list);
    assert_eq!(
        planned.last().map(String::as_str),
        Some("plan_memory: planned 3 tensors, in 2 storages")
    );
    let matched = said(Device::Cuda, "fuse_ops_by_pattern");
    assert_eq!(matched, ["fuse_ops_by_pattern: matched 1 patterns, made 1 composite functions"]);
}
