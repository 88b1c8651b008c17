//! A call of a loaded module held against an expectation of the corpus, for every device.

use relax_corpus::directive::{Call, Kind};
use relax_program::compare::Relation;
use relax_program::frontend::parameters;
use relax_program::spec::Context;
use relax_reference::{stop_to_semantics, to_machine, to_semantics};
use relax_runtime as machine;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::ir::Module;
use relax_syntax::parse::parse_expression;

/// Reads the SPECs, as the signature in the text says, and calls.
pub(crate) fn perform(
    module: &machine::Module,
    text: &Module,
    call: &Call,
) -> Result<Result<Value, Stop>, String> {
    let arguments = arguments(text, call)?;
    let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>()?;
    let function = module.function(&call.function);
    let function = function.ok_or_else(|| format!("`{}` is not offered", call.function))?;
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    match function.call(&arguments) {
        Ok(value) => Ok(Ok(to_semantics(&value, &mut named)?)),
        Err(stop) => Ok(Err(stop_to_semantics(stop))),
    }
}

/// The arguments of a call, read as the signature in the text says.
pub(crate) fn arguments(text: &Module, call: &Call) -> Result<Vec<Value>, String> {
    let parameters = parameters(text, &call.function).ok_or("no such function")?;
    let mut arguments = Vec::new();
    for (index, spec) in call.arguments.iter().enumerate() {
        let parameter = parameters.get(index);
        let name = parameter.map_or("extra", |(name, _)| name.as_str());
        let target = parameter.map(|(_, annotation)| annotation);
        arguments
            .push(Context::default().value(name, spec, target).map_err(|why| why.to_string())?);
    }
    Ok(arguments)
}

/// The first difference of what was expected and what was found.
pub(crate) type Comparison = fn(Relation, &Value, &Value) -> Result<(), String>;

/// Whether what came of a call is what was expected, as `compare` sees it.
pub(crate) fn held(
    kind: &Kind,
    result: Result<Value, Stop>,
    text: &str,
    compare: Comparison,
) -> Result<(), String> {
    match (kind, result) {
        (Kind::Run { relation, want, .. }, Ok(got)) => {
            let expr = parse_expression(&text[want.clone()], 0).map_err(|d| d.message)?;
            let want = Context::default()
                .value("expected", &expr, Some(&got.annotation()))
                .map_err(|why| format!("the expected value: {why}"))?;
            compare(*relation, &want, &got)
        }
        (Kind::Run { call, .. }, Err(stop)) => Err(format!("{} stops: {stop}", call.text)),
        (Kind::Trap { id, .. }, Err(Stop::Trap(trap))) if trap.id == *id => Ok(()),
        (Kind::Trap { id, call }, Err(stop)) => {
            Err(format!("{}: expected the trap {id}, found {stop}", call.text))
        }
        (Kind::Trap { id, call }, Ok(_)) => {
            Err(format!("{}: expected the trap {id}, found a value", call.text))
        }
        _ => Ok(()),
    }
}
