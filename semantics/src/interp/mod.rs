//! The reference interpreter of the graph level: what a program means.
//!
//! It runs any module that the checker accepts, in every phase. Checks at function boundaries, of
//! `match_cast` and of operators are part of the meaning: they are never skipped.

mod binding;
mod expr;
mod graphs;
mod held;
mod in_place;
mod machine;
mod observer;

pub use binding::{BoundDim, DimValues};
pub use expr::constant_tensor;
pub use observer::{Callee, Observer};

use crate::memory::Memory;
use crate::ops::Limits;
use crate::ranks::{Peers, Place};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::tir;
use crate::value::{Closure, Value};
use binding::{Binder, Binds, What};
use graphs::Graphs;
use held::{Held, Shares, last_uses};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Body, Expr, Function, Lambda, Module, VarId};
use relax_syntax::span::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a run may use, and what it is given beside its arguments.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Resource limits.
    pub limits: Limits,
    /// External constants (`param(...)`) by name.
    pub externals: Arc<BTreeMap<Name, Tensor>>,
    /// What to watch for in tensor programs.
    pub mode: tir::Mode,
    /// Who watches calls.
    pub observer: Option<Arc<dyn Observer>>,
    /// The other ranks, where there are any.
    pub rank: Option<Arc<dyn Peers<Tensor>>>,
}

/// A run of a module.
pub struct Interpreter<'m> {
    module: &'m Module,
    options: Options,
    steps: u64,
    depth: usize,
    /// Tensor programs that have run before, ready to run again.
    compiled: BTreeMap<Name, Arc<tir::Compiled>>,
    held: Held,
    memory: Memory,
    graphs: Graphs,
    /// The binding that runs: collectives of other ranks name it. Kept where there are ranks.
    place: Place,
    /// Lines that `print` showed.
    pub printed: Vec<String>,
}

/// The variables of one call.
struct Frame<'m> {
    function: &'m Function,
    values: Vec<Option<Value>>,
    dims: DimValues,
    shares: Shares,
}

/// Stack left below which a call continues on a fresh piece, and the size of a piece.
const RED_ZONE: usize = 256 * 1024;
const STACK_PIECE: usize = 4 * 1024 * 1024;

impl<'m> Interpreter<'m> {
    /// Prepares to run functions of `module`.
    #[must_use]
    pub fn new(module: &'m Module, options: Options) -> Self {
        Self {
            module,
            options,
            steps: 0,
            depth: 0,
            compiled: BTreeMap::new(),
            held: Held::default(),
            memory: Memory::default(),
            graphs: Graphs::default(),
            place: Place::default(),
            printed: Vec::new(),
        }
    }

    /// Calls a function of the module from outside: what it gives does not lie in a storage.
    ///
    /// # Errors
    /// A trap of the program, or a limit.
    pub fn call(&mut self, name: &str, mut args: Vec<Value>) -> Result<Value, Stop> {
        self.place_donated(name, &mut args)?;
        let result = self.call_function(name, args)?;
        self.read(name, result)
    }

    /// The value that a function gave, with the elements of every tensor in it.
    ///
    /// # Errors
    /// A trap when something of it was released or overwritten.
    pub fn read(&self, name: &str, value: Value) -> Result<Value, Stop> {
        self.memory.resolve(value).map_err(|stop| {
            let Stop::Trap(mut trap) = stop else { return stop };
            let function = self.module.function(name);
            trap.function = function.map(|function| function.name.clone());
            trap.span = function.map(|function| function.span).unwrap_or_default();
            Stop::Trap(trap)
        })
    }

    /// Whether graphs were recorded, so that another call may replay them.
    #[must_use]
    pub fn has_graphs(&self) -> bool {
        !self.graphs.is_empty()
    }

    /// Calls a function of the module; tensors in storages stay there.
    ///
    /// # Errors
    /// As [`Interpreter::call`].
    pub fn call_function(&mut self, name: &str, args: Vec<Value>) -> Result<Value, Stop> {
        let module = self.module;
        let function = module
            .function(name)
            .ok_or_else(|| Stop::Unsupported(format!("there is no graph function `{name}`")))?;
        let values = vec![None; function.vars.len()];
        let mut frame = Frame { function, values, dims: DimValues::new(), shares: Shares::new() };
        self.enter(&mut frame, &function.lambda, args, function.span)
    }

    /// Runs a lambda in a frame that holds what is around it.
    fn enter(
        &mut self,
        frame: &mut Frame<'m>,
        lambda: &Lambda,
        args: Vec<Value>,
        span: Span,
    ) -> Result<Value, Stop> {
        let limit = self.options.limits.call_depth;
        if self.depth >= limit {
            let detail = format!("more than {limit} calls within calls");
            return Err(Stop::Exhausted { resource: "call depth", detail });
        }
        self.depth += 1;
        let result = stacker::maybe_grow(RED_ZONE, STACK_PIECE, || {
            self.boundary(frame, lambda, args, span)?;
            let Some(body) = &lambda.body else {
                let name = &frame.function.name;
                let message = format!("`{name}` is external: its body is `...`");
                // Code of other routes has no dims for it.
                frame.dims = DimValues::new();
                return Err(place(Stop::trap("call/external", message), frame, span));
            };
            let result = self.body(frame, body)?;
            self.check_result(frame, lambda, &result, span)?;
            Ok(result)
        });
        self.depth -= 1;
        self.held.remove_all(&mut frame.shares);
        result
    }

