//! Calls of tensor programs on constants alone, made when a program is built: what `pack_weights` lays out is then stored
//! as the program reads it, and nothing else of it is.

mod moved;

use moved::moved;
use relax_semantics::interp::constant_tensor;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Options, run};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Param, StmtKind};
use relax_syntax::ir::{
    Atom, Binding, Block, BlockKind, Body, Callee, Definition, Expr, External, Function, Module,
    TensorProgram, VarId,
};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How the text uses a variable.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    /// As what a tensor program reads.
    reads: usize,
    /// As what a tensor program writes.
    writes: usize,
    /// Otherwise.
    others: usize,
}

/// What a function does with its variables.
pub(crate) struct Reads<'m> {
    module: &'m Module,
    constants: BTreeMap<VarId, Atom>,
    uses: BTreeMap<VarId, Uses>,
}

/// Whether a variable names a constant that is only ever read, by tensor programs.
pub(crate) fn is_constant(reads: &Reads<'_>, var: VarId) -> bool {
    let uses = reads.uses.get(&var).copied().unwrap_or_default();
    reads.constants.contains_key(&var) && uses.writes == 0 && uses.others == 0
}

impl<'m> Reads<'m> {
    pub(crate) fn of(module: &'m Module, function: &Function) -> Self {
        let mut reads = Self { module, constants: BTreeMap::new(), uses: BTreeMap::new() };
        function.lambda.body.iter().for_each(|body| reads.body(body));
        reads
    }

    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            self.binding(binding);
        }
        self.others(|used| atom_uses(&body.result, used));
    }

    fn binding(&mut self, binding: &Binding) {
        match &binding.expr {
            Expr::Atom(atom @ (Atom::External(_) | Atom::Constant(_))) => {
                self.constants.insert(binding.var, atom.clone());
            }
            Expr::If { condition, then, otherwise } => {
                self.others(|used| atom_uses(condition, used));
                self.body(then);
                self.body(otherwise);
            }
            Expr::Call { callee: Callee::Global(name), args, attrs } if attrs.is_empty() => {
                match self.module.tensor_program(name).filter(|program| program.body.is_some()) {
                    Some(program) => self.call(program, args),
                    None => self.others(|used| expr_uses(&binding.expr, used)),
                }
            }
            other => self.others(|used| expr_uses(other, used)),
        }
    }

    fn call(&mut self, program: &TensorProgram, args: &[Atom]) {
        let written = written(program);
        for (at, arg) in args.iter().enumerate() {
            let Atom::Var(var) = arg else {
                self.others(|used| atom_uses(arg, used));
                continue;
            };
            let uses = self.uses.entry(*var).or_default();
            *(if written.contains(&at) { &mut uses.writes } else { &mut uses.reads }) += 1;
        }
    }

    fn others(&mut self, collect: impl FnOnce(&mut BTreeSet<VarId>)) {
        let mut used = BTreeSet::new();
        collect(&mut used);
        used.into_iter().for_each(|var| self.uses.entry(var).or_default().others += 1);
    }
}

/// The places of the parameters that a tensor program stores to.
fn written(program: &TensorProgram) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let body = program.body.as_deref().unwrap_or(&[]);
    relax_semantics::tir::walk::visit_statements(body, &mut |stmt| {
        if let StmtKind::Store { buffer, .. } = &stmt.kind {
            found.extend(program.params.iter().position(|param| *param == Param::Buffer(*buffer)));
        }
    });
    found
}

/// A module whose calls on constants are made, and the values of the constants that it has instead.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    /// With `param("…")` in the place of what was computed.
    pub module: Module,
    /// By these names.
    pub values: BTreeMap<Name, Tensor>,
}

/// Makes the calls that stand behind the allocation of their result and take constants alone, whose values are given.
#[must_use]
pub fn evaluate_constants(module: &Module, given: &BTreeMap<Name, Tensor>) -> Evaluated {
    let mut result = module.clone();
    let mut values = BTreeMap::new();
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let reads = Reads::of(module, function);
        let Some(body) = &mut function.lambda.body else { continue };
        Evaluation { reads, given, values: &mut values }.body(body);
    }
    Evaluated { module: result, values }
}

struct Evaluation<'a> {
    reads: Reads<'a>,
    given: &'a BTreeMap<Name, Tensor>,
    values: &'a mut BTreeMap<Name, Tensor>,
}

/// A call whose result is allocated for it alone.
struct Made<'a> {
    program: &'a TensorProgram,
    inputs: Vec<VarId>,
    result: VarId,
    dims: Vec<usize>,
    dtype: DType,
}

