//! Calls of library functions and closures, and effects.

use super::super::{Eval, Infer, Known, Machine, Operand, Reject};
use super::tensor_programs::outputs;
use crate::check::signature::Matching;
use crate::stop::Stop;
use crate::tensor::Number;
use crate::value::{Partial, Value};
use relax_syntax::annotation::{Annotation, OWN, TensorType};
use relax_syntax::dtype::DType;
use std::sync::Arc;

pub(super) fn infer_library(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.str("func")?;
    Ok(outputs(infer, "C1")?.annotation())
}

pub(super) fn eval_library(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let types: Vec<TensorType> = match eval.out {
        Annotation::Tuple(items) => {
            items.iter().filter_map(|item| item.as_tensor().cloned()).collect()
        }
        single => single.as_tensor().cloned().into_iter().collect(),
    };
    let args = match eval.value("args") {
        Value::Tuple(items) => items.clone(),
        single => vec![single.clone()],
    };
    let result = machine.call_library(&eval.str("func"), &args, Some(&types))?;
    conforms(eval, "C2", &result, eval.out)?;
    Ok(result)
}

/// Compares what a function returned with what was declared.
fn conforms(
    eval: &Eval,
    constraint: &'static str,
    value: &Value,
    declared: &Annotation,
) -> Result<(), Stop> {
    let found = value.annotation();
    if covers(declared, &found) {
        return Ok(());
    }
    Err(eval.trap(constraint, format!("declared is `{declared}`, returned was `{found}`")))
}

/// Whether a concrete annotation is an instance of a declared one without variables.
fn covers(declared: &Annotation, found: &Annotation) -> bool {
    match (declared, found) {
        (Annotation::Object, _) | (Annotation::Callable(_), Annotation::Callable(_)) => true,
        // In a single process a distributed tensor is the whole of it.
        (Annotation::Tensor(_) | Annotation::DTensor(_), Annotation::Tensor(f)) => {
            let d = declared.as_tensor().expect("it is an annotation of a tensor");
            let dtype = d.dtype.is_none() || d.dtype == f.dtype;
            let rank = d.extents.rank().is_none_or(|rank| Some(rank) == f.extents.rank());
            dtype && rank && d.extents.dims().is_none_or(|dims| Some(dims) == f.extents.dims())
        }
        (Annotation::Tuple(d), Annotation::Tuple(f)) => {
            d.len() == f.len() && d.iter().zip(f).all(|(d, f)| covers(d, f))
        }
        (Annotation::Shape(d), Annotation::Shape(f)) => {
            d.rank().is_none_or(|rank| Some(rank) == f.rank())
                && d.dims().is_none_or(|dims| Some(dims) == f.dims())
        }
        _ => declared == found,
    }
}

