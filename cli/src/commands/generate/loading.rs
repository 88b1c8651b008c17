//! A language model as the arguments ask for it: opened, compiled or found in the cache, with what is said about its numerics.

use super::checkpoint::Checkpoint;
use super::compiled::{Compiled, compile};
use crate::args::{Activations, Format, LoadingArgs, Quantize};
use crate::commands::numerics;
use crate::commands::run::size;
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_llm::Quantization;
use relax_runtime::Limits;
use relax_runtime::program::Numerics;
use serde_json::json;
use std::num::NonZero;

pub(crate) fn opened(args: &LoadingArgs) -> Result<Checkpoint, Failure> {
    Checkpoint::open(&args.model, args.quantize.map(quantization))
}

/// The compiled model.
pub(crate) fn load(
    args: &LoadingArgs,
    checkpoint: &Checkpoint,
    terminal: &mut Terminal,
) -> Result<Compiled, Failure> {
    let limits = Limits {
        bytes: usize::try_from(size("--max-memory", &args.max_memory)?).unwrap_or(usize::MAX),
        threads: args.threads.map_or(0, NonZero::get),
        ..Limits::default()
    };
    let activations = activations(args, checkpoint)?;
    let words = match activations {
        Activations::F32 => "activations in f32",
        Activations::Q8 if !checkpoint.is_quantized => {
            "`--activations q8` rounds nothing: no weights are quantized"
        }
        Activations::Bf16 if !checkpoint.is_narrow => {
            "`--activations bf16` rounds nothing: all weights are f32"
        }
        Activations::Q8 => {
            "products with quantized weights round activations to 8 bits (`--activations f32` does not)"
        }
        Activations::Bf16 => {
            "products with quantized and 16-bit weights round activations to bf16 and are computed in f32"
        }
    };
    if activations == Activations::F32 {
        terminal.detail(words);
    } else {
        terminal.note(words);
    }
    let compiled = compile(args, (checkpoint, activations), limits, terminal)?;
    let words = numerics::words(compiled.module.metadata());
    let weights = args.quantize.map(quantization).map(|to| {
        let count = checkpoint.text.quantized.len();
        format!("; {count} matrices quantized to {to}")
    });
    terminal.detail(&format!("{words}{}", weights.unwrap_or_default()));
    show_quantized(args, checkpoint, terminal)?;
    Ok(compiled)
}

fn quantization(argument: Quantize) -> Quantization {
    match argument {
        Quantize::Q4_0 => Quantization::Q4_0,
        Quantize::Q8_0 => Quantization::Q8_0,
        Quantize::Bf16 => Quantization::Bf16,
    }
}

/// Says which matrices were to be quantized and are not.
fn show_quantized(
    args: &LoadingArgs,
    checkpoint: &Checkpoint,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let (Some(to), text) = (args.quantize.map(quantization), &checkpoint.text) else {
        return Ok(());
    };
    if terminal.format == Format::Json {
        let object = json!({
            "type": "quantization",
            "format": to.name(),
            "matrices": text.quantized,
            "kept": text.kept,
        });
        return terminal.result(&format!("{object}\n"));
    }
    let kept = text.kept.iter().map(|(name, why)| format!("\n  `{name}`: {why}"));
    let kept: String = kept.collect();
    if !kept.is_empty() {
        terminal.note(&format!("not quantized to {to}:{kept}"));
    }
    Ok(())
}

/// Where weights are quantized, activations are rounded by default.
fn activations(args: &LoadingArgs, checkpoint: &Checkpoint) -> Result<Activations, Failure> {
    let rounds = checkpoint.is_quantized && args.numerics.chosen() == Numerics::Reassociated;
    let own = if rounds { Activations::Q8 } else { Activations::F32 };
    args.activations.unwrap_or(own).with(args.numerics)
}
