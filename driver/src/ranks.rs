//! All ranks of a distributed program in this process, compiled: a machine for each rank, in a thread of its own, and collectives on
//! tensors in shared memory. The meaning of collectives, and of ranks that disagree, is that of the interpreter
//! ([`relax_semantics::ranks`]).

mod devices;
mod posted;
mod processes;
mod shared;
mod transport;

pub use devices::{DeviceRanks, LoadedRank};
pub use processes::{Counts, Processes, Refused, digest, fact};
pub use shared::Shared;
pub use transport::{Addressed, Transport};

use crate::differential::called_with;
use posted::Posted;
use relax_reference::{
    Operators, Printed, dtype_to_semantics, register_with, span_to_semantics, to_machine,
    to_semantics,
};
use relax_runtime::file::{Image, LoadError};
use relax_runtime::{self as machine, HostCall, Limits, Module};
use relax_semantics::ops::{
    self, Eval, Operator, collective_of_ranks, described_call, is_of_ranks,
};
use relax_semantics::ranks::{Alike, Exchange, Mesh, Peers, Place, RanRank, Rank, on_all};
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// The local program of a mesh, loaded once for each rank.
pub struct Ranks {
    mesh: Mesh,
    modules: Vec<OneRank>,
    /// Held by the call that runs: each machine takes part in one at a time.
    calls: Mutex<()>,
}

/// The other ranks, as one reaches them.
type OtherRanks = Arc<dyn Peers<Shared>>;

/// The local program, loaded for one rank.
pub struct OneRank {
    module: Module,
    printed: Printed,
    /// While a call runs.
    rank: Arc<Mutex<Option<OtherRanks>>>,
    posted: Arc<Posted>,
}

/// Why there are no ranks.
#[derive(Debug, Error)]
pub enum RanksError {
    /// The machine refuses the local program.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The tensor programs that operators are called with cannot be read.
    #[error("{0}")]
    Programs(String),
}

impl Ranks {
    /// Loads the compiled local program for all ranks of a mesh. Each rank has these limits for itself; where no number of threads
    /// is given, the ranks share those of the machine.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn load(
        image: &Image,
        mesh: &Mesh,
        limits: Limits,
        of_operators: &ops::Limits,
    ) -> Result<Self, RanksError> {
        Self::of_bytes(&image.to_bytes(), mesh, limits, of_operators)
    }

    /// The same of the bytes of a module file.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn of_bytes(
        bytes: &[u8],
        mesh: &Mesh,
        limits: Limits,
        of_operators: &ops::Limits,
    ) -> Result<Self, RanksError> {
        let workers: usize = mesh.extents.iter().product();
        let threads = match limits.threads {
            0 => (machine::threads(0) / workers.max(1)).max(1),
            given => given,
        };
        let modules = Module::load_several(bytes, Limits { threads, ..limits }, workers)?;
        let ready = modules.into_iter().map(|module| OneRank::of(module, of_operators));
        let modules = ready.collect::<Result<_, _>>()?;
        Ok(Self { mesh: mesh.clone(), modules, calls: Mutex::new(()) })
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
        on_each(&self.mesh, &self.modules, given, |of_rank, rank, arguments| {
            of_rank.called(Arc::new(rank), function, arguments)
        })
    }
}

/// Calls something of every rank of a mesh with its arguments.
fn on_each<M: Sync, T: Send>(
    mesh: &Mesh,
    machines: &[M],
    given: Vec<Vec<Value>>,
    call: impl Fn(&M, Rank<T>, Vec<machine::Value>) -> RanRank + Sync,
) -> Result<Vec<RanRank>, Stop> {
    assert_eq!(given.len(), machines.len(), "invariant: one list of arguments a rank");
    let given = to_machines(given).map_err(Stop::Unsupported)?;
    let given = machines.iter().zip(given).collect();
    on_all(mesh, given, |rank, (own, arguments)| call(own, rank, arguments))
}

