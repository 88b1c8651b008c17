//! Configuration of a training run: a TOML text. Paths are relative to the folder of the file. Every error has a place.

mod fields;
mod mixed;
mod random;

pub use fields::{ConfigError, Placed, Settings};
pub use mixed::{DynamicScale, LossScale, MixedConfig};
pub use random::RandomConfig;

use crate::initial::Initial;
use crate::schedule::{Schedule, Shape};
use fields::{
    COUNT, COUNTS, FLAG, Fields, Kind, NATURAL, NOT_NEGATIVE, NUMBER, POSITIVE, TEXT, TEXTS, place,
};
use relax_driver::sizes;
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;
use relax_syntax::Name;
use relax_syntax::span::{Source, Span};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml_edit::Document;

/// What a training run does.
#[derive(Clone, Debug)]
pub struct Config {
    /// The text of a program with a scalar loss.
    pub program: Placed<PathBuf>,
    /// The function with the loss; without one, the entry of the program.
    pub entry: Option<Placed<Name>>,
    /// The interpreter or the processor.
    pub backend: Device,
    /// Whether sums of floats may be reassociated.
    pub numerics: Numerics,
    /// Threads of a kernel; without a number, those of the processor.
    pub threads: Option<usize>,
    /// Of initial values, of the order of examples and of windows.
    pub seed: u64,
    /// The number of steps, those of earlier runs included.
    pub steps: u64,
    /// Values of symbolic variables in shapes of weights.
    pub dims: BTreeMap<Name, i64>,
    /// By pattern of names how weights begin; the first match decides.
    pub weights: Vec<(Placed<String>, Placed<Initial>)>,
    /// How weights are changed.
    pub optimizer: OptimizerConfig,
    /// Which parameter gets the state of random bits.
    pub random: Option<RandomConfig>,
    /// How many bytes the adjoint may take.
    pub memory: Option<MemoryConfig>,
    /// Products in 16 bits.
    pub mixed: Option<MixedConfig>,
    /// Where examples come from.
    pub data: DataConfig,
    /// Where the state is kept.
    pub checkpoint: CheckpointConfig,
    /// A file for JSON lines, one a step.
    pub metrics: Option<PathBuf>,
    /// Steps between reports of progress.
    pub report: u64,
    /// All that decides the result, for comparison with the configuration of a checkpoint.
    pub settings: Settings,
}

/// How weights are changed by gradients.
#[derive(Clone, Debug)]
pub struct OptimizerConfig {
    /// The function in the text of the optimizer, or the name of a built-in one.
    pub name: Placed<String>,
    /// A text of one's own.
    pub file: Option<Placed<PathBuf>>,
    /// The learning rate of each step.
    pub schedule: Schedule,
    /// The greatest global norm of the gradients.
    pub clip: Option<f64>,
    /// Values of further scalars of the function.
    pub parameters: Vec<(Placed<String>, Placed<f64>)>,
}

/// How many bytes the adjoint may take, for which dims.
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Bytes that the storages of the adjoint may take at the same time.
    pub budget: Placed<i64>,
    /// Values of symbolic variables besides those that the rest of the configuration gives, or instead of them.
    pub dims: Vec<(Placed<Name>, i64)>,
}

/// Where examples come from, and how a batch is cut.
#[derive(Clone, Debug)]
pub struct DataConfig {
    /// Paths or patterns.
    pub files: Placed<Vec<String>>,
    /// The folder to which they are relative.
    pub folder: PathBuf,
    /// The symbolic variable that counts examples, with the sizes of batches; without it a file is a batch.
    pub batch: Option<Cut>,
    /// The symbolic variable of which a step takes a window.
    pub length: Option<Cut>,
    /// Whether every epoch has an order of its own.
    pub shuffles: bool,
}

/// A symbolic variable, and its value in each step: the list is repeated.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The symbolic variable of the program.
    pub dim: Placed<Name>,
    /// At least one.
    pub sizes: Vec<u64>,
}

impl Cut {
    /// The size of a step, which counts from 1.
    pub(crate) fn size(&self, step: u64) -> u64 {
        let at = (step.max(1) - 1) % self.sizes.len() as u64;
        self.sizes[usize::try_from(at).expect("invariant: it is less than a length")]
    }
}

/// Where the state is kept.
#[derive(Clone, Debug)]
pub struct CheckpointConfig {
    /// For files of checkpoints.
    pub folder: PathBuf,
    /// Steps between checkpoints; the last step has one in any case.
    pub every: u64,
    /// How many are kept.
    pub keep: u64,
}

/// Keys that do not change the result. Texts are compared by their content.
const FREE: [&str; 8] = [
    "program",
    "optimizer.file",
    "threads",
    "metrics",
    "report",
    "checkpoint.folder",
    "checkpoint.every",
    "checkpoint.keep",
];

