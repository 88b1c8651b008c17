//! Several ways to compute a function as one function, which chooses among them by conditions on dims.

use crate::rewritten::unused;
use relax_syntax::Name;
use relax_syntax::facts::Claim;
use relax_syntax::ir::guards::condition;
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Expr, Function, Renaming, VarId, VarInfo, rename_body,
    renumber,
};
use std::collections::{BTreeMap, BTreeSet};

/// A function with the bodies of all these, of the same parameters and results; each is taken where its condition holds and none
/// before it, the last one, which has none, elsewhere.
///
/// # Panics
/// Where there is no function, or one has no body.
pub(crate) fn chosen(ways: Vec<(Vec<Claim>, Function)>) -> Function {
    let mut made = ways[0].1.clone();
    let params = made.lambda.params.clone();
    made.vars = params.iter().map(|param| ways[0].1.var(*param).clone()).collect();
    let number = |at: usize| VarId(u32::try_from(at).unwrap_or(u32::MAX));
    made.lambda.params = (0..params.len()).map(number).collect();
    let dims = made.dims.iter().map(|dim| dim.name.clone());
    let taken = dims.chain(made.vars.iter().map(|var| var.name.clone())).collect();
    let mut making = Making { vars: &mut made.vars, taken };
    let ways = ways.into_iter().map(|(guard, own)| (guard, making.own(own))).collect();
    let body = making.body(ways);
    made.lambda.body = Some(body);
    renumber(&mut made);
    made
}

struct Making<'m> {
    vars: &'m mut Vec<VarInfo>,
    taken: BTreeSet<Name>,
}

impl Making<'_> {
    /// The body of a function over variables of the new one.
    fn own(&mut self, own: Function) -> Body {
        let (mut new, mut names) = (Renaming::new(), BTreeMap::new());
        for (at, param) in own.lambda.params.iter().enumerate() {
            new.insert(*param, VarId(u32::try_from(at).unwrap_or(u32::MAX)));
        }
        for (at, info) in own.vars.iter().enumerate() {
            let old = VarId(u32::try_from(at).unwrap_or(u32::MAX));
            new.entry(old).or_insert_with(|| {
                // What a branch gives has the name of what its `if` gives.
                let name = names
                    .entry(info.name.clone())
                    .or_insert_with(|| unused(&mut self.taken, &info.name));
                self.add(VarInfo { name: name.clone(), ..info.clone() })
            });
        }
        let mut body = own.lambda.body.expect("invariant: a function with a plan has a body");
        rename_body(&mut body, &new);
        body
    }

    /// A variable with a name that no other one has.
    fn var(&mut self, info: VarInfo) -> VarId {
        let name = unused(&mut self.taken, &info.name);
        self.add(VarInfo { name, ..info })
    }

    fn add(&mut self, info: VarInfo) -> VarId {
        self.vars.push(info);
        VarId(u32::try_from(self.vars.len() - 1).unwrap_or(u32::MAX))
    }

    /// The body that chooses among bodies, in the form that its text reads back to.
    fn body(&mut self, mut ways: Vec<(Vec<Claim>, Body)>) -> Body {
        let (guard, then) = ways.remove(0);
        if ways.is_empty() {
            return then;
        }
        let span = self.vars[0].span;
        let info = |name: &str| VarInfo { name: name.into(), annotation: None, span };
        let mut bindings = Vec::new();
        let condition = condition(&guard, &mut bindings, &mut |name| self.var(info(name)));
        let fields = match &then.result {
            Atom::Tuple(items) => Some(items.len()),
            _ => None,
        };
        let var = self.var(info("chosen"));
        let otherwise = self.body(ways);
        let [then, otherwise] = [then, otherwise].map(|own| self.giving(own, var));
        bindings.push(Binding { var, expr: Expr::If { condition, then, otherwise } });
        let result = match fields {
            None => Atom::Var(var),
            Some(fields) => {
                let field = |at: usize| {
                    let own = self.var(info("field"));
                    bindings.push(Binding { var: own, expr: Expr::Get(Atom::Var(var), at) });
                    Atom::Var(own)
                };
                Atom::Tuple((0..fields).map(field).collect())
            }
        };
        Body { blocks: vec![Block { kind: BlockKind::Plain, bindings }], result }
    }

    /// A branch that binds what it gives under the name of what an `if` gives.
    fn giving(&mut self, mut own: Body, named: VarId) -> Body {
        let var = self.add(self.vars[named.0 as usize].clone());
        let given = Binding { var, expr: Expr::Atom(own.result) };
        match own.blocks.last_mut() {
            Some(last) if last.kind == BlockKind::Plain => last.bindings.push(given),
            _ => own.blocks.push(Block { kind: BlockKind::Plain, bindings: vec![given] }),
        }
        Body { blocks: own.blocks, result: Atom::Var(var) }
    }
}
