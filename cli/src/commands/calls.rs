//! The calls of kernels and host functions that a run makes, or of operators and tensor programs in the interpreter, and
//! the trace of them that Chrome's tracing and Perfetto show.

use super::profile::Known;
use crate::exit::Failure;
use crate::files::write_whole;
use relax_runtime::{Callee, ObservedCall, Observer, Span};
use relax_semantics::interp;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One call of a kernel, host function or operator.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    category: &'static str,
    /// The extents of its tensors.
    pub(super) shapes: Vec<Vec<i64>>,
    /// The integers that a kernel is given beside its tensors.
    pub(super) integers: Vec<i64>,
    /// Its place in the source, where that is known.
    pub(super) span: Span,
    /// After the record began.
    start: Duration,
    pub(super) duration: Duration,
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
        self.lock().push(Call {
            name: call.name.to_owned(),
            category: if call.callee == Callee::Kernel { "kernel" } else { "host" },
            shapes: call.shapes.iter().map(|shape| shape.to_vec()).collect(),
            integers: call.integers.to_vec(),
            span: call.span,
            start: call.start.saturating_duration_since(self.began),
            duration: call.duration,
        });
    }
}

impl interp::Observer for Calls {
    fn begins(&self, callee: interp::Callee, name: &str, shapes: Vec<Vec<usize>>) {
        let category = match callee {
            interp::Callee::Operator => "operator",
            interp::Callee::TensorProgram => "kernel",
        };
        let extent = |extent: usize| i64::try_from(extent).unwrap_or(i64::MAX);
        let shapes = shapes.into_iter().map(|shape| shape.into_iter().map(extent).collect());
        lock(&self.open).push(Call {
            name: name.to_owned(),
            category,
            shapes: shapes.collect(),
            integers: Vec::new(),
            span: Span::default(),
            start: self.began.elapsed(),
            duration: Duration::ZERO,
        });
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

    /// What was written down so far.
    pub(super) fn all(&self) -> Vec<Call> {
        self.lock().clone()
    }

    /// Writes the trace, the format of Chrome's tracing: a complete event a call, times in microseconds, and what else is
    /// known of it.
    pub(super) fn write(&self, path: &Path, known: Option<&Known<'_>>) -> Result<(), Failure> {
        let events = self.lock().iter().map(|call| event(call, known)).collect::<Vec<_>>();
        let trace = json!({ "displayTimeUnit": "ns", "traceEvents": events });
        write_whole(path, format!("{trace}\n").as_bytes())
    }
}

impl Call {
    /// The extents, as text.
    pub(super) fn shown_shapes(&self) -> String {
        let shapes: Vec<String> = self.shapes.iter().map(|shape| format!("{shape:?}")).collect();
        shapes.join(" ")
    }
}

fn event(call: &Call, known: Option<&Known<'_>>) -> Value {
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    let mut args = json!({ "shapes": call.shown_shapes() });
    if let (Some(known), Value::Object(args)) = (known, &mut args) {
        args.extend(known.object(call));
    }
    json!({
        "name": call.name,
        "cat": call.category,
        "ph": "X",
        "ts": microseconds(call.start),
        "dur": microseconds(call.duration),
        "pid": 1,
        "tid": 1,
        "args": args,
    })
}
