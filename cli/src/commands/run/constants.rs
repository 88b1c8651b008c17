//! External constants and parameters from a safetensors file, held against the program before it
//! runs: everything that is missing or wrong is told at once.

use crate::exit::Failure;
use crate::files::Weights;
use relax_corpus::externals::externals;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Function, Module};
use std::collections::BTreeMap;
use std::path::Path;

/// What the file gives to a run.
#[derive(Default)]
pub(super) struct Constants {
    /// The values of `param(…)`.
    pub(super) externals: BTreeMap<Name, Tensor>,
    /// Tensors that have the name of a parameter of the entry function.
    pub(super) parameters: BTreeMap<Name, Tensor>,
}

/// Reads what the program asks for.
pub(super) fn load(
    module: &Module,
    function: &Function,
    path: Option<&Path>,
) -> Result<Constants, Failure> {
    let wanted = externals(module);
    let Some(path) = path else {
        return if wanted.is_empty() { Ok(Constants::default()) } else { Err(no_file(&wanted)) };
    };
    let weights = Weights::open(path)?;
    let entries = weights.entries()?;
    let mut problems = Vec::new();
    for (name, annotations) in &wanted {
        for annotation in annotations {
            match entries.get(name.as_str()) {
                None => problems.push(format!("`{name}` is missing; expected {annotation}")),
                Some(entry) => {
                    let found = describe(entry.dtype, &entry.shape);
                    if !fits(annotation, entry.dtype, &entry.shape) {
                        problems.push(format!("`{name}`: expected {annotation}, found {found}"));
                    }
                }
            }
        }
    }
    if !problems.is_empty() {
        return Err(listed(path, &problems));
    }
    let names: Vec<String> = wanted.keys().map(ToString::to_string).collect();
    let tensors = weights.tensors(&names)?;
    let externals = wanted.into_keys().zip(tensors).collect();
    Ok(Constants { externals, parameters: parameters(function, &weights, entries.keys())? })
}

fn no_file(wanted: &BTreeMap<Name, Vec<Annotation>>) -> Failure {
    let lines = wanted.iter().flat_map(|(name, annotations)| {
        annotations.iter().map(move |annotation| format!("\n  `{name}`: {annotation}"))
    });
    let lines: String = lines.collect();
    Failure::usage(format!("the program has external constants; give their file with --params:{lines}"))
}

fn listed(path: &Path, problems: &[String]) -> Failure {
    Failure::usage(format!(
        "{} does not have what the program asks for:\n  {}",
        path.display(),
        problems.join("\n  ")
    ))
}

/// The tensors whose name is that of a parameter, characters that no identifier has read as `_`.
fn parameters<'e>(
    function: &Function,
    weights: &Weights,
    names: impl Iterator<Item = &'e String>,
) -> Result<BTreeMap<Name, Tensor>, Failure> {
    let params: Vec<&Name> =
        function.lambda.params.iter().map(|&id| &function.var(id).name).collect();
    let mut found: BTreeMap<Name, Vec<String>> = BTreeMap::new();
    for stored in names {
        let name = as_identifier(stored);
        if let Some(param) = params.iter().find(|param| ***param == name) {
            found.entry((*param).clone()).or_default().push(stored.clone());
        }
    }
    if let Some((param, stored)) = found.iter().find(|(_, stored)| stored.len() > 1) {
        return Err(Failure::usage(format!(
            "the parameter `{param}` could be any of the tensors `{}`",
            stored.join("`, `")
        )));
    }
    let stored: Vec<String> = found.values().flatten().cloned().collect();
    let tensors = weights.tensors(&stored)?;
    Ok(found.into_keys().zip(tensors).collect())
}

fn as_identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

fn fits(
    annotation: &Annotation,
    dtype: Option<relax_syntax::dtype::DType>,
    shape: &[usize],
) -> bool {
    let Some(tensor) = annotation.as_tensor() else { return false };
    let dims = tensor.extents.dims().unwrap_or_default();
    let same = |(dim, &extent): (&relax_syntax::dim::Dim, &usize)| {
        dim.as_int().and_then(|dim| usize::try_from(dim).ok()) == Some(extent)
    };
    tensor.dtype == dtype && dims.len() == shape.len() && dims.iter().zip(shape).all(same)
}

fn describe(dtype: Option<relax_syntax::dtype::DType>, shape: &[usize]) -> String {
    let dtype = dtype.map_or("a dtype that is none of the language".to_owned(), |d| d.to_string());
    format!("{dtype} {shape:?}")
}
