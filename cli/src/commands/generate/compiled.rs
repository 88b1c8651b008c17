//! The compiled model: made once, and kept in the cache with its weights.

use super::checkpoint::Checkpoint;
use crate::args::{Activations, LoadingArgs};
use crate::commands::build::refused;
use crate::commands::constants::of_passes;
use crate::commands::fallbacks::{Policy, show_fallbacks};
use crate::commands::kept::Kept;
use crate::commands::loading::checked;
use crate::commands::progress::Progress;
use crate::commands::run::{loaded, toolchain};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use relax_driver::sizes::binary;
use relax_driver::{Artifact, Bound, Target, compile as build, evaluate_calls};
use relax_program::frontend::Program;
use relax_rewrite::accounts::Accounts;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::file::Image;
use relax_runtime::{Limits, Module};
use relax_syntax::span::Source;
use std::sync::Arc;

/// A model that can be called, and its program, for messages.
pub(crate) struct Compiled {
    pub(crate) module: Module,
    pub(crate) source: Source,
}

/// The model, compiled or found in the cache.
pub(super) fn compile(
    args: &LoadingArgs,
    (checkpoint, activations): (&Checkpoint, Activations),
    limits: Limits,
    terminal: &mut Terminal,
) -> Result<Compiled, Failure> {
    let source = Source::new(checkpoint.name.as_str(), checkpoint.text.text.as_str());
    terminal.doing(format!("checking {}", checkpoint.name));
    let Some(program) = checked(source.clone(), None, terminal) else {
        return Err(Failure::Shown(Exit::Wrong));
    };
    let toolchain = toolchain(args.kernel_check.policy())?;
    let by = (&toolchain.compiler.clone(), &toolchain.cache.clone());
    let target = Target::of(Device::Cpu, args.numerics.chosen()).by(toolchain);
    let identity = checkpoint.identity().filter(|_| !args.no_model_cache);
    let kept = match identity {
        Some(identity) => Kept::of_model(&program, &target, &identity)?
            .map(|kept| kept.with_activations(activations)),
        None => None,
    };
    if let Some(path) = kept.as_ref().and_then(|kept| kept.find(None))
        && let Ok(module) = Module::open(&path, limits)
    {
        return Ok(Compiled { module, source });
    }
    terminal.doing(format!("reading {}", checkpoint.weights.path().display()));
    let params = of_passes(&program.module, Some(&checkpoint.weights))?;
    terminal.doing("packing the weights".to_owned());
    let packed = evaluate_calls(&program.module, params, &program.source, by);
    let packed = packed.map_err(Failure::missing)?;
    let (program, params) = (Program { module: packed.module, ..program }, Arc::new(packed.values));
    let bound = Bound { activations: activations.into(), ..Bound::of(params) };
    let image = made(&program, (&target, &bound), terminal)?;
    if let Some(kept) = kept {
        terminal.note(&format!(
            "keeping the compiled model, {}, in the cache (`--no-model-cache` does not)",
            binary(image.data.len() as f64)
        ));
        match kept.keep_or_say(&image) {
            Ok(path) => {
                let module = loaded(Module::open(&path, limits), &checkpoint.name)?;
                return Ok(Compiled { module, source });
            }
            Err(why) => terminal.warn(&format!("the compiled model is not kept: {why}")),
        }
    }
    let module = loaded(Module::load_with(&image.to_bytes(), limits), &checkpoint.name)?;
    Ok(Compiled { module, source })
}

fn made(
    program: &Program,
    (target, bound): (&Target, &Bound),
    terminal: &mut Terminal,
) -> Result<Image, Failure> {
    let mut unwatched = Unwatched;
    let mut watch = Accounts::before(&mut unwatched);
    let file = program.source.name.clone();
    let mut progress = Progress { terminal: &mut *terminal, file, inner: &mut watch };
    let image = build(program, target, bound, &mut progress).and_then(Artifact::into_file);
    let image = image.map_err(|error| refused(error, program, terminal))?;
    // An interpreted operator would take longer than all others.
    match show_fallbacks(&watch.fallbacks, Policy::Deny, program, terminal) {
        Exit::Fine => Ok(image),
        exit => Err(Failure::Shown(exit)),
    }
}
