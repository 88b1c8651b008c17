//! `call_tir` and `call_tir_inplace`.

use super::super::{Constraint, Eval, Infer, Known, Machine, Reject, constraint};
use crate::check::signature::Matching;
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::Param;

pub(super) const CONSTRAINTS: &[Constraint] = &[
    constraint("C1", "func is a tensor program of the module"),
    constraint(
        "C2",
        "it has as many buffers as there are inputs and outputs, as many scalars as sym_args",
    ),
    constraint("C3", "inputs are tensors of the dtype and rank of their buffers"),
    constraint("C4", "dims of inputs fit the shapes of their buffers"),
    constraint(
        "C5",
        "out is a Tensor annotation or a list of them, with dims, and the dtypes and shapes of the output buffers",
    ),
];

pub(super) const INPLACE_CONSTRAINTS: &[Constraint] = &[
    constraint("C1", "func is a tensor program of the module"),
    constraint(
        "C2",
        "it has as many buffers as there are inputs and fresh outputs, as many scalars as sym_args",
    ),
    constraint("C3", "inputs are tensors of the dtype and rank of their buffers"),
    constraint("C4", "dims of inputs fit the shapes of their buffers"),
    constraint(
        "C5",
        "out is a Tensor annotation or a list of them, with dims, and the dtypes and shapes of the output buffers",
    ),
    constraint(
        "C6",
        "inplace has one entry an output: the position of an argument, each at most once, or -1",
    ),
];

/// The annotations of the outputs, each of a tensor, and whether they stand in a list.
pub(super) struct Outputs {
    pub(super) types: Vec<Annotation>,
    pub(super) is_list: bool,
}

/// Reads the parameter `out`.
pub(super) fn outputs(infer: &Infer, id: &'static str) -> Result<Outputs, Reject> {
    let wrong = || infer.reject(id, "`out` must be a Tensor annotation or a list of them");
    let tensor = |annotation: &Annotation| match annotation.as_tensor() {
        Some(_) => Ok(annotation.clone()),
        None => Err(wrong()),
    };
    match &infer.operand("out").known {
        Some(Known::Annotation(annotation)) => match &**annotation {
            Annotation::Tuple(items) => {
                let types = items.iter().map(tensor).collect::<Result<_, _>>()?;
                Ok(Outputs { types, is_list: true })
            }
            single => Ok(Outputs { types: vec![tensor(single)?], is_list: false }),
        },
        Some(Known::List(items)) => {
            let types = items.iter().map(|item| match item {
                Known::Annotation(annotation) => tensor(annotation),
                _ => Err(wrong()),
            });
            Ok(Outputs { types: types.collect::<Result<_, _>>()?, is_list: true })
        }
        _ => Err(wrong()),
    }
}

impl Outputs {
    /// What the call gives.
    pub(super) fn annotation(&self) -> Annotation {
        match (self.is_list, self.types.as_slice()) {
            (false, [single]) => single.clone(),
            _ => Annotation::Tuple(self.types.clone()),
        }
    }
}

/// The inputs: a tuple or list, or a single tensor; `None` when nothing is known of them.
fn inputs(infer: &Infer) -> Option<Vec<Annotation>> {
    match &infer.operand("args").annotation {
        Annotation::Tuple(items) => Some(items.clone()),
        Annotation::Object => None,
        single => Some(vec![single.clone()]),
    }
}

pub(super) fn infer_call_tir(infer: &mut Infer) -> Result<Annotation, Reject> {
    let outputs = outputs(infer, "C5")?;
    let result = outputs.annotation();
    let Some(mut buffers) = inputs(infer) else { return Ok(result) };
    let first_output = buffers.len();
    buffers.extend(outputs.types.iter().cloned());
    check_buffers(infer, &buffers, first_output)?;
    Ok(result)
}

