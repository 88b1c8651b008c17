//! The description of a graph of ATen operators: JSON that a walk over an exported program of PyTorch writes (`docs/TORCH.md`).
//! Nothing in it is a type of PyTorch, so reading one needs no Python.

use crate::reason::ImportError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) const FORMAT: &str = "relax-aten";
pub(crate) const VERSION: u64 = 1;

#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u64,
    pub(crate) producer: String,
    /// The name of a safetensors file in the same folder.
    pub(crate) weights_file: Option<String>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) guards: Vec<Guard>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) weights: Vec<StoredWeight>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<Result>,
    /// What the walk has to say of what it left out.
    pub(crate) notes: Vec<String>,
}

/// A symbolic dim of the inputs. Bounds are both included.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) lower: Option<i64>,
    pub(crate) upper: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guard {
    pub(crate) text: String,
    /// `None` where it has a form that the description lacks.
    pub(crate) claim: Option<Claim>,
    pub(crate) origin: GuardOrigin,
    pub(crate) at: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuardOrigin {
    /// A branch or a check of the model: the trace took one side of it.
    Program,
    /// A constraint of an operator, which the program checks itself.
    Operator,
    /// PyTorch's C++ asked, and no line of Python says for what.
    Dispatcher,
}

/// `[relation, left, right]`, the relation one of `==`, `!=`, `<=`, `<`.
#[derive(Debug, Deserialize)]
pub(crate) struct Claim(pub(crate) String, pub(crate) Extent, pub(crate) Extent);

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Extent {
    Int(i64),
    Symbol(String),
    Op(String, Box<Extent>, Box<Extent>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<Extent>,
}

/// A parameter, a buffer or a constant of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredWeight {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    /// The elements of a small one, in row-major order; those that JSON lacks as `"nan"`, `"inf"`, `"-inf"`.
    pub(crate) data: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    pub(crate) op: String,
    /// By the names of the operator's schema, with those that have their default value.
    pub(crate) args: BTreeMap<String, Value>,
    pub(crate) outputs: Vec<Option<Output>>,
    pub(crate) at: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Output {
    Tensor(Port),
    Symbol { symbol: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Result {
    pub(crate) name: String,
    pub(crate) value: Value,
}

pub(crate) fn is_description(bytes: &[u8]) -> bool {
    let begin = &bytes[..bytes.len().min(64)];
    begin.first() == Some(&b'{')
        && begin.windows(FORMAT.len()).any(|window| window == FORMAT.as_bytes())
}

pub(crate) fn read(bytes: &[u8]) -> std::result::Result<Description, ImportError> {
    let damaged = |error: serde_json::Error| {
        ImportError::Malformed(format!("this is no description of ATen operators: {error}"))
    };
    let header: Header = serde_json::from_slice(bytes).map_err(damaged)?;
    if header.format.as_deref() != Some(FORMAT) {
        return Err(ImportError::Malformed(format!("the field `format` must be {FORMAT:?}")));
    }
    if header.version != Some(VERSION) {
        let found = header.version.map_or_else(|| "none".to_owned(), |v| v.to_string());
        return Err(ImportError::Malformed(format!(
            "the description has version {found}; this version of relax reads {VERSION}: write it with the package \
             `relaxc` of the same version"
        )));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}
