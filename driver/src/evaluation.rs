//! Compile-time evaluation (partial evaluation) of graph functions whose arguments are external constants, or that have none: fields of
//! weights are packed, matrices are quantized, and tables of speech features are computed so. The functions are compiled once for all shapes, bit for bit as the interpreter computes.

use crate::{BuildError, KernelCheck, Target, build_cpu, lower};
use relax_cpu::{Cache, Compiler};
use relax_lower::constants::Evaluated;
use relax_lower::program::Around;
use relax_reference::{to_machine, to_semantics};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Failed, Unwatched};
use relax_runtime::program::Numerics;
use relax_runtime::{Limits, Module as Machine};
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::references::reached_from;
use relax_syntax::ir::{Atom, Body, Callee, Definition, Expr, External, Function, Module};
use relax_syntax::span::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Why calls on constants are not evaluated.
#[derive(Debug, Error)]
pub enum EvaluationError {
    /// A pass refuses the functions.
    #[error("the functions of constants cannot be lowered: {0:?}")]
    Lowering(Box<Failed>),
    /// There is no machine code of them.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A call fails.
    #[error("`{function}({constants})`: {why}")]
    Call {
        /// Of the program, called on constants.
        function: Name,
        /// The names of its arguments.
        constants: String,
        /// What the VM says.
        why: String,
    },
}

/// A function and the names of the constants that it is called on.
type Call = (Name, Vec<Name>);

/// A module where each call of a graph function on external constants alone, or on nothing, is an external constant, and the values of these; those that
/// the text has no more are left out. Calls in branches and those whose arguments have no value here stay.
///
/// # Errors
/// When the functions cannot be compiled, or a call of one stops.
pub fn evaluate_calls(
    module: &Module,
    params: BTreeMap<Name, Tensor>,
    source: &Source,
    compiler: (&Compiler, &Cache),
) -> Result<Evaluated, EvaluationError> {
    let bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
    let calls = bodies.flat_map(Body::bindings).filter_map(|binding| call(module, &binding.expr));
    let has_values = |call: &Call| call.1.iter().all(|name| params.contains_key(name));
    let found: BTreeSet<Call> = calls.filter(has_values).collect();
    if found.is_empty() {
        return Ok(Evaluated { module: module.clone(), values: params });
    }
    let machine = machine(module, &found, source, compiler)?;
    let mut values = params;
    let mut names = BTreeMap::new();
    for call in found {
        let name = fresh(&call, &values);
        let value = evaluated(&machine, &call, &values)?;
        let dims = value.shape().iter().map(|&extent| i64::try_from(extent).map(Dim::Int));
        let dims = dims.collect::<Result<_, _>>().expect("invariant: a tensor is in memory");
        let annotation = Annotation::tensor(dims, value.dtype());
        names.insert(call, External { name: name.clone(), annotation });
        values.insert(name, value);
    }
    let mut result = module.clone();
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        let Some(body) = &mut function.lambda.body else { continue };
        replace(module, body, &names);
    }
    let used = relax_program::externals::externals(&result);
    values.retain(|name, _| used.contains_key(name));
    Ok(Evaluated { module: result, values })
}

/// A call of a graph function on external constants alone, or on nothing.
fn call(module: &Module, expr: &Expr) -> Option<Call> {
    let Expr::Call { callee: Callee::Global(name), args, attrs } = expr else { return None };
    let external = |arg: &Atom| match arg {
        Atom::External(external) => Some(external.name.clone()),
        _ => None,
    };
    let args = args.iter().map(external).collect::<Option<Vec<_>>>()?;
    let is_graph = module.functions().any(|function| function.name == *name);
    (attrs.is_empty() && is_graph).then(|| (name.clone(), args))
}

/// The functions of the calls as machine code.
fn machine(
    module: &Module,
    calls: &BTreeSet<Call>,
    source: &Source,
    (compiler, cache): (&Compiler, &Cache),
) -> Result<Machine, EvaluationError> {
    let called: BTreeSet<Name> = calls.iter().map(|(function, _)| function.clone()).collect();
    let reached = reached_from(module, called.clone().into_iter().collect());
    let mut part = module.clone();
    part.definitions.retain(|definition| reached.contains(definition.name()));
    for definition in &mut part.definitions {
        if let Definition::Graph(function) = definition
            && called.contains(&function.name)
        {
            publish(function);
        }
    }
    let lowered = lower(&Target::default(), &part, &Settings::default(), &mut Unwatched)
        .map_err(|failed| EvaluationError::Lowering(Box::new(failed)))?;
    let externals = BTreeMap::new();
    let around = Around { externals: &externals, source, signatures: &part };
    let image =
        build_cpu(&lowered.module, &around, Numerics::Exact, (compiler, cache), KernelCheck::Off)?;
    let limits = Limits { bytes: usize::MAX, ..Limits::default() };
    Machine::load_with(&image.to_bytes(), limits).map_err(|error| {
        let (function, constants) = calls.first().expect("invariant: there are calls");
        let (function, constants) = (function.clone(), shown(constants));
        EvaluationError::Call { function, constants, why: error.to_string() }
    })
}

fn shown(constants: &[Name]) -> String {
    constants.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

/// Makes a function one that may be called from outside.
fn publish(function: &mut Function) {
    function.lambda.attrs.retain(|(key, _)| key != "private");
}

fn evaluated(
    machine: &Machine,
    (function, constants): &Call,
    values: &BTreeMap<Name, Tensor>,
) -> Result<Tensor, EvaluationError> {
    let fails = |why: String| EvaluationError::Call {
        function: function.clone(),
        constants: shown(constants),
        why,
    };
    let argument = |name: &Name| to_machine(&Value::Tensor(values[name].clone()));
    let arguments = constants.iter().map(argument).collect::<Result<Vec<_>, _>>().map_err(fails)?;
    let entry =
        machine.function(function.as_str()).ok_or_else(|| fails("it is not there".to_owned()))?;
    let result = entry.call(&arguments).map_err(|stop| fails(stop.to_string()))?;
    match to_semantics(&result, &mut |_| None).map_err(fails)? {
        Value::Tensor(tensor) => Ok(tensor),
        _ => Err(fails("its result is no tensor".to_owned())),
    }
}

/// A name that nothing has yet, such as `blk.0.attn_q.weight.qs.nibbles_4`.
fn fresh((function, constants): &Call, taken: &BTreeMap<Name, Tensor>) -> Name {
    let wanted = match constants.last() {
        Some(last) => format!("{last}.{function}"),
        None => function.to_string(),
    };
    let numbered = (1..).map(|number| Name::new(format!("{wanted}.{number}")));
    let mut all = std::iter::once(Name::new(wanted.as_str())).chain(numbered);
    all.find(|name| !taken.contains_key(name)).expect("invariant: numbers do not end")
}

fn replace(module: &Module, body: &mut Body, names: &BTreeMap<Call, External>) {
    for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
        let made = call(module, &binding.expr).and_then(|call| names.get(&call));
        if let Some(external) = made {
            binding.expr = Expr::Atom(Atom::External(Arc::new(external.clone())));
        }
    }
}
