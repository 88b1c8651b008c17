//! Which definitions a function mentions, and what is reached by that.

use super::{Atom, Body, Callee, Definition, Expr, Function, Module};
use crate::Name;
use std::collections::BTreeSet;

/// Names of definitions that a function mentions.
#[derive(Debug, Default)]
pub struct References {
    /// Those that it calls.
    pub called: BTreeSet<Name>,
    /// Those that it holds as values, the tensor programs of `call_tir` among them.
    pub held: BTreeSet<Name>,
}

/// What a function mentions.
#[must_use]
pub fn references(function: &Function) -> References {
    let mut references = References::default();
    if let Some(body) = &function.lambda.body {
        references.body(body);
    }
    references
}

impl References {
    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            self.expr(&binding.expr);
        }
        self.atom(&body.result);
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => self.atom(atom),
            Expr::Call { callee, args, attrs } => {
                if let Callee::Global(name) = callee {
                    self.called.insert(name.clone());
                }
                args.iter().chain(attrs.iter().map(|(_, atom)| atom)).for_each(|a| self.atom(a));
            }
            Expr::If { condition, then, otherwise } => {
                self.atom(condition);
                self.body(then);
                self.body(otherwise);
            }
            Expr::Closure(lambda) => {
                if let Some(body) = &lambda.body {
                    self.body(body);
                }
            }
        }
    }

    fn atom(&mut self, atom: &Atom) {
        match atom {
            Atom::Global(name) => {
                self.held.insert(name.clone());
            }
            Atom::Tuple(items) | Atom::List(items) => items.iter().for_each(|item| self.atom(item)),
            _ => {}
        }
    }
}

/// The definitions that are reached from some, which are among them.
#[must_use]
pub fn reached_from(module: &Module, roots: Vec<Name>) -> BTreeSet<Name> {
    let (mut reached, mut work) = (BTreeSet::new(), roots);
    while let Some(name) = work.pop() {
        if !reached.insert(name.clone()) {
            continue;
        }
        if let Some(function) = module.function(&name) {
            let References { called, held } = references(function);
            work.extend(called.into_iter().chain(held));
        }
    }
    reached
}

/// The definitions that a function reaches, itself included, by their names: two functions for which they are equal
/// mean the same. None stands for what a module lacks.
#[must_use]
pub fn texts_from<'m>(module: &'m Module, name: &Name) -> Vec<Option<&'m Definition>> {
    let definition =
        |name: &Name| module.definitions.iter().find(|definition| definition.name() == name);
    reached_from(module, vec![name.clone()]).iter().map(definition).collect()
}
