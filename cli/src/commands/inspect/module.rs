//! What is in a module file. It is not loaded, so it may be of another processor.

use super::memory::{Plan, plan};
use super::{Inspected, counted, signature};
use crate::commands::kernel_check;
use crate::commands::meshes::{extents, times};
use crate::commands::numerics;
use crate::commands::run::signatures_of_ranks;
use crate::exit::Failure;
use relax_program::frontend::Program;
use relax_runtime::file::{ModuleFile, Parts, RANKS_VERSION, VERSION};
use relax_runtime::program::{Constant, Kernel, Param};
use relax_runtime::{check_target, dense_bytes};
use relax_sharding::signature::Layouts;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Function, Module};
use relax_syntax::span::Source;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// Constants that are listed: the largest.
const LISTED: usize = 10;

/// The parts of a file, and what is read out of them.
struct Read<'f> {
    name: &'f str,
    bytes: usize,
    parts: Parts<'f>,
    signatures: Module,
    /// Of code for each rank of a mesh.
    ranks: Option<(Module, Layouts)>,
    plans: Vec<(String, Plan)>,
}

pub(super) fn inspected(path: &Path, name: &str) -> Result<Inspected, Failure> {
    let damaged = |error| Failure::usage(format!("{name}: {error}"));
    let file = ModuleFile::open(path).map_err(damaged)?;
    let parts = file.parts().map_err(damaged)?;
    let signatures = Program::load(Source::new("signatures", parts.metadata.signatures.as_str()));
    if signatures.has_errors() {
        return Err(Failure::usage(format!("{name}: the signatures of its functions do not read")));
    }
    let plans = parts
        .program
        .functions
        .iter()
        .map(|function| (function.name.clone(), plan(&parts.program, function)));
    let plans = plans.filter(|(_, plan)| !plan.storages.is_empty()).collect();
    let (bytes, signatures) = (file.bytes().len(), signatures.module);
    let ranks = (!parts.ranks.is_empty()).then(|| signatures_of_ranks(&parts.ranks, name));
    let ranks = ranks.transpose()?;
    let read = Read { name, bytes, parts, signatures, ranks, plans };
    Ok(Inspected { text: read.text(), object: read.object() })
}

