//! The function that chooses among versions: dims are compared as integer vectors of one element.

use super::{Guard, Way};
use crate::names::Names;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, Constant, Expr, Function, VarId, VarInfo,
    graph::Literals,
};
use relax_syntax::span::Span;
use std::sync::Arc;

/// The function with a body that compares dims and calls a version.
pub(crate) fn guarded_body(function: &Function, ways: &[Way], names: &mut Names) -> Function {
    let mut made = function.clone();
    made.vars = function.lambda.params.iter().map(|&param| function.var(param).clone()).collect();
    let params = (0..made.vars.len()).map(|at| VarId(u32::try_from(at).expect("ids are u32")));
    made.lambda.params = params.collect();
    let result = names.fresh("chosen");
    let args = made.lambda.params.iter().map(|&param| Atom::Var(param)).collect();
    let mut making = Making { vars: &mut made.vars, names, span: function.span, result, args };
    let body = making.body(ways);
    made.lambda.body = Some(body);
    made
}

struct Making<'m> {
    vars: &'m mut Vec<VarInfo>,
    names: &'m mut Names,
    span: Span,
    /// What both branches of every `if` bind.
    result: Name,
    args: Vec<Atom>,
}

impl Making<'_> {
    fn body(&mut self, ways: &[Way]) -> Body {
        let mut bindings = Vec::new();
        let way = &ways[0];
        let expr = if way.guard.is_empty() {
            self.chosen(way, &mut bindings)
        } else {
            let condition = self.condition(&way.guard, &mut bindings);
            let last = Way { guard: Guard::new(), ..way.clone() };
            let then = self.body(std::slice::from_ref(&last));
            let otherwise = self.body(&ways[1..]);
            Expr::If { condition, then, otherwise }
        };
        let var = self.var(self.result.clone());
        bindings.push(Binding { var, expr });
        let block = Block { kind: BlockKind::Plain, bindings };
        Body { blocks: vec![block], result: Atom::Var(var) }
    }

    /// The call of a version. One that writes dims another way gives a value that is cast to what the caller knows
    /// it as, which never fails where the guard holds.
    fn chosen(&mut self, way: &Way, bindings: &mut Vec<Binding>) -> Expr {
        let callee = Callee::Global(way.name.clone());
        let call = Expr::Call { callee, args: self.args.clone(), attrs: Vec::new() };
        let Some(result) = &way.result else { return call };
        let called = self.names.fresh("found");
        let var = self.var(called);
        bindings.push(Binding { var, expr: call });
        Expr::MatchCast(Atom::Var(var), result.clone())
    }

    fn condition(&mut self, guard: &[Claim], bindings: &mut Vec<Binding>) -> Atom {
        let mut all: Option<Atom> = None;
        for claim in guard {
            let holds = self.claim(claim, bindings);
            all = Some(match all {
                None => holds,
                Some(before) => self.call("logical_and", vec![before, holds], bindings),
            });
        }
        let holds = all.expect("invariant: a guard has a part");
        let axes = Atom::List(vec![Atom::Dim(Dim::Int(0))]);
        self.call("squeeze", vec![holds, axes], bindings)
    }

    fn claim(&mut self, claim: &Claim, bindings: &mut Vec<Binding>) -> Atom {
        let (left, right) = (self.dim(&claim.left, bindings), self.dim(&claim.right, bindings));
        let compare = match claim.relation {
            Relation::Equal => "equal",
            Relation::NotEqual => "not_equal",
            Relation::AtMost => "less_equal",
            Relation::Less => "less",
            Relation::Divides => {
                let rest = self.call("floor_mod", vec![right, left], bindings);
                return self.call("equal", vec![rest, number(0)], bindings);
            }
        };
        self.call(compare, vec![left, right], bindings)
    }

    /// A dim as a vector of one element.
    fn dim(&mut self, dim: &Dim, bindings: &mut Vec<Binding>) -> Atom {
        match dim {
            Dim::Int(value) => number(*value),
            dim => self.call("shape_to_tensor", vec![Atom::Shape(vec![dim.clone()])], bindings),
        }
    }

    fn call(&mut self, name: &str, args: Vec<Atom>, bindings: &mut Vec<Binding>) -> Atom {
        let called = self.names.fresh(name);
        let var = self.var(called);
        let callee = Callee::Operator(Name::new(name));
        bindings.push(Binding { var, expr: Expr::Call { callee, args, attrs: Vec::new() } });
        Atom::Var(var)
    }

    fn var(&mut self, name: Name) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        self.vars.push(VarInfo { name, annotation: None, span: self.span });
        var
    }
}

fn number(value: i64) -> Atom {
    let data = Literals::Int(vec![value.into()]);
    Atom::Constant(Arc::new(Constant { shape: vec![1], dtype: DType::I64, data }))
}
