//! A program that is called once a step: interpreted, or compiled once for all shapes.

use crate::error::TrainError;
use crate::held::Held;
use relax_driver::{Bound, Target, compile};
use relax_program::frontend::{Program, RunOptions, run};
use relax_reference::{Printed, register, stop_to_semantics, to_machine, to_semantics};
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::{self as machine, Limits, Module as Machine};
use relax_semantics::ops;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
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

    /// A tensor that calls take as it is.
    pub(crate) fn hold(&self, tensor: Tensor) -> Result<Held, TrainError> {
        match &self.code {
            Code::Interpreted(..) => Ok(Held::Interpreted(tensor)),
            Code::Compiled(_) => Held::compiled(tensor).map_err(TrainError::Input),
        }
    }

    /// Calls the function.
    pub(crate) fn call(&self, step: u64, arguments: Vec<Argument>) -> Result<Value, TrainError> {
        let result = match &self.code {
            Code::Interpreted(module, options) => {
                run(module, &self.function, interpreted(arguments), options).result
            }
            Code::Compiled(machine) => self.compiled(machine, arguments).and_then(|value| {
                let mut named = |value: &machine::Value| {
                    machine.name_of(value).map(|name| Value::Global(name.into()))
                };
                to_semantics(&value, &mut named).map_err(Stop::Unsupported)
            }),
        };
        result.map_err(|stop| self.stopped(step, stop))
    }

    /// Calls a function that gives a tensor or a tuple of tensors, which stay where they are; `None` where it gives something else.
    /// Arguments that have no other name are given up: a donated parameter is overwritten.
    pub(crate) fn update(
        &self,
        step: u64,
        arguments: Vec<Argument>,
    ) -> Result<Option<Vec<Held>>, TrainError> {
        match &self.code {
            Code::Interpreted(module, options) => {
                let run = run(module, &self.function, interpreted(arguments), options);
                let items = match run.result.map_err(|stop| self.stopped(step, stop))? {
                    Value::Tuple(items) => items,
                    one => vec![one],
                };
                let held = |value| match value {
                    Value::Tensor(tensor) => Some(Held::Interpreted(tensor)),
                    _ => None,
                };
                Ok(items.into_iter().map(held).collect())
            }
            Code::Compiled(machine) => {
                let result = self.compiled(machine, arguments);
                let value = result.map_err(|stop| self.stopped(step, stop))?;
                let items = match &value {
                    machine::Value::Tuple(tuple) => tuple.items(),
                    one => std::slice::from_ref(one),
                };
                let held = |value: &machine::Value| match value {
                    machine::Value::Tensor(tensor) => Some(Held::Compiled(tensor.clone())),
                    _ => None,
                };
                Ok(items.iter().map(held).collect())
            }
        }
    }

    fn compiled(
        &self,
        machine: &Machine,
        arguments: Vec<Argument>,
    ) -> Result<machine::Value, Stop> {
        let passed = |argument| match argument {
            Argument::Held(Held::Compiled(tensor)) => Ok(machine::Value::Tensor(tensor)),
            Argument::Held(Held::Interpreted(tensor)) => to_machine(&Value::Tensor(tensor)),
            Argument::Value(value) => to_machine(&value),
        };
        let arguments = arguments.into_iter().map(passed).collect::<Result<Vec<_>, _>>();
        let arguments = arguments.map_err(Stop::Unsupported)?;
        let function = machine.function(&self.function);
        let function =
            function.ok_or_else(|| Stop::Unsupported(format!("`{}` is private", self.function)))?;
        function.call_donating(arguments).map_err(stop_to_semantics)
    }

    fn stopped(&self, step: u64, stop: Stop) -> TrainError {
        TrainError::Stopped { step, text: Box::new(self.source.clone()), stop }
    }
}

/// What a call takes.
pub(crate) enum Argument {
    /// Copied to where the code runs.
    Value(Value),
    /// In memory of the code that runs.
    Held(Held),
}

fn interpreted(arguments: Vec<Argument>) -> Vec<Value> {
    let value = |argument| match argument {
        Argument::Value(value) => value,
        Argument::Held(held) => Value::Tensor(held.tensor()),
    };
    arguments.into_iter().map(value).collect()
}
