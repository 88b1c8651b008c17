//! Tensors that are not in use at the same time share memory (paper, §4.2 and Algorithm 3).
//!
//! Every tensor that has a storage to itself is planned: those whose size is known where the function
//! begins together, those whose size a `match_cast` binds together. A storage is
//! taken where the function begins, or before the first of its tensors when functions are called until then,
//! which have memory of their own. Where they lie is [`crate::memory::packing`]'s business: offsets are expressions of the dims,
//! and what the prover does not show to be apart is put apart. A tensor that may be part of the result
//! keeps a storage to itself after the function ends, which others may use before. Storages that the
//! program manages itself, because it uses them twice or releases them, stay as they are; those that it never
//! releases are released.
//!
//! With a target that records graphs of calls, memory whose dims all have upper bounds is taken at
//! these bounds, where the function begins: then it is the same for every shape, and no call is recorded
//! around an allocation (§4.4). On the processor so is that of a function which calls no other, in which everything
//! planned has bounds and takes little at them: its memory is the same for every shape then, and the system is asked
//! for it once.

mod allocations;
mod emit;
mod given;
mod groups;
mod storages;
mod unreleased;

use crate::fresh::Fresh;
use crate::memory::aliases::{Aliases, Returns};
use crate::memory::extents::{Extents, declared};
use crate::memory::timeline::{Position, Timeline};
use emit::{Found, rebuild};
use given::{calls, given};
use groups::{Alone, groups};
use relax_rewrite::names::Defined;
use relax_rewrite::pass::{Device, Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{Definition, Function, Module};
use std::collections::BTreeSet;
use storages::{Plan, plan};
use unreleased::unreleased;

/// The record.
pub static PASS: Pass = Pass {
    name: "plan_memory",
    doc: "Puts tensors that are not in use at the same time into the same bytes, and releases what it \
          planned.",
    from: Phase::P21,
    to: Phase::P21,
    until: Phase::P21,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let returns = Returns::of(module);
    let mut result = module.clone();
    let defined = Defined::of(module);
    let (mut tensors, mut storages) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let Some(timeline) = Timeline::of(function) else { continue };
        let aliases = Aliases::of(function, module, &returns);
        context.facts.push();
        assume_signature(function, context.facts);
        let calls = calls(module, function, &timeline);
        let scene = Scene { function, timeline: &timeline, aliases: &aliases, calls: &calls };
        let Layout { plans, alone, sizes } = scene.planned(context.settings.device, context.facts);
        context.facts.pop();
        tensors += plans.iter().map(|plan| plan.tensors.len()).sum::<usize>();
        storages += plans.iter().map(|plan| plan.storages.len()).sum::<usize>();
        let fresh = Fresh::of(&defined, function);
        let annotations = &context.checked.annotations[&function.name];
        let given = given(module, function, annotations, &timeline, &aliases, &returns);
        let old = plans.iter().flat_map(|plan| &plan.tensors).map(|tensor| tensor.old);
        let planned: BTreeSet<_> = old.chain(alone.iter().map(|tensor| tensor.storage)).collect();
        let left = unreleased(function, &planned, &timeline, &aliases);
        let (plans, alone, given, left, calls) = (&plans, &alone, &given, &left, &calls);
        rebuild(function, fresh, &timeline, &Found { plans, alone, given, left, calls, sizes });
    }
    context.count("planned", tensors, "tensors");
    context.count("in", storages, "storages");
    Ok(result)
}

/// How much memory a tensor is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    /// What it takes.
    Exact,
    /// What it takes when every dim is at its upper bound, where all have one.
    AtBounds,
}

/// Bytes up to which a function on the processor takes what it needs at the upper bounds of its dims.
const SMALL: i64 = 64 << 20;

/// A function whose memory is planned.
#[derive(Clone, Copy)]
struct Scene<'a> {
    function: &'a Function,
    timeline: &'a Timeline,
    aliases: &'a Aliases,
    /// Where it calls others.
    calls: &'a [Position],
}

/// What of it lies where, and what stays as it is.
struct Layout {
    plans: Vec<Plan>,
    alone: Vec<Alone>,
    sizes: Sizes,
}

impl Scene<'_> {
    fn planned(self, target: Device, facts: &mut dyn Facts) -> Layout {
        let is_bounded = self.function.dims.iter().any(|dim| dim.upper.is_some());
        match target {
            Device::Cuda => self.with(Sizes::AtBounds, facts),
            // In a recursion each call has memory of its own.
            Device::Cpu if is_bounded && self.calls.is_empty() => {
                let planned = self.with(Sizes::AtBounds, facts);
                if planned.is_small() { planned } else { self.with(Sizes::Exact, facts) }
            }
            Device::Interp | Device::Cpu | Device::Wgpu => self.with(Sizes::Exact, facts),
        }
    }

    fn with(self, sizes: Sizes, facts: &mut dyn Facts) -> Layout {
        let Scene { function, timeline, aliases, .. } = self;
        let mut extents = Extents::of(function, facts);
        let (groups, mut alone) = groups(function, timeline, aliases, sizes, &mut extents);
        let plans: Vec<Plan> =
            groups.iter().map(|group| plan(group, timeline, &mut extents)).collect();
        alone.extend(plans.iter().flat_map(|plan| &plan.alone));
        Layout { plans, alone, sizes }
    }
}

impl Layout {
    /// Whether all that is planned takes the same number of bytes for all shapes, and few.
    fn is_small(&self) -> bool {
        let mut storages = self.plans.iter().flat_map(|plan| &plan.storages).peekable();
        let is_any = storages.peek().is_some();
        let total = storages.try_fold(0_i64, |total, storage| {
            storage.bytes.as_int().and_then(|bytes| total.checked_add(bytes))
        });
        is_any && total.is_some_and(|total| total <= SMALL)
    }
}

/// What is known where the function begins: what is declared of its variables, and that tensors it is
/// given have no negative dims.
fn assume_signature(function: &Function, facts: &mut dyn Facts) {
    declared(function).into_iter().for_each(|claim| facts.assume(claim));
    for &param in &function.lambda.params {
        function.param_annotation(param).visit_dims(&mut |dim: &Dim| {
            if matches!(dim, Dim::Op(..)) {
                facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
            }
        });
    }
}
