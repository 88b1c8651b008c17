//! The loop: steps, metrics and checkpoints until the last step, an error, or a request to stop.

use crate::checkpoint::checkpoints;
use crate::config::Config;
use crate::error::TrainError;
use crate::session::{Session, Step};
use relax_driver::whole_file::write_to;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Steps that were taken, those of earlier runs included.
    pub steps: u64,
    /// The checkpoint after the last of them; none where there was nothing to do.
    pub checkpoint: Option<PathBuf>,
    /// Of the first and the last step of this run.
    pub losses: Option<(f64, f64)>,
    /// Whether it was asked to stop before the last step.
    pub interrupted: bool,
}

impl Step {
    /// The step for tools, as the metrics file has it.
    #[must_use]
    pub fn object(&self) -> Value {
        let dims: serde_json::Map<String, Value> =
            self.dims.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        let mut object = json!({
            "step": self.step,
            "epoch": self.epoch,
            "loss": self.loss,
            "gradient_norm": self.gradient_norm,
            "rate": self.rate,
            "seconds": self.time.as_secs_f64(),
            "dims": dims,
        });
        if let Some(scale) = self.loss_scale {
            object["loss_scale"] = json!(scale);
        }
        if let Some(why) = &self.skipped {
            object["skipped"] = json!(why);
        }
        object
    }
}

impl Session {
    /// Takes all steps that are left. `watch` sees each one, and may ask for an end after it.
    ///
    /// # Errors
    /// As of [`Session::step`]; what cannot be written. The last checkpoint stays.
    pub fn run(
        &mut self,
        watch: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<Ended, TrainError> {
        let config = self.config.clone();
        let mut metrics = Metrics::open(&config, self.steps())?;
        let (mut checkpoint, mut losses, mut interrupted) = (None, None, false);
        while self.steps() < config.steps && !interrupted {
            let step = self.step()?;
            metrics.add(&step)?;
            losses = Some((losses.map_or(step.loss, |(first, _)| first), step.loss));
            interrupted = watch(&step).is_break() && step.step < config.steps;
            let is_last = step.step == config.steps || interrupted;
            if is_last || step.step % config.checkpoint.every == 0 {
                checkpoint = Some(self.save()?);
            }
        }
        Ok(Ended { steps: self.steps(), checkpoint, losses, interrupted })
    }
}

/// The file of metrics.
struct Metrics {
    open: Option<(PathBuf, File)>,
}

impl Metrics {
    /// A new file; of a run that was resumed, the lines of the steps before stay.
    fn open(config: &Config, taken: u64) -> Result<Self, TrainError> {
        let Some(path) = &config.metrics else { return Ok(Self { open: None }) };
        let failed = |error: std::io::Error| cannot_write(path, &error);
        let kept =
            if taken == 0 { String::new() } else { lines_until(path, taken).map_err(failed)? };
        write_to(path, &mut |to| to.write_all(kept.as_bytes()), File::sync_all).map_err(failed)?;
        let file = File::options().append(true).open(path).map_err(failed)?;
        Ok(Self { open: Some((path.clone(), file)) })
    }

    fn add(&mut self, step: &Step) -> Result<(), TrainError> {
        let Some((path, file)) = &mut self.open else { return Ok(()) };
        let written = file.write_all(format!("{}\n", step.object()).as_bytes());
        written.map_err(|error| cannot_write(path, &error))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> TrainError {
    TrainError::Input(format!("cannot write {}: {error}", path.display()))
}

/// The whole lines of steps up to one.
fn lines_until(path: &Path, last: u64) -> std::io::Result<String> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        text => text?,
    };
    let is_before = |line: &&str| {
        let object: Option<Value> = serde_json::from_str(line).ok();
        let step = object.and_then(|object| object["step"].as_u64());
        step.is_some_and(|step| step <= last)
    };
    Ok(text.lines().filter(is_before).map(|line| format!("{line}\n")).collect())
}

/// The last checkpoint in the folder of a configuration.
///
/// # Errors
/// A folder that has none, or cannot be read.
pub fn last_checkpoint(config: &Config) -> Result<PathBuf, TrainError> {
    let last = found(config)?.into_values().next_back();
    last.ok_or_else(|| {
        let folder = config.checkpoint.folder.display();
        TrainError::Input(format!("there is no checkpoint in {folder}"))
    })
}

/// Whether a run may begin: its checkpoints must not get among those of another one.
///
/// # Errors
/// A folder that has checkpoints, or cannot be read.
pub fn refuse_checkpoints(config: &Config) -> Result<(), TrainError> {
    let Some((step, _)) = found(config)?.into_iter().next_back() else { return Ok(()) };
    let folder = config.checkpoint.folder.display();
    Err(TrainError::Input(format!(
        "{folder} has a checkpoint of step {step}: go on with --resume, or give `checkpoint.folder` another name"
    )))
}

fn found(config: &Config) -> Result<BTreeMap<u64, PathBuf>, TrainError> {
    let folder = &config.checkpoint.folder;
    checkpoints(folder)
        .map_err(|error| TrainError::Input(format!("cannot read {}: {error}", folder.display())))
}
