//! Values that lie alone in files, as test data of ONNX does: tensors, lists of them, and optionals.

use crate::model::decoded;
use crate::narrow;
use crate::proto;
use crate::reason::{ImportError, Reason};
use prost::Message;
use prost::bytes::Bytes;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;

/// What a value of a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// A list of tensors.
    List,
    /// One of these, or nothing.
    Optional,
}

/// The kinds of the inputs of a model, those that have a default left out, and of its outputs.
///
/// # Errors
/// When it is damaged.
pub fn kinds(bytes: Bytes) -> Result<(Vec<Kind>, Vec<Kind>), ImportError> {
    let graph = decoded(bytes)?.graph.unwrap_or_default();
    let own = |info: &&proto::ValueInfo| {
        info.name.is_some() && graph.initializer.iter().all(|tensor| tensor.name != info.name)
    };
    let inputs = graph.input.iter().filter(own).map(kind).collect();
    Ok((inputs, graph.output.iter().map(kind).collect()))
}

fn kind(info: &proto::ValueInfo) -> Kind {
    match &info.r#type {
        Some(r#type) if r#type.optional_type.is_some() => Kind::Optional,
        Some(r#type) if r#type.sequence_type.is_some() => Kind::List,
        _ => Kind::Tensor,
    }
}

/// The value in a file: a list is a tuple. `None` for an optional that holds nothing.
///
/// # Errors
/// When it is damaged, or of a dtype that the language does not have.
pub fn read_value(bytes: Bytes, kind: Kind) -> Result<Option<Value>, String> {
    let damaged = |error: prost::DecodeError| error.to_string();
    match kind {
        Kind::Tensor => {
            let message = proto::Tensor::decode(bytes).map_err(damaged)?;
            tensor(&message).map(Value::Tensor).map(Some)
        }
        Kind::List => list(&proto::Sequence::decode(bytes).map_err(damaged)?).map(Some),
        Kind::Optional => {
            let optional = proto::Optional::decode(bytes).map_err(damaged)?;
            match (&optional.tensor_value, &optional.sequence_value) {
                (Some(one), _) => tensor(one).map(Value::Tensor).map(Some),
                (None, Some(many)) => list(many).map(Some),
                (None, None) => Ok(None),
            }
        }
    }
}

fn list(message: &proto::Sequence) -> Result<Value, String> {
    let items = message.tensor_values.iter().map(|item| tensor(item).map(Value::Tensor));
    items.collect::<Result<Vec<_>, _>>().map(Value::Tuple)
}

fn tensor(message: &proto::Tensor) -> Result<Tensor, String> {
    narrow::tensor(message, None).map(|(tensor, _)| tensor).map_err(Reason::text)
}
