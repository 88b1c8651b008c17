//! What each instruction says where a value is of another kind or is not there: id and words of the stop.

use crate::programs::extended::{
    HALF, ITSELF, MINUS, ONE, PAIR, TRUE, TWO_BY_THREE, WORD, ZERO, run, stop,
};
use crate::programs::{r, to};
use relax_runtime::instruction::{Code, DimOp, Instruction as I, Operand, Text};
use relax_runtime::{DType, Number, Tensor, Value};

fn tensor(dtype: DType, bytes: &[u8]) -> Value {
    let elements = (bytes.len() / dtype.size()) as i64;
    Value::Tensor(Tensor::from_bytes(dtype, &[elements], bytes).expect("a vector"))
}

fn scalar(dtype: DType, bytes: &[u8]) -> Value {
    Value::Tensor(Tensor::from_bytes(dtype, &[], bytes).expect("a scalar"))
}

/// Each instruction alone stops with these words.
fn told(cases: Vec<(I, &str)>) {
    for (instruction, wanted) in cases {
        let shown = format!("{instruction:?}");
        assert_eq!(stop(vec![instruction, I::Return(ZERO)], &[]), wanted, "{shown}");
    }
}

#[test]
fn calls_of_another_kind_are_told() {
    told(vec![
        (
            I::Field { to: to(1), value: ONE, index: 0 },
            "[tuple/kind] only a tuple has fields, found a scalar",
        ),
        (
            I::Branch { condition: ONE, otherwise: 1 },
            "[if/kind] a condition is a bool scalar, found `Prim(\"i64\")`",
        ),
        (
            I::Branch { condition: PAIR, otherwise: 1 },
            "[if/kind] a condition is a bool scalar, found `Tensor((2,), \"f32\")`",
        ),
        (
            I::Tuple { to: to(1), items: [r(7)].into() },
            "[variable/unbound] a variable has no value here",
        ),
        (I::Fail { id: Text(0), message: Text(1) }, "[boundary] parameter `x`"),
        (
            I::CallValue { to: to(1), function: ONE, args: [].into() },
            "[call/kind] only a function is called, found a scalar",
        ),
        (
            I::Invoke { to: to(1), function: ITSELF, args: ONE },
            "[invoke_closure/C1] `args` must be a tuple",
        ),
        (
            I::MakeClosure { to: to(1), function: ITSELF, last: ONE },
            "[make_closure/C1] `args` must be a tuple",
        ),
        (
            I::CallKernel { kernel: 0, args: [PAIR, WORD].into() },
            "[call_tir/kind] `double` takes tensors and integers, found a string",
        ),
    ]);
}

#[test]
fn memory_of_another_kind_is_told() {
    told(vec![
        (
            I::AllocHeap { to: to(1), size: MINUS },
            "[builtin.alloc_shape_heap/C1] a heap has at least 0 slots",
        ),
        (
            I::AllocHeap { to: to(1), size: WORD },
            "[builtin.alloc_shape_heap/kind] expected an integer, found a string",
        ),
        (
            I::AllocHeap { to: to(1), size: HALF },
            "[builtin.alloc_shape_heap/kind] expected an integer, found a scalar",
        ),
        (
            I::LoadDim { to: to(1), heap: ONE, slot: 0 },
            "[builtin.load_dim/C1] `heap` must be a shape heap, found a scalar",
        ),
        (
            I::AllocStorage { to: to(1), size: ONE, dtype: DType::F32 },
            "[memory.alloc_storage/kind] expected a shape, found a scalar",
        ),
        (
            I::KillStorage(ONE),
            "[memory.kill_storage/C1] `storage` must be a storage, found a scalar",
        ),
        (I::KillTensor(ONE), "[memory.kill_tensor/kind] `tensor` must be a tensor, found a scalar"),
        (
            I::KillObject(WORD),
            "[memory.kill_object/kind] `tensor` must be a tensor, found a string",
        ),
        (
            I::View { to: to(1), tensor: ONE, shape: TWO_BY_THREE },
            "[memory.view/kind] `tensor` must be a tensor, found a scalar",
        ),
        (
            I::AllocTensor {
                to: to(1),
                storage: PAIR,
                shape: TWO_BY_THREE,
                dtype: None,
                offset: ZERO,
            },
            "[memory.alloc_tensor/C1] `storage` must be a storage, found a tensor",
        ),
        (
            I::ReadShape { to: to(1), tensor: ONE },
            "[tensor_to_shape/kind] expected a tensor, found a scalar",
        ),
        (
            I::ReadShape { to: to(1), tensor: PAIR },
            "[tensor_to_shape/C2] a dim is an integer, found f32",
        ),
        (
            I::Assert { condition: ONE, message: Text(1) },
            "[assert_op/C1] `condition` must be a bool scalar, found `Prim(\"i64\")`",
        ),
        (
            I::RunGraph { to: to(1), function: ONE, args: [].into() },
            "[builtin.cuda_graph_run_or_capture/C1] `func` must be named, found a scalar",
        ),
        (
            I::KeepMemory { to: to(1), function: ONE },
            "[builtin.cuda_graph_get_cached_alloc/C1] it must be named, found a scalar",
        ),
    ]);
}

