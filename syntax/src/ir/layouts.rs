//! Modules without the layouts of distributed tensors, which say nothing of values on one device.

use super::{Atom, Body, Definition, Expr, Function, Lambda, Module};
use crate::annotation::Annotation;
use std::borrow::Cow;
use std::sync::Arc;

/// The module with plain tensors in the annotations of distributed ones, and how many annotations that were.
#[must_use]
pub fn without_layouts(module: &Module) -> (Cow<'_, Module>, usize) {
    if !has_layouts(module) {
        return (Cow::Borrowed(module), 0);
    }
    let (mut module, mut eraser) = (module.clone(), Eraser { erased: 0 });
    for definition in &mut module.definitions {
        if let Definition::Graph(function) = definition {
            eraser.function(function);
        }
    }
    (Cow::Owned(module), eraser.erased)
}

/// Whether a variable or a result is a distributed tensor, or has one in it, as far as annotations say.
#[must_use]
pub fn has_layouts(module: &Module) -> bool {
    let mut annotations = module.functions().flat_map(|function| {
        let of_vars = function.vars.iter().filter_map(|info| info.annotation.as_ref());
        of_vars.chain(&function.lambda.result)
    });
    annotations.any(Annotation::has_layouts)
        || module.functions().any(|function| {
            function.lambda.body.as_ref().is_some_and(|body| body.bindings().any(spells_layout))
        })
}

fn spells_layout(binding: &super::Binding) -> bool {
    fn spelled(atom: &Atom) -> bool {
        match atom {
            Atom::Annotation(annotation) => annotation.has_layouts(),
            Atom::External(external) => external.annotation.has_layouts(),
            Atom::List(items) | Atom::Tuple(items) => items.iter().any(spelled),
            _ => false,
        }
    }
    let of_body = |body: &Body| body.bindings().any(spells_layout);
    match &binding.expr {
        Expr::Call { args, attrs, .. } => {
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).any(spelled)
        }
        Expr::MatchCast(_, annotation) => annotation.has_layouts(),
        Expr::If { then, otherwise, .. } => of_body(then) || of_body(otherwise),
        Expr::Closure(lambda) => lambda.body.as_ref().is_some_and(of_body),
        Expr::Atom(atom) => spelled(atom),
        Expr::Get(..) => false,
    }
}

struct Eraser {
    erased: usize,
}

impl Eraser {
    fn function(&mut self, function: &mut Function) {
        for annotation in function.vars.iter_mut().filter_map(|info| info.annotation.as_mut()) {
            self.annotation(annotation);
        }
        self.lambda(&mut function.lambda);
    }

    fn lambda(&mut self, lambda: &mut Lambda) {
        lambda.result.iter_mut().for_each(|result| self.annotation(result));
        lambda.body.iter_mut().for_each(|body| self.body(body));
    }

    fn body(&mut self, body: &mut Body) {
        for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
            self.expr(&mut binding.expr);
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Atom(atom) => self.atom(atom),
            Expr::Get(..) => {}
            Expr::MatchCast(_, annotation) => self.annotation(annotation),
            Expr::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Expr::Closure(lambda) => self.lambda(Arc::make_mut(lambda)),
            Expr::Call { args, attrs, .. } => {
                args.iter_mut().for_each(|arg| self.atom(arg));
                attrs.iter_mut().for_each(|(_, attr)| self.atom(attr));
            }
        }
    }

    fn atom(&mut self, atom: &mut Atom) {
        match atom {
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter_mut().for_each(|item| self.atom(item));
            }
            Atom::Annotation(annotation) if annotation.has_layouts() => {
                self.annotation(Arc::make_mut(annotation));
            }
            Atom::External(external) if external.annotation.has_layouts() => {
                self.annotation(&mut Arc::make_mut(external).annotation);
            }
            _ => {}
        }
    }

    fn annotation(&mut self, annotation: &mut Annotation) {
        if annotation.has_layouts() {
            *annotation = annotation.without_layouts();
            self.erased += 1;
        }
    }
}
