//! Calls of operators become calls of tensor programs, made for what is known of their operands.
//!
//! A call stays where a constraint of its operator is left to run time, for a program would not stop
//! with the operator's trap; where an operand may hold elements that nothing has written; and where dims,
//! dtypes or axes are not all known.

use super::map_functions;
use crate::dims::evaluates_beside;
use crate::kernels::renaming::Renaming;
use crate::kernels::{Input, Request, TensorSpec, has_kernels, kernel};
use crate::known::{Given, known_atom};
use crate::maybe_uninit::maybe_uninitialized;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use relax_program::frontend::print;
use relax_semantics::check::Phase;
use relax_semantics::ops::{Kind, Known, Operator, Param, bind, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::ir::graph::Literals;
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Constant, Definition, Expr, Module, TensorProgram, VarId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The record.
pub static PASS: Pass = Pass {
    name: "legalize_ops",
    doc: "Turns calls of operators whose constraints are proved into call_tir of tensor programs, \
          one for all calls that differ only in the names of their dims.",
    from: Phase::P0,
    to: Phase::P0,
    // Sums of the narrower floats are formed in f64, as operators do, but not compensated.
    exactness: Exactness::Approximate,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut programs = Programs::new(Names::of(module));
    let (mut done, mut found) = (0, 0);
    let checked = context.checked;
    let maybe_uninit = maybe_uninitialized(module);
    let mut result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let annotations = &checked.annotations[&function.name];
        let left = &checked.left_in(&function.name).vars;
        let maybe_uninit = &maybe_uninit[&function.name];
        let programs = &mut programs;
        let ranges = BTreeMap::new();
        let params = function.lambda.params.iter();
        let params = params.filter_map(|&param| spec(function.param_annotation(param)));
        let given = params.map(|param| param.dims).collect();
        let mut walk =
            Walk { annotations, left, maybe_uninit, programs, ranges, given, done: 0, found: 0 };
        walk.body(rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped"));
        done += walk.done;
        found += walk.found;
        rebuilt
    });
    result.definitions.extend(programs.made.into_iter().map(Definition::Tensor));
    context.count_of("legalized", done, found, "calls");
    Ok(result)
}

/// The programs made so far.
struct Programs {
    names: Names,
    /// In the order of the module.
    made: Vec<TensorProgram>,
    /// The name of each by its text as the builder made it, which tells also zeros of either sign apart:
    /// under the name that it got there.
    by_text: BTreeMap<String, Name>,
    /// What came of each request; most calls of a model ask for what was made before.
    answered: BTreeMap<String, Option<Answered>>,
}

/// A program, and which inputs it gets.
#[derive(Clone)]
struct Answered {
    program: Name,
    passed: Vec<bool>,
}

impl Programs {
    fn new(names: Names) -> Self {
        Self { names, made: Vec::new(), by_text: BTreeMap::new(), answered: BTreeMap::new() }
    }

    /// The program for a request, if `accepts` agrees to the inputs that it gets.
    fn answer(
        &mut self,
        request: &Request,
        accepts: impl FnOnce(&[bool]) -> bool,
    ) -> Option<Answered> {
        let key = request.key();
        if let Some(answered) = self.answered.get(&key) {
            return answered.clone().filter(|answered| accepts(&answered.passed));
        }
        let Some(made) = kernel(request) else {
            self.answered.insert(key, None);
            return None;
        };
        // What is not called is not made.
        if !accepts(&made.passed) {
            return None;
        }
        let answered = Answered { program: self.name(made.program), passed: made.passed };
        self.answered.insert(key, Some(answered.clone()));
        Some(answered)
    }

    /// The name of a program like this one.
    fn name(&mut self, program: TensorProgram) -> Name {
        let alone = Module { definitions: vec![Definition::Tensor(program)], ..Module::default() };
        let text = print(&alone);
        if let Some(name) = self.by_text.get(&text) {
            return name.clone();
        }
        let mut definitions = alone.definitions;
        let Some(Definition::Tensor(mut program)) = definitions.pop() else {
            unreachable!("invariant: the one that was put in")
        };
        let name = self.names.fresh(&program.name);
        program.name = name.clone();
        self.by_text.insert(text, name.clone());
        self.made.push(program);
        name
    }
}

struct Walk<'a> {
    annotations: &'a [Annotation],
    left: &'a BTreeSet<VarId>,
    maybe_uninit: &'a BTreeSet<VarId>,
    programs: &'a mut Programs,
    /// Variables whose elements lie between two integers.
    ranges: BTreeMap<VarId, (i128, i128)>,
    /// The shapes of tensors that are there whenever the function runs.
    given: Vec<Vec<Dim>>,
    done: usize,
    found: usize,
}

