//! Oracle of the checker: an accepted program has the same outcome with and without deduced annotations, and no
//! deduced annotation is false of a run.

use super::inputs::{drawn, options};
use crate::case::{Case, Finding};
use crate::session::Statistics;
use relax_program::compare::Relation;
use relax_program::frontend::run;
use relax_rewrite::verify::compare_values;
use relax_semantics::stop::Stop;

/// Calls of each function.
const CALLS: usize = 4;

pub(super) fn hold(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    for function in case.raw.functions() {
        for index in 0..CALLS {
            let Some((dims, arguments)) = drawn(case, function, index, statistics) else {
                continue;
            };
            let plain = run(&case.raw, &function.name, arguments.clone(), &options()).result;
            let deduced = run(&case.checked, &function.name, arguments, &options()).result;
            let found = |kind: &str, why: String| {
                let why = format!("`{}` at {dims:?}: {why}", function.name);
                Err(Finding::new(kind, why, format!("run FILE --entry {} --random", function.name)))
            };
            match (plain, deduced) {
                (Ok(a), Ok(b)) => {
                    statistics.compared += 1;
                    if let Err(why) = compare_values(Relation::Equal, &a, &b, &[]) {
                        return found("value", why);
                    }
                }
                (Err(Stop::Trap(a)), Err(Stop::Trap(b))) => {
                    statistics.trapped += 1;
                    statistics.note_trap(&a.id);
                    if a.id != b.id || a.id.starts_with("annotation/") {
                        return found("trap", format!("it stops with {a}, annotated with {b}"));
                    }
                }
                (Err(Stop::Exhausted { .. }), _) | (_, Err(Stop::Exhausted { .. })) => {
                    statistics.exhausted += 1;
                }
                (Err(Stop::Unsupported(_)), _) | (_, Err(Stop::Unsupported(_))) => {
                    statistics.unsupported += 1;
                }
                (a, b) => return found("value or trap", format!("{a:?}, annotated: {b:?}")),
            }
        }
    }
    Ok(())
}
