//! Statements: dims in them become slots, and what they check becomes calls.

use super::checks::{Binds, Subject};
use super::code::{Code, call, integer, text};
use crate::passes::lower_operators::CALL_OPERATOR;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Signature};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Body, Callee, Expr, VarId};
use std::sync::Arc;

/// The trap of an expression that has no value.
const NO_VALUE: &str = "dim/value";

impl Code<'_> {
    /// Gives the result of the body.
    pub(super) fn statements(&mut self, body: &Body) -> Atom {
        for binding in body.bindings() {
            self.span = self.function.var(binding.var).span;
            self.statement(binding.var, &binding.expr);
        }
        self.atom(&body.result)
    }

    fn statement(&mut self, var: VarId, expr: &Expr) {
        let lowered = match expr {
            Expr::Atom(atom) => Expr::Atom(self.atom(atom)),
            Expr::Get(atom, index) => Expr::Get(self.atom(atom), *index),
            Expr::MatchCast(atom, annotation) => {
                let atom = self.atom(atom);
                let value = self.held(atom, "value");
                let about = "the value".to_owned();
                let span = self.span;
                self.check(
                    &[Subject { annotation, value, about, span }],
                    "match_cast",
                    Binds::Lone,
                );
                Expr::Atom(Atom::Var(value))
            }
            Expr::If { condition, then, otherwise } => {
                let condition = self.atom(condition);
                let then = self.nested(|code| code.statements(then));
                let otherwise = self.nested(|code| code.statements(otherwise));
                Expr::If { condition, then, otherwise }
            }
            Expr::Call { callee, args, attrs } => return self.call(var, callee, args, attrs),
            // There is none from P0 on.
            Expr::Closure(_) => expr.clone(),
        };
        self.bind(var, lowered);
    }

    fn call(&mut self, var: VarId, callee: &Callee, args: &[Atom], attrs: &[(Name, Atom)]) {
        let declared = declared_result(callee, args, attrs);
        let mut operands =
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).collect::<Vec<_>>();
        // An external constant that is missing stops the program where it stands among the dims.
        let holds = operands.iter().any(|atom| matches!(atom, Atom::External(_)));
        let mut lowered = Vec::new();
        for operand in operands.drain(..) {
            let atom = self.atom(operand);
            lowered.push(match atom {
                Atom::External(_) if holds && self.has_dims(args, attrs) => {
                    Atom::Var(self.held(atom, "constant"))
                }
                atom => atom,
            });
        }
        let attr_values = lowered.split_off(args.len());
        let names = attrs.iter().map(|(name, _)| name.clone());
        let (args, attrs) = (lowered, names.zip(attr_values).collect::<Vec<_>>());
        match (callee, declared) {
            (Callee::Var(function), _) => self.call_variable(var, *function, args),
            (Callee::Operator(name), Some(declared)) => {
                let found = Found { name, args, attrs };
                self.call_declared(var, found, &declared);
            }
            _ => {
                let callee = untyped(callee);
                self.bind(var, Expr::Call { callee, args, attrs });
            }
        }
    }

    fn has_dims(&self, args: &[Atom], attrs: &[(Name, Atom)]) -> bool {
        args.iter().chain(attrs.iter().map(|(_, atom)| atom)).any(computes)
    }

    /// A call whose result is declared in the call: `ret` is left out, and checked after it.
    fn call_declared(&mut self, var: VarId, found: Found, declared: &Annotation) {
        declared.visit_dims(&mut |dim| {
            self.operand(dim, NO_VALUE, "");
        });
        let Found { name, mut args, mut attrs } = found;
        let row = lookup(name).expect("invariant: only such declare a result");
        let at = row.param("ret");
        if row.params.last().is_some_and(|param| param.name == "ret") {
            args.truncate(at);
        }
        attrs.retain(|(key, _)| !row.params[at].is_called(key));
        let callee = Callee::Operator(name.clone());
        self.bind(var, Expr::Call { callee, args, attrs });
        // The last constraint of such a row is that the result is what is declared.
        let constraint = row.constraints.last().expect("invariant: it has one").id;
        let check = format!("{}/{constraint}", row.short_name());
        let about = "the result".to_owned();
        let subject = Subject { annotation: declared, value: var, about, span: self.span };
        self.check(&[subject], &check, Binds::Nothing);
    }

    /// A call through a variable whose signature the text declares.
    fn call_variable(&mut self, var: VarId, function: VarId, args: Vec<Atom>) {
        let annotation = self.function.var(function).annotation.as_ref();
        let signature = match annotation {
            Some(Annotation::Callable(Some(signature))) => Some(signature),
            _ => None,
        };
        let Some(signature) = signature else {
            let callee = Callee::Var(function);
            return self.bind(var, Expr::Call { callee, args, attrs: Vec::new() });
        };
        // Variables that the signature binds are its own.
        let slots = self.scope.slots.clone();
        let args = self.checked_arguments(signature, args);
        let args = args.into_iter().map(Atom::Var).collect();
        self.bind(var, Expr::Call { callee: Callee::Var(function), args, attrs: Vec::new() });
        let (annotation, about) = (&signature.result, "the result".to_owned());
        let span = self.span;
        self.check(&[Subject { annotation, value: var, about, span }], "call", Binds::Nothing);
        self.scope.slots = slots;
    }

    fn checked_arguments(&mut self, signature: &Signature, args: Vec<Atom>) -> Vec<VarId> {
        let held: Vec<VarId> = args.into_iter().map(|arg| self.held(arg, "argument")).collect();
        let subjects: Vec<Subject> = signature
            .params
            .iter()
            .zip(&held)
            .enumerate()
            .map(|(index, (annotation, &value))| Subject {
                annotation,
                value,
                about: format!("argument {}", index + 1),
                span: self.span,
            })
            .collect();
        self.check(&subjects, "call", Binds::Lone);
        held
    }

    pub(super) fn atom(&mut self, atom: &Atom) -> Atom {
        match atom {
            Atom::Dim(dim) if dim.as_int().is_none() => {
                let slot = self.slot(dim, NO_VALUE, "");
                Atom::Var(self.loaded(slot))
            }
            Atom::Shape(dims) if computes(atom) => Atom::Var(self.shape(dims)),
            Atom::Annotation(annotation) if computes(atom) => self.annotation(annotation),
            Atom::Tuple(items) => Atom::Tuple(items.iter().map(|item| self.atom(item)).collect()),
            Atom::List(items) => Atom::List(items.iter().map(|item| self.atom(item)).collect()),
            other => other.clone(),
        }
    }

    /// The output of a call of the reference library; in one process a distributed tensor is the whole.
    fn annotation(&mut self, annotation: &Annotation) -> Atom {
        if let Annotation::Tuple(items) = annotation {
            return Atom::List(items.iter().map(|item| self.annotation(item)).collect());
        }
        let tensor = annotation
            .as_tensor()
            .and_then(|tensor| Some((tensor.extents.dims()?.to_vec(), tensor.dtype)));
        let Some((dims, dtype)) = tensor else {
            return Atom::Annotation(Arc::new(annotation.clone()));
        };
        let codes = dims.iter().map(|dim| self.operand(dim, NO_VALUE, "")).collect();
        let dtype = dtype.map_or(Atom::None, |dtype| text(dtype.name()));
        let args = vec![self.heap(), Atom::Tuple(codes), dtype];
        Atom::Var(self.bound("out", call("builtin.make_annotation", args, Vec::new())))
    }

    fn loaded(&mut self, slot: usize) -> VarId {
        if let Some(&var) = self.scope.loaded.get(&slot) {
            return var;
        }
        let args = vec![self.heap(), integer(slot)];
        let var = self.bound("dim", call("builtin.load_dim", args, Vec::new()));
        self.scope.loaded.insert(slot, var);
        var
    }

    fn shape(&mut self, dims: &[Dim]) -> VarId {
        if let Some(&var) = self.scope.shapes.get(dims) {
            return var;
        }
        let mut codes = Vec::new();
        for dim in dims {
            codes.push(self.operand(dim, NO_VALUE, ""));
            self.natural(dim);
        }
        let args = vec![self.heap(), Atom::Tuple(codes)];
        let var = self.bound("dims", call("builtin.make_shape", args, Vec::new()));
        self.scope.shapes.insert(dims.to_vec(), var);
        var
    }

    /// A dim of a shape may not be negative; one that a value has is not.
    fn natural(&mut self, dim: &Dim) {
        if matches!(dim, Dim::Op(..)) && self.scope.natural.insert(dim.clone()) {
            let slot = self.slot(dim, NO_VALUE, "");
            let args = vec![self.heap(), integer(slot)];
            self.emit("builtin.check_extent", args, vec![("about", text(dim.to_string()))]);
        }
    }

    /// The code of a dim: an integer or a slot.
    pub(super) fn operand(&mut self, dim: &Dim, failing: &str, about: &str) -> Atom {
        match dim {
            Dim::Int(_) => Atom::Dim(dim.clone()),
            _ => {
                let slot = self.slot(dim, failing, about);
                Atom::Tuple(vec![text("slot"), integer(slot)])
            }
        }
    }

    /// The slot that holds a dim, which is computed if need be. `failing` is the trap when it has no
    /// value.
    fn slot(&mut self, dim: &Dim, failing: &str, about: &str) -> usize {
        if let Some(&slot) = self.scope.slots.get(dim) {
            return slot;
        }
        let Dim::Op(op, operands) = dim else { return self.fresh_slot() };
        let a = self.operand(&operands.0, failing, about);
        let b = self.operand(&operands.1, failing, about);
        let slot = self.fresh_slot();
        let args = vec![self.heap(), integer(slot), text(op.symbol()), a, b];
        let mut attrs = Vec::new();
        if failing != NO_VALUE {
            attrs.extend([("check", text(failing)), ("about", text(about))]);
        }
        self.emit("builtin.compute_dim", args, attrs);
        self.scope.slots.insert(dim.clone(), slot);
        slot
    }
}

