//! What a row's `eval` sees: the values of its operands, the deduced result, and limits.

use super::{Infer, Operator};
use crate::memory::Memory;
use crate::ranks::{Alike, Exchange};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;

/// Evaluation of one call. `infer` has accepted the operands before.
pub struct Eval<'a> {
    /// The row.
    pub row: &'static Operator,
    /// One a parameter, then the rest.
    pub values: &'a [Value],
    /// What `infer` deduced from these very values: the dims of the result are numbers, except
    /// where they depend on elements.
    pub out: &'a Annotation,
    /// How much may be allocated.
    pub limits: &'a Limits,
}

/// Resource limits of a run.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes that one tensor may take.
    pub tensor_bytes: u64,
    /// Bytes that the tensors in use may take together.
    pub total_bytes: u64,
    /// Bindings and tensor-program statements that may be executed.
    pub steps: u64,
    /// Depth of calls.
    pub call_depth: usize,
}

impl Default for Limits {
    /// 4 GiB a tensor, 8 GiB together, no practical limit on steps, 1,000 nested calls.
    fn default() -> Self {
        Self { tensor_bytes: 4 << 30, total_bytes: 8 << 30, steps: u64::MAX, call_depth: 1000 }
    }
}

/// What the interpreter does for rows that need more than values.
pub trait Machine {
    /// The program that runs.
    fn module(&self) -> &Module;

    /// Calls a graph function or closure.
    ///
    /// # Errors
    /// Whatever stops the callee.
    fn call(&mut self, function: &Value, args: Vec<Value>) -> Result<Value, Stop>;

    /// Runs a tensor program on input tensors, with `outputs` as the destinations' initial
    /// contents and `scalars` as its extra parameters; gives the outputs as written.
    ///
    /// # Errors
    /// Traps of the program.
    fn run_tensor_program(
        &mut self,
        name: &str,
        inputs: Vec<Tensor>,
        outputs: Vec<Tensor>,
        scalars: Vec<i64>,
    ) -> Result<Vec<Tensor>, Stop>;

    /// Calls a function of the registry of named reference functions; `outputs` are the declared
    /// results of a destination-passing call.
    ///
    /// # Errors
    /// When there is no such function, or it refuses its operands.
    fn call_library(
        &mut self,
        name: &str,
        args: &[Value],
        outputs: Option<&[TensorType]>,
    ) -> Result<Value, Stop>;

    /// Calls a function of the module and records what it launches, or replays that.
    ///
    /// # Errors
    /// Whatever stops the callee, and when a replay would not be what the function does.
    fn run_graph(&mut self, function: &Value, args: Vec<Value>) -> Result<Value, Stop>;

    /// What a function without parameters gave when it was called the first time.
    ///
    /// # Errors
    /// Whatever stops the callee.
    fn static_memory(&mut self, function: &Value) -> Result<Value, Stop>;

    /// The storages of the run.
    fn memory(&mut self) -> &mut Memory;

    /// Shows a line to the user.
    fn print(&mut self, text: &str);

    /// Takes part in a collective; `alike` looks at what every rank of the group passes.
    ///
    /// # Errors
    /// When this run has no other ranks, or they call something else.
    fn exchange(&mut self, exchange: Exchange, _alike: &Alike<'_>) -> Result<Tensor, Stop> {
        exchange.alone()
    }
}

/// The trap of an operator that reads an element which nothing has written.
#[must_use]
pub fn undefined_read(row: &Operator, element: usize, param: &str) -> Stop {
    let message =
        format!("`{}` reads element {element} of `{param}`, which nothing has written", row.name);
    Stop::trap("undefined/read", message)
}

