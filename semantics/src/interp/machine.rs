//! What the interpreter does for operators that need more than values.

use super::{Callee, Interpreter};
use crate::library;
use crate::memory::Memory;
use crate::ops::Machine;
use crate::ranks::{Alike, Exchange};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::tir::{Compiled, Options};
use crate::value::Value;
use relax_syntax::annotation::TensorType;
use relax_syntax::ir::Module;
use std::sync::Arc;

impl Interpreter<'_> {
    /// Runs a tensor program on its buffers; gives all of them as they are afterwards.
    pub(super) fn run_buffers(
        &mut self,
        name: &str,
        buffers: Vec<Tensor>,
        scalars: Vec<i64>,
    ) -> Result<Vec<Tensor>, Stop> {
        let compiled = self.compiled(name)?;
        let options = Options { limits: self.options.limits.clone(), mode: self.options.mode };
        let mut left = self.options.limits.steps.saturating_sub(self.steps);
        let before = left;
        let shapes = || buffers.iter().map(|buffer| buffer.shape().to_vec()).collect();
        let shapes = self.options.observer.is_some().then(shapes);
        let callee = (Callee::TensorProgram, name);
        let result =
            self.observed(callee, shapes, |_| compiled.run(buffers, &scalars, &options, &mut left));
        self.steps += before - left;
        result
    }

    /// A tensor program of the module, ready to run.
    pub(super) fn compiled(&mut self, name: &str) -> Result<Arc<Compiled>, Stop> {
        let Some(program) = self.module.tensor_program(name) else {
            let message = format!("there is no tensor program `{name}`");
            return Err(Stop::trap("call_tir/C1", message));
        };
        if program.body.is_none() {
            let message = format!("`{name}` is external: its body is `...`");
            return Err(Stop::trap("call/external", message));
        }
        if let Some(compiled) = self.compiled.get(&program.name) {
            return Ok(compiled.clone());
        }
        let compiled = Compiled::new(program).map_err(|diagnostics| {
            let first = diagnostics.first().map_or("", |found| found.message.as_str());
            Stop::Unsupported(format!("`{name}` is not well-formed: {first}"))
        })?;
        let compiled = Arc::new(compiled);
        self.compiled.insert(program.name.clone(), compiled.clone());
        Ok(compiled)
    }
}

impl Machine for Interpreter<'_> {
    fn module(&self) -> &Module {
        self.module
    }

    fn call(&mut self, function: &Value, args: Vec<Value>) -> Result<Value, Stop> {
        self.call_value(function, args)
    }

    fn run_tensor_program(
        &mut self,
        name: &str,
        inputs: Vec<Tensor>,
        outputs: Vec<Tensor>,
        scalars: Vec<i64>,
    ) -> Result<Vec<Tensor>, Stop> {
        let first_output = inputs.len();
        let mut buffers = inputs;
        buffers.extend(outputs);
        self.run_buffers(name, buffers, scalars).map(|mut all| all.split_off(first_output))
    }

    fn call_library(
        &mut self,
        name: &str,
        args: &[Value],
        outputs: Option<&[TensorType]>,
    ) -> Result<Value, Stop> {
        library::call(name, args, outputs, &self.options.limits)
    }

    fn run_graph(&mut self, function: &Value, args: Vec<Value>) -> Result<Value, Stop> {
        self.graph(function, args)
    }

    fn static_memory(&mut self, function: &Value) -> Result<Value, Stop> {
        self.memory_of(function)
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn print(&mut self, text: &str) {
        self.printed.push(text.to_owned());
    }

    fn exchange(&mut self, exchange: Exchange, alike: &Alike<'_>) -> Result<Tensor, Stop> {
        match &self.options.rank {
            Some(rank) => rank.exchange(exchange, alike, &self.place),
            None => exchange.alone(),
        }
    }
}
