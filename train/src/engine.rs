//! A program that is called once a step: interpreted, or compiled once for all shapes.

use crate::error::TrainError;
use relax_driver::differential::called;
use relax_driver::{Bound, Target, compile};
use relax_program::frontend::{Program, RunOptions, run};
use relax_reference::{Printed, register};
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::{Limits, Module as Machine};
use relax_semantics::ops;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

/// How programs are made runnable.
pub struct Environment {
    /// The device of the configuration, with its tools.
    pub target: Target,
    /// Bytes of all live tensors of a call, and of a file of tensors.
    pub max_bytes: u64,
}

/// A function that is ready to be called.
pub(crate) struct Engine {
    function: Name,
    source: Source,
    code: Code,
}

enum Code {
    Interpreted(Module, RunOptions),
    Compiled(Box<Machine>),
}

impl Engine {
    /// A function of a program. `threads` of 0 are those of the processor.
    pub(crate) fn new(
        program: Program,
        function: &Name,
        environment: &Environment,
        threads: usize,
    ) -> Result<Self, TrainError> {
        let max_bytes = environment.max_bytes;
        let source = program.source.clone();
        let code = if environment.target.device == Device::Interp {
            let options = RunOptions {
                memory: Some(max_bytes),
                steps: Some(u64::MAX),
                ..RunOptions::default()
            };
            Code::Interpreted(program.module, options)
        } else {
            let bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
            let limits = Limits { bytes, threads, ..Limits::default() };
            let made = compile(&program, &environment.target, &Bound::default(), &mut Unwatched);
            let loaded = made.and_then(|artifact| Ok(artifact.load(limits)?));
            let mut machine = loaded
                .map_err(|error| TrainError::Compile { program: Box::new(program), error })?;
            let limits = ops::Limits {
                tensor_bytes: max_bytes,
                total_bytes: max_bytes,
                ..ops::Limits::default()
            };
            register(&mut machine, &limits, &Printed::default()).map_err(TrainError::Input)?;
            Code::Compiled(Box::new(machine))
        };
        Ok(Self { function: function.clone(), source, code })
    }

    /// Calls the function.
    pub(crate) fn call(&self, step: u64, arguments: Vec<Value>) -> Result<Value, TrainError> {
        let result = match &self.code {
            Code::Interpreted(module, options) => {
                run(module, &self.function, arguments, options).result
            }
            Code::Compiled(machine) => called(machine, &self.function, &arguments),
        };
        result.map_err(|stop| TrainError::Stopped {
            step,
            text: Box::new(self.source.clone()),
            stop,
        })
    }
}
