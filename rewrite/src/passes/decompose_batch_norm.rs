//! Batch normalization by given statistics is written as elementwise operators, which fuse with the convolution before
//! and the activation after it (TVM: `DecomposeOpsForInference`).
//!
//! `batch_norm` has three results, so it is a kernel of its own between the two. The operators compute in f64 and round once,
//! as it does: every bit is the same.

use crate::blocks::for_each_block;
use crate::in_place::updated_in_place;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use crate::written::{Normalized, Writer, rewrite_bodies};
use relax_semantics::check::Phase;
use relax_semantics::ops::{by_position, lookup, normalize_axis};
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Block, Body, Callee, Expr, Module, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};

/// The record of the pass.
pub static PASS: Pass = Pass {
    name: "decompose_batch_norm",
    doc: "Writes batch_norm by given statistics as elementwise operators, which fuse with their neighbors.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut traps = TrapAnalysis::new(module, context.checked);
    let (result, decomposed) = rewrite_bodies(module, &mut |writer, body| {
        let mut walk = Walk {
            annotations: &context.checked.annotations[&writer.function.name],
            updated: updated_in_place(module, writer.function),
            kept: used_whole(body),
            traps: &mut traps,
            known: BTreeMap::new(),
            writer,
        };
        for_each_block(body, &mut |block| walk.block(block));
        walk.known.len()
    });
    context.count("decomposed", decomposed, "batch normalizations");
    Ok(result)
}

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`
#[derive(Clone)]
struct Norm {
    /// x, gamma, beta, mean and variance.
    operands: [VarId; 5],
    epsilon: f64,
    /// Axes behind the one of the channels.
    behind: usize,
}

struct Walk<'a, 'm> {
    annotations: &'a [Annotation],
    updated: BTreeSet<VarId>,
    /// Variables that are used other than by taking a part of them.
    kept: BTreeSet<VarId>,
    traps: &'a mut TrapAnalysis<'m>,
    known: BTreeMap<VarId, Norm>,
    writer: Writer<'a>,
}

impl Walk<'_, '_> {
    fn block(&mut self, block: &mut Block) {
        for mut binding in std::mem::take(&mut block.bindings) {
            if let Some(norm) = self.norm(&binding) {
                self.known.insert(binding.var, norm);
            }
            if let Expr::Get(Atom::Var(of), part) = &binding.expr
                && let Some(norm) = self.known.get(of).cloned()
            {
                binding.expr = match part {
                    0 => self.decomposed(&norm, binding.var),
                    part => Expr::Atom(Atom::Var(norm.operands[part + 2])),
                };
            }
            self.writer.made.push(binding);
        }
        block.bindings = std::mem::take(&mut self.writer.made);
    }

    fn norm(&mut self, binding: &Binding) -> Option<Norm> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return None;
        };
        let row = lookup(name).filter(|row| row.name == "nn.batch_norm")?;
        if self.kept.contains(&binding.var) {
            return None;
        }
        let params = by_position(row, args, attrs)?;
        let param = |name: &str| &params[row.param(name)];
        let var = |atom: &Atom| match atom {
            Atom::Var(var) if !self.updated.contains(var) => Some(*var),
            _ => None,
        };
        let operands: Vec<VarId> = params[..5].iter().map(var).collect::<Option<_>>()?;
        let (Atom::Dim(Dim::Int(axis)), Atom::Float(epsilon), Atom::Float(_)) =
            (param("axis"), param("epsilon"), param("momentum"))
        else {
            return None;
        };
        let inference = *param("training") == Atom::Bool(false);
        let whole = ["center", "scale"].iter().all(|name| *param(name) == Atom::Bool(true));
        let Annotation::Tensor(data) = &self.annotations[operands[0].0 as usize] else {
            return None;
        };
        let rank = data.extents.rank()?;
        let behind = rank.checked_sub(normalize_axis(*axis, rank)? + 1)?;
        let fits = inference
            && whole
            && data.dtype == Some(DType::F32)
            && self.traps.is_removable(self.writer.function, binding);
        fits.then(|| Norm {
            operands: operands.try_into().expect("invariant: there are five"),
            epsilon: *epsilon,
            behind,
        })
    }

    /// The result, in f64 up to its rounding.
    fn decomposed(&mut self, norm: &Norm, result: VarId) -> Expr {
        let [x, gamma, beta, mean, variance] = norm.operands.map(Atom::Var);
        let [gamma, beta, mean, variance] = [gamma, beta, mean, variance].map(|value| {
            let value = self.writer.stretched(value, norm.behind, result);
            self.writer.wide("channels", result, value, DType::F32)
        });
        let (gamma, beta) = (Some(gamma), Some(beta));
        let x = self.writer.wide("wide", result, x, DType::F32);
        let norm = Normalized { x, mean, variance, gamma, beta, epsilon: norm.epsilon };
        self.writer.normalized(norm, DType::F32, result)
    }
}

/// The variables of a body that are used other than by taking a part of them.
fn used_whole(body: &Body) -> BTreeSet<VarId> {
    fn visit(body: &Body, used: &mut BTreeSet<VarId>) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::Get(Atom::Var(_), _) => {}
                Expr::If { condition, then, otherwise } => {
                    atom_uses(condition, used);
                    visit(then, used);
                    visit(otherwise, used);
                }
                other => expr_uses(other, used),
            }
        }
        atom_uses(&body.result, used);
    }
    let mut used = BTreeSet::new();
    visit(body, &mut used);
    used
}
