//! The contents of a model file: operator sets, inputs and outputs, nodes by operator, weights. Nothing is imported, so a
//! model that cannot be imported has contents too.

use crate::aten;
use crate::elements;
use crate::model::decoded;
use crate::operators::is_known;
use crate::proto;
use crate::reason::ImportError;
use crate::stablehlo;
use prost::bytes::Bytes;
use relax_syntax::dtype::DType;
use std::collections::{BTreeMap, BTreeSet};

/// The format of ONNX models, which have versions and operator sets.
pub const ONNX: &str = "ONNX model";

/// What the file of a model says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// What kind of file it is, as a noun.
    pub format: &'static str,
    /// The version of the format.
    pub ir_version: Option<i64>,
    /// Name and version of what wrote the file.
    pub producer: String,
    /// Operator sets by domain; ONNX's own is `ai.onnx`.
    pub opsets: BTreeMap<String, i64>,
    /// Inputs without a default.
    pub inputs: Vec<Port>,
    /// In text order.
    pub outputs: Vec<Port>,
    /// Nodes by operator, those of nested graphs and of functions of the model included.
    pub operators: BTreeMap<String, usize>,
    /// Those of the operators that no import knows.
    pub unknown: BTreeSet<String>,
    /// Initializers, in text order.
    pub weights: Vec<WeightInfo>,
}

/// An input or an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// As the model has it.
    pub name: String,
    /// `tensor`, `sequence`, `optional`, or `unknown`.
    pub kind: &'static str,
    /// The element type, in the words of the language where it has it.
    pub dtype: Option<String>,
    /// Extents or names; an unnamed dim is `?`. `None` for an unknown rank.
    pub dims: Option<Vec<String>>,
}

/// An initializer of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightInfo {
    /// As the model has it.
    pub name: String,
    /// The element type.
    pub dtype: String,
    /// As in the file, so they may be negative.
    pub dims: Vec<i64>,
    /// Size by dims and dtype; `None` where the dtype has no size here.
    pub bytes: Option<u64>,
    /// Whether the elements lie in a file beside the model.
    pub is_external: bool,
}

/// What the file of a model says.
///
/// # Errors
/// When it is damaged.
pub fn contents(bytes: Bytes) -> Result<Contents, ImportError> {
    if aten::is_description(&bytes) {
        return aten::contents(&bytes);
    }
    if stablehlo::is_stablehlo(&bytes) {
        return stablehlo::contents(&bytes);
    }
    let model = decoded(bytes)?;
    let producer = [&model.producer_name, &model.producer_version];
    let producer = producer.into_iter().flatten().map(|part| String::from_utf8_lossy(part));
    let producer: Vec<_> = producer.filter(|part| !part.is_empty()).collect();
    let mut contents = Contents {
        format: ONNX,
        ir_version: model.ir_version,
        producer: producer.join(" "),
        ..Contents::default()
    };
    for set in &model.opset_import {
        contents.opsets.insert(domain(set.domain.as_deref()).to_owned(), set.version.unwrap_or(1));
    }
    let functions: BTreeSet<(String, String)> = model
        .functions
        .iter()
        .map(|function| {
            let name = function.name.clone().unwrap_or_default();
            (domain(function.domain.as_deref()).to_owned(), name)
        })
        .collect();
    for function in &model.functions {
        contents.count(&function.node, &functions);
    }
    let graph = model.graph.unwrap_or_default();
    contents.count(&graph.node, &functions);
    let stored: BTreeSet<&str> =
        graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref()).collect();
    let is_free = |port: &Port| !stored.contains(port.name.as_str());
    contents.inputs = graph.input.iter().map(port).filter(is_free).collect();
    contents.outputs = graph.output.iter().map(port).collect();
    contents.weights = graph.initializer.iter().map(weight).collect();
    Ok(contents)
}

impl Contents {
    fn count(&mut self, nodes: &[proto::Node], functions: &BTreeSet<(String, String)>) {
        for node in nodes {
            let (domain, name) =
                (domain(node.domain.as_deref()), node.op_type.clone().unwrap_or_default());
            let shown = match domain {
                "ai.onnx" => name.clone(),
                domain => format!("{domain}.{name}"),
            };
            if !is_known(node) && !functions.contains(&(domain.to_owned(), name)) {
                self.unknown.insert(shown.clone());
            }
            *self.operators.entry(shown).or_default() += 1;
            for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
                self.count(&graph.node, functions);
            }
        }
    }
}

fn domain(name: Option<&str>) -> &str {
    name.filter(|name| !name.is_empty()).unwrap_or("ai.onnx")
}

fn port(value: &proto::ValueInfo) -> Port {
    let name = value.name.clone().unwrap_or_default();
    let r#type = value.r#type.clone().unwrap_or_default();
    let (kind, tensor) = match (&r#type.tensor_type, &r#type.sequence_type, &r#type.optional_type) {
        (Some(tensor), ..) => ("tensor", Some(tensor.clone())),
        (None, Some(element), _) => ("sequence", element_of(element)),
        (None, None, Some(element)) => ("optional", element_of(element)),
        (None, None, None) => ("unknown", None),
    };
    let Some(tensor) = tensor else { return Port { name, kind, ..Port::default() } };
    let dims = tensor.shape.map(|shape| shape.dim.iter().map(dimension).collect());
    Port { name, kind, dtype: tensor.elem_type.map(elements::name_of), dims }
}

fn element_of(element: &proto::Element) -> Option<proto::TensorType> {
    element.elem_type.as_ref().and_then(|inner| inner.tensor_type.clone())
}

fn dimension(dim: &proto::Dimension) -> String {
    match (dim.dim_value, dim.dim_param.as_deref()) {
        (Some(extent), _) => extent.to_string(),
        (None, Some(name)) if !name.is_empty() => name.to_owned(),
        (None, _) => "?".to_owned(),
    }
}

fn weight(tensor: &proto::Tensor) -> WeightInfo {
    let number = tensor.data_type.unwrap_or(0);
    let size = elements::dtype(number).ok().map(DType::size);
    let count = tensor
        .dims
        .iter()
        .try_fold(1_u64, |count, &dim| count.checked_mul(u64::try_from(dim).ok()?));
    WeightInfo {
        name: tensor.name.clone().unwrap_or_default(),
        dtype: elements::name_of(number),
        dims: tensor.dims.clone(),
        bytes: count.zip(size).and_then(|(count, size)| count.checked_mul(size as u64)),
        is_external: tensor.data_location == Some(elements::EXTERNAL),
    }
}
