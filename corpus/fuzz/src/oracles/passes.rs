//! Oracle of passes: a pass preserves the meaning, its output reads back, and no annotation becomes coarser. The
//! whole pipeline is checked first, which is quick. Where it differs, and for some programs always, each pass is
//! checked by itself, which names the wrong one.

use crate::case::{Case, Finding, Lowered};
use crate::session::Statistics;
use crate::times::Work;
use relax_driver::{Target, pipeline};
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::print_and_parse;
use relax_rewrite::pass::{Device, Exactness, Pass, Settings};
use relax_rewrite::pipeline::{Applied, Failed, Route, Watch, run};
use relax_rewrite::precision::coarsened;
use relax_rewrite::verify::{Effort, Remembered, verify_again};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_syntax::ir::Module;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Routes that passes are asked for by name.
const NAMED: &[&str] = &[
    "lift_lambdas,normalize,annotate_tir_op_pattern,fuse_ops",
    "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,inline_buffers,\
     eliminate_dead_code",
    "lift_lambdas,normalize,legalize_ops,stitch_rows,fuse_tir,inline_buffers,fuse_loops",
    "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,inline_buffers,\
     stitch_rows,fuse_tir,inline_buffers,stitch_products,fuse_tir,block_rows",
    "lift_lambdas,normalize,inline_private_functions,combine_parallel_matmul,lift_transform_params,\
     outline_blocks",
    "lift_lambdas,normalize,convert_layout,fold_constant,eliminate_dead_code",
    "lift_lambdas,normalize,guard_libraries,lower_to_library,expand_libraries",
    "lift_lambdas,normalize,guard_libraries,fuse_ops_by_pattern,merge_composite_functions,run_codegen,\
     expand_libraries",
    "lift_lambdas,normalize,legalize_ops,split_call_tir_by_pattern",
    "lift_lambdas,normalize,legalize_ops,fuse_loops",
    "lift_lambdas,normalize,to_mixed_precision",
    "lift_lambdas,normalize,to_mixed_precision_bf16",
    "lift_lambdas,normalize,round_activations",
    "lift_lambdas,normalize,narrow_activations",
    "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,inline_buffers,\
     eliminate_dead_code,narrow_sums",
    "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,narrow_floats",
    "lift_lambdas,normalize,widen_halves,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir",
];
/// One program in so many is held after every pass.
const CLOSELY: u64 = 8;
/// Cases of a function, and of one that is held closely.
const CASES: u32 = 6;

/// A route with the command that runs it.
pub(super) struct Way {
    route: Route,
    settings: Settings,
    command: String,
}

impl Way {
    /// What shows that it does not hold.
    pub(super) fn command(&self) -> &str {
        &self.command
    }
}

/// All the way down, for a processor or for a device with graphs.
pub(super) fn down(device: Device) -> Way {
    let settings = Settings { device, ..Settings::default() };
    let name = if device == Device::Cuda { " --target cuda" } else { "" };
    let command = format!("opt FILE --exact --to P2.3{name} --verify -o OUT.rx");
    let stages = pipeline(&Target::of(device, Numerics::Exact)).stages;
    Way { route: stages.to(Phase::P23), settings, command }
}

/// The same as `relax build` goes it, where float sums may be formed in any order and sums of f32 in f32.
pub(super) fn down_freely() -> Way {
    let command = "opt FILE --to P2.3 --verify -o OUT.rx".to_owned();
    let stages = pipeline(&Target::of(Device::Cpu, Numerics::Reassociated)).stages;
    Way { route: stages.to(Phase::P23), settings: Settings::default(), command }
}

fn by_name(list: &str) -> Option<Way> {
    let route = PIPELINE.named(list).ok()?;
    let command = format!("opt FILE --passes {} --verify", list.replace(' ', ""));
    Some(Way { route, settings: Settings::default(), command })
}

pub(super) fn hold(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    // Every program goes down; each also takes one of the other ways.
    let other = usize::try_from(case.seed).unwrap_or(0) % (NAMED.len() + 2);
    let other = match NAMED.get(other) {
        Some(list) => by_name(list),
        None if other == NAMED.len() => Some(down(Device::Cuda)),
        None => Some(down_freely()),
    };
    let mut held = Held { case, statistics, remembered: Remembered::default() };
    if case.seed.is_multiple_of(CLOSELY) {
        held.closely(&down(Device::Cpu))?;
        return other.map_or(Ok(()), |way| held.closely(&way));
    }
    let on_processor = lowered(case, held.statistics);
    held.on_the_way(&down(Device::Cpu), on_processor)?;
    let Some(way) = other else { return Ok(()) };
    let lowered = transformed(case, &case.checked, &way, held.statistics);
    held.on_the_way(&way, lowered.map(Rc::new))
}

/// A program and its outcome: it is run once for all comparisons.
struct Held<'a> {
    case: &'a Case,
    statistics: &'a mut Statistics,
    remembered: Remembered,
}

