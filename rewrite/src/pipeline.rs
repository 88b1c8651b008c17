//! The list of passes, and how they are run: the module is checked after each.

use crate::dims::drop_unused_dims;
use crate::fallback::Fallback;
use crate::pass::{Account, Counter, Pass, PassContext, Settings};
use crate::pass_names::NoPass;
use crate::passes::{
    alter_op_impl, annotate_tir_op_pattern, bind_params, bubble_up_slices, canonicalize_bindings,
    combine_parallel_matmul, convert_layout, convert_to_dataflow, decompose_batch_norm,
    decompose_ops, drop_unit_loops, eliminate_broadcasts, eliminate_checks,
    eliminate_common_subexpr, eliminate_dead_code, erase_sharding, expand_libraries, fold_constant,
    fuse_ops, fuse_ops_by_pattern, fuse_siblings, fuse_tir, gradient, guard_constraints,
    guard_libraries, inline_buffers, inline_private_functions, legalize_ops, lift_lambdas,
    lift_transform_params, lower_to_library, merge_composite_functions, move_reshapes, name_dims,
    narrow_activations, normalize, outline_blocks, rewrite_dataflow_reshape, round_activations,
    run_codegen, saturate, split_call_tir_by_pattern, stitch_products, stitch_rows,
    to_mixed_precision, widen_halves,
};
use crate::saturation::Report;
use relax_semantics::check::{Checked, Phase, check, check_after, codes};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{AttrValue, Definition, Module, renumber};
use relax_syntax::span::Span;

/// The way to one phase from the one before.
#[derive(Debug)]
pub struct Stage {
    /// Where it leads.
    pub phase: Phase,
    /// In order.
    pub steps: &'static [&'static [Step]],
}

/// A part of a stage.
#[derive(Debug)]
pub enum Step {
    /// One pass.
    Once(&'static Pass),
    /// Passes that make work for each other, again until none changes anything.
    Fixpoint(&'static [&'static Pass]),
}

/// Stages in order, and passes that are run by name only: what a crate knows with all below it.
#[derive(Debug)]
pub struct Pipeline {
    /// In the order of their phases.
    pub stages: &'static [&'static Stage],
    /// Run by name only.
    pub optional: &'static [&'static [&'static Pass]],
}

/// Ingestion, then optimization.
pub static PIPELINE: Pipeline =
    Pipeline { stages: &[&INGESTION, &OPTIMIZATION], optional: &[OPTIONAL] };

/// P0.
pub static INGESTION: Stage = Stage {
    phase: Phase::P0,
    steps: &[&[
        Step::Once(&lift_lambdas::PASS),
        Step::Once(&normalize::PASS),
        Step::Once(&convert_to_dataflow::PASS),
        Step::Once(&rewrite_dataflow_reshape::PASS),
    ]],
};

/// Passes that make work for each other.
const SIMPLIFICATION: &[Step] = &[Step::Fixpoint(&[
    &fold_constant::PASS,
    &eliminate_checks::PASS,
    &eliminate_broadcasts::PASS,
    &eliminate_common_subexpr::PASS,
    &bubble_up_slices::PASS,
    &canonicalize_bindings::PASS,
    &eliminate_dead_code::PASS,
])];

/// P1.
pub static OPTIMIZATION: Stage = Stage { phase: Phase::P1, steps: &[SIMPLIFICATION] };

/// The same for processors: the passes that write f64, which some devices lack, where an operator computes in it.
pub static OPTIMIZATION_FAST: Stage = Stage {
    phase: Phase::P1,
    steps: &[&[Step::Once(&decompose_batch_norm::PASS)], SIMPLIFICATION],
};

