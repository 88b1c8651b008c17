//! What the interpreter does for operators that need more than values.

use super::Interpreter;
use crate::library;
use crate::ops::Machine;
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::annotation::TensorType;
use relax_syntax::ir::Module;

impl Interpreter<'_> {
    /// Runs a tensor program on its buffers; gives all of them as they are afterwards.
    pub(super) fn run_buffers(
        &mut self,
        name: &str,
        buffers: Vec<Tensor>,
        scalars: Vec<i64>,
    ) -> Result<Vec<Tensor>, Stop> {
        let _ = (buffers, scalars);
        Err(Stop::Unsupported(format!("the tensor program `{name}`")))
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

    fn print(&mut self, text: &str) {
        self.printed.push(text.to_owned());
    }
}
