//! Functions as values: a name says what a function is where it is the same in both modules, and so is all that it
//! reaches. Else its text is a part of what is compared.
//!
//! What nobody looks into may write to the memory that it is given.

use super::evaluate::{Ran, Side};
use super::heaps::without_heaps;
use super::values::{Def, Id, Value, cells_of};
use relax_semantics::ops::Known;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::references::texts_from;
use std::collections::BTreeSet;

impl Side<'_> {
    /// What a value is, for both modules: of a function that is not the same in both, and whatever it reaches, also
    /// what it is here.
    pub(super) fn key(&self, value: &Value) -> String {
        let mut key = self.table.key(value, &self.cells);
        let mut functions = Vec::new();
        functions_of(value, &mut functions);
        for name in functions {
            let (here, there) = (texts_from(self.module, name), texts_from(self.other, name));
            if here != there {
                let side = if self.cut.is_some() { "after" } else { "before" };
                key = format!("{key} as {name} is {side} the pass");
            }
        }
        key
    }

    /// A result in which what the text spells, and functions, stand as what tells them from all others.
    pub(super) fn told(&self, value: Value) -> Value {
        match value {
            Value::Tuple(items) => {
                Value::Tuple(items.into_iter().map(|item| self.told(item)).collect())
            }
            Value::Known(_) | Value::Function(_) => {
                Value::Known(Known::Str(self.key(&value).into()))
            }
            other => other,
        }
    }

    /// A call of a function of which only its type is known.
    pub(super) fn unseen_call(&mut self, callee: &Value, args: Vec<Value>) -> Ran<Value> {
        without_heaps(&args)?;
        let is_pure = match callee {
            Value::Entry(id) => {
                matches!(self.annotation(*id), Annotation::Callable(Some(signature)) if signature.pure)
            }
            _ => false,
        };
        if !is_pure {
            self.meet_handed(&args);
        }
        let args_key = self.key(&Value::Tuple(args.clone()));
        let mut key = format!("call {} {args_key}", self.key(callee));
        if !is_pure {
            self.effect(&key);
            key = format!("{key} at {}", self.effects.len());
        }
        self.hand_over(&args, true)?;
        Ok(self.opaque(key.clone(), Annotation::Object, Some(key)))
    }

    /// Memory that is handed to what nobody looks into holds something else afterwards, if that may write to it.
    pub(super) fn hand_over(&mut self, args: &[Value], writes: bool) -> Ran<()> {
        for arg in args {
            if !writes {
                // What comes back may be another name of it.
                self.viewed.extend(cells_of(arg));
                continue;
            }
            if has_view(arg, &self.views) {
                return Err("memory with two names that is handed on".into());
            }
            for cell in cells_of(arg) {
                if self.viewed.contains(&cell) {
                    return Err("memory with two names that is handed on".into());
                }
                let held = self.table.find(self.cells[cell]);
                let annotation = self.table.get(held).annotation.clone();
                let key = format!("what is left of v{held} by {}", self.effects.len());
                self.cells[cell] = self.table.entry(key, || (annotation, Def::Opaque));
                // What comes back may be another name of it.
                self.viewed.insert(cell);
            }
        }
        Ok(())
    }
}

fn has_view(value: &Value, views: &BTreeSet<Id>) -> bool {
    match value {
        Value::Entry(id) => views.contains(id),
        Value::Tuple(items) => items.iter().any(|item| has_view(item, views)),
        _ => false,
    }
}

fn functions_of<'v>(value: &'v Value, found: &mut Vec<&'v Name>) {
    match value {
        Value::Function(name) => found.push(name),
        Value::Tuple(items) => items.iter().for_each(|item| functions_of(item, found)),
        _ => {}
    }
}