impl Held<'_> {
    /// What comes out at the end; after each pass too where that differs, which names the wrong one.
    fn on_the_way(
        &mut self,
        way: &Way,
        lowered: Result<Rc<Lowered>, Finding>,
    ) -> Result<(), Finding> {
        let whole = lowered.and_then(|lowered| {
            self.against(&lowered.module, lowered.exactness)
                .map_err(|difference| Finding::new("pipeline", difference, &way.command))
        });
        let Err(finding) = whole else { return Ok(()) };
        self.closely(way)?;
        // Only all of them together differ.
        Err(finding)
    }

    fn closely(&mut self, way: &Way) -> Result<(), Finding> {
        let input = &self.case.checked;
        let case = self.case;
        let mut watch = Closely { held: self, exactness: Exactness::Exact };
        case.ask(|prover| run(input, &way.route, &way.settings, prover, &mut watch))
            .map(|_| ())
            .map_err(|failed| of_failure(failed, way))
    }

    fn against(&mut self, after: &Module, exactness: Exactness) -> Result<(), String> {
        let (before, values) = (&self.case.checked, BTreeMap::new());
        let effort = Effort { cases: CASES, seed: self.case.seed };
        let since = self.statistics.times.now();
        let tally = verify_again(before, after, exactness, effort, &values, &mut self.remembered)
            .map_err(|difference| difference.to_string())?;
        self.statistics.times.spent(Work::Run, since);
        self.statistics.add(&tally);
        Ok(())
    }
}

/// Counts, and nothing else.
struct Noted<'a> {
    statistics: &'a mut Statistics,
    exactness: Exactness,
    /// The moment up to which time has been counted.
    since: u64,
}

impl Watch for Noted<'_> {
    fn before(&mut self, _pass: &'static Pass) {
        self.since = self.statistics.times.spent(Work::Check, self.since);
    }

    fn transformed(&mut self, _pass: &'static Pass) {
        self.since = self.statistics.times.spent(Work::Transform, self.since);
    }

    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        self.statistics.times.spent(Work::Check, self.since);
        if applied.changed() {
            self.statistics.coverage.note(applied.after);
            self.statistics.coverage.note_pass(applied.pass.name);
            self.exactness = self.exactness.then(applied.pass.exactness);
        }
        self.since = self.statistics.times.now();
        Ok(())
    }
}

/// The program of a case at the end of the exact pipeline for processors. The first oracle that asks transforms it.
pub(super) fn lowered(case: &Case, statistics: &mut Statistics) -> Result<Rc<Lowered>, Finding> {
    let transform = || {
        let lowered = transformed(case, &case.checked, &down(Device::Cpu), statistics);
        lowered.map(Rc::new)
    };
    case.lowered.get_or_init(transform).clone()
}

/// What comes out at the end of a way, of the program of a case or of one that means the same.
pub(super) fn transformed(
    case: &Case,
    input: &Module,
    way: &Way,
    statistics: &mut Statistics,
) -> Result<Lowered, Finding> {
    let since = statistics.times.now();
    let mut noted = Noted { statistics, exactness: Exactness::Exact, since };
    let after = case.ask(|prover| run(input, &way.route, &way.settings, prover, &mut noted));
    let exactness = noted.exactness;
    let module = after.map_err(|failed| of_failure(failed, way))?;
    Ok(Lowered { module, exactness })
}

/// Holds the module after each pass against the input.
struct Closely<'a, 'b> {
    held: &'a mut Held<'b>,
    exactness: Exactness,
}

impl Watch for Closely<'_, '_> {
    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        if !applied.changed() {
            return Ok(());
        }
        let coverage = &mut self.held.statistics.coverage;
        coverage.note(applied.after);
        coverage.note_pass(applied.pass.name);
        print_and_parse(applied.after)?;
        // From P2.3 on annotations are code.
        if applied.pass.to < Phase::P23 {
            let case = self.held.case;
            case.ask(|prover| {
                coarsened(applied.before, applied.after, prover).map_or(Ok(()), Err)
            })?;
        }
        self.exactness = self.exactness.then(applied.pass.exactness);
        self.held.against(applied.after, self.exactness)
    }
}

fn of_failure(failed: Failed, way: &Way) -> Finding {
    let (kind, why) = match failed {
        Failed::Refused { pass, diagnostics } => {
            let first = diagnostics.first().map_or("", |found| found.message.as_str()).to_owned();
            (format!("{pass} refuses"), first)
        }
        Failed::Broken { pass, diagnostics, .. } => {
            let first = diagnostics.first().map_or("", |found| found.message.as_str()).to_owned();
            (format!("{pass} makes what is not well-formed"), first)
        }
        Failed::Stopped { pass, why } => (pass.to_owned(), why),
    };
    Finding::new(kind, why, &way.command)
}

#[cfg(test)]
mod tests {
    use super::{down_freely, lowered, transformed};
    use crate::case::Case;
    use crate::oracles::Oracle;
    use crate::session::Statistics;
    use relax_program::frontend::print;
    use relax_syntax::dim::Dim;
    use relax_syntax::facts::{Answer, Claim, Facts, Relation};
    use std::convert::Infallible;

    /// What is made of a program does not depend on what its prover was asked before, and no fact stays behind.
    #[test]
    fn a_shared_prover_answers_as_a_new_one() {
        let mut changed = 0;
        for seed in 0..12 {
            let text = Oracle::Passes.program(seed);
            let freely = |others_first: bool| {
                let case = Case::read(&text, seed)?;
                let mut statistics = Statistics::default();
                if others_first {
                    lowered(&case, &mut statistics).ok()?;
                }
                let made = transformed(&case, &case.checked, &down_freely(), &mut statistics);
                let made = print(&made.ok()?.module);
                for name in case.checked.functions().flat_map(|function| &function.dims) {
                    let natural =
                        Claim::new(Dim::Int(0), Relation::AtMost, Dim::Var(name.name.clone()));
                    let answer = case.ask(|prover| Ok::<_, Infallible>(prover.decide(&natural)));
                    assert!(matches!(answer, Ok(Answer::Refuted(_))), "{natural:?}: {answer:?}");
                }
                Some(made)
            };
            let alone = freely(false);
            changed += usize::from(alone.is_some());
            assert_eq!(alone, freely(true), "seed {seed}");
        }
        assert!(changed > 8, "{changed}");
    }
}
