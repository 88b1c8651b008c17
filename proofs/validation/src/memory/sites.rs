//! Where a function takes memory, places tensors, uses and releases them: a walk in the order of the text, which
//! is the order of every run, but that a run takes one branch of each `if`.

use super::life::{How, Life, Place};
use super::names::{Keywords, Named, Points, Returns};
use crate::obligation::Outcome;
use relax_semantics::ops::{Family, by_position, called_by_name, lookup};
use relax_semantics::tir::walk::{loaded, stored, visit_statements};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BufferId, Param, StmtKind};
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, TensorProgram, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::BTreeSet;

/// `memory.alloc_tensor`
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) var: VarId,
    pub(super) name: Name,
    /// Those that it may lie in.
    pub(super) storages: BTreeSet<usize>,
    /// It may lie in a storage that the function did not take.
    pub(super) foreign: bool,
    pub(super) dims: Option<Vec<Dim>>,
    pub(super) dtype: Option<DType>,
    pub(super) offset: Option<Dim>,
    pub(super) life: Life,
    /// Whether a kernel reads it before one has written it.
    pub(super) unwritten: Outcome,
}

/// `memory.alloc_storage`
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) var: VarId,
    pub(super) name: Name,
    pub(super) bytes: Option<Dim>,
    dtype: Option<DType>,
    pub(super) life: Life,
    /// Why whoever calls the function, or something that it calls, may release it.
    pub(super) leaves: Option<Leaves>,
}

/// How a storage may get to where another function releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leaves {
    /// It escapes to where its lifetime is not tracked.
    Elsewhere(&'static str),
    /// It holds a part of the result, which whoever called releases.
    Result,
}

/// What is not looked into.
#[derive(Debug)]
pub(super) struct Open {
    /// The binding; `None` where the function ends.
    pub(super) binding: Option<VarId>,
    /// What it is about.
    pub(super) place: Name,
    pub(super) why: &'static str,
}

/// What a function does with memory.
#[derive(Debug, Default)]
pub(super) struct Sites {
    pub(super) tensors: Vec<Tensor>,
    pub(super) storages: Vec<Storage>,
    /// Places where something happens that is not looked into.
    pub(super) open: Vec<Open>,
    /// The parameters that the result may name.
    pub(super) returned: BTreeSet<usize>,
}

impl Sites {
    pub(super) fn of(function: &Function, module: &Module, returns: &Returns<'_>) -> Self {
        let Some(body) = &function.lambda.body else { return Self::default() };
        let (sites, named) = (Self::default(), Named::default());
        let (place, written) = (Place::default(), BTreeSet::new());
        let mut walk = Walk { function, module, returns, sites, named, ifs: 0, place, written };
        for (position, &param) in function.lambda.params.iter().enumerate() {
            let params = BTreeSet::from([position]);
            walk.named.bind(param, Points { params, ..Points::default() });
        }
        walk.body(body);
        walk.ends(body);
        let result = walk.named.atom(&body.result);
        if !result.storages.is_empty() {
            walk.open(Name::new("return"), "a storage leaves the function");
        }
        walk.leave(&result, Leaves::Result);
        walk.sites.returned = result.params;
        walk.sites
    }
}

struct Walk<'a> {
    function: &'a Function,
    module: &'a Module,
    returns: &'a Returns<'a>,
    sites: Sites,
    named: Named,
    ifs: usize,
    place: Place,
    /// Tensors that a kernel has written on every way to this place.
    written: BTreeSet<usize>,
}

