//! Explicit memory: what the passes of the early build make (paper §4.2), and graph capture (§4.4).
//!
//! A storage is a number of bytes; a tensor taken from it is a name of some of them. What that means
//! for two tensors that share bytes, and for what was released, stands in [`crate::memory`].

use super::calls::called;
use super::dims::volume;
use super::{
    Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Machine, Operator, Reject, Traps,
    constraint, optional, required,
};
use crate::ops::Programs;
use crate::stop::Stop;
use crate::tensor::Number;
use crate::value::{Placed, Value};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

const MEMORY: Programs = Programs::None("it is about memory, no computation");

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
        traps: Traps::OnState,
        infer: infer_storage,
        program: MEMORY,
        eval: Evaluate::Machine(eval_storage),
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
        traps: Traps::OnState,
        infer: infer_tensor,
        program: MEMORY,
        eval: Evaluate::Machine(eval_tensor),
    },
    Operator {
        name: "memory.kill_storage",
        aliases: &["kill_storage"],
        family: Family::Memory,
        doc: "Releases a storage, and every tensor in it: to read one of them later, or to release the \
              storage again, stops the program.",
        params: &[required("storage", Kind::Value)],
        constraints: &[constraint("C1", "storage is a storage")],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_kill_storage,
        program: MEMORY,
        eval: Evaluate::Machine(eval_kill_storage),
    },
    Operator {
        name: "memory.kill_tensor",
        aliases: &["kill_tensor"],
        family: Family::Memory,
        doc: "Releases a tensor in a storage: to read it later, under whatever name, or to release it \
              again, stops the program. Of any other tensor it says that it is not used again.",
        params: &[required("tensor", Kind::Tensor)],
        constraints: &[],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_kill_tensor,
        program: MEMORY,
        eval: Evaluate::Machine(eval_kill_tensor),
    },
    Operator {
        name: "memory.kill_object",
        aliases: &["kill_object"],
        family: Family::Memory,
        doc: "Releases a tensor that a called function gave, as `memory.kill_tensor` does, and with the last \
              tensor that is left in it its storage, which the function could not release.",
        params: &[required("tensor", Kind::Tensor)],
        constraints: &[],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_kill_tensor,
        program: MEMORY,
        eval: Evaluate::Machine(eval_kill_object),
    },
    Operator {
        name: "memory.view",
        aliases: &[],
        family: Family::Memory,
        doc: "Another name of a tensor, under which the same elements have another shape: of a tensor \
              in a storage it is the same bytes, of any other a reshape.",
        params: &[required("tensor", Kind::Tensor), required("shape", Kind::Shape)],
        constraints: &[constraint("C1", "shape has as many elements as the tensor")],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: infer_view,
        program: MEMORY,
        eval: Evaluate::Values(eval_view),
    },
    Operator {
        name: "builtin.cuda_graph_get_cached_alloc",
        aliases: &[],
        family: Family::Memory,
        doc: "What a function without parameters gave the first time that it was called here: storages \
              that are the same for the whole run, so that graphs may use them.",
        params: &[required("func", Kind::Function)],
        constraints: &[constraint("C1", "func is a function of the module")],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_cached,
        program: MEMORY,
        eval: Evaluate::Machine(eval_cached),
    },
    Operator {
        name: "builtin.cuda_graph_run_or_capture",
        aliases: &[],
        family: Family::Memory,
        doc: "Calls a function. A device records the launches of kernels the first time, and replays them \
              at a later call with the same dtypes and extents of tensors, shapes and integers (paper \
              §4.4). Here the function is called again, and must do what was recorded.",
        params: &[required("func", Kind::Function), required("args", Kind::Rest)],
        constraints: &[
            constraint("C1", "func is a function of the module"),
            constraint(
                "C2",
                "the function takes and releases no storage, reads no elements on the host, and runs no \
                 graph",
            ),
            constraint("C3", "what its kernels write to lies in storages"),
            constraint(
                "C4",
                "replayed, it launches the same kernels on the same bytes, with the same scalars and the \
                 same elements of what lies in no storage, and gives the same",
            ),
        ],
        effect: Effect::Impure,
        traps: Traps::OnState,
        infer: infer_capture,
        program: MEMORY,
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

fn eval_storage(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let dtype = DType::parse(&eval.str("dtype")).unwrap_or(DType::U8);
    let size = i64::try_from(dtype.size()).unwrap_or(i64::MAX);
    let bytes = eval.ints("size").into_iter().try_fold(size, i64::checked_mul);
    match bytes {
        Some(bytes) if bytes >= 0 => Ok(Value::Storage(machine.memory().allocate(bytes, dtype))),
        _ => Err(eval.trap("C1", "the size of the storage is no number of bytes")),
    }
}

fn infer_tensor(infer: &mut Infer) -> Result<Annotation, Reject> {
    if infer.operand("storage").annotation != Annotation::Object {
        let found = &infer.operand("storage").annotation;
        return Err(infer.reject("C1", format!("`storage` must be a storage, found `{found}`")));
    }
    // Where dims are lowered, it is a variable that holds an integer.
    let offset = infer.operand("offset");
    let is_variable = offset.known.is_none()
        && matches!(offset.annotation, Annotation::Prim(DType::I64) | Annotation::Object);
    if !is_variable {
        infer.dim("offset")?;
    }
    let (extents, dtype) = (infer.shape("shape")?, infer.optional_dtype("dtype")?);
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn eval_tensor(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
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
    let Value::Prim(DType::I64, Number::Int(offset)) = eval.value("offset") else {
        let found = eval.value("offset").kind();
        let message = format!("`offset` must be an integer, found {found}");
        return Err(Stop::trap(format!("{}/kind", eval.row.short_name()), message));
    };
    let (offset, total) = (i64::try_from(*offset).unwrap_or(i64::MAX), storage.bytes);
    let end = bytes.and_then(|bytes| bytes.checked_add(offset)).filter(|&end| end <= total);
    let Some(end) = end.filter(|_| offset >= 0) else {
        let message = format!(
            "a {dtype} tensor of shape {dims:?} at byte {offset} does not fit a storage of {total} bytes"
        );
        return Err(eval.trap("C2", message));
    };
    machine.memory().place(storage, offset..end, dtype, shape).map(Value::Placed)
}

fn infer_kill_storage(infer: &mut Infer) -> Result<Annotation, Reject> {
    if infer.operand("storage").annotation == Annotation::Object {
        return Ok(Annotation::Tuple(Vec::new()));
    }
    let found = &infer.operand("storage").annotation;
    Err(infer.reject("C1", format!("`storage` must be a storage, found `{found}`")))
}

fn eval_kill_storage(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let Value::Storage(storage) = eval.value("storage") else {
        let found = eval.value("storage").kind();
        return Err(eval.trap("C1", format!("`storage` must be a storage, found {found}")));
    };
    machine.memory().release_storage(storage)?;
    Ok(Value::Tuple(Vec::new()))
}

fn infer_kill_tensor(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.tensor("tensor")?;
    Ok(Annotation::Tuple(Vec::new()))
}

fn eval_kill_tensor(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    if let Value::Placed(placed) = eval.value("tensor") {
        machine.memory().release_tensor(placed)?;
    }
    Ok(Value::Tuple(Vec::new()))
}

fn eval_kill_object(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    if let Value::Placed(placed) = eval.value("tensor") {
        machine.memory().release_object(placed)?;
    }
    Ok(Value::Tuple(Vec::new()))
}

fn infer_view(infer: &mut Infer) -> Result<Annotation, Reject> {
    let tensor = infer.tensor("tensor")?;
    let extents = infer.shape("shape")?;
    if let (Some(from), Some(to)) = (tensor.extents.dims(), extents.dims()) {
        let (held, wanted) = (volume(from), volume(to));
        infer.require_equal("C1", &held, &wanted, || {
            format!("a view of {held} elements cannot have {wanted}")
        })?;
    }
    Ok(Annotation::Tensor(TensorType { extents, dtype: tensor.dtype }))
}

fn eval_view(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    Ok(match eval.value("tensor") {
        Value::Placed(placed) => Value::Placed(Placed { instance: placed.instance, dtype, shape }),
        _ => Value::Tensor(eval.tensor_as_it_is("tensor").reshaped(&shape)),
    })
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
    machine.run_graph(eval.value("func"), eval.rest().to_vec())
}

fn infer_cached(infer: &mut Infer) -> Result<Annotation, Reject> {
    let function = infer.operand("func").annotation.clone();
    if !matches!(function, Annotation::Callable(_) | Annotation::Object) {
        return Err(infer.reject("C1", format!("`func` must be a function, found `{function}`")));
    }
    Ok(called(infer.operand("func"), Some(&[])))
}

fn eval_cached(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    machine.static_memory(eval.value("func"))
}
