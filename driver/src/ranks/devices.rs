//! All ranks of a distributed program in this process, each on a device of its own: a machine for each rank, in a thread of its own. The ranks
//! agree on collectives as interpreted ones do, without elements ([`relax_semantics::ranks`]). Elements go from device to device.

use super::{RanksError, described, on_each};
use crate::differential::called_with;
use relax_cuda::{Collective, Group, RankDevice};
use relax_lower::program::RUN_OPERATOR;
use relax_reference::{
    Printed, dtype_to_semantics, register, span_to_semantics, stop_to_machine, stop_to_semantics,
};
use relax_runtime::program::Numerics;
use relax_runtime::{self as machine, Module, Operand, Resident, ResidentCall};
use relax_semantics::ops::{
    self, Combined, Described, Eval, Movement, Operator, Passed, collective_of_ranks, is_of_ranks,
    lookup,
};
use relax_semantics::ranks::{Alike, Exchange, Mesh, Place, RanRank, Rank};
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::annotation::Reduction;
use relax_syntax::dtype::DType;
use std::sync::{Arc, Mutex, PoisonError};

/// The local program, on the device of a rank.
pub struct LoadedRank {
    /// With kernels that the device runs.
    pub module: Module,
    /// The device of this rank.
    pub device: Arc<dyn RankDevice>,
    /// Whether sums of floats keep the order of the ranks.
    pub numerics: Numerics,
}

/// The local program of a mesh, on a device for each rank.
pub struct DeviceRanks {
    mesh: Mesh,
    ranks: Vec<OneRank>,
    /// Held by the call that runs: each machine takes part in one at a time.
    calls: Mutex<()>,
}

/// This rank, while a call runs.
type Running = Arc<Mutex<Option<Rank<Described>>>>;

struct OneRank {
    module: Module,
    device: Arc<dyn RankDevice>,
    printed: Printed,
    running: Running,
}

/// What collectives of a rank need.
struct Around {
    device: Arc<dyn RankDevice>,
    running: Running,
    mesh: Mesh,
    is_exact: bool,
    limits: ops::Limits,
}

impl DeviceRanks {
    /// Of the local program that was loaded for each rank of a mesh.
    ///
    /// # Errors
    /// When the tensor programs that operators are called with cannot be read.
    pub fn of(
        loaded: Vec<LoadedRank>,
        mesh: &Mesh,
        limits: &ops::Limits,
    ) -> Result<Self, RanksError> {
        let rank = |LoadedRank { mut module, device, numerics }: LoadedRank| {
            let (printed, running) = (Printed::default(), Running::default());
            register(&mut module, limits, &printed).map_err(RanksError::Programs)?;
            let around = Around {
                device: Arc::clone(&device),
                running: Arc::clone(&running),
                mesh: mesh.clone(),
                is_exact: numerics == Numerics::Exact,
                limits: limits.clone(),
            };
            module.register_resident(RUN_OPERATOR, move |call| {
                Some(around.computed(call)?.map_err(stop_to_machine))
            });
            Ok(OneRank { module, device, printed, running })
        };
        let ranks = loaded.into_iter().map(rank).collect::<Result<_, RanksError>>()?;
        Ok(Self { mesh: mesh.clone(), ranks, calls: Mutex::new(()) })
    }

    /// Calls a function on every rank, with the arguments of each. Calls from several threads run one after the other.
    ///
    /// # Errors
    /// Where there is no such function, or the mesh has too many workers.
    ///
    /// # Panics
    /// Where there is not one list of arguments for each rank.
    pub fn call(&self, function: &str, given: Vec<Vec<Value>>) -> Result<Vec<RanRank>, Stop> {
        let _one = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        on_each(&self.mesh, &self.ranks, given, |of_rank, rank, arguments| {
            of_rank.called(rank, function, arguments)
        })
    }
}

