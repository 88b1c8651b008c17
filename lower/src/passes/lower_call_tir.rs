//! Calls of tensor programs get explicit memory (paper, Figure 5 and §4.2): for each output a storage
//! and a tensor in it, then the program runs in destination-passing style.
//!
//! What a call leaves to run time of dims is asked before it, with its own traps. A call of an external program and one whose
//! arguments or outputs are not spelled out go through the reference library, which is reported.

pub(super) mod call;
pub(super) mod donated;
pub(crate) mod written;

use super::lower_operators::call_by_name;
use crate::fresh::{Fresh, built_in};
use crate::memory::aliases::{Aliases, Returns};
use call::{TirCall, element_type};
use donated::Donated;
use relax_rewrite::constraint_check::{Left, constraint_check, left_claims};
use relax_rewrite::dps_arguments;
use relax_rewrite::fallback::{Fallback, Reason};
use relax_rewrite::names::Defined;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::{Checked, Phase, codes};
use relax_semantics::ops::{Operator, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, Expr, Function, Module, TensorProgram, VarId,
};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};
use written::written;

/// The record.
pub static PASS: Pass = Pass {
    name: "lower_call_tir",
    doc: "Gives each output of call_tir a storage and a tensor in it, and calls the tensor program in \
          place.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let defined = Defined::of(module);
    let (mut done, mut found, mut fallbacks) = (0, 0, Vec::new());
    let programs = Programs::of(module);
    let returns = Returns::of(module);
    let donated = Donated::of(module);
    let mut copied = 0;
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let mutated = mutated(module, function, &returns);
        let Some(mut body) = function.lambda.body.take() else { continue };
        let known = Known {
            defined: &defined,
            checked: context.checked,
            programs: &programs,
            donated: &donated,
            mutated,
        };
        let mut lowering = Lowering::of(function, &body, known);
        lowering.body(&mut body);
        done += lowering.done;
        found += lowering.found;
        copied += lowering.copied;
        if let Some(refused) = lowering.refused {
            return Err(refused);
        }
        let left = lowering.stays.into_iter().map(|(var, operator, reason)| Fallback {
            function: function.name.clone(),
            span: lowering.fresh.vars[var.0 as usize].span,
            operator,
            reason,
        });
        fallbacks.extend(left);
        function.vars = lowering.fresh.vars;
        function.lambda.body = Some(body);
    }
    context.count_of("lowered", done, found, "calls of tensor programs and libraries");
    context.count("copied", copied, "arguments that a call overwrites and that have another use");
    context.fall_back(fallbacks);
    Ok(result)
}

/// Variables that may name what a call in place writes to. Such a call changes the value of the one
/// variable that it is passed, but memory under all of its names.
fn mutated(module: &Module, function: &Function, returns: &Returns) -> BTreeSet<VarId> {
    let written = dps_arguments(module, function);
    if written.is_empty() {
        return written;
    }
    let aliases = Aliases::of(function, module, returns);
    let roots: BTreeSet<VarId> = written.iter().map(|&var| aliases.root(var)).collect();
    let all = (0..function.vars.len())
        .map(|index| VarId(u32::try_from(index).expect("invariant: ids are u32")));
    all.filter(|&var| roots.contains(&aliases.root(var))).collect()
}

/// The tensor programs that have a body, and which of its parameters each writes to.
struct Programs<'m> {
    by_name: BTreeMap<&'m Name, (&'m TensorProgram, Vec<bool>)>,
}

impl<'m> Programs<'m> {
    fn of(module: &'m Module) -> Self {
        let programs = module.definitions.iter().filter_map(|definition| match definition {
            Definition::Tensor(program) if program.body.is_some() => {
                Some((&program.name, (program, written(program))))
            }
            _ => None,
        });
        Self { by_name: programs.collect() }
    }
}

/// What is known around a function.
struct Known<'a> {
    defined: &'a Defined,
    checked: &'a Checked,
    programs: &'a Programs<'a>,
    donated: &'a Donated,
    mutated: BTreeSet<VarId>,
}

struct Lowering<'a> {
    annotations: &'a [Annotation],
    programs: &'a Programs<'a>,
    donated: &'a Donated,
    /// What bindings leave to run time.
    left: BTreeMap<VarId, Vec<Left>>,
    /// Variables that a later call in place may write to.
    mutated: BTreeSet<VarId>,
    /// How often each variable is used.
    uses: BTreeMap<VarId, usize>,
    /// Variables that name a tensor of their own: nothing else has its elements.
    owned: BTreeSet<VarId>,
    fresh: Fresh,
    done: usize,
    found: usize,
    /// Arguments that are copied.
    copied: usize,
    /// A call whose argument can be neither given up nor copied.
    refused: Option<Diagnostic>,
    /// Calls of tensor programs that the interpreter computes when the program runs.
    stays: Vec<(VarId, &'static str, Reason)>,
}

