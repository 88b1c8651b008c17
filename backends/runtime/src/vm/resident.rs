//! Host functions that leave tensors where kernels hold them, such as collectives of devices. What they read is not brought to the
//! machine. What they make lies in a storage of its own, so it may be held elsewhere until [`crate::Kernels::settle`].

use super::Run;
use super::kernel_call::Source;
use super::memory::{Placed, Storage};
use crate::block::Pool;
use crate::dtype::{DType, dense_bytes};
use crate::instruction::{Operand as Given, Text};
use crate::kernels::{Access, TensorArg};
use crate::observer::{Callee, ObservedCall, Watch};
use crate::stop::{Span, Stop};
use crate::tensor::{Tensor, Written};
use crate::value::{Kept, Machine, Value};
use std::cell::Cell;
use std::sync::Arc;

/// What a [`ResidentFunction`] is called with.
#[derive(Debug)]
pub struct ResidentCall<'r> {
    /// Positional arguments, in order.
    pub args: Vec<Operand>,
    /// Those that are passed by name.
    pub keywords: Vec<(String, Operand)>,
    /// The function of the program that calls.
    pub function: String,
    /// The place of the call in the source.
    pub span: Span,
    pool: &'r Arc<Pool>,
    storages: Cell<u64>,
}

/// A function that the embedder registers for calls by a name; `None` leaves a call to the host function of this name.
pub type ResidentFunction =
    Box<dyn Fn(&ResidentCall<'_>) -> Option<Result<Operand, Stop>> + Send + Sync>;

/// A value that such a function takes or gives.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A value that is no tensor.
    Value(Value),
    /// A tensor, wherever kernels hold it.
    Tensor(Resident),
}

/// A tensor of a run that is read only.
#[derive(Clone, Debug)]
pub struct Resident(Source);

/// A new tensor, of which nothing is written.
#[derive(Debug)]
pub struct Blank(Placed);

impl ResidentCall<'_> {
    /// A tensor in a storage of its own.
    ///
    /// # Errors
    /// When the dims are none, or there is no memory.
    pub fn blank(&self, dtype: DType, shape: &[i64]) -> Result<Blank, Stop> {
        let bytes = dense_bytes(dtype, shape)
            .ok_or_else(|| Stop::Unsupported(format!("{shape:?} is no shape of a tensor")))?;
        let number = self.storages.get();
        self.storages.set(number + 1);
        let whole = i64::try_from(bytes).unwrap_or(i64::MAX);
        let storage = Arc::new(Storage::new(self.pool, number, whole, dtype)?);
        storage.place(0..bytes, dtype, shape.into()).map(Blank)
    }
}

impl Resident {
    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.0.signature().0
    }

    /// The extents, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        self.0.signature().1
    }

    /// The first element that nothing has written.
    #[must_use]
    pub fn first_unwritten(&self) -> Option<usize> {
        match self.0.written() {
            Written::All => None,
            Written::None => self.shape().iter().all(|&extent| extent > 0).then_some(0),
            Written::Some(map) => map.iter().position(|&written| written == 0),
        }
    }

    /// As a kernel reads it.
    ///
    /// # Errors
    /// When its bytes were released or overwritten.
    pub fn reading(&self) -> Result<TensorArg<'_>, Stop> {
        if let Source::Placed(placed) = &self.0 {
            placed.readable()?;
        }
        self.0.lent(Access::Read)
    }
}

impl Blank {
    /// As a kernel writes it.
    ///
    /// # Errors
    /// When its bytes were released.
    pub fn writing<R>(&mut self, write: impl FnOnce(&TensorArg<'_>) -> R) -> Result<R, Stop> {
        let source = Source::Placed(self.0.clone());
        let lent = source.lent(Access::ReadWrite)?;
        Ok(write(&lent))
    }

    /// The tensor, of which everything was written by somebody of this name.
    #[must_use]
    pub fn filled(self, by: &str) -> Resident {
        self.0.wrote(&by.into(), Written::All);
        Resident(Source::Placed(self.0))
    }
}

impl From<Operand> for Value {
    fn from(operand: Operand) -> Self {
        match operand {
            Operand::Value(value) => value,
            Operand::Tensor(Resident(Source::Placed(placed))) => Self::from(placed),
            Operand::Tensor(Resident(
                Source::Own(tensor) | Source::Staged(_, tensor) | Source::Copied(tensor, _),
            )) => Self::Tensor(tensor),
        }
    }
}

impl From<Tensor> for Operand {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(Resident(Source::Own(tensor)))
    }
}

impl Run<'_> {
    /// Calls the function that leaves tensors where they are, if there is one of this name and it takes the call.
    pub(super) fn call_resident(
        &mut self,
        name: Text,
        args: &[Given],
        keywords: &[(Text, Given)],
    ) -> Option<Result<Value, Stop>> {
        let (module, name) = (self.module, self.text(name));
        let function = module.residents.get(name)?;
        let args = args.iter().map(|&given| self.left(given)).collect::<Result<Vec<_>, _>>();
        let keywords = keywords
            .iter()
            .map(|&(key, given)| Ok((self.text(key).to_owned(), self.left(given)?)))
            .collect::<Result<Vec<_>, Stop>>();
        let (args, keywords) = match (args, keywords) {
            (Ok(args), Ok(keywords)) => (args, keywords),
            (Err(stop), _) | (_, Err(stop)) => return Some(Err(stop)),
        };
        let caller = self.frames.last().map_or("", |frame| frame.function.name.as_str());
        let (function_name, span, pool) = (caller.to_owned(), self.span(), self.pool);
        let storages = Cell::new(self.storages);
        let call = ResidentCall { args, keywords, function: function_name, span, pool, storages };
        let watch = Watch::start(module.observer.as_deref());
        let result = function(&call);
        if result.is_some() {
            watch.stop(|start, duration| ObservedCall {
                callee: Callee::Host,
                name,
                shapes: call.args.iter().filter_map(Operand::shape).collect(),
                integers: &[],
                span,
                start,
                duration,
            });
        }
        self.storages = call.storages.get();
        result.map(|result| result.map(Value::from))
    }

    /// A value as it is, but tensors whose elements lie askew, of which kernels read a copy.
    fn left(&self, operand: Given) -> Result<Operand, Stop> {
        Ok(match self.given(operand)? {
            Value::Machine(Machine(Kept::Placed(placed))) if placed.is_aligned() => {
                Operand::Tensor(Resident(Source::Placed(placed.clone())))
            }
            Value::Machine(Machine(Kept::Placed(placed))) => {
                self.settle(placed)?;
                placed.copied(self.pool)?.into()
            }
            Value::Tensor(tensor) => tensor.clone().into(),
            other => Operand::Value(other.clone()),
        })
    }
}

impl Operand {
    fn shape(&self) -> Option<&[i64]> {
        match self {
            Self::Tensor(tensor) => Some(tensor.shape()),
            Self::Value(_) => None,
        }
    }
}
