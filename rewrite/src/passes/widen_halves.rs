//! Products and convolutions of f16 or bf16 become those of f32 between casts: processors have tiles of f32, and a sum of 16-bit products
//! in the order of the text is a hundred times as slow.
//!
//! Casts to f32 are exact, and so are the products of what has at most 11 digits. Sums are formed in f32, as reassociation allows for those
//! of f32, and are rounded to the dtype of the result once: with n terms of the magnitudes m, a sum is off by at most n u times the sum
//! of all m, u = 2^-24, before it is rounded, which is 2^-13 of what rounding to f16 itself may change where n is 1.

use crate::casts::{Casts, astype, map_bodies};
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Module};

/// The record, as lists of passes show it.
pub static PASS: Pass = Pass {
    name: "widen_halves",
    doc: "Computes products and convolutions of f16 and bf16 in f32, between casts: sums are formed in f32, and rounded once.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Rounded(DType::F32),
    run,
};

/// Rows of products that take what they are given in f32, too.
const PRODUCTS: &[&str] = &["matmul", "nn.conv1d", "nn.conv2d"];

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let (mut widened, mut found) = (0, 0);
    let result = map_bodies(module, context.checked, &mut |casts, body| {
        let mut walk = Walk { casts, widened: 0, found: 0 };
        walk.body(body);
        widened += walk.widened;
        found += walk.found;
    });
    context.count_of("widened", widened, found, "products of 16-bit floats");
    Ok(result)
}

struct Walk<'a, 'c> {
    casts: &'a mut Casts<'c>,
    widened: usize,
    found: usize,
}

impl Walk<'_, '_> {
    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            let mut bindings = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings) {
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    self.body(then);
                    self.body(otherwise);
                } else {
                    self.product(&mut binding, &mut bindings);
                }
                bindings.push(binding);
            }
            block.bindings = bindings;
        }
    }

    /// Puts casts around a product.
    fn product(&mut self, binding: &mut Binding, before: &mut Vec<Binding>) {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return;
        };
        let [left, right] = args.as_slice() else { return };
        let is_product = lookup(name).is_some_and(|row| PRODUCTS.contains(&row.name));
        let is_half =
            |operand: &Atom| matches!(self.casts.dtype(operand), Some(DType::F16 | DType::BF16));
        if !is_product || !is_half(left) || !is_half(right) {
            return;
        }
        self.found += 1;
        let result = match self.casts.dtype(&Atom::Var(binding.var)) {
            Some(dtype @ (DType::F16 | DType::BF16 | DType::F32)) => dtype,
            _ => return,
        };
        if ![left, right].iter().all(|operand| self.casts.is_steady(operand)) {
            return;
        }
        let args =
            [left, right].map(|operand| Atom::Var(self.casts.cast(operand, DType::F32, before)));
        let attrs = attrs.iter().filter(|(key, _)| key != "out_dtype").cloned().collect();
        let product =
            Expr::Call { callee: Callee::Operator(name.clone()), args: args.into(), attrs };
        binding.expr = if result == DType::F32 {
            product
        } else {
            let var = self.casts.fresh(&Atom::Var(binding.var), DType::F32);
            before.push(Binding { var, expr: product });
            astype(Atom::Var(var), result)
        };
        self.widened += 1;
    }
}
