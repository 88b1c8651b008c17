//! Where the time of calls goes: a row for each kernel and the shapes it was given, with what it computed and moved, how much of
//! what the processor reaches that is (the roofline), and which place of the source and which node of the model asked for it.

use super::build::compiler;
use super::cache::cache;
use super::calls::Call;
use crate::exit::Failure;
use crate::report::node_at;
use relax_cpu::{Cpu, Limits};
use relax_driver::sizes::binary;
use relax_runtime::program::{Given, Kernel, Param};
use relax_runtime::{DType, Module, Span, dense_bytes};
use relax_symbolic::statement::term;
use relax_syntax::dim::Dim;
use relax_syntax::span::Source;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is known of the calls of a module beside their times.
pub(super) struct Known<'a> {
    works: BTreeMap<&'a str, Formulas<'a>>,
    source: &'a Source,
    limits: Result<Limits, String>,
}

/// How much a kernel computes and moves.
struct Formulas<'a> {
    operations: Dim,
    /// Elements of each tensor.
    elements: Vec<(DType, Dim)>,
    dims: &'a [(String, Given)],
}

/// How much one call computes and moves.
#[derive(Clone, Copy)]
struct Amount {
    operations: f64,
    bytes: f64,
}

/// Calls of one name and shapes.
struct Row<'c> {
    first: &'c Call,
    calls: usize,
    seconds: f64,
    /// Of the time of all.
    share: f64,
    /// Of one of the calls.
    amount: Option<Amount>,
    /// The lines of the source, each once.
    places: Vec<String>,
    node: Option<&'c str>,
}

impl<'a> Known<'a> {
    /// Of a module and its source. On the processor its limits are measured, which takes half a second.
    pub(super) fn of(module: &'a Module, source: &'a Source, is_on_processor: bool) -> Self {
        let works = module.kernels().iter();
        let works = works.filter_map(|kernel| Some((kernel.name.as_str(), formulas(kernel)?)));
        let measured = || {
            let compiler = compiler(&Cpu::Native)?;
            let compiler = compiler.settled().map_err(Failure::missing)?;
            Limits::measured(compiler, cache()?, module.threads()).map_err(Failure::missing)
        };
        let limits = match is_on_processor {
            true => measured().map_err(|failure| match failure {
                Failure::Message { text, .. } => text,
                _ => "its output is closed".to_owned(),
            }),
            false => Err("the program runs on a device".to_owned()),
        };
        Self { works: works.collect(), source, limits }
    }

    fn amount(&self, call: &Call) -> Option<Amount> {
        let Formulas { operations, elements, dims } = self.works.get(call.name.as_str())?;
        let given = |given: &Given| match given {
            Given::Int(at) => call.integers.get(*at as usize),
            Given::Extent(extent) => {
                call.shapes.get(extent.buffer as usize)?.get(extent.axis as usize)
            }
        };
        let value = |dim: &Dim| {
            let found = dim.eval(&|name| {
                let (_, place) = dims.iter().find(|(own, _)| *own == **name)?;
                given(place).copied()
            });
            found.ok()
        };
        let bytes = elements.iter().map(|(dtype, dim)| dense_bytes(*dtype, &[value(dim)?]));
        let bytes = bytes.map(|bytes| Some(bytes? as f64)).sum::<Option<f64>>()?;
        Some(Amount { operations: value(operations)? as f64, bytes })
    }

    /// The line of the source.
    fn place(&self, span: Span) -> Option<String> {
        let line = || self.source.line_column(span.start).0;
        (!span.is_synthetic()).then(|| format!("{}:{}", self.source.name, line()))
    }

