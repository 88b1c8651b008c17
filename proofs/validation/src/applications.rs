//! Pass applications: what each function means before and after. A function whose text, and whatever it reaches, did
//! not change means the same. Of the others `relax_theorems::validation` runs both modules on names and compares
//! what comes of it, within a bound that is counted and not timed.
//!
//! Functions and tensor programs that a pass adds or takes away count where they are called.

use crate::answers::Source;
use crate::derive::Stage;
use crate::kernels::filled;
use crate::obligation::{Kind, Obligation, Outcome};
use relax_syntax::Name;
use relax_syntax::ir::references::texts_from;
use relax_syntax::ir::{AttrValue, Definition, Function, Module, attr};
use relax_theorems::validation::{Outcome as Compared, validate_function};

/// Compares the functions of the first stage with those of the second.
pub(crate) fn obligations(
    before: &Stage,
    after: &Stage,
    source: &mut dyn Source,
) -> Vec<Obligation> {
    let (module, other) = (&without_symbols(&before.module), &without_symbols(&after.module));
    let counted = module.functions().filter(|one| stays(one, other));
    let found = counted.map(|one| Obligation {
        kind: Kind::Pass,
        function: one.name.clone(),
        place: format!("after `{}`", after.name),
        what: "the result is the same".to_owned(),
        outcome: outcome(module, other, &one.name, source),
    });
    found.collect()
}

/// The module without the names under which a compiled module offers its functions: they mean nothing in the text.
fn without_symbols(module: &Module) -> Module {
    let mut module = module.clone();
    for definition in &mut module.definitions {
        if let Definition::Graph(function) = definition {
            function.lambda.attrs.retain(|(key, _)| key != "global_symbol");
        }
    }
    module
}

/// What only functions of the module call may go.
fn stays(one: &Function, other: &Module) -> bool {
    let private = attr(&one.lambda.attrs, "private") == Some(&AttrValue::Bool(true));
    !private || other.function(&one.name).is_some()
}

fn outcome(module: &Module, other: &Module, name: &Name, source: &mut dyn Source) -> Outcome {
    if texts_from(module, name) == texts_from(other, name) {
        return Outcome::Proved;
    }
    source.was_trusted();
    match validate_function(module, other, name, &mut || source.facts(), filled) {
        Compared::Proved if source.was_trusted() => Outcome::Trusted,
        Compared::Proved => Outcome::Proved,
        Compared::Unproved(why) => Outcome::Unproved(why),
        Compared::Refuted(why) => Outcome::Refuted(why),
    }
}
