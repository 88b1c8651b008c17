//! Variables that a pass adds to a function.

use relax_rewrite::names::{Defined, Names};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Binding, Callee, Expr, Function, VarId, VarInfo};
use relax_syntax::span::Span;

/// The table of variables of a function that grows.
pub(crate) struct Fresh {
    names: Names,
    /// Those of the function, then those made.
    pub(crate) vars: Vec<VarInfo>,
}

impl Fresh {
    /// For a function of a module with these definitions.
    pub(crate) fn of(defined: &Defined, function: &Function) -> Self {
        Self { names: defined.seen_from(function), vars: function.vars.clone() }
    }

    /// A variable called `base`, or that with a number.
    pub(crate) fn var(&mut self, base: &str, annotation: Option<Annotation>, span: Span) -> VarId {
        let name = self.names.fresh(base);
        self.push(name, annotation, span)
    }

    /// The variable of a call that is made for its effect.
    pub(crate) fn unit(&mut self, span: Span) -> VarId {
        self.push(Name::new("_"), None, span)
    }

    fn push(&mut self, name: Name, annotation: Option<Annotation>, span: Span) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("invariant: ids are u32"));
        self.vars.push(VarInfo { name, annotation, span });
        var
    }
}

/// `var = name(args)`
pub(crate) fn built_in(var: VarId, name: &str, args: Vec<Atom>) -> Binding {
    let callee = Callee::Operator(Name::new(name));
    Binding { var, expr: Expr::Call { callee, args, attrs: Vec::new() } }
}
