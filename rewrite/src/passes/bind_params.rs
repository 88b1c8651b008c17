//! Parameters of the entry function whose values are known become constants: what depends on them
//! alone is then decided, folded and laid out before the program runs.
//!
//! A small value is written into the text; a big one becomes an external constant of the name by which
//! the values are stored, so that the file of values still goes with the program. What the boundary of
//! the function has checked of such a parameter is checked here, once. A parameter stays where that
//! depends on dims that only the other parameters tell.

use super::fold_constant::{constant_of, has_text};
use crate::pass::{Exactness, Pass, PassContext};
use crate::references::references;
use crate::substitute::replace_dims;
use crate::verify::is_private;
use relax_program::externals::as_identifier;
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::{Dim, floor_mod};
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, Definition, DimVar, Expr, External, Function,
    Module, VarId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The record.
pub static PASS: Pass = Pass {
    name: "bind_params",
    doc: "Turns the parameters of the entry function (main, or the only public one) that have a value \
          in --params into constants; their symbolic dims become numbers.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// The code of an argument that a parameter cannot take.
const ARGUMENT: &str = "RX0222";
/// Elements of a value that is written into the text.
const MAX_IN_TEXT: usize = 64;

/// How many of the first parameters change from call to call; the others are weights.
pub(super) const NUM_INPUT: &str = "num_input";

/// The function that a program is entered by: `main`, or the only public one.
#[must_use]
pub fn entry(module: &Module) -> Option<&Function> {
    let named = module.function("main").filter(|function| function.lambda.body.is_some());
    named.or_else(|| {
        let mut public = module.functions().filter(|function| !is_private(function));
        let only = public.next().filter(|function| function.lambda.body.is_some())?;
        public.next().is_none().then_some(only)
    })
}

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let values = &context.settings.params;
    let Some(entry) = entry(module).filter(|entry| !is_used(module, &entry.name)) else {
        return Ok(result);
    };
    let given = given(entry, values)?;
    let bound = Bound::of(entry, &given)?;
    context.count_of("bound", bound.params.len(), given.len(), "parameters");
    context.count("replaced", bound.dims.len(), "symbolic variables");
    let rebuilt = bound.apply(entry);
    for definition in &mut result.definitions {
        if *definition.name() == rebuilt.name {
            *definition = Definition::Graph(rebuilt);
            break;
        }
    }
    Ok(result)
}

/// Whether some function of the module calls it, or holds it: its signature is then not ours alone.
fn is_used(module: &Module, name: &Name) -> bool {
    module.functions().any(|function| {
        let references = references(function);
        references.called.contains(name) || references.held.contains(name)
    })
}

type Given<'v> = BTreeMap<VarId, (&'v Name, &'v Tensor)>;

/// The values of parameters, with the names by which they are stored.
fn given<'v>(
    function: &Function,
    values: &'v BTreeMap<Name, Tensor>,
) -> Result<Given<'v>, Diagnostic> {
    let mut given = Given::new();
    for (stored, value) in values {
        let name = as_identifier(stored);
        let mut params = function.lambda.params.iter();
        let Some(&param) = params.find(|&&param| function.var(param).name == *name) else {
            continue;
        };
        if let Some((other, _)) = given.insert(param, (stored, value)) {
            let message = format!("the parameter `{name}` could be `{other}` or `{stored}`");
            return Err(Diagnostic::error(ARGUMENT, function.var(param).span, message));
        }
    }
    Ok(given)
}

/// Parameters that become constants, and the values of the dims that they tell.
struct Bound<'v> {
    params: Given<'v>,
    dims: BTreeMap<Name, Dim>,
}

impl<'v> Bound<'v> {
    fn of(function: &Function, given: &Given<'v>) -> Result<Self, Diagnostic> {
        let mut params = given.clone();
        let mut known = known_dims(function, &params)?;
        loop {
            let count = params.len();
            let mut decided = BTreeMap::new();
            for (&param, &(stored, value)) in &params {
                let dims = declared(function, param, value)?;
                if dims.iter().all(|dim| dim.vars_all(&|name| known.contains_key(name))) {
                    decided.insert(param, (stored, value));
                }
            }
            params = decided;
            known = known_dims(function, &params)?;
            if params.len() == count {
                break;
            }
        }
        for variable in function.dims.iter().filter(|dim| known.contains_key(&dim.name)) {
            hold_declared(variable, known[&variable.name])?;
        }
        for (&param, (_, value)) in &params {
            hold_dims(function, param, value, &known)?;
        }
        let dims = known.into_iter().map(|(name, value)| (name, Dim::Int(value))).collect();
        Ok(Self { params, dims })
    }

