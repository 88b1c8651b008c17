//! Oracle of the pipeline: one call of each function before and after the whole pipeline. It checks less of each
//! program than `passes`, and more programs.

use super::inputs::{drawn, options};
use super::passes;
use crate::case::{Case, Finding};
use crate::session::Statistics;
use crate::times::Work;
use relax_program::compare::Relation;
use relax_program::frontend::{Ran, run};
use relax_rewrite::pass::Device;
use relax_rewrite::verify::{compare_printed, compare_values, relation_of};
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use std::rc::Rc;

/// Kinds of inputs, one of which a program is called with.
const KINDS: u64 = 6;

pub(super) fn hold(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    // One in three goes down as `relax build` does.
    let freely = (case.seed / KINDS).is_multiple_of(3);
    let (way, lowered) = if freely {
        let way = passes::down_freely();
        let lowered = passes::transformed(case, &case.checked, &way, statistics)?;
        (way, Rc::new(lowered))
    } else {
        (passes::down(Device::Cpu), passes::lowered(case, statistics)?)
    };
    let relation = relation_of(lowered.exactness, &case.checked);
    let index = usize::try_from(case.seed % KINDS).unwrap_or(0);
    let start = statistics.times.now();
    for function in case.checked.functions() {
        let Some((dims, arguments)) = drawn(case, function, index, statistics) else { continue };
        let want = run(&case.checked, &function.name, arguments.clone(), &options());
        let got = run(&lowered.module, &function.name, arguments.clone(), &options());
        alike(relation, &arguments, (&want, &got), statistics).map_err(|why| {
            let why = format!("`{}` at {dims:?}, case {index}: {why}", function.name);
            Finding::new("pipeline", why, way.command())
        })?;
    }
    statistics.times.spent(Work::Run, start);
    Ok(())
}

/// The same value and the same lines, or the same trap.
fn alike(
    relation: Relation,
    arguments: &[Value],
    (want, got): (&Ran, &Ran),
    statistics: &mut Statistics,
) -> Result<(), String> {
    match (&want.result, &got.result) {
        (Err(Stop::Exhausted { .. }), _) | (_, Err(Stop::Exhausted { .. })) => {
            statistics.exhausted += 1;
            return Ok(());
        }
        (Err(Stop::Unsupported(_)), _) | (_, Err(Stop::Unsupported(_))) => {
            statistics.unsupported += 1;
            return Ok(());
        }
        (Ok(want), Ok(got)) => {
            compare_values(relation, want, got, arguments)?;
            statistics.compared += 1;
        }
        (Err(Stop::Trap(want)), Err(Stop::Trap(got))) if want.id == got.id => {
            statistics.trapped += 1;
        }
        (want, got) => return Err(format!("{want:?}; through the pipeline {got:?}")),
    }
    compare_printed(relation, &want.printed, &got.printed, arguments)
}