/// Passes of this crate that no stage of it runs.
pub static OPTIONAL: &[&Pass] = &[
    &bind_params::PASS,
    &gradient::PASS,
    &inline_private_functions::PASS,
    &outline_blocks::PASS,
    &saturate::PASS,
    &saturate::REALS,
    &saturate::VERSIONS,
    &saturate::VERSIONS_OF_REALS,
    &combine_parallel_matmul::PASS,
    &decompose_batch_norm::PASS,
    &decompose_ops::INFERENCE,
    &decompose_ops::TRAINING,
    &convert_layout::PASS,
    &to_mixed_precision::PASS,
    &to_mixed_precision::BRAIN,
    &round_activations::PASS,
    &narrow_activations::PASS,
    &widen_halves::PASS,
    &lift_transform_params::PASS,
    &lower_to_library::PASS,
    &fuse_ops_by_pattern::PASS,
    &alter_op_impl::PASS,
    &merge_composite_functions::PASS,
    &run_codegen::PASS,
    &guard_constraints::PASS,
    &guard_libraries::PASS,
    &erase_sharding::PASS,
    &expand_libraries::PASS,
    &name_dims::PASS,
    &move_reshapes::PASS,
    &legalize_ops::PASS,
    &annotate_tir_op_pattern::PASS,
    &fuse_ops::PASS,
    &fuse_tir::PASS,
    &drop_unit_loops::PASS,
    &inline_buffers::PASS,
    &split_call_tir_by_pattern::PASS,
    &stitch_rows::PASS,
    &stitch_products::PASS,
    &fuse_siblings::PASS,
];

/// Rounds after which a fixpoint is left: the module is right after every one of them.
const MAX_ROUNDS: usize = 10;

impl Pipeline {
    /// Every pass once, in the order of the stages, then those that are run by name only.
    #[must_use]
    pub fn all_passes(&self) -> Vec<&'static Pass> {
        let steps = self.stages.iter().flat_map(|stage| stage.steps.iter().copied().flatten());
        let staged = steps.flat_map(|step| match step {
            Step::Once(pass) => std::slice::from_ref(pass),
            Step::Fixpoint(passes) => passes,
        });
        let mut passes: Vec<&'static Pass> = Vec::new();
        for pass in staged.chain(self.optional.iter().copied().flatten()) {
            if passes.iter().all(|known| known.name != pass.name) {
                passes.push(pass);
            }
        }
        passes
    }

    /// The way to a phase.
    #[must_use]
    pub fn to(&'static self, phase: Phase) -> Route {
        let stages = self.stages.iter().copied();
        Route::Stages(stages.filter(|stage| stage.phase <= phase).collect())
    }

    /// Passes by their names, separated by commas.
    ///
    /// # Errors
    /// The first name that is not one of a pass.
    pub fn named(&self, list: &str) -> Result<Route, String> {
        let passes = list.split(',').map(|name| self.lookup(name.trim()));
        let passes: Result<Vec<_>, NoPass> = passes.collect();
        Ok(Route::Passes(passes.map_err(|none| none.to_string())?.concat()))
    }
}

/// What a run of the pipeline shall do.
#[derive(Clone, Debug)]
pub enum Route {
    /// These stages, but for those whose phase the module is in or beyond; it records each.
    Stages(Vec<&'static Stage>),
    /// These passes, once each.
    Passes(Vec<&'static Pass>),
}

/// A pass has been run.
pub struct Applied<'a> {
    /// Which.
    pub pass: &'static Pass,
    /// The module before.
    pub before: &'a Module,
    /// The module after, checked.
    pub after: &'a Module,
    /// What it counted.
    pub counters: &'a [Counter],
    /// Calls that stay with the reference library.
    pub fallbacks: &'a [Fallback],
    /// What rewrite rules did.
    pub rewrites: Option<&'a Report>,
    changed: bool,
}

impl Applied<'_> {
    /// True if the text is another one.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.changed
    }
}

