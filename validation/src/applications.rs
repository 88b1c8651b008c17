//! Pass applications: what a function means before and after. So far a function is known to mean the same where its
//! text did not change; `relax_theorems::validation` proves more, and has no bound on its memory yet.

use crate::derive::Stage;
use crate::obligation::{Kind, Obligation, Outcome};

/// Compares the functions that both stages have.
pub(crate) fn obligations(before: &Stage, after: &Stage) -> Vec<Obligation> {
    let (module, other) = (&before.module, &after.module);
    let same_programs = module.definitions == other.definitions;
    let common = module.functions().filter_map(|one| Some((one, other.function(&one.name)?)));
    let found = common.map(|(one, now)| Obligation {
        kind: Kind::Pass,
        function: one.name.clone(),
        place: format!("after `{}`", after.name),
        what: "the result is the same".to_owned(),
        outcome: if one == now && same_programs {
            Outcome::Proved
        } else {
            Outcome::Unproved("the texts differ".to_owned())
        },
    });
    found.collect()
}
