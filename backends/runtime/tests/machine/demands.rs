//! What the machine demands of memory, graphs, tuples and host functions: id and words of the stop.

use crate::programs;
use crate::programs::extended::{
    ITSELF, MINUS, ONE, PAIR, TRUE, TWO_BY_THREE, WORD, ZERO, run, stop, with,
};
use crate::programs::{Double, call, function, r, to, vector};
use relax_runtime::instruction::{Code, DimOp, Instruction as I, Operand, Text};
use relax_runtime::program::Constant;
use relax_runtime::{DType, Module, Number, Stop, Tensor, Tuple, Value};

/// A scalar that is true, as a tensor.
fn truth() -> Value {
    Value::Tensor(Tensor::from_bytes(DType::Bool, &[], &[1]).expect("a scalar"))
}

#[test]
fn sizes_of_memory_are_checked() {
    let sized = |dims: &[i64], then: &[I]| {
        let mut code = vec![I::AllocStorage { to: to(1), size: r(0), dtype: DType::F32 }];
        code.extend_from_slice(then);
        code.push(I::Return(ZERO));
        run(code, &[Value::Shape(dims.into())]).map(drop).map_err(|stop| stop.to_string())
    };
    let lies = |shape: Operand, dtype, offset| I::AllocTensor {
        to: to(2),
        storage: r(1),
        shape,
        dtype,
        offset,
    };
    assert_eq!(sized(&[6], &[lies(TWO_BY_THREE, None, ZERO)]), Ok(()));
    assert_eq!(sized(&[3], &[lies(TWO_BY_THREE, Some(DType::F16), ZERO)]), Ok(()));
    let beyond = "[memory.alloc_tensor/C2] a f32 tensor of shape [2, 3] at byte 1 does not fit a storage of 24 bytes";
    assert_eq!(sized(&[6], &[lies(TWO_BY_THREE, None, ONE)]), Err(beyond.to_owned()));
    let before = "[memory.alloc_tensor/C2] a f32 tensor of shape [2, 3] at byte -1 does not fit a storage of 28 bytes";
    assert_eq!(sized(&[7], &[lies(TWO_BY_THREE, None, MINUS)]), Err(before.to_owned()));
    let none = "[memory.alloc_storage/C1] the size of the storage is no number of bytes";
    assert_eq!(sized(&[1 << 40, 1 << 40], &[]), Err(none.to_owned()));
    assert_eq!(sized(&[-1], &[]), Err(none.to_owned()));
    let negative = vec![
        I::AllocStorage { to: to(1), size: TWO_BY_THREE, dtype: DType::F32 },
        I::Tuple { to: to(0), items: [ONE, MINUS].into() },
        I::AllocTensor { to: to(2), storage: r(1), shape: r(0), dtype: None, offset: ZERO },
        I::Return(ZERO),
    ];
    assert_eq!(stop(negative, &[]), "[shape/negative] a dim may not be negative, found -1");
    let of_tuple = |items: [Operand; 2]| {
        let code = vec![
            I::Tuple { to: to(0), items: items.into() },
            I::View { to: to(1), tensor: PAIR, shape: r(0) },
            I::Return(r(1)),
        ];
        run(code, &[]).map_err(|stop| stop.to_string())
    };
    let why = |items| of_tuple(items).expect_err("it is no shape of two");
    assert_eq!(why([ONE, ONE]), "[memory.view/C1] a view of 2 elements cannot have 1");
    assert_eq!(why([ONE, WORD]), "[memory.view/kind] a shape is made of integers");
    assert_eq!(why([ONE, MINUS]), "[shape/negative] a dim may not be negative, found -1");
    // The result may not be what ends with the call.
    let storage =
        vec![I::AllocStorage { to: to(1), size: TWO_BY_THREE, dtype: DType::F32 }, I::Return(r(1))];
    assert_eq!(
        stop(storage, &[]),
        "not supported: the result is a storage, which ends with the call"
    );
    let heap = vec![
        I::AllocHeap { to: to(1), size: ONE },
        I::Tuple { to: to(2), items: [r(1)].into() },
        I::Return(r(2)),
    ];
    assert_eq!(
        stop(heap, &[]),
        "not supported: the result is a shape heap, which ends with the call"
    );
}

