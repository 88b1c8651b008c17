//! `relax devices`: what `--backend` can run kernels on, on this machine.

use super::cache::cache;
use crate::args::Format;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use relax_driver::BACKENDS;
use relax_rewrite::pass::Device;
use serde_json::json;

pub(super) fn devices(terminal: &mut Terminal) -> Outcome {
    for backend in BACKENDS {
        let name = backend.device().name();
        let lines = match backend.missing() {
            Some(why) => Err(why.to_owned()),
            None => backend.devices((backend.device() == Device::Cpu).then(cache).transpose()?),
        };
        match lines {
            Ok(lines) => lines.iter().try_for_each(|line| found(name, line, terminal))?,
            Err(why) => missing(name, &why, terminal)?,
        }
    }
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