impl Walk<'_> {
    fn body(&mut self, body: &mut Body) {
        for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
            self.binding(binding);
        }
    }

    fn binding(&mut self, binding: &mut Binding) {
        match &mut binding.expr {
            Expr::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let Some(row) = lookup(name).filter(|row| has_kernels(row)) else { return };
                self.found += 1;
                // The elements of a constant stay the same where it is only moved.
                if MOVES.contains(&row.name)
                    && let Some(range) = args.first().and_then(|atom| self.range(atom))
                    && args[1..].iter().all(|atom| known_atom(atom).is_some())
                {
                    self.ranges.insert(binding.var, range);
                }
                if let Some(call) = self.legalized(row, args, attrs, binding.var) {
                    binding.expr = call;
                    self.done += 1;
                }
            }
            _ => {}
        }
    }

    fn legalized(
        &mut self,
        row: &'static Operator,
        args: &[Atom],
        attrs: &[(Name, Atom)],
        var: VarId,
    ) -> Option<Expr> {
        if self.left.contains(&var) {
            return None;
        }
        let given = |atom: &Atom| Given::Atom(atom.clone());
        let positional = args.iter().map(given).collect();
        let keywords = attrs.iter().map(|(key, atom)| (key.clone(), given(atom))).collect();
        let bound = bind(row, positional, keywords, &Given::Default).ok()?;
        let mut call = Call::default();
        for (param, given) in row.params.iter().zip(bound) {
            match given {
                Given::Atom(atom) => self.argument(&mut call, param, &atom)?,
                Given::Default(literal) => {
                    call.attrs.insert(param.name, literal.known());
                }
            }
        }
        let inputs = call.inputs.iter().map(|input| &*input.spec.dims);
        let shapes: Vec<&[Dim]> = inputs.chain(self.given.iter().map(Vec::as_slice)).collect();
        let result = Results::of(&self.annotations[var.0 as usize], &shapes)?;
        let specs = call.inputs.iter().map(|input| &input.spec);
        let mut names = Renaming::of(specs.chain(&result.specs));
        for input in &mut call.inputs {
            input.spec = names.tensor(&input.spec);
        }
        let outs = result.specs.iter().map(|out| names.tensor(out)).collect();
        let attrs = call.attrs.iter().map(|(name, known)| (*name, names.known(known))).collect();
        let (scalars, values) = names.unknown();
        let request = Request { row, inputs: call.inputs, outs, attrs, scalars };
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
        Some(Expr::Call { callee: Callee::Operator("call_tir".into()), args, attrs })
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

    /// The dims of a shape value, as its annotation tells them.
    fn known_shape(&self, atom: &Atom) -> Option<Known> {
        let Atom::Var(var) = atom else { return None };
        let Annotation::Shape(extents) = &self.annotations[var.0 as usize] else { return None };
        Some(Known::List(extents.dims()?.iter().cloned().map(Known::Dim).collect()))
    }

    fn tensor(&self, call: &mut Call, param: &'static str, atom: &Atom) -> Option<()> {
        let spec = self.operand(atom)?;
        let range = self.range(atom);
        call.inputs.push(Input { param, spec, range, is_passed: true });
        call.tensors.push(atom.clone());
        Some(())
    }

    /// The least and greatest of the integers that a constant spells, or a movement of one.
    fn range(&self, atom: &Atom) -> Option<(i128, i128)> {
        match atom {
            Atom::Constant(constant) => range(constant),
            Atom::Var(var) => self.ranges.get(var).copied(),
            _ => None,
        }
    }

    fn operand(&self, atom: &Atom) -> Option<TensorSpec> {
        match atom {
            Atom::Var(var) => spec(&self.annotations[var.0 as usize]),
            Atom::External(external) => spec(&external.annotation),
            Atom::Constant(constant) => {
                let dims = constant.shape.iter().map(|&extent| i64::try_from(extent).ok());
                let dims = dims.map(|extent| extent.map(Dim::Int));
                Some(TensorSpec { dims: dims.collect::<Option<_>>()?, dtype: constant.dtype })
            }
            _ => None,
        }
    }
}

/// Operators move what nothing has written; programs do not read it.
fn may_be_uninitialized(maybe_uninit: &BTreeSet<VarId>, atom: &Atom) -> bool {
    matches!(atom, Atom::Var(var) if maybe_uninit.contains(var))
}

/// Operators whose results have no other elements than their first operand.
const MOVES: &[&str] = &[
    "broadcast_to",
    "reshape",
    "flatten",
    "expand_dims",
    "squeeze",
    "permute_dims",
    "repeat",
    "tile",
];

/// The arguments of a call, sorted.
#[derive(Default)]
struct Call {
    inputs: Vec<Input>,
    /// For each input.
    tensors: Vec<Atom>,
    attrs: BTreeMap<&'static str, Known>,
}

/// What a call gives.
struct Results {
    specs: Vec<TensorSpec>,
    is_tuple: bool,
}

impl Results {
    /// `None` where something is not known, or where an annotation could stop the program though there are tensors of
    /// these shapes.
    fn of(annotation: &Annotation, shapes: &[&[Dim]]) -> Option<Self> {
        let (specs, is_tuple) = match annotation {
            Annotation::Tuple(fields) => {
                (fields.iter().map(spec).collect::<Option<Vec<_>>>()?, true)
            }
            single => (vec![spec(single)?], false),
        };
        let mut dims = specs.iter().flat_map(|spec| &spec.dims);
        (dims.all(|dim| evaluates_beside(dim, shapes)) && !specs.is_empty())
            .then_some(Self { specs, is_tuple })
    }

    /// As the outputs of `call_tir`.
    fn atom(self) -> Atom {
        let each = self.specs.into_iter().map(|spec| Annotation::tensor(spec.dims, spec.dtype));
        let mut atoms = each.map(|annotation| Atom::Annotation(Arc::new(annotation)));
        if self.is_tuple {
            return Atom::List(atoms.collect());
        }
        atoms.next().expect("invariant: there is a result")
    }
}

/// The least and greatest element of integers.
fn range(constant: &Constant) -> Option<(i128, i128)> {
    let Literals::Int(values) = &constant.data else { return None };
    Some((*values.iter().min()?, *values.iter().max()?))
}

fn spec(annotation: &Annotation) -> Option<TensorSpec> {
    let Annotation::Tensor(tensor) = annotation else { return None };
    Some(TensorSpec { dims: tensor.extents.dims()?.to_vec(), dtype: tensor.dtype? })
}
