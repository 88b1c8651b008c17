//! Products and convolutions of f16 or bf16 become those of f32 between casts: processors have tiles of f32, and a sum of 16-bit products
//! in the order of the text is a hundred times as slow.
//!
//! Casts to f32 are exact, and so are the products of what has at most 11 digits. Sums are formed in f32, as reassociation allows for those
//! of f32, and are rounded to the dtype of the result once: with n terms of the magnitudes m, a sum is off by at most n u times the sum
//! of all m, u = 2^-24, before it is rounded, which is 2^-13 of what rounding to f16 itself may change where n is 1.

use super::map_functions;
use crate::in_place::updated_in_place;
use crate::maybe_uninit::maybe_uninitialized;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId, VarInfo};
use relax_syntax::span::Span;
use std::collections::BTreeSet;

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
    let maybe_uninit = maybe_uninitialized(module);
    let mut names = Names::of(module);
    let (mut widened, mut found) = (0, 0);
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let mut walk = Walk {
            function,
            annotations: &context.checked.annotations[&function.name],
            never: maybe_uninit[&function.name]
                .union(&updated_in_place(module, function))
                .copied()
                .collect(),
            names: &mut names,
            vars: &mut rebuilt.vars,
            widened: 0,
            found: 0,
        };
        walk.body(&mut body);
        widened += walk.widened;
        found += walk.found;
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count_of("widened", widened, found, "products of 16-bit floats");
    Ok(result)
}

struct Walk<'a> {
    function: &'a Function,
    annotations: &'a [Annotation],
    /// What holds elements that nothing has written, which a cast would read first, or changes.
    never: BTreeSet<VarId>,
    names: &'a mut Names,
    vars: &'a mut Vec<VarInfo>,
    widened: usize,
    found: usize,
}

impl Walk<'_> {
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
            |operand: &Atom| matches!(self.dtype(operand), Some(DType::F16 | DType::BF16));
        if !is_product || !is_half(left) || !is_half(right) {
            return;
        }
        self.found += 1;
        let result = match self.dtype(&Atom::Var(binding.var)) {
            Some(dtype @ (DType::F16 | DType::BF16 | DType::F32)) => dtype,
            _ => return,
        };
        let changes =
            |operand: &&Atom| matches!(operand, Atom::Var(var) if self.never.contains(var));
        if [left, right].iter().any(changes) {
            return;
        }
        let args = [left, right].map(|operand| Atom::Var(self.cast(operand, before)));
        let attrs = attrs.iter().filter(|(key, _)| key != "out_dtype").cloned().collect();
        let product =
            Expr::Call { callee: Callee::Operator(name.clone()), args: args.into(), attrs };
        binding.expr = if result == DType::F32 {
            product
        } else {
            let var = self.fresh(binding.var);
            before.push(Binding { var, expr: product });
            astype(Atom::Var(var), result)
        };
        self.widened += 1;
    }

    /// The value in f32.
    fn cast(&mut self, operand: &Atom, before: &mut Vec<Binding>) -> VarId {
        let wide = match operand {
            Atom::Var(var) => self.fresh(*var),
            _ => self.named("w_f32", Span::default()),
        };
        before.push(Binding { var: wide, expr: astype(operand.clone(), DType::F32) });
        wide
    }

    /// A variable beside another one.
    fn fresh(&mut self, var: VarId) -> VarId {
        let info = self.function.var(var);
        self.named(&format!("{}_f32", info.name), info.span)
    }

    fn named(&mut self, wish: &str, span: Span) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        self.vars.push(VarInfo { name: self.names.fresh(wish), annotation: None, span });
        var
    }

    fn dtype(&self, atom: &Atom) -> Option<DType> {
        match atom {
            Atom::Var(var) => self.annotations[var.0 as usize].as_tensor()?.dtype,
            Atom::Constant(constant) => Some(constant.dtype),
            Atom::External(external) => external.annotation.as_tensor()?.dtype,
            _ => None,
        }
    }
}

fn astype(value: Atom, dtype: DType) -> Expr {
    let args = vec![value, Atom::Str(Name::new(dtype.name()))];
    Expr::Call { callee: Callee::Operator(Name::new("astype")), args, attrs: Vec::new() }
}
