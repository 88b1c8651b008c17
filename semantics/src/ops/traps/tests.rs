//! The field `traps` of every row, checked against `eval` on generated calls.

mod calls;

use super::Traps;
use crate::memory::Memory;
use crate::ops::apply::deduce;
use crate::ops::{Eval, Evaluate, Known, Limits, Machine, Operand, Operator, all, bind, lookup};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use calls::{Arguments, Calls};
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;

/// Calls that are generated of a row until enough of them count.
const ATTEMPTS: usize = 150_000;
/// Calls that must say something about a row.
const ENOUGH: usize = 40;

/// What became of a call that `infer` accepted.
struct Outcome {
    /// Whether the row says that the call cannot trap.
    is_trap_free: bool,
    /// The id of its trap, if it trapped.
    trap: Option<String>,
}

/// Runs a call; `None` where `infer` rejects it.
fn outcome(row: &'static Operator, (positional, keywords): Arguments) -> Option<Outcome> {
    let values = bind(row, positional, keywords, &|literal| literal.value()).ok()?;
    let operands: Vec<Operand> = values.iter().map(Operand::of_value).collect();
    let out = deduce(row, &operands, None).ok()?;
    let is_trap_free = row.never_traps(&operands, &out);
    let limits = Limits { tensor_bytes: 1 << 16, ..Limits::default() };
    let eval = Eval { row, values: &values, out: &out, limits: &limits };
    let result = match row.eval {
        Evaluate::Elementwise(own) => (own.eval)(&eval, &own),
        Evaluate::Values(run) => run(&eval),
        Evaluate::Machine(run) if row.traps == Traps::Never => run(&eval, &mut Printer),
        Evaluate::Machine(_) => return None,
    };
    match result {
        Ok(_) => Some(Outcome { is_trap_free, trap: None }),
        Err(Stop::Trap(trap)) => Some(Outcome { is_trap_free, trap: Some(trap.id) }),
        Err(Stop::Exhausted { .. } | Stop::Unsupported(_)) => None,
    }
}

/// The outcomes of calls of a row until `enough` of those that `counts` takes are there.
fn outcomes(row: &'static Operator, counts: fn(&Outcome) -> bool, enough: usize) -> Vec<Outcome> {
    let mut calls = Calls::new(7);
    let mut found = Vec::new();
    for _ in 0..ATTEMPTS {
        let arguments = calls.arguments(row);
        found.extend(outcome(row, arguments).filter(counts));
        if found.len() == enough {
            break;
        }
    }
    found
}

#[test]
fn calls_that_are_said_to_be_trap_free_give_a_value() {
    let mut untested = Vec::new();
    let may_be = [Traps::Never, Traps::OnScalars, Traps::OnExtents];
    for row in all().filter(|row| may_be.contains(&row.traps)) {
        let outcomes = outcomes(row, |outcome| outcome.is_trap_free, ENOUGH);
        if let Some(trap) = outcomes.iter().find_map(|outcome| outcome.trap.as_ref()) {
            panic!("`{}` traps with {trap}, and its row says {:?}", row.name, row.traps);
        }
        if outcomes.len() < ENOUGH {
            untested.push(format!("{} ({})", row.name, outcomes.len()));
        }
    }
    assert!(untested.is_empty(), "too few calls are accepted of {}", untested.join(", "));
}

#[test]
fn rows_that_trap_on_integers_never_trap_on_floats() {
    for row in all().filter(|row| row.traps == Traps::OnIntegers) {
        for outcome in outcomes(row, |_| true, 4 * ENOUGH) {
            let trap = outcome.trap.unwrap_or_default();
            assert!(!outcome.is_trap_free || trap.is_empty(), "`{}`: {trap}", row.name);
        }
    }
}

/// A row that claims more traps than it has keeps passes from dropping and moving its calls.
#[test]
fn rows_that_may_trap_on_elements_do() {
    let on_elements = |row: &&Operator| matches!(row.traps, Traps::OnIntegers | Traps::OnElements);
    for row in all().filter(on_elements) {
        let outcomes = outcomes(row, |outcome| outcome.trap.is_some(), 1);
        assert!(!outcomes.is_empty(), "no call of `{}` traps: is it {:?}?", row.name, row.traps);
    }
}

/// A bound of `clip` that is symbolic, or a variable, may be no integer of the dtype.
#[test]
fn literal_bounds_alone_make_clip_trap_free() {
    let row = lookup("clip").expect("a row");
    let x = Annotation::tensor(vec![Dim::var("n")], DType::I8);
    let literal = || Operand::of_known(Known::Dim(Dim::Int(1)));
    let symbolic = Operand::of_known(Known::Dim(Dim::var("n")));
    let variable = Operand { annotation: Annotation::Prim(DType::I64), known: None };
    let with = |bound: Operand| {
        let operands = [Operand { annotation: x.clone(), known: None }, literal(), bound];
        row.never_traps(&operands, &x)
    };
    assert!(with(literal()));
    assert!(!with(symbolic));
    assert!(!with(variable));
}

/// What rows that never trap ask of a machine: to print.
struct Printer;

impl Machine for Printer {
    fn module(&self) -> &Module {
        unreachable!("a row that looks into the module is not trap-free")
    }

    fn call(&mut self, _: &Value, _: Vec<Value>) -> Result<Value, Stop> {
        unreachable!("a row that calls a function is not trap-free")
    }

    fn run_tensor_program(
        &mut self,
        _: &str,
        _: Vec<Tensor>,
        _: Vec<Tensor>,
        _: Vec<i64>,
    ) -> Result<Vec<Tensor>, Stop> {
        unreachable!("a row that calls a function is not trap-free")
    }

    fn call_library(
        &mut self,
        _: &str,
        _: &[Value],
        _: Option<&[TensorType]>,
    ) -> Result<Value, Stop> {
        unreachable!("a row that calls a function is not trap-free")
    }

    fn run_graph(&mut self, _: &Value, _: Vec<Value>) -> Result<Value, Stop> {
        unreachable!("a row that calls a function is not trap-free")
    }

    fn static_memory(&mut self, _: &Value) -> Result<Value, Stop> {
        unreachable!("a row that calls a function is not trap-free")
    }

    fn memory(&mut self) -> &mut Memory {
        unreachable!("a row that uses memory is not trap-free")
    }

    fn print(&mut self, _: &str) {}
}
