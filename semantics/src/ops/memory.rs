//! Explicit memory: what the passes of the early build make (paper §4.2), and graph capture (§4.4).
//!
//! A storage is a number of bytes; a tensor taken from it is a fresh one. That two tensors of one
//! storage share bytes is not modelled: a program that relies on it reads what nothing has written,
//! which is a trap.

use super::calls::called;
use super::{
    Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Machine, Operator, Reject, constraint,
    optional, required,
};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::{Storage, Value};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "memory.alloc_storage",
        aliases: &["alloc_storage"],
        family: Family::Memory,
        doc: "Memory for the product of `size` elements of `dtype`. The order of parameters is the \
              paper's; TVM has the dtype last.",
        params: &[
            required("size", Kind::Shape),
            optional("dtype", Kind::DType, Literal::Str("u8")),
            optional("virtual_device_index", Kind::Dim, Literal::Int(0)),
            optional("storage_scope", Kind::Str, Literal::Str("global")),
        ],
        constraints: &[constraint("C1", "the number of bytes is at least 0 and fits i64")],
        effect: Effect::Pure,
        infer: infer_storage,
        eval: Evaluate::Values(eval_storage),
    },
    Operator {
        name: "memory.alloc_tensor",
        aliases: &["alloc_tensor"],
        family: Family::Memory,
        doc: "A tensor in a storage, from byte `offset` on; nothing of it is written yet. Without \
              `dtype` it has that of the storage.",
        params: &[
            required("storage", Kind::Value),
            required("shape", Kind::Shape),
            optional("dtype", Kind::OptionalDType, Literal::None),
            optional("offset", Kind::Dim, Literal::Int(0)),
        ],
        constraints: &[
            constraint("C1", "storage is a storage"),
            constraint("C2", "offset is at least 0, and the tensor fits the storage"),
        ],
        effect: Effect::Pure,
        infer: infer_tensor,
        eval: Evaluate::Values(eval_tensor),
    },
    Operator {
        name: "memory.kill_storage",
        aliases: &["kill_storage"],
        family: Family::Memory,
        doc: "Releases a storage.",
        params: &[required("storage", Kind::Value)],
        constraints: &[constraint("C1", "storage is a storage")],
        effect: Effect::Impure,
        infer: infer_kill_storage,
        eval: Evaluate::Values(eval_kill_storage),
    },
    Operator {
        name: "memory.kill_tensor",
        aliases: &["kill_tensor"],
        family: Family::Memory,
        doc: "Says that a tensor is not used again.",
        params: &[required("tensor", Kind::Tensor)],
        constraints: &[],
        effect: Effect::Impure,
        infer: infer_kill_tensor,
        eval: Evaluate::Values(|_| Ok(Value::Tuple(Vec::new()))),
    },
    Operator {
        name: "builtin.cuda_graph_run_or_capture",
        aliases: &[],
        family: Family::Memory,
        doc: "Calls a function whose kernels a device may record the first time and replay later \
              (paper §4.4); here it is a call.",
        params: &[required("func", Kind::Function), required("args", Kind::Rest)],
        constraints: &[constraint("C1", "func is a function")],
        effect: Effect::Impure,
        infer: infer_capture,
        eval: Evaluate::Machine(eval_capture),
    },
];

fn infer_storage(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.shape("size")?;
    infer.dtype("dtype")?;
    infer.dim("virtual_device_index")?;
    infer.str("storage_scope")?;
    Ok(Annotation::Object)
}

fn eval_storage(eval: &Eval) -> Result<Value, Stop> {
    let dtype = DType::parse(&eval.str("dtype")).unwrap_or(DType::U8);
    let size = i64::try_from(dtype.size()).unwrap_or(i64::MAX);
    let bytes = eval.ints("size").into_iter().try_fold(size, i64::checked_mul);
    match bytes {
        Some(bytes) if bytes >= 0 => Ok(Value::Storage(Storage { bytes, dtype })),
        _ => Err(eval.trap("C1", "the size of the storage is no number of bytes")),
    }
}

fn infer_tensor(infer: &mut Infer) -> Result<Annotation, Reject> {
    if infer.operand("storage").annotation != Annotation::Object {
        let found = &infer.operand("storage").annotation;
        return Err(infer.reject("C1", format!("`storage` must be a storage, found `{found}`")));
    }
    infer.dim("offset")?;
    let (extents, dtype) = (infer.shape("shape")?, infer.optional_dtype("dtype")?);
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn eval_tensor(eval: &Eval) -> Result<Value, Stop> {
    let Value::Storage(storage) = eval.value("storage") else {
        let found = eval.value("storage").kind();
        return Err(eval.trap("C1", format!("`storage` must be a storage, found {found}")));
    };
    let dtype = match eval.out {
        Annotation::Tensor(TensorType { dtype: Some(dtype), .. }) => *dtype,
        _ => storage.dtype,
    };
    let dims = match eval.out {
        Annotation::Tensor(TensorType { extents: Extents::Known(dims), .. }) => {
            dims.iter().filter_map(Dim::as_int).collect()
        }
        _ => eval.ints("shape"),
    };
    let shape = eval.checked_shape(&dims, dtype)?;
    let elements = dims.iter().try_fold(1i64, |acc, dim| acc.checked_mul(*dim));
    let size = i64::try_from(dtype.size()).unwrap_or(i64::MAX);
    let bytes = elements.and_then(|n| n.checked_mul(size));
    let (offset, total) = (eval.int("offset"), storage.bytes);
    let end = bytes.and_then(|bytes| bytes.checked_add(offset));
    if offset < 0 || end.is_none_or(|end| end > total) {
        let message = format!(
            "a {dtype} tensor of shape {dims:?} at byte {offset} does not fit a storage of {total} bytes"
        );
        return Err(eval.trap("C2", message));
    }
    Ok(Value::Tensor(Tensor::undefined(dtype, &shape)))
}

fn infer_kill_storage(infer: &mut Infer) -> Result<Annotation, Reject> {
    if infer.operand("storage").annotation == Annotation::Object {
        return Ok(Annotation::Tuple(Vec::new()));
    }
    let found = &infer.operand("storage").annotation;
    Err(infer.reject("C1", format!("`storage` must be a storage, found `{found}`")))
}

fn eval_kill_storage(eval: &Eval) -> Result<Value, Stop> {
    match eval.value("storage") {
        Value::Storage(_) => Ok(Value::Tuple(Vec::new())),
        other => {
            Err(eval.trap("C1", format!("`storage` must be a storage, found {}", other.kind())))
        }
    }
}

fn infer_kill_tensor(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.tensor("tensor")?;
    Ok(Annotation::Tuple(Vec::new()))
}

fn infer_capture(infer: &mut Infer) -> Result<Annotation, Reject> {
    let function = infer.operand("func").annotation.clone();
    if !matches!(function, Annotation::Callable(_) | Annotation::Object) {
        return Err(infer.reject("C1", format!("`func` must be a function, found `{function}`")));
    }
    let arguments: Vec<_> = infer.rest().iter().map(|operand| operand.annotation.clone()).collect();
    Ok(called(infer.operand("func"), Some(&arguments)))
}

fn eval_capture(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    machine.call(eval.value("func"), eval.rest().to_vec())
}
