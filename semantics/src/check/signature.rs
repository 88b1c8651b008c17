//! Calls of functions: the callee's variables are matched with the caller's dims.

use super::fit::coarsen;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, OWN, Signature, TensorType};
use relax_syntax::dim::Dim;
use std::collections::BTreeMap;

/// Variables of a callee, and the caller's dims that stand for them.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// For each variable that is bound.
    pub(crate) dims: BTreeMap<Name, Dim>,
    /// Parameter dims that are no lone first variable, with the caller's dim, and where it stands.
    pub(crate) equations: Vec<Equation>,
    /// Parameters that could not be compared at compile time.
    pub(crate) open: bool,
}

/// A dim of a parameter against the caller's.
#[derive(Debug)]
pub(crate) struct Equation {
    /// Over the callee's variables.
    pub(crate) param: Dim,
    /// Over the caller's.
    pub(crate) argument: Dim,
    /// "dim 0 of argument 1"
    pub(crate) place: String,
    /// Which argument.
    pub(crate) index: usize,
}

impl Matching {
    /// Matches one argument; says why it can never fit.
    pub(crate) fn argument(
        &mut self,
        index: usize,
        param: &Annotation,
        argument: &Annotation,
        binds: &dyn Fn(&Name) -> bool,
    ) -> Result<(), String> {
        self.part(index, param, argument, &format!("argument {}", index + 1), binds)
    }

    fn part(
        &mut self,
        index: usize,
        param: &Annotation,
        argument: &Annotation,
        what: &str,
        binds: &dyn Fn(&Name) -> bool,
    ) -> Result<(), String> {
        match (param, argument) {
            (Annotation::Object, _) => Ok(()),
            (_, Annotation::Object) => {
                self.open = true;
                Ok(())
            }
            (Annotation::Tensor(p), Annotation::Tensor(a)) => self.tensor(index, p, a, what, binds),
            (Annotation::DTensor(p), a) if a.as_tensor().is_some() => {
                let a = a.as_tensor().expect("just asked");
                self.tensor(index, &p.tensor, a, what, binds)
            }
            (Annotation::Tensor(p), Annotation::DTensor(a)) => {
                self.tensor(index, p, &a.tensor, what, binds)
            }
            (Annotation::Shape(p), Annotation::Shape(a)) => self.extents(index, p, a, what, binds),
            (Annotation::Prim(p), Annotation::Prim(a)) if p == a => Ok(()),
            (Annotation::Tuple(p), Annotation::Tuple(a)) if p.len() == a.len() => {
                for (field, (p, a)) in p.iter().zip(a).enumerate() {
                    self.part(index, p, a, &format!("field {field} of {what}"), binds)?;
                }
                Ok(())
            }
            (Annotation::Callable(Some(p)), Annotation::Callable(Some(a)))
                if p.params.len() != a.params.len() || (p.pure && !a.pure) =>
            {
                Err(format!("{what} must be `{param}`, found `{argument}`"))
            }
            (Annotation::Callable(_), Annotation::Callable(_)) => Ok(()),
            _ => Err(format!("{what} must be `{param}`, found `{argument}`")),
        }
    }

    fn tensor(
        &mut self,
        index: usize,
        param: &TensorType,
        argument: &TensorType,
        what: &str,
        binds: &dyn Fn(&Name) -> bool,
    ) -> Result<(), String> {
        if let (Some(p), Some(a)) = (param.dtype, argument.dtype)
            && p != a
        {
            return Err(format!("{what} must have dtype {p}, found {a}"));
        }
        self.extents(index, &param.extents, &argument.extents, what, binds)
    }

