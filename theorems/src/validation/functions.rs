//! Functions as values: a name says what a function is where it is the same in both modules, and so is all that it
//! reaches. Else its text is a part of what is compared.

use super::evaluate::Side;
use super::values::Value;
use relax_semantics::ops::Known;
use relax_syntax::Name;
use relax_syntax::ir::references::reached_from;
use relax_syntax::ir::{Definition, Module};

impl Side<'_> {
    /// What a value is, for both modules: of a function that is not the same in both, and whatever it reaches, also
    /// what it is here.
    pub(super) fn key(&self, value: &Value) -> String {
        let mut key = self.table.key(value, &self.cells);
        let mut functions = Vec::new();
        functions_of(value, &mut functions);
        for name in functions {
            let (here, there) = (reached(self.module, name), reached(self.other, name));
            if here != there {
                key = format!("{key} {here:?}");
            }
        }
        key
    }
}

fn functions_of<'v>(value: &'v Value, found: &mut Vec<&'v Name>) {
    match value {
        Value::Function(name) | Value::Known(Known::Global(name)) => found.push(name),
        Value::Tuple(items) => items.iter().for_each(|item| functions_of(item, found)),
        _ => {}
    }
}

/// The definitions that a function reaches, itself included.
fn reached<'m>(module: &'m Module, name: &Name) -> Vec<Option<&'m Definition>> {
    let definition =
        |name: &Name| module.definitions.iter().find(|definition| definition.name() == name);
    reached_from(module, vec![name.clone()]).iter().map(definition).collect()
}