impl OneRank {
    /// Loads the compiled local program.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn load(
        image: &Image,
        limits: Limits,
        of_operators: &ops::Limits,
    ) -> Result<Self, RanksError> {
        Self::of(Module::load_with(&image.to_bytes(), limits)?, of_operators)
    }

    /// Loads the compiled local program from where its file lies, which nobody may write into meanwhile.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn open(
        path: &Path,
        limits: Limits,
        of_operators: &ops::Limits,
    ) -> Result<Self, RanksError> {
        Self::of(Module::open(path, limits)?, of_operators)
    }

    fn of(mut module: Module, limits: &ops::Limits) -> Result<Self, RanksError> {
        let (printed, rank) = (Printed::default(), Arc::new(Mutex::new(None)));
        let posted = Arc::new(Posted::default());
        let own: Arc<Mutex<Option<OtherRanks>>> = Arc::clone(&rank);
        let (limited, beside) = (limits.clone(), Arc::clone(&posted));
        let operators: Arc<Operators> = Arc::new(move |row: &'static Operator, call: &HostCall| {
            let rank = own.lock().unwrap_or_else(PoisonError::into_inner).clone();
            computed(row, call, (rank, &beside), &limited)
        });
        let registered = register_with(&mut module, limits, &printed, Some(&operators));
        registered.map_err(RanksError::Programs)?;
        Ok(Self { module, printed, rank, posted })
    }

    /// Calls a function with the arguments of this rank. Calls are made one after the other.
    pub fn call(&self, others: OtherRanks, name: &str, arguments: &[Value]) -> RanRank {
        let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>();
        match arguments {
            Ok(arguments) => self.called(others, name, arguments),
            Err(why) => RanRank { result: Err(Stop::Unsupported(why)), printed: Vec::new() },
        }
    }

    fn called(&self, others: OtherRanks, name: &str, arguments: Vec<machine::Value>) -> RanRank {
        self.set(Some(others));
        let result = called_with(&self.module, name, arguments);
        // What the program calls first stops it, even if the machine came to something else meanwhile.
        let result = match self.posted.finish() {
            Some(stop) if !matches!(&result, Err(own) if is_same(own, &stop)) => Err(stop),
            _ => result,
        };
        self.set(None);
        RanRank { result, printed: self.printed.take() }
    }

    fn set(&self, rank: Option<OtherRanks>) {
        *self.rank.lock().unwrap_or_else(PoisonError::into_inner) = rank;
    }
}

/// The arguments of each rank as values of the machine. What ranks share is copied once, and each argument goes as it is copied.
fn to_machines(mut given: Vec<Vec<Value>>) -> Result<Vec<Vec<machine::Value>>, String> {
    let mut result: Vec<Vec<machine::Value>> = given.iter().map(|_| Vec::new()).collect();
    let count = given.iter().map(Vec::len).max().unwrap_or(0);
    for position in 0..count {
        for (rank, first) in first_with(&given, position).into_iter().enumerate() {
            let Some(value) = given[rank].get_mut(position) else { continue };
            let value = std::mem::replace(value, Value::None);
            let copy =
                if first < rank { result[first][position].clone() } else { to_machine(&value)? };
            result[rank].push(copy);
        }
    }
    Ok(result)
}

