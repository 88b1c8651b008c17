//! Names for the dims of tensors of which only the rank is known: a `match_cast` binds them, and every use behind it has
//! dims that the passes can compute with.
//!
//! A tensor is named where an operator uses it and all that it is made of has dims; so of a chain of operators the first
//! gets names, and deduction tells the rest. The cast never fails: its dims are new variables, or those that a broadcast
//! decides. What only a `match_cast` of the text or the caller uses gets none.

use super::legalize_ops::{broadcast_dims, tensor_operator};
use super::map_functions;
use super::normalize::broadcasts;
use crate::dims::assume_declared;
use crate::in_place::dps_arguments;
use crate::names::{Defined, Names};
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, DimVar, Expr, Function, Module, VarId, VarInfo,
};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "name_dims",
    doc: "Names the dims of tensors of which only the rank is known, where operators use them.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let defined = Defined::of(module);
    let mut named = 0;
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let mut operands = BTreeSet::new();
        operands_of(&body, &mut operands);
        let facts = &mut *context.facts;
        facts.push();
        assume_declared(facts, &function.dims);
        let mut walk = Walk {
            annotations: &context.checked.annotations[&function.name],
            operands,
            mutated: dps_arguments(module, function),
            names: defined.seen_from(function),
            function: &mut rebuilt,
            facts,
            named: BTreeMap::new(),
        };
        walk.params(&mut body);
        walk.body(&mut body);
        walk.facts.pop();
        named += walk.named.len();
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count("named", named, "tensors");
    Ok(result)
}

/// The variables that operators use.
fn operands_of(body: &Body, operands: &mut BTreeSet<VarId>) {
    for binding in body.bindings() {
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            operands_of(then, operands);
            operands_of(otherwise, operands);
        } else if tensor_operator(&binding.expr).is_some() {
            expr_uses(&binding.expr, operands);
        }
    }
}

struct Walk<'a> {
    annotations: &'a [Annotation],
    operands: BTreeSet<VarId>,
    mutated: BTreeSet<VarId>,
    names: Names,
    function: &'a mut Function,
    facts: &'a mut dyn Facts,
    /// The variables in whose place others stand from here on.
    named: BTreeMap<VarId, VarId>,
}

