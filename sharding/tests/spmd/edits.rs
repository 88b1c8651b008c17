//! Bugs by rule: each collective of each local program is left out, formed twice, or has another attribute, another operator or another
//! group.

use relax_program::frontend::print;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::{Atom, Binding, Callee, Definition, Expr, Module};

/// A collective of a local program: the number of its block, and of its binding there.
type Place = (usize, usize);

fn collective(expr: &Expr) -> Option<Collective<'_>> {
    match expr {
        Expr::Call { callee: Callee::Operator(name), args, .. } => {
            name.strip_prefix("spmd.").map(|name| Collective { name, args })
        }
        _ => None,
    }
}

fn body(module: &mut Module) -> &mut relax_syntax::ir::Body {
    let graphs = module.definitions.iter_mut().find_map(|definition| match definition {
        Definition::Graph(function) => function.lambda.body.as_mut(),
        Definition::Tensor(_) => None,
    });
    graphs.expect("a local program has a body")
}

fn collectives(module: &Module) -> Vec<(Place, Binding)> {
    let mut module = module.clone();
    let blocks = body(&mut module).blocks.iter().enumerate();
    let all = blocks.flat_map(|(at, block)| {
        block.bindings.iter().enumerate().map(move |(own, binding)| ((at, own), binding.clone()))
    });
    all.filter(|(_, binding)| collective(&binding.expr).is_some()).collect()
}

/// A wrong call, and what is wrong in it.
type Edit = (&'static str, Expr);

fn call(name: &str, args: Vec<Atom>) -> Expr {
    let callee = Callee::Operator(format!("spmd.{name}").into());
    Expr::Call { callee, args, attrs: Vec::new() }
}

fn int(value: i64) -> Atom {
    Atom::Dim(Dim::Int(value))
}

fn text(text: &str) -> Atom {
    Atom::Str(text.into())
}

/// A call with its arguments in the order of the parameters.
struct Collective<'a> {
    name: &'a str,
    args: &'a [Atom],
}

impl Collective<'_> {
    fn dim(&self, at: usize) -> &Dim {
        match &self.args[at] {
            Atom::Dim(dim) => dim,
            other => panic!("no dim: {other:?}"),
        }
    }

    fn with(&self, at: usize, atom: Atom) -> Expr {
        let mut args = self.args.to_vec();
        args[at] = atom;
        call(self.name, args)
    }

    fn another_axis(&self, at: usize) -> Expr {
        let other = if *self.dim(at) == Dim::Int(0) { 1 } else { 0 };
        self.with(at, int(other))
    }

    fn one_more(&self, at: usize) -> Expr {
        self.with(at, Atom::Dim(Dim::op(DimOp::Add, self.dim(at).clone(), Dim::Int(1))))
    }

    /// The rank that is as far from the last one as this one is from the first.
    fn opposite(&self, workers: usize, rank: usize) -> Expr {
        let last = Dim::op(DimOp::Sub, self.dim(workers).clone(), Dim::Int(1));
        self.with(rank, Atom::Dim(Dim::op(DimOp::Sub, last, self.dim(rank).clone())))
    }

    /// Another operator of the same group.
    fn other(&self, name: &str, rest: &[Atom]) -> Expr {
        call(name, [&self.args[..5], rest].concat())
    }

    /// Every wrong call in the place of one; none for a group of one rank, which has nobody to ask.
    fn edits(&self) -> Vec<Edit> {
        let is_own = self.name == "own_shard";
        if *self.dim(if is_own { 1 } else { 3 }) == Dim::Int(1) {
            return Vec::new();
        }
        let mut found = vec![("left out", Expr::Atom(self.args[0].clone()))];
        if is_own {
            found.extend([
                ("the shard of another rank", self.opposite(1, 2)),
                ("the shard of the first rank", self.with(2, int(0))),
                ("more ranks", self.one_more(1)),
                ("another axis", self.another_axis(3)),
            ]);
        } else {
            found.extend([
                ("another rank", self.opposite(3, 4)),
                ("more ranks", self.one_more(3)),
                ("another axis of the mesh", self.another_axis(2)),
                ("another mesh", self.with(1, text("mesh[1]"))),
            ]);
            found.extend(self.others());
        }
        found
    }

    /// With other attributes, and other operators.
    fn others(&self) -> Vec<Edit> {
        let args = self.args;
        let reduced = |op: &str| self.other("all_reduce", &[text(op)]);
        match self.name {
            "all_reduce" => vec![
                ("a maximum", reduced("max")),
                ("a minimum", reduced("min")),
                ("scattered", self.other("reduce_scatter", &[int(0), text("sum")])),
            ],
            "reduce_scatter" => vec![
                ("another axis", self.another_axis(5)),
                ("a maximum", self.with(6, text("max"))),
                ("not scattered", reduced("sum")),
                (
                    "a shard of one term",
                    call("own_shard", [0, 3, 4, 5].map(|at| args[at].clone()).to_vec()),
                ),
            ],
            "all_gather" => vec![
                ("another axis", self.another_axis(5)),
                ("one row more", self.one_more(6)),
                ("summed", reduced("sum")),
            ],
            _ => vec![
                ("the axes swapped", self.other(self.name, &[6, 5, 7].map(|at| args[at].clone()))),
                ("one row more", self.one_more(7)),
                ("gathered", self.other("all_gather", &[6, 7].map(|at| args[at].clone()))),
            ],
        }
    }
}

/// Each wrong local program of a program: what is wrong in it, and its text.
pub(crate) fn edited(local: &Module) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for ((block, at), binding) in collectives(local) {
        let edits = collective(&binding.expr).map(|own| own.edits());
        for (what, expr) in edits.into_iter().flatten() {
            let mut edited = local.clone();
            body(&mut edited).blocks[block].bindings[at].expr = expr;
            found.push((what, print(&edited)));
        }
    }
    found
}