/// For each rank the first one whose tensor at a position is the same memory, or itself.
fn first_with(given: &[Vec<Value>], position: usize) -> Vec<usize> {
    let tensor = |rank: usize| match given[rank].get(position) {
        Some(Value::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    let shares = |a: usize, b: usize| tensor(a).zip(tensor(b)).is_some_and(|(a, b)| a.shares(b));
    let first = |rank: usize| (0..rank).find(|&other| shares(other, rank)).unwrap_or(rank);
    (0..given.len()).map(first).collect()
}

/// Whether both say the same of the same place. The machine may know more callers.
fn is_same(a: &Stop, b: &Stop) -> bool {
    match (a, b) {
        (Stop::Trap(a), Stop::Trap(b)) => {
            (&a.id, &a.message, a.span) == (&b.id, &b.message, b.span)
        }
        _ => false,
    }
}

/// The result of an operator of ranks; `None` for other operators, and where nothing was written to some elements of a tensor that no
/// other rank gets: the reference library keeps account of them.
fn computed(
    row: &'static Operator,
    call: &HostCall,
    (rank, posted): (Option<OtherRanks>, &Posted),
    limits: &ops::Limits,
) -> Option<Result<machine::Value, Stop>> {
    if !is_of_ranks(row) {
        return None;
    }
    let keywords = call.keywords.iter().map(|(_, value)| value);
    let mut tensors = call.args.iter().chain(keywords).filter_map(|value| match value {
        machine::Value::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    let x = tensors.next()?;
    let is_alone = row.params.iter().all(|param| param.name != "mesh_dim");
    match x.first_unwritten() {
        Some(_) if is_alone => return None,
        Some(element) => return Some(Err(ops::undefined_read(row, element, "x"))),
        None => {}
    }
    let place =
        Place { function: call.function.as_str().into(), span: span_to_semantics(call.span) };
    let x = Shared::within(x.clone(), &call.pool);
    Some(described_of(row, call).and_then(|(values, out)| {
        let eval = Eval { row, values: &values, out: &out, limits };
        if let Some(others) = rank.clone().filter(|_| !is_alone && eval.bool(ops::ASYNC)) {
            let limits = limits.clone();
            let job = move |exchange: &mut posted::Exchanging<'_>| {
                let eval = Eval { row, values: &values, out: &out, limits: &limits };
                collective_of_ranks(&eval, x, exchange)
            };
            return Ok(posted.post(Box::new(job), others, place).into());
        }
        if !is_alone && let Some(stop) = posted.settle() {
            return Err(stop);
        }
        let exchange = &mut |exchange: Exchange<Shared>, alike: &Alike<'_>| match &rank {
            Some(rank) => rank.exchange(exchange, alike, &place),
            None => exchange.alone(),
        };
        let shared = collective_of_ranks(&eval, x, exchange)?;
        Ok(machine::Value::Tensor(shared.tensor))
    }))
}

/// The operands of a call, in which tensors are given by their annotations, and the annotation of its result.
fn described_of(row: &'static Operator, call: &HostCall) -> Result<(Vec<Value>, Annotation), Stop> {
    let operand = |value: &machine::Value| match value {
        machine::Value::Tensor(tensor) => Err((tensor.dtype(), tensor.shape().to_vec())),
        other => Ok(other.clone()),
    };
    let args: Vec<Given> = call.args.iter().skip(1).map(operand).collect();
    let keywords: Vec<_> =
        call.keywords.iter().map(|(key, value)| (key.clone(), operand(value))).collect();
    described(row, &args, &keywords)
}

/// A value, or the dtype and the dims of a tensor.
type Given = Result<machine::Value, (machine::DType, Vec<i64>)>;

fn described(
    row: &'static Operator,
    args: &[Given],
    keywords: &[(String, Given)],
) -> Result<(Vec<Value>, Annotation), Stop> {
    let described = |given: &Given| match given {
        Err((dtype, dims)) => {
            let dims = dims.iter().map(|&dim| Dim::Int(dim)).collect();
            let annotation = Annotation::tensor(dims, dtype_to_semantics(*dtype));
            Ok(Value::Annotation(Arc::new(annotation)))
        }
        Ok(other) => to_semantics(other, &mut |_| None).map_err(Stop::Unsupported),
    };
    let positional = args.iter().map(described).collect::<Result<_, _>>()?;
    let keyword =
        |(key, value): &(String, Given)| Ok((Name::from(key.as_str()), described(value)?));
    let keywords = keywords.iter().map(keyword).collect::<Result<_, Stop>>()?;
    described_call(row, positional, keywords, None)
}
