//! Composite functions, which a library computes, as tensor programs.

use crate::product::operands;
use relax_rewrite::passes::fuse_ops::PRIMITIVE;
use relax_rewrite::passes::fuse_ops_by_pattern::COMPOSITE;
use relax_syntax::Name;
use relax_syntax::ir::{AttrValue, Definition, Function, Module, attr};

/// Has each composite function become one tensor program, which says what it means, and computes it where no library does. The
/// mark stays where its inputs are what the library's function takes, in their order.
#[must_use]
pub fn as_programs(mut module: Module) -> Module {
    for definition in &mut module.definitions {
        let Definition::Graph(function) = definition else { continue };
        if attr(&function.lambda.attrs, COMPOSITE).is_none() {
            continue;
        }
        if !is_of_library(function) {
            function.lambda.attrs.retain(|(name, _)| *name != COMPOSITE);
        }
        function.lambda.attrs.push((Name::new(PRIMITIVE), AttrValue::Bool(true)));
    }
    module
}

/// An operand that is there twice, or a constant, is no parameter of its own.
fn is_of_library(function: &Function) -> bool {
    let Some(AttrValue::Str(name)) = attr(&function.lambda.attrs, COMPOSITE) else { return false };
    operands(name) == Some(function.lambda.params.len())
}
