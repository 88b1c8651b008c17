//! Checkpoints: safetensors files with weights, the state of the optimizer, and how far a run is. A file appears whole or not at
//! all, and has digests of all that is in it.

use crate::config::Settings;
use crate::data::Cursor;
use crate::error::TrainError;
use crate::scaling::ScalingState;
use relax_driver::Digest;
use relax_driver::whole_file::write_to;
use relax_program::tensor_files::{Stored, Weights, encode_safetensors_with};
use relax_semantics::tensor::Tensor;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The key of the text beside the tensors.
const KEY: &str = "relax.train";
/// Of the form of that text.
const VERSION: u64 = 1;
/// How many settings that differ are named.
const NAMED: usize = 5;

/// How far a run is.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Steps that were taken.
    pub(crate) step: u64,
    pub(crate) cursor: Cursor,
    /// Of a run in mixed precision.
    pub(crate) scaling: Option<ScalingState>,
    /// What decides the result, with digests of the texts.
    pub(crate) settings: Settings,
    /// Weights and states, by their names in the file.
    pub(crate) tensors: BTreeMap<String, Tensor>,
}

/// The file of a step in a folder.
pub(crate) fn file_of(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("step-{step}.safetensors"))
}

/// The files of checkpoints in a folder, by step; none where there is no folder.
pub fn checkpoints(folder: &Path) -> std::io::Result<BTreeMap<u64, PathBuf>> {
    let mut found = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let digits = name.strip_prefix("step-").and_then(|rest| rest.strip_suffix(".safetensors"));
        let Some(step) = digits.and_then(|digits| digits.parse::<u64>().ok()) else { continue };
        // `step-07` is not ours.
        if file_of(folder, step).file_name().is_some_and(|own| own.to_string_lossy() == name) {
            found.insert(step, file_of(folder, step));
        }
    }
    Ok(found)
}

impl State {
    /// Writes the state into a folder, which is made when it is needed; then older files than the last `keep` go.
    pub(crate) fn write(&self, folder: &Path, keep: u64) -> Result<PathBuf, TrainError> {
        let path = file_of(folder, self.step);
        let failed =
            |why: String| TrainError::Input(format!("cannot write {}: {why}", path.display()));
        let io = |error: std::io::Error| failed(error.to_string());
        let bytes = self.encoded().map_err(failed)?;
        fs::create_dir_all(folder).map_err(io)?;
        write_to(&path, &mut |to| to.write_all(&bytes), fs::File::sync_all).map_err(io)?;
        settle(folder).map_err(io)?;
        let mut older: Vec<PathBuf> = checkpoints(folder)
            .map_err(io)?
            .into_iter()
            .filter_map(|(step, path)| (step <= self.step).then_some(path))
            .collect();
        let kept = usize::try_from(keep).unwrap_or(usize::MAX).min(older.len());
        older.truncate(older.len() - kept);
        older.iter().try_for_each(fs::remove_file).map_err(io)?;
        Ok(path)
    }

    fn encoded(&self) -> Result<Vec<u8>, String> {
        let mut digests = Map::new();
        for (name, tensor) in &self.tensors {
            digests.insert(name.clone(), json!(Digest::of_tensor(tensor)?.to_string()));
        }
        let Cursor { epoch, file, row } = self.cursor;
        let mut text = json!({
            "version": VERSION,
            "step": self.step,
            "cursor": [epoch, file, row],
            "settings": self.settings,
            "tensors": digests,
        });
        if let Some(ScalingState { scale, good, skipped }) = self.scaling {
            // The bits, which every reader of JSON keeps.
            text["scaling"] = json!([scale.to_bits(), good, skipped]);
        }
        let text = text.to_string();
        let sealed = format!("{} {text}", Digest::of(text.as_bytes()));
        let stored: Vec<(&str, Stored)> = self
            .tensors
            .iter()
            .map(|(name, tensor)| (name.as_str(), Stored::Tensor(tensor.clone())))
            .collect();
        encode_safetensors_with(&stored, (KEY, sealed))
    }

