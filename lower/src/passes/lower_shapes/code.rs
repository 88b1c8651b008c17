//! The code of a function as it is made: bindings, slots, names.

use super::scope::Scope;
use relax_rewrite::names::{Defined, Names};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, Expr, Function, VarId, VarInfo,
};
use relax_syntax::span::Span;

/// A function that is being lowered.
pub(super) struct Code<'m> {
    pub(super) function: &'m Function,
    vars: Vec<VarInfo>,
    names: Names,
    heap: VarId,
    slots: usize,
    heap_is_used: bool,
    pub(super) scope: Scope,
    /// The bindings of the body that is being made.
    out: Vec<Binding>,
    /// The statement that is being lowered.
    pub(super) span: Span,
    pub(super) checks: usize,
}

impl<'m> Code<'m> {
    pub(super) fn of(defined: &Defined, function: &'m Function) -> Self {
        let mut code = Self {
            function,
            vars: function.vars.clone(),
            names: defined.seen_from(function),
            heap: VarId(0),
            slots: 0,
            heap_is_used: false,
            scope: Scope::default(),
            out: Vec::new(),
            span: function.span,
            checks: 0,
        };
        code.heap = code.fresh("heap");
        code
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Nothing is stored in it yet.
    pub(super) fn fresh_slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    pub(super) fn fresh(&mut self, base: &str) -> VarId {
        let name = self.names.fresh(base);
        self.variable(name)
    }

    fn variable(&mut self, name: Name) -> VarId {
        self.vars.push(VarInfo { name, annotation: None, span: self.span });
        VarId(u32::try_from(self.vars.len() - 1).expect("invariant: a function has few variables"))
    }

    pub(super) fn heap(&mut self) -> Atom {
        self.heap_is_used = true;
        Atom::Var(self.heap)
    }

    pub(super) fn bind(&mut self, var: VarId, expr: Expr) {
        self.out.push(Binding { var, expr });
    }

    /// A variable that holds an atom.
    pub(super) fn held(&mut self, atom: Atom, base: &str) -> VarId {
        match atom {
            Atom::Var(var) => var,
            atom => self.bound(base, Expr::Atom(atom)),
        }
    }

    /// A fresh variable.
    pub(super) fn bound(&mut self, base: &str, expr: Expr) -> VarId {
        let var = self.fresh(base);
        self.bind(var, expr);
        var
    }

    /// A call of a built-in for its effect.
    pub(super) fn emit(&mut self, name: &str, args: Vec<Atom>, attrs: Vec<(&str, Atom)>) {
        let unit = self.variable(Name::new("_"));
        self.bind(unit, call(name, args, attrs));
    }

    /// The bindings that `make` makes, as a body with the result that it gives.
    pub(super) fn nested(&mut self, make: impl FnOnce(&mut Self) -> Atom) -> Body {
        let outer = std::mem::take(&mut self.out);
        let scope = self.scope.clone();
        let result = make(self);
        self.scope = scope;
        let bindings = std::mem::replace(&mut self.out, outer);
        body(bindings, result)
    }

    /// The variables and the body of the lowered function.
    pub(super) fn finish(mut self, result: Atom) -> (Vec<VarInfo>, Body) {
        let mut bindings = std::mem::take(&mut self.out);
        if self.heap_is_used {
            let size = i64::try_from(self.slots).expect("invariant: a function has few slots");
            let alloc = call("builtin.alloc_shape_heap", vec![Atom::Dim(Dim::Int(size))], vec![]);
            bindings.insert(0, Binding { var: self.heap, expr: alloc });
        }
        (self.vars, body(bindings, result))
    }
}

fn body(bindings: Vec<Binding>, result: Atom) -> Body {
    let blocks = if bindings.is_empty() {
        Vec::new()
    } else {
        vec![Block { kind: BlockKind::Plain, bindings }]
    };
    Body { blocks, result }
}

pub(super) fn call(name: &str, args: Vec<Atom>, attrs: Vec<(&str, Atom)>) -> Expr {
    let attrs = attrs.into_iter().map(|(key, atom)| (Name::new(key), atom)).collect();
    Expr::Call { callee: Callee::Operator(Name::new(name)), args, attrs }
}

pub(super) fn text(text: impl AsRef<str>) -> Atom {
    Atom::Str(Name::new(text.as_ref()))
}

/// An integer of the text.
pub(super) fn integer(value: usize) -> Atom {
    Atom::Dim(Dim::Int(i64::try_from(value).expect("invariant: slots and ranks are few")))
}
