//! Graphs of launches: what a device records of a function when it is called for the first time, and
//! replays later without looking at the function (paper §4.4).
//!
//! A graph is found by its function and by what the arguments are apart from memory: dtypes and extents,
//! shapes, integers. A device replays the launches that it recorded, in the memory that they had. So the
//! interpreter runs the function again and stops the program where it does anything else: another kernel,
//! other bytes, other scalars, other elements of what lies in no storage.

use super::Interpreter;
use crate::memory::Memory;
use crate::ops::{Family, Operator};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::{Placed, Value};
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;
use std::ops::Range;

/// All graphs of a run, and the memory that was taken for them.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    recorded: BTreeMap<(Name, Vec<String>), Graph>,
    /// What has been launched since the call began that is recorded or replayed.
    current: Option<Vec<Launch>>,
    /// What functions gave that take memory once.
    memory: BTreeMap<Name, Value>,
}

/// What a function did, and what it gave.
#[derive(Debug)]
struct Graph {
    launches: Vec<Launch>,
    result: Vec<Operand>,
}

/// A call of a tensor program.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: Name,
    pub(super) buffers: Vec<Operand>,
    pub(super) scalars: Vec<i64>,
}

/// What a launch is passed, or a function gives, as a device knows it.
#[derive(Debug)]
pub(super) enum Operand {
    /// Bytes of a storage.
    Bytes { storage: usize, bytes: Range<i64>, dtype: DType, shape: Vec<usize> },
    /// A tensor in no storage: a constant or a weight.
    Elements(Tensor),
    /// No tensor.
    Other(String),
}

/// The row that records.
const ROW: &str = "builtin.cuda_graph_run_or_capture";

fn trap(constraint: &str, message: String) -> Stop {
    Stop::trap(format!("{ROW}/{constraint}"), message)
}

impl Graphs {
    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Whether launches are noted.
    pub(super) fn is_recording(&self) -> bool {
        self.current.is_some()
    }

    /// What nothing can record: the host has to do it, each time.
    pub(super) fn refuse(&self, row: &Operator) -> Result<(), Stop> {
        let takes_memory = row.family == Family::Memory
            && !matches!(row.name, "memory.alloc_tensor" | "memory.kill_tensor" | "memory.view");
        if self.current.is_some() && (takes_memory || row.reads_elements()) {
            return Err(trap("C2", format!("`{}` is called while a graph is recorded", row.name)));
        }
        Ok(())
    }

    /// A branch on the elements of a tensor is taken by the host.
    pub(super) fn refuse_condition(&self, condition: &Value) -> Result<(), Stop> {
        let is_tensor = matches!(condition, Value::Tensor(_) | Value::Placed(_));
        if self.current.is_some() && is_tensor {
            let message = "a branch depends on elements while a graph is recorded";
            return Err(trap("C2", message.to_owned()));
        }
        Ok(())
    }

    /// Notes a launch, if that is wanted. `written` are the buffers that it writes to.
    pub(super) fn launch(&mut self, launch: Launch, written: &[bool]) -> Result<(), Stop> {
        let Some(launches) = &mut self.current else { return Ok(()) };
        let moves = |(buffer, is_written): (&Operand, &bool)| {
            *is_written && !matches!(buffer, Operand::Bytes { .. })
        };
        if let Some(at) = launch.buffers.iter().zip(written).position(moves) {
            let message = format!(
                "`{}` writes to buffer {at}, which lies in no storage, while a graph is recorded",
                launch.program
            );
            return Err(trap("C3", message));
        }
        launches.push(launch);
        Ok(())
    }
}

impl Interpreter<'_> {
    /// Calls a function and records its launches, or replays those of an earlier call.
    pub(super) fn graph(&mut self, function: &Value, args: Vec<Value>) -> Result<Value, Stop> {
        let Value::Global(name) = function else {
            return Err(trap("C1", format!("`func` must be named, found {}", function.kind())));
        };
        let key = (name.clone(), args.iter().map(shown).collect::<Vec<_>>());
        self.graphs.current = Some(Vec::new());
        let result = self.call_function(name, args);
        let launches = self.graphs.current.take().unwrap_or_default();
        let result = result?;
        let graph = Graph { launches, result: operands(&self.memory, &result)? };
        match self.graphs.recorded.get(&key) {
            Some(recorded) => recorded.holds(&graph, &key)?,
            None => _ = self.graphs.recorded.insert(key, graph),
        }
        Ok(result)
    }

    /// What a function gives that takes memory: it is called once in a run.
    pub(super) fn memory_of(&mut self, function: &Value) -> Result<Value, Stop> {
        let Value::Global(name) = function else {
            let id = "builtin.cuda_graph_get_cached_alloc/C1";
            return Err(Stop::trap(id, format!("it must be named, found {}", function.kind())));
        };
        if let Some(known) = self.graphs.memory.get(name) {
            return Ok(known.clone());
        }
        let memory = self.call_function(name, Vec::new())?;
        self.graphs.memory.insert(name.clone(), memory.clone());
        Ok(memory)
    }
}

