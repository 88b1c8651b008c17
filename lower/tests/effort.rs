//! The way to P2.3 asks the prover in proportion to the length of a program. Times depend on the machine,
//! questions do not; `bench/compile_time` measures times.

use relax_corpus::pipeline::Program;
use relax_lower::pipeline::PIPELINE;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Unwatched, run};
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

fn asked(operators: usize) -> usize {
    let text = chain(operators);
    let program = Program::load(Source::new("chain.rx", text.as_str()));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let mut facts = Counting::default();
    let route = PIPELINE.to(Phase::P23);
    run(&program.module, &route, &Settings::default(), &mut facts, &mut Unwatched)
        .unwrap_or_else(|ended| panic!("{ended:#?}"));
    facts.asked
}

#[test]
fn twice_the_operators_are_twice_the_questions() {
    let (short, long) = (asked(400), asked(800));
    assert!(short > 400, "the passes ask: {short}");
    assert!(long * 100 <= short * 205, "{short} questions, then {long}");
}
