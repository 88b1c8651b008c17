//! Optimizers: functions of the language that take a step of one weight, as the vector of its elements.

use crate::config::{ConfigError, OptimizerConfig, Placed};
use crate::engine::{Argument as Passed, Engine, Environment};
use crate::error::TrainError;
use crate::gradient::only;
use crate::held::Held;
use ndarray::ArrayD;
use relax_program::frontend::Program;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::TensorType;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{AttrValue, DONATED, Definition, Function, Module, attr};
use relax_syntax::parse::read_source;
use relax_syntax::span::Source;
use relax_syntax::suggest::hint;
use std::collections::BTreeMap;

/// The text of the built-in optimizers, in f64.
const BUILT_IN: &str = include_str!("../optimizers.rx");

/// The built-in optimizers, with the values of scalars that have a default (those of PyTorch).
const DEFAULTS: [(&str, &[(&str, f64)]); 3] = [
    ("sgd", &[]),
    ("momentum", &[("decay", 0.9)]),
    ("adamw", &[("beta1", 0.9), ("beta2", 0.999), ("epsilon", 1e-8), ("decay", 0.01)]),
];

/// An argument after the weight and its gradient.
enum Argument {
    /// A vector of the state, which begins with zeros.
    State,
    /// The number of the step, from 1.
    Step,
    /// The learning rate.
    Rate,
    /// A scalar of the configuration.
    Fixed(Value),
}

/// A function that takes a step of one weight.
pub(crate) struct Optimizer {
    engine: Engine,
    /// In which weights and states are kept.
    pub(crate) dtype: DType,
    arguments: Vec<Argument>,
    /// Names of the vectors of the state.
    pub(crate) state: Vec<Name>,
    /// Its text, of which checkpoints have a digest.
    pub(crate) source: Source,
    name: Name,
}

impl Optimizer {
    /// The optimizer of a configuration. `wide` says whether a weight is of f64.
    pub(crate) fn new(
        config: &OptimizerConfig,
        wide: bool,
        environment: &Environment,
        threads: usize,
    ) -> Result<Self, TrainError> {
        let program = Program::load(source(config, wide)?);
        if program.has_errors() {
            return Err(TrainError::Optimizer(Box::new(program)));
        }
        let name = Name::new(config.name.value.as_str());
        let Some(function) = program.module.function(&name) else {
            let known: Vec<&str> =
                program.module.functions().map(|function| function.name.as_str()).collect();
            let message = format!("`{}` has no function `{name}`", program.source.name);
            let error = ConfigError::new(config.name.span, message);
            return Err(error.with_help(hint(&name, &known)).into());
        };
        let (dtype, vectors, scalars) = signature(function, config, &program.source.name)?;
        let fixed = fixed(config, &scalars)?;
        let argument = |(name, rank): (Name, usize)| match (name.as_str(), rank) {
            (_, 1) => Argument::State,
            ("step", _) => Argument::Step,
            ("rate", _) => Argument::Rate,
            (name, _) => Argument::Fixed(scalar(dtype, fixed[name])),
        };
        let arguments = parameters(function).skip(2).map(|(name, tensor)| {
            (name.clone(), tensor.and_then(|tensor| tensor.extents.rank()).unwrap_or(0))
        });
        let arguments = arguments.map(argument).collect();
        let module = donating(&program.module, &name, &vectors);
        let source = program.source.clone();
        let engine = Engine::new(only(&program, module, &name), &name, environment, threads)?;
        Ok(Self { engine, dtype, arguments, state: vectors, source, name })
    }

    /// A weight and the vectors of its state, where the optimizer runs.
    pub(crate) fn begin(&self, weight: Tensor) -> Result<Vec<Held>, TrainError> {
        let zeros = Tensor::full(self.dtype, weight.shape(), Number::Float(0.0));
        let all = std::iter::once(weight).chain(vec![zeros; self.state.len()]);
        all.map(|tensor| self.engine.hold(tensor)).collect()
    }