impl Walk<'_> {
    fn params(&mut self, body: &mut Body) {
        let mut bindings = Vec::new();
        for param in self.function.lambda.params.clone() {
            if let Some((rank, dtype)) = self.unnamed(param) {
                bindings.push(self.cast(param, vec![None; rank], dtype));
            }
        }
        match body.blocks.first_mut() {
            _ if bindings.is_empty() => {}
            // Bindings outside of dataflow blocks are one block in the text.
            Some(first) if first.kind == BlockKind::Plain => {
                first.bindings.splice(..0, bindings);
            }
            _ => body.blocks.insert(0, Block { kind: BlockKind::Plain, bindings }),
        }
    }

    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            let mut bindings = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings) {
                let is_root = self.is_root(&binding.expr);
                self.expr(&mut binding.expr);
                let var = binding.var;
                let expr = is_root.then(|| binding.expr.clone());
                bindings.push(binding);
                if let Some(expr) = expr
                    && let Some((rank, dtype)) = self.unnamed(var)
                {
                    let known = self.known(&expr, rank);
                    bindings.push(self.cast(var, known, dtype));
                }
            }
            block.bindings = bindings;
        }
    }

    /// The rank and the dtype of a tensor that operators use, and of whose dims nothing is known.
    fn unnamed(&self, var: VarId) -> Option<(usize, DType)> {
        let tensor = self.annotations.get(var.0 as usize)?.as_tensor()?;
        let Extents::Rank(rank) = tensor.extents else { return None };
        let is_used = self.operands.contains(&var) && !self.mutated.contains(&var);
        tensor.dtype.filter(|_| is_used).map(|dtype| (rank, dtype))
    }

    /// Whether nothing that the value is made of gets names before it.
    fn is_root(&self, expr: &Expr) -> bool {
        if matches!(expr, Expr::Atom(_) | Expr::Closure(_)) {
            return false;
        }
        let mut used = BTreeSet::new();
        expr_uses(expr, &mut used);
        let has_rank_alone = |var: &VarId| {
            let tensor = self.annotations.get(var.0 as usize).and_then(Annotation::as_tensor);
            tensor.is_some_and(|tensor| matches!(tensor.extents, Extents::Rank(_)))
        };
        matches!(expr, Expr::If { .. }) || !used.iter().any(has_rank_alone)
    }

    /// The dims that a broadcast decides.
    fn known(&mut self, expr: &Expr, rank: usize) -> Vec<Option<Dim>> {
        let decided = self.broadcast(expr).filter(|dims| dims.len() == rank);
        decided.map_or_else(
            || vec![None; rank],
            |dims| dims.into_iter().map(|dim| Some(dim).filter(is_short)).collect(),
        )
    }

    fn broadcast(&mut self, expr: &Expr) -> Option<Vec<Dim>> {
        let Expr::Call { callee: Callee::Operator(name), args, .. } = expr else { return None };
        lookup(name).filter(|row| broadcasts(row))?;
        let shapes = args.iter().map(|arg| match arg {
            Atom::Var(var) => Some(self.annotations.get(var.0 as usize)?.dims()?.to_vec()),
            Atom::Constant(constant) => {
                Some(relax_syntax::resolve::constant::constant_dims(constant))
            }
            _ => None,
        });
        let shapes = shapes.collect::<Option<Vec<_>>>()?;
        let shapes: Vec<&[Dim]> = shapes.iter().map(Vec::as_slice).collect();
        Some(broadcast_dims(&shapes, self.facts))
    }

    /// `named = match_cast(var, Tensor((d, 4), "f32"))`
    fn cast(&mut self, var: VarId, known: Vec<Option<Dim>>, dtype: DType) -> Binding {
        let VarInfo { name, span, .. } = self.function.var(var).clone();
        let base = if name == "_" { "value" } else { name.as_str() };
        let dims = known.into_iter().map(|dim| {
            dim.unwrap_or_else(|| {
                let name = self.names.fresh("d");
                let (lower, upper, multiple_of) = (None, None, None);
                let in_signature = false;
                let dim =
                    DimVar { name: name.clone(), in_signature, lower, upper, multiple_of, span };
                self.function.dims.push(dim);
                Dim::Var(name)
            })
        });
        let annotation = Annotation::tensor(dims.collect::<Vec<_>>(), dtype);
        let fresh = VarId(u32::try_from(self.function.vars.len()).expect("ids are u32"));
        let name = self.names.numbered(base);
        self.function.vars.push(VarInfo { name, annotation: None, span });
        self.named.insert(var, fresh);
        Binding { var: fresh, expr: Expr::MatchCast(Atom::Var(var), annotation) }
    }

    /// Puts named tensors in the place of those that calls use.
    fn expr(&mut self, expr: &mut Expr) {
        match expr {
            Expr::If { then, otherwise, .. } => {
                let before = self.named.clone();
                self.body(then);
                self.body(otherwise);
                self.named.retain(|var, _| before.contains_key(var));
            }
            Expr::Call { args, attrs, .. } => {
                let attrs = attrs.iter_mut().map(|(_, atom)| atom);
                args.iter_mut().chain(attrs).for_each(|atom| self.atom(atom));
            }
            _ => {}
        }
    }

    fn atom(&self, atom: &mut Atom) {
        match atom {
            Atom::Var(var) => {
                if let Some(named) = self.named.get(var) {
                    *var = *named;
                }
            }
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter_mut().for_each(|item| self.atom(item));
            }
            _ => {}
        }
    }
}

/// A dim of the operands, and not one that only the run decides.
fn is_short(dim: &Dim) -> bool {
    !matches!(dim, Dim::Op(..))
}