impl OneRank {
    fn called(&self, rank: Rank<Described>, name: &str, arguments: Vec<machine::Value>) -> RanRank {
        let _told = TellsOfPanic(&*self.device);
        self.set(Some(rank));
        let result = called_with(&self.module, name, arguments);
        // What the device did wrong, or another one, is known when it is done; what other ranks wait for is done too.
        let finished = self.device.finish().map_err(|error| Stop::Unsupported(error.to_string()));
        self.set(None);
        let result = result.and_then(|value| finished.map(|()| value));
        RanRank { result, printed: self.printed.take() }
    }

    fn set(&self, rank: Option<Rank<Described>>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = rank;
    }
}

/// Other ranks may wait on their devices for one that panics.
struct TellsOfPanic<'d>(&'d dyn RankDevice);

impl Drop for TellsOfPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("it panicked");
        }
    }
}

/// A tensor of a rank, wherever its device has it, and how others are made of it.
#[derive(Clone)]
struct Held<'c> {
    tensor: Resident,
    /// Whether it was made by this call.
    is_new: bool,
    call: &'c ResidentCall<'c>,
    device: &'c dyn RankDevice,
}

impl Held<'_> {
    fn described(&self) -> Described {
        Described { dtype: self.dtype(), dims: self.dims() }
    }

    /// Rows along an axis, as another tensor with these dims.
    fn copied(&self, dims: &[i64], from: (usize, i64)) -> Result<Self, Stop> {
        let mut made = self.call.blank(self.tensor.dtype(), dims).map_err(stop_to_semantics)?;
        let x = self.tensor.reading().map_err(stop_to_semantics)?;
        made.writing(|out| self.device.rows(&x, out, from))
            .map_err(stop_to_semantics)?
            .map_err(|error| of_device(&error))?;
        Ok(Self { tensor: made.filled("a copy"), is_new: true, ..self.clone() })
    }

    /// The same elements in memory of their own: a plan of memory has that of the operand for others.
    fn owned(self) -> Result<Self, Stop> {
        if self.is_new { Ok(self) } else { self.copied(&self.dims(), (0, 0)) }
    }
}

fn of_device(error: &relax_cuda::Error) -> Stop {
    Stop::Unsupported(error.to_string())
}

impl Passed for Held<'_> {
    fn dtype(&self) -> DType {
        dtype_to_semantics(self.tensor.dtype())
    }

    fn dims(&self) -> Vec<i64> {
        self.tensor.shape().to_vec()
    }

    fn rows(&self, axis: usize, begin: i64, count: i64) -> Result<Self, Stop> {
        let mut dims = self.dims();
        dims[axis] = count;
        self.copied(&dims, (axis, begin))
    }

    fn joined(parts: Vec<Self>, _axis: usize) -> Result<Self, Stop> {
        only(parts)
    }

    fn reduced(parts: Vec<Self>, _reduction: Reduction) -> Result<Self, Stop> {
        only(parts)
    }
}