impl<'a> Lowering<'a> {
    fn of(function: &Function, body: &Body, known: Known<'a>) -> Self {
        let Known { defined, checked, programs, donated, mutated } = known;
        let mut uses = BTreeMap::new();
        count_uses(body, &mut uses);
        Self {
            annotations: &checked.annotations[&function.name],
            programs,
            donated,
            left: left_claims(checked, &function.name),
            mutated,
            uses,
            owned: donated.owned(function),
            fresh: Fresh::of(defined, function),
            done: 0,
            found: 0,
            copied: 0,
            refused: None,
            stays: Vec::new(),
        }
    }

    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            let mut bindings = Vec::with_capacity(block.bindings.len() * 3);
            for binding in std::mem::take(&mut block.bindings) {
                self.binding(binding, &mut bindings);
            }
            block.bindings = bindings;
        }
    }

    fn binding(&mut self, mut binding: Binding, out: &mut Vec<Binding>) {
        match &mut binding.expr {
            Expr::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Expr::Call { callee: Callee::Global(name), args, .. } => {
                if let Some(donated) = self.donated.of_call(name) {
                    let span = self.fresh.vars[binding.var.0 as usize].span;
                    self.give_up((name, donated), args, span, out);
                }
            }
            Expr::Call { callee: Callee::Operator(name), args, .. } => match name.as_str() {
                "call_tir" | "call_tir_inplace" => {
                    self.found += 1;
                    let row = lookup(name).expect("invariant: a row of the table");
                    match self.compiled(row, &binding) {
                        Ok((call, check)) => {
                            let span = self.fresh.vars[binding.var.0 as usize].span;
                            out.extend(check.map(|expr| Binding {
                                var: self.fresh.var("checked", None, span),
                                expr,
                            }));
                            self.call(call, binding.var, out);
                            self.done += 1;
                            return;
                        }
                        Err(reason) => {
                            self.stays.push((binding.var, row.name, reason));
                            call_by_name(&mut binding);
                        }
                    }
                }
                "call_dps_library" | "call_dps_packed" => {
                    self.found += 1;
                    call_by_name(&mut binding);
                }
                "alloc_tensor" | "memory.alloc_tensor" => {
                    let storage = args.first();
                    if let Some(Atom::Var(storage)) = storage
                        && self.uses.get(storage) == Some(&1)
                    {
                        self.owned.insert(binding.var);
                    }
                }
                _ => {}
            },
            _ => {}
        }
        out.push(binding);
    }

    /// The call, if the program runs on these buffers, and what must be asked before: what the call leaves to run time, of dims, with
    /// the traps of the operator.
    fn compiled(
        &self,
        row: &'static Operator,
        binding: &Binding,
    ) -> Result<(TirCall, Option<Expr>), Reason> {
        let call = TirCall::read(binding, self.annotations).ok_or(Reason::Result)?;
        if !self.programs.by_name.contains_key(&call.program) {
            return Err(Reason::NoProgram("it has no body"));
        }
        // What is written to later must not be memory that other names see.
        if self.mutated.contains(&binding.var) {
            return Err(Reason::WrittenLater);
        }
        let Some(left) = self.left.get(&binding.var) else { return Ok((call, None)) };
        if let Some(text) = left.iter().find_map(|left| left.as_ref().err()) {
            return Err(Reason::Constraint(text.clone()));
        }
        let Expr::Call { args, attrs, .. } = &binding.expr else { return Err(Reason::Case) };
        let check = constraint_check(row, args, attrs, self.annotations).ok_or(Reason::Case)?;
        Ok((call, Some(check)))
    }

    fn call(&mut self, call: TirCall, var: VarId, out: &mut Vec<Binding>) {
        let span = self.fresh.vars[var.0 as usize].span;
        let (_, written) = &self.programs.by_name[&call.program];
        let mut buffers = Vec::with_capacity(written.len());
        for (index, arg) in call.inputs.iter().enumerate() {
            // What a program writes to its inputs is lost, so it must not be seen.
            let kept = written.get(index) == Some(&true) && !self.is_last_use(arg);
            buffers.push(if kept {
                self.copy(arg, call.dtypes[index], span, out)
            } else {
                arg.clone()
            });
        }
        let mut results = Vec::with_capacity(call.outputs.len());
        for (position, (dims, dtype)) in call.outputs.iter().enumerate() {
            results.push(match call.in_place.get(position).copied().flatten() {
                Some(input) => buffers[input].clone(),
                None => {
                    let tensor = if call.is_list || !call.in_place.is_empty() {
                        self.output_name(var, position, dims, *dtype, span)
                    } else {
                        var
                    };
                    self.allocate(tensor, dims, *dtype, span, out);
                    buffers.push(Atom::Var(tensor));
                    Atom::Var(tensor)
                }
            });
        }
        buffers.extend(call.scalars.into_iter().map(Atom::Dim));
        let args = self.in_order(&call.program, buffers);
        let unit = self.fresh.unit(span);
        let expr = Expr::Call { callee: Callee::Global(call.program), args, attrs: Vec::new() };
        out.push(Binding { var: unit, expr });
        if call.is_list {
            out.push(Binding { var, expr: Expr::Atom(Atom::Tuple(results)) });
        } else if let [result] = results.as_slice()
            && *result != Atom::Var(var)
        {
            // A copy, or an argument in its last use: nothing else names it.
            self.owned.insert(var);
            out.push(Binding { var, expr: Expr::Atom(result.clone()) });
        }
    }

    /// Buffers, then scalars, in the order of the program's parameters.
    fn in_order(&self, program: &Name, given: Vec<Atom>) -> Vec<Atom> {
        use relax_syntax::ir::tensor::Param;
        let (program, _) = &self.programs.by_name[program];
        let (scalars, buffers): (Vec<_>, Vec<_>) =
            given.into_iter().partition(|atom| matches!(atom, Atom::Dim(_)));
        let (mut scalars, mut buffers) = (scalars.into_iter(), buffers.into_iter());
        let in_order = program.params.iter().filter_map(|param| match param {
            Param::Buffer(_) => buffers.next(),
            Param::Scalar(_) | Param::Dim(_) => scalars.next(),
        });
        in_order.collect()
    }

    /// Of what is given up nothing else may be left: it is copied where the function uses it again, or does not own it.
    fn give_up(
        &mut self,
        (name, donated): (&Name, &'a [bool]),
        args: &mut [Atom],
        span: Span,
        out: &mut Vec<Binding>,
    ) {
        for (arg, _) in args.iter_mut().zip(donated).filter(|(_, is_donated)| **is_donated) {
            if self.is_last_use(arg) {
                continue;
            }
            match element_type(arg, self.annotations) {
                Some(dtype) => *arg = self.copy(arg, dtype, span, out),
                None => {
                    let message = format!(
                        "`{name}` overwrites an argument that is not its own, and whose dtype is not known"
                    );
                    let refused = Diagnostic::error(codes::DONATED, span, message);
                    let refused = refused.at(Part::Value);
                    let help =
                        "write `match_cast` before the call, so that the argument can be copied";
                    self.refused.get_or_insert(refused.with_help(help));
                }
            }
        }
    }

    fn is_last_use(&self, arg: &Atom) -> bool {
        matches!(arg, Atom::Var(var) if self.owned.contains(var) && self.uses.get(var) == Some(&1))
    }

    /// A cast to the dtype that it has moves elements that nothing has written, as a program would not.
    fn copy(&mut self, arg: &Atom, dtype: DType, span: Span, out: &mut Vec<Binding>) -> Atom {
        self.copied += 1;
        let copy = self.fresh.var("copy", None, span);
        let str = |text| Atom::Str(Name::new(text));
        let args = vec![str("astype"), arg.clone(), str(dtype.name())];
        out.push(built_in(copy, super::lower_operators::CALL_OPERATOR, args));
        Atom::Var(copy)
    }

    fn output_name(
        &mut self,
        var: VarId,
        position: usize,
        dims: &[Dim],
        dtype: DType,
        span: Span,
    ) -> VarId {
        let base = format!("{}_{position}", self.fresh.vars[var.0 as usize].name);
        self.fresh.var(&base, Some(Annotation::tensor(dims.to_vec(), dtype)), span)
    }

    fn allocate(
        &mut self,
        tensor: VarId,
        dims: &[Dim],
        dtype: DType,
        span: Span,
        out: &mut Vec<Binding>,
    ) {
        let base = format!("{}_storage", self.fresh.vars[tensor.0 as usize].name);
        let storage = self.fresh.var(&base, None, span);
        let (shape, dtype) = (Atom::Shape(dims.to_vec()), Atom::Str(Name::new(dtype.name())));
        out.push(built_in(storage, "memory.alloc_storage", vec![shape.clone(), dtype.clone()]));
        out.push(built_in(tensor, "memory.alloc_tensor", vec![Atom::Var(storage), shape, dtype]));
        self.owned.insert(tensor);
    }
}

