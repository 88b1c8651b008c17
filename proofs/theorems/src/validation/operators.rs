//! Calls of operators and tensor programs, as entries.

use super::evaluate::{Ran, Side};
use super::heaps::without_heaps;
use super::programs::Plain;
use super::stops::{Guard, Stop, never};
use super::values::{Applied, Argument, Call, Def, Id, Value, cells_of};
use relax_semantics::ops::{
    Effect, Infer, Known, Literal, Operand, Operator, bind, computes_by_name, lookup, only_checks,
};
use relax_semantics::tir::Compiled;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::TensorProgram;
use std::sync::Arc;

impl Side<'_> {
    pub(super) fn operator(
        &mut self,
        name: &Name,
        args: Vec<Value>,
        attrs: Vec<(Name, Value)>,
    ) -> Ran<Value> {
        let row = lookup(name).ok_or_else(|| format!("there is no operator `{name}`"))?;
        // A call by name is that operator's call in all but the spelling.
        if computes_by_name(row)
            && let Some(Value::Known(Known::Str(called))) = args.first()
            && lookup(called).is_some_and(|row| !computes_by_name(row))
        {
            let called = called.clone();
            return self.operator(&called, args[1..].to_vec(), attrs);
        }
        if only_checks(row)
            && let Some(Value::Known(Known::Str(called))) = args.first()
            && let Some(called) = lookup(called)
        {
            return self.check(called, args[1..].to_vec());
        }
        let default = |literal: Literal| Value::Known(literal.known());
        let bound = bind(row, args, attrs, &default).map_err(|_| "a call with other arguments")?;
        if let Some(value) = self.heap_call(row, &bound)? {
            return Ok(value);
        }
        // Of operators only built-ins take a heap; others stop, whatever it holds.
        if row.effect == Effect::Impure || is_of_closures(row) {
            without_heaps(&bound)?;
        }
        match row.name {
            "call_tir" | "call_tir_inplace" => self.call_tir(row.name, &bound),
            ALLOC_STORAGE => {
                let key = format!("storage {}", self.fresh());
                Ok(self.opaque(key, Annotation::Object, None))
            }
            ALLOC_TENSOR => self.alloc(&bound),
            // A copy.
            "astype" if self.has_dtype(&bound) => Ok(self.settled(bound[0].clone())),
            "memory.view" => self.view(bound),
            "memory.kill_storage" | "memory.kill_tensor" | "memory.kill_object" => {
                Ok(Value::Tuple(Vec::new()))
            }
            MAKE_CLOSURE if bound.iter().any(|value| !cells_of(value).is_empty()) => {
                Err("memory in a closure".into())
            }
            _ => {
                let settled: Vec<Value> =
                    bound.iter().map(|value| self.settled(value.clone())).collect();
                if row.name == "call_dps_library"
                    && let Some(value) = self.library(&settled)?
                {
                    return Ok(value);
                }
                let value = self.plain(row, settled)?;
                if CALLING.contains(&row.name) {
                    self.hand_over(&bound, true)?;
                }
                Ok(value)
            }
        }
    }

    /// What an operator demands of its operands, and nothing else.
    fn check(&mut self, row: &'static Operator, args: Vec<Value>) -> Ran<Value> {
        let default = |literal: Literal| Value::Known(literal.known());
        let bound =
            bind(row, args, Vec::new(), &default).map_err(|_| "a check of other arguments")?;
        let operands = bound.iter().map(|it| self.operand(it)).collect();
        let operands = Operand::all_described(row, operands);
        let (facts, module) = (&mut *self.facts, Some(self.module));
        let obligations = Vec::new();
        let mut infer = Infer { row, operands: &operands, facts, obligations, module };
        // Deduction takes its obligations for granted; what is demanded is not yet.
        infer.facts.push();
        let found = (row.infer)(&mut infer);
        infer.facts.pop();
        let obligations = std::mem::take(&mut infer.obligations);
        if let Err(reject) = found {
            let by_dims = self.guards.iter().flatten().any(Guard::is_of_dims);
            if by_dims && operands.iter().all(is_seen) {
                // A rejected call is wrong for all dims that lead here.
                self.stop(Stop::Claim(never()));
                self.facts.assume(never());
                return Ok(Value::Tuple(Vec::new()));
            }
            self.stop(Stop::Opaque(format!("{}/{}", row.name, reject.constraint)));
        }
        obligations.into_iter().for_each(|obligation| self.demand(obligation.claim));
        Ok(Value::Tuple(Vec::new()))
    }

    /// Another name of the same elements: a reshape, as long as nothing writes to them afterwards.
    fn view(&mut self, bound: Vec<Value>) -> Ran<Value> {
        if let Some(Value::Cell(cell)) = bound.first() {
            self.viewed.insert(*cell);
        }
        let row = lookup("reshape").ok_or("there is no reshape")?;
        let of_memory = match bound.first() {
            Some(Value::Cell(_)) => true,
            Some(Value::Entry(id)) => self.views.contains(id),
            _ => false,
        };
        let bound = bound.into_iter().map(|value| self.settled(value));
        let value = self.plain(row, bound.collect())?;
        if let (Value::Entry(id), true) = (&value, of_memory) {
            self.views.insert(*id);
        }
        Ok(value)
    }

    fn fresh(&mut self) -> usize {
        self.fresh += 1;
        self.fresh
    }

    /// What deduction is told of a value.
    fn operand(&self, value: &Value) -> Operand {
        match value {
            Value::Entry(id) => Operand { annotation: self.annotation(*id).clone(), known: None },
            Value::Cell(cell) => self.operand(&Value::Entry(self.cells[*cell])),
            Value::Tuple(items) => {
                let parts: Vec<Operand> = items.iter().map(|item| self.operand(item)).collect();
                let known: Option<Vec<Known>> =
                    parts.iter().map(|part| part.known.clone()).collect();
                let annotation =
                    Annotation::Tuple(parts.into_iter().map(|part| part.annotation).collect());
                Operand { annotation, known: known.map(Known::List) }
            }
            Value::Shape(dims) => Operand {
                annotation: Annotation::Shape(Extents::Known(dims.clone())),
                known: Some(Known::List(dims.iter().cloned().map(Known::Dim).collect())),
            },
            Value::Known(known) => Operand::of_known(known.clone()),
            Value::Heap(_) => Operand { annotation: Annotation::Object, known: None },
            Value::Function(name) => Operand::of_known(Known::Global(name.clone())),
        }
    }

    /// What tells the arguments of a call from all others.
    fn texts(&mut self, row: &Operator, args: &[Value]) -> Vec<String> {
        if row.effect == Effect::Impure {
            self.meet_handed(args);
        }
        args.iter().map(|arg| self.key(arg)).collect()
    }

    /// Names the dims of operands of which only the rank is known, as a check of the other side does.
    fn name_dims(&mut self, args: &[Value]) -> Ran<()> {
        for arg in args {
            let Value::Entry(id) = arg else { continue };
            let own = self.annotation(*id).as_tensor();
            if own.is_none_or(|tensor| !matches!(tensor.extents, Extents::Rank(_))) {
                continue;
            }
            self.table.has_unnamed |= !self.table.names_dims;
            if self.table.names_dims {
                self.tensor_told(*id, None, None)?;
            }
        }
        Ok(())
    }

    /// A call of a row: deduction tells its result and what is left to check.
    fn plain(&mut self, row: &'static Operator, args: Vec<Value>) -> Ran<Value> {
        self.name_dims(&args)?;
        let texts = self.texts(row, &args);
        let mut key = format!("{} {}", row.name, texts.join(" "));
        if row.effect == Effect::Impure {
            self.effect(&key);
            key = format!("{key} at {}", self.effects.len());
        }
        let operands: Vec<Operand> = args.iter().map(|arg| self.operand(arg)).collect();
        let (facts, module) = (&mut *self.facts, Some(self.module));
        let mut infer = Infer { row, operands: &operands, facts, obligations: Vec::new(), module };
        // Deduction takes its obligations for granted; what is demanded is not yet.
        infer.facts.push();
        let found = (row.infer)(&mut infer);
        infer.facts.pop();
        let obligations = std::mem::take(&mut infer.obligations);
        let annotation = match found {
            Ok(annotation) => annotation,
            Err(reject) => {
                let why = format!("{}/{}", row.name, reject.constraint);
                return Ok(self.rejected(key, &operands, &why));
            }
        };
        obligations.into_iter().for_each(|obligation| self.demand(obligation.claim));
        if let Annotation::Shape(Extents::Known(dims)) = &annotation {
            return Ok(Value::Shape(dims.clone()));
        }
        let known = known_results(&annotation);
        // What deduction does not see is decided when the program runs.
        let sees = operands.iter().all(is_seen);
        let call = known
            .clone()
            .and_then(|results| Some(Arc::new(Applied { row, args: arguments(&args)?, results })));
        let is_trap_free = sees && row.never_traps(&operands, &annotation);
        // What deduction made of a check in a branch does not hold in another one.
        let branch = if self.learnt { self.branch.join(": ") } else { String::new() };
        let entry = |own: &mut Self, at: usize, annotation: Annotation| {
            let def = call.clone().map_or(Def::Opaque, |call| Def::Operator(call, at));
            let plain = format!("{key}#{at}");
            let here = format!("{plain}{branch}");
            let is_plain = own.table.known(&here).is_none() && own.table.known(&plain).is_some();
            let key = if is_plain { plain } else { here };
            own.table.called(key, usize::from(own.cut.is_some()), || (annotation, def))
        };
        let value = match annotation {
            Annotation::Tuple(fields) if call.is_some() => {
                let items: Vec<Id> = fields
                    .into_iter()
                    .enumerate()
                    .map(|(at, field)| entry(self, at, field))
                    .collect();
                Value::Tuple(items.into_iter().map(Value::Entry).collect())
            }
            Annotation::Tuple(_) => self.results_of(&format!("{key}{branch}"), &annotation),
            other => Value::Entry(entry(self, 0, other)),
        };
        if !is_trap_free {
            self.stop(match call {
                Some(call) => Stop::Operator(key, call),
                None => Stop::Opaque(key),
            });
        }
        Ok(value)
    }

    /// What a call gives that deduction rejects: it may stop the program. In a branch of dims it does, if deduction takes these
    /// operands elsewhere.
    fn rejected(&mut self, key: String, operands: &[Operand], why: &str) -> Value {
        let elsewhere = self.table.known(&format!("{key}#0")).is_some();
        let by_dims = self.guards.iter().flatten().any(Guard::is_of_dims);
        if elsewhere && by_dims && operands.iter().all(is_seen) {
            self.stop(Stop::Claim(never()));
            self.facts.assume(never());
            return self.opaque(key, Annotation::Object, None);
        }
        let stop = format!("{why} {key}");
        self.opaque(key, Annotation::Object, Some(stop))
    }

    fn alloc(&mut self, bound: &[Value]) -> Ran<Value> {
        let dims = match &bound[1] {
            Value::Shape(dims) => dims.clone(),
            _ => return Err("a tensor in memory of an unknown shape".into()),
        };
        let dtype = match &bound[2] {
            Value::Known(Known::Str(text)) => DType::parse(text),
            _ => None,
        };
        let annotation = Annotation::tensor(dims, dtype.ok_or("a tensor of an unknown dtype")?);
        let key = format!("memory {}", self.fresh());
        let id = self.table.entry(key, || (annotation, Def::Unwritten));
        self.cells.push(id);
        Ok(Value::Cell(self.cells.len() - 1))
    }

    /// Runs a program; gives what each buffer that it writes holds then.
    pub(super) fn program(
        &mut self,
        program: &TensorProgram,
        buffers: Vec<Option<Id>>,
        fresh: &[Annotation],
        scalars: &[Dim],
    ) -> Ran<Vec<Option<Id>>> {
        let mut fresh = fresh.iter();
        let (mut shapes, mut annotations) = (Vec::new(), Vec::new());
        for buffer in &buffers {
            let annotation = match buffer {
                Some(id) => self.annotation(*id).clone(),
                None => {
                    let annotation = fresh.next().ok_or("an output without an annotation")?;
                    self.needs_extents(annotation.dims().unwrap_or_default());
                    annotation.clone()
                }
            };
            let dims = annotation.dims();
            shapes.push(dims.map(<[Dim]>::to_vec));
            annotations.push(annotation);
        }
        let known: Option<Vec<Vec<Dim>>> = shapes.into_iter().collect();
        let Some(shapes) = known else {
            return self.unseen_program(program, &buffers, annotations, scalars);
        };
        for dims in &shapes {
            for dim in dims {
                self.facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
            }
        }
        let given: Vec<bool> = buffers.iter().map(Option::is_some).collect();
        let buffers: Vec<Option<Id>> = buffers.iter().map(|id| self.written(*id)).collect();
        let plain = Plain::of(program);
        let call = plain.call(program, &buffers, &shapes, scalars);
        let call = call.ok_or("a call of a tensor program that does not fit")?;
        let key = format!("program {}: {call}", self.table.program(plain.program.clone()));
        if !fits(program, &annotations) {
            return Err("a call of a tensor program that does not fit".into());
        }
        let call = Arc::new(Call {
            program: program.clone(),
            buffers: buffers.clone(),
            shapes,
            scalars: scalars.to_vec(),
        });
        let writes = Compiled::new(program).map_err(|_| "an ill-formed program")?.writes();
        let mut results = Vec::new();
        let number = |at| plain.number(program, at).unwrap_or(usize::MAX);
        for (at, annotation) in annotations.into_iter().enumerate() {
            let written = writes[at] || !given[at];
            results.push(if written {
                let def = Def::Program(call.clone(), at);
                Some(self.table.entry(format!("{key}#{}", number(at)), || (annotation, def)))
            } else {
                None
            });
        }
        self.stop(Stop::Program(key, call));
        Ok(results)
    }

    /// What a buffer holds, where something was written: other memory is as good as none.
    fn written(&self, id: Option<Id>) -> Option<Id> {
        id.map(|id| self.table.find(id))
            .filter(|id| !matches!(self.table.get(*id).def, Def::Unwritten))
    }

    /// A program of which the dims of some buffer are known to the run alone: nothing is known of what it gives.
    fn unseen_program(
        &mut self,
        program: &TensorProgram,
        buffers: &[Option<Id>],
        annotations: Vec<Annotation>,
        scalars: &[Dim],
    ) -> Ran<Vec<Option<Id>>> {
        let plain = Plain::of(program);
        let order: Vec<Option<usize>> =
            (0..buffers.len()).map(|at| plain.number(program, at)).collect();
        let number = self.table.program(plain.program);
        let held = buffers.iter().zip(&annotations).map(|(id, annotation)| {
            self.written(*id).map_or_else(|| annotation.to_string(), |id| format!("v{id}"))
        });
        let held: Vec<String> = held.collect();
        let key = format!("program {number} {order:?} {held:?} {scalars:?}");
        let writes = Compiled::new(program).map_err(|_| "an ill-formed program")?.writes();
        if writes.len() < buffers.len() {
            return Err("a call of a tensor program that does not fit".into());
        }
        let mut results = Vec::new();
        for (at, annotation) in annotations.into_iter().enumerate() {
            let written = writes[at] || buffers[at].is_none();
            let entry = || (annotation, Def::Unseen);
            results.push(written.then(|| self.table.entry(format!("{key}#{at}"), entry)));
        }
        self.stop(Stop::Opaque(key));
        Ok(results)
    }
}