    /// A tensor where the optimizer runs.
    pub(crate) fn hold(&self, tensor: Tensor) -> Result<Held, TrainError> {
        self.engine.hold(tensor)
    }

    /// A weight and its state after a step, in the memory of those before where nothing else has a name of it.
    pub(crate) fn step(
        &self,
        (step, update, rate): (u64, u64, f64),
        weight: Vec<Held>,
        gradient: Tensor,
    ) -> Result<Vec<Held>, TrainError> {
        let shape = gradient.shape().to_vec();
        let mut weight = weight.into_iter().map(Passed::Held);
        let mut next = || weight.next().expect("invariant: as many as names");
        let mut arguments = vec![next(), Passed::Value(Value::Tensor(gradient))];
        arguments.extend(self.arguments.iter().map(|argument| match argument {
            Argument::State => next(),
            Argument::Step => Passed::Value(scalar(self.dtype, update as f64)),
            Argument::Rate => Passed::Value(scalar(self.dtype, rate)),
            Argument::Fixed(value) => Passed::Value(value.clone()),
        }));
        let made = self.engine.update(step, arguments)?;
        let fits = |held: &Held| held.dtype() == self.dtype && held.shape() == shape;
        let fitting = made.filter(|made| made.len() == 1 + self.state.len());
        fitting.filter(|made| made.iter().all(fits)).ok_or_else(|| {
            TrainError::Input(format!(
                "the optimizer `{}` must give the weight and {} vectors of its state, each {} of {} elements",
                self.name,
                self.state.len(),
                self.dtype,
                shape.iter().product::<usize>()
            ))
        })
    }
}

/// The module of an optimizer that is given the weight and its state up, so that it may overwrite them. A function that says itself
/// what it donates stays as it is.
fn donating(module: &Module, name: &Name, state: &[Name]) -> Module {
    let mut module = module.clone();
    for definition in &mut module.definitions {
        let Definition::Graph(function) = definition else { continue };
        if function.name != *name || attr(&function.lambda.attrs, DONATED).is_some() {
            continue;
        }
        let weight = parameters(function).next().map(|(name, _)| name.clone());
        let names: Vec<&str> = weight.iter().chain(state).map(Name::as_str).collect();
        let names = AttrValue::Str(Name::new(names.join(",")));
        function.lambda.attrs.push((Name::new(DONATED), names));
    }
    module
}

/// The text of an optimizer. Weights of fewer bits than f32 are kept in f32, so that small steps add up.
fn source(config: &OptimizerConfig, wide: bool) -> Result<Source, TrainError> {
    let Some(file) = &config.file else {
        let name = config.name.value.as_str();
        if !DEFAULTS.iter().any(|(known, _)| *known == name) {
            let known = DEFAULTS.map(|(known, _)| known);
            let message = format!("`{name}` is no built-in optimizer");
            let help = hint(name, &known)
                .unwrap_or_else(|| "`optimizer.file` names the text of one of your own".to_owned());
            return Err(ConfigError::new(config.name.span, message).with_help(Some(help)).into());
        }
        let text = if wide { BUILT_IN.to_owned() } else { BUILT_IN.replace("f64", "f32") };
        return Ok(Source::new("optimizers.rx", text));
    };
    let shown = file.value.display();
    let bytes = std::fs::read(&file.value)
        .map_err(|error| ConfigError::new(file.span, format!("cannot read {shown}: {error}")))?;
    read_source(&shown.to_string(), &bytes)
        .map_err(|_| ConfigError::new(file.span, format!("{shown} is no UTF-8 text")).into())
}

fn parameters(function: &Function) -> impl Iterator<Item = (&Name, Option<&TensorType>)> {
    let params = function.lambda.params.iter();
    params.map(|&id| (&function.var(id).name, function.param_annotation(id).as_tensor()))
}

