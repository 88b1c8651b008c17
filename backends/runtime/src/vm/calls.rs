//! Calls of functions, closures and host functions, and the values that come and go with them.

use super::{End, Frame, Run};
use crate::dtype::DType;
use crate::instruction::{Operand, Register, Text};
use crate::module::HostCall;
use crate::observer::{Callee, ObservedCall, Watch};
use crate::stop::Stop;
use crate::tensor_pool::TensorPool;
use crate::value::{Closure, Kept, Machine, Number, Tuple, Value};
use std::sync::Arc;

impl Run<'_> {
    /// A frame for a function of the module.
    pub(super) fn enter(
        &mut self,
        function: u32,
        args: impl ExactSizeIterator<Item = Value>,
        to: Register,
    ) -> Result<(), Stop> {
        let limit = self.limits.depth;
        if self.frames.len() >= limit {
            let detail = format!("more than {limit} calls within calls");
            return Err(Stop::Exhausted { resource: "call depth", detail });
        }
        let Some(called) = self.module.program.functions.get(function as usize) else {
            return Err(Stop::Unsupported("a function that is not there".to_owned()));
        };
        let (expected, found) = (called.params as usize, args.len());
        if expected != found {
            let message = format!("`{}` takes {expected} arguments, found {found}", called.name);
            let mut stop = Stop::trap("boundary/arguments", message);
            if let Stop::Trap(trap) = &mut stop {
                (trap.function, trap.span) = (Some(called.name.clone()), called.span);
            }
            return Err(stop);
        }
        let base = self.registers.len();
        self.registers.extend(args);
        self.registers.resize_with(base + called.registers as usize, || Value::EMPTY);
        self.frames.push(Frame { function: called, next: 0, base, to, end: End::Call });
        Ok(())
    }

    /// Says what is done with the value of the frame on top.
    pub(super) fn end_with(&mut self, end: End) {
        if let Some(frame) = self.frames.last_mut() {
            frame.end = end;
        }
    }

    /// A frame for whatever function a value is.
    pub(super) fn enter_value(
        &mut self,
        function: &Value,
        mut args: Vec<Value>,
        to: Register,
    ) -> Result<(), Stop> {
        match function {
            Value::Function(function) => self.enter(*function, args.into_iter(), to),
            Value::Closure(closure) => {
                args.extend(closure.last.items().iter().cloned());
                let function = closure.function.clone();
                self.enter_value(&function, args, to)
            }
            other => {
                let message = format!("only a function is called, found {}", other.kind());
                Err(Stop::trap("call/kind", message))
            }
        }
    }

    pub(super) fn invoke(
        &mut self,
        to: Register,
        function: Operand,
        args: Operand,
    ) -> Result<(), Stop> {
        let Value::Tuple(args) = self.given(args)? else {
            return Err(Stop::trap("invoke_closure/C1", "`args` must be a tuple"));
        };
        let args = args.items().to_vec();
        let function = self.given(function)?.clone();
        self.enter_value(&function, args, to)
    }

    pub(super) fn closure(&self, function: Operand, last: Operand) -> Result<Value, Stop> {
        let function = self.given(function)?.clone();
        let is_function = matches!(function, Value::Function(_) | Value::Closure(_));
        let Value::Tuple(last) = self.given(last)? else {
            return Err(Stop::trap("make_closure/C1", "`args` must be a tuple"));
        };
        if !is_function {
            let message = "expected a function and a tuple of arguments";
            return Err(Stop::trap("make_closure/C1", message));
        }
        Ok(Value::Closure(Arc::new(Closure::new(function, last.clone())?)))
    }

    pub(super) fn call_host(
        &mut self,
        name: Text,
        args: &[Operand],
        keywords: &[(Text, Operand)],
    ) -> Result<Value, Stop> {
        if let Some(result) = self.call_resident(name, args, keywords) {
            return result;
        }
        let name = self.text(name);
        let function = self.module.hosts.get(name).ok_or_else(|| {
            Stop::Unsupported(format!(
                "the program calls the host function `{name}`, and nobody registered one"
            ))
        })?;
        let args = args.iter().map(|&operand| self.lent(operand)).collect::<Result<Vec<_>, _>>()?;
        let keywords = keywords
            .iter()
            .map(|&(key, operand)| Ok((self.text(key).to_owned(), self.lent(operand)?)))
            .collect::<Result<Vec<_>, Stop>>()?;
        let caller = self.frames.last().map_or("", |frame| frame.function.name.as_str());
        let (caller, pool) = (caller.to_owned(), TensorPool::of(self.pool));
        let call = HostCall { args, keywords, function: caller, span: self.span(), pool };
        let watch = Watch::start(self.module.observer.as_deref());
        let result = function(&call);
        watch.stop(|start, duration| ObservedCall {
            callee: Callee::Host,
            name,
            shapes: shapes(&call),
            integers: &[],
            span: call.span,
            start,
            duration,
        });
        result
    }

    /// A value that a host function may keep.
    fn lent(&self, operand: Operand) -> Result<Value, Stop> {
        self.outside(self.given(operand)?)
    }

    fn outside(&self, value: &Value) -> Result<Value, Stop> {
        Ok(match value {
            Value::Machine(Machine(Kept::Placed(placed))) => {
                self.settle(placed)?;
                Value::Tensor(placed.copied(self.pool)?)
            }
            Value::Tuple(tuple) if holds_memory(value) => {
                let items = tuple.items().iter().map(|item| self.outside(item));
                Value::Tuple(Tuple::new(items.collect::<Result<_, _>>()?)?)
            }
            other => other.clone(),
        })
    }

    pub(super) fn field(&self, value: Operand, index: u64) -> Result<Value, Stop> {
        match self.given(value)? {
            Value::Tuple(tuple) => {
                let field = usize::try_from(index).ok().and_then(|index| tuple.items().get(index));
                field.cloned().ok_or_else(|| {
                    let fields = tuple.items().len();
                    let message = format!("a tuple of {fields} fields has no field {index}");
                    Stop::trap("tuple/index", message)
                })
            }
            other => {
                let message = format!("only a tuple has fields, found {}", other.kind());
                Err(Stop::trap("tuple/kind", message))
            }
        }
    }

    /// A condition: a bool scalar.
    pub(super) fn truth(&self, condition: Operand) -> Result<bool, Stop> {
        let value = self.given(condition)?;
        let unwritten = || {
            let message = "the condition is a tensor that nothing has written";
            Stop::trap("undefined/read", message)
        };
        match value {
            Value::Scalar(DType::Bool, Number::Int(value)) => return Ok(*value != 0),
            Value::Tensor(tensor) if tensor.dtype == DType::Bool && tensor.shape.is_empty() => {
                if !tensor.is_written() {
                    return Err(unwritten());
                }
                return Ok(tensor.bytes().first() == Some(&1));
            }
            Value::Machine(Machine(Kept::Placed(placed)))
                if placed.dtype == DType::Bool && placed.shape.is_empty() =>
            {
                self.settle(placed)?;
                let byte = placed.byte()?;
                return if placed.is_written() { Ok(byte == 1) } else { Err(unwritten()) };
            }
            _ => {}
        }
        let message = format!("a condition is a bool scalar, found `{}`", value.described());
        Err(Stop::trap("if/kind", message))
    }

    /// The elements of an integer vector as a shape.
    pub(super) fn read_shape(&self, tensor: Operand) -> Result<Value, Stop> {
        let value = self.lent(tensor)?;
        let Value::Tensor(tensor) = &value else {
            let message = format!("expected a tensor, found {}", value.kind());
            return Err(Stop::trap("tensor_to_shape/kind", message));
        };
        if let Some(element) = tensor.first_unwritten() {
            let message = format!(
                "`tensor_to_shape` reads element {element} of `expr`, which nothing has written"
            );
            return Err(Stop::trap("undefined/read", message));
        }
        let elements = tensor.bytes().chunks_exact(tensor.dtype.size());
        let dims = elements.map(|bytes| {
            let element = integer(tensor.dtype, bytes).ok_or_else(|| {
                let message = format!("a dim is an integer, found {}", tensor.dtype);
                Stop::trap("tensor_to_shape/C2", message)
            })?;
            i64::try_from(element).ok().filter(|&dim| dim >= 0).ok_or_else(|| {
                let message = format!("{element} is no dim of a shape");
                Stop::trap("tensor_to_shape/C3", message)
            })
        });
        Ok(Value::Shape(dims.collect::<Result<_, _>>()?))
    }

    pub(super) fn assert(&self, condition: Operand, message: Text) -> Result<(), Stop> {
        let holds = self.truth(condition).map_err(|stop| match stop {
            Stop::Trap(trap) if trap.id == "if/kind" => {
                let found = self.given(condition).map_or_else(|_| String::new(), Value::described);
                let message = format!("`condition` must be a bool scalar, found `{found}`");
                Stop::trap("assert_op/C1", message)
            }
            other => other,
        })?;
        if holds {
            return Ok(());
        }
        let text = self.text(message);
        let text = if text.is_empty() { "the condition is false" } else { text };
        Err(Stop::trap("assert_op/C2", text))
    }
}

