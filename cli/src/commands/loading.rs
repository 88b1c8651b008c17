//! Programs out of files of any kind: a text, an ONNX model, or the source in a module file.

use super::import;
use crate::args::ModelArgs;
use crate::exit::{Exit, Failure};
use crate::files::{FileKind, kind_of, read_program, shown_name};
use crate::report::{Finding, show, show_diagnostics};
use crate::terminal::Terminal;
use relax_driver::Digest;
use relax_program::frontend::Program;
use relax_program::tensor_files::Weights;
use relax_runtime::file::{ModuleFile, Parts};
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::path::Path;

/// A program, and what its file has of its constants.
pub(super) struct Given {
    pub(super) program: Program,
    pub(super) kind: FileKind,
    /// Of a model, by name.
    pub(super) externals: BTreeMap<Name, Tensor>,
    /// Of a module file: digests of the weights that were built in.
    pub(super) built_in: Digests,
}

/// Loads the text of a program and shows what is wrong with it; `None` when it is wrong.
pub(super) fn load_text(path: &Path, terminal: &mut Terminal) -> Result<Option<Program>, Failure> {
    text_for(path, None, terminal)
}

fn text_for(
    path: &Path,
    phase: Option<Phase>,
    terminal: &mut Terminal,
) -> Result<Option<Program>, Failure> {
    let source = match read_program(path)? {
        Ok(source) => source,
        Err(unreadable) => {
            show(terminal, &unreadable.source, &[Finding::from(&unreadable.diagnostic)]);
            return Ok(None);
        }
    };
    Ok(checked(source, phase, terminal))
}

/// A text that is checked; `None` when it is wrong, which is then shown.
pub(super) fn checked(
    source: Source,
    phase: Option<Phase>,
    terminal: &mut Terminal,
) -> Option<Program> {
    let program = Program::load_for(source, phase);
    let exit = show_diagnostics(terminal, &program.source, &program.diagnostics);
    (exit == Exit::Fine).then_some(program)
}

/// Loads a program of any kind; `None` when it is wrong, which is then shown.
pub(super) fn load(
    path: &Path,
    model: &ModelArgs,
    terminal: &mut Terminal,
) -> Result<Option<Given>, Failure> {
    load_for(path, model, None, terminal)
}

/// As [`load`], with the demands of a phase.
pub(super) fn load_for(
    path: &Path,
    model: &ModelArgs,
    phase: Option<Phase>,
    terminal: &mut Terminal,
) -> Result<Option<Given>, Failure> {
    let kind = kind_of(path)?;
    if kind != FileKind::Model {
        model.refuse()?;
    }
    let (mut externals, mut built_in) = (BTreeMap::new(), Vec::new());
    let program = match kind {
        FileKind::Text => text_for(path, phase, terminal)?,
        FileKind::Model => {
            let loaded = import::for_build(path, &model.bounds()?, phase, terminal)?;
            loaded.map(|loaded| {
                externals = loaded.externals;
                loaded.program
            })
        }
        FileKind::Module => {
            let (source, weights) = source_of(path)?;
            built_in = weights;
            checked(source, phase, terminal)
        }
    };
    Ok(program.map(|program| Given { program, kind, externals, built_in }))
}

/// Digests of weights by name.
type Digests = Vec<(String, [u8; 32])>;

/// The source in a module file, and digests of the weights that were built in.
fn source_of(path: &Path) -> Result<(Source, Digests), Failure> {
    let name = shown_name(path);
    let file =
        ModuleFile::open(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let parts = file.parts().map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let Parts { metadata, source, .. } = parts;
    if source.is_empty() {
        return Err(Failure::usage(format!("{name}: there is no source in this module file")));
    }
    Ok((Source::new(metadata.source_name.as_str(), source), metadata.weights))
}

/// Refuses `--params` for a model.
pub(super) fn refuse_params(params: Option<&Path>) -> Result<(), Failure> {
    match params {
        None => Ok(()),
        Some(_) => {
            Err(Failure::usage("a model has its constants itself: --params is for programs"))
        }
    }
}

/// The weights that a module file was built with, out of the file that is given again.
pub(super) fn weights_of(
    name: &str,
    recorded: &[(String, [u8; 32])],
    weights: Option<&Weights>,
) -> Result<BTreeMap<Name, Tensor>, Failure> {
    let names: Vec<String> = recorded.iter().map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Some(weights) = weights else {
        return Err(Failure::usage(format!(
            "{name}: weights were built in and are needed again: give their file with --params (`relax import --params \
             FILE` writes those of a model): {}",
            listed(&names)
        )));
    };
    let path = weights.path().display();
    let entries = weights.entries().map_err(Failure::usage)?;
    let missing: Vec<String> =
        names.iter().filter(|name| !entries.contains_key(*name)).cloned().collect();
    if !missing.is_empty() {
        return Err(Failure::usage(format!(
            "{path} does not have weights that {name} was built with: {}",
            listed(&missing)
        )));
    }
    let tensors = weights.tensors(&names).map_err(Failure::usage)?;
    let values: BTreeMap<Name, Tensor> = names.into_iter().map(Name::new).zip(tensors).collect();
    let others = others(recorded, &values)?;
    if !others.is_empty() {
        return Err(Failure::usage(format!(
            "{path} has other weights than {name} was built with: {}",
            listed(&others)
        )));
    }
    Ok(values)
}

/// Which of the weights that were built in have another value here.
pub(super) fn others(
    recorded: &[(String, [u8; 32])],
    values: &BTreeMap<Name, Tensor>,
) -> Result<Vec<String>, Failure> {
    let mut others = Vec::new();
    for (name, digest) in recorded {
        let Some(value) = values.get(name.as_str()) else { continue };
        if Digest::of_tensor(value).map_err(Failure::usage)?.bytes() != *digest {
            others.push(name.clone());
        }
    }
    Ok(others)
}

/// The first names of a list.
pub(super) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        shown.push(format!("{} more", names.len() - SHOWN));
    }
    shown.join(", ")
}