#[test]
fn values_of_the_right_kind_are_taken() {
    told(vec![(
        I::CheckNatural { value: MINUS, id: Text(0) },
        "[boundary] a dim may not be negative, found -1",
    )]);
    for fine in [
        I::CheckNatural { value: ONE, id: Text(0) },
        I::CheckNatural { value: WORD, id: Text(0) },
        I::KillTensor(PAIR),
    ] {
        assert!(run(vec![fine, I::Return(ZERO)], &[]).is_ok());
    }
}

#[test]
fn what_was_dropped_has_no_value() {
    let code = |dropped: &[u32]| {
        let dropped = dropped.iter().map(|&at| to(at)).collect();
        vec![I::Copy { to: to(1), value: r(0) }, I::Drop(dropped), I::Return(r(1))]
    };
    assert!(run(code(&[0]), &[Value::int(1)]).is_ok(), "the other name of it stays");
    for dropped in [&[1][..], &[0, 1], &[1, 0]] {
        let why = stop(code(dropped), &[Value::int(1)]);
        assert_eq!(why, "[variable/unbound] a variable has no value here");
    }
}

#[test]
fn fields_and_arguments_are_in_their_order() {
    let pair = |at| I::Tuple { to: to(at), items: [ONE, WORD].into() };
    let field = |index| vec![pair(1), I::Field { to: to(2), value: r(1), index }, I::Return(r(2))];
    assert!(matches!(run(field(0), &[]), Ok(Value::Scalar(DType::I64, Number::Int(1)))));
    assert!(matches!(run(field(1), &[]), Ok(Value::Str(text)) if &*text == "word"));
    assert_eq!(stop(field(2), &[]), "[tuple/index] a tuple of 2 fields has no field 2");
    // A closure of a closure: what was given last comes first of what was given.
    let held = |at, value: Operand| I::Tuple { to: to(at), items: [value].into() };
    let code = vec![
        held(1, ONE),
        I::MakeClosure { to: to(2), function: ITSELF, last: r(1) },
        held(3, ZERO),
        I::MakeClosure { to: to(4), function: r(2), last: r(3) },
        I::Tuple { to: to(5), items: [].into() },
        I::Invoke { to: to(6), function: r(4), args: r(5) },
        I::Return(r(6)),
    ];
    let shown = format!("{:?}", run(code, &[]).expect("it runs"));
    assert!(shown.find("Int(0)") < shown.find("Int(1)"), "{shown}");
    let wrong = vec![
        held(1, ONE),
        I::MakeClosure { to: to(2), function: ONE, last: r(1) },
        I::Return(r(2)),
    ];
    assert_eq!(stop(wrong, &[]), "[make_closure/C1] expected a function and a tuple of arguments");
}

/// A heap of two slots, and what is done with it.
fn with_heap(more: &[I]) -> Vec<I> {
    let mut code = vec![I::Tuple { to: to(6), items: [ONE, ONE].into() }];
    code.push(I::AllocHeap { to: to(0), size: ONE });
    code.extend_from_slice(more);
    code.push(I::Return(ZERO));
    code
}

fn compute(op: DimOp, a: Code, b: Code, about: u32) -> I {
    I::ComputeDim { heap: r(0), slot: 0, op, a, b, check: Text(0), about: Text(about) }
}

