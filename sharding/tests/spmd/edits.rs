//! Bugs by rule: each collective of a local program is left out, formed twice, or has another attribute, another operator or another
//! group; each extent of a shard is that of another formula.

#[path = "extents.rs"]
mod extents;

use relax_program::frontend::print;
use relax_semantics::check::{Phase, check};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, Expr, Function, Module, VarId, VarInfo,
};

/// What a bug makes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The axis of a tensor that is cut, or put together.
    Axis,
    /// A reduction, which is missing, another one, or formed twice.
    Reduction,
    /// The extents of shards where the ranks do not divide an axis.
    Ragged,
    /// The ranks that exchange something.
    Group,
    /// The layout of what comes of a collective in any other way.
    Layout,
}

/// A wrong local program.
pub(crate) struct Edit {
    pub(crate) kind: Kind,
    /// What is wrong in it.
    pub(crate) what: &'static str,
    pub(crate) text: String,
}

/// Each wrong local program of a checked one.
pub(crate) fn edited(local: &Module) -> Vec<Edit> {
    let mut found = Vec::new();
    let function = &deduced(local);
    let mut bindings = Vec::new();
    function.lambda.body.iter().for_each(|body| all_bindings(body, &mut bindings));
    for binding in bindings {
        let Some(own) = Collective::of(function, &binding.expr) else { continue };
        for (kind, what, wrong) in own.edits() {
            let text = changed(local, |function| own.put(function, binding.var, wrong));
            found.push(Edit { kind, what, text });
        }
    }
    for (kind, what, wrong) in extents::edits(function) {
        found.push(Edit { kind, what, text: changed(local, |function| *function = wrong) });
    }
    found
}

/// The function of a local program with what is deduced of its variables, those of branches included.
fn deduced(local: &Module) -> Function {
    let mut function = local.functions().next().expect("a local program has a function").clone();
    let mut checked = check(local, &mut Prover::new(), Phase::Surface);
    let annotations = checked.annotations.remove(&function.name).expect("it is well-formed");
    for (var, annotation) in function.vars.iter_mut().zip(annotations) {
        var.annotation = Some(annotation);
    }
    function
}

/// The bindings of a body, those of branches included.
fn all_bindings<'f>(body: &'f Body, found: &mut Vec<&'f Binding>) {
    for binding in body.bindings() {
        found.push(binding);
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            [then, otherwise].into_iter().for_each(|branch| all_bindings(branch, found));
        }
    }
}

/// The block that has the binding of a variable, and its place in it.
fn block_of(body: &mut Body, var: VarId) -> Option<(&mut Vec<Binding>, usize)> {
    for block in &mut body.blocks {
        if let Some(at) = block.bindings.iter().position(|binding| binding.var == var) {
            return Some((&mut block.bindings, at));
        }
        for binding in &mut block.bindings {
            let Expr::If { then, otherwise, .. } = &mut binding.expr else { continue };
            if let Some(found) = block_of(then, var).or_else(|| block_of(otherwise, var)) {
                return Some(found);
            }
        }
    }
    None
}

/// The text of a local program with an edit; what was deduced of its variables is left out, as it may not be so.
fn changed(local: &Module, edit: impl FnOnce(&mut Function)) -> String {
    let mut local = local.clone();
    let function = local.definitions.iter_mut().find_map(|definition| match definition {
        Definition::Graph(function) => Some(function),
        Definition::Tensor(_) => None,
    });
    let function = function.expect("a local program has a function");
    edit(function);
    for (at, var) in function.vars.iter_mut().enumerate() {
        if !function.lambda.params.iter().any(|param| param.0 as usize == at) {
            var.annotation = None;
        }
    }
    print(&local)
}

/// What stands in the place of a call.
enum Wrong {
    Call(Expr),
    /// The call, and the same of its result.
    Twice,
}

type Found = (Kind, &'static str, Wrong);

fn call(name: &str, args: Vec<Atom>) -> Expr {
    Expr::Call { callee: Callee::Operator(name.into()), args, attrs: Vec::new() }
}

fn int(value: i64) -> Atom {
    Atom::Dim(Dim::Int(value))
}

fn text(text: &str) -> Atom {
    Atom::Str(text.into())
}

/// A call of a collective with its arguments in the order of the parameters, and the dims of its operand.
struct Collective<'a> {
    name: &'a str,
    args: &'a [Atom],
    dims: &'a [Dim],
    function: &'a Function,
}

