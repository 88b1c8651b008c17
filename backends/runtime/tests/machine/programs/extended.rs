//! Programs of one function `f` beside the usual ones, with further constants.

use super::{Double, call, function, image, r, to};
use relax_runtime::file::Image;
use relax_runtime::instruction::{Instruction as I, Operand};
use relax_runtime::program::Constant;
use relax_runtime::{DType, Module, Number, Stop, Tuple, Value};

pub(crate) const ONE: Operand = Operand::Constant(0);
pub(crate) const ZERO: Operand = Operand::Constant(1);
/// A tensor of two elements.
pub(crate) const PAIR: Operand = Operand::Constant(2);
/// Constants that these tests add.
pub(crate) const MINUS: Operand = Operand::Constant(3);
pub(crate) const WORD: Operand = Operand::Constant(4);
pub(crate) const ITSELF: Operand = Operand::Constant(5);
pub(crate) const TWO_BY_THREE: Operand = Operand::Constant(6);
pub(crate) const TRUE: Operand = Operand::Constant(7);
pub(crate) const HALF: Operand = Operand::Constant(8);

pub(crate) fn with(params: u32, registers: u32, code: Vec<I>) -> Image {
    let mut image = image();
    image.program.functions.push(function("f", params, registers, code));
    image.program.functions.push(function(
        "pair",
        2,
        3,
        vec![I::Tuple { to: to(2), items: [r(0), r(1)].into() }, I::Return(r(2))],
    ));
    image.program.constants.extend([
        Constant::Scalar(DType::I64, Number::Int(-1)),
        Constant::Str("word".to_owned()),
        Constant::Function(5),
        Constant::Shape(vec![2, 3]),
        Constant::Scalar(DType::Bool, Number::Int(1)),
        Constant::Scalar(DType::F32, Number::Float(0.5)),
    ]);
    image.program.texts.push(String::new());
    image
}

pub(crate) fn run(code: Vec<I>, args: &[Value]) -> Result<Value, Stop> {
    let params = u32::try_from(args.len()).expect("few arguments");
    let mut module =
        Module::new(with(params, 8, code), Box::new(Double)).expect("the program is valid");
    module.register("add_one", |call| Ok(Value::Tuple(Tuple::new(call.args.clone())?)));
    call(&module, "f", args)
}

/// What `f` stops with; notes are left out.
pub(crate) fn stop(code: Vec<I>, args: &[Value]) -> String {
    let shown = format!("{code:?}");
    match run(code, args) {
        Err(stop) => stop.to_string(),
        Ok(value) => panic!("{shown}: {value:?}"),
    }
}