/// The dtype, the names of vectors of the state, and those of the scalars.
fn signature(
    function: &Function,
    config: &OptimizerConfig,
    text: &str,
) -> Result<(DType, Vec<Name>, Vec<Name>), ConfigError> {
    let wrong = |why: String| {
        let message =
            format!("the function `{}` of `{text}` is no optimizer: {why}", function.name);
        let help = "it takes a weight and its gradient as vectors of one symbolic extent and float dtype, then \
                    vectors of its state and scalars";
        ConfigError::new(config.name.span, message).with_help(Some(help.to_owned()))
    };
    let mut first: Option<(DType, &Dim)> = None;
    let (mut vectors, mut scalars) = (Vec::new(), Vec::new());
    for (at, (name, tensor)) in parameters(function).enumerate() {
        let found = tensor.and_then(|tensor| Some((tensor.dtype?, tensor.extents.dims()?)));
        match found {
            Some((dtype, [dim @ Dim::Var(_)]))
                if dtype.is_float() && first.is_none_or(|first| first == (dtype, dim)) =>
            {
                first = Some((dtype, dim));
                vectors.extend((at >= 2).then(|| name.clone()));
            }
            Some((dtype, [])) if at >= 2 && first.is_some_and(|first| first.0 == dtype) => {
                scalars.push(name.clone());
            }
            _ => return Err(wrong(format!("its parameter `{name}`"))),
        }
    }
    let count = parameters(function).count();
    match first {
        Some((dtype, _)) if count >= 2 => Ok((dtype, vectors, scalars)),
        _ => Err(wrong(format!("it has {count} parameters"))),
    }
}

/// The values of the scalars that stay the same.
fn fixed(config: &OptimizerConfig, scalars: &[Name]) -> Result<BTreeMap<String, f64>, ConfigError> {
    let wanted: Vec<&str> =
        scalars.iter().map(Name::as_str).filter(|name| !matches!(*name, "step" | "rate")).collect();
    let built_in = DEFAULTS.iter().filter(|_| config.file.is_none());
    let defaults = built_in.filter(|(name, _)| *name == config.name.value);
    let defaults = defaults.flat_map(|(_, values)| values.iter());
    let mut values: BTreeMap<String, f64> =
        defaults.map(|(name, value)| ((*name).to_owned(), *value)).collect();
    for (Placed { value: name, span }, value) in &config.parameters {
        if !wanted.contains(&name.as_str()) {
            let message = format!("`{}` has no scalar `{name}`", config.name.value);
            return Err(ConfigError::new(*span, message).with_help(hint(name, &wanted)));
        }
        values.insert(name.clone(), value.value);
    }
    let missing: Vec<&str> =
        wanted.into_iter().filter(|name| !values.contains_key(*name)).collect();
    if missing.is_empty() {
        return Ok(values);
    }
    let message = format!(
        "`{}` needs values of {}: give them in `optimizer.parameters`",
        config.name.value,
        relax_syntax::suggest::quoted(&missing)
    );
    Err(ConfigError::new(config.name.span, message))
}

fn scalar(dtype: DType, value: f64) -> Value {
    Value::Tensor(Tensor::scalar(dtype, Number::Float(value)))
}

/// The Euclidean norm of all gradients together, in f64 and in the order of their elements.
pub(crate) fn global_norm(gradients: &[Tensor]) -> f64 {
    let squares = gradients.iter().map(|gradient| squares(&gradient.to_floats()));
    squares.fold(0.0, |sum, square| sum + square).sqrt()
}

fn squares(floats: &ArrayD<f64>) -> f64 {
    floats.iter().fold(0.0, |sum, value| sum + value * value)
}

/// What every gradient is multiplied by so that the norm is not above `most`, as `clip_grad_norm_` of PyTorch.
pub(crate) fn clip_factor(norm: f64, most: f64) -> f64 {
    (most / (norm + 1e-6)).min(1.0)
}

#[cfg(test)]
mod tests;
