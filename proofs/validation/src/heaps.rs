//! Shapes of P2.3 as dims again: what built-ins on a heap store and compute is known by name. Checks of parameters become their
//! annotations, other checks casts. What comes from the heap of another function stays an object.

use relax_semantics::ops::{HeapBuiltin, by_position, heap_builtin, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, DimVar, Expr, Function, Module, VarId, VarInfo,
};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How the names of dims begin that checks pass over.
const UNNAMED: &str = "any";

/// What is known of the slots of a function's heap, and of values that are checked.
#[derive(Default)]
struct Heap {
    slots: BTreeMap<i64, Dim>,
    /// Values that are tensors of a dtype, or shapes.
    kinds: BTreeMap<VarId, Option<DType>>,
    /// The dims of values whose shape was matched.
    shapes: BTreeMap<VarId, Vec<Dim>>,
    /// Annotations of parameters; at first of none.
    params: BTreeMap<VarId, Option<Annotation>>,
    /// What stands for variables: shapes, dims and annotations that they hold, and their casts.
    known: BTreeMap<VarId, Atom>,
    /// The dims that slots store.
    dims: BTreeMap<Name, DimVar>,
    /// Those that nothing has used: since they were stored there were only checks.
    unused: BTreeSet<Name>,
    span: Span,
    vars: Vec<VarInfo>,
}

/// A module with its heaps raised; one without any is as it was.
#[must_use]
pub fn raised(module: &Module) -> Module {
    let mut result = module.clone();
    for definition in &mut result.definitions {
        if let Definition::Graph(function) = definition {
            Heap::raise(function);
        }
    }
    result
}