/// Rows that take memory, and the one that makes a closure.
pub(super) const ALLOC_STORAGE: &str = "memory.alloc_storage";
pub(super) const ALLOC_TENSOR: &str = "memory.alloc_tensor";
const MAKE_CLOSURE: &str = "make_closure";
/// Rows that call a function of the module.
const CALLING: [&str; 3] =
    ["invoke_closure", "invoke_pure_closure", "builtin.cuda_graph_run_or_capture"];

/// Whether a row makes or calls a function that holds or gets memory.
pub(super) fn is_of_closures(row: &Operator) -> bool {
    row.name == MAKE_CLOSURE || CALLING.contains(&row.name)
}

/// Whether the tensors of a call have the dtypes of the buffers.
fn fits(program: &TensorProgram, annotations: &[Annotation]) -> bool {
    let dtypes = program.buffer_params().map(|id| program.buffer(id).dtype);
    let dtypes: Vec<DType> = dtypes.collect();
    let alike = |(annotation, dtype): (&Annotation, &DType)| {
        annotation.as_tensor().is_some_and(|tensor| tensor.dtype == Some(*dtype))
    };
    dtypes.len() == annotations.len() && annotations.iter().zip(&dtypes).all(alike)
}

pub(super) fn dims_of(value: &Value) -> Ran<Vec<Dim>> {
    match value {
        Value::Shape(dims) => Ok(dims.clone()),
        Value::Known(Known::None) => Ok(Vec::new()),
        Value::Tuple(items) => {
            let each = items.iter().map(|item| match item {
                Value::Known(Known::Dim(dim)) => Ok(dim.clone()),
                _ => Err("scalars of a tensor program".to_owned()),
            });
            each.collect()
        }
        _ => Err("scalars of a tensor program".into()),
    }
}