impl Graph {
    /// Whether a replay of this does what a later call does.
    fn holds(&self, now: &Graph, (name, args): &(Name, Vec<String>)) -> Result<(), Stop> {
        let call = || format!("`{name}` was recorded for ({})", args.join(", "));
        if self.launches.len() != now.launches.len() {
            let (then, now) = (self.launches.len(), now.launches.len());
            let message = format!("{} with {then} launches, and has {now} now", call());
            return Err(trap("C4", message));
        }
        for (at, (then, now)) in self.launches.iter().zip(&now.launches).enumerate() {
            if let Some(what) = then.differs(now) {
                let message = format!("{}; replayed, launch {at} has another {what}", call());
                return Err(trap("C4", message));
            }
        }
        match differing(&self.result, &now.result) {
            Some(at) => {
                Err(trap("C4", format!("{}; replayed, part {at} of its result is another", call())))
            }
            None => Ok(()),
        }
    }
}

impl Launch {
    /// What is not the same in another one.
    fn differs(&self, other: &Launch) -> Option<String> {
        if self.program != other.program {
            return Some(format!("program: `{}`, now `{}`", self.program, other.program));
        }
        if self.scalars != other.scalars {
            return Some(format!("scalar: {:?}, now {:?}", self.scalars, other.scalars));
        }
        let at = differing(&self.buffers, &other.buffers)?;
        let shown = |launch: &Launch| launch.buffers.get(at).map_or(String::new(), Operand::shown);
        Some(format!("buffer {at} of `{}`: {}, now {}", self.program, shown(self), shown(other)))
    }
}

/// The first place where two lists are not the same.
fn differing(a: &[Operand], b: &[Operand]) -> Option<usize> {
    let same = a.iter().zip(b).position(|(a, b)| !a.same_as(b));
    same.or_else(|| (a.len() != b.len()).then_some(a.len().min(b.len())))
}

impl Operand {
    /// A tensor in a storage.
    pub(super) fn placed(memory: &Memory, placed: &Placed) -> Result<Self, Stop> {
        let (storage, bytes) = memory.place_of(placed)?;
        Ok(Self::Bytes { storage, bytes, dtype: placed.dtype, shape: placed.shape.clone() })
    }

    fn same_as(&self, other: &Operand) -> bool {
        match (self, other) {
            (
                Self::Bytes { storage, bytes, dtype, shape },
                Self::Bytes { storage: s, bytes: b, dtype: d, shape: dims },
            ) => (storage, bytes, dtype, shape) == (s, b, d, dims),
            (Self::Elements(a), Self::Elements(b)) => a.same_as(b),
            (Self::Other(a), Self::Other(b)) => a == b,
            _ => false,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Bytes { storage, bytes, dtype, shape } => {
                format!("{dtype} {shape:?} at byte {} of storage {storage}", bytes.start)
            }
            Self::Elements(_) => "a tensor in no storage, with elements of its own".to_owned(),
            Self::Other(text) => text.clone(),
        }
    }
}

/// The parts of a value, in order.
fn operands(memory: &Memory, value: &Value) -> Result<Vec<Operand>, Stop> {
    Ok(match value {
        Value::Placed(placed) => vec![Operand::placed(memory, placed)?],
        Value::Tensor(tensor) => vec![Operand::Elements(tensor.clone())],
        Value::Tuple(items) => {
            let mut parts = Vec::new();
            for item in items {
                parts.extend(operands(memory, item)?);
            }
            parts
        }
        Value::Storage(storage) => vec![Operand::Other(format!("storage {}", storage.id))],
        other => vec![Operand::Other(shown(other))],
    })
}

/// What of an argument a graph is found by.
fn shown(value: &Value) -> String {
    match value {
        Value::Tensor(_) | Value::Placed(_) | Value::Shape(_) => value.annotation().to_string(),
        Value::Prim(dtype, number) => format!("{dtype} {number:?}"),
        Value::Str(text) => format!("{text:?}"),
        Value::Global(name) => name.to_string(),
        Value::Storage(storage) => format!("a storage of {} bytes", storage.bytes),
        Value::Tuple(items) => {
            format!("({})", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        other => other.kind().to_owned(),
    }
}
