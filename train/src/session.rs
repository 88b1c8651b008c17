//! The state of a training run, and its step: loss and gradients, then the optimizer for each weight.

use crate::checkpoint::{State, digest_of_text};
use crate::config::{Config, ConfigError, MixedConfig, Placed};
use crate::data::{Cursor, Data};
use crate::engine::{Argument, Engine, Environment};
use crate::error::TrainError;
use crate::gradient::{TrainingStep, training_step};
use crate::held::Held;
use crate::initial::Initial;
use crate::memory::{budget, check, refused};
use crate::optimizer::{Optimizer, clip_factor, global_norm};
use crate::random;
use crate::recomputation::MemoryPlan;
use crate::scaling::{self, Scaling};
use crate::tensors::first_not_finite;
use crate::weight::Weight;
use relax_program::externals::externals;
use relax_program::frontend::Program;
use relax_program::signature::Dims;
use relax_rewrite::passes::bind_params::entry;
use relax_rewrite::passes::gradient::{Options, Seed};
use relax_rewrite::pipeline::leads_back;
use relax_semantics::check::Phase;
use relax_semantics::show::shown_shape;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Function;
use relax_syntax::suggest::hint;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A training run between two steps.
pub struct Session {
    pub(crate) config: Config,
    parameters: Vec<Name>,
    weights: Vec<Weight>,
    step: u64,
    cursor: Cursor,
    data: Data,
    adjoint: Engine,
    memory: Option<MemoryPlan>,
    optimizer: Optimizer,
    /// Of a run in mixed precision.
    scaling: Option<Scaling>,
    max_bytes: u64,
}

/// What a step gave.
#[derive(Clone, Debug)]
pub struct Step {
    /// Counts from 1.
    pub step: u64,
    /// The pass over the data, which counts from 0.
    pub epoch: u64,
    /// Before the weights were changed.
    pub loss: f64,
    /// The global norm of the gradients before clipping, without the loss scale; infinite where the step was skipped.
    pub gradient_norm: f64,
    /// The learning rate.
    pub rate: f64,
    /// Of symbolic variables of the data.
    pub dims: Dims,
    /// Of the whole step, the reading of data included.
    pub time: Duration,
    /// By which this step multiplied the loss, in mixed precision.
    pub loss_scale: Option<f32>,
    /// Why weights were not changed: a gradient overflowed by the loss scale, which is smaller in the next step.
    pub skipped: Option<String>,
}

impl Session {
    /// Prepares a run from its beginning: compiles once for all shapes, and makes the weights.
    ///
    /// # Errors
    /// Configuration, program and data that do not fit; what cannot be differentiated or compiled.
    pub fn new(
        mut config: Config,
        program: &Program,
        environment: &Environment,
    ) -> Result<Self, TrainError> {
        if let Some(diagnostic) = leads_back(&program.module, Phase::P0) {
            return Err(TrainError::Program(Box::new(diagnostic)));
        }
        if let Some(name) = externals(&program.module).keys().next() {
            let message = format!(
                "the program has the external constant `{name}`: make it a parameter, which is a weight or data"
            );
            return Err(ConfigError::new(config.program.span, message).into());
        }
        let function = function(&config, program)?;
        let (chosen, inputs) = divided(&config, function)?;
        let inputs = random::without_state(config.random.as_ref(), inputs)?;
        let max_bytes = environment.max_bytes;
        let data = Data::new(&config.data, inputs, (config.seed, max_bytes))?;
        let wide = chosen.iter().any(|(_, dtype, ..)| *dtype == DType::F64);
        let threads = config.threads.unwrap_or(0);
        let optimizer = Optimizer::new(&config.optimizer, wide, environment, threads)?;
        let weights = chosen.into_iter().map(|(name, dtype, shape, initial)| {
            let to = (dtype, shape.as_slice());
            let from = (config.data.folder.as_path(), max_bytes);
            let value = initial.value.tensor(&name, to, config.seed, from);
            let value = value.map_err(|why| ConfigError::new(initial.span, why))?;
            Weight::new(name, &value, &optimizer, &config)
        });
        let weights: Vec<Weight> = weights.collect::<Result<_, TrainError>>()?;
        let names: Vec<Name> = weights.iter().map(|weight| weight.name.clone()).collect();
        let budget = config.memory.as_ref().map(|memory| budget(&config, memory, function));
        let budget = budget.transpose()?;
        let within = budget.as_ref().map(|budget| (budget, &environment.target));
        let mixed = config.mixed.as_ref();
        let seed = mixed.map_or(Seed::One, |_| Seed::Parameter(Name::new("loss_scale")));
        let options = Options {
            function: Some(function.name.clone()),
            wrt: names,
            seed,
            ..Options::default()
        };
        let TrainingStep { program: step_program, adjoint, memory } =
            training_step(program, &options, within, mixed.map(scaling::pass))
                .map_err(|error| refused(error, &config))?;
        let scaling = mixed.map(|mixed| scaling_of(mixed, &step_program, &adjoint, &weights));
        let scaling = scaling.transpose()?;
        let adjoint = Engine::new(step_program, &adjoint, environment, threads)?;
        let texts = [("program_text", &program.source), ("optimizer_text", &optimizer.source)];
        for (key, source) in texts {
            config.settings.insert(key.to_owned(), digest_of_text(&source.text));
        }
        let parameters = parameters(function).map(|(name, _)| name.clone()).collect();
        let cursor = Cursor::default();
        Ok(Self {
            config,
            parameters,
            weights,
            step: 0,
            cursor,
            data,
            adjoint,
            memory,
            optimizer,
            scaling,
            max_bytes,
        })
    }

