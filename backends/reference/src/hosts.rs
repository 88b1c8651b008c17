//! Host functions that the reference library computes: operators without a tensor program, library
//! functions, `print`.

use crate::stops;
use crate::values::{to_machine, to_semantics};
use relax_lower::program::RUN_OPERATOR;
use relax_runtime as machine;
use relax_runtime::HostCall;
use relax_semantics::library;
use relax_semantics::memory::Memory;
use relax_semantics::ops::{Limits, Machine, Operator, apply, check_constraints, lookup};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{self, Mode, Options};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::TensorType;
use relax_syntax::ir::Module;
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;
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

/// Computes calls of operators in place of the reference library: the operator, and its call without the name. `None` leaves
/// a call to the library.
pub type Operators =
    dyn Fn(&'static Operator, &HostCall) -> Option<Result<machine::Value, Stop>> + Send + Sync;

/// Gives a module every host function that it calls. A name that is none of the library stops the program
/// when it is called, with the trap that says which there are.
///
/// # Errors
/// When the tensor programs that host functions are called with cannot be read.
pub fn register(
    module: &mut machine::Module,
    limits: &Limits,
    printed: &Printed,
) -> Result<(), String> {
    register_with(module, limits, printed, None)
}

/// As [`register`], with operators that somebody else computes.
///
/// # Errors
/// As [`register`].
pub fn register_with(
    module: &mut machine::Module,
    limits: &Limits,
    printed: &Printed,
    operators: Option<&Arc<Operators>>,
) -> Result<(), String> {
    let names: Vec<String> = module.missing().into_iter().map(str::to_owned).collect();
    let kernels: Arc<[Name]> =
        module.kernels().iter().map(|kernel| Name::from(kernel.name.as_str())).collect();
    let programs = Arc::new(programs(&module.metadata().programs)?);
    for name in names {
        let (limits, printed, called) = (limits.clone(), printed.clone(), name.clone());
        let (kernels, programs) = (Arc::clone(&kernels), Arc::clone(&programs));
        let operators = operators.filter(|_| called == RUN_OPERATOR).cloned();
        module.register(name, move |call| {
            let own = operators.as_ref().and_then(|own| own(operator_of(call)?, call));
            if let Some(result) = own {
                return result.map_err(stops::to_machine);
            }
            let (module, memory) = (&programs, Memory::default());
            let mut host =
                Host { limits: &limits, printed: &printed, kernels: &kernels, module, memory };
            let result = host.run(&called, call).map_err(stops::to_machine)?;
            to_machine(&result).map_err(machine::Stop::Unsupported)
        });
    }
    Ok(())
}

/// The operator that a call by its name is of.
fn operator_of(call: &HostCall) -> Option<&'static Operator> {
    match call.args.first() {
        Some(machine::Value::Str(operator)) => lookup(operator),
        _ => None,
    }
}

fn programs(text: &str) -> Result<Module, String> {
    let (file, mut diagnostics) = parse_file(&Source::new("programs", text));
    let (module, resolved) = resolve_file(&file);
    diagnostics.extend(resolved);
    match diagnostics.first() {
        None => Ok(module),
        Some(first) => Err(format!("the tensor programs do not read: {}", first.message)),
    }
}

/// What operators that need an interpreter get: there are no functions to call here.
struct Host<'a> {
    limits: &'a Limits,
    printed: &'a Printed,
    /// The names of kernels that are values.
    kernels: &'a [Name],
    /// The tensor programs among them.
    module: &'a Module,
    memory: Memory,
}

impl Host<'_> {
    /// What stands for a value that has no elements. A storage or a heap is refused by every operator; it
    /// takes one to say so.
    fn named(&mut self, value: &machine::Value) -> Option<Value> {
        let built_in = match value {
            machine::Value::Kernel(at) => {
                return self.kernels.get(*at as usize).cloned().map(Value::Global);
            }
            machine::Value::Machine(_) if value.kind() == "a storage" => "memory.alloc_storage",
            machine::Value::Machine(_) if value.kind() == "a shape heap" => {
                "builtin.alloc_shape_heap"
            }
            _ => return None,
        };
        let size = match built_in {
            "memory.alloc_storage" => Value::Shape(vec![0]),
            _ => Value::int(0),
        };
        let limits = self.limits;
        apply(lookup(built_in)?, vec![size], Vec::new(), limits, Some(self)).ok()
    }

    fn run(&mut self, name: &str, call: &HostCall) -> Result<Value, Stop> {
        let mut read = |value: &machine::Value| {
            to_semantics(value, &mut |value| self.named(value)).map_err(Stop::Unsupported)
        };
        let mut args = call.args.iter().map(&mut read).collect::<Result<Vec<_>, _>>()?;
        let keywords = call
            .keywords
            .iter()
            .map(|(key, value)| Ok((Name::from(key.as_str()), read(value)?)))
            .collect::<Result<Vec<_>, Stop>>()?;
        let limits = self.limits;
        match name {
            RUN_OPERATOR => {
                let row = named_operator(name, &mut args)?;
                apply(row, args, keywords, limits, Some(self))
            }
            "builtin.check_operator" => {
                let row = named_operator(name, &mut args)?;
                check_constraints(row, args, Some(self.module))
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

/// The operator that the first argument names, which is taken out.
fn named_operator(function: &str, args: &mut Vec<Value>) -> Result<&'static Operator, Stop> {
    let operator = match args.first() {
        Some(Value::Str(operator)) => operator.clone(),
        _ => Name::from(""),
    };
    args.drain(..args.len().min(1));
    lookup(&operator).ok_or_else(|| {
        Stop::trap(format!("{function}/C1"), format!("there is no operator `{operator}`"))
    })
}

impl Machine for Host<'_> {
    fn module(&self) -> &Module {
        self.module
    }

    fn call(&mut self, _: &Value, _: Vec<Value>) -> Result<Value, Stop> {
        Err(Stop::Unsupported("a function that an operator calls".to_owned()))
    }

    fn run_tensor_program(
        &mut self,
        name: &str,
        inputs: Vec<Tensor>,
        outputs: Vec<Tensor>,
        scalars: Vec<i64>,
    ) -> Result<Vec<Tensor>, Stop> {
        let program = self.module.tensor_program(name).ok_or_else(|| {
            let message = format!("there is no tensor program `{name}`");
            Stop::trap("call_tir/C1", message)
        })?;
        let first_output = inputs.len();
        let buffers = inputs.into_iter().chain(outputs).collect();
        let options = Options { limits: self.limits.clone(), mode: Mode::Sequential };
        let mut all = tir::run(program, buffers, &scalars, &options)?;
        Ok(all.split_off(first_output))
    }

    fn call_library(
        &mut self,
        name: &str,
        args: &[Value],
        outputs: Option<&[TensorType]>,
    ) -> Result<Value, Stop> {
        library::call(name, args, outputs, self.limits)
    }

    fn run_graph(&mut self, _: &Value, _: Vec<Value>) -> Result<Value, Stop> {
        Err(Stop::Unsupported("a graph of launches".to_owned()))
    }

    fn static_memory(&mut self, _: &Value) -> Result<Value, Stop> {
        Err(Stop::Unsupported("memory of a graph of launches".to_owned()))
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn print(&mut self, text: &str) {
        self.printed.push(text);
    }
}
