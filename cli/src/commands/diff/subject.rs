//! What `relax diff` compares: a text, a model, or what a module file was built from.
//!
//! A module file has the text that it was built from, and digests of the weights that were built in. The weights
//! themselves were folded and packed, so whoever compares gives them again; others than those of the build are refused.

use crate::args::{DiffArgs, ModelArgs};
use crate::commands::constants::{load_externals, of_parameters, open};
use crate::commands::loading::{Given, load, refuse_params, weights_of};
use crate::exit::Failure;
use crate::files::{FileKind, kind_of, shown_name};
use crate::terminal::Terminal;
use relax_driver::differential::{Integers, Known};
use relax_program::externals::{constants, externals};
use relax_program::frontend::Program;
use relax_rewrite::passes::bind_params::entry;
use relax_runtime as machine;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::Function;
use relax_syntax::span::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The program that the interpreter runs, and what is known of its values.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) program: Program,
    /// Values of `param(…)`; all others are random.
    pub(super) externals: BTreeMap<Name, Tensor>,
    /// Values of parameters.
    pub(super) known: Known,
    pub(super) inputs: Integers,
}

/// Loads a text or a model; what is wrong with it was shown where there is none.
pub(super) fn text_subject(
    args: &DiffArgs,
    path: &Path,
    terminal: &mut Terminal,
) -> Result<Option<Subject>, Failure> {
    let is_model = is_model(path)?;
    if is_model {
        refuse_params(args.params.as_deref())?;
    }
    let bounds = bounds_for(args, path)?;
    let Some(Given { program, externals, .. }) = load(path, &bounds, terminal)? else {
        return Ok(None);
    };
    if is_model {
        let (known, inputs) = (Known::default(), Integers::OftenIndices);
        return Ok(Some(Subject { program, externals, known, inputs }));
    }
    let inputs = Integers::Signed;
    let Some(weights) = open(args.params.as_deref())? else {
        return Ok(Some(Subject { program, externals, known: Known::default(), inputs }));
    };
    let externals = constants(&program.module, &weights).map_err(Failure::usage)?;
    let function = args
        .entry
        .as_deref()
        .map_or_else(|| entry(&program.module), |name| program.module.function(name));
    let known = free(function, args.params.as_deref())?;
    Ok(Some(Subject { program, externals, known, inputs }))
}

/// The bounds for a file that is compared: they are for the models among both.
pub(super) fn bounds_for(args: &DiffArgs, path: &Path) -> Result<ModelArgs, Failure> {
    let mut all = std::iter::once(&args.file).chain(&args.against);
    let is_for_other = !is_model(path)? && all.any(|file| is_model(file).unwrap_or(false));
    Ok(if is_for_other { ModelArgs::default() } else { args.model.clone() })
}

fn is_model(path: &Path) -> Result<bool, Failure> {
    Ok(kind_of(path)? == FileKind::Model)
}

/// Parameters of a function that are passed, with values of the file.
fn free(function: Option<&Function>, params: Option<&Path>) -> Result<Known, Failure> {
    let Some(function) = function else { return Ok(Known::default()) };
    let values = of_parameters(function, params, u64::MAX)?;
    Ok(Known { function: Some(function.name.clone()), values, built_in: BTreeSet::new() })
}

/// The source in a module file, with the weights that were built in.
pub(super) fn module_subject(
    args: &DiffArgs,
    path: &Path,
    module: &machine::Module,
) -> Result<Subject, Failure> {
    args.model.refuse()?;
    let name = shown_name(path);
    let refused = |why: &str| Failure::usage(format!("{name}: {why}"));
    let metadata = module.metadata();
    if module.source().is_empty() {
        return Err(refused("there is no source in it, so there is nothing to compare with"));
    }
    let program = Program::load(Source::new(metadata.source_name.as_str(), module.source()));
    if program.has_errors() {
        return Err(refused("the source in it is no program of this version of relax"));
    }
    let weights = open(args.params.as_deref())?;
    let built_in = weights_of(&name, &metadata.weights, weights.as_ref())?;
    let wanted = externals(&program.module);
    if wanted.keys().any(|name| !built_in.contains_key(name)) {
        load_externals(&program.module, None)?;
    }
    let known = free(entry(&program.module), args.params.as_deref())?;
    let externals = built_in.into_iter().filter(|(name, _)| wanted.contains_key(name)).collect();
    Ok(Subject { program, externals, known, inputs: Integers::OftenIndices })
}
