//! Functions of which one takes anything, and checks it itself, as those of phase P2.3 do: both are called with objects of which
//! nothing is known, and the annotations of the other one are checks of its parameters.

use super::evaluate::{Ran, Scope, Side};
use super::values::{Def, Value};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::Function;

/// Whether two functions can be compared so, although their signatures differ.
pub(super) fn take_alike(a: &Function, b: &Function) -> bool {
    a.lambda.params.len() == b.lambda.params.len()
        && [a, b].into_iter().all(|function| function.donated().next().is_none())
        && [a, b].into_iter().any(takes_objects)
}

fn takes_objects(function: &Function) -> bool {
    let mut params = function.lambda.params.iter();
    params.all(|&param| *function.param_annotation(param) == Annotation::Object)
        && !function.dims.iter().any(|dim| dim.in_signature)
}

impl Side<'_> {
    /// Runs a function on objects.
    pub(super) fn run_on_objects(&mut self, function: &Function) -> Ran<Value> {
        let mut scope = Scope::of(function);
        let params: Vec<_> = function.lambda.params.iter().enumerate().collect();
        let mut values = Vec::new();
        for (at, &param) in params {
            let object = || (Annotation::Object, Def::Opaque);
            let value = Value::Entry(self.table.entry(format!("parameter {at}"), object));
            scope.vars.insert(param, value.clone());
            values.push((value, function.param_annotation(param).clone()));
        }
        // Variables that stand alone are bound by all parameters before any other dim is compared.
        let mut others = 0;
        for (value, annotation) in &values {
            let alone = annotation.map_dims(&mut |dim| match dim {
                Dim::Var(_) => dim.clone(),
                _ => {
                    others += 1;
                    Dim::Var(format!("any.{others}").into())
                }
            });
            self.fits(&mut scope, value, &alone)?;
        }
        for (value, annotation) in &values {
            self.fits(&mut scope, value, annotation)?;
        }
        self.function(&mut scope)
    }

    /// The names of dims of entries: none is below 0.
    pub(super) fn named_dims(&self) -> Vec<Dim> {
        let mut dims = Vec::new();
        for entry in &self.table.entries {
            entry.annotation.visit_dims(&mut |dim| {
                if let Dim::Var(name) = dim
                    && name.starts_with('v')
                    && name.contains('.')
                {
                    dims.push(dim.clone());
                }
            });
        }
        dims
    }
}