/// A call of an operator with lowered operands.
struct Found<'a> {
    name: &'a Name,
    args: Vec<Atom>,
    attrs: Vec<(Name, Atom)>,
}

/// What the operand `ret` of a call declares.
fn declared_result(callee: &Callee, args: &[Atom], attrs: &[(Name, Atom)]) -> Option<Annotation> {
    let Callee::Operator(name) = callee else { return None };
    let row = lookup(name)?;
    let at = row.params.iter().position(|param| param.name == "ret")?;
    let named = attrs.iter().find(|(key, _)| row.params[at].is_called(key)).map(|(_, atom)| atom);
    // Rows with further operands take it by name only.
    let by_position = if at + 1 == row.params.len() { args.get(at) } else { None };
    match named.or(by_position)? {
        Atom::Annotation(annotation) => Some((**annotation).clone()),
        Atom::List(items) | Atom::Tuple(items) => match items.as_slice() {
            [Atom::Annotation(annotation)] => Some((**annotation).clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Of registers nothing is deduced.
fn untyped(callee: &Callee) -> Callee {
    match callee {
        Callee::Operator(name) if name == CALL_OPERATOR => {
            Callee::Operator(Name::new("builtin.run_operator"))
        }
        other => other.clone(),
    }
}

/// Whether an atom has a dim to compute.
fn computes(atom: &Atom) -> bool {
    let is_symbolic = |dim: &Dim| dim.as_int().is_none();
    match atom {
        Atom::Dim(dim) => is_symbolic(dim),
        Atom::Shape(dims) => dims.iter().any(is_symbolic),
        Atom::Tuple(items) | Atom::List(items) => items.iter().any(computes),
        Atom::Annotation(annotation) => {
            let mut found = false;
            annotation.visit_dims(&mut |dim| found |= is_symbolic(dim));
            found
        }
        _ => false,
    }
}