const INITIAL: Kind<Initial> = Kind(
    "a SPEC such as `zeros`, `normal(STD)`, `uniform(LOW, HIGH)`, `@FILE` or `@FILE:NAME`",
    |value| Initial::parse(value.as_str()?),
);

const BACKEND: Kind<Device> = Kind("`interp` or `cpu`", |value| {
    let named = |device: &Device| value.as_str() == Some(device.name());
    [Device::Interp, Device::Cpu].into_iter().find(named)
});

const SHAPE: Kind<Shape> =
    Kind("`constant`, `linear` or `cosine`", |value| Shape::parse(value.as_str()?));

const BYTES: Kind<i64> =
    Kind("bytes, or a text such as `\"512M\"` or `\"8G\"`", |value| match value.as_str() {
        Some(text) => Some(i64::try_from(sizes::bytes(text)?).unwrap_or(i64::MAX)),
        None => value.as_integer().filter(|bytes| *bytes >= 0),
    });

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn parse(source: &Source, folder: &Path) -> Result<Self, ConfigError> {
        let document = Document::parse(source.text.as_str()).map_err(|error| {
            let message = error.message().trim_end().replace('\n', "; ");
            ConfigError::new(place(error.span(), Span::new(0, 1)), message)
        })?;
        let mut fields = Fields::new(document.as_table(), "", Span::new(0, 1));
        let steps = fields.required("steps", &COUNT)?;
        let (optimizer, of_optimizer) = optimizer(&mut fields, steps.value, folder)?;
        let (data, of_data) = data(&mut fields, folder)?;
        let (checkpoint, of_checkpoint) = checkpoint(&mut fields, steps.value, folder)?;
        let backend = fields.or("backend", &BACKEND, Device::Cpu)?;
        let (memory, of_memory) = memory(&mut fields, backend)?;
        let (random, of_random) = random::random(&mut fields)?;
        let (mixed, of_mixed) = mixed::mixed(&mut fields)?;
        let mut config = Self {
            program: located(fields.required("program", &TEXT)?, folder),
            entry: fields.optional("entry", &TEXT)?.map(name),
            backend,
            numerics: numerics(&mut fields, backend)?,
            threads: fields
                .optional("threads", &COUNT)?
                .map(|threads| usize::try_from(threads.value).unwrap_or(usize::MAX)),
            seed: fields.or("seed", &NATURAL, 0)?,
            steps: steps.value,
            dims: dims(&mut fields)?,
            weights: fields.entries("weights", &INITIAL)?,
            metrics: fields.optional("metrics", &TEXT)?.map(|path| folder.join(path.value)),
            report: fields.or("report", &COUNT, steps.value.div_ceil(10))?,
            optimizer,
            random,
            memory,
            mixed,
            data,
            checkpoint,
            settings: Settings::new(),
        };
        if config.weights.is_empty() {
            let message = "`weights` is missing: a table of names, or patterns of names, and how these weights begin";
            return Err(ConfigError::new(fields.span(), message)
                .with_help(Some("for example `\"*\" = \"normal(0.1)\"`".to_owned())));
        }
        config.settings = fields.finish()?;
        for settings in [of_optimizer, of_random, of_data, of_checkpoint, of_mixed] {
            config.settings.extend(settings);
        }
        // Sums that are not reassociated have the same bits wherever they are computed again.
        if config.numerics == Numerics::Reassociated {
            config.settings.extend(of_memory);
        }
        config.settings.retain(|key, _| !FREE.contains(&key.as_str()));
        // The rates of a constant schedule do not depend on the last step.
        if config.optimizer.schedule.shape == Shape::Constant {
            config.settings.remove("steps");
        }
        Ok(config)
    }
}

fn located(path: Placed<String>, folder: &Path) -> Placed<PathBuf> {
    Placed { value: folder.join(path.value), span: path.span }
}

fn name(text: Placed<String>) -> Placed<Name> {
    Placed { value: Name::new(text.value), span: text.span }
}

/// Sums of floats are in the order of the text on the interpreter, and on the processor where that is asked for.
fn numerics(fields: &mut Fields<'_>, backend: Device) -> Result<Numerics, ConfigError> {
    let span = fields.optional("exact", &FLAG)?.map_or(fields.span(), |exact| exact.span);
    match (fields.or("exact", &FLAG, backend == Device::Interp)?, backend) {
        (true, _) => Ok(Numerics::Exact),
        (false, Device::Interp) => {
            let message = "the interpreter does not reassociate sums: `exact = false` needs `backend = \"cpu\"`";
            Err(ConfigError::new(span, message))
        }
        (false, _) => Ok(Numerics::Reassociated),
    }
}

fn dims(fields: &mut Fields<'_>) -> Result<BTreeMap<Name, i64>, ConfigError> {
    let entries = fields.entries("dims", &NATURAL)?;
    let entry = |(name, value): (Placed<String>, Placed<u64>)| {
        (Name::new(name.value), i64::try_from(value.value).unwrap_or(i64::MAX))
    };
    Ok(entries.into_iter().map(entry).collect())
}