    fn extents(
        &mut self,
        index: usize,
        param: &Extents,
        argument: &Extents,
        what: &str,
        binds: &dyn Fn(&Name) -> bool,
    ) -> Result<(), String> {
        if let (Some(p), Some(a)) = (param.rank(), argument.rank())
            && p != a
        {
            return Err(format!("{what} must have rank {p}, found {a}"));
        }
        let (Some(params), Some(arguments)) = (param.dims(), argument.dims()) else {
            self.open |= param.rank().is_some();
            return Ok(());
        };
        for (axis, (p, a)) in params.iter().zip(arguments).enumerate() {
            match p {
                Dim::Var(name) if binds(name) && !self.dims.contains_key(name) => {
                    self.dims.insert(name.clone(), a.clone());
                }
                _ => self.equations.push(Equation {
                    param: p.clone(),
                    argument: a.clone(),
                    place: format!("dim {axis} of {what}"),
                    index,
                }),
            }
        }
        Ok(())
    }

    /// The callee's annotation in the caller's dims; what is not known is coarsened. Variables that
    /// `binds` does not claim are the caller's own.
    pub(crate) fn result(&self, result: &Annotation, binds: &dyn Fn(&Name) -> bool) -> Annotation {
        let known = coarsen(result, &|dim| {
            dim.vars_all(&|name| !binds(name) || self.dims.contains_key(name))
        });
        self.substituted(&known)
    }

    /// Own variables of a signature within belong to it, even under a name that is bound here too.
    fn substituted(&self, annotation: &Annotation) -> Annotation {
        let own = self.dims.keys().any(|name| name.starts_with(OWN));
        match annotation {
            Annotation::Callable(_) if own => annotation.clone(),
            Annotation::Tuple(items) => {
                Annotation::Tuple(items.iter().map(|item| self.substituted(item)).collect())
            }
            _ => annotation.map_dims(&mut |dim| dim.substitute(&self.dims)),
        }
    }
}

/// The signature of a function as the annotation of a value: its variables become its own.
pub(crate) fn own_signature(
    params: Vec<Annotation>,
    result: &Annotation,
    pure: bool,
    is_own: &dyn Fn(&Name) -> bool,
) -> Annotation {
    let mut own = |dim: &Dim| {
        let mut names = BTreeMap::new();
        dim.visit_vars(&mut |name| {
            if is_own(name) && !name.starts_with(OWN) {
                names.insert(name.clone(), Dim::var(format!("{OWN}{name}")));
            }
        });
        rename(dim, &names)
    };
    // Nor has a signature within this one: what it says of these variables can't be quoted there.
    let within = |annotation: &Annotation| without_callables_of(annotation, is_own);
    let params: Vec<_> = params.iter().map(|param| within(param).map_dims(&mut own)).collect();
    let result = within(result).map_dims(&mut own);
    // A dim of both own variables and those around has no text: it is coarsened.
    let mixed = |dim: &Dim| {
        let (mut mine, mut others) = (false, false);
        dim.visit_vars(&mut |name| {
            mine |= name.starts_with(OWN);
            others |= !name.starts_with(OWN);
        });
        mine && others
    };
    let plain = |annotation: &Annotation| coarsen(annotation, &|dim| !mixed(dim));
    Annotation::Callable(Some(Box::new(Signature {
        params: params.iter().map(plain).collect(),
        result: plain(&result),
        pure,
    })))
}

/// The annotation without signatures whose dims have variables that `is_own` claims.
fn without_callables_of(annotation: &Annotation, is_own: &dyn Fn(&Name) -> bool) -> Annotation {
    match annotation {
        Annotation::Tuple(items) => {
            Annotation::Tuple(items.iter().map(|item| without_callables_of(item, is_own)).collect())
        }
        Annotation::Callable(Some(_)) => {
            let mut claimed = false;
            annotation.visit_dims(&mut |dim| {
                claimed |= !dim.vars_all(&|name| name.starts_with(OWN) || !is_own(name));
            });
            if claimed { Annotation::Callable(None) } else { annotation.clone() }
        }
        other => other.clone(),
    }
}

/// Substitution that changes nothing else.
fn rename(dim: &Dim, names: &BTreeMap<Name, Dim>) -> Dim {
    match dim {
        Dim::Op(op, operands) => {
            Dim::Op(*op, Box::new((rename(&operands.0, names), rename(&operands.1, names))))
        }
        _ => dim.substitute(names),
    }
}
