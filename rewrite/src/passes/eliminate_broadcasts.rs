//! A broadcast that is proved to change nothing is another name of its operand; one whose result goes
//! into an elementwise operator is left out there where the operator itself stretches the operand
//! to the same result. So what normalization made explicit is a single computation again where all
//! sizes are known to agree (BladeDISC decides the same on its constraints of equal dims).

use super::map_functions;
use super::normalize::broadcasts;
use crate::blocks::for_each_block;
use crate::dims::{assume_declared, same_dims};
use crate::in_place::updated_in_place;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Facts};
use relax_syntax::ir::{Atom, Binding, Block, BlockKind, Callee, Expr, Function, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "eliminate_broadcasts",
    doc: "Leaves out broadcasts that are proved to keep the shape, and those of operands that an \
          elementwise operator is proved to stretch to the same result.",
    from: Phase::P0,
    to: Phase::P1,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let (mut dropped, mut passed_by) = (0, 0);
    let mut traps = TrapAnalysis::new(module, context.checked);
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut walk = Walk {
            annotations: &context.checked.annotations[&function.name],
            left: &context.checked.left_in(&function.name).vars,
            updated: updated_in_place(module, function),
            traps: &mut traps,
            stretched: BTreeMap::new(),
            facts: context.facts,
            function,
        };
        walk.facts.push();
        assume_declared(walk.facts, &function.dims);
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        for_each_block(body, &mut |block| {
            for binding in &mut block.bindings {
                dropped += usize::from(walk.broadcast(binding));
                passed_by += walk.elementwise(binding);
            }
            walk.leave(block);
        });
        walk.facts.pop();
        rebuilt
    });
    context.count("dropped", dropped, "broadcasts");
    context.count("passed by", passed_by, "broadcasts");
    Ok(result)
}

struct Walk<'a, 'm> {
    function: &'a Function,
    annotations: &'a [Annotation],
    /// Bindings with checks that are left to run time.
    left: &'a BTreeSet<VarId>,
    updated: BTreeSet<VarId>,
    traps: &'a mut TrapAnalysis<'m>,
    /// Results of broadcasts that never stop the program, and read nothing that is not written, with their operands.
    stretched: BTreeMap<VarId, VarId>,
    facts: &'a mut dyn Facts,
}

impl<'a> Walk<'a, '_> {
    /// Makes a broadcast to the operand's own shape another name; notes the others.
    fn broadcast(&mut self, binding: &mut Binding) -> bool {
        let Some(operand) = self.decided_broadcast(binding) else { return false };
        let Some(from) = self.dims(operand) else { return false };
        let Some(to) = self.dims(binding.var) else { return false };
        if same_dims(self.facts, from, to) {
            binding.expr = Expr::Atom(Atom::Var(operand));
            return true;
        }
        self.stretched.insert(binding.var, operand);
        false
    }

    /// The operand of a broadcast that never stops the program.
    fn decided_broadcast(&mut self, binding: &Binding) -> Option<VarId> {
        let Expr::Call { callee: Callee::Operator(name), args, .. } = &binding.expr else {
            return None;
        };
        let is_one = lookup(name).is_some_and(|row| row.name == "broadcast_to");
        let &Atom::Var(operand) = args.first()? else { return None };
        let is_named = self.function.var(binding.var).name != "_";
        let changes = self.updated.contains(&operand) || self.updated.contains(&binding.var);
        let decided = is_one && is_named && !changes;
        let decided = decided && self.traps.is_removable(self.function, binding);
        decided.then_some(operand)
    }

    /// After a dataflow block only its outputs are seen.
    fn leave(&mut self, block: &Block) {
        if let BlockKind::Dataflow { outputs } = &block.kind {
            let bound: BTreeSet<VarId> = block.bindings.iter().map(|binding| binding.var).collect();
            let is_seen = |var: &VarId| !bound.contains(var) || outputs.contains(var);
            self.stretched.retain(|_, operand| is_seen(operand));
        }
    }

    /// Takes the operands of broadcasts for their results; says how many.
    fn elementwise(&mut self, binding: &mut Binding) -> usize {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &mut binding.expr else {
            return 0;
        };
        if lookup(name).is_none_or(|row| !broadcasts(row))
            || !attrs.is_empty()
            || self.left.contains(&binding.var)
        {
            return 0;
        }
        let mut count = 0;
        for at in 0..args.len() {
            if let Some(operand) = self.narrower(args, at, binding.var) {
                args[at] = Atom::Var(operand);
                count += 1;
            }
        }
        count
    }

    /// The operand of the broadcast at a place, where another operand has the result's shape already
    /// and this one is proved to stretch to it.
    fn narrower(&mut self, args: &[Atom], at: usize, result: VarId) -> Option<VarId> {
        let Atom::Var(wide) = args[at] else { return None };
        let operand = *self.stretched.get(&wide)?;
        let (to, from) = (self.dims(result)?, self.dims(operand)?);
        let mut others = args.iter().enumerate().filter(|(other, _)| *other != at);
        let shaped = others.any(|(_, other)| match other {
            Atom::Var(other) => {
                self.dims(*other).is_some_and(|dims| same_dims(self.facts, dims, to))
            }
            _ => false,
        });
        let lead = to.len().checked_sub(from.len())?;
        let stretches = from.iter().zip(&to[lead..]).all(|(from, to)| {
            let mut is = |dim: &Dim| self.facts.equal(from, dim) == Answer::Proved;
            is(to) || is(&Dim::Int(1))
        });
        (shaped && stretches).then_some(operand)
    }

    /// The dims of a plain tensor.
    fn dims(&self, var: VarId) -> Option<&'a [Dim]> {
        let Annotation::Tensor(tensor) = &self.annotations[var.0 as usize] else { return None };
        tensor.extents.dims()
    }
}
