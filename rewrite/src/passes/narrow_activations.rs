//! Rounds the left operand of products with quantized or 16-bit weights to bf16: the nearest number, ties to even. Products stay those of f32.
//!
//! An element moves by at most `2^-9` of its magnitude, or by `2^-134` below `2^-126`; from `(2 - 2^-8) * 2^127` on it becomes an infinity, and a
//! NaN stays one. A sum of products moves by at most the sum of `(2^-9 * |x| + 2^-134) * |w|` over its terms, beside `(k + 4) * 2^-23` times
//! the sum of the magnitudes, as sums are formed in f32. No tolerance on results follows from that without the operands, so
//! verification of whole programs does not compare values here; the bound itself is what this pass is tested with.
//!
//! Such weights are decoded by a tensor program of the form that [`relax_tir::quantized`] recognizes, or cast from f16 or bf16.

use crate::casts::{Casts, astype, map_bodies};
use crate::pass::{Exactness, Pass, PassContext};
use crate::passes::round_activations::{names_of_decoders, operands};
use crate::tir_call::TirCall;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// The record, as lists of passes show it.
pub static PASS: Pass = Pass {
    name: "narrow_activations",
    doc: "Rounds what products with quantized and 16-bit weights read to bf16; products and sums are f32. This changes \
          values.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Rounded(DType::BF16),
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let decoders = names_of_decoders(module);
    let (mut rounded, mut found) = (0, 0);
    let result = map_bodies(module, context.checked, &mut |casts, body| {
        let bound = body.bindings().map(|binding| (binding.var, binding.expr.clone())).collect();
        let known = BTreeMap::new();
        let mut walk = Walk { casts, decoders: &decoders, bound, known, rounded: 0, found: 0 };
        walk.body(body);
        rounded += walk.rounded;
        found += walk.found;
    });
    let what = "products with quantized and 16-bit weights";
    context.count_of("rounded the left operands of", rounded, found, what);
    Ok(result)
}

struct Walk<'a, 'c> {
    casts: &'a mut Casts<'c>,
    decoders: &'a BTreeSet<Name>,
    bound: BTreeMap<VarId, Expr>,
    /// Variables of the block, each with the one that holds it rounded.
    known: BTreeMap<VarId, VarId>,
    rounded: usize,
    found: usize,
}

impl Walk<'_, '_> {
    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            self.known.clear();
            let mut bindings = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings) {
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    let outer = std::mem::take(&mut self.known);
                    self.body(then);
                    self.body(otherwise);
                    self.known = outer;
                } else {
                    self.product(&mut binding.expr, &mut bindings);
                }
                bindings.push(binding);
            }
            block.bindings = bindings;
        }
    }

    fn product(&mut self, expr: &mut Expr, before: &mut Vec<Binding>) {
        let Some(&[Atom::Var(x), Atom::Var(weights)]) = operands(expr, "matmul") else { return };
        if !self.is_narrow(weights) {
            return;
        }
        self.found += 1;
        let left = Atom::Var(x);
        if self.casts.dtype(&left) != Some(DType::F32) || !self.casts.is_steady(&left) {
            return;
        }
        self.rounded += 1;
        let rounded = self.rounded(x, before);
        if let Expr::Call { args, .. } = expr {
            args[0] = Atom::Var(rounded);
        }
    }

    /// Whether weights have fewer bits where they are stored; a transpose has the elements of what it is of.
    fn is_narrow(&self, weights: VarId) -> bool {
        let Some(expr) = self.bound.get(&weights) else { return false };
        if let Some([Atom::Var(inner)]) = operands(expr, "permute_dims") {
            return self.is_narrow(*inner);
        }
        if let Some(call) = TirCall::of(expr) {
            return self.decoders.contains(call.program);
        }
        let Expr::Call { callee: Callee::Operator(name), args, .. } = expr else { return false };
        let of = args.first().and_then(|stored| self.casts.dtype(stored));
        name == "astype" && matches!(of, Some(DType::F16 | DType::BF16))
    }

    /// The variable that holds a value rounded to bf16.
    fn rounded(&mut self, x: VarId, before: &mut Vec<Binding>) -> VarId {
        if let Some(known) = self.known.get(&x) {
            return *known;
        }
        let half = self.casts.cast(&Atom::Var(x), DType::BF16, before);
        let single = self.casts.fresh(&Atom::Var(x), DType::F32);
        before.push(Binding { var: single, expr: astype(Atom::Var(half), DType::F32) });
        self.known.insert(x, single);
        single
    }
}
