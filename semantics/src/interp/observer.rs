//! Observation of a run: each call of an operator and of a tensor program. Without an observer nothing is collected.

use super::Interpreter;
use crate::stop::Stop;
use crate::value::Value;
use std::fmt::Debug;

/// Watches the calls of a run. A clock is the observer's.
pub trait Observer: Debug + Send + Sync {
    /// A call begins; calls within it begin and end before it ends.
    fn begins(&self, callee: Callee, name: &str, shapes: Vec<Vec<usize>>);
    /// The call that began last and has not ended ends, with a value or not.
    fn ends(&self);
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// An operator of the table.
    Operator,
    /// A tensor program of the module.
    TensorProgram,
}

impl Interpreter<'_> {
    /// Makes a call, seen by who watches; `shapes` are those of the tensors among its arguments, in order, or none without an
    /// observer.
    pub(super) fn observed<T>(
        &mut self,
        (callee, name): (Callee, &str),
        shapes: Option<Vec<Vec<usize>>>,
        call: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let Some(observer) = self.options.observer.clone() else { return call(self) };
        observer.begins(callee, name, shapes.unwrap_or_default());
        let result = call(self);
        observer.ends();
        result
    }
}

/// The shapes of the tensors among values, tuples included.
pub(super) fn shapes_of(values: &[Value]) -> Vec<Vec<usize>> {
    let mut shapes = Vec::new();
    for value in values {
        match value {
            Value::Tensor(tensor) => shapes.push(tensor.shape().to_vec()),
            Value::Placed(placed) => shapes.push(placed.shape.clone()),
            // Tuples are no deeper than the text that makes them.
            Value::Tuple(items) => shapes.extend(shapes_of(items)),
            _ => {}
        }
    }
    shapes
}
