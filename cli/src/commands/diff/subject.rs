//! What `relax diff` compares: a text, a model, or what a module file was built from.
//!
//! A module file has the text that it was built from, and digests of the weights that were built in. The weights
//! themselves were folded and packed, so whoever compares gives them again; others than those of the build are refused.

use super::routes::Integers;
use crate::args::{Backend, DiffArgs};
use crate::commands::constants::{load_externals, of_parameters, open};
use crate::commands::import;
use crate::commands::load;
use crate::commands::run::{loaded, registered, signatures};
use crate::exit::Failure;
use crate::files::{is_module, shown_name};
use crate::terminal::Terminal;
use relax_build::Digest;
use relax_program::externals::{as_identifier, constants, externals};
use relax_program::frontend::{Program, parameters};
use relax_program::tensor_files::Weights;
use relax_rewrite::passes::bind_params::entry;
use relax_runtime::{self as machine, Limits};
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module};
use relax_syntax::span::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The program that the interpreter runs, and what is known of its values.
pub(super) struct Subject {
    pub(super) program: Program,
    /// Values of `param(…)`; all others are random.
    pub(super) externals: BTreeMap<Name, Tensor>,
    /// Values of parameters.
    pub(super) known: Known,
    /// The module file, where one is compared, and the signatures of its functions.
    pub(super) file: Option<(machine::Module, Module)>,
    pub(super) inputs: Integers,
}

/// Parameters of one function that have the values of a file.
#[derive(Default)]
pub(super) struct Known {
    function: Option<Name>,
    pub(super) values: BTreeMap<Name, Tensor>,
    /// Those that are constants of the module file, and are not passed to it.
    built_in: BTreeSet<Name>,
}

impl Known {
    /// The value of a parameter of a function.
    pub(super) fn of(&self, function: &Name, param: &Name) -> Option<&Tensor> {
        self.values.get(param).filter(|_| self.function.as_ref() == Some(function))
    }

    /// Whether a parameter of a function is passed to the compiled program.
    pub(super) fn is_passed(&self, function: &Name, param: &Name) -> bool {
        self.function.as_ref() != Some(function) || !self.built_in.contains(param)
    }
}

/// Loads the file; what is wrong with it was shown where there is none.
pub(super) fn subject(
    args: &DiffArgs,
    terminal: &mut Terminal,
) -> Result<Option<Subject>, Failure> {
    if is_module(&args.file)? {
        refuse_for_module(args)?;
        return of_module(args).map(Some);
    }
    if import::is_model(&args.file) {
        if args.params.is_some() {
            return Err(Failure::usage(
                "a model has its constants itself: --params is for programs",
            ));
        }
        let model = import::for_build(&args.file, terminal)?;
        return Ok(model.map(|import::Loaded { program, externals, .. }| Subject {
            program,
            externals,
            known: Known::default(),
            file: None,
            inputs: Integers::OftenIndices,
        }));
    }
    let Some(program) = load(&args.file, terminal)? else { return Ok(None) };
    let Some(weights) = open(args.params.as_deref())? else {
        let (externals, known) = (BTreeMap::new(), Known::default());
        return Ok(Some(Subject {
            program,
            externals,
            known,
            file: None,
            inputs: Integers::Signed,
        }));
    };
    let externals = constants(&program.module, &weights).map_err(Failure::usage)?;
    let function = args
        .entry
        .as_deref()
        .map_or_else(|| entry(&program.module), |name| program.module.function(name));
    let known = free(function, args.params.as_deref())?;
    Ok(Some(Subject { program, externals, known, file: None, inputs: Integers::Signed }))
}

/// Parameters of a function that are passed, with values of the file.
fn free(function: Option<&Function>, params: Option<&Path>) -> Result<Known, Failure> {
    let Some(function) = function else { return Ok(Known::default()) };
    let values = of_parameters(function, params, u64::MAX)?;
    Ok(Known { function: Some(function.name.clone()), values, built_in: BTreeSet::new() })
}

fn refuse_for_module(args: &DiffArgs) -> Result<(), Failure> {
    if matches!(args.backend, Some(Backend::Cuda | Backend::Wgpu)) {
        return Err(Failure::missing("a module file has code for the processor; give the program"));
    }
    if args.against.is_some() {
        return Err(Failure::usage(
            "a module file is compared with the source in it: --against is for programs",
        ));
    }
    args.numerics.refuse(
        "is an option of `relax build`: a module file has the numerics that it was built with",
    )
}

fn of_module(args: &DiffArgs) -> Result<Subject, Failure> {
    let name = shown_name(&args.file);
    let refused = |why: &str| Failure::usage(format!("{name}: {why}"));
    let module = loaded(machine::Module::open(&args.file, Limits::default()), &name)?;
    let module = registered(module)?;
    let offered = signatures(&module, &name)?;
    let metadata = module.metadata();
    if module.source().is_empty() {
        return Err(refused("there is no source in it, so there is nothing to compare with"));
    }
    let program = Program::load(Source::new(metadata.source_name.as_str(), module.source()));
    if program.has_errors() {
        return Err(refused("the source in it is no program of this version of relax"));
    }
    let weights = open(args.params.as_deref())?;
    let built_in = built_in(&name, &metadata.weights, weights.as_ref())?;
    let wanted = externals(&program.module);
    if wanted.keys().any(|name| !built_in.contains_key(name)) {
        load_externals(&program.module, None)?;
    }
    let mut known = free(entry(&program.module), args.params.as_deref())?;
    known.built_in = left_out(&program.module, &offered, &built_in)
        .ok_or_else(|| refused("its functions are not those of the source in it"))?;
    let externals = built_in.into_iter().filter(|(name, _)| wanted.contains_key(name)).collect();
    let file = Some((module, offered));
    Ok(Subject { program, externals, known, file, inputs: Integers::OftenIndices })
}

/// The weights that a module was built with, out of the file that is given again.
fn built_in(
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
            "{name}: weights were built in, and the interpreter needs them: give their file with --params (`relax \
             import --params FILE` writes those of a model): {}",
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
    let mut others = Vec::new();
    for ((stored, digest), tensor) in recorded.iter().zip(&tensors) {
        if Digest::of_tensor(tensor).map_err(Failure::usage)?.bytes() != *digest {
            others.push(stored.clone());
        }
    }
    if !others.is_empty() {
        return Err(Failure::usage(format!(
            "{path} has other weights than {name} was built with: {}",
            listed(&others)
        )));
    }
    Ok(names.into_iter().map(Name::new).zip(tensors).collect())
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        shown.push(format!("{} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

/// Parameters of the entry function that the module does not take, as they were built in. `None` where a
/// signature differs in anything else.
fn left_out(
    source: &Module,
    offered: &Module,
    built_in: &BTreeMap<Name, Tensor>,
) -> Option<BTreeSet<Name>> {
    let names = |module: &Module, function: &Name| -> Option<Vec<Name>> {
        Some(parameters(module, function)?.into_iter().map(|(name, _)| name).collect())
    };
    let entered = entry(source).map(|entry| &entry.name);
    let bound: BTreeSet<String> = built_in.keys().map(|name| as_identifier(name)).collect();
    let mut left_out = BTreeSet::new();
    for function in offered.functions() {
        let (mut all, taken) = (names(source, &function.name)?, names(offered, &function.name)?);
        if entered == Some(&function.name) {
            let is_left_out = |name: &Name| bound.contains(name.as_str()) && !taken.contains(name);
            left_out.extend(all.iter().filter(|name| is_left_out(name)).cloned());
            all.retain(|name| !is_left_out(name));
        }
        if all != taken {
            return None;
        }
    }
    Some(left_out)
}
