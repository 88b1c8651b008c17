//! Floor 3: models of other formats become programs. [`import_model`] reads ONNX,
//! descriptions of ATen operators and StableHLO: dims with names stay
//! symbolic, arithmetic on shapes becomes expressions over them, and operators are composed of those of
//! the table so that they mean what the format says. [`import_tvmscript`] and [`export_tvmscript`] read and
//! write the text of TVM's modules.

mod argument;
mod aten;
mod beside;
mod bounds;
mod builder;
mod contents;
mod control;
mod data;
mod elements;
mod graph;
mod inputs;
mod line;
mod model;
mod names;
mod narrow;
mod node;
mod operators;
mod proto;
mod reason;
mod render;
mod rows;
mod stablehlo;
mod tvmscript;
mod weight;

pub use aten::{refused as refused_aten, supported_aten};
pub use contents::{Contents, ONNX, Port, WeightInfo, contents};
pub use data::{Kind, kinds, read_value};
pub use model::{Bound, Given, Imported, Options, Summary, import_model, input_names, summary};
pub use operators::supported;
pub use prost::bytes::Bytes;
pub use reason::{ImportError, Missing};
pub use stablehlo::supported_stablehlo;
pub use tvmscript::{export_tvmscript, import_tvmscript};
pub use weight::{Stored, Weight};
