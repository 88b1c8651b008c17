//! Calls of operators become calls of tensor programs, made for what is known of their operands.
//!
//! Where a constraint is left to run time, `builtin.check_operator` stands before the call, with the operator's trap. A call
//! stays where an operand may have uninitialized elements, and where dims, dtypes or axes are not known: see [`Reason`].

mod checks;
mod counted;
mod operand_shapes;
mod operands;
mod programs;
mod remaining;
mod results;
mod spelling;

use super::map_functions;
use super::normalize::broadcasts;
use crate::blocks::with_bindings_before;
use crate::constraint_check::{Left, assume_checked, check_binding, constraint_check, left_claims};
use crate::dims::assume_declared;
use crate::fallback::{Fallback, Reason};
use crate::known::{Given, known_atom};
use crate::maybe_uninit::maybe_unwritten;
use crate::names::{Defined, Names};
use crate::pass::{Exactness, Pass, PassContext};
use crate::reached::Reached;
use checks::Equalities;
pub(super) use checks::broadcast_dims;
use counted::{Counted, Legalized};
use operand_shapes::{scalar_arguments, shapes};
use programs::{Answered, Programs};
use relax_runtime::program::Numerics;
use relax_semantics::check::{Phase, check};
use relax_semantics::ops::programs::{Gives, Input, Renaming, Request, Sums, TensorSpec};
use relax_semantics::ops::{Family, Kind, Known, Operator, Param, bind, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, DimVar, Expr, Module, VarId, VarInfo,
};
use relax_syntax::span::Span;
pub use remaining::{remaining_table, why_it_stays};
use results::Results;
pub use results::is_elementwise;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "legalize_ops",
    doc: "Turns calls of operators into call_tir of tensor programs, one for all calls that differ only in the \
          names of their dims; constraints that are left to run time are checked before.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    // Sums of the narrower floats are formed in f64, as operators do, but not compensated; those of f64 are where numerics are exact.
    exactness: Exactness::Approximate,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut made = legalized(module, context, Counted::Compiled);
    // A call that stops in every run is no longer well-formed where dims of its operands have become known.
    if made.counted > 0 && !check(&made.module, context.facts, Phase::Surface).is_ok() {
        made = legalized(module, context, Counted::Left);
    }
    context.count_of("legalized", made.done, made.found, "calls");
    context.fall_back(made.fallbacks);
    Ok(made.module)
}

fn legalized(module: &Module, context: &mut PassContext, how: Counted) -> Legalized {
    let mut programs = Programs::new(Names::of(module));
    let (mut done, mut counted, mut found) = (0, 0, 0);
    let (checked, defined) = (context.checked, Defined::of(module));
    let maybe_uninit = maybe_unwritten(module);
    let mut fallbacks = Vec::new();
    let mut result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let facts = &mut *context.facts;
        facts.push();
        assume_declared(facts, &function.dims);
        let mut walk = Legalizer {
            annotations: &checked.annotations[&function.name],
            left: left_claims(checked, &function.name),
            maybe_uninit: &maybe_uninit[&function.name],
            programs: &mut programs,
            names: defined.seen_from(function),
            vars: &mut rebuilt.vars,
            dims: &mut rebuilt.dims,
            ranges: BTreeMap::new(),
            reached: Reached::of(function),
            facts,
            how,
            sums: match context.settings.numerics {
                Numerics::Exact => Sums::Compensated,
                Numerics::Reassociated => Sums::Plain,
            },
            stays: Vec::new(),
            done: 0,
            counted: 0,
            found: 0,
        };
        walk.body(&mut body);
        walk.facts.pop();
        done += walk.done;
        counted += walk.counted;
        found += walk.found;
        fallbacks.extend(walk.stays.into_iter().map(|(span, operator, reason)| Fallback {
            function: function.name.clone(),
            span,
            operator,
            reason,
        }));
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    result.definitions.extend(programs.made.into_iter().map(Definition::Tensor));
    Legalized { module: result, done, counted, found, fallbacks }
}

/// Whether a call is one of a tensor operator: compiled, or interpreted by the reference library.
#[must_use]
pub fn tensor_operator(expr: &Expr) -> Option<&'static Operator> {
    let Expr::Call { callee: Callee::Operator(name), .. } = expr else { return None };
    let machine = [Family::Calls, Family::Memory, Family::Builtins];
    lookup(name).filter(|row| !machine.contains(&row.family))
}