impl Evaluation<'_> {
    fn body(&mut self, body: &mut Body) {
        for Block { kind, bindings } in &mut body.blocks {
            let mut done: Vec<Binding> = Vec::with_capacity(bindings.len());
            for mut binding in std::mem::take(bindings) {
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    self.body(then);
                    self.body(otherwise);
                }
                done.push(binding);
                if *kind == BlockKind::Plain
                    && let Some((constant, name, value)) = self.evaluated(&done)
                {
                    self.values.insert(name, value);
                    done.truncate(done.len() - 3);
                    done.push(constant);
                }
            }
            *bindings = done;
        }
    }

    /// What stands in the place of the last three bindings, if they are such a call, and its value with a name for it.
    fn evaluated(&self, done: &[Binding]) -> Option<(Binding, Name, Tensor)> {
        let [.., storage, tensor, call] = done else { return None };
        let made = self.made(storage, tensor, call)?;
        let value = self.value(&made).ok()??;
        let base = match self.reads.constants.get(made.inputs.first()?)? {
            Atom::External(external) => external.name.clone(),
            _ => Name::new("constant"),
        };
        let name = self.fresh(&format!("{base}.{}", made.program.name));
        let dims = made.dims.iter().map(|&dim| i64::try_from(dim).ok().map(Dim::Int));
        let annotation = Annotation::tensor(dims.collect::<Option<_>>()?, made.dtype);
        let external = Arc::new(External { name: name.clone(), annotation });
        let expr = Expr::Atom(Atom::External(external));
        Some((Binding { var: made.result, expr }, name, value))
    }

    fn made(&self, storage: &Binding, tensor: &Binding, call: &Binding) -> Option<Made<'_>> {
        let room = operands(storage, "memory.alloc_storage")?;
        let [Atom::Var(within), Atom::Shape(dims), Atom::Str(dtype)] =
            operands(tensor, "memory.alloc_tensor")?
        else {
            return None;
        };
        let Expr::Call { callee: Callee::Global(name), args, .. } = &call.expr else { return None };
        let (Atom::Var(result), inputs) = args.split_last()? else { return None };
        let program = self.reads.module.tensor_program(name)?;
        let uses = |var| self.reads.uses.get(&var).copied().unwrap_or_default();
        let own = uses(storage.var);
        let fits = *within == storage.var
            && *result == tensor.var
            && room.len() == 2
            && (own.reads, own.writes, own.others) == (0, 0, 1)
            && (uses(tensor.var).writes, uses(tensor.var).others) == (1, 0)
            && program.params.iter().all(|param| matches!(param, Param::Buffer(_)))
            && written(program) == BTreeSet::from([inputs.len()]);
        let constant = |arg: &Atom| match arg {
            Atom::Var(var) if is_constant(&self.reads, *var) => Some(*var),
            _ => None,
        };
        let inputs = inputs.iter().map(constant).collect::<Option<Vec<_>>>()?;
        let extent = |dim: &Dim| usize::try_from(dim.as_int()?).ok();
        let dims = dims.iter().map(extent).collect::<Option<Vec<_>>>()?;
        let (dtype, result) = (DType::parse(dtype)?, *result);
        fits.then_some(Made { program, inputs, result, dims, dtype })
    }

    /// `None` where a value is not given, or some of the result is not written; an error where the program stops.
    fn value(&self, made: &Made<'_>) -> Result<Option<Tensor>, Stop> {
        let value = |var: &VarId| match self.reads.constants.get(var)? {
            Atom::External(external) => self.given.get(&external.name).cloned(),
            Atom::Constant(constant) => Some(constant_tensor(constant)),
            _ => None,
        };
        let Some(mut tensors) = made.inputs.iter().map(value).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        if let [source] = tensors.as_slice()
            && let Some(result) = moved(made.program, source, &made.dims)
        {
            return Ok(Some(result));
        }
        tensors.push(Tensor::undefined(made.dtype, &made.dims));
        let result = run(made.program, tensors, &[], &Options::default())?.pop();
        Ok(result.filter(|tensor| tensor.undefined_elements().is_none()))
    }

    fn fresh(&self, wanted: &str) -> Name {
        let taken = |name: &Name| self.given.contains_key(name) || self.values.contains_key(name);
        let numbered = (1..).map(|number| Name::new(format!("{wanted}.{number}")));
        let mut all = std::iter::once(Name::new(wanted)).chain(numbered);
        all.find(|name| !taken(name)).expect("invariant: numbers do not end")
    }
}

/// The operands of a call of an operator.
fn operands<'b>(binding: &'b Binding, operator: &str) -> Option<&'b [Atom]> {
    match &binding.expr {
        Expr::Call { callee: Callee::Operator(name), args, attrs }
            if name == operator && attrs.is_empty() =>
        {
            Some(args)
        }
        _ => None,
    }
}
