//! The functions that a user of the module may call get a name that does not change any more.

use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_rewrite::verify::is_private;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{AttrValue, Definition, Module, attr};

/// The record.
pub static PASS: Pass = Pass {
    name: "attach_global_symbol",
    doc: "Records the names of the functions that are not private, under which a compiled module \
          offers them.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P23,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let mut named = 0;
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let is_entry = function.lambda.body.is_some() && !is_private(function);
        if is_entry && attr(&function.lambda.attrs, "global_symbol").is_none() {
            let name = AttrValue::Str(function.name.clone());
            function.lambda.attrs.push((Name::new("global_symbol"), name));
            named += 1;
        }
    }
    context.count("named", named, "functions");
    Ok(result)
}
