//! The numerics of compiled code, for the user: whoever deploys a module file did not always build it.

use crate::args::Format;
use crate::terminal::Terminal;
use relax_runtime::Module;
use relax_runtime::program::{Metadata, Numerics};
use serde_json::{Value, json};

/// The numerics in words.
pub(super) fn words(metadata: &Metadata) -> String {
    match (metadata.numerics, metadata.rounded) {
        (Numerics::Reassociated, _) => "float sums reassociated".to_owned(),
        (Numerics::Exact, 0) => "exact".to_owned(),
        (Numerics::Exact, rounded) => {
            format!("exact ({rounded} with functions that round by units in the last place)")
        }
    }
}

/// What a certificate calls the route of a build with these numerics.
pub(super) fn route(numerics: Numerics) -> &'static str {
    match numerics {
        Numerics::Exact => "build --exact",
        Numerics::Reassociated => "build",
    }
}

/// The facts of a module, for tools.
pub(super) fn object(name: &str, kernels: usize, metadata: &Metadata) -> Value {
    json!({
        "type": "module",
        "file": name,
        "kernels": kernels,
        "numerics": metadata.numerics.name(),
        "rounded_kernels": metadata.rounded,
        "producer": metadata.producer,
    })
}

/// Says with `-v` which numerics a module has that is about to run.
pub(super) fn detail(name: &str, module: &Module, terminal: &mut Terminal) {
    let (kernels, metadata) = (module.kernels().len(), module.metadata());
    match terminal.format {
        Format::Text => {
            terminal.detail(&format!("{name}: {kernels} kernels, {}", words(metadata)));
        }
        Format::Json if terminal.is_verbose() => {
            terminal.message(format!("{}\n", object(name, kernels, metadata)).as_bytes());
        }
        Format::Json => {}
    }
}
