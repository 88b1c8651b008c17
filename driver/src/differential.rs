//! Differential testing: the same functions on two routes, with random dims and inputs. A case draws dims for the variables of the
//! signature, then data. Both routes must give the same value or stop with the same trap.

mod routes;

pub use routes::{Built, Case, Difference, Files, Integers, Other, Routes};

use relax_program::compare::Relation;
use relax_program::externals::externals;
use relax_program::reals::widened;
use relax_program::rounding::{Precision, Rounding};
use relax_program::signature::{Dims, random_value};
use relax_reference::{stop_to_semantics, to_machine, to_semantics};
use relax_rewrite::pass::Device;
use relax_runtime as machine;
use relax_runtime::program::{Metadata, Numerics};
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of one random tensor.
pub const MAX_BYTES: u64 = 64 << 20;
/// Bounds of random integers, both included.
const INTS: std::ops::RangeInclusive<i64> = -4..=4;
/// Steps of one run: a random loop must end.
const MAX_STEPS: u64 = 200_000_000;

/// What became of the cases.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Results that were compared.
    pub compared: u32,
    /// Of these, those that differ in more than last digits and are the same real numbers.
    pub as_reals: u32,
    /// Cases in which rounding errors of the inputs change as much.
    pub ill_conditioned: u32,
    /// Cases in which both stop with the same trap.
    pub trapped: u32,
    /// Cases in which one gave up at a limit.
    pub exhausted: u32,
    /// Cases without inputs for the signature.
    pub rejected: u32,
    /// Cases that one does not support.
    pub unsupported: u32,
}

impl Tally {
    /// Of a comparison without a difference.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        if self.compared == 0 { "nothing compared" } else { "the same" }
    }
}

/// Parameters of one function that have the values of a file.
#[derive(Clone, Default)]
pub struct Known {
    /// The function whose parameters these are.
    pub function: Option<Name>,
    /// The values, by the names of parameters.
    pub values: BTreeMap<Name, Tensor>,
    /// Those that are constants of the module file, and are not passed to it.
    pub built_in: BTreeSet<Name>,
}

impl Known {
    /// The value of a parameter of a function.
    #[must_use]
    pub fn of(&self, function: &Name, param: &Name) -> Option<&Tensor> {
        self.values.get(param).filter(|_| self.function.as_ref() == Some(function))
    }

    /// Whether a parameter of a function is passed to the compiled program.
    #[must_use]
    pub fn is_passed(&self, function: &Name, param: &Name) -> bool {
        self.function.as_ref() != Some(function) || !self.built_in.contains(param)
    }
}

/// A program that the interpreter runs too.
#[must_use]
pub fn of_text(left: &Module, module: Module, relation: Relation) -> Other {
    let is_close = relation == Relation::Close;
    let wide = is_close.then(|| widened(left).zip(widened(&module))).flatten();
    Other::Text { module, relation, wide, externals: None }
}

/// A program as it was compiled.
#[must_use]
pub fn of_module(
    program: &Module,
    module: machine::Module,
    (backend, sums): (Device, Numerics),
    perturbed: Arc<BTreeMap<Name, Tensor>>,
) -> Other {
    let rounding = match (backend, sums) {
        (Device::Wgpu | Device::Cuda, Numerics::Exact) => {
            Rounding::Functions(Precision::of(program))
        }
        (Device::Wgpu | Device::Cuda, Numerics::Reassociated) => {
            Rounding::Sums(Precision::of(program))
        }
        (Device::Cpu | Device::Interp, _) => rounding(program, module.metadata()),
    };
    Other::Compiled { module: Box::new(module), rounding, perturbed }
}

/// What a module for the processor may round.
#[must_use]
pub fn rounding(program: &Module, metadata: &Metadata) -> Rounding {
    match (metadata.numerics, metadata.rounded) {
        (Numerics::Reassociated, _) => Rounding::Sums(Precision::of(program)),
        (Numerics::Exact, 0) => Rounding::Nothing,
        (Numerics::Exact, _) => Rounding::Functions(Precision::of(program)),
    }
}

/// The functions that both have.
#[must_use]
pub fn common(left: &Module, right: &Module) -> Vec<Name> {
    let has_body = |function: &&Function| function.lambda.body.is_some();
    left.functions()
        .filter(has_body)
        .filter(|function| right.function(&function.name).is_some())
        .map(|function| function.name.clone())
        .collect()
}

/// The constants that are given, and random ones for the others.
///
/// # Errors
/// The name of a constant for which there is no random value, and why.
pub fn all_externals(
    given: BTreeMap<Name, Tensor>,
    modules: &[&Module],
    seed: u64,
) -> Result<BTreeMap<Name, Tensor>, String> {
    let wanted = modules.iter().flat_map(|module| externals(module));
    let wanted: Vec<_> = wanted.filter(|(name, _)| !given.contains_key(name)).collect();
    let mut values = given;
    for (name, annotations) in wanted {
        for annotation in annotations {
            let mut random = Random::new(seed, &name);
            match random_value(&annotation, &Dims::new(), &mut random, &INTS, MAX_BYTES) {
                Ok(Value::Tensor(tensor)) => values.insert(name.clone(), tensor),
                Ok(_) => None,
                Err(why) => return Err(format!("`{name}`: {why}")),
            };
        }
    }
    Ok(values)
}

/// What a function of a compiled program gives. The virtual machine may take the memory of its copies of the arguments.
///
/// # Errors
/// A trap, a limit, or a value that the virtual machine does not have.
pub fn called(module: &machine::Module, name: &str, arguments: &[Value]) -> Result<Value, Stop> {
    let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>();
    called_with(module, name, arguments.map_err(Stop::Unsupported)?)
}

/// The same with values of the machine.
pub(crate) fn called_with(
    module: &machine::Module,
    name: &str,
    arguments: Vec<machine::Value>,
) -> Result<Value, Stop> {
    let function = module.function(name);
    let function = function.ok_or_else(|| Stop::Unsupported(format!("`{name}` is private")))?;
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    match function.call_donating(arguments) {
        Ok(value) => to_semantics(&value, &mut named).map_err(Stop::Unsupported),
        Err(stop) => Err(stop_to_semantics(stop)),
    }
}
