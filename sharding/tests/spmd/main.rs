//! Sharded programs against the same programs on one device.

mod agree;
mod branching;
mod bugs;
mod choosing;
mod control;
mod data;
mod edits;
mod linear;
mod overlap;
mod pipelines;
mod programs;
mod refused;
mod seeded;
mod stages;
mod stored;
mod symbolic;
mod versions;
mod weights;

use relax_program::frontend::{Program, RunOptions, print, run as run_on_one};
use relax_semantics::interp::Options;
use relax_semantics::ranks::Mesh;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_sharding::lower::lower;
use relax_sharding::propagate::{Plan, propagate};
use relax_sharding::run::run;
use relax_symbolic::Prover;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

/// A program with its layouts and its local program.
pub(crate) struct Sharded {
    pub(crate) global: Module,
    pub(crate) plan: Plan,
    /// The text of the local program.
    pub(crate) text: String,
    pub(crate) local: Module,
}

pub(crate) fn load(text: &str) -> Module {
    let program = Program::load(Source::new("program", text));
    assert!(!program.has_errors(), "{:#?}\n{text}", program.diagnostics);
    program.module
}

pub(crate) fn planned(text: &str) -> Result<(Module, Plan), Diagnostic> {
    let module = load(text);
    let function = module.function("main").expect("a main");
    let plan = propagate(&module, function, &BTreeMap::new(), &mut Prover::new())?;
    Ok((module, plan))
}

pub(crate) fn sharded(text: &str) -> Sharded {
    let (global, plan) = planned(text).unwrap_or_else(|refused| panic!("{refused:?}\n{text}"));
    let function = global.function("main").expect("a main");
    let text = print(&lower(&global, function, &plan, &mut Prover::new()));
    let local = load(&text);
    Sharded { global, plan, text, local }
}

impl Sharded {
    pub(crate) fn on_one(&self, arguments: &[Value]) -> Value {
        let ran = run_on_one(&self.global, "main", arguments.to_vec(), &RunOptions::default());
        ran.result.unwrap_or_else(|stop| panic!("{stop}"))
    }

    /// On all ranks, by a local program that may be another one.
    pub(crate) fn on_ranks(
        &self,
        local: &Module,
        arguments: &[Value],
    ) -> Result<Value, (usize, Stop)> {
        self.on_mesh(&self.mesh(), local, arguments)
    }

    /// On the ranks of a mesh with these extents.
    pub(crate) fn on_mesh(
        &self,
        mesh: &Mesh,
        local: &Module,
        arguments: &[Value],
    ) -> Result<Value, (usize, Stop)> {
        let function = self.global.function("main").expect("a main");
        run(function, (&self.plan, mesh), local, arguments, &Options::default()).result
    }

    /// The mesh with the literal extents of the program.
    pub(crate) fn mesh(&self) -> Mesh {
        self.plan.axes.fixed().expect("literal extents")
    }
}

/// Small integers in an order that no cut keeps.
pub(crate) fn tensor(shape: &[usize], seed: i128) -> Value {
    let count: usize = shape.iter().product();
    let values = (0..count as i128).map(|at| (at * 7 + seed * 5 + at * at) % 7 - 3).collect();
    let values =
        ndarray::ArrayD::from_shape_vec(shape.to_vec(), values).expect("the shape has this size");
    Value::Tensor(Tensor::from_ints(DType::I64, values).cast(DType::F32))
}

/// Tensors with these shapes.
pub(crate) fn arguments(shapes: &[Vec<usize>]) -> Vec<Value> {
    shapes.iter().zip(1..).map(|(shape, seed)| tensor(shape, seed)).collect()
}

pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => a.same_as(b),
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => false,
    }
}

/// Within the rounding of sums in another order, of each tensor; a NaN is near nothing.
pub(crate) fn near(a: &Value, b: &Value) -> bool {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => {
            a.shape() == b.shape() && a.to_floats().iter().zip(&b.to_floats()).all(close)
        }
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(a, b))
        }
        _ => false,
    }
}
