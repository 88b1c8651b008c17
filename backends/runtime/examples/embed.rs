//! Embeds a module: loads a file of `relax build`, says what it offers, and calls a function on tensors of ones.
//!
//!     relax build rows.rx -o rows.rxm
//!     cargo run --release -p relax-runtime --example embed -- rows.rxm main 2x4 2x4

use relax_runtime::{Module, Tensor, Value};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, function, shapes @ ..] = words.as_slice() else {
        return Err("usage: embed FILE.rxm FUNCTION [SHAPE...], a SHAPE such as 2x4".into());
    };
    let module = Module::load(&std::fs::read(file)?)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", module.metadata().signatures)?;
    for name in module.missing() {
        writeln!(out, "the program calls `{name}`, which is not registered here")?;
    }
    let callable = module.function(function).ok_or("the module offers no such function")?;
    let args = shapes.iter().map(|shape| ones(shape)).collect::<Result<Vec<_>, _>>()?;
    show(&mut out, &callable.call(&args)?)
}

/// `2x4`
fn ones(shape: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let dims = shape.split('x').map(str::parse).collect::<Result<Vec<i64>, _>>()?;
    let elements = usize::try_from(dims.iter().product::<i64>())?;
    Ok(Value::Tensor(Tensor::from_f32(&dims, &vec![1.0; elements])?))
}

fn show(out: &mut impl Write, value: &Value) -> Result<(), Box<dyn std::error::Error>> {
    match value {
        Value::Tuple(tuple) => tuple.items().iter().try_for_each(|item| show(out, item)),
        Value::Tensor(tensor) => {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            match tensor.to_f32() {
                Some(elements) => Ok(writeln!(out, "{dtype} {shape:?}: {elements:?}")?),
                None => Ok(writeln!(out, "{dtype} {shape:?}")?),
            }
        }
        other => Ok(writeln!(out, "{}", other.kind())?),
    }
}