    /// Goes to where a checkpoint of the same run was written.
    ///
    /// # Errors
    /// A damaged file, or one of another program or configuration: nothing is changed then.
    pub fn resume(&mut self, path: &Path) -> Result<(), TrainError> {
        let mut state = State::read(path, &self.config.settings, self.max_bytes)?;
        if state.scaling.is_some() != self.scaling.is_some() {
            let at = path.display();
            return Err(TrainError::Input(format!(
                "{at}: the checkpoint is damaged: its loss scale"
            )));
        }
        let mut restored = Vec::new();
        for weight in &self.weights {
            let (shape, kept) = (weight.shape.as_slice(), self.optimizer.dtype);
            let take = |name: String| {
                let tensor = state.tensors.remove(&name);
                let fits = |tensor: &Tensor| tensor.shape() == shape && tensor.dtype() == kept;
                let tensor = tensor.filter(fits).ok_or_else(|| {
                    let (shape, at) = (shown_shape(shape), path.display());
                    TrainError::Input(format!(
                        "{at}: there is no `{name}`, {kept} of shape {shape}"
                    ))
                })?;
                self.optimizer.hold(tensor.reshaped(&[tensor.len()]))
            };
            let names = weight.names(&self.optimizer).into_iter();
            restored.push(names.map(take).collect::<Result<Vec<Held>, TrainError>>()?);
        }
        for (weight, held) in self.weights.iter_mut().zip(restored) {
            weight.restore(held);
        }
        if let (Some(scaling), Some(state)) = (&mut self.scaling, state.scaling) {
            scaling.restore(state);
        }
        (self.step, self.cursor) = (state.step, state.cursor);
        Ok(())
    }

    /// What the memory plan of the adjoint takes, where the configuration has a budget.
    #[must_use]
    pub fn memory(&self) -> Option<&MemoryPlan> {
        self.memory.as_ref()
    }

    /// Steps that were taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Writes a checkpoint into the folder of the configuration.
    ///
    /// # Errors
    /// What the system says.
    pub fn save(&self) -> Result<PathBuf, TrainError> {
        self.whole()?;
        let mut tensors = BTreeMap::new();
        self.weights.iter().for_each(|weight| weight.save(&self.optimizer, &mut tensors));
        let (step, cursor) = (self.step, self.cursor);
        let settings = self.config.settings.clone();
        let scaling = self.scaling.as_ref().map(Scaling::state);
        let state = State { step, cursor, scaling, settings, tensors };
        state.write(&self.config.checkpoint.folder, self.config.checkpoint.keep)
    }

    /// Whether an update that failed has overwritten weights.
    fn whole(&self) -> Result<(), TrainError> {
        let Some(lost) = self.weights.iter().find(|weight| weight.is_lost()) else { return Ok(()) };
        Err(TrainError::Input(format!(
            "a step that failed has overwritten `{}`: resume from a checkpoint",
            lost.name
        )))
    }

