//! What the corpus cannot say: limits, and how much a run holds.

use super::{Interpreter, Options};
use crate::concrete::Concrete;
use crate::ops::Limits;
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::parse::parse_file;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;

fn module(text: &str) -> Module {
    let (file, diagnostics) = parse_file(&Source::new("test.rx", text));
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let (module, diagnostics) = resolve_file(&file);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let phase = crate::check::Phase::Surface;
    let checked = crate::check::check(&module, &mut Concrete, phase);
    assert!(checked.is_ok(), "{:?}", checked.diagnostics);
    checked.module
}

fn run(module: &Module, elements: usize, limits: Limits) -> Result<Value, Stop> {
    let options = Options { limits, ..Options::default() };
    let x = Tensor::full(DType::F32, &[elements], Number::Float(1.0));
    Interpreter::new(module, options).call("main", vec![Value::Tensor(x)])
}

fn exhausted(result: Result<Value, Stop>) -> &'static str {
    match result {
        Err(Stop::Exhausted { resource, .. }) => resource,
        other => panic!("expected an exhausted limit, found {other:?}"),
    }
}

const LINES: &str = "def main(x: Tensor((\"n\",), \"f32\")):\n    a = exp(x)\n    b = exp(a)\n    \
                     c = exp(b)\n    d = exp(c)\n    return d\n";

#[test]
fn what_is_not_used_again_is_not_held() {
    let module = module(LINES);
    // Two tensors are in use at a time: an operand and what is made of it.
    let limits = |total_bytes| Limits { total_bytes, ..Limits::default() };
    assert!(run(&module, 1000, limits(8000)).is_ok());
    assert_eq!(exhausted(run(&module, 1000, limits(7999))), "memory");
}

#[test]
fn what_recursion_holds_adds_up() {
    let module = module(
        "def main(x: Tensor((\"n\",), \"f32\")) -> Tensor(ndim=1, dtype=\"f32\"):\n    \
         y = concat((x, x))\n    z = main(y)\n    return add(z, y)\n",
    );
    let limits = Limits { total_bytes: 1 << 20, ..Limits::default() };
    assert_eq!(exhausted(run(&module, 1, limits)), "memory");
}

#[test]
fn storages_are_held_until_their_release() {
    let module = module(
        "def main(x: Tensor((\"n\",), \"f32\")):\n    n = sym_var()\n    \
         a = memory.alloc_storage(shape(n), \"f32\")\n    memory.kill_storage(a)\n    \
         b = memory.alloc_storage(shape(n), \"f32\")\n    \
         c = memory.alloc_storage(shape(n), \"u8\")\n    return x\n",
    );
    let limits = |total_bytes| Limits { total_bytes, ..Limits::default() };
    assert!(run(&module, 1000, limits(5000)).is_ok());
    assert_eq!(exhausted(run(&module, 1000, limits(4999))), "memory");
}

#[test]
fn endless_recursion_ends() {
    let module = module(
        "def main(x: Tensor((\"n\",), \"f32\")) -> Tensor((\"n\",), \"f32\"):\n    return main(x)\n",
    );
    assert_eq!(exhausted(run(&module, 1, Limits::default())), "call depth");
    let limits = Limits { call_depth: 20_000, ..Limits::default() };
    assert_eq!(exhausted(run(&module, 1, limits)), "call depth");
}

#[test]
fn steps_are_counted() {
    let module = module(LINES);
    let limits = |steps| Limits { steps, ..Limits::default() };
    assert!(run(&module, 2, limits(4)).is_ok());
    assert_eq!(exhausted(run(&module, 2, limits(3))), "steps");
}

#[test]
fn own_variables_of_a_signature_are_named_without_their_mark() {
    let module = module(
        "def apply(f: Callable([Tensor((\"k\",), \"f32\")], Tensor((\"k\",), \"f32\")), \
         x: Tensor((\"n\",), \"f32\")) -> Tensor((\"n\",), \"f32\"):\n    return f(x)\n\
         def pairs(x: Tensor((\"n\",), \"f32\")) -> Tensor((\"n * 2\",), \"f32\"):\n    \
         return concat((x, x))\n\
         def main(x: Tensor((\"q\",), \"f32\")):\n    return apply(pairs, x)\n",
    );
    let Err(Stop::Trap(trap)) = run(&module, 3, Limits::default()) else {
        panic!("expected a trap: a function of another signature was passed")
    };
    assert_eq!(trap.id, "call/dim");
    let said = format!("{} {:?} {:?}", trap.message, trap.notes, trap.places);
    assert!(said.contains("k = 3") && !said.contains('\''), "{said}");
}
