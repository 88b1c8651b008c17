//! `relax devices`: what `--backend` can run kernels on, on this machine.

use super::cache::cache;
use crate::args::Format;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use relax_cpu::Compiler;
use serde_json::json;

pub(super) fn devices(terminal: &mut Terminal) -> Outcome {
    found("interp", "the reference interpreter", terminal)?;
    cpu(terminal)?;
    cuda(terminal)?;
    wgpu(terminal)?;
    Ok(Exit::Fine)
}

fn found(backend: &str, name: &str, terminal: &mut Terminal) -> Result<(), Failure> {
    terminal.tell(
        &format!("{backend}: {name}\n"),
        || json!({ "type": "device", "backend": backend, "available": true, "name": name }),
    )
}

/// People read why in a note.
fn missing(backend: &str, why: &str, terminal: &mut Terminal) -> Result<(), Failure> {
    match terminal.format {
        Format::Text => terminal.note(&format!("{backend}: {why}")),
        Format::Json => terminal.object(
            || json!({ "type": "device", "backend": backend, "available": false, "why": why }),
        )?,
    }
    Ok(())
}

fn cpu(terminal: &mut Terminal) -> Result<(), Failure> {
    let cache = cache()?;
    match Compiler::of_system().and_then(|compiler| compiler.probed(cache)) {
        Ok(compiler) => {
            let (command, version) = (compiler.command(), compiler.version());
            let findings = compiler.findings().map(ToString::to_string).unwrap_or_default();
            let name = format!("this processor, through `{command}` ({version}); {findings}");
            found("cpu", &name, terminal)
        }
        Err(error) => missing("cpu", &error.to_string(), terminal),
    }
}

#[cfg(feature = "cuda")]
fn cuda(terminal: &mut Terminal) -> Result<(), Failure> {
    match relax_cuda::devices() {
        Ok(all) => {
            for one in all {
                let (name, architecture, size) = (one.name, one.architecture, one.bytes >> 20);
                found("cuda", &format!("{name} ({architecture}), {size} MiB"), terminal)?;
            }
            Ok(())
        }
        Err(why) => missing("cuda", &why.to_string(), terminal),
    }
}

#[cfg(feature = "wgpu")]
fn wgpu(terminal: &mut Terminal) -> Result<(), Failure> {
    let all = relax_webgpu::devices();
    if all.is_empty() {
        return missing("wgpu", "no device; ./setup.sh webgpu fetches a software one", terminal);
    }
    all.into_iter().try_for_each(|device| found("wgpu", &device.to_string(), terminal))
}

#[cfg(not(feature = "cuda"))]
fn cuda(terminal: &mut Terminal) -> Result<(), Failure> {
    missing("cuda", super::run::NO_CUDA, terminal)
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(terminal: &mut Terminal) -> Result<(), Failure> {
    missing("wgpu", super::run::NO_WGPU, terminal)
}