struct Legalizer<'a> {
    annotations: &'a [Annotation],
    left: BTreeMap<VarId, Vec<Left>>,
    maybe_uninit: &'a BTreeSet<VarId>,
    programs: &'a mut Programs,
    names: Names,
    vars: &'a mut Vec<VarInfo>,
    dims: &'a mut Vec<DimVar>,
    /// Variables whose elements lie between two integers.
    ranges: BTreeMap<VarId, (i128, i128)>,
    reached: Reached,
    facts: &'a mut dyn Facts,
    how: Counted,
    sums: Sums,
    stays: Vec<(Span, &'static str, Reason)>,
    done: usize,
    counted: usize,
    found: usize,
}

impl Legalizer<'_> {
    fn body(&mut self, body: &mut Body) {
        with_bindings_before(body, &mut |binding, before| {
            self.binding(binding, before);
            self.learn(binding);
        });
    }

    /// What every run knows that has passed a binding.
    fn learn(&mut self, binding: &Binding) {
        self.reached.passed(&binding.expr);
        self.reached.exists(&self.annotations[binding.var.0 as usize]);
        let left = self.left.remove(&binding.var).unwrap_or_default();
        assume_checked(&left.into_iter().flatten().collect::<Vec<_>>(), self.facts);
        if let Expr::MatchCast(Atom::Var(var), annotation) = &binding.expr
            && let (Some(deduced), Some(cast)) =
                (self.annotations[var.0 as usize].dims(), annotation.dims())
        {
            for (deduced, cast) in deduced.iter().zip(cast) {
                self.facts.assume(Claim::new(deduced.clone(), Relation::Equal, cast.clone()));
            }
        }
    }

    /// What a branch evaluates is known in it alone.
    fn branch(&mut self, body: &mut Body) {
        let before = self.reached.clone();
        self.facts.push();
        self.body(body);
        self.facts.pop();
        self.reached = before;
    }

    fn binding(&mut self, binding: &mut Binding, before: &mut Vec<Binding>) {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            self.branch(then);
            self.branch(otherwise);
        }
        let span = self.vars[binding.var.0 as usize].span;
        if let Some(values) = scalar_arguments(&mut binding.expr) {
            self.check_extents(&[values], &[], span, before);
        }
        let Some(row) = tensor_operator(&binding.expr) else { return };
        let Expr::Call { args, attrs, .. } = &binding.expr else { return };
        let made = match why_it_stays(row) {
            Some(why) => Err(Reason::NoProgram(why)),
            None => {
                self.found += 1;
                self.moves(row, args, binding.var);
                self.legalized(row, args, attrs, binding.var)
            }
        };
        match made {
            Ok(Made { check, counts, call }) => {
                let result = &self.annotations[binding.var.0 as usize];
                let asked = result.dims().unwrap_or_default().to_vec();
                self.check_extents(&shapes(args, attrs), &asked, span, before);
                if let Some(check) = check {
                    before.push(check_binding(check, (&mut self.names, &mut *self.vars), span));
                }
                before.extend(counts);
                binding.expr = call;
                self.done += 1;
            }
            Err(reason) => self.stays.push((span, row.short_name(), reason)),
        }
    }

    /// The elements of a constant stay the same where it is only moved.
    fn moves(&mut self, row: &Operator, args: &[Atom], var: VarId) {
        if row.moves_elements()
            && let Some(range) = args.first().and_then(|atom| self.range(atom))
            && args[1..].iter().all(|atom| known_atom(atom).is_some())
        {
            self.ranges.insert(var, range);
        }
    }

    fn legalized(
        &mut self,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
        var: VarId,
    ) -> Result<Made, Reason> {
        let given = |atom: &Atom| Given::Atom(atom.clone());
        let positional = args.iter().map(given).collect();
        let keywords = attrs.iter().map(|(key, atom)| (key.clone(), given(atom))).collect();
        let bound = bind(row, positional, keywords, &Given::Default).map_err(|_| Reason::Case)?;
        let mut call = Call::default();
        for (param, given) in row.params.iter().zip(&bound) {
            match given {
                Given::Atom(atom) => {
                    let unknown = Reason::Operand(param.name);
                    self.argument(&mut call, param, atom).ok_or(unknown)?;
                }
                Given::Default(literal) => {
                    call.attrs.insert(param.name, literal.known());
                }
            }
        }
        // Operands are evaluated before the outputs.
        self.reached.mentioned(args.iter().chain(attrs.iter().map(|(_, atom)| atom)));
        let left = self.left.remove(&var).unwrap_or_default();
        let left = left.into_iter().collect::<Result<Vec<Claim>, String>>();
        let left = left.map_err(Reason::Constraint)?;
        let check = if left.is_empty() { None } else { Some(self.check(row, args, attrs, &call)?) };
        assume_checked(&left, self.facts);
        let same = Equalities::of(left.iter());
        let (mut counts, span) = (Vec::new(), self.vars[var.0 as usize].span);
        let result = match (row.name, counted::number(row, &call)) {
            ("tensor_to_shape" | "shape_of", _) => {
                let call = self.shape(row, &call)?;
                return Ok(Made { check, counts, call });
            }
            (_, Some(_)) if self.how == Counted::Left => return Err(Reason::Result),
            (_, Some(number)) => {
                self.counted += 1;
                let extents = self.counts(row, &call, number, span, &mut counts)?;
                let counted = counted::results(row, &call, &extents).ok_or(Reason::Result)?;
                self.evaluates(counted)?
            }
            _ => self.results(row, &call, var)?,
        };
        let call = self.call(row, (call, Gives::Result), result, &same)?;
        Ok(Made { check, counts, call })
    }

    fn check(
        &mut self,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
        call: &Call,
    ) -> Result<Expr, Reason> {
        self.all_evaluate(call.inputs.iter().flat_map(|input| &input.spec.dims))?;
        constraint_check(row, args, attrs, self.annotations).ok_or(Reason::Case)
    }

    fn call(
        &mut self,
        row: &'static Operator,
        (mut call, gives): (Call, Gives),
        result: Results,
        same: &Equalities,
    ) -> Result<Expr, Reason> {
        for input in &mut call.inputs {
            input.spec = same.tensor(&input.spec);
        }
        let outs: Vec<TensorSpec> = result.specs.iter().map(|out| same.tensor(out)).collect();
        if broadcasts(row) {
            self.align(&mut call.inputs, &outs[0].dims);
        }
        let outs = self.spelled_by_operands(row, &call, outs);
        let specs = call.inputs.iter().map(|input| &input.spec);
        let mut names = Renaming::of(specs.chain(&outs));
        for input in &mut call.inputs {
            input.spec = names.tensor(&input.spec);
        }
        let outs = outs.iter().map(|out| names.tensor(out)).collect();
        let attrs = call.attrs.iter();
        let attrs = attrs.map(|(name, known)| (*name, names.known(&same.known(known)))).collect();
        let (scalars, values) = names.unknown();
        let sums = self.sums;
        let request = Request { row, gives, inputs: call.inputs, outs, attrs, scalars, sums };
        let chosen = |passed: &[bool]| -> Vec<Atom> {
            let tensors = call.tensors.iter().zip(passed).filter(|(_, passed)| **passed);
            tensors.map(|(atom, _)| atom.clone()).collect()
        };
        let written = |passed: &[bool]| {
            !chosen(passed).iter().any(|atom| may_be_uninitialized(self.maybe_uninit, atom))
        };
        let Answered { program, passed } = self.programs.answer(&request, written)?;
        let args = vec![Atom::Global(program), Atom::List(chosen(&passed)), result.atom()];
        let values = Atom::List(values.into_iter().map(Atom::Dim).collect());
        let attrs = if values == Atom::List(Vec::new()) {
            Vec::new()
        } else {
            vec![("sym_args".into(), values)]
        };
        Ok(Expr::Call { callee: Callee::Operator("call_tir".into()), args, attrs })
    }

    /// Dims of elementwise operands that are proved to be those of the result, in the words of the result: such operands
    /// are read without a question whether their dim is 1.
    fn align(&mut self, inputs: &mut [Input], result: &[Dim]) {
        for input in inputs {
            let skipped = result.len() - input.spec.dims.len();
            for (dim, wide) in input.spec.dims.iter_mut().zip(&result[skipped..]) {
                if *dim != Dim::Int(1) && self.facts.equal(dim, wide) == Answer::Proved {
                    *dim = wide.clone();
                }
            }
        }
    }

    /// What the call gives, if evaluating its dims never stops the program where the operator would not. Dims of an
    /// elementwise call that may overflow as the text spells them are spelled as its operands have them.
    fn results(&mut self, row: &Operator, call: &Call, var: VarId) -> Result<Results, Reason> {
        let annotation = &self.annotations[var.0 as usize];
        let spelled = Results::of(annotation).ok_or(Reason::Result);
        let spelled = spelled.and_then(|result| self.evaluates(result));
        spelled.or_else(|reason| {
            let broadcast = self.broadcast(row, call, annotation).ok_or(reason.clone())?;
            self.evaluates(broadcast).map_err(|_| reason)
        })
    }

    fn evaluates(&mut self, result: Results) -> Result<Results, Reason> {
        self.all_evaluate(result.specs.iter().flat_map(|spec| &spec.dims))?;
        Ok(result)
    }

    /// A call that gives a shape: an instruction reads it from a vector, or the text spells the dims.
    fn shape(&mut self, row: &Operator, call: &Call) -> Result<Expr, Reason> {
        let (Some(tensor), Some(input)) = (call.tensors.first(), call.inputs.first()) else {
            return Err(Reason::Case);
        };
        if row.name == "shape_of" {
            self.all_evaluate(input.spec.dims.iter())?;
            return Ok(Expr::Atom(Atom::Shape(input.spec.dims.clone())));
        }
        // Of other vectors not even the rank of the shape is known.
        if !matches!(*input.spec.dims, [Dim::Int(_)]) {
            return Err(Reason::Result);
        }
        if may_be_uninitialized(self.maybe_uninit, tensor) {
            return Err(Reason::Uninitialized);
        }
        Ok(counted::read_shape(tensor.clone()))
    }

    /// Names for so many extents of the result, which a first program counts.
    fn counts(
        &mut self,
        row: &'static Operator,
        call: &Call,
        number: usize,
        span: Span,
        before: &mut Vec<Binding>,
    ) -> Result<Vec<Dim>, Reason> {
        let vector = Dim::Int(i64::try_from(number).map_err(|_| Reason::Case)?);
        let vector = Results::one(TensorSpec { dims: vec![vector], dtype: DType::I64 });
        let program = (call.clone(), Gives::Extents);
        let counts = self.call(row, program, vector, &Equalities::default())?;
        let counts = self.bound("counts", counts, span, before);
        let extents = self.bound("extents", counted::read_shape(Atom::Var(counts)), span, before);
        let names: Vec<Dim> = (0..number)
            .map(|_| {
                let name = self.names.fresh("d");
                self.dims.push(DimVar::new(name.clone(), span));
                let dim = Dim::Var(name);
                self.facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
                dim
            })
            .collect();
        let shape = Annotation::Shape(Extents::Known(names.clone()));
        self.bound("extents", Expr::MatchCast(Atom::Var(extents), shape), span, before);
        Ok(names)
    }

    fn bound(&mut self, name: &str, expr: Expr, span: Span, before: &mut Vec<Binding>) -> VarId {
        let var = VarId(u32::try_from(self.vars.len()).expect("ids are u32"));
        self.vars.push(VarInfo { name: self.names.fresh(name), annotation: None, span });
        before.push(Binding { var, expr });
        var
    }

    /// The result of an elementwise call whose dims broadcast as only the run knows.
    fn broadcast(
        &mut self,
        row: &Operator,
        call: &Call,
        annotation: &Annotation,
    ) -> Option<Results> {
        let dtype = annotation.as_tensor()?.dtype.filter(|_| is_elementwise(row))?;
        let shapes: Vec<&[Dim]> = call.inputs.iter().map(|input| &*input.spec.dims).collect();
        let dims = broadcast_dims(&shapes, self.facts);
        Some(Results::one(TensorSpec { dims, dtype }))
    }

    fn all_evaluate<'d>(&mut self, mut dims: impl Iterator<Item = &'d Dim>) -> Result<(), Reason> {
        let leaves = |dim: &&Dim| {
            !self.reached.evaluates(dim, self.facts) && !self.reached.is_of_extents(dim)
        };
        match dims.find(leaves) {
            Some(dim) => Err(Reason::Overflow(dim.clone())),
            None => Ok(()),
        }
    }

    /// Sorts an argument: tensors are inputs, the rest is known or the builder does without it.
    fn argument(&self, call: &mut Call, param: &Param, atom: &Atom) -> Option<()> {
        match (param.kind, atom) {
            (Kind::OptionalTensor, Atom::None) => {
                call.attrs.insert(param.name, Known::None);
            }
            (Kind::Tensors, Atom::Tuple(items) | Atom::List(items)) => {
                items.iter().try_for_each(|item| self.tensor(call, param.name, item))?;
            }
            (Kind::Tensors, _) => return None,
            (Kind::Tensor | Kind::OptionalTensor, _) => self.tensor(call, param.name, atom)?,
            (Kind::Value, Atom::Var(_) | Atom::Constant(_) | Atom::External(_)) => {
                self.tensor(call, param.name, atom)?;
            }
            _ => {
                // What is not spelled is not asked for, or the builder gives up.
                let known = known_atom(atom).or_else(|| self.known_shape(atom));
                call.attrs.extend(known.map(|known| (param.name, known)));
            }
        }
        Some(())
    }
}

/// Operators move what nothing has written; programs do not read it.
fn may_be_uninitialized(maybe_uninit: &BTreeSet<VarId>, atom: &Atom) -> bool {
    matches!(atom, Atom::Var(var) if maybe_uninit.contains(var))
}

/// What stands for a call of an operator.
struct Made {
    check: Option<Expr>,
    /// Bindings of the extents that only elements decide.
    counts: Vec<Binding>,
    call: Expr,
}

/// The arguments of a call, sorted.
#[derive(Clone, Default)]
struct Call {
    inputs: Vec<Input>,
    /// For each input.
    tensors: Vec<Atom>,
    attrs: BTreeMap<&'static str, Known>,
}
