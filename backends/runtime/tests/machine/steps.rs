//! The limit of steps: instructions of the machine and what kernels take count together.

use crate::programs::{Double, call, elements, image, vector};
use relax_runtime::{KernelTrap, Kernels, Limits, Module, StepsLeft, Stop, TensorArg};

/// As [`Double`], and each call takes a hundred steps.
struct Counted;

impl Kernels for Counted {
    fn call(&self, at: usize, tensors: &[TensorArg<'_>], ints: &[i64]) -> Result<(), KernelTrap> {
        Double.call(at, tensors, ints)
    }

    fn call_within(
        &self,
        at: usize,
        tensors: &[TensorArg<'_>],
        _: Option<&mut [Vec<u8>]>,
        ints: &[i64],
        steps: &StepsLeft,
    ) -> Result<(), KernelTrap> {
        steps.spend(100)?;
        self.call(at, tensors, ints)
    }
}

/// `main` has thirteen instructions, two of which call the kernel.
const STEPS: u64 = 13 + 2 * 100;

fn run(steps: u64) -> Result<Vec<f32>, Stop> {
    let limits = Limits { steps, ..Limits::default() };
    let module = Module::with_limits(image(), Box::new(Counted), limits).expect("it is valid");
    // A limit is that of a call: the second one has as many.
    call(&module, "main", &[vector(&[1.0])])?;
    call(&module, "main", &[vector(&[1.0, 3.0])]).map(|value| elements(&value))
}

#[test]
fn instructions_and_kernels_take_from_one_limit() {
    for enough in [STEPS, STEPS + 1, 1 << 62, u64::MAX - 1, u64::MAX] {
        assert_eq!(run(enough), Ok(vec![4.0, 12.0]), "{enough}");
    }
    for few in [0, 1, 12, 106, 107, STEPS - 1] {
        let stop = run(few).expect_err("it takes more");
        assert!(matches!(stop, Stop::Exhausted { resource: "steps", .. }), "{few}: {stop}");
    }
}