#[test]
fn slots_hold_what_was_stored() {
    use Code::{Literal, Skip, Slot, Store};
    let shape = |code| I::MakeShape { to: to(1), heap: r(0), codes: [code].into() };
    let cases: Vec<(I, &str)> = vec![
        (shape(Slot(0)), "[builtin.make_shape/C3] nothing was stored in slot 0"),
        (shape(Slot(1)), "[builtin.make_shape/C1] the heap has no slot 1"),
        (shape(Slot(-1)), "[builtin.make_shape/C1] the heap has no slot -1"),
        (shape(Skip), "[builtin.make_shape/C2] a dim is an integer or a slot"),
        (shape(Store(0)), "[builtin.make_shape/C2] a dim is an integer or a slot"),
        (shape(Literal(-2)), "[shape/negative] a dim may not be negative, found -2"),
        (
            I::LoadDim { to: to(1), heap: r(0), slot: 0 },
            "[builtin.load_dim/C3] nothing was stored in slot 0",
        ),
        (
            I::CheckExtent { heap: r(0), slot: 1, about: Text(1) },
            "[builtin.check_extent/C1] the heap has no slot 1",
        ),
        (compute(DimOp::Add, Slot(0), Literal(1), 4), "[boundary] nothing was stored in slot 0"),
        (
            compute(DimOp::Add, Literal(1), Slot(0), 1),
            "[boundary] parameter `x`: nothing was stored in slot 0",
        ),
        (compute(DimOp::FloorMod, Literal(5), Literal(0), 4), "[boundary] `5 % 0` divides by zero"),
        (
            compute(DimOp::CeilDiv, Literal(5), Literal(0), 4),
            "[boundary] `ceildiv(5, 0)` divides by zero",
        ),
        (
            compute(DimOp::Sub, Literal(i64::MIN), Literal(1), 4),
            "[boundary] `-9223372036854775808 - 1` leaves the range of i64",
        ),
        (
            compute(DimOp::Add, Literal(i64::MAX), Literal(1), 4),
            "[boundary] `9223372036854775807 + 1` leaves the range of i64",
        ),
    ];
    for (instruction, wanted) in cases {
        let shown = format!("{instruction:?}");
        assert_eq!(stop(with_heap(&[instruction]), &[]), wanted, "{shown}");
    }
}

/// Division rounds towards minus infinity, whatever the signs are; what is exact stays.
#[test]
fn dims_are_computed_with_every_sign() {
    use Code::Literal;
    for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (8, 2), (-8, 2), (8, -2), (-8, -2), (0, 3)] {
        let floor = (f64::from(a) / f64::from(b)).floor() as i64;
        let ceil = (f64::from(a) / f64::from(b)).ceil() as i64;
        let (a, b) = (i64::from(a), i64::from(b));
        let values = [
            (DimOp::Add, a + b),
            (DimOp::Sub, a - b),
            (DimOp::Mul, a * b),
            (DimOp::FloorDiv, floor),
            (DimOp::FloorMod, a - floor * b),
            (DimOp::Min, a.min(b)),
            (DimOp::Max, a.max(b)),
            (DimOp::CeilDiv, ceil),
        ];
        for (op, wanted) in values {
            let mut code = with_heap(&[
                compute(op, Literal(a), Literal(b), 4),
                I::LoadDim { to: to(1), heap: r(0), slot: 0 },
            ]);
            code.pop();
            code.push(I::Return(r(1)));
            let Value::Scalar(DType::I64, Number::Int(found)) = run(code, &[]).expect("a value")
            else {
                panic!("{op:?} of {a} and {b} is no integer")
            };
            assert_eq!(found, i128::from(wanted), "{op:?} of {a} and {b}");
        }
    }
    let least = with_heap(&[compute(DimOp::FloorDiv, Literal(i64::MIN), Literal(-1), 4)]);
    let why = "[boundary] `-9223372036854775808 // -1` leaves the range of i64";
    assert_eq!(stop(least, &[]), why);
}

