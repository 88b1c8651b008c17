//! The calls of kernels and host functions that a run makes, or of operators and tensor programs in the interpreter: as a
//! trace that Chrome's tracing and Perfetto show, and as a table of where the time goes.

use crate::exit::Failure;
use crate::files::write_whole;
use relax_runtime::{Callee, ObservedCall, Observer};
use relax_semantics::interp;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One call.
#[derive(Clone, Debug)]
struct Call {
    name: String,
    category: &'static str,
    shapes: String,
    /// After the record began.
    start: Duration,
    duration: Duration,
}

/// Writes down calls, from whichever thread they come.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    began: Instant,
    calls: Arc<Mutex<Vec<Call>>>,
    /// Those of the interpreter that have begun and not ended, the innermost last.
    open: Arc<Mutex<Vec<Call>>>,
}

impl Observer for Calls {
    fn called(&self, call: &ObservedCall<'_>) {
        let shapes: Vec<String> = call.shapes.iter().map(|shape| format!("{shape:?}")).collect();
        let category = if call.callee == Callee::Kernel { "kernel" } else { "host" };
        let start = call.start.saturating_duration_since(self.began);
        let name = call.name.to_owned();
        let (shapes, duration) = (shapes.join(" "), call.duration);
        self.lock().push(Call { name, category, shapes, start, duration });
    }
}

impl interp::Observer for Calls {
    fn begins(&self, callee: interp::Callee, name: &str, shapes: Vec<Vec<usize>>) {
        let category = match callee {
            interp::Callee::Operator => "operator",
            interp::Callee::TensorProgram => "kernel",
        };
        let shapes: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
        let (name, shapes, start) = (name.to_owned(), shapes.join(" "), self.began.elapsed());
        let call = Call { name, category, shapes, start, duration: Duration::ZERO };
        lock(&self.open).push(call);
    }

    fn ends(&self) {
        let Some(mut call) = lock(&self.open).pop() else { return };
        call.duration = self.began.elapsed().saturating_sub(call.start);
        self.lock().push(call);
    }
}

fn lock(calls: &Mutex<Vec<Call>>) -> std::sync::MutexGuard<'_, Vec<Call>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    /// A record without calls.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), calls: Arc::default(), open: Arc::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Call>> {
        lock(&self.calls)
    }

    /// Forgets what was written down.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Writes the trace, the format of Chrome's tracing: a complete event a call, times in microseconds.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let events = self.lock().iter().map(event).collect::<Vec<_>>();
        let trace = serde_json::json!({ "displayTimeUnit": "ns", "traceEvents": events });
        write_whole(path, format!("{trace}\n").as_bytes())
    }

    /// Calls of one name and shapes together, those first that take the most time.
    fn rows(&self) -> Vec<Row> {
        let mut rows: BTreeMap<(String, String), (usize, Duration)> = BTreeMap::new();
        let mut whole = Duration::ZERO;
        for call in self.lock().iter() {
            let row = rows.entry((call.name.clone(), call.shapes.clone())).or_default();
            *row = (row.0 + 1, row.1 + call.duration);
            whole += call.duration;
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(_, (_, duration))| std::cmp::Reverse(*duration));
        let whole = whole.as_secs_f64().max(1e-12);
        let row = |((name, shapes), (calls, duration)): (_, (_, Duration))| Row {
            name,
            shapes,
            calls,
            microseconds: duration.as_secs_f64() * 1e6,
            share: duration.as_secs_f64() / whole,
        };
        rows.into_iter().map(row).collect()
    }

    /// The rows for people.
    pub(super) fn table(&self) -> String {
        let mut text = format!("{:>9} {:>6} {:>6}  kernel, shapes\n", "us", "share", "calls");
        for Row { name, shapes, calls, microseconds, share } in self.rows() {
            let share = 100.0 * share;
            let _ = writeln!(text, "{microseconds:>9.1} {share:>5.1}% {calls:>6}  {name} {shapes}");
        }
        text
    }

    /// The rows for tools.
    pub(super) fn lines(&self) -> String {
        let line = |row: Row| {
            let Row { name, shapes, calls, microseconds, share } = row;
            let object = serde_json::json!({
                "type": "kernel",
                "name": name,
                "shapes": shapes,
                "calls": calls,
                "microseconds": microseconds,
                "share": share,
            });
            format!("{object}\n")
        };
        self.rows().into_iter().map(line).collect()
    }
}

/// Calls of one name and shapes.
struct Row {
    name: String,
    shapes: String,
    calls: usize,
    microseconds: f64,
    /// Of the time of all.
    share: f64,
}

fn event(call: &Call) -> serde_json::Value {
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    serde_json::json!({
        "name": call.name,
        "cat": call.category,
        "ph": "X",
        "ts": microseconds(call.start),
        "dur": microseconds(call.duration),
        "pid": 1,
        "tid": 1,
        "args": { "shapes": call.shapes },
    })
}
