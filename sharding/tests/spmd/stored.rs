//! Arguments that are stored elsewhere: each rank reads its part, and parts that ranks share are read once.

use crate::pipelines::pipelines;
use crate::programs::cases;
use crate::{arguments, same, sharded};
use relax_semantics::interp::Options;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_sharding::run::{Argument, Stored, run};
use relax_syntax::annotation::Placement;
use std::cell::RefCell;
use std::ops::Range;

/// A tensor of f32, and the numbers of elements of the parts that were read.
struct Kept {
    tensor: Tensor,
    parts: RefCell<Vec<usize>>,
}

impl Stored for Kept {
    fn shape(&self) -> &[usize] {
        self.tensor.shape()
    }

    fn description(&self) -> String {
        format!("{} {:?}", self.tensor.dtype(), self.tensor.shape())
    }

    fn part(&self, part: &[Range<usize>]) -> Result<Tensor, Stop> {
        let shape: Vec<usize> = part.iter().map(ExactSizeIterator::len).collect();
        self.parts.borrow_mut().push(shape.iter().product());
        let whole = self.tensor.to_floats();
        let own = ndarray::ArrayD::from_shape_fn(shape, |at| {
            let at: Vec<usize> =
                part.iter().enumerate().map(|(axis, own)| own.start + at[axis]).collect();
            whole[&at[..]]
        });
        Ok(Tensor::from_floats(self.tensor.dtype(), own))
    }
}

#[test]
fn each_rank_reads_its_part() {
    for case in cases().into_iter().chain(pipelines()) {
        let sharded = sharded(&case.text);
        let function = sharded.global.function("main").expect("a main");
        for n in [0, 1, 3, 8] {
            let shapes = (case.shapes)(n);
            let arguments = arguments(&shapes);
            let expected = sharded.on_ranks(&sharded.local, &arguments).expect("all ranks end");
            let kept = arguments.iter().map(|value| match value {
                Value::Tensor(tensor) => Kept { tensor: tensor.clone(), parts: RefCell::default() },
                other => panic!("no tensor: {other:?}"),
            });
            let kept: Vec<Kept> = kept.collect();
            let given: Vec<Argument> = kept.iter().map(|own| Argument::Stored(own)).collect();
            let plan = &sharded.plan;
            let placed = (plan, &sharded.mesh());
            let found = run(function, placed, &sharded.local, &given, &Options::default()).result;
            assert!(same(&found.expect("all ranks end"), &expected), "{} at {n}", case.name);
            for (own, layout) in kept.iter().zip(&plan.params) {
                // What is cut along every axis of the mesh, or along none, or is on one rank, is read once in all.
                let read: usize = own.parts.borrow().iter().sum();
                assert_eq!(read, own.tensor.len(), "{} at {n}: {layout:?}", case.name);
                let cut = |own: &Placement| !matches!(own, Placement::Replicated);
                if !layout.iter().flatten().any(cut) {
                    assert_eq!(own.parts.borrow().len(), 1, "{}", case.name);
                }
            }
        }
    }
}
