//! `relax devices`: what can run programs on this machine.

use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_cpu::Compiler;

pub(super) fn devices(terminal: &mut Terminal) -> Outcome {
    let cpu = match Compiler::of_system() {
        Ok(_) => relax_runtime::host_target(),
        Err(why) => format!("not usable: {why}"),
    };
    terminal.result("interp: the reference interpreter\n")?;
    terminal.result(&format!("cpu: {cpu}\n"))?;
    for line in cuda() {
        terminal.result(&format!("cuda: {line}\n"))?;
    }
    Ok(Exit::Fine)
}

#[cfg(feature = "cuda")]
fn cuda() -> Vec<String> {
    match relax_cuda::devices() {
        Ok(found) => found
            .iter()
            .map(|one| format!("{} ({}), {} MiB", one.name, one.architecture, one.bytes >> 20))
            .collect(),
        Err(why) => vec![format!("not usable: {why}")],
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda() -> Vec<String> {
    vec!["not built: this command has not the feature `cuda`".to_owned()]
}
