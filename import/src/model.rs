//! A whole model: its bytes, what is asked of the import, and what comes of it.

use crate::aten;
use crate::builder::{Builder, V};
use crate::graph::Importer;
use crate::proto;
use crate::reason::ImportError;
use crate::render;
use crate::stablehlo;
use crate::weight::Weight;
use prost::Message;
use prost::bytes::Bytes;
use relax_semantics::tensor::Tensor;
use relax_syntax::annotation::Annotation;
use relax_syntax::format::format_source;
use relax_syntax::span::Source;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Operator sets that are read: what is imported did not change its meaning since the first, or says how.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=24;

/// What is asked of an import.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the function.
    pub entry: String,
    /// Other names, or numbers, for dims of the model.
    pub dims: BTreeMap<String, String>,
    /// Values of inputs, which are then constants of the program.
    pub bind: BTreeMap<String, Tensor>,
    /// Least and greatest values of dims, by their names in the model or in the program.
    pub bounds: BTreeMap<String, Bound>,
    /// Types of inputs of which the model does not say enough.
    pub types: BTreeMap<String, Given>,
    /// Where the model lies, for tensors in files of their own.
    pub folder: Option<PathBuf>,
    /// Bytes that tensors in files of their own may take, all of them together.
    pub max_bytes: u64,
}

/// The least and the greatest value of a dim, as far as they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// At least 0.
    pub lower: Option<i64>,
    /// At least the lower one.
    pub upper: Option<i64>,
}

/// What is said of the type of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// An optional that holds nothing.
    Nothing,
    /// A tensor, or a tuple of them, which is a list of known length.
    Type(Annotation),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            entry: "main".to_owned(),
            dims: BTreeMap::new(),
            bind: BTreeMap::new(),
            bounds: BTreeMap::new(),
            types: BTreeMap::new(),
            folder: None,
            max_bytes: u64::MAX,
        }
    }
}

/// A program out of a model.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Formatted, with comments.
    pub text: String,
    /// The tensors of `param("…")`.
    pub params: Vec<(String, Weight)>,
    /// The parameters, as the model names them, in order.
    pub inputs: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// The program that a model is: ONNX, a description of ATen operators, or StableHLO text.
///
/// # Errors
/// See [`ImportError`].
pub fn import_model(bytes: Bytes, options: &Options) -> Result<Imported, ImportError> {
    if aten::is_description(&bytes) {
        return aten::import(&bytes, options);
    }
    if stablehlo::is_stablehlo(&bytes) {
        return stablehlo::import(&bytes, options);
    }
    let model = decoded(bytes)?;
    let opset = opset(&model)?;
    let graph = model.graph.as_ref().ok_or_else(|| malformed("the model has no graph"))?;
    let left = Cell::new(options.max_bytes);
    let mut importer = Importer::new(&model, options, &left, opset);
    let (inputs, outputs) = importer.main(graph)?;
    importer.refuse_unknown_bounds()?;
    let results: Vec<String> =
        graph.output.iter().map(|output| output.name.clone().unwrap_or_default()).collect();
    written(importer.builder, options, (&inputs, &outputs), &results, importer.notes)
}

/// The text of a program that is built, with notes before it.
pub(crate) fn written(
    mut builder: Builder,
    options: &Options,
    (inputs, outputs): (&[V], &[V]),
    results: &[String],
    notes: Vec<String>,
) -> Result<Imported, ImportError> {
    let names = inputs.iter().map(|&v| builder.info(v).hint.clone().unwrap_or_default()).collect();
    let rendered = render::function(&mut builder, &options.entry, (inputs, outputs), results);
    let mut text = String::new();
    for note in &notes {
        text += &format!("# {note}\n");
    }
    text += &rendered.text;
    let text = format_source(&Source::new("imported", text.as_str())).map_err(|diagnostics| {
        let first = diagnostics.first().map_or_else(String::new, |d| d.message.clone());
        malformed(format!("the program could not be written: {first}"))
    })?;
    Ok(Imported { text, params: rendered.externals, inputs: names, notes })
}

/// The names of the inputs of a model, in order, those that have a default left out.
///
/// # Errors
/// When it is damaged.
pub fn input_names(bytes: Bytes) -> Result<Vec<String>, ImportError> {
    if aten::is_description(&bytes) {
        return aten::input_names(&bytes);
    }
    if stablehlo::is_stablehlo(&bytes) {
        return stablehlo::input_names(&bytes);
    }
    let graph = decoded(bytes)?.graph.unwrap_or_default();
    let own =
        |name: &String| graph.initializer.iter().all(|tensor| tensor.name.as_ref() != Some(name));
    Ok(graph.input.iter().filter_map(|input| input.name.clone()).filter(own).collect())
}

/// What a model is made of, as far as its file says.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The version of the operators of ONNX itself.
    pub opset: Option<i64>,
    /// Other domains.
    pub domains: Vec<String>,
    /// The operators of its graph, by name.
    pub operators: Vec<String>,
}

/// What a model is made of, whether it can be imported or not.
///
/// # Errors
/// When it is damaged.
pub fn summary(bytes: Bytes) -> Result<Summary, ImportError> {
    let model = decoded(bytes)?;
    let mut summary = Summary::default();
    for set in &model.opset_import {
        match set.domain.as_deref() {
            None | Some("" | "ai.onnx") => summary.opset = set.version,
            Some(domain) => summary.domains.push(domain.to_owned()),
        }
    }
    let nodes = model.graph.unwrap_or_default().node;
    summary.operators = nodes.into_iter().filter_map(|node| node.op_type).collect();
    summary.operators.sort_unstable();
    summary.operators.dedup();
    Ok(summary)
}

pub(crate) fn decoded(bytes: Bytes) -> Result<proto::Model, ImportError> {
    proto::Model::decode(bytes)
        .map_err(|error| malformed(format!("this is no ONNX model, or it is damaged: {error}")))
}

fn malformed(why: impl Into<String>) -> ImportError {
    ImportError::Malformed(why.into())
}

/// The version of the operators of ONNX itself.
fn opset(model: &proto::Model) -> Result<i64, ImportError> {
    let own =
        |set: &&proto::OperatorSet| matches!(set.domain.as_deref(), None | Some("" | "ai.onnx"));
    let versions = model.opset_import.iter().filter(own).map(|set| set.version.unwrap_or(1));
    match versions.max() {
        Some(version) if OPSETS.contains(&version) => Ok(version),
        Some(version) => Err(malformed(format!(
            "the model is of operator set {version}; {} to {} are read",
            OPSETS.start(),
            OPSETS.end()
        ))),
        None if model.opset_import.is_empty() => Err(malformed(
            "the model does not say its operator set: it is damaged, or no ONNX model",
        )),
        None => Ok(*OPSETS.end()),
    }
}