fn declared_result(infer: &Infer) -> Option<Annotation> {
    match &infer.operand("ret").known {
        Some(Known::Annotation(annotation)) => Some((**annotation).clone()),
        Some(Known::List(items)) => match items.as_slice() {
            [Known::Annotation(annotation)] => Some((**annotation).clone()),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn infer_packed(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.str("func")?;
    Ok(declared_result(infer).unwrap_or(Annotation::Object))
}

pub(super) fn eval_packed(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let result = machine.call_library(&eval.str("func"), eval.rest(), None)?;
    conforms(eval, "C1", &result, eval.out)?;
    Ok(result)
}

/// What the name does not tell: whoever deduces and runs programs calls the named operator instead.
pub(super) fn infer_by_name(infer: &mut Infer) -> Result<Annotation, Reject> {
    let name = infer.str("func")?;
    Err(infer.reject("C1", format!("there is no operator `{name}`")))
}

pub(super) fn eval_by_name(eval: &Eval) -> Result<Value, Stop> {
    Err(eval.trap("C1", format!("there is no operator `{}`", eval.str("func"))))
}

pub(super) fn infer_make_closure(infer: &mut Infer) -> Result<Annotation, Reject> {
    let is_function =
        matches!(infer.operand("func").annotation, Annotation::Callable(_) | Annotation::Object);
    let is_tuple =
        matches!(infer.operand("args").annotation, Annotation::Tuple(_) | Annotation::Object);
    if !is_function || !is_tuple {
        return Err(infer.reject("C1", "expected a function and a tuple of arguments"));
    }
    Ok(Annotation::Callable(None))
}

pub(super) fn eval_make_closure(eval: &Eval) -> Result<Value, Stop> {
    let Value::Tuple(last) = eval.value("args") else {
        return Err(eval.trap("C1", "`args` must be a tuple"));
    };
    let function = eval.value("func").clone();
    Ok(Value::Partial(Arc::new(Partial { function, last: last.clone() })))
}

pub(super) fn infer_invoke(infer: &mut Infer) -> Result<Annotation, Reject> {
    let arguments = match &infer.operand("args").annotation {
        Annotation::Tuple(items) => Some(items.clone()),
        Annotation::Object => None,
        other => {
            let message = format!("`args` must be a tuple, found `{other}`");
            return Err(infer.reject("C1", message));
        }
    };
    let closure = infer.operand("closure").annotation.clone();
    if !matches!(closure, Annotation::Callable(_) | Annotation::Object) {
        return Err(infer.reject("C1", format!("`closure` must be a function, found `{closure}`")));
    }
    let declared = declared_result(infer);
    Ok(declared.unwrap_or_else(|| called(infer.operand("closure"), arguments.as_deref())))
}

/// What calling a function gives, as far as its signature and the arguments tell. Only a function
/// named in the text is known by its own signature; a declared one is not compared with it.
pub(in super::super) fn called(function: &Operand, arguments: Option<&[Annotation]>) -> Annotation {
    let is_named = matches!(function.known, Some(Known::Global(_)));
    let (Annotation::Callable(Some(signature)), Some(arguments), true) =
        (&function.annotation, arguments, is_named)
    else {
        return Annotation::Object;
    };
    let own = |name: &relax_syntax::Name| name.starts_with(OWN);
    let mut matching = Matching::default();
    for (index, (param, argument)) in signature.params.iter().zip(arguments).enumerate() {
        if matching.argument(index, param, argument, &own).is_err() {
            return Annotation::Object;
        }
    }
    matching.result(&signature.result, &own)
}

pub(super) fn eval_invoke(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let Value::Tuple(args) = eval.value("args") else {
        return Err(eval.trap("C1", "`args` must be a tuple"));
    };
    let result = machine.call(eval.value("closure"), args.clone())?;
    if !eval.is_none("ret") {
        conforms(eval, "C2", &result, eval.out)?;
    }
    Ok(result)
}

pub(super) fn infer_print(infer: &mut Infer) -> Result<Annotation, Reject> {
    let holes = infer.str("format")?.matches("{}").count();
    let values = infer.rest().len();
    if !infer.str("format")?.is_empty() && holes != values {
        let message = format!("`format` has {holes} places, and there are {values} values");
        return Err(infer.reject("C1", message));
    }
    Ok(Annotation::Tuple(Vec::new()))
}

pub(super) fn eval_print(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let values: Vec<String> = eval.rest().iter().map(crate::show::show).collect();
    let format = eval.str("format");
    let text = if format.is_empty() {
        values.join(" ")
    } else {
        let mut parts = format.split("{}");
        let first = parts.next().unwrap_or("").to_owned();
        parts.zip(values).fold(first, |text, (part, value)| text + &value + part)
    };
    machine.print(&text);
    Ok(Value::Tuple(Vec::new()))
}

pub(super) fn infer_assert(infer: &mut Infer) -> Result<Annotation, Reject> {
    let fits = match &infer.operand("condition").annotation {
        Annotation::Object => infer.operand("condition").known.is_none(),
        Annotation::Prim(dtype) => *dtype == DType::Bool,
        Annotation::Tensor(tensor) => {
            tensor.dtype.is_none_or(|dtype| dtype == DType::Bool)
                && tensor.extents.rank().is_none_or(|rank| rank == 0)
        }
        _ => false,
    };
    infer.str("format")?;
    if fits {
        return Ok(Annotation::Tuple(Vec::new()));
    }
    let found = &infer.operand("condition").annotation;
    Err(infer.reject("C1", format!("`condition` must be a bool scalar, found `{found}`")))
}

pub(super) fn eval_assert(eval: &Eval) -> Result<Value, Stop> {
    let holds = match eval.value("condition") {
        Value::Prim(_, Number::Int(value)) => *value != 0,
        Value::Tensor(_) => eval.tensor("condition")?.number(0) == Number::Int(1),
        _ => false,
    };
    if holds {
        return Ok(Value::Tuple(Vec::new()));
    }
    let format = eval.str("format");
    let text = if format.is_empty() { "the condition is false" } else { format.as_str() };
    Err(eval.trap("C2", text))
}