    fn node(&self, span: Span) -> Option<&'a str> {
        node_at(self.source, (!span.is_synthetic()).then_some(span.start)?)
    }

    /// The fields of one call, for tools.
    pub(super) fn object(&self, call: &Call) -> Map<String, Value> {
        let mut object = self.rates(self.amount(call), (1, call.duration.as_secs_f64()));
        if let Some(place) = self.place(call.span) {
            object.insert("place".to_owned(), json!(place));
        }
        if let Some(node) = self.node(call.span) {
            object.insert("node".to_owned(), json!(node));
        }
        object
    }

    /// What so many calls reach in so many seconds, each of which computes and moves this much.
    fn rates(&self, amount: Option<Amount>, taken: (usize, f64)) -> Map<String, Value> {
        let Some(amount) = amount else { return Map::new() };
        let fields = json!({
            "operations": amount.operations,
            "bytes": amount.bytes,
            "operations_per_second": rate(amount.operations, taken),
            "bytes_per_second": rate(amount.bytes, taken),
            "of_limit": self.of_limit(amount, taken),
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// The time that the limits allow, of the time it took.
    fn of_limit(&self, amount: Amount, taken: (usize, f64)) -> Option<f64> {
        let limits = self.limits.as_ref().ok()?;
        Some(rate(limits.seconds(amount.operations, amount.bytes), taken))
    }

    /// Calls of one name and shapes together, those first that take the most time.
    fn rows<'c>(&'c self, calls: &'c [Call]) -> Vec<Row<'c>> {
        let mut alike: BTreeMap<_, Vec<&Call>> = BTreeMap::new();
        for call in calls {
            alike.entry((&call.name, &call.shapes, &call.integers)).or_default().push(call);
        }
        let whole: f64 = calls.iter().map(|call| call.duration.as_secs_f64()).sum();
        let row = |calls: Vec<&'c Call>| {
            let seconds = calls.iter().map(|call| call.duration.as_secs_f64()).sum::<f64>();
            let mut places: Vec<String> = Vec::new();
            for place in calls.iter().filter_map(|call| self.place(call.span)) {
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            // Calls are put together with one that is there.
            let first = calls[0];
            let (amount, node) = (self.amount(first), self.node(first.span));
            let share = seconds / whole.max(1e-12);
            Row { first, calls: calls.len(), seconds, share, amount, places, node }
        };
        let mut rows: Vec<Row> = alike.into_values().map(row).collect();
        rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        rows
    }

    /// The rows for people.
    pub(super) fn table(&self, calls: &[Call]) -> String {
        let mut text = match &self.limits {
            Ok(limits) => limits_shown(limits),
            Err(why) => format!("no share of the limits of this processor: {why}\n"),
        };
        let _ = writeln!(
            text,
            "{:>9} {:>6} {:>6} {:>8} {:>7} {:>6}  kernel, shapes, place",
            "us", "share", "calls", "GFLOP/s", "GB/s", "limit"
        );
        for row in self.rows(calls) {
            let Row { first, calls, seconds, share, amount, places, node } = &row;
            let (microseconds, share) = (seconds * 1e6, share * 100.0);
            let taken = (*calls, *seconds);
            let rate = |of: fn(Amount) -> f64| match amount {
                Some(amount) => format!("{:.2}", rate(of(*amount), taken) / 1e9),
                None => "-".to_owned(),
            };
            let limit = amount.and_then(|amount| self.of_limit(amount, taken));
            let limit = limit.map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0));
            let place = match places.as_slice() {
                [] => String::new(),
                [one] => format!(", {one}"),
                [first, others @ ..] => format!(", {first} (and {} more)", others.len()),
            };
            let node = node.map_or(String::new(), |node| format!(", {node}"));
            let shapes = first.shown_shapes();
            let _ = writeln!(
                text,
                "{microseconds:>9.1} {share:>5.1}% {calls:>6} {:>8} {:>7} {limit:>6}  {} {shapes}{place}{node}",
                rate(|amount| amount.operations),
                rate(|amount| amount.bytes),
                first.name,
            );
        }
        text
    }

    /// The rows for tools, after the limits.
    pub(super) fn lines(&self, calls: &[Call]) -> String {
        let limits = match &self.limits {
            Ok(limits) => {
                let reads = limits.reads.iter();
                let reads =
                    reads.map(|(set, rate)| json!({ "set": set, "bytes_per_second": rate }));
                json!({
                    "type": "limits",
                    "threads": limits.threads,
                    "operations_per_second": limits.operations,
                    "reads": reads.collect::<Vec<_>>(),
                })
            }
            Err(why) => json!({ "type": "limits", "unknown": why }),
        };
        let line = |row: Row| {
            let mut object = self.rates(row.amount, (row.calls, row.seconds));
            let fields = [
                ("type", json!("kernel")),
                ("name", json!(row.first.name)),
                ("shapes", json!(row.first.shown_shapes())),
                ("calls", json!(row.calls)),
                ("microseconds", json!(row.seconds * 1e6)),
                ("share", json!(row.share)),
                ("places", json!(row.places)),
                ("node", json!(row.node)),
            ];
            object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
            format!("{}\n", Value::Object(object))
        };
        let rows = self.rows(calls).into_iter().map(line);
        std::iter::once(format!("{limits}\n")).chain(rows).collect()
    }
}

/// Of an amount a call, the amount a second, where so many calls took so many seconds.
fn rate(amount: f64, (calls, seconds): (usize, f64)) -> f64 {
    amount * calls as f64 / seconds.max(1e-12)
}

fn formulas(kernel: &Kernel) -> Option<Formulas<'_>> {
    let work = kernel.work.as_ref()?;
    let dtypes = kernel.params.iter().filter_map(|param| match param {
        Param::Buffer { dtype, .. } => Some(*dtype),
        Param::Int => None,
    });
    let elements = dtypes.zip(&work.elements).map(|(dtype, text)| Some((dtype, term(text).ok()?)));
    let operations = term(&work.operations).ok()?;
    Some(Formulas { operations, elements: elements.collect::<Option<_>>()?, dims: &work.dims })
}

/// `2 threads reach 85 GFLOP/s and read 120 GB/s of 16 KiB, 11 GB/s of 64 MiB`
fn limits_shown(limits: &Limits) -> String {
    let reads = limits.reads.iter();
    let reads =
        reads.map(|(set, rate)| format!("{:.1} GB/s of {}", rate / 1e9, binary(*set as f64)));
    let threads = match limits.threads {
        1 => "1 thread reaches".to_owned(),
        threads => format!("{threads} threads reach"),
    };
    let verb = if limits.threads == 1 { "reads" } else { "read" };
    let reads = reads.collect::<Vec<_>>().join(", ");
    format!("{threads} {:.1} GFLOP/s in f32 and {verb} {reads}\n", limits.operations / 1e9)
}
