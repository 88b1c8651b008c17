//! Distributed tensors on one device: each is the whole tensor, so layouts vanish from annotations, and operators that
//! only lay a tensor out, or that combine what all workers have, give their operand.
//!
//! A layout that cannot be compared with the rank of its tensor stays an operator that may trap. Then the module stays as
//! it is: annotations of the parts of a program agree on layouts or none has one.

use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::traps::calls::operand;
use relax_semantics::ops::{Operator, lookup, passed};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::layouts::without_layouts;
use relax_syntax::ir::{Atom, Body, Callee, Definition, Expr, Function, Module};
use std::sync::Arc;

/// First in P2.1: what follows knows tensors only.
pub static PASS: Pass = Pass {
    name: "erase_sharding",
    doc: "Makes plain tensors of distributed ones, for one device: removes layouts, and collectives that give their \
          operand there.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Their results are their first operands where there is one worker.
const GIVE_OPERAND: [&str; 4] =
    ["allreduce", "annotate_sharding", "broadcast_from_worker0", "redistribute"];

/// Calls a tensor program on the part of a worker.
const LOCAL_VIEW: &str = "call_tir_local_view";

/// Whether no call with operands of known rank is left by the pass.
pub(crate) fn is_erased(row: &Operator) -> bool {
    GIVE_OPERAND.contains(&row.name) || row.name == LOCAL_VIEW
}

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let (result, mut erased) = without_layouts(module);
    let (mut result, mut stays) = (result.into_owned(), 0);
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let annotations = &context.checked.annotations[&function.name];
        let mut walk = Walk { annotations, erased: 0, stays: 0 };
        walk.function(function);
        erased += walk.erased;
        stays += walk.stays;
    }
    if stays > 0 {
        (erased, stays, result) = (0, erased + stays, module.clone());
    }
    context.count_of("erased", erased, erased + stays, "layouts");
    Ok(result)
}

struct Walk<'a> {
    annotations: &'a [Annotation],
    erased: usize,
    stays: usize,
}

impl Walk<'_> {
    fn function(&mut self, function: &mut Function) {
        if let Some(body) = &mut function.lambda.body {
            self.body(body);
        }
    }

    fn body(&mut self, body: &mut Body) {
        for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
            match &mut binding.expr {
                Expr::If { then, otherwise, .. } => {
                    self.body(then);
                    self.body(otherwise);
                }
                Expr::Closure(lambda) => {
                    let lambda = Arc::make_mut(lambda);
                    lambda.body.iter_mut().for_each(|body| self.body(body));
                }
                Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                    if let Some(other) = self.on_one_device(name, args, attrs) {
                        binding.expr = other;
                    }
                }
                _ => {}
            }
        }
    }

    /// What a call of an operator is where there is one worker, if that is something else.
    fn on_one_device(
        &mut self,
        name: &Name,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Option<Expr> {
        let row = lookup(name)?;
        let bound = passed(row, args, attrs).ok()?;
        if row.name == LOCAL_VIEW {
            let call = self.local_view(&bound)?;
            self.erased += 1;
            return Some(call);
        }
        if !GIVE_OPERAND.contains(&row.name) {
            return None;
        }
        let tensor = bound.first().copied().flatten()?;
        let known = operand(tensor, self.annotations);
        if known.annotation.as_tensor().and_then(|known| known.extents.rank()).is_none() {
            self.stays += 1;
            return None;
        }
        self.erased += 1;
        Some(Expr::Atom(tensor.clone()))
    }

    /// The part of one worker is the whole; integers among the arguments are extra parameters.
    fn local_view(&self, bound: &[Option<&Atom>]) -> Option<Expr> {
        let [Some(function), Some(operands), Some(outputs)] = bound else { return None };
        let (Atom::Tuple(items) | Atom::List(items)) = operands else { return None };
        let (mut tensors, mut integers) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Atom::Dim(dim) => integers.push(dim.clone()),
                _ if self.is_tensor(item) => tensors.push(item.clone()),
                _ => return None,
            }
        }
        let args = vec![(*function).clone(), Atom::List(tensors), (*outputs).clone()];
        let sym_args = (Name::new("sym_args"), Atom::Shape(integers));
        let has_integers = !matches!(&sym_args.1, Atom::Shape(integers) if integers.is_empty());
        let callee = Callee::Operator(Name::new("call_tir"));
        Some(Expr::Call {
            callee,
            args,
            attrs: has_integers.then_some(sym_args).into_iter().collect(),
        })
    }

    fn is_tensor(&self, atom: &Atom) -> bool {
        operand(atom, self.annotations).annotation.as_tensor().is_some()
    }
}
