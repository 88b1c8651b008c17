//! Floor 3: models of other formats become programs. [`import_onnx`] reads ONNX: dims with names stay
//! symbolic, arithmetic on shapes becomes expressions over them, and operators are composed of those of
//! the table so that they mean what the format says.

mod argument;
mod builder;
mod control;
mod data;
mod elements;
mod graph;
mod inputs;
mod model;
mod names;
mod node;
mod operators;
mod proto;
mod reason;
mod render;

pub use data::{Kind, kinds, read_value};
pub use model::{Given, Imported, Options, Summary, import_onnx, input_names, summary};
pub use operators::supported;
pub use prost::bytes::Bytes;
pub use reason::{ImportError, Missing};
