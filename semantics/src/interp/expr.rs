//! Evaluation of right-hand sides and atoms.

use super::binding::{Binder, Binds, BoundDim, What};
use super::observer::{self, shapes_of};
use super::{Frame, Interpreter};
use crate::ops::{Kind, Operator, apply, called_by_name, check_constraints, lookup, only_checks};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, array};
use crate::value::{Closure, Value};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Signature};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::graph::Literals;
use relax_syntax::ir::{Atom, Callee, Constant, Expr, VarId};
use relax_syntax::span::Span;
use std::sync::Arc;

impl<'m> Interpreter<'m> {
    pub(super) fn expr(
        &mut self,
        frame: &mut Frame<'m>,
        var: VarId,
        expr: &Expr,
    ) -> Result<Value, Stop> {
        match expr {
            Expr::Atom(atom) => self.atom(frame, atom),
            Expr::Call { callee, args, attrs } => self.call_expr(frame, callee, args, attrs),
            Expr::Get(atom, index) => match self.atom(frame, atom)? {
                Value::Tuple(items) if *index < items.len() => Ok(items[*index].clone()),
                Value::Tuple(items) => Err(Stop::trap(
                    "tuple/index",
                    format!("a tuple of {} fields has no field {index}", items.len()),
                )),
                other => {
                    let message = format!("only a tuple has fields, found {}", other.kind());
                    Err(Stop::trap("tuple/kind", message))
                }
            },
            Expr::MatchCast(atom, annotation) => {
                let value = self.atom(frame, atom)?;
                let function = frame.function;
                let span = function.var(var).span;
                let mut binder =
                    Binder::new("match_cast", &function.dims, &mut frame.dims, Binds::Lone);
                binder.value(annotation, &value, What::Value, span)?;
                binder.finish()?;
                Ok(value)
            }
            Expr::If { condition, then, otherwise } => {
                let condition = self.atom(frame, condition)?;
                self.graphs.refuse_condition(&condition)?;
                let condition = self.memory.resolve(condition)?;
                let branch = if truth(&condition)? { then } else { otherwise };
                // A variable that only one branch binds has no value after it, as in deduction:
                // a later `match_cast` binds it anew.
                let dims = frame.dims.clone();
                let result = self.body(frame, branch)?;
                frame.dims = dims;
                Ok(result)
            }
            Expr::Closure(lambda) => {
                let visible = frame.values.iter().enumerate().filter_map(|(index, value)| {
                    let id = VarId(u32::try_from(index).ok()?);
                    Some((id, value.clone()?))
                });
                Ok(Value::Closure(Arc::new(Closure {
                    function: frame.function.name.clone(),
                    var,
                    lambda: lambda.clone(),
                    values: visible.collect(),
                    dims: frame.dims.clone(),
                })))
            }
        }
    }