impl Heap {
    /// Gives parameters their annotations, and writes shapes out.
    fn raise(function: &mut Function) {
        let Some(mut body) = function.lambda.body.take() else { return };
        let mut heap = Heap { span: function.span, ..Heap::default() };
        heap.params.extend(function.lambda.params.iter().map(|&param| (param, None)));
        heap.vars = std::mem::take(&mut function.vars);
        heap.body(&mut body);
        function.lambda.body = Some(body);
        function.vars = heap.vars;
        for (param, annotation) in heap.params {
            if let Some(annotation) = annotation {
                function.vars[param.0 as usize].annotation = Some(annotation);
            }
        }
        if heap.dims.is_empty() {
            return;
        }
        function.dims.extend(heap.dims.into_values());
        if function.lambda.result == Some(Annotation::Object) {
            function.lambda.result = None;
        }
    }

    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            let mut bindings = Vec::with_capacity(block.bindings.len());
            for mut binding in std::mem::take(&mut block.bindings) {
                let cast = self.binding(&mut binding);
                bindings.push(binding);
                bindings.extend(cast);
            }
            block.bindings = bindings;
        }
    }

    /// What is known in a branch is known there alone; slots that it writes are not known after it.
    fn branches(&mut self, then: &mut Body, otherwise: &mut Body) {
        let (mut slots, known) = (self.slots.clone(), self.known.clone());
        for body in [then, otherwise] {
            (self.slots, self.known) = (slots.clone(), known.clone());
            let dims = self.dims.clone();
            self.body(body);
            self.dims.extend(dims);
            slots.retain(|slot, dim| self.slots.get(slot) == Some(dim));
        }
        (self.slots, self.known) = (slots, known);
    }

    /// Writes out the arguments of a call; a check of a value may be followed by a cast.
    fn binding(&mut self, binding: &mut Binding) -> Option<Binding> {
        match &mut binding.expr {
            Expr::If { then, otherwise, .. } => {
                self.unused.clear();
                self.branches(then, otherwise);
                None
            }
            Expr::Call { args, attrs, .. } => {
                let all = args.iter_mut().chain(attrs.iter_mut().map(|(_, atom)| atom));
                all.for_each(|atom| self.write_out(atom));
                self.call(binding)
            }
            _ => None,
        }
    }

    fn write_out(&self, atom: &mut Atom) {
        match atom {
            Atom::Var(var) => {
                if let Some(known) = self.known.get(var) {
                    *atom = known.clone();
                }
            }
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter_mut().for_each(|item| self.write_out(item));
            }
            _ => {}
        }
    }

    fn call(&mut self, binding: &Binding) -> Option<Binding> {
        let row = match &binding.expr {
            Expr::Call { callee: Callee::Operator(name), .. } => lookup(name),
            _ => None,
        };
        let Some((builtin, row)) = row.and_then(|row| Some((heap_builtin(row)?, row))) else {
            self.unused.clear();
            return None;
        };
        let Expr::Call { args, attrs, .. } = &binding.expr else { return None };
        let all = by_position(row, args, attrs)?;
        match (builtin, all.as_slice()) {
            (HeapBuiltin::CheckKind, [Atom::Var(value), Atom::Str(kind), _, dtype, ..]) => {
                let kind = match (kind.as_str(), dtype) {
                    ("tensor", Atom::Str(dtype)) => DType::parse(dtype).map(Some),
                    ("shape", _) => Some(None),
                    _ => None,
                };
                self.kinds.extend(kind.map(|kind| (*value, kind)));
            }
            (HeapBuiltin::MatchShape, [Atom::Var(value), _, Atom::Tuple(codes), ..]) => {
                return self.checked(*value, codes, binding.var);
            }
            (
                HeapBuiltin::CheckBound,
                [_, Atom::Dim(slot), Atom::Str(fact), Atom::Dim(Dim::Int(limit)), ..],
            ) => {
                self.bound(slot, fact, *limit);
            }
            (HeapBuiltin::ComputeDim, [_, Atom::Dim(slot), Atom::Str(op), a, b, ..]) => {
                let dims = self.dim(a).zip(self.dim(b)).zip(DimOp::of_symbol(op));
                let slot = slot.as_int();
                if let Some((((a, b), op), slot)) = dims.zip(slot) {
                    self.slots.insert(slot, Dim::op(op, a, b));
                }
            }
            (HeapBuiltin::LoadDim, [_, Atom::Dim(slot)]) => {
                let dim = slot.as_int().and_then(|slot| self.slots.get(&slot));
                self.known.extend(dim.map(|dim| (binding.var, Atom::Dim(dim.clone()))));
            }
            (HeapBuiltin::MakeShape, [_, Atom::Tuple(codes)]) => {
                let shape = self.all_dims(codes).map(|dims| (binding.var, Atom::Shape(dims)));
                self.known.extend(shape);
            }
            (HeapBuiltin::MakeAnnotation, [_, Atom::Tuple(codes), Atom::Str(dtype)]) => {
                let annotation = self.all_dims(codes).zip(DType::parse(dtype));
                let atom = annotation.map(|(dims, dtype)| {
                    Atom::Annotation(Arc::new(Annotation::tensor(dims, dtype)))
                });
                self.known.extend(atom.map(|atom| (binding.var, atom)));
            }
            _ => {}
        }
        None
    }

    /// The shape of a value is matched: the annotation of a parameter, or a cast to it.
    fn checked(&mut self, value: VarId, codes: &[Atom], at: VarId) -> Option<Binding> {
        let kind = *self.kinds.get(&value)?;
        let known = self.shapes.get(&value).cloned().unwrap_or_default();
        let dims = self.matched(codes, &known, self.params.contains_key(&value))?;
        self.shapes.insert(value, dims.clone());
        let annotation = match kind {
            Some(dtype) => Annotation::tensor(dims, dtype),
            None => Annotation::Shape(Extents::Known(dims)),
        };
        if let Some(param) = self.params.get_mut(&value) {
            *param = Some(annotation);
            return None;
        }
        let var = VarId(u32::try_from(self.vars.len()).ok()?);
        let (name, span) = (Name::new(format!("cast.{}", var.0)), self.vars[at.0 as usize].span);
        self.vars.push(VarInfo { name, annotation: None, span });
        self.known.insert(value, Atom::Var(var));
        self.kinds.insert(var, kind);
        self.shapes.extend(self.shapes.get(&value).cloned().map(|dims| (var, dims)));
        Some(Binding { var, expr: Expr::MatchCast(Atom::Var(value), annotation) })
    }

    /// The dims of a value whose shape is matched, perhaps again: those that have names keep them.
    fn matched(&mut self, codes: &[Atom], known: &[Dim], is_param: bool) -> Option<Vec<Dim>> {
        let mut dims = Vec::with_capacity(codes.len());
        for (at, code) in codes.iter().enumerate() {
            let known = known.get(at).filter(|dim| !Self::is_unnamed(dim));
            let stored = match code {
                Atom::Tuple(parts) => match parts.as_slice() {
                    [Atom::Str(how), Atom::Dim(slot)] if how == "store" => slot.as_int(),
                    _ => None,
                },
                _ => None,
            };
            let dim = match (known, stored, code) {
                (Some(dim), ..) => dim.clone(),
                (None, Some(_), _) => self.dim_var("slot", is_param),
                (None, None, Atom::None) => self.dim_var(UNNAMED, is_param),
                (None, None, code) => self.dim(code)?,
            };
            self.slots.extend(stored.map(|slot| (slot, dim.clone())));
            dims.push(dim);
        }
        for dim in known.iter().zip(&dims).filter(|(old, new)| old != new).map(|(old, _)| old) {
            if let Dim::Var(name) = dim {
                self.dims.remove(name);
            }
        }
        Some(dims)
    }

    /// Whether checks passed over a dim so far.
    fn is_unnamed(dim: &Dim) -> bool {
        matches!(dim, Dim::Var(name) if name.starts_with(UNNAMED))
    }

    /// A dim of its own: no text spells such a name.
    fn dim_var(&mut self, what: &str, in_signature: bool) -> Dim {
        let name = Name::new(format!("{what}.{}", self.dims.len()));
        let var = DimVar { in_signature, ..DimVar::new(name.clone(), self.span) };
        self.dims.insert(name.clone(), var);
        self.unused.insert(name.clone());
        Dim::Var(name)
    }

    /// What a check says of a dim holds behind it: for all that is looked at, where nothing has used the dim before.
    fn bound(&mut self, slot: &Dim, fact: &str, limit: i64) -> Option<()> {
        let Dim::Var(name) = self.slots.get(&slot.as_int()?)? else { return None };
        let var = self.dims.get_mut(name).filter(|_| self.unused.contains(name))?;
        match fact {
            "lower_bound" => var.lower = Some(limit),
            "upper_bound" => var.upper = Some(limit),
            "multiple_of" => var.multiple_of = Some(limit),
            _ => {}
        }
        Some(())
    }

    fn all_dims(&self, codes: &[Atom]) -> Option<Vec<Dim>> {
        codes.iter().map(|code| self.dim(code)).collect()
    }

    /// An integer, or what is in a slot.
    fn dim(&self, code: &Atom) -> Option<Dim> {
        match code {
            Atom::Dim(dim) => Some(dim.clone()),
            Atom::Tuple(parts) => match parts.as_slice() {
                [Atom::Str(how), Atom::Dim(slot)] if how == "slot" => {
                    self.slots.get(&slot.as_int()?).cloned()
                }
                _ => None,
            },
            _ => None,
        }
    }
}