pub(super) fn infer_call_tir_inplace(infer: &mut Infer) -> Result<Annotation, Reject> {
    let outputs = outputs(infer, "C5")?;
    let result = outputs.annotation();
    let positions = infer.ints("inplace")?;
    if positions.len() != outputs.types.len() {
        let message =
            format!("there are {} outputs and {} positions", outputs.types.len(), positions.len());
        return Err(infer.reject("C6", message));
    }
    let Some(mut buffers) = inputs(infer) else { return Ok(result) };
    let first_output = buffers.len();
    let mut seen = Vec::new();
    for (position, output) in positions.iter().zip(&outputs.types) {
        let argument =
            usize::try_from(*position).ok().and_then(|at| buffers[..first_output].get(at));
        match argument.cloned() {
            Some(_) if seen.contains(position) => {
                let message = format!("argument {position} stands for two outputs");
                return Err(infer.reject("C6", message));
            }
            Some(argument) => {
                seen.push(*position);
                same_type(infer, &argument, output)?;
            }
            None if *position == -1 => buffers.push(output.clone()),
            None => return Err(infer.reject("C6", format!("there is no argument {position}"))),
        }
    }
    check_buffers(infer, &buffers, first_output)?;
    Ok(result)
}

/// An output that is an argument has its annotation.
fn same_type(infer: &mut Infer, argument: &Annotation, output: &Annotation) -> Result<(), Reject> {
    let (Some(tensor), Some(output)) = (argument.as_tensor(), output.as_tensor()) else {
        return Ok(());
    };
    if let (Some(a), Some(b)) = (tensor.dtype, output.dtype)
        && a != b
    {
        return Err(
            infer.reject("C5", format!("an output of dtype {b} is an argument of dtype {a}"))
        );
    }
    infer.require_same_shape(
        "C5",
        &tensor.extents,
        &output.extents,
        "an output and its argument",
    )?;
    Ok(())
}

fn check_buffers(
    infer: &mut Infer,
    found: &[Annotation],
    first_output: usize,
) -> Result<(), Reject> {
    let Some(Known::Global(name)) = infer.operand("func").known.clone() else {
        return Err(infer.reject("C1", "`func` must be a tensor program of the module"));
    };
    let Some(module) = infer.module else { return Ok(()) };
    let Some(program) = module.tensor_program(&name) else {
        return Err(infer.reject("C1", format!("`{name}` is no tensor program of the module")));
    };
    let (buffers, scalars) = parameters(program);
    if buffers.len() != found.len() {
        let message = format!(
            "`{name}` has {} buffers, the call has {} inputs and {} outputs",
            buffers.len(),
            first_output,
            found.len() - first_output
        );
        return Err(infer.reject("C2", message));
    }
    let given = if infer.is_none("sym_args") { Vec::new() } else { infer.dims("sym_args")? };
    if scalars.len() != given.len() {
        let message =
            format!("`{name}` has {} scalars, the call has {}", scalars.len(), given.len());
        return Err(infer.reject("C2", message));
    }
    let mut matching = Matching::default();
    for (scalar, value) in scalars.iter().zip(&given) {
        if let Some(name) = scalar {
            matching.dims.insert(name.clone(), value.clone());
        }
    }
    for (index, (buffer, found)) in buffers.iter().zip(found).enumerate() {
        let id = if index < first_output { "C3" } else { "C5" };
        matching.argument(index, buffer, found, &|_| true).map_err(|why| infer.reject(id, why))?;
    }
    check_dims(infer, &matching, first_output)
}

/// Dims of inputs and outputs against the shapes of buffers, the dims of the program being known
/// from where they stand alone.
fn check_dims(infer: &mut Infer, matching: &Matching, first_output: usize) -> Result<(), Reject> {
    for equation in &matching.equations {
        if !equation.param.vars_all(&|name| matching.dims.contains_key(name)) {
            continue;
        }
        let expected = equation.param.substitute(&matching.dims);
        let id = if equation.index < first_output { "C4" } else { "C5" };
        infer.require_equal(id, &expected, &equation.argument, || {
            format!(
                "{} must be {} = {expected}, found {}",
                equation.place, equation.param, equation.argument
            )
        })?;
    }
    Ok(())
}

