//! Tensor programs for tests, from text.

use relax_syntax::ir::TensorProgram;
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;

/// The program `f` of these parameters and this body, whose lines are not indented.
pub(crate) fn program(parameters: &str, body: &str) -> TensorProgram {
    let body = body.replace('\n', "\n    ");
    let text = format!("@tensorir_function\ndef f({parameters}):\n    {body}\n");
    let (file, wrong) = parse_file(&Source::new("test", text.as_str()));
    assert!(wrong.is_empty(), "{wrong:?}\n{text}");
    let (module, wrong) = resolve_file(&file);
    assert!(wrong.is_empty(), "{wrong:?}\n{text}");
    module.tensor_program("f").expect("it was read").clone()
}
