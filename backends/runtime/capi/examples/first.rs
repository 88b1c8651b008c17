//! Calls `main` of a module file: `cargo run --example first -- double.rxm`.
#![allow(clippy::print_stdout)] // it is for a terminal

use relax_runtime::{Limits, Module, Tensor, Value};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("the path of a module file is missing")?;
    let module = Module::open(Path::new(&path), Limits { threads: 1, ..Limits::default() })?;
    let main = module.function("main").ok_or("there is no `main`")?;
    for parameter in main.parameters() {
        println!("{}: {}", parameter.name, parameter.annotation);
    }
    let x = Tensor::from_f32(&[3], &[1.0, 2.5, -3.0])?;
    match main.call(&[Value::Tensor(x)])? {
        Value::Tensor(y) => println!("{:?}", y.to_f32().ok_or("the result is not of f32")?),
        other => println!("{other:?}"),
    }
    Ok(())
}