/// The annotations of the buffers, and the scalars: the symbolic variable that each binds, if any.
fn parameters(program: &TensorProgram) -> (Vec<Annotation>, Vec<Option<Name>>) {
    let (mut buffers, mut scalars) = (Vec::new(), Vec::new());
    for param in &program.params {
        match param {
            Param::Buffer(id) => {
                let buffer = program.buffer(*id);
                buffers.push(Annotation::tensor(buffer.shape.clone(), buffer.dtype));
            }
            Param::Dim(name) => scalars.push(Some(name.clone())),
            Param::Scalar(_) => scalars.push(None),
        }
    }
    (buffers, scalars)
}

fn arguments(eval: &Eval) -> Result<Vec<Tensor>, Stop> {
    let items = match eval.value("args") {
        Value::Tuple(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let tensors = items.iter().map(|item| match item {
        Value::Tensor(tensor) => Ok(tensor.clone()),
        other => Err(eval.trap("C3", format!("an input must be a tensor, found {}", other.kind()))),
    });
    tensors.collect()
}

fn program_name(eval: &Eval) -> Result<Name, Stop> {
    match eval.value("func") {
        Value::Global(name) => Ok(name.clone()),
        other => Err(eval.trap("C1", format!("expected a tensor program, found {}", other.kind()))),
    }
}

fn scalars(eval: &Eval) -> Vec<i64> {
    if eval.is_none("sym_args") { Vec::new() } else { eval.ints("sym_args") }
}

/// A fresh tensor of a declared output.
fn fresh(eval: &Eval, output: &Annotation) -> Result<Tensor, Stop> {
    let known = output.as_tensor().and_then(|tensor| {
        let dims = tensor.extents.dims()?.iter().map(Dim::as_int).collect::<Option<Vec<_>>>()?;
        Some((tensor.dtype?, dims))
    });
    let Some((dtype, dims)) = known else {
        let message = format!("an output must be declared with dims and dtype, found `{output}`");
        return Err(eval.trap("C5", message));
    };
    Ok(Tensor::undefined(dtype, &eval.checked_shape(&dims, dtype)?))
}

fn declared(eval: &Eval) -> Vec<Annotation> {
    match eval.out {
        Annotation::Tuple(items) => items.clone(),
        single => vec![single.clone()],
    }
}

fn results(eval: &Eval, tensors: Vec<Tensor>) -> Value {
    let mut values = tensors.into_iter().map(Value::Tensor);
    match eval.out {
        Annotation::Tuple(_) => Value::Tuple(values.collect()),
        _ => values.next().unwrap_or(Value::Tuple(Vec::new())),
    }
}

pub(super) fn eval_call_tir(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let outputs = declared(eval).iter().map(|o| fresh(eval, o)).collect::<Result<Vec<_>, _>>()?;
    let (name, inputs) = (program_name(eval)?, arguments(eval)?);
    let written = machine.run_tensor_program(&name, inputs, outputs, scalars(eval))?;
    Ok(results(eval, written))
}

pub(super) fn eval_call_tir_inplace(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let positions = eval.ints("inplace");
    let mut buffers = arguments(eval)?;
    let mut sources = Vec::new();
    for (position, output) in positions.iter().zip(declared(eval)) {
        match usize::try_from(*position) {
            Ok(at) => sources.push(at),
            Err(_) => {
                sources.push(buffers.len());
                buffers.push(fresh(eval, &output)?);
            }
        }
    }
    let name = program_name(eval)?;
    let all = machine.run_tensor_program(&name, Vec::new(), buffers, scalars(eval))?;
    Ok(results(eval, sources.into_iter().map(|at| all[at].clone()).collect()))
}