impl Walk<'_> {
    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            self.place.at += 1;
            self.place.binding = Some(binding.var);
            let points = self.binding(binding);
            self.named.bind(binding.var, points);
        }
    }

    /// Its value is used where a body ends.
    fn ends(&mut self, body: &Body) {
        self.place.at += 1;
        self.place.binding = None;
        self.uses(&body.result);
    }

    /// These storages, and those of these tensors, may be released where it is not seen.
    fn leave(&mut self, points: &Points, how: Leaves) {
        let of_tensors = points.tensors.iter().flat_map(|&at| &self.sites.tensors[at].storages);
        let storages: BTreeSet<usize> = points.storages.iter().chain(of_tensors).copied().collect();
        for storage in storages {
            let leaves = &mut self.sites.storages[storage].leaves;
            *leaves = Some(how).max(*leaves);
        }
    }

    /// What the variable of a binding may name.
    fn binding(&mut self, binding: &Binding) -> Points {
        match &binding.expr {
            Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => {
                self.uses(atom);
                self.named.atom(atom)
            }
            Expr::Call { callee, args, attrs } => {
                if self.returns.keywords == Keywords::Read
                    && let Some(args) = of_memory(callee, args, attrs)
                {
                    return self.call(binding.var, callee, &args, &args);
                }
                let all: Vec<Atom> =
                    args.iter().chain(attrs.iter().map(|(_, atom)| atom)).cloned().collect();
                self.call(binding.var, callee, args, &all)
            }
            Expr::If { condition, then, otherwise } => {
                self.uses(condition);
                let (number, before) = (self.ifs, self.written.clone());
                self.ifs += 1;
                let mut points = self.branch(then, (number, true));
                let after = std::mem::replace(&mut self.written, before);
                points.add(&self.branch(otherwise, (number, false)));
                self.meet(number, &after);
                self.place.at += 1;
                self.leave_branch(&points, number);
                points
            }
            Expr::Closure(_) => self.closure(binding),
        }
    }

    /// The value of a branch may lie in a storage that was taken there, and has no name after it.
    fn leave_branch(&mut self, points: &Points, number: usize) {
        let mut inner = Points::default();
        for &tensor in &points.tensors {
            let storages = self.sites.tensors[tensor].storages.iter().filter(|&&storage| {
                let path = &self.sites.storages[storage].life.path;
                path.iter().any(|(of, _)| *of == number)
            });
            inner.storages.extend(storages);
        }
        self.leave(&inner, Leaves::Elsewhere("it holds the value of a branch"));
    }

    /// What is written after both branches: what each has written that made it, or that was made before.
    fn meet(&mut self, number: usize, then: &BTreeSet<usize>) {
        let made_in = |tensor: usize, side: bool| {
            self.sites.tensors[tensor].life.path.contains(&(number, side))
        };
        let otherwise = &self.written;
        let both = then.union(otherwise).copied().filter(|&tensor| {
            (then.contains(&tensor) || made_in(tensor, false))
                && (otherwise.contains(&tensor) || made_in(tensor, true))
        });
        self.written = both.collect();
    }

    fn branch(&mut self, body: &Body, way: (usize, bool)) -> Points {
        self.place.path.push(way);
        self.body(body);
        self.ends(body);
        self.place.path.pop();
        self.named.atom(&body.result)
    }

    /// A closure may name whatever it captures; what it does with memory of its own is not looked into.
    fn closure(&mut self, binding: &Binding) -> Points {
        let mut used = BTreeSet::new();
        expr_uses(&binding.expr, &mut used);
        let mut points = Points::default();
        for var in used {
            self.uses(&Atom::Var(var));
            points.add(&self.named.var(var));
        }
        if !points.tensors.is_empty() || !points.storages.is_empty() {
            self.open(self.name(binding.var), "a closure captures memory");
        }
        self.leave(&points, Leaves::Elsewhere("a closure captures it"));
        points
    }

    fn call(&mut self, var: VarId, callee: &Callee, args: &[Atom], all: &[Atom]) -> Points {
        match callee {
            Callee::Operator(name) => self.operator(var, name, args, all),
            Callee::Global(name) => match self.module.tensor_program(name) {
                Some(program) => {
                    self.launch(program, args);
                    Points::default()
                }
                None => self.function_call(name, args),
            },
            Callee::Var(function) => {
                let mut points = self.given(args);
                self.uses(&Atom::Var(*function));
                points.add(&self.named.var(*function));
                points
            }
        }
    }

    fn operator(&mut self, var: VarId, name: &Name, args: &[Atom], all: &[Atom]) -> Points {
        let Some(row) = lookup(name) else { return self.given(all) };
        let is_plain = all.len() == args.len();
        match (row.name, args) {
            ("memory.alloc_storage", _) if is_plain => self.take(var, args),
            ("memory.alloc_tensor", [storage, rest @ ..]) if is_plain => {
                self.place(var, storage, rest)
            }
            ("memory.kill_tensor", [atom]) => self.release_tensors(atom),
            ("memory.kill_object", [atom]) => {
                let points = self.named.atom(atom);
                if !points.tensors.is_empty() {
                    self.open(self.name(var), "a tensor of its own is released with its storage");
                }
                self.leave(
                    &points,
                    Leaves::Elsewhere("a tensor in it is released with its storage"),
                );
                self.release_tensors(atom)
            }
            ("memory.kill_storage", [atom]) => self.release_storage(atom),
            ("builtin.cuda_graph_run_or_capture", [Atom::Global(function), rest @ ..]) => {
                self.function_call(&function.clone(), rest)
            }
            _ => {
                let makes_new = called_by_name(row, args.first()).is_some()
                    || !matches!(row.family, Family::Memory | Family::Builtins | Family::Calls)
                    || matches!(
                        row.name,
                        "call_tir"
                            | "call_dps_library"
                            | "call_packed"
                            | "call_pure_packed"
                            | "builtin.read_shape"
                    );
                let points = self.given(all);
                if makes_new { Points::default() } else { points }
            }
        }
    }

    /// `memory.alloc_storage(shape(bytes), "u8")`
    fn take(&mut self, var: VarId, args: &[Atom]) -> Points {
        let dtype = match args.get(1) {
            None => Some(DType::U8),
            Some(Atom::Str(name)) => DType::parse(name),
            Some(_) => None,
        };
        let bytes = match (args.first(), dtype.and_then(|dtype| i64::try_from(dtype.size()).ok())) {
            (Some(Atom::Shape(dims)), Some(size)) => Some(
                dims.iter().fold(Dim::Int(size), |acc, dim| Dim::op(DimOp::Mul, acc, dim.clone())),
            ),
            _ => None,
        };
        let life = Life::begin(&self.place);
        let (name, leaves) = (self.name(var), None);
        self.sites.storages.push(Storage { var, name, bytes, dtype, life, leaves });
        let storages = BTreeSet::from([self.sites.storages.len() - 1]);
        Points { storages, ..Points::default() }
    }

    /// `memory.alloc_tensor(storage, shape(dims), dtype, offset)`
    fn place(&mut self, var: VarId, storage: &Atom, rest: &[Atom]) -> Points {
        let home = self.named.atom(storage);
        for &index in &home.storages {
            let certain = home.storages.len() == 1;
            self.sites.storages[index].life.note(&self.place, How::Used, certain);
        }
        let of_storage = home.storages.first().and_then(|&index| self.sites.storages[index].dtype);
        let dtype = match rest.get(1) {
            Some(Atom::Str(name)) => DType::parse(name),
            None | Some(Atom::None) if home.storages.len() == 1 => of_storage,
            _ => None,
        };
        let dims = match rest.first() {
            Some(Atom::Shape(dims)) => Some(dims.clone()),
            _ => None,
        };
        let offset = match rest.get(2) {
            None => Some(Dim::Int(0)),
            Some(Atom::Dim(offset)) => Some(offset.clone()),
            Some(_) => None,
        };
        let foreign = home.storages.is_empty() || !home.params.is_empty();
        let (name, life) = (self.name(var), Life::begin(&self.place));
        let (storages, unwritten) = (home.storages, Outcome::Proved);
        self.sites.tensors.push(Tensor {
            var,
            name,
            storages,
            foreign,
            dims,
            dtype,
            offset,
            life,
            unwritten,
        });
        let tensors = BTreeSet::from([self.sites.tensors.len() - 1]);
        Points { tensors, ..Points::default() }
    }

    fn release_tensors(&mut self, atom: &Atom) -> Points {
        let points = self.named.atom(atom);
        let certain = points.tensors.len() == 1 && points.params.is_empty();
        for &tensor in &points.tensors {
            self.sites.tensors[tensor].life.note(&self.place, How::Released, certain);
        }
        if !points.params.is_empty() {
            self.open(Name::new("kill"), "what the function was given is released");
        }
        Points::default()
    }

    fn release_storage(&mut self, atom: &Atom) -> Points {
        let points = self.named.atom(atom);
        let certain = points.storages.len() == 1 && points.params.is_empty();
        for &storage in &points.storages {
            self.sites.storages[storage].life.note(&self.place, How::Released, certain);
        }
        for tensor in &mut self.sites.tensors {
            if tensor.storages.intersection(&points.storages).next().is_some() {
                let certain = certain && tensor.storages.len() == 1;
                tensor.life.note(&self.place, How::Freed, certain);
            }
        }
        if points.storages.is_empty() || !points.params.is_empty() {
            self.open(Name::new("kill"), "a storage of another function is released");
        }
        Points::default()
    }

    /// A tensor program runs on its arguments in place.
    fn launch(&mut self, program: &TensorProgram, args: &[Atom]) {
        self.given(args);
        let body = program.body.as_deref();
        let (reads, writes) = (body.map(loaded), body.map(stored));
        let (mut writing, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (param, arg) in program.params.iter().zip(args) {
            let Param::Buffer(buffer) = param else { continue };
            let points = self.named.atom(arg);
            let is_written = writes.as_ref().is_none_or(|writes| writes.contains(buffer));
            let own = (program.name.clone(), *buffer);
            let read = reads.as_ref().is_none_or(|reads| reads.contains(buffer))
                || is_written && updates(program, *buffer);
            if read && body.is_some() && !self.returns.initialized.contains(&own) {
                points.tensors.iter().for_each(|&tensor| self.reads(tensor));
            }
            if is_written {
                if writing.intersection(&points.tensors).next().is_some() {
                    self.open(program.name.clone(), "it is given a tensor twice, and writes to it");
                }
                writing.extend(&points.tensors);
            } else {
                others.extend(&points.tensors);
            }
        }
        if writing.intersection(&others).next().is_some() {
            self.open(program.name.clone(), "it writes to a tensor that it also reads");
        }
        self.written.extend(writing);
    }

    fn reads(&mut self, tensor: usize) {
        if !self.written.contains(&tensor) {
            let why = "a kernel reads it, and on some way there nothing has written it";
            self.sites.tensors[tensor].unwritten = Outcome::Unproved(why.to_owned());
        }
    }

    /// A function of the module may write to the tensors that it is given.
    fn function_call(&mut self, name: &Name, args: &[Atom]) -> Points {
        let given = self.given(args);
        self.written.extend(&given.tensors);
        self.returns.call(name, &self.named, args)
    }

    /// Arguments are used. What becomes of storages among them is not looked into.
    fn given(&mut self, args: &[Atom]) -> Points {
        let points = self.named.atoms(args);
        args.iter().for_each(|arg| self.uses(arg));
        if let Some(&storage) = points.storages.first() {
            let name = self.sites.storages[storage].name.clone();
            self.open(name, "a storage is given to a call");
            let storages = points.storages.clone();
            let how = Leaves::Elsewhere("it is given to a call");
            self.leave(&Points { storages, ..Points::default() }, how);
        }
        points
    }

    fn uses(&mut self, atom: &Atom) {
        let mut vars = BTreeSet::new();
        atom_uses(atom, &mut vars);
        for var in vars {
            let points = self.named.var(var);
            let certain = points.tensors.len() == 1 && points.params.is_empty();
            for tensor in points.tensors {
                self.sites.tensors[tensor].life.note(&self.place, How::Used, certain);
            }
        }
    }

    fn open(&mut self, place: Name, why: &'static str) {
        self.sites.open.push(Open { binding: self.place.binding, place, why });
    }

    fn name(&self, var: VarId) -> Name {
        self.function.var(var).name.clone()
    }
}

/// The arguments of a built-in of memory that has some by keyword, by position.
fn of_memory(callee: &Callee, args: &[Atom], attrs: &[(Name, Atom)]) -> Option<Vec<Atom>> {
    let Callee::Operator(name) = callee else { return None };
    let row = lookup(name).filter(|row| row.family == Family::Memory && !attrs.is_empty())?;
    by_position(row, args, attrs)
}

/// Whether a program combines what it writes to a buffer with what was there.
fn updates(program: &TensorProgram, buffer: BufferId) -> bool {
    let mut updates = false;
    visit_statements(program.body.as_deref().unwrap_or_default(), &mut |stmt| {
        if let StmtKind::Store { buffer: to, update: Some(_), .. } = &stmt.kind {
            updates |= *to == buffer;
        }
    });
    updates
}
