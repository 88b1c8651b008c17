//! A function run on names: every binding becomes an entry of the table, and what may stop the program is noted.

use super::heaps::{Heaps, without_heaps};
use super::stops::{Guard, Stop};
use super::trace::Trace;
use super::values::{Def, Id, Table, Value, cells_of};
use super::writes::{holds_a_value, is_held};
use crate::denotation::fuel;
use crate::denotation::theorem::said;
use relax_semantics::check::Phase;
use relax_semantics::ops::Known;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Body, Callee, Constant, DimVar, Expr, Function, Module, VarId, attr,
};
use relax_syntax::resolve::visit_expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// Why a function could not be run.
pub(super) type Ran<T> = Result<T, String>;

/// What one module's side of the comparison knows.
pub(super) struct Side<'a> {
    pub(super) module: &'a Module,
    /// The other module: what both have and nobody may look into is called alike.
    pub(super) other: &'a Module,
    pub(super) table: &'a mut Table,
    pub(super) facts: &'a mut dyn Facts,
    pub(super) stops: Vec<Stop>,
    /// Calls with an effect, in order.
    pub(super) effects: Vec<String>,
    /// What each memory holds.
    pub(super) cells: Vec<Id>,
    /// What heaps of dims hold.
    pub(super) heaps: Heaps,
    /// Entries of which a check of this module told the dims.
    pub(super) refined: BTreeSet<Id>,
    /// Whether a branch has checked something, which holds in it alone.
    pub(super) learnt: bool,
    /// Private functions that call themselves: such a call counts by name, so they are compared for themselves.
    pub(super) recursive: BTreeSet<Name>,
    /// Memory that has another name.
    pub(super) viewed: BTreeSet<usize>,
    /// Other names of memory.
    pub(super) views: BTreeSet<Id>,
    /// Whether functions may write to what they are given, as far as that was asked.
    pub(super) writing: BTreeMap<Name, bool>,
    /// Functions that are being run.
    pub(super) stack: Vec<Name>,
    /// The branches around.
    pub(super) branch: Vec<String>,
    /// What decides each of them, where claims on dims do.
    pub(super) guards: Vec<Option<Guard>>,
    /// Results of calls of functions.
    called: BTreeMap<String, Value>,
    /// What is remembered of this side.
    pub(super) trace: Trace,
    /// What is remembered of the other side, with whose values those of this side are compared.
    pub(super) cut: Option<&'a Trace>,
    pub(super) fresh: usize,
}

/// The variables of one run of a function.
pub(super) struct Scope<'f> {
    pub(super) function: &'f Function,
    pub(super) vars: BTreeMap<VarId, Value>,
    /// Variables that hold a value of their own, in no storage.
    values: BTreeSet<VarId>,
    /// Donated parameters that nothing has mentioned yet: they have no other name, so that a write to one is seen by its own alone.
    given: BTreeSet<VarId>,
    pub(super) dims: BTreeMap<Name, Dim>,
    pub(super) declared: BTreeMap<Name, &'f DimVar>,
}

/// Steps that a binding counts as.
const BINDING: usize = 10;
/// Variables in one dim.
const MAX_DIM: usize = 256;
/// Entries that one comparison may make.
const MAX_ENTRIES: usize = 50_000;

impl<'a> Side<'a> {
    pub(super) fn new(
        module: &'a Module,
        other: &'a Module,
        table: &'a mut Table,
        facts: &'a mut dyn Facts,
        cut: Option<&'a Trace>,
        fresh: usize,
    ) -> Self {
        Self {
            module,
            other,
            table,
            facts,
            stops: Vec::new(),
            effects: Vec::new(),
            cells: Vec::new(),
            heaps: Heaps::default(),
            refined: BTreeSet::new(),
            learnt: false,
            recursive: BTreeSet::new(),
            viewed: BTreeSet::new(),
            views: BTreeSet::new(),
            writing: BTreeMap::new(),
            stack: Vec::new(),
            branch: Vec::new(),
            guards: Vec::new(),
            called: BTreeMap::new(),
            trace: Trace::default(),
            cut,
            fresh,
        }
    }

