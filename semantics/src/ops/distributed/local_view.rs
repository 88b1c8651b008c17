//! `call_tir_local_view`: a tensor program that each worker runs on its own part.

use crate::ops::{Effect, Traps, constraint, required};
use crate::ops::{Eval, Evaluate, Family, Infer, Kind, Known, Machine, Operator, Reject};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use std::sync::Arc;

pub(super) const ROW: Operator = Operator {
    name: "call_tir_local_view",
    aliases: &["dist.call_tir_local_view"],
    family: Family::Distributed,
    doc: "Runs a tensor program on each worker's part of the arguments and gives its outputs, as \
          call_tir does; integers among the arguments are its extra parameters. In a single process \
          the part is the whole.",
    params: &[
        required("gvar", Kind::Function).also("func"),
        required("args", Kind::Value),
        required("out_ty", Kind::Annotation).also("out"),
    ],
    constraints: &[
        constraint("C1", "every output is a tensor with known dims and dtype"),
        constraint("C2", "the arguments are tensors and integers"),
        constraint("C3", "no dim of an output is negative, and each fits i64"),
    ],
    effect: Effect::Pure,
    traps: Traps::OnState,
    infer,
    program: super::ERASED,
    eval: Evaluate::Machine(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    if !matches!(infer.operand("gvar").known, Some(Known::Global(_))) {
        return Err(infer.reject("kind", "`gvar` must be a tensor program of the module"));
    }
    check_arguments(infer)?;
    let outputs = outputs(infer)?;
    for output in &outputs {
        let tensor = output.as_tensor();
        let dims = tensor.filter(|tensor| tensor.dtype.is_some()).and_then(|t| t.extents.dims());
        let Some(dims) = dims else {
            let message = format!("an output must have known dims and dtype, found `{output}`");
            return Err(infer.reject("C1", message));
        };
        infer.require_nonnegative("C3", dims)?;
        infer.settled("C3", dims)?;
    }
    let outputs: Vec<_> = outputs
        .iter()
        .map(|output| output.map_dims(&mut |dim| infer.facts.simplify(dim)))
        .collect();
    Ok(match <[Annotation; 1]>::try_from(outputs) {
        Ok([single]) => single,
        Err(several) => Annotation::Tuple(several),
    })
}

fn check_arguments(infer: &Infer) -> Result<(), Reject> {
    let items = match &infer.operand("args").annotation {
        Annotation::Tuple(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let fits = |item: &Annotation| match item {
        Annotation::Object => true,
        Annotation::Prim(dtype) => dtype.is_integer(),
        other => other.as_tensor().is_some(),
    };
    match items.iter().find(|item| !fits(item)) {
        Some(item) => Err(infer.reject("C2", format!("a tensor program takes no `{item}`"))),
        None => Ok(()),
    }
}

/// The annotations of the outputs: one, or a list.
fn outputs(infer: &Infer) -> Result<Vec<Annotation>, Reject> {
    let annotation = |known: &Known| match known {
        Known::Annotation(annotation) => Some(Arc::unwrap_or_clone(annotation.clone())),
        _ => None,
    };
    let outputs = match &infer.operand("out_ty").known {
        Some(Known::List(items)) => items.iter().map(annotation).collect(),
        Some(known) => annotation(known).map(|single| match single {
            Annotation::Tuple(items) => items,
            single => vec![single],
        }),
        None => None,
    };
    outputs.filter(|outputs| !outputs.is_empty()).ok_or_else(|| {
        infer.reject("kind", "`out_ty` must be the annotation of an output, or a list of them")
    })
}

fn eval(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let Value::Global(name) = eval.value("gvar") else {
        panic!("invariant: infer of `call_tir_local_view` demands a function of the module")
    };
    let (inputs, scalars) = arguments(eval)?;
    let annotations = match eval.out {
        Annotation::Tuple(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let outputs = annotations.iter().map(|output| destination(eval, output));
    let outputs = outputs.collect::<Result<Vec<_>, Stop>>()?;
    let written = machine.run_tensor_program(name, inputs, outputs, scalars)?;
    let mut written: Vec<Value> = written.into_iter().map(Value::Tensor).collect();
    Ok(match (eval.out, written.len()) {
        (Annotation::Tuple(_), _) | (_, 0) => Value::Tuple(written),
        _ => written.swap_remove(0),
    })
}

/// An output before the program writes it.
fn destination(eval: &Eval, output: &Annotation) -> Result<Tensor, Stop> {
    let known = output.as_tensor().and_then(|tensor| {
        let dims: Option<Vec<i64>> = tensor.extents.dims()?.iter().map(Dim::as_int).collect();
        Some((tensor.dtype?, dims?))
    });
    let Some((dtype, dims)) = known else {
        return Err(eval.trap("C1", format!("an output needs known dims, found `{output}`")));
    };
    Ok(Tensor::undefined(dtype, &eval.checked_shape(&dims, dtype)?))
}

/// The tensors among the arguments, and the integers.
fn arguments(eval: &Eval) -> Result<(Vec<Tensor>, Vec<i64>), Stop> {
    let items = match eval.value("args") {
        Value::Tuple(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let (mut tensors, mut scalars) = (Vec::new(), Vec::new());
    for item in items {
        let integer = match item {
            Value::Prim(_, Number::Int(value)) => i64::try_from(*value).ok(),
            _ => None,
        };
        match (item, integer) {
            (Value::Tensor(tensor), _) => tensors.push(tensor.clone()),
            (_, Some(integer)) => scalars.push(integer),
            (other, None) => {
                let message = format!("a tensor program takes no {}", other.kind());
                return Err(eval.trap("C2", message));
            }
        }
    }
    Ok((tensors, scalars))
}
