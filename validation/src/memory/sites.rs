//! Where a function takes memory, places tensors, uses and releases them: a walk in the order of the text, which
//! is the order of every run, but that a run takes one branch of each `if`.

use super::names::{Named, Points, Returns};
use crate::obligation::Outcome;
use relax_semantics::ops::{Family, called_by_name, lookup};
use relax_semantics::tir::walk::{loaded, stored, visit_statements};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BufferId, Param, StmtKind};
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, TensorProgram, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::BTreeSet;

/// The branches around a place, outermost first: each the number of its `if`, and which branch.
pub(super) type Path = Vec<(usize, bool)>;

/// Whether no run comes by both places.
pub(super) fn exclude(a: &Path, b: &Path) -> bool {
    a.iter().any(|(of, side)| b.iter().any(|(other, way)| of == other && side != way))
}

/// When something is made, used and released.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) made: usize,
    pub(super) path: Path,
    /// The last position at which it is used.
    pub(super) last: usize,
    events: Vec<Event>,
}

#[derive(Clone, Debug)]
struct Event {
    path: Path,
    how: How,
    /// Whether it is certain to be of this one.
    certain: bool,
}

/// What happens to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It is used.
    Used,
    /// It is released by its name, which may happen once.
    Released,
    /// Its storage is released; it may have been released before.
    Freed,
}

impl Life {
    fn begin(made: usize, path: &Path) -> Self {
        Self { made, path: path.clone(), last: made, events: Vec::new() }
    }

    fn note(&mut self, at: usize, path: &Path, how: How, certain: bool) {
        if how == How::Used {
            self.last = self.last.max(at);
        }
        self.events.push(Event { path: path.clone(), how, certain });
    }

    /// Whether some run uses or releases it after it was released.
    pub(super) fn used_after_release(&self) -> Outcome {
        let mut outcome = Outcome::Proved;
        for (index, release) in self.events.iter().enumerate() {
            if release.how == How::Used {
                continue;
            }
            let later = self.events[index + 1..].iter().filter(|later| later.how != How::Freed);
            for later in later.filter(|later| !exclude(&release.path, &later.path)) {
                let always = later.path.starts_with(&release.path);
                if release.certain && later.certain && always {
                    let how = if later.how == How::Released { "released again" } else { "used" };
                    return Outcome::Refuted(format!("it is {how} after its release"));
                }
                outcome = Outcome::Unproved("it may be used after its release".to_owned());
            }
        }
        outcome
    }
}

/// `memory.alloc_tensor`
#[derive(Clone, Debug)]
pub(super) struct Tensor {
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
    pub(super) name: Name,
    pub(super) bytes: Option<Dim>,
    dtype: Option<DType>,
    pub(super) life: Life,
}

/// What a function does with memory.
#[derive(Debug, Default)]
pub(super) struct Sites {
    pub(super) tensors: Vec<Tensor>,
    pub(super) storages: Vec<Storage>,
    /// Places where something happens that is not looked into, and what.
    pub(super) open: Vec<(Name, String)>,
    /// The parameters that the result may name.
    pub(super) returned: BTreeSet<usize>,
}

impl Sites {
    pub(super) fn of(function: &Function, module: &Module, returns: &Returns<'_>) -> Self {
        let Some(body) = &function.lambda.body else { return Self::default() };
        let (sites, named) = (Self::default(), Named::default());
        let (path, written) = (Path::new(), BTreeSet::new());
        let mut walk =
            Walk { function, module, returns, sites, named, at: 0, ifs: 0, path, written };
        for (position, &param) in function.lambda.params.iter().enumerate() {
            let params = BTreeSet::from([position]);
            walk.named.bind(param, Points { params, ..Points::default() });
        }
        walk.body(body);
        walk.at += 1;
        walk.uses(&body.result);
        let result = walk.named.atom(&body.result);
        if !result.storages.is_empty() {
            walk.open(Name::new("return"), "a storage leaves the function");
        }
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
    at: usize,
    ifs: usize,
    path: Path,
    /// Tensors that a kernel has written on every way to this place.
    written: BTreeSet<usize>,
}

impl Walk<'_> {
    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            self.at += 1;
            let points = self.binding(binding);
            self.named.bind(binding.var, points);
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
                self.at += 1;
                points
            }
            Expr::Closure(_) => self.closure(binding),
        }
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
        self.path.push(way);
        self.body(body);
        self.at += 1;
        self.uses(&body.result);
        self.path.pop();
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
        let life = Life::begin(self.at, &self.path);
        self.sites.storages.push(Storage { name: self.name(var), bytes, dtype, life });
        let storages = BTreeSet::from([self.sites.storages.len() - 1]);
        Points { storages, ..Points::default() }
    }

    /// `memory.alloc_tensor(storage, shape(dims), dtype, offset)`
    fn place(&mut self, var: VarId, storage: &Atom, rest: &[Atom]) -> Points {
        let home = self.named.atom(storage);
        for &index in &home.storages {
            let certain = home.storages.len() == 1;
            self.sites.storages[index].life.note(self.at, &self.path, How::Used, certain);
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
        let (name, life) = (self.name(var), Life::begin(self.at, &self.path));
        let (storages, unwritten) = (home.storages, Outcome::Proved);
        self.sites.tensors.push(Tensor {
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
            self.sites.tensors[tensor].life.note(self.at, &self.path, How::Released, certain);
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
            self.sites.storages[storage].life.note(self.at, &self.path, How::Released, certain);
        }
        for tensor in &mut self.sites.tensors {
            if tensor.storages.intersection(&points.storages).next().is_some() {
                let certain = certain && tensor.storages.len() == 1;
                tensor.life.note(self.at, &self.path, How::Freed, certain);
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
                self.sites.tensors[tensor].life.note(self.at, &self.path, How::Used, certain);
            }
        }
    }

    fn open(&mut self, place: Name, why: &str) {
        self.sites.open.push((place, why.to_owned()));
    }

    fn name(&self, var: VarId) -> Name {
        self.function.var(var).name.clone()
    }
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