/// That of a group of one rank: those of others are on their devices.
fn only(mut parts: Vec<Held<'_>>) -> Result<Held<'_>, Stop> {
    match (parts.pop(), parts.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => Err(Stop::Unsupported("tensors of several devices".to_owned())),
    }
}

impl Around {
    /// The result of an operator of ranks; `None` for other operators, and where nothing was written to some elements of a tensor that no
    /// other rank gets: the reference library keeps account of them.
    fn computed(&self, call: &ResidentCall<'_>) -> Option<Result<Operand, Stop>> {
        let Some(Operand::Value(machine::Value::Str(name))) = call.args.first() else {
            return None;
        };
        let row = lookup(name).filter(|row| is_of_ranks(row))?;
        let keywords = call.keywords.iter().map(|(_, value)| value);
        let mut tensors = call.args.iter().chain(keywords).filter_map(|value| match value {
            Operand::Tensor(tensor) => Some(tensor),
            Operand::Value(_) => None,
        });
        let x = tensors.next()?;
        match x.first_unwritten() {
            Some(_) if row.params.iter().all(|param| param.name != "mesh_dim") => return None,
            Some(element) => return Some(Err(ops::undefined_read(row, element, "x"))),
            None => {}
        }
        Some(self.exchanged(row, call, x).map(Operand::Tensor))
    }

    fn exchanged<'c>(
        &'c self,
        row: &'static Operator,
        call: &'c ResidentCall<'c>,
        x: &Resident,
    ) -> Result<Resident, Stop> {
        let value = |operand: &Operand| match operand {
            Operand::Value(value) => Ok(value.clone()),
            Operand::Tensor(tensor) => Err((tensor.dtype(), tensor.shape().to_vec())),
        };
        let args: Vec<_> = call.args.iter().skip(1).map(value).collect();
        let keywords: Vec<_> =
            call.keywords.iter().map(|(key, operand)| (key.clone(), value(operand))).collect();
        let (values, out) = described(row, &args, &keywords)?;
        let eval = Eval { row, values: &values, out: &out, limits: &self.limits };
        let held = Held { tensor: x.clone(), is_new: false, call, device: &*self.device };
        let exchange = &mut |exchange: Exchange<Held<'c>>, alike: &Alike<'_>| match exchange.workers
        {
            1 => exchange.alone(),
            _ => self.exchange(&eval, exchange, alike),
        };
        collective_of_ranks(&eval, held, exchange)?.owned().map(|held| held.tensor)
    }

    fn exchange<'c>(
        &self,
        eval: &Eval,
        exchange: Exchange<Held<'c>>,
        alike: &Alike<'_>,
    ) -> Result<Held<'c>, Stop> {
        let rank = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(rank) = rank else { return exchange.alone() };
        let Exchange { what, mesh, mesh_dim, workers, rank: own, movement, tensor: held } =
            exchange;
        let (_, dims) = eval.out_tensor()?;
        let dims: Vec<i64> =
            dims.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
        let call = held.call;
        let mut made = call.blank(held.tensor.dtype(), &dims).map_err(stop_to_semantics)?;
        let x = held.tensor.reading().map_err(stop_to_semantics)?;
        let members = movement.members(workers);
        let collective = Collective {
            group: self.group(rank.worker(), mesh_dim, (workers, own), &members),
            movement: among(movement, &members),
            is_exact: self.is_exact,
        };
        let place =
            Place { function: call.function.as_str().into(), span: span_to_semantics(call.span) };
        let mut passed = Some(Exchange {
            what,
            mesh,
            mesh_dim,
            workers,
            rank: own,
            movement,
            tensor: held.described(),
        });
        let meet = &mut || {
            let again = || Stop::Unsupported("a collective is called twice".to_owned());
            let parts = rank.meet(passed.take().ok_or_else(again)?, &place)?;
            alike(&parts)?;
            Ok(parts.into_iter().map(|part| part.dims).collect())
        };
        made.writing(|out| held.device.collective(&collective, (&x, out), meet))
            .map_err(stop_to_semantics)?
            .map_err(|error| of_device(&error))??;
        Ok(Held { tensor: made.filled(eval.row.name), is_new: true, ..held })
    }

    /// The ranks that take part, of those along an axis of the mesh. What does not fit the mesh is refused when they meet.
    fn group(
        &self,
        worker: usize,
        axis: usize,
        (workers, own): (usize, usize),
        members: &[usize],
    ) -> Group {
        let fits = axis < self.mesh.extents.len();
        let along = if fits { self.mesh.group(worker, axis) } else { Vec::new() };
        let of = |member: Option<&usize>| member.and_then(|&at| along.get(at)).copied();
        let all: usize = self.mesh.extents.iter().product();
        Group {
            axis,
            first: of(members.first()).unwrap_or(worker),
            last: of(members.last()).unwrap_or(worker),
            size: members.len(),
            rank: members.iter().position(|&at| at == own).unwrap_or(own),
            groups: all / workers.max(1),
        }
    }
}

/// A movement by the numbers of ranks among those that take part.
fn among(movement: Movement, members: &[usize]) -> Movement {
    let number = |rank: usize| members.iter().position(|&at| at == rank).unwrap_or(rank);
    let combined = match movement.combined {
        Combined::Sent { source, target } => {
            Combined::Sent { source: number(source), target: target.map(number) }
        }
        other => other,
    };
    Movement { combined, ..movement }
}