impl Eval<'_> {
    /// The value of a parameter.
    #[must_use]
    pub fn value(&self, param: &str) -> &Value {
        &self.values[self.row.param(param)]
    }

    /// The values beyond the named parameters.
    #[must_use]
    pub fn rest(&self) -> &[Value] {
        &self.values[self.row.params.len() - 1..]
    }

    /// A tensor operand, every element of which is defined.
    ///
    /// # Errors
    /// The trap `undefined/read` when an element was never written.
    pub fn tensor(&self, param: &str) -> Result<&Tensor, Stop> {
        self.readable(self.tensor_as_it_is(param), param)
    }

    /// A tensor operand, its undefined elements included.
    ///
    /// # Panics
    /// When the operand is no tensor: `infer` has to see to that.
    #[must_use]
    pub fn tensor_as_it_is(&self, param: &str) -> &Tensor {
        match self.value(param) {
            Value::Tensor(tensor) => tensor,
            other => panic!(
                "invariant: infer of `{}` accepts only a tensor as `{param}`, found {}",
                self.row.name,
                other.kind()
            ),
        }
    }

    /// As [`Eval::tensor`], or `None` when the operand is `None`.
    ///
    /// # Errors
    /// As [`Eval::tensor`].
    pub fn optional_tensor(&self, param: &str) -> Result<Option<&Tensor>, Stop> {
        if self.is_none(param) { Ok(None) } else { self.tensor(param).map(Some) }
    }

    /// The tensors of a tuple operand, every element of which is defined.
    ///
    /// # Errors
    /// As [`Eval::tensor`].
    ///
    /// # Panics
    /// When the operand is no tuple of tensors: `infer` has to see to that.
    pub fn tensors(&self, param: &str) -> Result<Vec<&Tensor>, Stop> {
        let Value::Tuple(items) = self.value(param) else {
            panic!("invariant: infer of `{}` accepts only a tuple as `{param}`", self.row.name)
        };
        let tensors = items.iter().map(|item| match item {
            Value::Tensor(tensor) => self.readable(tensor, param),
            _ => panic!("invariant: infer of `{}` accepts only tensors", self.row.name),
        });
        tensors.collect()
    }

    fn readable<'t>(&self, tensor: &'t Tensor, param: &str) -> Result<&'t Tensor, Stop> {
        let undefined = tensor.undefined_elements().and_then(|mask| mask.iter().position(|&u| u));
        undefined.map_or(Ok(tensor), |position| Err(undefined_read(self.row, position, param)))
    }

    /// Typed access to attributes: the same accessors as in deduction, on these values.
    ///
    /// # Panics
    /// In `read` or after it when `infer` of the row did not check the attribute.
    fn attribute<T>(&self, read: impl FnOnce(&Infer) -> Result<T, super::Reject>) -> T {
        let operands: Vec<_> = self.values.iter().map(super::Operand::of_value).collect();
        let infer = Infer {
            row: self.row,
            operands: &operands,
            facts: &mut crate::concrete::Concrete,
            obligations: Vec::new(),
            module: None,
        };
        read(&infer).unwrap_or_else(|reject| {
            panic!("invariant: infer of `{}` checks this: {}", self.row.name, reject.message)
        })
    }

    /// A list of integers (one integer stands for a list of it).
    #[must_use]
    pub fn ints(&self, param: &str) -> Vec<i64> {
        self.attribute(|infer| infer.ints(param))
    }

    /// An integer.
    #[must_use]
    pub fn int(&self, param: &str) -> i64 {
        self.attribute(|infer| infer.int(param))
    }

    /// A float.
    #[must_use]
    pub fn float(&self, param: &str) -> f64 {
        self.attribute(|infer| infer.float(param))
    }

    /// `True` or `False`.
    #[must_use]
    pub fn bool(&self, param: &str) -> bool {
        self.attribute(|infer| infer.bool(param))
    }

    /// A string.
    #[must_use]
    pub fn str(&self, param: &str) -> Name {
        self.attribute(|infer| infer.str(param))
    }

    /// True when the operand is `None`.
    #[must_use]
    pub fn is_none(&self, param: &str) -> bool {
        matches!(self.value(param), Value::None)
    }

    /// Dtype and dims of the result, which is one tensor with dims that do not depend on elements.
    ///
    /// # Errors
    /// `Exhausted` when it is larger than a tensor may be.
    ///
    /// # Panics
    /// When the result is something else.
    pub fn out_tensor(&self) -> Result<(DType, Vec<usize>), Stop> {
        self.out_shape(self.out)
    }

    /// The same of the `index`-th result of a tuple.
    ///
    /// # Errors
    /// As [`Eval::out_tensor`].
    ///
    /// # Panics
    /// As [`Eval::out_tensor`].
    pub fn out_field(&self, index: usize) -> Result<(DType, Vec<usize>), Stop> {
        match self.out {
            Annotation::Tuple(fields) => self.out_shape(&fields[index]),
            other => panic!("invariant: the result of `{}` is a tuple: {other}", self.row.name),
        }
    }

    fn out_shape(&self, annotation: &Annotation) -> Result<(DType, Vec<usize>), Stop> {
        let known = annotation.as_tensor().and_then(|tensor| {
            let dims = tensor.extents.dims()?.iter().map(relax_syntax::dim::Dim::as_int);
            Some((tensor.dtype?, dims.collect::<Option<Vec<_>>>()?))
        });
        let Some((dtype, dims)) = known else {
            panic!(
                "invariant: `{}` deduces dtype and dims at run time: {annotation}",
                self.row.name
            )
        };
        Ok((dtype, self.checked_shape(&dims, dtype)?))
    }

    /// Dims as a shape that may be allocated.
    ///
    /// # Errors
    /// A trap for a negative dim, `Exhausted` when it is larger than a tensor may be.
    pub fn checked_shape(&self, dims: &[i64], dtype: DType) -> Result<Vec<usize>, Stop> {
        self.limits.checked_shape(dims, dtype)
    }

    /// A trap under a constraint of the row (one that depends on elements).
    ///
    /// # Panics
    /// When the row has no such constraint: a mistake in the row.
    pub fn trap(&self, constraint: &'static str, message: impl Into<String>) -> Stop {
        let known = self.row.constraints.iter().any(|c| c.id == constraint);
        assert!(
            known,
            "invariant: `{}` names its own constraints, not {constraint}",
            self.row.name
        );
        Stop::trap(format!("{}/{constraint}", self.row.short_name()), message)
    }

    /// The result of a row that gives one tensor of floats.
    ///
    /// # Errors
    /// Never; for use at the end of an `eval`.
    pub fn floats(&self, dtype: DType, values: ndarray::ArrayD<f64>) -> Result<Value, Stop> {
        Ok(Value::Tensor(Tensor::from_floats(dtype, values)))
    }
}

impl Limits {
    /// Dims as a shape that may be allocated.
    ///
    /// # Errors
    /// A trap for a negative dim, `Exhausted` when it is larger than a tensor may be.
    pub fn checked_shape(&self, dims: &[i64], dtype: DType) -> Result<Vec<usize>, Stop> {
        let mut shape = Vec::with_capacity(dims.len());
        for &dim in dims {
            shape.push(usize::try_from(dim).map_err(|_| {
                Stop::trap("shape/negative", format!("a dim may not be negative, found {dim}"))
            })?);
        }
        // A 0 among the dims makes the tensor empty, but ndarray multiplies the others too.
        let mut nonzero = shape.iter().filter(|&&dim| dim != 0).map(|&dim| dim as u64);
        let product = nonzero.try_fold(1u64, u64::checked_mul);
        let bytes = product.and_then(|n| n.checked_mul(dtype.size() as u64));
        match bytes {
            Some(bytes) if bytes <= self.tensor_bytes => Ok(shape),
            _ => Err(Stop::Exhausted {
                resource: "memory",
                detail: format!(
                    "a {dtype} tensor of shape {dims:?} is larger than the limit of {} bytes",
                    self.tensor_bytes
                ),
            }),
        }
    }
}
