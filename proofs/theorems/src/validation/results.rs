//! Results of functions that nobody looks into: what their annotations say, over the dims of what they are given.

use super::evaluate::Side;
use super::values::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Function};
use std::collections::BTreeMap;

impl Side<'_> {
    /// The annotation of what a call gives; of any object where dims of it are not known.
    pub(super) fn result_of(&self, function: &Function, args: &[Value]) -> Annotation {
        let declared = function.lambda.result.clone().or_else(|| returned(function));
        let annotation = declared.unwrap_or(Annotation::Object);
        let bound = match annotation {
            Annotation::Tensor(_) => self.bound(function, args),
            // What one side takes apart the other one may not.
            _ => BTreeMap::new(),
        };
        let mut is_known = true;
        annotation
            .visit_dims(&mut |dim| is_known &= dim.vars_all(&|name| bound.contains_key(name)));
        if is_known {
            annotation.map_dims(&mut |dim| dim.substitute(&bound))
        } else {
            Annotation::Object
        }
    }

    /// The dims of a signature that stand alone in parameters, as the tensors that these are have them.
    fn bound(&self, function: &Function, args: &[Value]) -> BTreeMap<Name, Dim> {
        let mut bound = BTreeMap::new();
        for (&param, arg) in function.lambda.params.iter().zip(args) {
            let Annotation::Tensor(wanted) = function.param_annotation(param) else { continue };
            let Value::Entry(id) = self.settled(arg.clone()) else { continue };
            let Some(own) = self.annotation(id).as_tensor() else { continue };
            let (Extents::Known(wanted), Extents::Known(own)) = (&wanted.extents, &own.extents)
            else {
                continue;
            };
            if wanted.len() != own.len() {
                continue;
            }
            for (wanted, own) in wanted.iter().zip(own) {
                let Dim::Var(name) = wanted else { continue };
                if function.dim(name).is_some_and(|dim| dim.in_signature) {
                    bound.entry(name.clone()).or_insert_with(|| own.clone());
                }
            }
        }
        bound
    }
}

/// The annotation of the tensor that a function without a declared result returns: a run compares the value with it.
fn returned(function: &Function) -> Option<Annotation> {
    let Atom::Var(var) = function.lambda.body.as_ref()?.result else { return None };
    let annotation = function.var(var).annotation.as_ref()?;
    annotation.as_tensor()?.extents.dims()?;
    Some(annotation.clone())
}
