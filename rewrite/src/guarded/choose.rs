//! The function that chooses among versions by conditions on dims.

use super::{Guard, Way};
use crate::names::Names;
use relax_syntax::Name;
use relax_syntax::facts::Claim;
use relax_syntax::ir::guards::condition;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, Expr, Function, VarId, VarInfo,
};
use relax_syntax::span::Span;

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
        condition(guard, bindings, &mut |name| {
            let name = self.names.fresh(name);
            self.var(name)
        })
    }

    fn var(&mut self, name: Name) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        self.vars.push(VarInfo { name, annotation: None, span: self.span });
        var
    }
}
