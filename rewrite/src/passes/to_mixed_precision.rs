//! Products and convolutions of f32 take their operands in f16 or bf16, and give f32 as before: sums are formed
//! as they were, of rounded operands. Everything else keeps its dtype.
//!
//! With u = 2^-11, each operand within the range of f16 is rounded by at most the factor 1 + u (or by
//! 2^-25 where it is below 2^-14), so that a sum of products a * b moves by at most (2u + u * u) times
//! the sum of their magnitudes; an operand beyond 65504 becomes infinite. No tolerance on results follows
//! from that without the operands, so verification of whole programs does not compare values here
//! ([`Exactness::Rounded`]); the bound itself is what this pass is tested with. For bf16 u is 2^-8, and the range is that of f32.
//!
//! `relax train` runs it after `gradient`, so that the products of the backward computation take cotangents in 16 bits too.

use crate::casts::{Casts, map_bodies};
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Module, VarId};
use std::collections::BTreeMap;

/// The record.
pub static PASS: Pass = Pass {
    name: "to_mixed_precision",
    doc: "Rounds the f32 operands of products and convolutions to f16; sums and results stay f32. \
          This changes values.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Rounded(DType::F16),
    run: to_f16,
};

/// The same with bf16.
pub static BRAIN: Pass = Pass {
    name: "to_mixed_precision_bf16",
    doc: "Rounds the f32 operands of products and convolutions to bf16; sums and results stay f32. \
          This changes values.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Rounded(DType::BF16),
    run: to_bf16,
};

/// Rows that take f16 operands and can give f32.
const ROUNDED: &[&str] = &["matmul", "nn.conv1d", "nn.conv2d"];

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn to_f16(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    Ok(run(module, DType::F16, context))
}

#[allow(clippy::unnecessary_wraps)]
fn to_bf16(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    Ok(run(module, DType::BF16, context))
}

fn run(module: &Module, narrow: DType, context: &mut PassContext) -> Module {
    let (mut rounded, mut found, mut spared) = (0, 0, 0);
    let result = map_bodies(module, context.checked, &mut |casts, body| {
        let halves = BTreeMap::new();
        let mut walk = Walk { casts, narrow, halves, rounded: 0, found: 0, spared: 0 };
        walk.body(body);
        rounded += walk.rounded;
        found += walk.found;
        spared += walk.spared;
    });
    context.count_of("rounded the operands of", rounded, found, "calls");
    context.count("left out", spared, "pairs of casts");
    result
}

struct Walk<'a, 'c> {
    casts: &'a mut Casts<'c>,
    /// The dtype of operands, of 16 bits.
    narrow: DType,
    /// Variables of the block with the same values in that dtype, or rounded to it.
    halves: BTreeMap<VarId, VarId>,
    rounded: usize,
    found: usize,
    /// Values that had the dtype before they were cast to f32.
    spared: usize,
}

impl Walk<'_, '_> {
    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            self.halves.clear();
            let mut bindings = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings) {
                self.binding(&mut binding, &mut bindings);
                bindings.push(binding);
            }
            block.bindings = bindings;
        }
    }

    fn binding(&mut self, binding: &mut Binding, before: &mut Vec<Binding>) {
        match &mut binding.expr {
            Expr::If { then, otherwise, .. } => {
                let outer = std::mem::take(&mut self.halves);
                self.body(then);
                self.body(otherwise);
                self.halves = outer;
            }
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let Some(row) = lookup(name) else { return };
                if row.name == "astype" {
                    self.note_widening(binding.var, args);
                } else if ROUNDED.contains(&row.name) {
                    self.found += 1;
                    self.product(args, attrs, before);
                }
            }
            _ => {}
        }
    }

    /// Widening is exact: rounding it again gives the value back.
    fn note_widening(&mut self, result: VarId, args: &[Atom]) {
        let Some(Atom::Var(source)) = args.first() else { return };
        let widens =
            self.dtype(*source) == Some(self.narrow) && self.dtype(result) == Some(DType::F32);
        let steady = |var: VarId| self.casts.is_steady(&Atom::Var(var));
        if widens && steady(*source) && steady(result) {
            self.halves.insert(result, *source);
            self.spared += 1;
        }
    }

    fn product(
        &mut self,
        args: &mut [Atom],
        attrs: &mut Vec<(Name, Atom)>,
        before: &mut Vec<Binding>,
    ) {
        let plain = attrs.iter().all(|(key, _)| key != "out_dtype");
        let [Atom::Var(left), Atom::Var(right), rest @ ..] = &mut *args else { return };
        let is_single = |var: &VarId| {
            self.dtype(*var) == Some(DType::F32) && self.casts.is_steady(&Atom::Var(*var))
        };
        if !plain || !rest.is_empty() || !is_single(left) || !is_single(right) {
            return;
        }
        *left = self.half(*left, before);
        *right = self.half(*right, before);
        attrs.push((Name::new("out_dtype"), Atom::Str(Name::new("f32"))));
        self.rounded += 1;
    }

    /// The variable that holds the rounded value.
    fn half(&mut self, var: VarId, before: &mut Vec<Binding>) -> VarId {
        if let Some(&half) = self.halves.get(&var) {
            return half;
        }
        let half = self.casts.cast(&Atom::Var(var), self.narrow, before);
        self.halves.insert(var, half);
        half
    }

    fn dtype(&self, var: VarId) -> Option<DType> {
        match self.casts.annotation(var) {
            Annotation::Tensor(tensor) => tensor.dtype,
            _ => None,
        }
    }
}
