//! `relax devices`: what `--backend` can run kernels on, on this machine.

use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;

pub(super) fn devices(terminal: &mut Terminal) -> Outcome {
    terminal.result("interp: the reference interpreter\n")?;
    match relax_cpu::Compiler::of_system() {
        Ok(_) => terminal.result("cpu: this processor, through the system's C compiler\n")?,
        Err(error) => terminal.note(&format!("cpu: {error}")),
    }
    cuda(terminal)?;
    wgpu(terminal)
}

#[cfg(feature = "cuda")]
fn cuda(terminal: &mut Terminal) -> Outcome {
    match relax_cuda::devices() {
        Ok(found) => {
            for one in found {
                let (name, architecture, size) = (one.name, one.architecture, one.bytes >> 20);
                terminal.result(&format!("cuda: {name} ({architecture}), {size} MiB\n"))?;
            }
        }
        Err(why) => terminal.note(&format!("cuda: {why}")),
    }
    Ok(Exit::Fine)
}

#[cfg(feature = "wgpu")]
fn wgpu(terminal: &mut Terminal) -> Outcome {
    let found = relax_webgpu::devices();
    if found.is_empty() {
        terminal.note("wgpu: no device; ./setup.sh webgpu fetches a software one");
    }
    for device in found {
        terminal.result(&format!("wgpu: {device}\n"))?;
    }
    Ok(Exit::Fine)
}

#[cfg(not(feature = "cuda"))]
fn cuda(terminal: &mut Terminal) -> Outcome {
    terminal.note(&format!("cuda: {}", super::run::NO_CUDA));
    Ok(Exit::Fine)
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(terminal: &mut Terminal) -> Outcome {
    terminal.note(&format!("wgpu: {}", super::run::NO_WGPU));
    Ok(Exit::Fine)
}
