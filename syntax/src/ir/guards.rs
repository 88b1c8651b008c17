//! Conditions on dims as bindings of a function: dims are compared as integer vectors of one element.

use super::graph::{Atom, Binding, Callee, Constant, Expr, Literals, VarId};
use crate::Name;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::facts::{Claim, Relation};
use std::sync::Arc;

/// Makes variables, each with a name like the one that is given.
pub type NewVar<'v> = dyn FnMut(&str) -> VarId + 'v;

/// Binds a bool scalar that is true where all claims hold.
///
/// # Panics
/// Where there is no claim.
pub fn condition(guard: &[Claim], bindings: &mut Vec<Binding>, var: &mut NewVar) -> Atom {
    let mut making = Making { bindings, var };
    let all = guard.iter().map(|claim| making.claim(claim)).collect::<Vec<_>>();
    let both = |a, b| making.call("logical_and", vec![a, b]);
    let holds = all.into_iter().reduce(both).expect("invariant: a guard has a part");
    making.call("squeeze", vec![holds, Atom::List(vec![Atom::Dim(Dim::Int(0))])])
}

struct Making<'m, 'v> {
    bindings: &'m mut Vec<Binding>,
    var: &'m mut NewVar<'v>,
}

impl Making<'_, '_> {
    fn claim(&mut self, claim: &Claim) -> Atom {
        let (left, right) = (self.dim(&claim.left), self.dim(&claim.right));
        let compare = match claim.relation {
            Relation::Equal => "equal",
            Relation::NotEqual => "not_equal",
            Relation::AtMost => "less_equal",
            Relation::Less => "less",
            Relation::Divides => {
                let rest = self.call("floor_mod", vec![right, left]);
                return self.call("equal", vec![rest, number(0)]);
            }
        };
        self.call(compare, vec![left, right])
    }

    /// A dim as a vector of one element.
    fn dim(&mut self, dim: &Dim) -> Atom {
        match dim {
            Dim::Int(value) => number(*value),
            dim => self.call("shape_to_tensor", vec![Atom::Shape(vec![dim.clone()])]),
        }
    }

    fn call(&mut self, name: &str, args: Vec<Atom>) -> Atom {
        let var = (self.var)(name);
        let callee = Callee::Operator(Name::new(name));
        self.bindings.push(Binding { var, expr: Expr::Call { callee, args, attrs: Vec::new() } });
        Atom::Var(var)
    }
}

fn number(value: i64) -> Atom {
    let data = Literals::Int(vec![value.into()]);
    Atom::Constant(Arc::new(Constant { shape: vec![1], dtype: DType::I64, data }))
}