    /// Binds parameters, and checks them against their annotations.
    fn boundary(
        &self,
        frame: &mut Frame<'m>,
        lambda: &Lambda,
        args: Vec<Value>,
        span: Span,
    ) -> Result<(), Stop> {
        if args.len() != lambda.params.len() {
            let (expected, found) = (lambda.params.len(), args.len());
            let name = &frame.function.name;
            let message = format!("`{name}` takes {expected} arguments, found {found}");
            return Err(place(Stop::trap("boundary/arguments", message), frame, span));
        }
        let function = frame.function;
        // What has no body does not run, so nothing depends on what it declares of dims.
        let declared = if lambda.body.is_some() { function.dims.as_slice() } else { &[] };
        let mut binder = Binder::new("boundary", declared, &mut frame.dims, Binds::Lone);
        let mut check = || {
            for (&param, arg) in lambda.params.iter().zip(&args) {
                let info = function.var(param);
                let what = What::Parameter(&info.name);
                binder.value(function.param_annotation(param), arg, what, info.span)?;
            }
            Ok(())
        };
        let checked = check().and_then(|()| binder.finish());
        checked.map_err(|stop| place(stop, frame, span))?;
        for (&param, arg) in lambda.params.iter().zip(args) {
            frame.values[param.0 as usize] = Some(arg);
        }
        Ok(())
    }

    fn check_result(
        &self,
        frame: &mut Frame<'m>,
        lambda: &Lambda,
        value: &Value,
        span: Span,
    ) -> Result<(), Stop> {
        lambda.result.as_ref().map_or(Ok(()), |annotation| {
            check_value("return", frame, annotation, value, What::Result, span)
        })
    }

    fn body(&mut self, frame: &mut Frame<'m>, body: &Body) -> Result<Value, Stop> {
        let limit = self.options.limits.total_bytes;
        for (binding, unused) in body.bindings().zip(last_uses(body, frame.values.len())) {
            self.step()?;
            let span = frame.function.var(binding.var).span;
            if self.options.rank.is_some() {
                self.place = Place { function: frame.function.name.clone(), span };
            }
            let value = self
                .expr(frame, binding.var, &binding.expr)
                .map_err(|stop| place(stop, frame, span))?;
            self.held.add(&mut frame.shares, binding.var, &binding.expr, &value);
            self.held.within(self.memory.live(), limit)?;
            self.bind(frame, binding.var, value, &binding.expr)?;
            for var in unused {
                frame.values[var.0 as usize] = None;
                self.held.remove(&mut frame.shares, var);
            }
        }
        self.atom(frame, &body.result)
    }

    /// Stores the value of a binding, compared with the annotation of its variable.
    fn bind(
        &self,
        frame: &mut Frame<'m>,
        var: VarId,
        value: Value,
        expr: &Expr,
    ) -> Result<(), Stop> {
        let info = frame.function.var(var);
        if let Some(annotation) = &info.annotation
            && !matches!(expr, Expr::Closure(_))
        {
            let what = What::Variable(&info.name);
            check_value("annotation", frame, annotation, &value, what, info.span)?;
        }
        frame.values[var.0 as usize] = Some(value);
        Ok(())
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps > self.options.limits.steps {
            let detail = format!("more than {} steps", self.options.limits.steps);
            return Err(Stop::Exhausted { resource: "steps", detail });
        }
        Ok(())
    }

    fn call_closure(&mut self, closure: &Closure, args: Vec<Value>) -> Result<Value, Stop> {
        let module = self.module;
        let function = module
            .function(&closure.function)
            .expect("invariant: a closure comes from a function of this module");
        let mut values = vec![None; function.vars.len()];
        for (var, value) in &closure.values {
            values[var.0 as usize] = Some(value.clone());
        }
        // A closure may call itself by its name.
        values[closure.var.0 as usize] = Some(Value::Closure(Arc::new(closure.clone())));
        let mut frame =
            Frame { function, values, dims: closure.dims.clone(), shares: Shares::new() };
        let span = function.var(closure.var).span;
        self.enter(&mut frame, &closure.lambda, args, span)
    }
}

/// Compares a value with an annotation, as far as its variables have values.
fn check_value(
    check: &'static str,
    frame: &mut Frame<'_>,
    annotation: &Annotation,
    value: &Value,
    what: What<'_>,
    span: Span,
) -> Result<(), Stop> {
    let declared = &frame.function.dims;
    let mut binder = Binder::new(check, declared, &mut frame.dims, Binds::Nothing);
    let checked = binder.value(annotation, value, what, span).and_then(|()| binder.finish());
    checked.map_err(|stop| place(stop, frame, span))
}

/// Fills in where a trap happened, and the symbolic variables there; a trap that has its place
/// already learns where it was called from.
fn place(stop: Stop, frame: &Frame<'_>, span: Span) -> Stop {
    let Stop::Trap(mut trap) = stop else { return stop };
    if trap.function.is_none() {
        trap.function = Some(frame.function.name.clone());
        if trap.span.is_synthetic() {
            trap.span = span;
        }
        if trap.places.is_empty() && !frame.dims.is_empty() {
            let dims = frame.dims.iter().map(|(name, bound)| {
                let by =
                    if bound.by.is_empty() { String::new() } else { format!(" ({})", bound.by) };
                format!("{name} = {}{by}", bound.value)
            });
            trap.notes.push(format!("here {}", dims.collect::<Vec<_>>().join(", ")));
        }
    } else if trap.function.as_ref() != Some(&frame.function.name)
        && trap.places.len() < MOST_PLACES
    {
        let already = trap.places.iter().any(|(known, _)| *known == span);
        if !already && span != frame.function.span {
            trap.places.push((span, format!("called from `{}`", frame.function.name)));
        }
    }
    Stop::Trap(trap)
}

/// Places beyond this many say little more, and a deep recursion has thousands.
const MOST_PLACES: usize = 6;

#[cfg(test)]
mod tests;
