//! Operators that a function of the module or a variable hides: they are written `relax.add`, so that the text reads back as
//! the same program. Passes make calls of operators whatever names a program has.

use crate::Name;
use crate::ir::{Body, Callee, Definition, Expr, Function, Lambda, Module};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How the name of an operator begins where it shall be no other's.
pub const OPERATOR: &str = "relax.";

/// Names of a module that an operator may have too.
pub(super) struct Hidden {
    functions: BTreeSet<Name>,
    /// On a line of its own the name of a tensor program is that of a call of it.
    programs: BTreeSet<Name>,
}

impl Hidden {
    pub(super) fn of(module: &Module) -> Self {
        let (mut functions, mut programs) = (BTreeSet::new(), BTreeSet::new());
        for definition in &module.definitions {
            match definition {
                Definition::Graph(function) => functions.insert(function.name.clone()),
                Definition::Tensor(program) => programs.insert(program.name.clone()),
            };
        }
        Self { functions, programs }
    }

    /// The function with the names of operators as they can be written.
    pub(super) fn written<'f>(&self, function: &'f Function) -> Cow<'f, Function> {
        let mut writer = Writer { hidden: self, function, bound: BTreeSet::new(), changes: false };
        let lambda = writer.lambda(&function.lambda);
        if !writer.changes {
            return Cow::Borrowed(function);
        }
        Cow::Owned(Function { lambda, ..function.clone() })
    }
}

struct Writer<'a> {
    hidden: &'a Hidden,
    function: &'a Function,
    /// Variables that are seen where the writer is.
    bound: BTreeSet<Name>,
    changes: bool,
}

impl Writer<'_> {
    fn lambda(&mut self, lambda: &Lambda) -> Lambda {
        let around = self.bound.clone();
        self.bound.extend(lambda.params.iter().map(|&param| self.function.var(param).name.clone()));
        let body = lambda.body.as_ref().map(|body| self.body(body));
        self.bound = around;
        Lambda { body, ..lambda.clone() }
    }

    fn body(&mut self, body: &Body) -> Body {
        let mut body = body.clone();
        for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
            let name = &self.function.var(binding.var).name;
            match &mut binding.expr {
                Expr::Call { callee: Callee::Operator(operator), .. }
                    if self.is_hidden(operator, name == "_") =>
                {
                    *operator = Name::from(format!("{OPERATOR}{operator}"));
                    self.changes = true;
                }
                Expr::If { then, otherwise, .. } => {
                    for branch in [then, otherwise] {
                        let around = self.bound.clone();
                        *branch = self.body(branch);
                        self.bound = around;
                    }
                }
                Expr::Closure(lambda) => {
                    // It may call itself.
                    self.bound.insert(name.clone());
                    *lambda = Arc::new(self.lambda(lambda));
                }
                _ => {}
            }
            self.bound.insert(name.clone());
        }
        body
    }

    fn is_hidden(&self, operator: &Name, is_line: bool) -> bool {
        self.bound.contains(operator)
            || self.hidden.functions.contains(operator)
            || is_line && self.hidden.programs.contains(operator)
    }
}