impl Read<'_> {
    fn functions(&self) -> impl Iterator<Item = &Function> {
        self.signatures.functions()
    }

    fn version(&self) -> u32 {
        if self.ranks.is_some() { RANKS_VERSION } else { VERSION }
    }

    /// What a caller of all ranks sees, where the functions are what each rank runs.
    fn ranks(&self, text: &mut String) {
        let Some((module, layouts)) = &self.ranks else { return };
        let (mesh, extents) = (&layouts.axes.mesh, times(&layouts.axes));
        let _ = writeln!(text, "code of each rank of {mesh}, {extents}; all ranks together:");
        module.functions().for_each(|function| signature::text(function, text));
    }

    fn ranks_object(&self) -> Value {
        let Some((module, layouts)) = &self.ranks else { return Value::Null };
        json!({
            "mesh": layouts.axes.mesh.as_str(),
            "extents": extents(&layouts.axes),
            "functions": module.functions().map(signature::object).collect::<Vec<_>>(),
        })
    }

    fn tensors(&self) -> Vec<(&'static str, &[i64], u64)> {
        let constants = self.parts.program.constants.iter();
        let tensors = constants.filter_map(|constant| match constant {
            Constant::Tensor { dtype, shape, .. } => Some((
                dtype.name(),
                shape.as_slice(),
                dense_bytes(*dtype, &shape[..]).unwrap_or(0) as u64,
            )),
            _ => None,
        });
        let mut tensors: Vec<_> = tensors.collect();
        tensors.sort_by_key(|&(_, _, bytes)| std::cmp::Reverse(bytes));
        tensors
    }

    fn text(&self) -> String {
        let Parts { target, metadata, source, certificate, .. } = &self.parts;
        let mut text = format!(
            "{}: module file, format version {}, {} bytes\n",
            self.name,
            self.version(),
            self.bytes
        );
        let _ = writeln!(text, "  built by: {}", metadata.producer);
        let (machine, features) = target_of(target);
        let _ = writeln!(text, "  target: {machine}");
        let _ = writeln!(text, "  processor features: {}", words_or_none(&features));
        if let Err(why) = check_target(target) {
            let _ = writeln!(text, "  runs here: no: {why}");
        }
        let _ = writeln!(text, "  numerics: {}", numerics::words(metadata));
        let check = metadata.kernel_check.as_ref();
        let _ =
            writeln!(text, "  {}", check.map_or("kernel check: off".to_owned(), kernel_check::all));
        let certificate = match certificate.len() {
            0 => "none".to_owned(),
            bytes => format!("{bytes} bytes, for `relax verify`"),
        };
        let _ = writeln!(text, "  certificate: {certificate}");
        let _ = writeln!(text, "  source: {}, {} bytes", metadata.source_name, source.len());
        self.ranks(&mut text);
        let _ = writeln!(text, "{}", counted(self.functions().count(), "function"));
        self.functions().for_each(|function| signature::text(function, &mut text));
        self.kernels(&mut text);
        self.constants(&mut text);
        self.memory(&mut text);
        let hosts = self.parts.program.host_functions();
        let _ = writeln!(text, "host functions to register: {}", words_or_none(&hosts));
        text
    }

    fn kernels(&self, text: &mut String) {
        let kernels = &self.parts.program.kernels;
        let code = self.parts.object.len();
        let _ =
            writeln!(text, "{}, {code} bytes of machine code", counted(kernels.len(), "kernel"));
        for kernel in kernels {
            let _ = writeln!(text, "  {}: {}", kernel.name, in_brief(kernel));
        }
    }

    fn constants(&self, text: &mut String) {
        let tensors = self.tensors();
        let count = counted(tensors.len(), "constant");
        let _ = writeln!(text, "{count}, {} bytes", self.parts.data.len());
        for (dtype, shape, bytes) in tensors.iter().take(LISTED) {
            let _ = writeln!(text, "  {dtype} {shape:?}, {bytes} bytes");
        }
        if tensors.len() > LISTED {
            let _ = writeln!(text, "  {} more", tensors.len() - LISTED);
        }
        let weights: Vec<&str> =
            self.parts.metadata.weights.iter().map(|(name, _)| name.as_str()).collect();
        if !weights.is_empty() {
            let _ = writeln!(text, "  built from: {}", weights.join(", "));
        }
    }

    fn memory(&self, text: &mut String) {
        for (name, plan) in &self.plans {
            let Plan { storages, tensors } = plan;
            let _ = writeln!(
                text,
                "memory of `{name}`: {} in {}, {} bytes",
                counted(*tensors, "tensor"),
                counted(storages.len(), "storage"),
                term(plan.total().as_ref())
            );
            for (index, size) in storages.iter().enumerate() {
                let _ = writeln!(text, "  storage {index}: {} bytes", term(size.as_ref()));
            }
        }
    }

    fn object(&self) -> Value {
        let Parts { target, metadata, program, object, data, certificate, source, .. } =
            &self.parts;
        let (machine, features) = target_of(target);
        let kernel = |kernel: &Kernel| {
            let params: Vec<Value> = kernel.params.iter().map(param_object).collect();
            let work = kernel.work.as_ref();
            json!({
                "name": kernel.name,
                "params": params,
                "operations": work.map(|work| &work.operations),
                "elements": work.map(|work| &work.elements),
                "checks": kernel.sites.len(),
                "instrumented": kernel.watched.is_some(),
            })
        };
        let constant = |(dtype, shape, bytes): &(&str, &[i64], u64)| json!({ "dtype": dtype, "dims": shape, "bytes": bytes });
        let memory = |(name, plan): &(String, Plan)| {
            let storages = plan.storages.iter().map(|size| size.as_ref().map(Dim::to_string));
            json!({
                "function": name,
                "tensors": plan.tensors,
                "storages": storages.collect::<Vec<_>>(),
                "bytes": plan.total().map(|total| total.to_string()),
            })
        };
        let weights = metadata.weights.iter().map(|(name, _)| name);
        json!({
            "type": "inspect",
            "kind": "module",
            "file": self.name,
            "version": self.version(),
            "bytes": self.bytes,
            "producer": metadata.producer,
            "target": machine,
            "features": features,
            "runs_here": check_target(target).is_ok(),
            "numerics": metadata.numerics.name(),
            "rounded_kernels": metadata.rounded,
            "kernel_check": kernel_check::object(metadata.kernel_check.as_ref()),
            "certificate_bytes": certificate.len(),
            "source": { "name": metadata.source_name, "bytes": source.len() },
            "functions": self.functions().map(signature::object).collect::<Vec<_>>(),
            "ranks": self.ranks_object(),
            "code_bytes": object.len(),
            "kernels": program.kernels.iter().map(kernel).collect::<Vec<_>>(),
            "constant_bytes": data.len(),
            "constants": self.tensors().iter().map(constant).collect::<Vec<_>>(),
            "weights": weights.collect::<Vec<_>>(),
            "memory": self.plans.iter().map(memory).collect::<Vec<_>>(),
            "host_functions": program.host_functions(),
        })
    }
}

/// The machine, and what its processor must have.
fn target_of(target: &str) -> (String, Vec<&str>) {
    let words: Vec<&str> = target.split(' ').filter(|word| !word.is_empty()).collect();
    let (machine, features) = words.split_at(words.len().min(3));
    let machine = if machine.is_empty() { "any".to_owned() } else { machine.join(" ") };
    (machine, features.to_vec())
}

fn words_or_none(words: &[&str]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn term(size: Option<&Dim>) -> String {
    size.map_or_else(|| "an unknown number of".to_owned(), Dim::to_string)
}

/// `2 inputs, 1 output, 3 checks`
fn in_brief(kernel: &Kernel) -> String {
    let buffers = |wanted: bool| {
        let is_wanted = |param: &&Param| matches!(param, Param::Buffer { is_written, .. } if *is_written == wanted);
        kernel.params.iter().filter(is_wanted).count()
    };
    let mut parts = vec![counted(buffers(false), "input"), counted(buffers(true), "output")];
    if !kernel.sites.is_empty() {
        parts.push(counted(kernel.sites.len(), "check"));
    }
    if kernel.watched.is_some() {
        parts.push("an instrumented variant".to_owned());
    }
    if let Some(work) = &kernel.work {
        parts.push(format!("{} float operations", work.operations));
    }
    parts.join(", ")
}

fn param_object(param: &Param) -> Value {
    match param {
        Param::Buffer { name, dtype, rank, is_written } => json!({
            "name": name, "dtype": dtype.name(), "rank": rank, "written": is_written,
        }),
        Param::Int => json!({ "int": true }),
    }
}
