//! Training by a configuration, as of the subcommand `train`.

use crate::compiling::{Origin, failed, file_error, given, refusal, source_of, toolchain};
use crate::errors::{Class, Failure};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relax_driver::{KernelCheck, Target};
use relax_program::frontend::Program;
use relax_program::tensor_files::read_file;
use relax_rewrite::pass::Device;
use relax_runtime::Limits;
use relax_syntax::parse::limits::FILE_BYTES;
use relax_syntax::span::Source;
use relax_train::{
    Config, Ended, Environment, Session, Step, TrainError, last_checkpoint, refuse_checkpoints,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// How a run begins and what it may use.
#[derive(FromPyObject)]
pub(crate) struct Run {
    /// The C compiler; none where there is none.
    #[pyo3(item)]
    compiler: Option<String>,
    #[pyo3(item)]
    resume: bool,
    /// The checkpoint to go on with; none for the last one.
    #[pyo3(item)]
    checkpoint: Option<PathBuf>,
    #[pyo3(item)]
    max_memory: Option<u64>,
}

/// Steps, the checkpoint, the first and the last loss, and whether it was interrupted.
type Trained = (u64, Option<PathBuf>, Option<(f64, f64)>, bool);

/// Takes the steps of a configuration. `watch` is called with a dictionary of each step, without the GIL held between.
#[pyfunction]
pub(crate) fn train(
    py: Python<'_>,
    config: PathBuf,
    run: Run,
    watch: Option<Py<PyAny>>,
) -> PyResult<Trained> {
    let mut raised = None;
    let ended = py.detach(|| {
        trained(&config, &run, &mut |step| match told(step, watch.as_ref()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    let Ended { steps, checkpoint, losses, interrupted } =
        ended.map_err(|failure| failure.raised(py))?;
    Ok((steps, checkpoint, losses, interrupted))
}

/// An exception of the watcher, or Ctrl-C, ends the run after its step.
fn told(step: &Step, watch: Option<&Py<PyAny>>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        let Some(watch) = watch else { return Ok(()) };
        let facts = PyDict::new(py);
        facts.set_item("step", step.step)?;
        facts.set_item("epoch", step.epoch)?;
        facts.set_item("loss", step.loss)?;
        facts.set_item("gradient_norm", step.gradient_norm)?;
        facts.set_item("rate", step.rate)?;
        facts.set_item("seconds", step.time.as_secs_f64())?;
        let dims = PyDict::new(py);
        for (name, value) in &step.dims {
            dims.set_item(name.to_string(), value)?;
        }
        facts.set_item("dims", dims)?;
        facts.set_item("loss_scale", step.loss_scale)?;
        facts.set_item("skipped", step.skipped.as_deref())?;
        watch.call1(py, (facts,)).map(|_| ())
    })
}

fn trained(
    path: &Path,
    run: &Run,
    watch: &mut dyn FnMut(&Step) -> ControlFlow<()>,
) -> Result<Ended, Failure> {
    let name = path.display().to_string();
    let bytes = read_file(path, FILE_BYTES as u64)
        .map_err(|error| file_error(error.at(&format!("cannot read {name}"))))?;
    let source = source_of(&name, &bytes)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let config = Config::parse(&source, folder)
        .map_err(|error| Failure::at(&source, error.span, error.message, error.help))?;
    let (program, _) = given(&Origin::of_file(config.program.value.clone()))?;
    session(config, &program, run, watch).map_err(|error| failure(error, &source, &program))?
}

/// The outer error is one of training, the inner one of the tools.
fn session(
    config: Config,
    program: &Program,
    run: &Run,
    watch: &mut dyn FnMut(&Step) -> ControlFlow<()>,
) -> Result<Result<Ended, Failure>, TrainError> {
    let from = match (run.resume, &run.checkpoint) {
        (true, Some(path)) => Some(path.clone()),
        (true, None) => Some(last_checkpoint(&config)?),
        (false, _) => refuse_checkpoints(&config).map(|()| None)?,
    };
    let mut target = Target::of(config.backend, config.numerics);
    if config.backend == Device::Cpu {
        match toolchain(run.compiler.as_deref(), KernelCheck::default()) {
            Ok(toolchain) => target = target.by(toolchain),
            Err(failure) => return Ok(Err(failure)),
        }
    }
    let max_bytes = run.max_memory.unwrap_or(Limits::default().bytes as u64);
    let mut session = Session::new(config, program, &Environment { target, max_bytes })?;
    if let Some(path) = from {
        session.resume(&path)?;
    }
    session.run(watch).map(Ok)
}

fn failure(error: TrainError, config: &Source, program: &Program) -> Failure {
    match error {
        TrainError::Config(error) => Failure::at(config, error.span, error.message, error.help),
        TrainError::Input(why) => Failure::argument(why),
        TrainError::File(error) => file_error(error),
        TrainError::Optimizer(program) => Failure::program(&program.source, &program.diagnostics),
        TrainError::Program(diagnostic) => Failure::program(&program.source, &[*diagnostic]),
        TrainError::Gradient(error) => failed(program, *error),
        TrainError::Compile { program, error } => refusal(&program, error),
        TrainError::Stopped { text, stop, .. } => Failure::stop(&text, &stop),
        TrainError::NotFinite { .. } => Failure::new(Class::Trap, error),
    }
}