    /// Runs a function of the module on its own parameters.
    pub(super) fn run(&mut self, function: &Function) -> Ran<Value> {
        let mut scope = Scope::of(function);
        for dim in function.dims.iter().filter(|dim| dim.in_signature) {
            scope.dims.insert(dim.name.clone(), Dim::Var(dim.name.clone()));
            let var = Dim::Var(dim.name.clone());
            declared(dim, &var).into_iter().for_each(|claim| self.facts.assume(claim));
        }
        let is_explicit = Phase::of_module(self.module).is_ok_and(|phase| phase >= Phase::P21);
        let donated: BTreeSet<VarId> = function.donated().filter(|_| is_explicit).collect();
        if !is_explicit && !is_held(self.module, &function.name) {
            scope.given = function.donated().collect();
        }
        for (at, &param) in function.lambda.params.iter().enumerate() {
            let annotation = function.param_annotation(param).clone();
            let mut value = self.parameter(&format!("parameter {at}"), &annotation);
            if donated.contains(&param) {
                value = self.donated(value);
            }
            scope.vars.insert(param, value);
        }
        self.function(&mut scope)
    }

    fn parameter(&mut self, key: &str, annotation: &Annotation) -> Value {
        match annotation {
            Annotation::Tuple(fields) => {
                let fields = fields.iter().enumerate();
                Value::Tuple(
                    fields
                        .map(|(at, field)| self.parameter(&format!("{key}.{at}"), field))
                        .collect(),
                )
            }
            Annotation::Shape(Extents::Known(dims)) => {
                self.extents(dims);
                Value::Shape(dims.clone())
            }
            _ => {
                if let Annotation::Tensor(TensorType { extents: Extents::Known(dims), .. }) =
                    annotation
                {
                    self.extents(dims);
                }
                let annotation = annotation.clone();
                Value::Entry(self.table.entry(key.to_owned(), || (annotation, Def::Opaque)))
            }
        }
    }

    pub(super) fn extents(&mut self, dims: &[Dim]) {
        for dim in dims {
            self.facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
        }
    }

    pub(super) fn function(&mut self, scope: &mut Scope) -> Ran<Value> {
        let function = scope.function;
        let Some(body) = &function.lambda.body else { return Err("an external function".into()) };
        if self.stack.len() > 40 {
            return Err("calls nest too deep".into());
        }
        self.stack.push(function.name.clone());
        let result = self.body(scope, body);
        self.stack.pop();
        let result = result?;
        if let Some(annotation) = &function.lambda.result {
            self.fits(scope, &result, annotation)?;
        }
        Ok(result)
    }

    pub(super) fn body(&mut self, scope: &mut Scope, body: &Body) -> Ran<Value> {
        for binding in body.bindings() {
            self.binding(scope, binding)?;
        }
        self.atom(scope, &body.result)
    }

    fn binding(&mut self, scope: &mut Scope, binding: &Binding) -> Ran<()> {
        if self.table.entries.len() > MAX_ENTRIES {
            return Err("the function is too large".into());
        }
        fuel::spend(BINDING + self.stops.len() / 4).map_err(said)?;
        let value = self.expr(scope, &binding.expr)?;
        if let Some(annotation) = &scope.function.var(binding.var).annotation {
            self.annotated(scope, &value, annotation);
        }
        let weight = self.weight(&value)?;
        fuel::spend(weight).map_err(said)?;
        if self.stack.len() == 1 && self.may_meet() {
            let name = &scope.function.var(binding.var).name;
            if let Some(known) = self.cut.and_then(|cut| cut.bound.get(name)) {
                self.meet(known, &value);
            }
            self.trace.bound.insert(name.clone(), value.clone());
        }
        if holds_a_value(&binding.expr, &scope.values) {
            scope.values.insert(binding.var);
        }
        visit_expr_uses(&binding.expr, &mut |used| _ = scope.given.remove(&used));
        scope.vars.insert(binding.var, value);
        Ok(())
    }

    /// How much a value is: tuples of tuples and dims of dims double with each binding.
    fn weight(&self, value: &Value) -> Ran<usize> {
        let mut most = 0;
        let mut count = |dim: &Dim| {
            let mut vars = 0;
            dim.visit_vars(&mut |_| vars += 1);
            most = most.max(vars);
        };
        let weight = match value {
            Value::Tuple(items) => {
                let each = items.iter().map(|item| self.weight(item));
                1 + each.sum::<Ran<usize>>()?
            }
            Value::Entry(id) => {
                self.table.get(*id).annotation.visit_dims(&mut count);
                1
            }
            Value::Shape(dims) => {
                dims.iter().for_each(&mut count);
                dims.len()
            }
            _ => 1,
        };
        if most > MAX_DIM { Err("dims become too large".into()) } else { Ok(weight + most) }
    }

