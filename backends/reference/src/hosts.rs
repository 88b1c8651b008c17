//! Host functions that the reference library computes: operators without a tensor program, library
//! functions, `print`.

use crate::stops;
use crate::values::{to_machine, to_semantics};
use relax_runtime as machine;
use relax_runtime::HostCall;
use relax_semantics::library;
use relax_semantics::memory::Memory;
use relax_semantics::ops::{Limits, Machine, apply, lookup};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::TensorType;
use relax_syntax::ir::Module;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines that programs printed, in order.
#[derive(Clone, Debug, Default)]
pub struct Printed(Arc<Mutex<Vec<String>>>);

impl Printed {
    /// The lines so far, which are then forgotten.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, line: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }
}

/// Gives a module every host function that it calls. A name that is none of the library stops the program
/// when it is called, with the trap that says which there are.
pub fn register(module: &mut machine::Module, limits: &Limits, printed: &Printed) {
    let names: Vec<String> = module.missing().into_iter().map(str::to_owned).collect();
    for name in names {
        let (limits, printed, called) = (limits.clone(), printed.clone(), name.clone());
        module.register(name, move |call| {
            let mut host = Host {
                limits: &limits,
                printed: &printed,
                module: Module::default(),
                memory: Memory::default(),
            };
            let result = host.run(&called, call).map_err(stops::to_machine)?;
            to_machine(&result).map_err(machine::Stop::Unsupported)
        });
    }
}

/// What operators that need an interpreter get: there are no functions to call here.
struct Host<'a> {
    limits: &'a Limits,
    printed: &'a Printed,
    module: Module,
    memory: Memory,
}

impl Host<'_> {
    fn run(&mut self, name: &str, call: &HostCall) -> Result<Value, Stop> {
        let read =
            |value: &machine::Value| to_semantics(value, &|_| None).map_err(Stop::Unsupported);
        let mut args = call.args.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let keywords = call
            .keywords
            .iter()
            .map(|(key, value)| Ok((Name::from(key.as_str()), read(value)?)))
            .collect::<Result<Vec<_>, Stop>>()?;
        let limits = self.limits;
        match name {
            "builtin.run_operator" => {
                let operator = match args.first() {
                    Some(Value::Str(operator)) => operator.clone(),
                    _ => Name::from(""),
                };
                args.drain(..args.len().min(1));
                let row = lookup(&operator).ok_or_else(|| {
                    let message = format!("there is no operator `{operator}`");
                    Stop::trap("builtin.run_operator/C1", message)
                })?;
                apply(row, args, keywords, limits, Some(self))
            }
            "print" => {
                let row = lookup("print")
                    .ok_or_else(|| Stop::Unsupported("the operator `print`".to_owned()))?;
                let format =
                    args.drain(..args.len().min(1)).map(|text| (Name::from("format"), text));
                let format = format.collect();
                apply(row, args, format, limits, Some(self))
            }
            _ => library::call(name, &args, None, limits),
        }
    }
}

impl Machine for Host<'_> {
    fn module(&self) -> &Module {
        &self.module
    }

    fn call(&mut self, _: &Value, _: Vec<Value>) -> Result<Value, Stop> {
        Err(Stop::Unsupported("a function that an operator calls".to_owned()))
    }

    fn run_tensor_program(
        &mut self,
        name: &str,
        _: Vec<Tensor>,
        _: Vec<Tensor>,
        _: Vec<i64>,
    ) -> Result<Vec<Tensor>, Stop> {
        Err(Stop::Unsupported(format!("the tensor program `{name}` in an operator")))
    }

    fn call_library(
        &mut self,
        name: &str,
        args: &[Value],
        outputs: Option<&[TensorType]>,
    ) -> Result<Value, Stop> {
        library::call(name, args, outputs, self.limits)
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn print(&mut self, text: &str) {
        self.printed.push(text);
    }
}
