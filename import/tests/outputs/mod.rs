//! What a program gave, as tensors.

use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;

pub(crate) fn tensors(result: Value) -> Vec<Tensor> {
    let tensor = |value| match value {
        Value::Tensor(tensor) => tensor,
        other => panic!("a {}", other.kind()),
    };
    match result {
        Value::Tuple(items) => items.into_iter().map(tensor).collect(),
        one => vec![tensor(one)],
    }
}