    fn expr(&mut self, scope: &mut Scope, expr: &Expr) -> Ran<Value> {
        match expr {
            Expr::Atom(atom) => self.atom(scope, atom),
            Expr::Get(atom, at) => match self.atom(scope, atom)? {
                Value::Tuple(mut items) if *at < items.len() => Ok(items.swap_remove(*at)),
                whole => Ok(self.part(&whole, *at)),
            },
            Expr::MatchCast(atom, annotation) => {
                let value = self.atom(scope, atom)?;
                self.fits(scope, &value, annotation)?;
                Ok(value)
            }
            Expr::If { condition, then, otherwise } => {
                let condition = self.atom(scope, condition)?;
                self.choice(scope, &condition, then, otherwise)
            }
            Expr::Closure(_) => Err("a closure".into()),
            Expr::Call { callee, args, attrs } => {
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    values.push(self.argument(scope, arg)?);
                }
                match callee {
                    Callee::Operator(name) => {
                        let attrs = attrs
                            .iter()
                            .map(|(key, atom)| Ok((key.clone(), self.argument(scope, atom)?)));
                        let attrs = attrs.collect::<Ran<Vec<_>>>()?;
                        self.operator(name, values, attrs)
                    }
                    Callee::Global(name) => match self.module.tensor_program(name) {
                        Some(program) => {
                            let before = self.cells.clone();
                            let written = self.in_place(program, &values)?;
                            self.rebind(scope, args, written)?;
                            self.note_written(scope, args, &before);
                            Ok(Value::Tuple(Vec::new()))
                        }
                        None => self.global(name, &values),
                    },
                    Callee::Var(var) => {
                        let callee = scope.vars.get(var).cloned().ok_or("a function")?;
                        self.unseen_call(&callee, values)
                    }
                }
            }
        }
    }

    /// Variables that hold a value in no storage hold what was written from then on, and no others do.
    fn rebind(&mut self, scope: &mut Scope, args: &[Atom], written: Vec<(usize, Id)>) -> Ran<()> {
        for (at, id) in written {
            match &args[at] {
                Atom::Var(var)
                    if (scope.values.contains(var) || scope.given.contains(var))
                        && self.branch.is_empty()
                        && args.iter().filter(|arg| **arg == args[at]).count() == 1 =>
                {
                    scope.vars.insert(*var, Value::Entry(id));
                }
                _ => return Err("a program that writes to what is no memory".into()),
            }
        }
        Ok(())
    }

    /// A value of which nothing is known but how it came to be; it may stop the program.
    pub(super) fn opaque(
        &mut self,
        key: String,
        annotation: Annotation,
        stops: Option<String>,
    ) -> Value {
        if let Some(stop) = stops {
            self.stop(Stop::Opaque(stop));
        }
        Value::Entry(self.table.entry(key, || (annotation, Def::Opaque)))
    }

    pub(super) fn stop(&mut self, stop: Stop) {
        let stop = self.guarded(stop);
        if !self.stops.contains(&stop) {
            self.stops.push(stop);
        }
    }

    pub(super) fn effect(&mut self, key: &str) {
        let place = self.branch.join(": ");
        self.effects.push(format!("{place} {key}"));
    }

    /// What memory holds now, in the place of the memory.
    pub(super) fn settled(&self, value: Value) -> Value {
        match value {
            Value::Cell(cell) => Value::Entry(self.cells[cell]),
            Value::Tuple(items) => {
                Value::Tuple(items.into_iter().map(|item| self.settled(item)).collect())
            }
            other => other,
        }
    }

    fn argument(&mut self, scope: &Scope, atom: &Atom) -> Ran<Value> {
        self.atom(scope, atom)
    }

    fn atom(&mut self, scope: &Scope, atom: &Atom) -> Ran<Value> {
        let each = |own: &mut Self, items: &[Atom]| -> Ran<Value> {
            let items = items.iter().map(|item| own.atom(scope, item));
            Ok(Value::Tuple(items.collect::<Ran<_>>()?))
        };
        Ok(match atom {
            Atom::Var(var) => scope.vars.get(var).cloned().ok_or("a variable without a value")?,
            Atom::Global(name) => Value::Function(name.clone()),
            Atom::Dim(dim) => {
                let dim = scope.dim(dim);
                self.needs_value(&dim);
                Value::Known(Known::Dim(dim))
            }
            Atom::Float(value) => Value::Known(Known::Float(*value)),
            Atom::Bool(value) => Value::Known(Known::Bool(*value)),
            Atom::Str(text) => Value::Known(Known::Str(text.clone())),
            Atom::None => Value::Known(Known::None),
            Atom::Constant(constant) => self.constant(constant),
            Atom::External(external) => {
                let annotation = external.annotation.clone();
                let key = format!("external {external:?}");
                Value::Entry(self.table.entry(key, || (annotation, Def::Opaque)))
            }
            Atom::Tuple(items) | Atom::List(items) => each(self, items)?,
            Atom::Shape(dims) => {
                let dims: Vec<Dim> = dims.iter().map(|dim| scope.dim(dim)).collect();
                self.needs_extents(&dims);
                Value::Shape(dims)
            }
            Atom::Annotation(annotation) => {
                let annotation = annotation.map_dims(&mut |dim| scope.dim(dim));
                let mut dims = Vec::new();
                annotation.visit_dims(&mut |dim| dims.push(dim.clone()));
                dims.iter().for_each(|dim| self.needs_value(dim));
                Value::Known(Known::Annotation(annotation.into()))
            }
        })
    }

    fn constant(&mut self, constant: &std::sync::Arc<Constant>) -> Value {
        let dims = constant.shape.iter().map(|&n| Dim::Int(i64::try_from(n).unwrap_or(i64::MAX)));
        let annotation = Annotation::tensor(dims.collect(), constant.dtype);
        let def = Def::Constant(constant.clone());
        Value::Entry(self.table.entry(super::constants::key(constant), || (annotation, def)))
    }

    /// A call of a function of the module: its result, where it may be looked into.
    fn global(&mut self, name: &Name, args: &[Value]) -> Ran<Value> {
        let Some(function) = self.module.function(name) else {
            return Err(format!("there is no `{name}`"));
        };
        let key = format!("call {name} {}", self.key(&Value::Tuple(args.to_vec())));
        let hidden = attr(&function.lambda.attrs, "private") == Some(&AttrValue::Bool(true))
            || self.other.function(name).is_none()
            || attr(&function.lambda.attrs, "primitive").is_some();
        let has_body = function.lambda.body.is_some();
        let recursive = self.stack.contains(name);
        if !hidden || !has_body || recursive {
            if recursive && hidden {
                self.recursive.insert(name.clone());
            }
            without_heaps(args)?;
            self.meet_handed(args);
            let key = format!("call {name} {}", self.key(&Value::Tuple(args.to_vec())));
            self.effect(&key);
            let writes = self.writes_arguments(name);
            self.hand_over(args, writes)?;
            let annotation = self.result_of(function, args);
            let key = format!("{key} {}", self.effects.len());
            return Ok(self.results_of(&key, &annotation));
        }
        if let Some(known) = self.called.get(&key) {
            return Ok(known.clone());
        }
        let mut scope = Scope::of(function);
        if function.lambda.params.len() != args.len() {
            return Err("a call with other arguments".into());
        }
        let before = self.effects.len();
        for (&param, value) in function.lambda.params.iter().zip(args) {
            self.fits(&mut scope, value, function.param_annotation(param))?;
            scope.vars.insert(param, value.clone());
        }
        let result = self.function(&mut scope)?;
        let own_memory = |value: &Value| !cells_of(value).is_empty();
        let is_pure = self.effects.len() == before && !args.iter().any(own_memory);
        if is_pure && self.branch.is_empty() && !own_memory(&result) {
            self.called.insert(key, result.clone());
        }
        Ok(result)
    }

    /// Entries for each tensor of an annotation.
    pub(super) fn results_of(&mut self, key: &str, annotation: &Annotation) -> Value {
        match annotation {
            Annotation::Tuple(fields) => Value::Tuple(
                fields
                    .iter()
                    .enumerate()
                    .map(|(at, field)| self.results_of(&format!("{key}#{at}"), field))
                    .collect(),
            ),
            Annotation::Shape(Extents::Known(dims)) => Value::Shape(dims.clone()),
            other => self.opaque(key.to_owned(), other.clone(), None),
        }
    }
}

impl<'f> Scope<'f> {
    pub(super) fn of(function: &'f Function) -> Self {
        let declared = function.dims.iter().map(|dim| (dim.name.clone(), dim)).collect();
        let (vars, dims) = (BTreeMap::new(), BTreeMap::new());
        let (values, given) = (BTreeSet::new(), BTreeSet::new());
        Self { function, vars, values, given, dims, declared }
    }

    pub(super) fn dim(&self, dim: &Dim) -> Dim {
        dim.substitute(&self.dims)
    }
}

/// What is declared of a variable, of what it stands for.
pub(super) fn declared(dim: &DimVar, value: &Dim) -> Vec<Claim> {
    let mut claims = vec![Claim::new(dim.lower.unwrap_or(0), Relation::AtMost, value.clone())];
    claims.extend(dim.upper.map(|upper| Claim::new(value.clone(), Relation::AtMost, upper)));
    claims.extend(dim.multiple_of.map(|of| Claim::new(of, Relation::Divides, value.clone())));
    claims
}