/// A tensor of integers as a shape, in every dtype.
#[test]
fn shapes_are_read_off_integers() {
    let read = || vec![I::ReadShape { to: to(1), tensor: r(0) }, I::Return(r(1))];
    let dims = |value: Value| match run(read(), &[value]) {
        Ok(Value::Shape(dims)) => dims.to_vec(),
        other => panic!("{other:?}"),
    };
    let of = |dtype, three: &[u8], four: &[u8]| tensor(dtype, &[three, four].concat());
    let all = [
        of(DType::I8, &3_i8.to_ne_bytes(), &4_i8.to_ne_bytes()),
        of(DType::I16, &3_i16.to_ne_bytes(), &4_i16.to_ne_bytes()),
        of(DType::I32, &3_i32.to_ne_bytes(), &4_i32.to_ne_bytes()),
        of(DType::I64, &3_i64.to_ne_bytes(), &4_i64.to_ne_bytes()),
        of(DType::U8, &3_u8.to_ne_bytes(), &4_u8.to_ne_bytes()),
        of(DType::U16, &3_u16.to_ne_bytes(), &4_u16.to_ne_bytes()),
        of(DType::U32, &3_u32.to_ne_bytes(), &4_u32.to_ne_bytes()),
        of(DType::U64, &3_u64.to_ne_bytes(), &4_u64.to_ne_bytes()),
    ];
    for value in all {
        assert_eq!(dims(value), [3, 4]);
    }
    assert_eq!(dims(tensor(DType::I8, &[0])), [0]);
    assert_eq!(dims(tensor(DType::I64, &[])), [0_i64; 0]);
    assert_eq!(
        stop(read(), &[tensor(DType::I8, &[2, 0xff])]),
        "[tensor_to_shape/C3] -1 is no dim of a shape"
    );
    let large = tensor(DType::U64, &u64::MAX.to_ne_bytes());
    assert_eq!(
        stop(read(), &[large]),
        "[tensor_to_shape/C3] 18446744073709551615 is no dim of a shape"
    );
    assert_eq!(
        stop(read(), &[tensor(DType::Bool, &[1])]),
        "[tensor_to_shape/C2] a dim is an integer, found bool"
    );
    for (map, element) in [([0, 1], 0), ([1, 0], 1), ([0, 0], 0)] {
        let Value::Tensor(two) = tensor(DType::I8, &[3, 4]) else { panic!("a tensor") };
        let two = Value::Tensor(two.written_at(&map).expect("as many"));
        let wanted = format!(
            "[undefined/read] `tensor_to_shape` reads element {element} of `expr`, which nothing has written"
        );
        assert_eq!(stop(read(), &[two]), wanted);
    }
}

#[test]
fn conditions_are_bools_that_were_written() {
    let chosen = |condition: Operand, args: &[Value]| {
        let code = vec![I::Branch { condition, otherwise: 2 }, I::Return(ONE), I::Return(ZERO)];
        match run(code, args) {
            Ok(Value::Scalar(_, Number::Int(value))) => Ok(value),
            Ok(other) => panic!("{other:?}"),
            Err(stop) => Err(stop.to_string()),
        }
    };
    assert_eq!(chosen(TRUE, &[]), Ok(1));
    assert_eq!(chosen(r(0), &[Value::Scalar(DType::Bool, Number::Int(0))]), Ok(0));
    for (byte, wanted) in [(1, 1), (0, 0)] {
        assert_eq!(chosen(r(0), &[scalar(DType::Bool, &[byte])]), Ok(wanted));
    }
    for other in [scalar(DType::I8, &[1]), tensor(DType::Bool, &[1])] {
        assert!(chosen(r(0), &[other]).is_err_and(|why| why.starts_with("[if/kind]")));
    }
    let Value::Tensor(open) = scalar(DType::Bool, &[1]) else { panic!("a tensor") };
    let open = Value::Tensor(open.written_at(&[0]).expect("one element"));
    let why = "[undefined/read] the condition is a tensor that nothing has written";
    assert_eq!(chosen(r(0), std::slice::from_ref(&open)), Err(why.to_owned()));
    let assert = |message, condition: Value| {
        let code = vec![I::Assert { condition: r(0), message: Text(message) }, I::Return(ONE)];
        run(code, &[condition]).map(drop).map_err(|stop| stop.to_string())
    };
    assert_eq!(assert(1, scalar(DType::Bool, &[1])), Ok(()));
    assert_eq!(
        assert(1, scalar(DType::Bool, &[0])),
        Err("[assert_op/C2] parameter `x`".to_owned())
    );
    assert_eq!(
        assert(4, scalar(DType::Bool, &[0])),
        Err("[assert_op/C2] the condition is false".to_owned())
    );
    assert_eq!(assert(4, open), Err(why.to_owned()));
}