fn is_seen(operand: &Operand) -> bool {
    fn known(annotation: &Annotation) -> bool {
        match annotation {
            Annotation::Tensor(_) | Annotation::DTensor(_) => {
                let tensor = annotation.as_tensor().expect("invariant: it is of a tensor");
                tensor.dtype.is_some() && tensor.extents.dims().is_some()
            }
            Annotation::Tuple(items) => items.iter().all(known),
            Annotation::Shape(extents) => matches!(extents, Extents::Known(_)),
            Annotation::Prim(_) => true,
            _ => false,
        }
    }
    operand.known.is_some() || known(&operand.annotation)
}

/// The dims and dtype of each result.
fn known_results(annotation: &Annotation) -> Option<Vec<(Vec<Dim>, DType)>> {
    match annotation {
        Annotation::Tensor(_) | Annotation::DTensor(_) => {
            let tensor = annotation.as_tensor()?;
            Some(vec![(tensor.extents.dims()?.to_vec(), tensor.dtype?)])
        }
        Annotation::Tuple(fields) => {
            let each = fields.iter().map(|field| {
                let tensor = field.as_tensor()?;
                Some((tensor.extents.dims()?.to_vec(), tensor.dtype?))
            });
            each.collect()
        }
        _ => None,
    }
}

fn arguments(args: &[Value]) -> Option<Vec<Argument>> {
    let each = args.iter().map(|arg| match arg {
        Value::Entry(id) => Some(Argument::Tensor(*id)),
        Value::Tuple(items) => {
            let ids: Option<Vec<Id>> = items
                .iter()
                .map(|item| if let Value::Entry(id) = item { Some(*id) } else { None })
                .collect();
            match ids {
                Some(ids) if !ids.is_empty() => Some(Argument::Tensors(ids)),
                _ => known(arg).map(Argument::Known),
            }
        }
        _ => known(arg).map(Argument::Known),
    });
    each.collect()
}

/// A value that the text spells.
fn known(value: &Value) -> Option<Known> {
    match value {
        Value::Known(known) => Some(known.clone()),
        Value::Shape(dims) => Some(Known::List(dims.iter().cloned().map(Known::Dim).collect())),
        Value::Tuple(items) => items.iter().map(known).collect::<Option<_>>().map(Known::List),
        _ => None,
    }
}