/// Is told of every pass, and may stop the run.
pub trait Watch {
    /// A pass begins.
    fn before(&mut self, _pass: &'static Pass) {}

    /// A pass has made its module, which is checked next.
    fn transformed(&mut self, _pass: &'static Pass) {}

    /// A pass has ended.
    ///
    /// # Errors
    /// Why no further pass shall be run.
    fn after(&mut self, applied: &Applied) -> Result<(), String>;

    /// The module became another one by something that is no pass.
    fn made(&mut self, _what: &'static str, _module: &Module) {}
}

/// Watches nothing.
pub struct Unwatched;

impl Watch for Unwatched {
    fn after(&mut self, _applied: &Applied) -> Result<(), String> {
        Ok(())
    }
}

/// Why a run ended early.
#[derive(Clone, Debug)]
pub enum Failed {
    /// The program is not what the pass demands, or cannot be transformed.
    Refused {
        /// The pass.
        pass: &'static str,
        /// Why.
        diagnostics: Vec<Diagnostic>,
    },
    /// What the pass made is not well-formed: a mistake in the pass.
    Broken {
        /// The pass.
        pass: &'static str,
        /// What is wrong with it.
        diagnostics: Vec<Diagnostic>,
        /// The module that is wrong.
        module: Box<Module>,
    },
    /// Whoever watched stopped it.
    Stopped {
        /// The pass.
        pass: &'static str,
        /// Why.
        why: String,
    },
}

/// Runs passes on a module.
///
/// # Errors
/// The first pass that refuses the module, makes a wrong one, or is stopped after.
pub fn run(
    module: &Module,
    route: &Route,
    settings: &Settings,
    facts: &mut dyn Facts,
    watch: &mut dyn Watch,
) -> Result<Module, Failed> {
    let mut state = State::of(module, settings, facts, watch);
    let reached = state.recorded;
    match route {
        Route::Passes(passes) => {
            for pass in passes {
                state.apply(pass)?;
            }
        }
        Route::Stages(stages) => {
            for stage in stages.iter().filter(|stage| reached < stage.phase) {
                state.stage(stage)?;
            }
        }
    }
    Ok(state.checked.module)
}

struct State<'a> {
    checked: Checked,
    /// The phase whose demands the module is known to satisfy.
    phase: Phase,
    /// The phase that the module records.
    recorded: Phase,
    settings: &'a Settings,
    facts: &'a mut dyn Facts,
    watch: &'a mut dyn Watch,
}

impl<'a> State<'a> {
    fn of(
        module: &Module,
        settings: &'a Settings,
        facts: &'a mut dyn Facts,
        watch: &'a mut dyn Watch,
    ) -> Self {
        let recorded = Phase::of_module(module).unwrap_or(Phase::Surface);
        let checked = check(module, facts, recorded);
        Self { checked, phase: recorded, recorded, settings, facts, watch }
    }

    fn stage(&mut self, stage: &Stage) -> Result<(), Failed> {
        for step in stage.steps.iter().copied().flatten() {
            match step {
                Step::Once(pass) => {
                    self.apply(pass)?;
                }
                Step::Fixpoint(passes) => self.fixpoint(passes)?,
            }
        }
        record_phase(&mut self.checked.module, stage.phase);
        self.recorded = stage.phase;
        Ok(())
    }

    fn fixpoint(&mut self, passes: &[&'static Pass]) -> Result<(), Failed> {
        // So many passes in a row have changed nothing.
        let mut quiet = 0;
        for pass in passes.iter().cycle().take(MAX_ROUNDS * passes.len()) {
            if quiet == passes.len() {
                break;
            }
            quiet = if self.apply(pass)? { 0 } else { quiet + 1 };
        }
        Ok(())
    }

    /// Runs one pass; says whether it changed anything.
    fn apply(&mut self, pass: &'static Pass) -> Result<bool, Failed> {
        let refused = |diagnostics| Failed::Refused { pass: pass.name, diagnostics };
        if self.recorded > pass.until {
            return Err(refused(vec![too_late(pass, self.recorded)]));
        }
        self.raise(pass.from);
        if !self.checked.is_ok() {
            return Err(refused(self.checked.diagnostics.clone()));
        }
        self.watch.before(pass);
        let mut context = PassContext::new(&self.checked, self.settings, self.facts);
        let mut module = (pass.run)(&self.checked.module, &mut context)
            .map_err(|diagnostic| refused(vec![diagnostic]))?;
        let Account { counters, fallbacks, rewrites } = context.into_account();
        settle(&mut module);
        self.watch.transformed(pass);
        let before = self.replace(pass, module)?;
        let after = &self.checked.module;
        // A pass that only drops annotations, which the check writes again, has changed nothing.
        let changed = before.as_ref().is_some_and(|before| before.module != *after);
        let before = before.as_ref().map_or(after, |before| &before.module);
        let (counters, fallbacks, rewrites) = (&*counters, &*fallbacks, rewrites.as_ref());
        let applied = Applied { pass, before, after, counters, fallbacks, rewrites, changed };
        let stopped = |why| Failed::Stopped { pass: pass.name, why };
        self.watch.after(&applied).map_err(stopped)?;
        Ok(changed)
    }

    /// Demands of the module what this phase demands. Where something is wrong already, all of it is told.
    fn raise(&mut self, phase: Phase) {
        if self.phase >= phase {
            return;
        }
        self.phase = phase;
        if self.checked.is_ok() {
            self.checked.demand(phase);
        } else {
            self.checked = check(&self.checked.module, self.facts, phase);
        }
    }

    /// Checks what a pass made, and gives what was there before; `None` if that is the same.
    fn replace(&mut self, pass: &'static Pass, module: Module) -> Result<Option<Checked>, Failed> {
        let phase = self.phase.max(pass.to);
        let before = if module == self.checked.module {
            self.raise(phase);
            None
        } else {
            self.phase = phase;
            let after = check_after(&self.checked, module, self.facts, phase);
            Some(std::mem::replace(&mut self.checked, after))
        };
        if !self.checked.is_ok() {
            let (pass, diagnostics) = (pass.name, std::mem::take(&mut self.checked.diagnostics));
            let module = Box::new(std::mem::take(&mut self.checked.module));
            return Err(Failed::Broken { pass, diagnostics, module });
        }
        Ok(before)
    }
}

/// The module is of a later phase than a pass takes.
fn too_late(pass: &Pass, recorded: Phase) -> Diagnostic {
    let (name, recorded, until) = (pass.name, recorded.name(), pass.until.name());
    let message =
        format!("the module records phase {recorded}, and `{name}` takes modules up to {until}");
    backwards(message, recorded)
}

/// What is wrong with a way to a phase before the one that a module records.
#[must_use]
pub fn leads_back(module: &Module, to: Phase) -> Option<Diagnostic> {
    let recorded = Phase::of_module(module).ok().filter(|recorded| *recorded > to)?.name();
    let message = format!("the module records phase {recorded}, which is after {}", to.name());
    Some(backwards(message, recorded))
}

fn backwards(message: String, recorded: &str) -> Diagnostic {
    Diagnostic::error(codes::DIRECTION, Span::default(), message)
        .with_label(format!("in phase {recorded}"))
        .with_help("no pass leads back: start from the text of the earlier phase")
}

/// The canonical numbering of variables, and no symbolic variable that nothing mentions: passes need
/// not see to that.
fn settle(module: &mut Module) {
    for definition in &mut module.definitions {
        if let Definition::Graph(function) = definition {
            renumber(function);
            drop_unused_dims(function);
        }
    }
}

/// `module_attr("phase", …)`
fn record_phase(module: &mut Module, phase: Phase) {
    let value = AttrValue::Str(Name::new(phase.name()));
    match module.attrs.iter_mut().find(|(key, _)| key == "phase") {
        Some((_, recorded)) => *recorded = value,
        None => module.attrs.push((Name::new("phase"), value)),
    }
}
