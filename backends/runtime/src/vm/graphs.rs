//! Graphs of launches: what a device records of a function when it is called for the first time, and
//! replays later without looking at the function (paper §4.4).
//!
//! This machine calls kernels one by one in either case, and tells who runs them where a graph begins and ends. It holds a
//! later call against the record, as the interpreter of the language does, so that a module that a device could not replay
//! stops here too.

use super::kernel_call::of_kernels;
use super::memory::Placed;
use super::{End, Run};
use crate::instruction::{Instruction, Operand, Register};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::{Kept, Machine, Value};
use std::collections::BTreeMap;

/// All graphs of a run, and the memory that was taken for them.
#[derive(Default)]
pub(super) struct Graphs {
    recorded: BTreeMap<Key, Graph>,
    /// What has been launched since the call began that is recorded or replayed.
    current: Option<Vec<Launch>>,
    /// What functions gave that take memory once.
    memory: BTreeMap<u32, Value>,
}

/// A function, and what its arguments are apart from memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    function: u32,
    args: Vec<String>,
}

struct Graph {
    launches: Vec<Launch>,
    result: Vec<Passed>,
}

/// A call of a kernel.
pub(super) struct Launch {
    pub(super) kernel: u32,
    pub(super) buffers: Vec<Passed>,
    pub(super) ints: Vec<i64>,
}

/// What a launch is passed, or a function gives, as a device knows it.
pub(super) enum Passed {
    /// Bytes of a storage.
    Bytes(Placed),
    /// A tensor in no storage: a constant or a weight.
    Elements(Tensor),
    /// No tensor.
    Other(String),
}

/// The built-in that records.
const RECORD: &str = "builtin.cuda_graph_run_or_capture";

fn trap(constraint: &str, message: String) -> Stop {
    Stop::trap(format!("{RECORD}/{constraint}"), message)
}

impl Graphs {
    pub(super) fn is_recording(&self) -> bool {
        self.current.is_some()
    }

    /// What nothing can record: the host has to do it, each time.
    pub(super) fn refuse(&self, what: &str) -> Result<(), Stop> {
        if self.is_recording() {
            return Err(trap("C2", format!("{what} while a graph is recorded")));
        }
        Ok(())
    }

    /// Notes a launch. `writes` says of each buffer whether the kernel writes to it.
    pub(super) fn launch(
        &mut self,
        launch: Launch,
        mut writes: impl Iterator<Item = bool>,
        name: &str,
    ) -> Result<(), Stop> {
        let Some(launches) = &mut self.current else { return Ok(()) };
        let moves =
            |buffer: &Passed| writes.next().unwrap_or(false) && !matches!(buffer, Passed::Bytes(_));
        if let Some(at) = launch.buffers.iter().position(moves) {
            let message = format!(
                "`{name}` writes to buffer {at}, which lies in no storage, while a graph is recorded"
            );
            return Err(trap("C3", message));
        }
        launches.push(launch);
        Ok(())
    }
}