    /// Takes a step. After an error of the optimizer, which updates weights in place, only [`Session::resume`] goes on; any other error
    /// leaves the weights as they were.
    ///
    /// # Errors
    /// Data that does not fit; a trap; a number that is not finite.
    pub fn step(&mut self) -> Result<Step, TrainError> {
        self.whole()?;
        let begin = Instant::now();
        let (step, mut cursor) = (self.step + 1, self.cursor);
        let batch = self.data.next(&mut cursor, step)?;
        check(&self.config, self.memory.as_ref(), (step, &batch.dims))?;
        let mut given: BTreeMap<Name, Argument> = BTreeMap::new();
        let mut give = |name: Name, tensor| {
            given.insert(name, Argument::Value(Value::Tensor(tensor)));
        };
        batch.values.into_iter().for_each(|(name, tensor)| give(name, tensor));
        if let Some(random) = &self.config.random {
            give(random.parameter.value.clone(), random::state(self.config.seed, step));
        }
        for weight in &self.weights {
            let held = weight.for_program(&self.optimizer)?;
            given.insert(weight.name.clone(), Argument::Held(held));
        }
        let arguments = self
            .parameters
            .iter()
            .map(|name| given.remove(name).expect("invariant: a parameter is a weight or data"));
        let scale = self.scaling.iter().map(|scaling| Argument::Value(scaling.argument()));
        let result = self.adjoint.call(step, arguments.chain(scale).collect())?;
        let (loss, gradients) = parts(result);
        let not_finite = |what: String| TrainError::NotFinite { step, what };
        if !loss.is_finite() {
            return Err(not_finite(format!("the loss is {loss}")));
        }
        let rate = self.config.optimizer.schedule.rate(step);
        let loss_scale = self.scaling.as_ref().map(|scaling| scaling.state().scale);
        let skipped = self.overflow(&gradients);
        let gradient_norm = match (&skipped, &mut self.scaling) {
            (Some(why), None) => return Err(not_finite(why.clone())),
            (Some(why), Some(scaling)) => {
                scaling.shrink(step, why)?;
                f64::INFINITY
            }
            (None, _) => self.update(step, rate, gradients)?,
        };
        (self.step, self.cursor) = (step, cursor);
        let (epoch, dims, time) = (cursor.epoch, batch.dims, begin.elapsed());
        Ok(Step { step, epoch, loss, gradient_norm, rate, dims, time, loss_scale, skipped })
    }

    /// The first gradient that is not finite, and why.
    fn overflow(&self, gradients: &[Tensor]) -> Option<String> {
        let mut all = self.weights.iter().zip(gradients);
        all.find_map(|(weight, gradient)| {
            let why = first_not_finite(gradient)?;
            Some(format!("the gradient of `{}`: {why}", weight.name))
        })
    }

    /// Changes the weights by finite gradients, and gives their norm without the loss scale.
    fn update(&mut self, step: u64, rate: f64, gradients: Vec<Tensor>) -> Result<f64, TrainError> {
        let kept = self.optimizer.dtype;
        let gradients: Vec<Tensor> = match &self.scaling {
            Some(scaling) => gradients.iter().map(|it| scaling.unscaled(it, kept)).collect(),
            None => gradients,
        };
        let norm = global_norm(&gradients);
        if !norm.is_finite() {
            let what = format!("the norm of the gradients is {norm}");
            return Err(TrainError::NotFinite { step, what });
        }
        let factor = self.config.optimizer.clip.map_or(1.0, |most| clip_factor(norm, most));
        let skipped = self.scaling.as_ref().map_or(0, |scaling| scaling.state().skipped);
        for (weight, gradient) in self.weights.iter_mut().zip(gradients) {
            let gradient = scaled(gradient, factor, kept);
            weight.update(&self.optimizer, (step, step - skipped, rate), gradient)?;
        }
        self.scaling.iter_mut().for_each(Scaling::grow);
        Ok(norm)
    }
}

/// The scale of the loss of an adjoint whose last parameter it is.
fn scaling_of(
    mixed: &MixedConfig,
    program: &Program,
    adjoint: &Name,
    weights: &[Weight],
) -> Result<Scaling, ConfigError> {
    let wrong = |what: String| {
        let message =
            format!("{what} is f64, and `[mixed]` rounds products of f32: leave the table out");
        ConfigError::new(mixed.dtype.span, message)
    };
    if let Some(weight) = weights.iter().find(|weight| weight.dtype == DType::F64) {
        return Err(wrong(format!("the weight `{}`", weight.name)));
    }
    let function = program.module.function(adjoint).expect("invariant: it was made");
    let seed = function.lambda.params.last().expect("invariant: the last one is the scale");
    match function.param_annotation(*seed).as_tensor().and_then(|tensor| tensor.dtype) {
        Some(DType::F64) => Err(wrong("the loss".to_owned())),
        dtype => Ok(Scaling::new(mixed, dtype.unwrap_or(DType::F32))),
    }
}

/// A gradient as a vector of the dtype of the optimizer, multiplied in f64 and rounded once.
fn scaled(gradient: Tensor, factor: f64, dtype: DType) -> Tensor {
    let vector = gradient.reshaped(&[gradient.len()]);
    if factor == 1.0 {
        return vector.cast(dtype);
    }
    Tensor::from_floats(dtype, vector.to_floats() * factor)
}