/// How often each variable is mentioned.
pub(super) fn count_uses(body: &Body, uses: &mut BTreeMap<VarId, usize>) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => count(atom, uses),
            Expr::Call { callee, args, attrs } => {
                if let Callee::Var(var) = callee {
                    *uses.entry(*var).or_default() += 1;
                }
                args.iter().chain(attrs.iter().map(|(_, atom)| atom)).for_each(|a| count(a, uses));
            }
            Expr::If { condition, then, otherwise } => {
                count(condition, uses);
                // A run takes one of the branches.
                let (mut of_then, mut of_otherwise) = (BTreeMap::new(), BTreeMap::new());
                count_uses(then, &mut of_then);
                count_uses(otherwise, &mut of_otherwise);
                for (var, count) in of_otherwise {
                    let most = of_then.entry(var).or_default();
                    *most = count.max(*most);
                }
                of_then.into_iter().for_each(|(var, count)| *uses.entry(var).or_default() += count);
            }
            Expr::Closure(lambda) => {
                lambda.body.iter().for_each(|body| count_uses(body, uses));
            }
        }
    }
    count(&body.result, uses);
}

fn count(atom: &Atom, uses: &mut BTreeMap<VarId, usize>) {
    match atom {
        Atom::Var(var) => *uses.entry(*var).or_default() += 1,
        Atom::Tuple(items) | Atom::List(items) => items.iter().for_each(|item| count(item, uses)),
        _ => {}
    }
}