    fn call_expr(
        &mut self,
        frame: &mut Frame<'m>,
        callee: &Callee,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Result<Value, Stop> {
        let values = args.iter().map(|arg| self.atom(frame, arg)).collect::<Result<Vec<_>, _>>()?;
        match callee {
            Callee::Operator(name) => {
                let keywords = attrs
                    .iter()
                    .map(|(key, atom)| Ok((key.clone(), self.atom(frame, atom)?)))
                    .collect::<Result<Vec<_>, Stop>>()?;
                let mut row = lookup(name)
                    .ok_or_else(|| Stop::Unsupported(format!("the operator `{name}`")))?;
                let (mut args, mut values) = (args, values);
                let checks = only_checks(row);
                if let Some(named) = called_by_name(row, args.first()) {
                    (row, args) = (named, &args[1..]);
                    values.remove(0);
                }
                if !checks {
                    self.graphs.refuse(row)?;
                }
                refuse_computed_negatives(row, args, attrs, &values, &keywords)?;
                if checks {
                    return check_constraints(row, values, Some(self.module));
                }
                let limits = self.options.limits.clone();
                let (mut values, mut keywords) = (values, keywords);
                if row.reads_elements() {
                    values = self.resolve_all(values)?;
                    let (names, given): (Vec<_>, Vec<_>) = keywords.into_iter().unzip();
                    keywords = names.into_iter().zip(self.resolve_all(given)?).collect();
                }
                let shapes = self.options.observer.is_some().then(|| shapes_of(&values));
                let callee = (observer::Callee::Operator, row.name);
                self.observed(callee, shapes, |run| {
                    apply(row, values, keywords, &limits, Some(run))
                })
            }
            Callee::Global(name) if self.module.tensor_program(name).is_some() => {
                self.run_in_place(frame, name, args, values)
            }
            Callee::Global(name) => self.call_function(name, values),
            Callee::Var(var) => {
                let function = self.variable(frame, *var)?;
                let info = frame.function.var(*var);
                match &info.annotation {
                    Some(Annotation::Callable(Some(signature))) => {
                        self.call_declared(frame, signature, &function, values, info.span)
                    }
                    _ => self.call_value(&function, values),
                }
            }
        }
    }

    fn resolve_all(&self, values: Vec<Value>) -> Result<Vec<Value>, Stop> {
        values.into_iter().map(|value| self.memory.resolve(value)).collect()
    }

    /// A call through a variable whose signature the text declares: nothing has compared that
    /// signature with the function's own, so arguments and result are held against it here.
    fn call_declared(
        &mut self,
        frame: &Frame<'m>,
        signature: &Signature,
        function: &Value,
        args: Vec<Value>,
        span: Span,
    ) -> Result<Value, Stop> {
        if args.len() != signature.params.len() {
            let (expected, found) = (signature.params.len(), args.len());
            let message = format!("the function takes {expected} arguments, found {found}");
            return Err(Stop::trap("call/arguments", message));
        }
        let mut dims = frame.dims.clone();
        let mut binder = Binder::new("call", &frame.function.dims, &mut dims, Binds::Lone);
        for (index, (param, arg)) in signature.params.iter().zip(&args).enumerate() {
            binder.value(param, arg, What::Argument(index + 1), span)?;
        }
        binder.finish()?;
        let result = self.call_value(function, args)?;
        let mut binder = Binder::new("call", &frame.function.dims, &mut dims, Binds::Nothing);
        binder.value(&signature.result, &result, What::Result, span)?;
        binder.finish()?;
        Ok(result)
    }

    pub(super) fn call_value(&mut self, function: &Value, args: Vec<Value>) -> Result<Value, Stop> {
        match function {
            Value::Global(name) => self.call_function(name, args),
            Value::Closure(closure) => self.call_closure(closure, args),
            Value::Partial(partial) => {
                let args = args.into_iter().chain(partial.last.iter().cloned()).collect();
                self.call_value(&partial.function, args)
            }
            other => {
                let message = format!("only a function is called, found {}", other.kind());
                Err(Stop::trap("call/kind", message))
            }
        }
    }

    fn variable(&self, frame: &Frame<'m>, var: VarId) -> Result<Value, Stop> {
        let value = frame.values[var.0 as usize].clone();
        value.ok_or_else(|| {
            let name = &frame.function.var(var).name;
            Stop::trap("variable/unbound", format!("`{name}` has no value here"))
        })
    }

    pub(super) fn atom(&self, frame: &Frame<'m>, atom: &Atom) -> Result<Value, Stop> {
        let all = |items: &[Atom]| -> Result<Vec<Value>, Stop> {
            let values =
                items.iter().map(|item| self.atom(frame, item)).collect::<Result<_, _>>()?;
            within_fields(values)
        };
        Ok(match atom {
            Atom::Var(var) => self.variable(frame, *var)?,
            Atom::Global(name) => Value::Global(name.clone()),
            Atom::Dim(dim) => Value::int(eval_dim(frame, dim)?),
            Atom::Float(value) => Value::Prim(DType::F64, Number::Float(*value)),
            Atom::Bool(value) => Value::Prim(DType::Bool, Number::Int((*value).into())),
            Atom::Str(text) => Value::Str(text.clone()),
            Atom::None => Value::None,
            Atom::Constant(constant) => Value::Tensor(constant_tensor(constant)),
            Atom::External(external) => {
                let found = self.options.externals.get(&external.name).cloned();
                Value::Tensor(found.ok_or_else(|| {
                    let message = format!("no value is given for the constant `{}`", external.name);
                    Stop::trap("param/missing", message)
                })?)
            }
            Atom::Tuple(items) | Atom::List(items) => Value::Tuple(all(items)?),
            Atom::Shape(dims) => Value::Shape(
                dims.iter().map(|dim| shape_dim(frame, dim)).collect::<Result<_, _>>()?,
            ),
            Atom::Annotation(annotation) => {
                let mut failed = None;
                let evaluated = annotation.map_dims(&mut |dim| match eval_dim(frame, dim) {
                    Ok(value) => Dim::Int(value),
                    Err(stop) => {
                        failed.get_or_insert(stop);
                        dim.clone()
                    }
                });
                failed.map_or(Ok(()), Err)?;
                Value::Annotation(Arc::new(evaluated))
            }
        })
    }
}

/// A dim that the program computes never means "what is left over", even when it is -1.
fn refuse_computed_negatives(
    row: &'static Operator,
    args: &[Atom],
    attrs: &[(Name, Atom)],
    values: &[Value],
    keywords: &[(Name, Value)],
) -> Result<(), Stop> {
    let Some(at) = row.params.iter().position(|param| param.kind == Kind::InferredShape) else {
        return Ok(());
    };
    let named = attrs.iter().position(|(name, _)| row.params[at].is_called(name));
    let written = args.get(at).or(named.map(|index| &attrs[index].1));
    let evaluated = values.get(at).or(named.map(|index| &keywords[index].1));
    let (Some(Atom::Tuple(items) | Atom::List(items)), Some(Value::Tuple(dims))) =
        (written, evaluated)
    else {
        return Ok(());
    };
    for (item, dim) in items.iter().zip(dims) {
        let written = match item {
            Atom::Dim(written @ (Dim::Var(_) | Dim::Op(..))) => format!("`{written}` = "),
            Atom::Var(_) => String::new(),
            _ => continue,
        };
        if let Value::Prim(_, Number::Int(value)) = dim
            && *value < 0
        {
            let message = format!("a dim may not be negative, found {written}{value}");
            return Err(Stop::trap(format!("{}/C1", row.short_name()), message));
        }
    }
    Ok(())
}

fn eval_dim(frame: &Frame<'_>, dim: &Dim) -> Result<i64, Stop> {
    dim.eval(&|name| frame.dims.get(name).map(|bound: &BoundDim| bound.value))
        .map_err(|error| Stop::trap("dim/value", error.to_string()))
}

/// A dim of a shape value, which may not be negative.
fn shape_dim(frame: &Frame<'_>, dim: &Dim) -> Result<i64, Stop> {
    let value = eval_dim(frame, dim)?;
    if value < 0 {
        let message = format!("a dim may not be negative, found `{dim}` = {value}");
        return Err(Stop::trap("shape/negative", message));
    }
    Ok(value)
}

/// A condition: a bool scalar.
fn truth(value: &Value) -> Result<bool, Stop> {
    match value {
        Value::Prim(DType::Bool, Number::Int(value)) => Ok(*value != 0),
        Value::Tensor(tensor) if tensor.dtype() == DType::Bool && tensor.rank() == 0 => {
            if tensor.undefined_elements().is_some() {
                let message = "the condition is a tensor that nothing has written";
                return Err(Stop::trap("undefined/read", message));
            }
            Ok(tensor.number(0) == Number::Int(1))
        }
        other => {
            let message = format!("a condition is a bool scalar, found `{}`", other.annotation());
            Err(Stop::trap("if/kind", message))
        }
    }
}

/// The tensor that a constant of the text stands for.
#[must_use]
pub fn constant_tensor(constant: &Constant) -> Tensor {
    match &constant.data {
        Literals::Float(values) => {
            Tensor::from_floats(constant.dtype, array(&constant.shape, values.clone()))
        }
        Literals::Int(values) => {
            Tensor::from_ints(constant.dtype, array(&constant.shape, values.clone()))
        }
    }
}

/// Fields of a tuple, those of tuples in it included: a tuple of the same tuple twice doubles them
/// with every line of the text.
const MAX_FIELDS: usize = 1 << 16;

fn within_fields(values: Vec<Value>) -> Result<Vec<Value>, Stop> {
    fn count(value: &Value) -> usize {
        match value {
            Value::Tuple(items) => items.iter().map(count).sum::<usize>() + 1,
            _ => 1,
        }
    }
    if values.iter().map(count).sum::<usize>() <= MAX_FIELDS {
        return Ok(values);
    }
    let detail = format!("a tuple of more than {MAX_FIELDS} fields, those of its fields included");
    Err(Stop::Exhausted { resource: "memory", detail })
}
