//! What the kernels of a CUDA source take of a multiprocessor, as a table.

use crate::args::Format;
use crate::exit::Failure;
use relax_cuda::{Error, Nvrtc};
use relax_emit::cuda::{CudaSource, Launch};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The table for an architecture; the kernels that look at maps of their tensors are not in it.
///
/// # Errors
/// No compiler; an architecture that it does not have.
pub(super) fn table(
    source: &CudaSource,
    architecture: &str,
    format: Format,
) -> Result<String, Failure> {
    let found = Nvrtc::find().and_then(|nvrtc| nvrtc.resources(&source.text, architecture));
    let found = found.map_err(|error| match error {
        Error::Compile { log, .. } => {
            Failure::usage(format!("NVRTC has no code for `{architecture}`: {}", log.trim()))
        }
        error => Failure::missing(error.to_string()),
    })?;
    let launches = source.kernels.iter().flat_map(|kernel| &kernel.launches);
    let threads: BTreeMap<&str, i64> =
        launches.map(|launch: &Launch| (launch.symbol.as_str(), launch.most_threads())).collect();
    let mut text = match format {
        Format::Text => format!(
            "{:<48} {:>7} {:>9} {:>12} {:>13} {:>9}\n",
            "kernel", "threads", "registers", "shared bytes", "spilled bytes", "occupancy"
        ),
        Format::Json => String::new(),
    };
    for one in &found {
        let Some(count) = threads.get(one.function.as_str()) else { continue };
        let occupancy = one.occupancy(u32::try_from(*count).unwrap_or(u32::MAX));
        let spilled: u32 = one.spilled.iter().sum();
        let (name, registers, shared) = (&one.function, one.registers, one.shared);
        let _ = match format {
            Format::Text => writeln!(
                text,
                "{name:<48} {count:>7} {registers:>9} {shared:>12} {spilled:>13} {occupancy:>7} %"
            ),
            Format::Json => writeln!(
                text,
                "{}",
                json!({
                    "type": "resources",
                    "kernel": name,
                    "threads": count,
                    "registers": registers,
                    "shared_bytes": shared,
                    "spilled_bytes": spilled,
                    "occupancy_percent": occupancy,
                })
            ),
        };
    }
    Ok(text)
}
