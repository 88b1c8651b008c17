//! Library expansion: a call of a library function that the target does not have becomes the operators that define it.
//!
//! They are compiled and fused like any others. Their constraints have the traps that the function has. The declared
//! output stays a promise: a call whose result is not proved to have the declared dims is left to the reference library,
//! which compares them when the program runs. A declared dtype is a cast.

use super::map_functions;
use crate::blocks::with_bindings_before;
use crate::dims::assume_declared;
use crate::fallback::{Fallback, Reason};
use crate::names::{Defined, Names};
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::library::{Step, function as library_function};
use relax_semantics::ops::traps::calls::{deduced, operand};
use relax_semantics::ops::{Operator, lookup, passed};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Facts};
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Module, VarId, VarInfo};
use relax_syntax::span::Span;

/// Runs at the begin of the early build, before guards and legalization.
pub static PASS: Pass = Pass {
    name: "expand_libraries",
    doc: "Writes the operators that define a library function in the place of its call, where the target does not \
          have the library.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let defined = Defined::of(module);
    let (mut done, mut found, mut fallbacks) = (0, 0, Vec::new());
    let (checked, libraries) = (context.checked, context.settings.device.libraries());
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let facts = &mut *context.facts;
        facts.push();
        assume_declared(facts, &function.dims);
        let mut walk = Walk {
            types: checked.annotations[&function.name].clone(),
            vars: &mut rebuilt.vars,
            names: defined.seen_from(function),
            libraries,
            facts,
            done: 0,
            stays: Vec::new(),
        };
        walk.body(rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped"));
        walk.facts.pop();
        done += walk.done;
        found += walk.done + walk.stays.len();
        fallbacks.extend(walk.stays.into_iter().map(|(span, reason)| Fallback {
            function: function.name.clone(),
            span,
            operator: LIBRARY_CALL,
            reason,
        }));
        rebuilt
    });
    context.count_of("expanded", done, found, "library calls");
    context.fall_back(fallbacks);
    Ok(result)
}

const LIBRARY_CALL: &str = "call_dps_library";

struct Walk<'a> {
    /// Of each variable, those that are made here too.
    types: Vec<Annotation>,
    vars: &'a mut Vec<VarInfo>,
    names: Names,
    /// Those of the target.
    libraries: &'a [&'a str],
    facts: &'a mut dyn Facts,
    done: usize,
    stays: Vec<(Span, Reason)>,
}

