//! Variables that a pass adds to a function.

use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Binding, Callee, Expr, Function, Module, VarId, VarInfo};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// The table of variables of a function that grows.
pub(crate) struct Fresh {
    taken: BTreeSet<Name>,
    /// The next number to try for a name.
    numbers: BTreeMap<Name, u32>,
    /// Those of the function, then those made.
    pub(crate) vars: Vec<VarInfo>,
}

impl Fresh {
    /// For a function of a module.
    pub(crate) fn of(module: &Module, function: &Function) -> Self {
        let definitions = module.definitions.iter().map(|definition| definition.name().clone());
        let dims = function.dims.iter().map(|dim| dim.name.clone());
        let vars = function.vars.iter().map(|var| var.name.clone());
        let taken = definitions.chain(dims).chain(vars).collect();
        Self { taken, numbers: BTreeMap::new(), vars: function.vars.clone() }
    }

    /// A variable called `base`, or that with a number.
    pub(crate) fn var(&mut self, base: &str, annotation: Option<Annotation>, span: Span) -> VarId {
        let name = self.name(Name::new(base));
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

    fn name(&mut self, base: Name) -> Name {
        if lookup(&base).is_none() && self.taken.insert(base.clone()) {
            return base;
        }
        let next = self.numbers.entry(base.clone()).or_insert(0);
        loop {
            *next += 1;
            let name = Name::new(format!("{base}_{next}"));
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// `var = name(args)`
pub(crate) fn built_in(var: VarId, name: &str, args: Vec<Atom>) -> Binding {
    let callee = Callee::Operator(Name::new(name));
    Binding { var, expr: Expr::Call { callee, args, attrs: Vec::new() } }
}
