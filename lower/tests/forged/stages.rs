//! Stages that no compiler made, and a solver that is believed: who derives obligations reads texts alone, which nobody
//! checked before.

use super::compiled;
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;
use relax_validation::answers::Source;
use relax_validation::derive::{Stage, obligations};
use relax_validation::obligation::{Kind, Obligation, Outcome};

/// Answers as the prover does, and says whether it asked a solver.
struct Answering {
    trusted: bool,
}

impl Source for Answering {
    fn facts(&mut self) -> Box<dyn Facts> {
        Box::new(Prover::new())
    }

    fn was_trusted(&mut self) -> bool {
        self.trusted
    }
}

fn shown(stages: &[Stage], trusted: bool) -> Vec<Obligation> {
    obligations(stages, &mut Answering { trusted })
}

fn stage(name: &str, text: &str) -> Stage {
    Stage::read(name, text).expect("it reads as a program")
}

/// What rests on a solver is never told as proved by rules, and what is open stays open.
#[test]
fn what_a_solver_says_is_told_as_such() {
    let broken = r#"
@tensorir_function
def f(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    n = sym_var()
    for i in range(n):
        Y[i] = X[i] + X[i + 1]

def main(x: Tensor(("n",), "f32")):
    n = sym_var()
    s = memory.alloc_storage(shape(n), "f32")
    a = memory.alloc_tensor(s, shape(n), "f32")
    b = memory.alloc_tensor(s, shape(n), "f32", offset=n)
    f(x, a)
    return a
"#;
    let all = [vec![stage("input", broken)], compiled("models/mlp.rx").certificate.stages];
    let mut believed = [0; 3];
    for stages in all {
        let (plain, trusting) = (shown(&stages, false), shown(&stages, true));
        assert_eq!(plain.len(), trusting.len());
        for (plain, trusting) in plain.iter().zip(&trusting) {
            assert_eq!(plain.to_string(), trusting.to_string());
            match (&plain.outcome, &trusting.outcome) {
                (Outcome::Proved, Outcome::Trusted) => believed[plain.kind as usize] += 1,
                // Of a text that did not change nothing was asked.
                (Outcome::Proved, Outcome::Proved) => assert_eq!(plain.kind, Kind::Pass),
                (plain, trusting) => assert_eq!(plain, trusting),
            }
        }
    }
    assert!(believed.iter().all(|count| *count > 0), "{believed:?}");
}

/// Functions are called with as many arguments as they have parameters.
#[test]
fn calls_with_other_arguments_are_not_proved() {
    let program = |call: &str| {
        let inner = r#"
def inner(x: Tensor((2,), "f32"), y: Tensor((2,), "f32")):
    func_attr("private", True)
    return relu(x)
"#;
        format!("def main(x: Tensor((2,), \"f32\")):\n    y = {call}\n    return y\n{inner}")
    };
    let outcome = |call: &str| {
        let stages = [stage("input", &program("relu(x)")), stage("some_pass", &program(call))];
        let found = shown(&stages, false);
        found.into_iter().find(|each| each.function.as_str() == "main").expect("main").outcome
    };
    assert_eq!(outcome("inner(x, x)"), Outcome::Proved);
    for call in ["inner(x)", "inner()", "inner(x, x, x)", "inner(relu(x), x, x)"] {
        assert!(matches!(outcome(call), Outcome::Unproved(_)), "{call}");
    }
}

/// A binding has the dims that its annotation says, or the program stops: nobody checked that they are.
#[test]
fn annotations_that_are_gone_are_checks_that_are_gone() {
    let program = |line: &str| {
        let head = r#"def main(x: Tensor(("n",), "f32"), y: Tensor(("m",), "f32")):"#;
        format!("{head}\n    n = sym_var()\n    m = sym_var()\n    {line}\n    return w\n")
    };
    let outcome = |before: &str, after: &str| {
        let stages = [stage("input", &program(before)), stage("some_pass", &program(after))];
        shown(&stages, false).remove(0).outcome
    };
    let of = |dim: &str, dtype: &str| format!("w: Tensor(({dim},), \"{dtype}\") = relu(x)");
    assert_eq!(outcome("w = relu(x)", &of("n", "f32")), Outcome::Proved);
    assert_eq!(outcome(&of("n * 1", "f32"), "w = relu(x)"), Outcome::Proved);
    for line in [of("m", "f32"), of("n + 1", "f32"), of("n", "f64"), of("n, n", "f32")] {
        assert!(matches!(outcome(&line, "w = relu(x)"), Outcome::Unproved(_)), "{line}");
        assert!(matches!(outcome("w = relu(x)", &line), Outcome::Unproved(_)), "{line}");
    }
}
