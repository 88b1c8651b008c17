//! The order of deduction: callees first, as far as their results are not declared.

use relax_syntax::Name;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module};
use std::collections::{BTreeMap, BTreeSet};

/// Graph functions with callees before callers, and those without a declared result that cannot be
/// ordered because they call themselves.
pub(super) fn callees_first(module: &Module) -> (Vec<&Function>, Vec<&Function>) {
    let functions: BTreeMap<&Name, &Function> =
        module.functions().map(|function| (&function.name, function)).collect();
    let mut search =
        Search { functions, state: BTreeMap::new(), order: Vec::new(), recursive: Vec::new() };
    for function in module.functions() {
        search.visit(function);
    }
    (search.order, search.recursive)
}

struct Search<'m> {
    functions: BTreeMap<&'m Name, &'m Function>,
    state: BTreeMap<&'m Name, State>,
    order: Vec<&'m Function>,
    recursive: Vec<&'m Function>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Done,
}

impl<'m> Search<'m> {
    /// A depth-first search with a stack of its own: a chain of calls may be long.
    fn visit(&mut self, root: &'m Function) {
        let mut stack = vec![(root, false)];
        while let Some((function, finished)) = stack.pop() {
            if finished {
                self.state.insert(&function.name, State::Done);
                self.order.push(function);
                continue;
            }
            match self.state.get(&function.name) {
                Some(_) => continue,
                None => self.state.insert(&function.name, State::Open),
            };
            stack.push((function, true));
            let mut names = BTreeSet::new();
            if let Some(body) = &function.lambda.body {
                body_globals(body, &mut names);
            }
            for name in names.into_iter().rev() {
                let Some(&callee) = self.functions.get(&name) else { continue };
                let open = self.state.get(&callee.name) == Some(&State::Open);
                let is_unknown = callee.lambda.result.is_none() && callee.lambda.body.is_some();
                if open && is_unknown && !self.recursive.iter().any(|f| f.name == callee.name) {
                    self.recursive.push(callee);
                } else {
                    // What is open or done is not begun again.
                    stack.push((callee, false));
                }
            }
        }
    }
}

fn body_globals(body: &Body, names: &mut BTreeSet<Name>) {
    for binding in body.bindings() {
        expr_globals(&binding.expr, names);
    }
    atom_globals(&body.result, names);
}

fn expr_globals(expr: &Expr, names: &mut BTreeSet<Name>) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => {
            atom_globals(atom, names)
        }
        Expr::Call { callee, args, attrs } => {
            if let Callee::Global(name) = callee {
                names.insert(name.clone());
            }
            let attrs = attrs.iter().map(|(_, atom)| atom);
            args.iter().chain(attrs).for_each(|atom| atom_globals(atom, names));
        }
        Expr::If { condition, then, otherwise } => {
            atom_globals(condition, names);
            body_globals(then, names);
            body_globals(otherwise, names);
        }
        Expr::Closure(lambda) => {
            if let Some(body) = &lambda.body {
                body_globals(body, names);
            }
        }
    }
}

fn atom_globals(atom: &Atom, names: &mut BTreeSet<Name>) {
    match atom {
        Atom::Global(name) => {
            names.insert(name.clone());
        }
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| atom_globals(item, names));
        }
        _ => {}
    }
}