/// A table that must be there.
fn section<'d>(
    fields: &mut Fields<'d>,
    key: &'static str,
    holds: &str,
) -> Result<Fields<'d>, ConfigError> {
    let at = fields.span();
    let missing = || ConfigError::new(at, format!("the table `[{key}]` is missing: {holds}"));
    let (table, span) = fields.table(key)?.ok_or_else(missing)?;
    Ok(Fields::new(table, key, span))
}

fn optimizer(
    fields: &mut Fields<'_>,
    steps: u64,
    folder: &Path,
) -> Result<(OptimizerConfig, Settings), ConfigError> {
    let mut fields = section(fields, "optimizer", "`name` and `rate`")?;
    let rate = fields.required("rate", &NOT_NEGATIVE)?.value;
    let shape = fields.or("schedule", &SHAPE, Shape::Constant)?;
    let warm_up = fields.optional("warm_up", &NATURAL)?;
    let last = fields.optional("last_rate", &NOT_NEGATIVE)?;
    if let (Some(last), Shape::Constant) = (&last, shape) {
        let message = "`optimizer.last_rate` needs a `schedule` that is `linear` or `cosine`";
        return Err(ConfigError::new(last.span, message));
    }
    if let Some(warm_up) = warm_up.as_ref().filter(|warm_up| warm_up.value > steps) {
        let message = format!(
            "`optimizer.warm_up` has {} steps, and the run has {steps} (`steps`)",
            warm_up.value
        );
        return Err(ConfigError::new(warm_up.span, message));
    }
    let schedule = Schedule {
        shape,
        rate,
        last: last.map_or(0.0, |last| last.value),
        warm_up: warm_up.map_or(0, |warm_up| warm_up.value),
        steps,
    };
    let config = OptimizerConfig {
        name: fields.required("name", &TEXT)?,
        file: fields.optional("file", &TEXT)?.map(|path| located(path, folder)),
        schedule,
        clip: fields.optional("clip_norm", &POSITIVE)?.map(|clip| clip.value),
        parameters: fields.entries("parameters", &NUMBER)?,
    };
    Ok((config, fields.finish()?))
}

/// None without the table.
fn memory(
    fields: &mut Fields<'_>,
    backend: Device,
) -> Result<(Option<MemoryConfig>, Settings), ConfigError> {
    let Some((table, span)) = fields.table("memory")? else { return Ok((None, Settings::new())) };
    if backend == Device::Interp {
        let message =
            "the interpreter plans no memory: the table `[memory]` needs `backend = \"cpu\"`";
        return Err(ConfigError::new(span, message));
    }
    let mut fields = Fields::new(table, "memory", span);
    let budget = fields.required("budget", &BYTES)?;
    let dims = fields.entries("dims", &NATURAL)?.into_iter();
    let dims = dims.map(|(dim, value)| (name(dim), i64::try_from(value.value).unwrap_or(i64::MAX)));
    let config = MemoryConfig { budget, dims: dims.collect() };
    Ok((Some(config), fields.finish()?))
}

fn data(fields: &mut Fields<'_>, folder: &Path) -> Result<(DataConfig, Settings), ConfigError> {
    let mut fields = section(fields, "data", "`files`")?;
    let config = DataConfig {
        files: fields.required("files", &TEXTS)?,
        folder: folder.to_owned(),
        batch: cut(&mut fields, "batch", "batch_size")?,
        length: cut(&mut fields, "length", "length_size")?,
        shuffles: fields.or("shuffle", &FLAG, true)?,
    };
    Ok((config, fields.finish()?))
}

/// The variable and the sizes stand together.
fn cut(
    fields: &mut Fields<'_>,
    dim: &'static str,
    sizes: &'static str,
) -> Result<Option<Cut>, ConfigError> {
    let alone = |span, has: &str, lacks: &str| {
        Err(ConfigError::new(span, format!("`data.{has}` needs `data.{lacks}` beside it")))
    };
    match (fields.optional(dim, &TEXT)?, fields.optional(sizes, &COUNTS)?) {
        (Some(dim), Some(sizes)) => Ok(Some(Cut { dim: name(dim), sizes: sizes.value })),
        (None, None) => Ok(None),
        (Some(found), None) => alone(found.span, dim, sizes),
        (None, Some(found)) => alone(found.span, sizes, dim),
    }
}

fn checkpoint(
    fields: &mut Fields<'_>,
    steps: u64,
    folder: &Path,
) -> Result<(CheckpointConfig, Settings), ConfigError> {
    let mut fields = section(fields, "checkpoint", "`folder`")?;
    let config = CheckpointConfig {
        folder: folder.join(fields.required("folder", &TEXT)?.value),
        every: fields.or("every", &COUNT, steps)?,
        keep: fields.or("keep", &COUNT, 2)?,
    };
    Ok((config, fields.finish()?))
}