impl Run<'_> {
    /// What an instruction asks of the host that a device could not replay.
    pub(super) fn refuse_recorded(&self, instruction: &Instruction) -> Result<(), Stop> {
        use Instruction as I;
        if !self.graphs.is_recording() {
            return Ok(());
        }
        match instruction {
            I::AllocStorage { .. } | I::KillStorage(_) | I::KillObject(_) => {
                self.graphs.refuse("memory is taken or released")
            }
            I::RunGraph { .. } | I::KeepMemory { .. } => self.graphs.refuse("a graph is run"),
            I::CallHost { name, .. } => {
                self.graphs.refuse(&format!("`{}` is called", self.text(*name)))
            }
            I::Assert { .. } | I::ReadShape { .. } => self.graphs.refuse("elements are read"),
            I::Branch { condition, .. } if self.value(*condition).as_tensor().is_some() => {
                self.graphs.refuse("a branch depends on elements")
            }
            _ => Ok(()),
        }
    }

    /// Calls a function whose launches are recorded, or held against the record.
    pub(super) fn run_graph(
        &mut self,
        to: Register,
        function: Operand,
        args: &[Operand],
    ) -> Result<(), Stop> {
        let function = match self.given(function)? {
            Value::Function(function) => *function,
            other => {
                return Err(trap("C1", format!("`func` must be named, found {}", other.kind())));
            }
        };
        let args = self.values(args)?;
        let key = Key { function, args: args.iter().map(shown).collect() };
        self.enter(function, args.into_iter(), to)?;
        self.end_with(End::Graph(key));
        self.graphs.current = Some(Vec::new());
        self.module.kernels.begin_graph();
        Ok(())
    }

    /// A run stops: nothing more belongs to the graph that is recorded.
    pub(super) fn abandon_graph(&self) {
        if self.graphs.is_recording() {
            // The run has stopped with something else already.
            let _ = self.module.kernels.end_graph();
        }
    }

    /// What a function gives that takes memory: it is called once in a run.
    pub(super) fn keep_memory(&mut self, to: Register, function: Operand) -> Result<bool, Stop> {
        let function = match self.given(function)? {
            Value::Function(function) => *function,
            other => {
                let id = "builtin.cuda_graph_get_cached_alloc/C1";
                return Err(Stop::trap(id, format!("it must be named, found {}", other.kind())));
            }
        };
        if let Some(known) = self.graphs.memory.get(&function).cloned() {
            self.set(to, known);
            return Ok(false);
        }
        self.enter(function, std::iter::empty(), to)?;
        self.end_with(End::Memory(function));
        Ok(true)
    }

    /// What is left to do when such a function has given its value.
    pub(super) fn ended(&mut self, end: End, value: &Value) -> Result<(), Stop> {
        match end {
            End::Call => {}
            End::Memory(function) => _ = self.graphs.memory.insert(function, value.clone()),
            End::Graph(key) => {
                self.module.kernels.end_graph().map_err(of_kernels)?;
                let launches = self.graphs.current.take().unwrap_or_default();
                let mut result = Vec::new();
                parts(value, &mut result);
                let graph = Graph { launches, result };
                match self.graphs.recorded.get(&key) {
                    Some(recorded) => self.holds(recorded, &graph, &key)?,
                    None => _ = self.graphs.recorded.insert(key, graph),
                }
            }
        }
        Ok(())
    }

    /// Whether a replay does what a later call did.
    fn holds(&self, then: &Graph, now: &Graph, key: &Key) -> Result<(), Stop> {
        let function = self.module.program.functions.get(key.function as usize);
        let name = function.map_or("?", |function| function.name.as_str());
        let call = format!("`{name}` was recorded for ({})", key.args.join(", "));
        let (before, after) = (then.launches.len(), now.launches.len());
        if before != after {
            return Err(trap("C4", format!("{call} with {before} launches, and has {after} now")));
        }
        for (at, (then, now)) in then.launches.iter().zip(&now.launches).enumerate() {
            if let Some(what) = then.differs(now) {
                return Err(trap(
                    "C4",
                    format!("{call}; replayed, launch {at} has another {what}"),
                ));
            }
        }
        match differing(&then.result, &now.result) {
            Some(at) => {
                Err(trap("C4", format!("{call}; replayed, part {at} of its result is another")))
            }
            None => Ok(()),
        }
    }
}

impl Launch {
    /// What is not the same in another one.
    fn differs(&self, other: &Launch) -> Option<String> {
        if self.kernel != other.kernel {
            return Some("kernel".to_owned());
        }
        if self.ints != other.ints {
            return Some(format!("scalar: {:?}, now {:?}", self.ints, other.ints));
        }
        let at = differing(&self.buffers, &other.buffers)?;
        let shown = |launch: &Launch| launch.buffers.get(at).map_or(String::new(), Passed::shown);
        Some(format!("buffer {at}: {}, now {}", shown(self), shown(other)))
    }
}

/// The first place where two lists are not the same.
fn differing(a: &[Passed], b: &[Passed]) -> Option<usize> {
    let same = a.iter().zip(b).position(|(a, b)| !a.same_as(b));
    same.or_else(|| (a.len() != b.len()).then_some(a.len().min(b.len())))
}

impl Passed {
    fn same_as(&self, other: &Passed) -> bool {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => a.is_same_place(b),
            (Self::Elements(a), Self::Elements(b)) => {
                (a.dtype, &a.shape, &a.written) == (b.dtype, &b.shape, &b.written)
                    && a.bytes() == b.bytes()
            }
            (Self::Other(a), Self::Other(b)) => a == b,
            _ => false,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Bytes(placed) => placed.described(),
            Self::Elements(_) => "a tensor in no storage, with elements of its own".to_owned(),
            Self::Other(text) => text.clone(),
        }
    }
}

/// The parts of a value, in order.
fn parts(value: &Value, found: &mut Vec<Passed>) {
    match value {
        Value::Machine(Machine(Kept::Placed(placed))) => found.push(Passed::Bytes(placed.clone())),
        Value::Tensor(tensor) => found.push(Passed::Elements(tensor.clone())),
        Value::Tuple(tuple) => tuple.items().iter().for_each(|item| parts(item, found)),
        other => found.push(Passed::Other(shown(other))),
    }
}

/// What of an argument a graph is found by.
fn shown(value: &Value) -> String {
    match value {
        Value::Scalar(dtype, number) => format!("{dtype} {number:?}"),
        Value::Str(text) => format!("{text:?}"),
        Value::Function(function) => format!("function {function}"),
        Value::Machine(Machine(Kept::Storage(storage))) => {
            format!("a storage of {} bytes", storage.bytes)
        }
        Value::Tuple(tuple) => {
            format!("({})", tuple.items().iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        other => other.described(),
    }
}
