//! Modules that no text has: a pass that removes a function and leaves its calls is found by the check of its result.

use relax_program::frontend::Program;
use relax_semantics::check::{Phase, check};
use relax_symbolic::Prover;
use relax_syntax::span::Source;

#[test]
fn a_call_of_a_removed_function_is_found() {
    let text = "def one(x: Object):\n    return x\n\ndef main(x: Object):\n    return one(x)\n";
    let program = Program::load(Source::new("removed.rx", text));
    assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
    let mut module = program.module;
    module.definitions.retain(|definition| definition.name() != "one");
    let found = check(&module, &mut Prover::new(), Phase::P0).diagnostics;
    let codes: Vec<&str> = found.iter().map(|diagnostic| diagnostic.code).collect();
    assert!(codes.contains(&"RX0309"), "{found:?}");
}