    fn apply(&self, function: &Function) -> Function {
        let mut function = function.clone();
        self.recount_inputs(&mut function);
        function.lambda.params.retain(|param| !self.params.contains_key(param));
        function.dims.retain(|dim| !self.dims.contains_key(&dim.name));
        let mut bindings = Vec::with_capacity(self.params.len());
        for (&var, (stored, value)) in &self.params {
            let dims = extents(value).map(Dim::Int).collect();
            let annotation = Annotation::tensor(dims, value.dtype());
            let atom = if value.len() <= MAX_IN_TEXT && has_text(value) {
                Atom::Constant(Arc::new(constant_of(value)))
            } else {
                let (name, annotation) = ((*stored).clone(), annotation.clone());
                Atom::External(Arc::new(External { name, annotation }))
            };
            function.vars[var.0 as usize].annotation = Some(annotation);
            bindings.push(Binding { var, expr: Expr::Atom(atom) });
        }
        if let Some(body) = &mut function.lambda.body {
            body.blocks.insert(0, Block { kind: BlockKind::Plain, bindings });
            crate::blocks::tidy(body);
        }
        replace_dims(&mut function, self.dims.clone());
        function
    }

    /// `num_input` counts parameters from the first on.
    fn recount_inputs(&self, function: &mut Function) {
        let params = &function.lambda.params;
        for (key, value) in &mut function.lambda.attrs {
            if let (true, AttrValue::Int(count)) = (key == NUM_INPUT, value) {
                let inputs = params.iter().take(usize::try_from(*count).unwrap_or(0));
                let gone = inputs.filter(|param| self.params.contains_key(param)).count();
                *count -= i64::try_from(gone).unwrap_or(0);
            }
        }
    }
}

/// The variables that parameters tell, each where it first stands alone.
fn known_dims(function: &Function, params: &Given) -> Result<BTreeMap<Name, i64>, Diagnostic> {
    let mut known = BTreeMap::new();
    for (&param, &(_, value)) in params {
        for (dim, extent) in declared(function, param, value)?.iter().zip(extents(value)) {
            if let Dim::Var(name) = dim {
                known.entry(name.clone()).or_insert(extent);
            }
        }
    }
    Ok(known)
}

fn extents(value: &Tensor) -> impl Iterator<Item = i64> {
    value.shape().iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX))
}

/// The dims of a parameter's annotation, of the value's rank and dtype; none where it has none.
fn declared(function: &Function, param: VarId, value: &Tensor) -> Result<Vec<Dim>, Diagnostic> {
    let annotation = function.param_annotation(param);
    let Annotation::Tensor(tensor) = annotation else { return Err(misfit(function, param, value)) };
    let dtype = tensor.dtype.is_none_or(|dtype| dtype == value.dtype());
    let rank = tensor.extents.rank().is_none_or(|rank| rank == value.rank());
    if !dtype || !rank {
        return Err(misfit(function, param, value));
    }
    Ok(tensor.extents.dims().unwrap_or_default().to_vec())
}

/// Compares every dim with its value.
fn hold_dims(
    function: &Function,
    param: VarId,
    value: &Tensor,
    known: &BTreeMap<Name, i64>,
) -> Result<(), Diagnostic> {
    let dims = declared(function, param, value)?;
    let fits = dims.iter().zip(extents(value)).all(|(dim, extent)| {
        dim.eval(&|name| known.get(name).copied()).is_ok_and(|value| value == extent)
    });
    if fits { Ok(()) } else { Err(misfit(function, param, value)) }
}

fn misfit(function: &Function, param: VarId, value: &Tensor) -> Diagnostic {
    let info = function.var(param);
    let dims = extents(value).map(Dim::Int).collect();
    let found = Annotation::tensor(dims, value.dtype());
    let annotation = function.param_annotation(param);
    let message = format!("the parameter `{}` is `{annotation}`, its value {found}", info.name);
    Diagnostic::error(ARGUMENT, info.span, message)
}

/// Compares a value with what is declared of its variable.
fn hold_declared(variable: &DimVar, value: i64) -> Result<(), Diagnostic> {
    let above = variable.lower.is_none_or(|lower| lower <= value);
    let below = variable.upper.is_none_or(|upper| value <= upper);
    let divides = variable.multiple_of.is_none_or(|step| floor_mod(value, step) == Some(0));
    if above && below && divides {
        return Ok(());
    }
    let message = format!("`{}` is {value}, which its declaration excludes", variable.name);
    Err(Diagnostic::error(ARGUMENT, variable.span, message))
}