    /// Reads a checkpoint of a run with these settings.
    pub(crate) fn read(path: &Path, settings: &Settings, max: u64) -> Result<Self, TrainError> {
        let shown = path.display();
        let wrong = |why: String| TrainError::Input(format!("{shown}: {why}"));
        let damaged =
            || wrong("the checkpoint is damaged: its text does not have its digest".to_owned());
        let file = Weights::open_within(path, max)?;
        let sealed = file.metadata().remove(KEY);
        let sealed =
            sealed.ok_or_else(|| wrong("it is no checkpoint of `relax train`".to_owned()))?;
        let (digest, text) = sealed.split_once(' ').ok_or_else(damaged)?;
        if digest != Digest::of(text.as_bytes()).to_string() {
            return Err(damaged());
        }
        let text: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if text["version"] != json!(VERSION) {
            return Err(wrong("it was written by another version of `relax train`".to_owned()));
        }
        let (Some(step), [Some(epoch), Some(row_file), Some(row)]) =
            (text["step"].as_u64(), [0, 1, 2].map(|at| text["cursor"][at].as_u64()))
        else {
            return Err(damaged());
        };
        let scaling = match &text["scaling"] {
            Value::Null => None,
            state => Some(scaling(state).ok_or_else(damaged)?),
        };
        let found: Settings =
            serde_json::from_value(text["settings"].clone()).map_err(|_| damaged())?;
        if let Some(why) = differences(&found, settings) {
            return Err(wrong(format!("it is a checkpoint of another run: {why}")));
        }
        let names: BTreeMap<String, String> =
            serde_json::from_value(text["tensors"].clone()).map_err(|_| damaged())?;
        let tensors = tensors(&file, names).map_err(wrong)?;
        let cursor = Cursor { epoch, file: row_file, row };
        Ok(Self { step, cursor, scaling, settings: found, tensors })
    }
}

fn scaling(state: &Value) -> Option<ScalingState> {
    let scale = f32::from_bits(u32::try_from(state[0].as_u64()?).ok()?);
    Some(ScalingState { scale, good: state[1].as_u64()?, skipped: state[2].as_u64()? })
}

/// The tensors of a file, compared with their digests.
fn tensors(
    file: &Weights,
    digests: BTreeMap<String, String>,
) -> Result<BTreeMap<String, Tensor>, String> {
    let entries = file.entries()?;
    let mut tensors = BTreeMap::new();
    for (name, digest) in digests {
        if !entries.contains_key(&name) {
            return Err(format!("the checkpoint is damaged: there is no tensor `{name}`"));
        }
        let tensor = file.tensors(std::slice::from_ref(&name))?.remove(0);
        if Digest::of_tensor(&tensor)?.to_string() != digest {
            return Err(format!("the checkpoint is damaged: `{name}` does not have its digest"));
        }
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// Which settings of a checkpoint are others than those of this run.
fn differences(found: &Settings, wanted: &Settings) -> Option<String> {
    let keys: std::collections::BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let mut differing: Vec<String> = Vec::new();
    for key in keys {
        let said = |settings: &Settings| settings.get(key).cloned();
        let line = match (said(found), said(wanted)) {
            (there, here) if there == here => continue,
            // Of a text there is a digest only.
            _ if key.ends_with("_text") => format!("`{key}` differs"),
            (Some(there), Some(here)) => format!("`{key}` is {there} there and {here} here"),
            (Some(there), None) => format!("`{key}` is {there} there and not given here"),
            (None, here) => {
                format!("`{key}` is not given there and {} here", here.unwrap_or_default())
            }
        };
        differing.push(line);
    }
    let more = differing.len().saturating_sub(NAMED);
    differing.truncate(NAMED);
    if more > 0 {
        differing.push(format!("{more} more"));
    }
    (!differing.is_empty()).then(|| differing.join("; "))
}

/// What stands for a text in settings.
pub(crate) fn digest_of_text(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}

/// Waits until the disk has the names in a folder.
#[cfg(unix)]
fn settle(folder: &Path) -> std::io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn settle(_folder: &Path) -> std::io::Result<()> {
    Ok(())
}