impl Walk<'_> {
    fn body(&mut self, body: &mut Body) {
        with_bindings_before(body, &mut |binding, before| self.binding(binding, before));
    }

    fn binding(&mut self, binding: &mut Binding, before: &mut Vec<Binding>) {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            self.body(then);
            self.body(otherwise);
        }
        let Some(call) = LibraryCall::of(&binding.expr) else { return };
        if call.function.split_once('.').is_some_and(|(name, _)| self.libraries.contains(&name)) {
            return;
        }
        let (vars, types) = (self.vars.len(), self.types.len());
        match self.expanded(&call, binding.var) {
            Ok((steps, result)) => {
                before.extend(steps);
                binding.expr = result;
                self.done += 1;
            }
            Err(reason) => {
                self.vars.truncate(vars);
                self.types.truncate(types);
                self.stays.push((self.vars[binding.var.0 as usize].span, reason));
            }
        }
    }

    /// The calls that define the function, and the last one of them.
    fn expanded(&mut self, call: &LibraryCall, var: VarId) -> Result<(Vec<Binding>, Expr), Reason> {
        let function = library_function(&call.function)
            .ok_or_else(|| Reason::NoLibrary(call.function.clone()))?;
        let args = match call.args {
            Atom::Tuple(items) | Atom::List(items) => items.as_slice(),
            single @ Atom::Var(var) if self.types[var.0 as usize].as_tensor().is_some() => {
                std::slice::from_ref(single)
            }
            _ => return Err(Reason::Operand("args")),
        };
        let Atom::Annotation(declared) = call.out else { return Err(Reason::Result) };
        let Annotation::Tensor(declared) = &**declared else { return Err(Reason::Result) };
        self.evaluates(declared, args)?;
        let span = self.vars[var.0 as usize].span;
        let mut made = Made { args, results: Vec::new(), bindings: Vec::new(), span };
        for step in function.steps {
            self.step(step, &mut made)?;
        }
        let result = *made.results.last().expect("invariant: a function has a step");
        let Annotation::Tensor(found) = self.types[result.0 as usize].clone() else {
            return Err(Reason::Result);
        };
        self.has_extents(&found.extents, &declared.extents)?;
        if let Some(dtype) = declared.dtype.filter(|_| found.dtype != declared.dtype) {
            self.cast(result, dtype, &mut made)?;
        }
        let last = made.bindings.pop().expect("invariant: a function has a step");
        Ok((made.bindings, last.expr))
    }

    /// The declared dims are evaluated before the function is called.
    fn evaluates(&mut self, declared: &TensorType, args: &[Atom]) -> Result<(), Reason> {
        let shapes: Vec<Annotation> =
            args.iter().map(|arg| operand(arg, &self.types).annotation).collect();
        let shapes: Vec<&[Dim]> = shapes.iter().filter_map(|shape| shape.dims()).collect();
        let mut dims = declared.extents.dims().unwrap_or_default().iter();
        match dims.find(|dim| !always_evaluates(dim, &shapes)) {
            Some(dim) => Err(Reason::Overflow(dim.clone())),
            None => Ok(()),
        }
    }

    /// What is not proved to have the declared dims is compared with them when the program runs.
    fn has_extents(&mut self, found: &Extents, declared: &Extents) -> Result<(), Reason> {
        let left = |text: &str| Reason::Constraint(format!("{LIBRARY_CALL}/C2: {text}"));
        let Some(rank) = declared.rank() else { return Ok(()) };
        if found.rank() != Some(rank) {
            return Err(left(&format!("the result has rank {rank}")));
        }
        let Some(declared) = declared.dims() else { return Ok(()) };
        let found = found.dims().ok_or(Reason::Result)?;
        let mut pairs = found.iter().zip(declared);
        match pairs.find(|(a, b)| self.facts.equal(a, b) != Answer::Proved) {
            Some((a, b)) => Err(left(&format!("{a} == {b}"))),
            None => Ok(()),
        }
    }

    fn step(&mut self, step: &Step, made: &mut Made) -> Result<(), Reason> {
        let args = step.operands(made.args, |at, field| {
            let result = made.results[at];
            let Some(field) = field else { return Ok(Atom::Var(result)) };
            let Annotation::Tuple(fields) = &self.types[result.0 as usize] else {
                return Err(Reason::Result);
            };
            let found = fields.get(field).cloned().ok_or(Reason::Result)?;
            let expr = Expr::Get(Atom::Var(result), field);
            Ok(Atom::Var(self.bound("part", expr, found, made)))
        })?;
        let attrs = step.attrs.iter().map(|(key, value)| (Name::new(key), value.atom())).collect();
        let result = self.call(step.operator, args, attrs, made)?;
        made.results.push(result);
        Ok(())
    }

    fn cast(&mut self, result: VarId, dtype: DType, made: &mut Made) -> Result<VarId, Reason> {
        let args = vec![Atom::Var(result), Atom::Str(Name::new(dtype.name()))];
        self.call("astype", args, Vec::new(), made)
    }

    fn call(
        &mut self,
        operator: &'static str,
        args: Vec<Atom>,
        attrs: Vec<(Name, Atom)>,
        made: &mut Made,
    ) -> Result<VarId, Reason> {
        let row = lookup(operator).expect("invariant: a step is a call of an operator");
        let found = self.deduced(row, &args, &attrs).ok_or(Reason::Operand("args"))?;
        let expr = Expr::Call { callee: Callee::Operator(Name::new(operator)), args, attrs };
        Ok(self.bound(operator, expr, found, made))
    }

    /// The annotation of a call; none where it stops in every run.
    fn deduced(
        &mut self,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
    ) -> Option<Annotation> {
        deduced(row, (args, attrs), &self.types, self.facts).map(|(found, _)| found)
    }

    fn bound(&mut self, name: &str, expr: Expr, found: Annotation, made: &mut Made) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        let info = VarInfo { name: self.names.fresh(name), annotation: None, span: made.span };
        self.vars.push(info);
        self.types.push(found);
        made.bindings.push(Binding { var, expr });
        var
    }
}

/// What is made of a call so far.
struct Made<'a> {
    args: &'a [Atom],
    /// Of each step.
    results: Vec<VarId>,
    bindings: Vec<Binding>,
    span: Span,
}

/// A call of `call_dps_library`.
struct LibraryCall<'e> {
    function: Name,
    args: &'e Atom,
    out: &'e Atom,
}

impl<'e> LibraryCall<'e> {
    fn of(expr: &'e Expr) -> Option<Self> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = expr else { return None };
        let row = lookup(name).filter(|row| row.name == LIBRARY_CALL)?;
        let bound = passed(row, args, attrs).ok()?;
        let [Some(Atom::Str(function)), Some(args), Some(out)] = bound.as_slice() else {
            return None;
        };
        Some(Self { function: function.clone(), args, out })
    }
}
