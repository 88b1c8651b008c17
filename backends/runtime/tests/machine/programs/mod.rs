//! Programs that a person would write down in P2.3, as the compiler makes them.

pub(crate) mod extended;

use relax_runtime::file::Image;
use relax_runtime::instruction::{Code, Instruction as I, Kind, Label, Operand, Register, Text};
use relax_runtime::program::{Constant, Function, Kernel, Metadata, Param, Program, Site};
use relax_runtime::{
    DType, KernelTrap, Kernels, Limits, Module, Number, Span, Stop, Tensor, TensorArg, Value,
};

/// Doubles a vector of f32; stops at its only site when the first element is negative.
pub(crate) struct Double;

impl Kernels for Double {
    fn call(&self, _: usize, tensors: &[TensorArg<'_>], _: &[i64]) -> Result<(), KernelTrap> {
        let bytes = tensors[0].to_bytes();
        let read = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        let elements: Vec<f32> = bytes.chunks_exact(4).map(read).collect();
        if elements.first().is_some_and(|&first| first < 0.0) {
            return Err(KernelTrap::Site(0));
        }
        let doubled: Vec<u8> = elements.iter().flat_map(|x| (x * 2.0).to_ne_bytes()).collect();
        tensors[1].write(&doubled)
    }
}

pub(crate) fn r(register: u32) -> Operand {
    Operand::Register(register)
}

pub(crate) fn c(constant: u32) -> Operand {
    Operand::Constant(constant)
}

pub(crate) fn to(register: u32) -> Register {
    Register(register)
}

/// A function that is offered under its name.
pub(crate) fn function(name: &str, params: u32, registers: u32, code: Vec<I>) -> Function {
    let spans = (0..code.len()).map(|at| Span { start: at as u32, end: at as u32 + 1 }).collect();
    let symbol = Some(name.to_owned());
    let span = Span { start: 0, end: 100 };
    Function {
        name: name.to_owned(),
        symbol,
        params,
        donated: Vec::new(),
        registers,
        code,
        spans,
        span,
    }
}

fn kernel() -> Kernel {
    let buffer = |name: &str, is_written| Param::Buffer {
        name: name.to_owned(),
        dtype: DType::F32,
        rank: 1,
        is_written,
    };
    let message = "the first element is negative".to_owned();
    Kernel {
        name: "double".to_owned(),
        params: vec![buffer("X", false), buffer("Y", true)],
        symbol: None,
        sites: vec![Site {
            id: "tir/test".to_owned(),
            message,
            values: 0,
            span: Span { start: 7, end: 9 },
        }],
        watched: None,
        work: None,
        span: Span::default(),
    }
}

/// `main` doubles a vector twice, in one storage; `deep` calls itself without end; `host` calls a host
/// function; `nothing` calls the kernel on a constant.
pub(crate) fn image() -> Image {
    let label = Label { check: Text(0), about: Text(1), expected: Text(2) };
    let bytes = |slots: &[Code]| slots.to_vec().into_boxed_slice();
    let main = vec![
        I::AllocHeap { to: to(1), size: c(0) },
        I::CheckKind {
            value: r(0),
            kind: Kind::Tensor,
            size: Some(1),
            dtype: Some(DType::F32),
            label,
        },
        I::MatchShape {
            value: r(0),
            heap: r(1),
            codes: bytes(&[Code::Store(0)]),
            terms: Box::default(),
            label,
        },
        I::MakeShape { to: to(2), heap: r(1), codes: bytes(&[Code::Slot(0)]) },
        I::AllocStorage { to: to(3), size: r(2), dtype: DType::F32 },
        I::AllocTensor { to: to(4), storage: r(3), shape: r(2), dtype: None, offset: c(1) },
        I::CallKernel { kernel: 0, args: vec![r(0), r(4)].into() },
        I::AllocStorage { to: to(5), size: r(2), dtype: DType::F32 },
        I::AllocTensor { to: to(6), storage: r(5), shape: r(2), dtype: None, offset: c(1) },
        I::CallKernel { kernel: 0, args: vec![r(4), r(6)].into() },
        I::KillTensor(r(4)),
        I::KillStorage(r(3)),
        I::Return(r(6)),
    ];
    let deep = vec![I::Call { to: to(0), function: 1, args: Box::default() }, I::Return(r(0))];
    let host = vec![
        I::CallHost { to: to(1), name: Text(3), args: vec![r(0)].into(), keywords: Box::default() },
        I::Return(r(1)),
    ];
    let nothing = vec![I::CallKernel { kernel: 0, args: vec![c(2), c(2)].into() }, I::Return(c(2))];
    let mut program = Program {
        functions: vec![
            function("main", 1, 7, main),
            function("deep", 0, 1, deep),
            function("host", 1, 2, host),
            function("nothing", 0, 0, nothing),
        ],
        kernels: vec![kernel()],
        constants: vec![
            Constant::Scalar(DType::I64, Number::Int(1)),
            Constant::Scalar(DType::I64, Number::Int(0)),
            Constant::Tensor { dtype: DType::F32, shape: vec![2], at: 0 },
        ],
        texts: Vec::new(),
    };
    program.texts =
        ["boundary", "parameter `x`", "Tensor((n,), \"f32\")", "add_one"].map(str::to_owned).into();
    let metadata = Metadata { producer: "a test".to_owned(), ..Metadata::default() };
    let data = [1.0_f32, 2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let source = "def main(x):\n    return x\n".to_owned();
    Image { program, data, metadata, source, ..Image::default() }
}

pub(crate) fn module(limits: Limits) -> Module {
    Module::with_limits(image(), Box::new(Double), limits).expect("the program is valid")
}

pub(crate) fn vector(elements: &[f32]) -> Value {
    let tensor = Tensor::from_f32(&[elements.len() as i64], elements);
    Value::Tensor(tensor.expect("a vector"))
}

pub(crate) fn call(module: &Module, name: &str, args: &[Value]) -> Result<Value, Stop> {
    module.function(name).expect("the function is offered").call(args)
}

pub(crate) fn elements(value: &Value) -> Vec<f32> {
    match value {
        Value::Tensor(tensor) => tensor.to_f32().expect("it is of f32"),
        other => panic!("expected a tensor, found {other:?}"),
    }
}
