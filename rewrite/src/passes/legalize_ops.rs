//! Calls of operators become calls of tensor programs, made for what is known of their operands.
//!
//! A call stays where a constraint of its operator is left to run time, for a program would not stop
//! with the operator's trap; where an operand may hold elements that nothing has written; and where dims,
//! dtypes or axes are not all known.

use super::map_functions;
use crate::dims::evaluates_when_it_fits;
use crate::kernels::renaming::Renaming;
use crate::kernels::{Request, TensorSpec, has_kernels, kernel};
use crate::known::{Given, known_atom};
use crate::pass::{Exactness, Pass, PassContext};
use crate::unwritten::unwritten;
use relax_semantics::check::{Checked, Phase};
use relax_semantics::ops::{Kind, Operator, bind, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, Expr, Module, TensorProgram, VarId,
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
    let mut programs = Programs { taken: taken_names(module), made: Vec::new() };
    let (mut done, mut found) = (0, 0);
    let checked = context.checked;
    let unwritten = unwritten(module);
    let mut result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let annotations = &checked.annotations[&function.name];
        let left = left_to_run_time(checked, &function.name);
        let unwritten = &unwritten[&function.name];
        let programs = &mut programs;
        let mut walk = Walk { annotations, left, unwritten, programs, done: 0, found: 0 };
        walk.body(rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped"));
        done += walk.done;
        found += walk.found;
        rebuilt
    });
    let made = programs.made.into_iter().map(|(_, program)| Definition::Tensor(program));
    result.definitions.extend(made);
    context.count_of("legalized", done, found, "calls");
    Ok(result)
}

/// The bindings that may trap for their operands' shapes.
fn left_to_run_time(checked: &Checked, function: &Name) -> BTreeSet<VarId> {
    let own = checked.obligations.iter().filter(|left| left.function == *function);
    own.filter_map(|left| left.var).collect()
}

/// Every name that a program must not take: of definitions, and of variables, which would hide it.
fn taken_names(module: &Module) -> BTreeSet<Name> {
    let definitions = module.definitions.iter().map(|definition| definition.name().clone());
    let variables = module.functions().flat_map(|function| {
        let dims = function.dims.iter().map(|dim| dim.name.clone());
        function.vars.iter().map(|var| var.name.clone()).chain(dims)
    });
    definitions.chain(variables).collect()
}

/// The programs made so far.
struct Programs {
    taken: BTreeSet<Name>,
    /// As the builder made it, and under the name that it got.
    made: Vec<(TensorProgram, TensorProgram)>,
}

impl Programs {
    /// The name of a program like this one.
    fn name(&mut self, program: TensorProgram) -> Name {
        if let Some((_, same)) = self.made.iter().find(|(built, _)| *built == program) {
            return same.name.clone();
        }
        let name = self.free_name(&program.name);
        self.taken.insert(name.clone());
        let named = TensorProgram { name: name.clone(), ..program.clone() };
        self.made.push((program, named));
        name
    }

    fn free_name(&self, wanted: &Name) -> Name {
        let numbered = (1..).map(|number| Name::new(format!("{wanted}_{number}")));
        let mut names = std::iter::once(wanted.clone()).chain(numbered);
        names
            .find(|name| !self.taken.contains(name) && lookup(name).is_none())
            .expect("invariant: finitely many names are taken")
    }
}

struct Walk<'a> {
    annotations: &'a [Annotation],
    left: BTreeSet<VarId>,
    unwritten: &'a BTreeSet<VarId>,
    programs: &'a mut Programs,
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
        let result = &self.annotations[var.0 as usize];
        let out = spec(result).filter(|out| out.dims.iter().all(evaluates_when_it_fits))?;
        let given = |atom: &Atom| Given::Atom(atom.clone());
        let positional = args.iter().map(given).collect();
        let keywords = attrs.iter().map(|(key, atom)| (key.clone(), given(atom))).collect();
        let bound = bind(row, positional, keywords, &Given::Default).ok()?;
        let (mut tensors, mut operands, mut known) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (param, given) in row.params.iter().zip(bound) {
            match given {
                Given::Atom(atom) if param.kind == Kind::Tensor => {
                    operands.push(self.operand(&atom)?);
                    tensors.push(atom);
                }
                // What is not spelled is not asked for, or the builder gives up.
                Given::Atom(atom) => known.extend(known_atom(&atom).map(|k| (param.name, k))),
                Given::Default(literal) => known.extend([(param.name, literal.known())]),
            }
        }
        let mut names = Renaming::of(operands.iter().chain([&out]));
        let operands = operands.iter().map(|operand| names.tensor(operand)).collect();
        let request = Request { row, operands, out: names.tensor(&out), attrs: known };
        let program = self.programs.name(kernel(&request)?);
        let out = Annotation::tensor(out.dims, out.dtype);
        let args =
            vec![Atom::Global(program), Atom::List(tensors), Atom::Annotation(Arc::new(out))];
        Some(Expr::Call { callee: Callee::Operator("call_tir".into()), args, attrs: Vec::new() })
    }

    fn operand(&self, atom: &Atom) -> Option<TensorSpec> {
        match atom {
            // Operators move what nothing has written; programs do not read it.
            Atom::Var(var) if self.unwritten.contains(var) => None,
            Atom::Var(var) => spec(&self.annotations[var.0 as usize]),
            Atom::External(external) => spec(&external.annotation),
            Atom::Constant(constant) => {
                let dims = constant.shape.iter().map(|&extent| i64::try_from(extent).ok());
                let dims = dims.map(|extent| extent.map(relax_syntax::dim::Dim::Int));
                Some(TensorSpec { dims: dims.collect::<Option<_>>()?, dtype: constant.dtype })
            }
            _ => None,
        }
    }
}

fn spec(annotation: &Annotation) -> Option<TensorSpec> {
    let Annotation::Tensor(tensor) = annotation else { return None };
    Some(TensorSpec { dims: tensor.extents.dims()?.to_vec(), dtype: tensor.dtype? })
}