/// The loss and the gradients in the result of an adjoint.
fn parts(result: Value) -> (f64, Vec<Tensor>) {
    let invariant = "invariant: an adjoint gives a result and gradients";
    let Value::Tuple(mut items) = result else { panic!("{invariant}") };
    let (Some(Value::Tuple(gradients)), Some(result)) = (items.pop(), items.pop()) else {
        panic!("{invariant}")
    };
    let loss = match result {
        Value::Tuple(mut fields) => fields.swap_remove(0),
        one => one,
    };
    let Value::Tensor(loss) = loss else { panic!("{invariant}") };
    let tensor = |value| match value {
        Value::Tensor(tensor) => tensor,
        _ => panic!("{invariant}"),
    };
    (loss.number(0).as_f64(), gradients.into_iter().map(tensor).collect())
}

/// The function with the loss.
fn function<'p>(config: &Config, program: &'p Program) -> Result<&'p Function, ConfigError> {
    let module = &program.module;
    let Some(wanted) = &config.entry else {
        return entry(module).ok_or_else(|| {
            let message =
                "the program has no `main` and not one public function: name one by `entry`";
            ConfigError::new(config.program.span, message)
        });
    };
    let known: Vec<&str> = module.functions().map(|function| function.name.as_str()).collect();
    module.function(&wanted.value).ok_or_else(|| {
        let message = format!("the program has no function `{}`", wanted.value);
        ConfigError::new(wanted.span, message).with_help(hint(&wanted.value, &known))
    })
}

fn parameters(function: &Function) -> impl Iterator<Item = (&Name, &Annotation)> {
    let params = function.lambda.params.iter();
    params.map(|&id| (&function.var(id).name, function.param_annotation(id)))
}

/// A weight, and how it begins.
type Chosen<'c> = (Name, DType, Vec<usize>, &'c Placed<Initial>);

/// Parameters that are data.
type Inputs = Vec<(Name, Annotation)>;

/// The parameters that a pattern of the configuration matches, and the others, which are data.
fn divided<'c>(
    config: &'c Config,
    function: &Function,
) -> Result<(Vec<Chosen<'c>>, Inputs), ConfigError> {
    let mut patterns = Vec::new();
    for (pattern, initial) in &config.weights {
        let compiled = glob::Pattern::new(&pattern.value)
            .map_err(|error| ConfigError::new(pattern.span, error.to_string()))?;
        patterns.push((compiled, pattern, initial));
    }
    let mut used = vec![false; patterns.len()];
    let (mut weights, mut inputs) = (Vec::new(), Vec::new());
    for (name, annotation) in parameters(function) {
        let known = concrete(annotation, &config.dims);
        // A pattern with wildcards leaves out what cannot be a weight: integers, and examples of symbolic extents.
        let found = patterns.iter().position(|(compiled, pattern, _)| {
            compiled.matches(name) && (known.is_ok() || pattern.value == name.as_str())
        });
        let Some(at) = found else {
            inputs.push((name.clone(), annotation.clone()));
            continue;
        };
        used[at] = true;
        let (_, pattern, initial) = &patterns[at];
        let (dtype, shape) = known.map_err(|why| {
            let message = format!("`{name}` is `{annotation}`, which is no weight: {why}");
            ConfigError::new(pattern.span, message)
        })?;
        weights.push((name.clone(), dtype, shape, *initial));
    }
    if let Some(at) = used.iter().position(|used| !used) {
        let known: Vec<&str> = parameters(function).map(|(name, _)| name.as_str()).collect();
        let (_, pattern, _) = &patterns[at];
        let message = format!(
            "no parameter of `{}` that can be a weight is named `{}`, or an earlier pattern names it",
            function.name, pattern.value
        );
        return Err(ConfigError::new(pattern.span, message).with_help(hint(&pattern.value, &known)));
    }
    if inputs.is_empty() {
        let message =
            format!("every parameter of `{}` is a weight: there is no data", function.name);
        return Err(ConfigError::new(config.data.files.span, message));
    }
    Ok((weights, inputs))
}

/// The dtype and shape of a weight.
fn concrete(
    annotation: &Annotation,
    dims: &BTreeMap<Name, i64>,
) -> Result<(DType, Vec<usize>), String> {
    let tensor = annotation.as_tensor().ok_or("it is no tensor")?;
    let dtype = tensor.dtype.filter(|dtype| dtype.is_float());
    let dtype = dtype.ok_or("gradients are of float tensors only")?;
    let extents = tensor.extents.dims().ok_or("its shape is not known")?;
    let value_of = |name: &Name| dims.get(name).copied();
    let extent = |dim: &relax_syntax::dim::Dim| {
        let value = dim.eval(&value_of).map_err(|why| {
            format!("{why}; give values of symbolic variables in the table `[dims]`")
        })?;
        usize::try_from(value).map_err(|_| format!("its extent {value} is negative"))
    };
    Ok((dtype, extents.iter().map(extent).collect::<Result<_, _>>()?))
}