/// What a device could not replay is refused while a graph is recorded; in a call it is fine.
#[test]
fn graphs_hold_launches_only() {
    let size = |at| I::AllocStorage { to: to(at), size: TWO_BY_THREE, dtype: DType::F32 };
    let host = I::CallHost { to: to(3), name: Text(3), args: [].into(), keywords: [].into() };
    let memory = "memory is taken or released";
    let cases: Vec<(I, &str)> = vec![
        (size(3), memory),
        (I::KillStorage(r(1)), memory),
        (I::KillObject(r(2)), memory),
        (I::RunGraph { to: to(3), function: ITSELF, args: [ONE, ONE].into() }, "a graph is run"),
        (host, "`add_one` is called"),
        (I::Assert { condition: TRUE, message: Text(1) }, "elements are read"),
        (I::Branch { condition: r(0), otherwise: 1 }, "a branch depends on elements"),
    ];
    for (instruction, wanted) in cases {
        let shown = format!("{instruction:?}");
        let called = |how: fn(Operand, Box<[Operand]>) -> I| {
            let shape = I::AllocTensor {
                to: to(2),
                storage: r(1),
                shape: TWO_BY_THREE,
                dtype: None,
                offset: ZERO,
            };
            let args: Box<[Operand]> = [r(0), r(1), r(2)].into();
            let code = vec![size(1), shape, how(Operand::Constant(9), args), I::Return(ZERO)];
            let mut image = with(1, 8, code);
            image.program.functions.push(function(
                "recorded",
                3,
                8,
                vec![instruction.clone(), I::Return(ZERO)],
            ));
            image.program.constants.push(Constant::Function(6));
            let mut module = Module::new(image, Box::new(Double)).expect("the program is valid");
            module.register("add_one", |_| Ok(Value::unit()));
            call(&module, "f", &[truth()])
        };
        let plain = called(|function, args| I::CallValue { to: to(5), function, args });
        assert!(plain.is_ok(), "{shown}: {plain:?}");
        let stop = called(|function, args| I::RunGraph { to: to(5), function, args });
        let wanted =
            format!("[builtin.cuda_graph_run_or_capture/C2] {wanted} while a graph is recorded");
        assert_eq!(stop.expect_err("it is refused").to_string(), wanted, "{shown}");
    }
    let launch = vec![I::CallKernel { kernel: 0, args: [PAIR, r(0)].into() }, I::Return(ZERO)];
    let mut image = with(
        1,
        8,
        vec![
            I::RunGraph { to: to(5), function: Operand::Constant(9), args: [r(0)].into() },
            I::Return(ZERO),
        ],
    );
    image.program.functions.push(function("recorded", 1, 8, launch));
    image.program.constants.push(Constant::Function(6));
    let module = Module::new(image, Box::new(Double)).expect("the program is valid");
    let stop = call(&module, "f", &[vector(&[1.0, 2.0])]).expect_err("it lies in no storage");
    let wanted = "[builtin.cuda_graph_run_or_capture/C3] `double` writes to buffer 1, which lies in no storage, while a graph is recorded";
    assert_eq!(stop.to_string(), wanted);
}

#[test]
fn tuples_and_closures_have_limits() {
    let nested = |innermost: Value, depth: usize| {
        let mut value = innermost;
        for _ in 1..depth {
            value = Value::Tuple(Tuple::new(vec![value])?);
        }
        Ok::<Value, Stop>(value)
    };
    // What is no tuple has no depth.
    for (innermost, most) in [(Value::unit(), 256), (Value::int(1), 257)] {
        assert!(nested(innermost.clone(), most).is_ok());
        let more = nested(innermost, most + 1);
        assert!(matches!(more, Err(Stop::Exhausted { resource: "memory", .. })));
    }
    let wide = |fields: usize| Tuple::new(vec![Value::None; fields]);
    assert!(wide(1 << 16).is_ok());
    assert!(wide((1 << 16) + 1).is_err());
    // Fields of fields count, and each tuple is one.
    let half = Value::Tuple(wide((1 << 15) - 1).expect("it is small"));
    assert!(Tuple::new(vec![half.clone(), half.clone()]).is_ok());
    assert!(Tuple::new(vec![half.clone(), half, Value::None]).is_err());
    let closures = |turns: i64| {
        let code = vec![
            I::Tuple { to: to(1), items: [].into() },
            I::AllocHeap { to: to(2), size: ONE },
            I::ComputeDim {
                heap: r(2),
                slot: 0,
                op: DimOp::Add,
                a: Code::Literal(turns),
                b: Code::Literal(0),
                check: Text(0),
                about: Text(4),
            },
            I::Copy { to: to(3), value: ITSELF },
            I::MakeClosure { to: to(3), function: r(3), last: r(1) },
            I::ComputeDim {
                heap: r(2),
                slot: 0,
                op: DimOp::Sub,
                a: Code::Slot(0),
                b: Code::Literal(1),
                check: Text(0),
                about: Text(4),
            },
            I::LoadDim { to: to(4), heap: r(2), slot: 0 },
            I::CheckNatural { value: r(4), id: Text(0) },
            I::Jump(4),
            I::Return(ZERO),
        ];
        stop(code, &[])
    };
    assert!(closures(200).starts_with("[boundary] a dim may not be negative"));
    assert_eq!(closures(300), "out of memory: closures more than 256 deep");
}

/// Host functions get copies of tensors in storages, and keywords by name.
#[test]
fn host_functions_get_values_and_keywords() {
    let code = vec![
        I::AllocStorage { to: to(1), size: TWO_BY_THREE, dtype: DType::F32 },
        I::AllocHeap { to: to(5), size: ONE },
        I::MakeShape { to: to(6), heap: r(5), codes: [Code::Literal(2)].into() },
        I::AllocTensor { to: to(2), storage: r(1), shape: r(6), dtype: None, offset: ZERO },
        I::CallKernel { kernel: 0, args: [PAIR, r(2)].into() },
        I::MakeOutput {
            to: to(7),
            heap: r(5),
            codes: [Code::Literal(3), Code::Literal(4)].into(),
            dtype: Some(DType::I8),
        },
        I::Tuple { to: to(3), items: [r(2), WORD].into() },
        I::CallHost {
            to: to(4),
            name: Text(3),
            args: [r(3), r(7)].into(),
            keywords: [(Text(0), ONE), (Text(1), r(2))].into(),
        },
        I::Return(r(4)),
    ];
    let mut module = Module::new(with(0, 8, code), Box::new(Double)).expect("the program is valid");
    module.register("add_one", |call| {
        let shown = format!("{:?} {:?}", call.args[0], call.keywords[1].1);
        assert!(!shown.contains("Machine"), "{shown}");
        let names: Vec<&str> = call.keywords.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["boundary", "parameter `x`"]);
        assert!(matches!(call.keywords[0].1, Value::Scalar(DType::I64, Number::Int(1))));
        let Value::Output(output) = &call.args[1] else { panic!("{:?}", call.args) };
        assert_eq!((output.dtype, output.dims.as_slice()), (Some(DType::I8), &[3, 4][..]));
        Ok(call.keywords[1].1.clone())
    });
    let value = call(&module, "f", &[]).expect("it runs");
    assert_eq!(programs::elements(&value), [2.0, 4.0]);
}
