//! Casts that passes put around operators: a value in another dtype is a variable of its own, bound before it is used.

use crate::in_place::updated_in_place;
use crate::maybe_uninit::maybe_uninitialized;
use crate::names::Names;
use crate::passes::map_functions;
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId, VarInfo};
use relax_syntax::span::Span;
use std::collections::BTreeSet;

/// What casts in one function need to know of it, and what they add to it.
pub(crate) struct Casts<'a> {
    function: &'a Function,
    annotations: &'a [Annotation],
    /// What holds elements that nothing has written, which a cast would read first, or changes.
    never: BTreeSet<VarId>,
    names: &'a mut Names,
    vars: &'a mut Vec<VarInfo>,
}

/// The module with the body of each graph function as `change` leaves it.
pub(crate) fn map_bodies(
    module: &Module,
    checked: &Checked,
    change: &mut dyn FnMut(&mut Casts, &mut Body),
) -> Module {
    let maybe_uninit = maybe_uninitialized(module);
    let mut names = Names::of(module);
    map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let updated = updated_in_place(module, function);
        let mut casts = Casts {
            function,
            annotations: &checked.annotations[&function.name],
            never: maybe_uninit[&function.name].union(&updated).copied().collect(),
            names: &mut names,
            vars: &mut rebuilt.vars,
        };
        change(&mut casts, &mut body);
        rebuilt.lambda.body = Some(body);
        rebuilt
    })
}

impl<'a> Casts<'a> {
    /// The function whose body is changed.
    pub(crate) fn function(&self) -> &'a Function {
        self.function
    }

    /// Whether a value is whole where it is bound, and stays as it is: a cast of it may be used in its place.
    pub(crate) fn is_steady(&self, value: &Atom) -> bool {
        !matches!(value, Atom::Var(var) if self.never.contains(var))
    }

    /// What is known of a variable.
    pub(crate) fn annotation(&self, var: VarId) -> &Annotation {
        &self.annotations[var.0 as usize]
    }

    /// The dtype of a tensor, distributed or not, where it is known.
    pub(crate) fn dtype(&self, value: &Atom) -> Option<DType> {
        match value {
            Atom::Var(var) => self.annotation(*var).as_tensor()?.dtype,
            Atom::Constant(constant) => Some(constant.dtype),
            Atom::External(external) => external.annotation.as_tensor()?.dtype,
            _ => None,
        }
    }

    /// A new variable for a value in another dtype, with the name of the one that it stands for.
    pub(crate) fn fresh(&mut self, of: &Atom, dtype: DType) -> VarId {
        let (name, span) = match of {
            Atom::Var(var) => {
                let info = self.function.var(*var);
                (info.name.as_str(), info.span)
            }
            _ => ("w", Span::default()),
        };
        let name = self.names.fresh(&format!("{name}_{dtype}"));
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        self.vars.push(VarInfo { name, annotation: None, span });
        var
    }

    /// The variable that holds a value in a dtype, bound behind what is there already.
    pub(crate) fn cast(&mut self, value: &Atom, dtype: DType, before: &mut Vec<Binding>) -> VarId {
        let var = self.fresh(value, dtype);
        before.push(Binding { var, expr: astype(value.clone(), dtype) });
        var
    }
}

/// A call of `astype`.
pub(crate) fn astype(value: Atom, dtype: DType) -> Expr {
    let args = vec![value, Atom::Str(Name::new(dtype.name()))];
    Expr::Call { callee: Callee::Operator(Name::new("astype")), args, attrs: Vec::new() }
}