impl<'a> Collective<'a> {
    fn of(function: &'a Function, expr: &'a Expr) -> Option<Self> {
        let Expr::Call { callee: Callee::Operator(name), args, .. } = expr else { return None };
        let name = name.strip_prefix("spmd.")?;
        let Some(Atom::Var(VarId(operand))) = args.first() else { return None };
        let annotation = function.vars[*operand as usize].annotation.as_ref();
        let dims = annotation.and_then(Annotation::dims).expect("the dims are deduced");
        Some(Self { name, args, dims, function })
    }

    fn dim(&self, at: usize) -> &'a Dim {
        match &self.args[at] {
            Atom::Dim(dim) => dim,
            other => panic!("no dim: {other:?}"),
        }
    }

    fn int(&self, at: usize) -> i64 {
        self.dim(at).as_int().expect("a literal")
    }

    fn with(&self, at: usize, atom: Atom) -> Wrong {
        let mut args = self.args.to_vec();
        args[at] = atom;
        Wrong::Call(call(&format!("spmd.{}", self.name), args))
    }

    /// The other axes of the operand in the place of one, without that of another argument.
    fn other_axes(&self, at: usize, without: Option<usize>) -> Vec<Found> {
        let rank = i64::try_from(self.dims.len()).expect("a rank");
        let own = [Some(self.int(at)), without.map(|at| self.int(at))];
        let others = (0..rank).filter(|axis| !own.contains(&Some(*axis)));
        others.map(|axis| (Kind::Axis, "another axis", self.with(at, int(axis)))).collect()
    }

    fn one_more(&self, at: usize) -> Wrong {
        self.with(at, Atom::Dim(Dim::op(DimOp::Add, self.dim(at).clone(), Dim::Int(1))))
    }

    /// The rank that is as far from the last one as this one is from the first.
    fn opposite(&self, workers: usize, rank: usize) -> Wrong {
        let last = Dim::op(DimOp::Sub, self.dim(workers).clone(), Dim::Int(1));
        self.with(rank, Atom::Dim(Dim::op(DimOp::Sub, last, self.dim(rank).clone())))
    }

    /// Another operator of the same group.
    fn other(&self, name: &str, rest: &[Atom]) -> Wrong {
        Wrong::Call(call(&format!("spmd.{name}"), [&self.args[..5], rest].concat()))
    }

    /// Arguments in the place of an extent that are not the whole.
    fn other_extents(&self, at: usize) -> Vec<Found> {
        let whole = self.dim(at);
        let blocks = Dim::op(DimOp::CeilDiv, whole.clone(), self.dim(3).clone());
        let padded = Dim::op(DimOp::Mul, blocks, self.dim(3).clone());
        let mut found = vec![(Kind::Ragged, "one row more", self.one_more(at))];
        if extents::differ(self.function, whole, &padded) {
            found.push((Kind::Ragged, "whole blocks", self.with(at, Atom::Dim(padded))));
        }
        found
    }

    /// Every wrong call in the place of one; none for a group of one rank, which has nobody to ask.
    fn edits(&self) -> Vec<Found> {
        let is_own = matches!(self.name, "own_shard" | "only");
        let workers = if is_own { 1 } else { 3 };
        if *self.dim(workers) == Dim::Int(1) {
            return Vec::new();
        }
        let is_reduction = self.name.contains("reduce");
        let missing = if is_reduction { Kind::Reduction } else { Kind::Layout };
        let operand = Wrong::Call(Expr::Atom(self.args[0].clone()));
        let mut found = vec![
            (missing, "left out", operand),
            (Kind::Group, "another rank", self.opposite(workers, workers + 1)),
            (Kind::Group, "more ranks", self.one_more(workers)),
        ];
        if self.name == "only" {
            found.push((Kind::Group, "another worker", self.one_more(3)));
        } else if is_own {
            found.push((Kind::Group, "the shard of the first rank", self.with(2, int(0))));
            found.extend(self.other_axes(3, None));
            found.extend(self.in_equal_parts());
        } else {
            let axis = if self.int(2) == 0 { 1 } else { 0 };
            found.push((Kind::Group, "another axis of the mesh", self.with(2, int(axis))));
            found.push((Kind::Group, "another mesh", self.with(1, text("mesh[1]"))));
            found.extend(self.others());
        }
        found
    }

    /// The rows of a rank where each has as many.
    fn in_equal_parts(&self) -> Option<Found> {
        let axis = self.int(3);
        let whole = &self.dims[usize::try_from(axis).expect("an axis")];
        let part = Dim::op(DimOp::FloorDiv, whole.clone(), self.dim(1).clone());
        let begin = Dim::op(DimOp::Mul, self.dim(2).clone(), part.clone());
        let end = Dim::op(DimOp::Add, begin.clone(), part.clone());
        let all = Dim::op(DimOp::Mul, part, self.dim(1).clone());
        let list = |dim: Dim| Atom::List(vec![Atom::Dim(dim)]);
        let args = vec![self.args[0].clone(), list(Dim::Int(axis)), list(begin), list(end)];
        let slice = Wrong::Call(call("strided_slice", args));
        extents::differ(self.function, whole, &all).then_some((
            Kind::Ragged,
            "in equal parts",
            slice,
        ))
    }

    /// With other attributes, and other operators.
    fn others(&self) -> Vec<Found> {
        use Kind::{Axis, Layout, Reduction};
        let args = self.args;
        let reduced = |op: &str| self.other("all_reduce", &[text(op)]);
        match self.name {
            "all_reduce" => {
                let mut found = vec![
                    (Reduction, "a maximum", reduced("max")),
                    (Reduction, "a minimum", reduced("min")),
                ];
                let axes = (0..self.dims.len()).map(|axis| i64::try_from(axis).expect("an axis"));
                found.extend(axes.map(|axis| {
                    let scattered = self.other("reduce_scatter", &[int(axis), text("sum")]);
                    (Layout, "scattered", scattered)
                }));
                found.push((Reduction, "formed twice", Wrong::Twice));
                found
            }
            "reduce_scatter" => {
                let shard = [0, 3, 4, 5].map(|at| args[at].clone()).to_vec();
                let shard = Wrong::Call(call("spmd.own_shard", shard));
                let mut found = self.other_axes(5, None);
                found.extend([
                    (Reduction, "a maximum", self.with(6, text("max"))),
                    (Layout, "not scattered", reduced("sum")),
                    (Reduction, "a shard of one term", shard),
                ]);
                found
            }
            "all_gather" => {
                let mut found = self.other_axes(5, None);
                found.extend(self.other_extents(6));
                found.push((Layout, "summed", reduced("sum")));
                found
            }
            "send" => vec![
                (Kind::Group, "of another worker", self.one_more(5)),
                (Kind::Group, "to another worker", self.one_more(6)),
                (Kind::Ragged, "one row more", self.one_more(7)),
            ],
            "broadcast" => vec![
                (Kind::Group, "of another worker", self.one_more(5)),
                (Kind::Ragged, "one row more", self.one_more(6)),
            ],
            _ => {
                let swapped = self.other(self.name, &[6, 5, 7].map(|at| args[at].clone()));
                let gathered = self.other("all_gather", &[6, 7].map(|at| args[at].clone()));
                let mut found = self.other_axes(5, Some(6));
                found.extend(self.other_axes(6, Some(5)));
                found.extend(self.other_extents(7));
                found.push((Axis, "the axes swapped", swapped));
                found.push((Layout, "gathered", gathered));
                found
            }
        }
    }

    /// Puts a wrong call in the place of the binding of a variable.
    fn put(&self, function: &mut Function, var: VarId, wrong: Wrong) {
        let vars = &mut function.vars;
        let body = function.lambda.body.as_mut().expect("a local program has a body");
        let (bindings, at) = block_of(body, var).expect("the binding is in a block");
        match wrong {
            Wrong::Call(expr) => bindings[at].expr = expr,
            Wrong::Twice => {
                let var = VarId(u32::try_from(vars.len()).expect("few variables"));
                let span = vars[0].span;
                vars.push(VarInfo { name: Name::from("reduced_once"), annotation: None, span });
                let mut args = self.args.to_vec();
                args[0] = Atom::Var(var);
                let again = call(&format!("spmd.{}", self.name), args);
                let once = std::mem::replace(&mut bindings[at].expr, again);
                bindings.insert(at, Binding { var, expr: once });
            }
        }
    }
}
