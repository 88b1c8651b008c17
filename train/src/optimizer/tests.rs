//! Updates in place: they take no memory, have the bits of updates of copies, and leave other names of a tensor alone.

use super::*;
use crate::config::Placed;
use crate::schedule::{Schedule, Shape};
use relax_driver::Target;
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;
use relax_semantics::random::Random;
use relax_syntax::span::Span;

/// Elements of a weight: more bytes than [`LITTLE`] by far.
const ELEMENTS: usize = 50_000;
/// Bytes that calls may take: workspaces of scalars, no vector.
const LITTLE: u64 = 4096;
const PLENTY: u64 = 1 << 24;

fn optimizer(name: &str, numerics: Numerics, max_bytes: u64) -> Optimizer {
    let span = Span::new(0, 0);
    let schedule = Schedule { shape: Shape::Constant, rate: 0.01, last: 0.0, warm_up: 0, steps: 9 };
    let name = Placed { value: name.to_owned(), span };
    let config = OptimizerConfig { name, file: None, schedule, clip: None, parameters: Vec::new() };
    let environment = Environment { target: Target::of(Device::Cpu, numerics), max_bytes };
    Optimizer::new(&config, false, &environment, 1).expect("it is built in")
}

fn vector(seed: u64) -> Tensor {
    Random::new(seed, "vector").normal_tensor(DType::F32, &[ELEMENTS])
}

/// Where the elements lie.
fn addresses(held: &[Held]) -> Vec<usize> {
    let address = |held: &Held| match held {
        Held::Compiled(tensor) => tensor.bytes().as_ptr().addr(),
        Held::Interpreted(_) => panic!("it is compiled"),
    };
    held.iter().map(address).collect()
}

fn same(a: &[Held], b: &[Held]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.tensor().same_as(&b.tensor()))
}

#[test]
fn updates_take_no_memory_and_have_the_bits_of_copies() {
    for numerics in [Numerics::Exact, Numerics::Reassociated] {
        for name in ["sgd", "momentum", "adamw"] {
            let narrow = optimizer(name, numerics, LITTLE);
            let copying = optimizer(name, numerics, PLENTY);
            let mut ours = narrow.begin(vector(1)).expect("it is held");
            let mut theirs = copying.begin(vector(1)).expect("it is held");
            let places = addresses(&ours);
            // As the adjoint takes it.
            assert_eq!(addresses(&[ours[0].viewed(&[ELEMENTS / 2, 2])]), places[..1]);
            for step in 1..4 {
                let times = (step, step, 0.01);
                ours = narrow.step(times, ours, vector(1 + step)).expect("it takes little");
                // A second name of each vector, as a checkpoint that is being written has.
                let kept = theirs.clone();
                let before: Vec<Tensor> = kept.iter().map(Held::tensor).collect();
                theirs = copying.step(times, theirs, vector(1 + step)).expect("it fits");
                assert!(before.iter().zip(&kept).all(|(a, b)| a.same_as(&b.tensor())), "{name}");
                assert_ne!(addresses(&kept)[0], addresses(&theirs)[0], "{name}");
                assert!(same(&ours, &theirs), "{name} {numerics:?}, step {step}");
                assert_eq!(addresses(&ours), places, "{name} {numerics:?}, step {step}");
            }
        }
    }
}

/// The budget of the test above is one that copies do not keep.
#[test]
fn a_vector_with_another_name_is_copied() {
    let narrow = optimizer("adamw", Numerics::Exact, LITTLE);
    let ours = narrow.begin(vector(1)).expect("it is held");
    let kept = ours[2].clone();
    let error = narrow.step((1, 1, 0.01), ours, vector(2)).expect_err("it takes a copy");
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(kept.tensor().same_as(&Tensor::full(DType::F32, &[ELEMENTS], Number::Float(0.0))));
}

/// The same memory as the weight and as its state.
#[test]
fn one_tensor_for_two_parameters_gives_the_values_of_two() {
    let adamw = optimizer("adamw", Numerics::Exact, PLENTY);
    let hold = |seed| adamw.hold(vector(seed)).expect("it is held");
    let squares = || adamw.hold(Tensor::full(DType::F32, &[ELEMENTS], Number::Float(0.5)));
    let once = hold(1);
    let shared = vec![once.clone(), once, squares().expect("it is held")];
    let apart = vec![hold(1), hold(1), squares().expect("it is held")];
    let step = |held| adamw.step((3, 3, 0.01), held, vector(2)).expect("it runs");
    assert!(same(&step(shared), &step(apart)));
}
