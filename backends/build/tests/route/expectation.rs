//! A call of a loaded module held against an expectation of the corpus, for every device.

use super::Device;
use relax_corpus::compare::{Relation, compare};
use relax_corpus::directive::{Call, Kind};
use relax_corpus::pipeline::parameters;
use relax_corpus::spec::Context;
use relax_reference::{stop_to_semantics, to_machine, to_semantics};
use relax_runtime as machine;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::ir::Module;
use relax_syntax::parse::parse_expression;

/// Reads the SPECs, as the signature in the text says, and calls.
pub(crate) fn perform(
    module: &machine::Module,
    text: &Module,
    call: &Call,
) -> Result<Result<Value, Stop>, String> {
    let parameters = parameters(text, &call.function).ok_or("no such function")?;
    let mut arguments = Vec::new();
    for (index, spec) in call.arguments.iter().enumerate() {
        let parameter = parameters.get(index);
        let name = parameter.map_or("extra", |(name, _)| name.as_str());
        let target = parameter.map(|(_, annotation)| annotation);
        let value = Context::default().value(name, spec, target).map_err(|why| why.to_string())?;
        arguments.push(to_machine(&value)?);
    }
    let function = module.function(&call.function);
    let function = function.ok_or_else(|| format!("`{}` is not offered", call.function))?;
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    match function.call(&arguments) {
        Ok(value) => Ok(Ok(to_semantics(&value, &mut named)?)),
        Err(stop) => Ok(Err(stop_to_semantics(stop))),
    }
}

/// Whether what came of a call is what was expected, as far as the device promises it.
pub(crate) fn held(
    kind: &Kind,
    result: Result<Value, Stop>,
    text: &str,
    device: Device,
) -> Result<(), String> {
    match (kind, result) {
        (Kind::Run { relation, want, .. }, Ok(got)) => {
            let expr = parse_expression(&text[want.clone()], 0).map_err(|d| d.message)?;
            let want = Context::default()
                .value("expected", &expr, Some(&got.annotation()))
                .map_err(|why| format!("the expected value: {why}"))?;
            match device {
                Device::Fast => near(&want, &got),
                Device::Reference | Device::Cpu => compare(*relation, &want, &got),
            }
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

/// How far sums in f32 may be off in the corpus, of the largest element of a result or of 1: they are of few terms, which are small.
const NEAR: f64 = 1.0 / (1 << 20) as f64;

fn near(want: &Value, got: &Value) -> Result<(), String> {
    compare(Relation::Shaped, want, got)?;
    match (want, got) {
        (Value::Tuple(want), Value::Tuple(got)) => {
            want.iter().zip(got).try_for_each(|(want, got)| near(want, got))
        }
        (Value::Tensor(want), Value::Tensor(got)) if want.dtype().is_float() => {
            let values = |tensor: &Tensor| -> Vec<f64> {
                (0..tensor.len()).map(|at| tensor.number(at).as_f64()).collect()
            };
            let (want, got) = (values(want), values(got));
            let finite = want.iter().filter(|value| value.is_finite());
            let bound = NEAR * finite.fold(1.0_f64, |most, value| most.max(value.abs()));
            let is_near = |(want, got): &(&f64, &f64)| {
                want == got || want.is_nan() && got.is_nan() || (*want - *got).abs() <= bound
            };
            match want.iter().zip(&got).find(|both| !is_near(both)) {
                None => Ok(()),
                Some((want, got)) => Err(format!("expected {want}, found {got}")),
            }
        }
        _ => Ok(()),
    }
}
