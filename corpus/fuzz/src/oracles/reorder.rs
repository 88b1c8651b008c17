//! Reordering of independent bindings: pure calls of operators, fields and aliases move. Checks, effects, branches,
//! closures and calls of functions keep their places.

use relax_rewrite::blocks::for_each_block;
use relax_semantics::ops::{Effect, lookup};
use relax_semantics::random::Random;
use relax_syntax::ir::{Atom, Binding, Block, Callee, Definition, Expr, Module, VarId};

/// The module with its bindings in an order that the seed tells; whether it is another order.
pub(super) fn reordered(module: &Module, seed: u64) -> (Module, bool) {
    let mut twin = module.clone();
    let mut random = Random::new(seed, "order");
    for definition in &mut twin.definitions {
        if let Definition::Graph(function) = definition
            && let Some(body) = &mut function.lambda.body
        {
            for_each_block(body, &mut |block| shuffle(block, &mut random));
        }
    }
    let differs = twin != *module;
    (twin, differs)
}

fn shuffle(block: &mut Block, random: &mut Random) {
    let mut done = Vec::with_capacity(block.bindings.len());
    let mut run = Vec::new();
    for binding in std::mem::take(&mut block.bindings) {
        if is_movable(&binding.expr) {
            run.push(binding);
        } else {
            done.append(&mut in_another_order(std::mem::take(&mut run), random));
            done.push(binding);
        }
    }
    done.append(&mut in_another_order(run, random));
    block.bindings = done;
}

/// Each of these only computes a value of its operands.
fn is_movable(expr: &Expr) -> bool {
    match expr {
        Expr::Atom(_) | Expr::Get(..) => true,
        Expr::Call { callee: Callee::Operator(name), .. } => {
            lookup(name).is_some_and(|row| row.effect == Effect::Pure)
        }
        _ => false,
    }
}

/// Takes, again and again, any of those whose operands are there.
fn in_another_order(mut open: Vec<Binding>, random: &mut Random) -> Vec<Binding> {
    let mut done = Vec::with_capacity(open.len());
    while !open.is_empty() {
        let waits = |binding: &Binding| open.iter().any(|other| uses(&binding.expr, other.var));
        let ready: Vec<usize> = (0..open.len()).filter(|&at| !waits(&open[at])).collect();
        let last = i64::try_from(ready.len()).unwrap_or(1) - 1;
        let pick = usize::try_from(random.int(&(0..=last.max(0)))).unwrap_or(0);
        // Nothing in a run uses itself, so one is always ready.
        done.push(open.remove(ready.get(pick).copied().unwrap_or(0)));
    }
    done
}

fn uses(expr: &Expr, var: VarId) -> bool {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) => mentions(atom, var),
        Expr::Call { args, attrs, .. } => {
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).any(|atom| mentions(atom, var))
        }
        _ => true,
    }
}

fn mentions(atom: &Atom, var: VarId) -> bool {
    match atom {
        Atom::Var(other) => *other == var,
        Atom::Tuple(items) | Atom::List(items) => items.iter().any(|item| mentions(item, var)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::reordered;
    use relax_program::frontend::{Program, print};
    use relax_syntax::span::Source;

    #[test]
    fn operands_stay_before_what_uses_them() {
        let text = "def main(x: Tensor((2,), \"f32\")) -> Tensor((2,), \"f32\"):\n    \
                        a = exp(x)\n    \
                        b = tanh(x)\n    \
                        c = add(a, b)\n    \
                        print(c)\n    \
                        d = relu(x)\n    \
                        return d\n";
        let program = Program::load(Source::new("order", text));
        assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
        let mut texts: Vec<String> =
            (0..32).map(|seed| print(&reordered(&program.module, seed).0)).collect();
        texts.iter().for_each(|text| {
            let again = Program::load(Source::new("order", text.as_str()));
            assert!(again.diagnostics.is_empty(), "{text}: {:?}", again.diagnostics);
        });
        texts.sort();
        texts.dedup();
        // `a` and `b`, the one or the other first; nothing goes over the `print`.
        assert_eq!(texts.len(), 2, "{texts:#?}");
    }
}
