//! What is in a model of another format, whether it can be imported or not.

use super::program::most_first;
use super::{Inspected, counted};
use crate::args::InspectArgs;
use crate::commands::import::{importing, options, read, refused};
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_import::{
    Contents, ImportError, Missing, ONNX, Port, WeightInfo, contents, import_model,
};
use serde_json::{Value, json};
use std::fmt::Write;

/// Weights that are listed: the largest.
const LISTED: usize = 10;

pub(super) fn inspected(
    args: &InspectArgs,
    name: &str,
    terminal: &mut Terminal,
) -> Result<Inspected, Failure> {
    let bytes = read(&args.file)?;
    importing(&args.file, &bytes, terminal);
    let contents = contents(bytes.clone()).map_err(|error| refused(&args.file, &error))?;
    let problem = match import_model(bytes, &options(&args.file, args.model.bounds()?)) {
        Ok(_) => None,
        Err(error @ ImportError::Bound(_)) => return Err(refused(&args.file, &error)),
        Err(error) => Some(error),
    };
    let text = text(name, &contents, problem.as_ref());
    Ok(Inspected { text, object: object(name, &contents, problem.as_ref()) })
}

fn text(name: &str, contents: &Contents, problem: Option<&ImportError>) -> String {
    let Contents { ir_version, producer, opsets, inputs, outputs, operators, weights, .. } =
        contents;
    let mut text = format!("{name}: {}\n", contents.format);
    if contents.format == ONNX {
        let version =
            ir_version.map_or_else(|| "unknown".to_owned(), |version| version.to_string());
        let _ = writeln!(text, "  IR version: {version}");
    }
    if !producer.is_empty() {
        let _ = writeln!(text, "  producer: {producer}");
    }
    if contents.format == ONNX {
        let sets: Vec<String> =
            opsets.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let _ = writeln!(text, "  operator sets: {}", sets.join(", "));
    }
    match problem {
        None => text.push_str("  import: yes\n"),
        Some(error) => {
            _ = writeln!(text, "  import: no: {}", error.to_string().replace('\n', "\n  "))
        }
    }
    for (what, ports) in [("input", inputs), ("output", outputs)] {
        let _ = writeln!(text, "{}", counted(ports.len(), what));
        ports.iter().for_each(|port| _ = writeln!(text, "  {}: {}", port.name, type_of(port)));
    }
    let nodes: usize = operators.values().sum();
    let _ = writeln!(text, "{}", counted(nodes, "node"));
    for (name, count) in most_first(operators) {
        let unknown = if contents.unknown.contains(name) { "  not supported" } else { "" };
        let _ = writeln!(text, "  {count:>5} {name}{unknown}");
    }
    let _ = writeln!(text, "{}, {} bytes", counted(weights.len(), "weight"), bytes_of(weights));
    let mut largest: Vec<&WeightInfo> = weights.iter().collect();
    largest.sort_by_key(|weight| std::cmp::Reverse(weight.bytes));
    for weight in largest.iter().take(LISTED) {
        let WeightInfo { name, dtype, dims, bytes, is_external } = weight;
        let bytes = bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
        let beside = if *is_external { ", in a file beside the model" } else { "" };
        let _ = writeln!(text, "  {name}: {dtype} {dims:?}{bytes}{beside}");
    }
    if weights.len() > LISTED {
        let _ = writeln!(text, "  {} more", weights.len() - LISTED);
    }
    text
}

fn bytes_of(weights: &[WeightInfo]) -> u64 {
    weights.iter().filter_map(|weight| weight.bytes).fold(0, u64::saturating_add)
}

fn type_of(port: &Port) -> String {
    let dtype = port.dtype.as_deref().unwrap_or("unknown dtype");
    let dims = match &port.dims {
        Some(dims) => format!("({})", dims.join(", ")),
        None => "of unknown rank".to_owned(),
    };
    match port.kind {
        "tensor" => format!("{dtype} {dims}"),
        "unknown" => "neither a tensor nor a list of tensors".to_owned(),
        kind => format!("{kind} of {dtype} {dims}"),
    }
}

fn object(name: &str, contents: &Contents, problem: Option<&ImportError>) -> Value {
    let port = |port: &Port| {
        let Port { name, kind, dtype, dims } = port;
        json!({ "name": name, "kind": kind, "dtype": dtype, "dims": dims })
    };
    let ports = |ports: &[Port]| ports.iter().map(port).collect::<Vec<_>>();
    let weight = |weight: &WeightInfo| {
        let WeightInfo { name, dtype, dims, bytes, is_external } = weight;
        json!({ "name": name, "dtype": dtype, "dims": dims, "bytes": bytes, "external": is_external })
    };
    let missing = |missing: &Missing| {
        let Missing { operator, why, nodes, is_invalid } = missing;
        json!({ "operator": operator, "why": why, "nodes": nodes, "invalid": is_invalid })
    };
    let unsupported = match problem {
        Some(ImportError::Unsupported(all)) => all.iter().map(missing).collect(),
        _ => Vec::new(),
    };
    json!({
        "type": "inspect",
        "kind": "model",
        "file": name,
        "format": contents.format,
        "ir_version": contents.ir_version,
        "producer": contents.producer,
        "opsets": contents.opsets,
        "imports": problem.is_none(),
        "problem": problem.map(ToString::to_string),
        "unsupported": unsupported,
        "inputs": ports(&contents.inputs),
        "outputs": ports(&contents.outputs),
        "operators": contents.operators,
        "unknown_operators": contents.unknown,
        "weight_bytes": bytes_of(&contents.weights),
        "weights": contents.weights.iter().map(weight).collect::<Vec<_>>(),
    })
}
