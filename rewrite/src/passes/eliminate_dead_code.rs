//! What nothing uses goes: bindings that only give their variable a value, outputs of dataflow blocks,
//! private functions and tensor programs. A binding that can stop the program stays, since its check
//! is part of what the program means.

use crate::blocks::tidy;
use crate::pass::{Exactness, Pass, PassContext};
use crate::references::reached;
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Binding, BlockKind, Body, Definition, Expr, Function, Module, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "eliminate_dead_code",
    doc: "Leaves out bindings that nothing uses and that cannot stop the program, private functions \
          that nothing calls, and tensor programs that nothing calls.",
    from: Phase::P0,
    to: Phase::P1,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut counts = Counts::default();
    let mut traps = TrapAnalysis::new(module, context.checked);
    let mut result = super::map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        let mut walk = Walk { function, traps: &mut traps, counts: &mut counts };
        walk.body(body, &mut BTreeSet::new());
        rebuilt
    });
    let reached = reached(&result);
    result.definitions.retain(|definition| {
        let keep = reached.contains(definition.name());
        match definition {
            _ if keep => {}
            Definition::Graph(_) => counts.functions += 1,
            Definition::Tensor(_) => counts.programs += 1,
        }
        keep
    });
    context.count_of("removed", counts.bindings, counts.bindings + counts.kept, "unused bindings");
    context.count("removed", counts.functions, "private functions");
    context.count("removed", counts.programs, "tensor programs");
    Ok(result)
}

#[derive(Default)]
struct Counts {
    bindings: usize,
    /// Unused, and there for what they may do beside.
    kept: usize,
    functions: usize,
    programs: usize,
}

struct Walk<'w, 'a> {
    function: &'w Function,
    traps: &'w mut TrapAnalysis<'a>,
    counts: &'w mut Counts,
}

impl Walk<'_, '_> {
    /// Backwards; `used` is what is used after the body, and grows by what it uses itself.
    fn body(&mut self, body: &mut Body, used: &mut BTreeSet<VarId>) {
        atom_uses(&body.result, used);
        for block in body.blocks.iter_mut().rev() {
            if let BlockKind::Dataflow { outputs } = &mut block.kind {
                outputs.retain(|var| used.contains(var));
            }
            let mut kept = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings).into_iter().rev() {
                if self.keeps(&binding, used) {
                    self.branches(&mut binding);
                    expr_uses(&binding.expr, used);
                    kept.push(binding);
                }
            }
            kept.reverse();
            block.bindings = kept;
        }
        tidy(body);
    }

    fn branches(&mut self, binding: &mut Binding) {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            self.body(then, &mut BTreeSet::new());
            self.body(otherwise, &mut BTreeSet::new());
        }
    }

    fn keeps(&mut self, binding: &Binding, used: &BTreeSet<VarId>) -> bool {
        if used.contains(&binding.var) {
            return true;
        }
        let drops = self.traps.is_removable(self.function, binding);
        *(if drops { &mut self.counts.bindings } else { &mut self.counts.kept }) += 1;
        !drops
    }
}
