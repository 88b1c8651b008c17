//! External constants and parameters from a tensor file, compared with the program before it
//! runs or is transformed: everything that is missing or wrong is told at once.

use crate::exit::Failure;
use relax_program::externals::{as_identifier, constants, externals};
use relax_program::tensor_files::{Entry, Weights};
use relax_rewrite::passes::bind_params::entry;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_sharding::run::Stored;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Function, Module};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What the file gives to a run.
#[derive(Default)]
pub(super) struct Constants {
    /// The values of `param(…)`.
    pub(super) externals: BTreeMap<Name, Tensor>,
    /// Tensors that have the name of a parameter of the entry function.
    pub(super) parameters: BTreeMap<Name, Tensor>,
    /// The same of a run of ranks, where each reads its part.
    pub(super) stored: BTreeMap<Name, StoredParameter>,
}

/// A parameter of the entry function in a file.
pub(super) struct StoredParameter {
    weights: Arc<Weights>,
    name: String,
    /// What the file says of it.
    pub(super) entry: Entry,
}

impl Stored for StoredParameter {
    fn shape(&self) -> &[usize] {
        &self.entry.shape
    }

    fn description(&self) -> String {
        let Entry { stored, shape, .. } = &self.entry;
        format!("`{}` of a file, {stored} {shape:?}", self.name)
    }

    fn part(&self, part: &[Range<usize>]) -> Result<Tensor, Stop> {
        self.weights.part(&self.name, part).map_err(Stop::Unsupported)
    }
}

/// As [`load`], but parameters stay in the file where it has parts.
pub(super) fn load_for_ranks(
    module: &Module,
    function: &Function,
    path: Option<&Path>,
    limit: u64,
) -> Result<Constants, Failure> {
    let Some(weights) = open_within(path, limit)?.filter(Weights::has_parts) else {
        return load(module, function, path, limit);
    };
    let externals = constants(module, &weights).map_err(Failure::usage)?;
    let mut entries = weights.entries().map_err(Failure::usage)?;
    let found = stored(function, entries.keys())?;
    let weights = Arc::new(weights);
    let of_file = |(param, name): (Name, String)| {
        let entry = entries.remove(&name)?;
        Some((param, StoredParameter { weights: Arc::clone(&weights), name, entry }))
    };
    let stored = found.into_iter().filter_map(of_file).collect();
    Ok(Constants { externals, stored, ..Constants::default() })
}

/// Reads what the program asks for.
pub(super) fn load(
    module: &Module,
    function: &Function,
    path: Option<&Path>,
    limit: u64,
) -> Result<Constants, Failure> {
    let weights = open_within(path, limit)?;
    from(module, function, weights.as_ref())
}

/// Opens the file, if there is one.
pub(super) fn open(path: Option<&Path>) -> Result<Option<Weights>, Failure> {
    open_within(path, u64::MAX)
}

/// As [`open`], of a file of so many bytes at most.
pub(super) fn open_within(path: Option<&Path>, limit: u64) -> Result<Option<Weights>, Failure> {
    let opened = path.map(|path| Weights::open_within(path, limit)).transpose();
    opened.map_err(|error| Failure::of_file(&error))
}

/// As [`load`], from a file that is open.
pub(super) fn from(
    module: &Module,
    function: &Function,
    weights: Option<&Weights>,
) -> Result<Constants, Failure> {
    let Some(weights) = weights else {
        let wanted = externals(module);
        return if wanted.is_empty() { Ok(Constants::default()) } else { Err(no_file(&wanted)) };
    };
    let externals = constants(module, weights).map_err(Failure::usage)?;
    let parameters = parameters(function, weights)?;
    Ok(Constants { externals, parameters, ..Constants::default() })
}

/// The tensors that are parameters, of a program whose constants are known.
pub(super) fn of_parameters(
    function: &Function,
    path: Option<&Path>,
    limit: u64,
) -> Result<BTreeMap<Name, Tensor>, Failure> {
    let weights = open_within(path, limit)?;
    weights.map_or_else(|| Ok(BTreeMap::new()), |weights| parameters(function, &weights))
}

/// Says what is missing when a program has external constants and there is no file of them.
pub(super) fn load_externals(module: &Module, path: Option<&Path>) -> Result<(), Failure> {
    let wanted = externals(module);
    if path.is_none() && !wanted.is_empty() { Err(no_file(&wanted)) } else { Ok(()) }
}

fn no_file(wanted: &BTreeMap<Name, Vec<Annotation>>) -> Failure {
    let lines = wanted.iter().flat_map(|(name, annotations)| {
        annotations.iter().map(move |annotation| format!("\n  `{name}`: {annotation}"))
    });
    let lines: String = lines.collect();
    Failure::usage(format!(
        "the program has external constants; give their file with --params:{lines}"
    ))
}

/// The values that passes are given, by the names under which they are stored: those of external
/// constants, and those of parameters of the entry function.
pub(super) fn of_passes(
    module: &Module,
    weights: Option<&Weights>,
) -> Result<BTreeMap<Name, Tensor>, Failure> {
    let Some(weights) = weights else { return Ok(BTreeMap::new()) };
    let mut values = constants(module, weights).map_err(Failure::usage)?;
    let entries = weights.entries().map_err(Failure::usage)?;
    if let Some(function) = entry(module) {
        let stored: Vec<String> = stored(function, entries.keys())?.into_values().collect();
        let tensors = weights.tensors(&stored).map_err(Failure::usage)?;
        values.extend(stored.into_iter().map(Name::new).zip(tensors));
    }
    Ok(values)
}

/// The tensors whose name is that of a parameter.
fn parameters(function: &Function, weights: &Weights) -> Result<BTreeMap<Name, Tensor>, Failure> {
    let entries = weights.entries().map_err(Failure::usage)?;
    let found = stored(function, entries.keys())?;
    let stored: Vec<String> = found.values().cloned().collect();
    let tensors = weights.tensors(&stored).map_err(Failure::usage)?;
    Ok(found.into_keys().zip(tensors).collect())
}

/// For each parameter the name of its tensor, characters that no identifier has read as `_`.
fn stored<'e>(
    function: &Function,
    names: impl Iterator<Item = &'e String>,
) -> Result<BTreeMap<Name, String>, Failure> {
    let params: Vec<&Name> =
        function.lambda.params.iter().map(|&id| &function.var(id).name).collect();
    let mut found = BTreeMap::new();
    for stored in names {
        let name = as_identifier(stored);
        let Some(&param) = params.iter().find(|param| ***param == name) else { continue };
        if let Some(other) = found.insert(param.clone(), stored.clone()) {
            return Err(Failure::usage(format!(
                "the parameter `{param}` could be any of the tensors `{other}`, `{stored}`"
            )));
        }
    }
    Ok(found)
}