/// The extents of the tensors among the arguments.
fn shapes(call: &HostCall) -> Vec<&[i64]> {
    let tensors = call.args.iter().filter_map(|value| match value {
        Value::Tensor(tensor) => Some(tensor.shape()),
        _ => None,
    });
    tensors.collect()
}

/// Whether something in a value lies in a storage.
fn holds_memory(value: &Value) -> bool {
    match value {
        Value::Machine(_) => true,
        Value::Tuple(tuple) => tuple.items().iter().any(holds_memory),
        Value::Closure(closure) => {
            holds_memory(&closure.function) || closure.last.items().iter().any(holds_memory)
        }
        _ => false,
    }
}

/// The value without the machine that made it: tensors in storages become tensors, and no storage is left
/// that a later call could write to.
pub(super) fn freed(value: &Value, run: &Run<'_>) -> Result<Value, Stop> {
    if !holds_memory(value) {
        return Ok(value.clone());
    }
    let all = |items: &[Value]| {
        Tuple::new(items.iter().map(|item| freed(item, run)).collect::<Result<Vec<_>, Stop>>()?)
    };
    match value {
        Value::Machine(Machine(Kept::Placed(placed))) => {
            run.settle(placed)?;
            Ok(Value::Tensor(placed.frozen(run.pool)?))
        }
        Value::Tuple(tuple) => Ok(Value::Tuple(all(tuple.items())?)),
        Value::Closure(closure) => {
            let (function, last) = (freed(&closure.function, run)?, all(closure.last.items())?);
            Ok(Value::Closure(Arc::new(Closure::new(function, last)?)))
        }
        other => {
            let message = format!("the result is {}, which ends with the call", other.kind());
            Err(Stop::Unsupported(message))
        }
    }
}

/// An element of an integer dtype, in the machine's byte order.
fn integer(dtype: DType, bytes: &[u8]) -> Option<i128> {
    let found = match dtype {
        DType::I8 => i8::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::I16 => i16::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::I32 => i32::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::I64 => i64::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::U8 => u8::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::U16 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::U32 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::U64 => u64::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::Bool => return None,
    };
    Some(found)
}
