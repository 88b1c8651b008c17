//! What each instruction demands of its operands, one broken demand at a time: the machine stops, and says why.

use crate::programs::{Double, c, call, elements, function, image, r, to, vector};
use relax_runtime::file::Image;
use relax_runtime::instruction::{Code, DimOp, Fact, Instruction as I, Kind, Label, Operand, Text};
use relax_runtime::program::{Constant, Param};
use relax_runtime::{
    DType, KernelTrap, Kernels, Limits, Module, Number, Stop, Tensor, TensorArg, Value,
};

/// What a message is about; which text it is does not matter here.
const LABEL: Label = Label { check: Text(0), about: Text(1), expected: Text(2) };
const ONE: Operand = Operand::Constant(0);
const ZERO: Operand = Operand::Constant(1);

/// The usual program with a function `f` beside it.
fn with(params: u32, registers: u32, code: Vec<I>) -> Image {
    let mut image = image();
    image.program.functions.push(function("f", params, registers, code));
    image
}

fn of(image: Image) -> Module {
    Module::new(image, Box::new(Double)).expect("the program is valid")
}

/// What `f` gives for some arguments.
fn run(registers: u32, code: Vec<I>, args: &[Value]) -> Result<Value, Stop> {
    let params = u32::try_from(args.len()).expect("few arguments");
    call(&of(with(params, registers, code)), "f", args)
}

/// With what trap it stops.
fn trap(result: Result<Value, Stop>) -> String {
    match result {
        Err(Stop::Trap(trap)) => trap.id,
        other => panic!("expected a trap, found {other:?}"),
    }
}

/// A storage in a register for as many elements as a shape of f32 has, and a shape of `n` elements behind it.
fn storage(at: u32, n: i64) -> Vec<I> {
    vec![
        I::AllocHeap { to: to(at + 2), size: ONE },
        I::MakeShape { to: to(at + 1), heap: r(at + 2), codes: [Code::Literal(n)].into() },
        I::AllocStorage { to: to(at), size: r(at + 1), dtype: DType::F32 },
    ]
}

fn tensor(at: u32, storage: u32, shape: u32, offset: Operand) -> I {
    I::AllocTensor { to: to(at), storage: r(storage), shape: r(shape), dtype: None, offset }
}

fn kernel(args: &[u32]) -> I {
    I::CallKernel { kernel: 0, args: args.iter().map(|&at| r(at)).collect() }
}

/// A program with another integer among its constants, which is `c(3)`.
fn with_integer(value: i64, params: u32, registers: u32, code: Vec<I>) -> Module {
    let mut image = with(params, registers, code);
    image.program.constants.push(Constant::Scalar(DType::I64, Number::Int(value.into())));
    of(image)
}

#[test]
fn kernels_get_what_their_parameters_say() {
    let code = |more: &[I], args| {
        let mut code = storage(1, 2);
        code.push(tensor(4, 1, 2, ZERO));
        code.extend_from_slice(more);
        code.push(args);
        code.push(I::Return(r(4)));
        code
    };
    let called = |x: Value, args| trap(run(5, code(&[], args), &[x]));
    let halves = Tensor::from_bytes(DType::I32, &[2], &[0; 8]).expect("a vector");
    assert_eq!(called(Value::Tensor(halves), kernel(&[0, 4])), "boundary/dtype");
    let one = Value::Tensor(Tensor::from_f32(&[], &[1.0]).expect("a scalar"));
    assert_eq!(called(one, kernel(&[0, 4])), "boundary/rank");
    let more = I::CallKernel { kernel: 0, args: [r(0), r(4), ONE].into() };
    assert_eq!(called(vector(&[1.0, 2.0]), more), "boundary/arity");
}

/// In a storage of four elements: tensors that touch are apart, and those that share a byte are not.
#[test]
fn kernels_write_apart_from_what_they_read() {
    let code = |offset| {
        let mut code = storage(1, 4);
        code.push(I::MakeShape { to: to(2), heap: r(3), codes: [Code::Literal(2)].into() });
        code.extend([tensor(4, 1, 2, ZERO), tensor(5, 1, 2, offset), kernel(&[0, 4])]);
        code.extend([kernel(&[4, 5]), I::Return(r(5))]);
        code
    };
    let x = [vector(&[1.0, 2.0])];
    for (offset, wanted) in [(8, None), (4, Some("memory/shared"))] {
        let module = with_integer(offset, 1, 6, code(c(3)));
        match (call(&module, "f", &x), wanted) {
            (Ok(y), None) => assert_eq!(elements(&y), [4.0, 8.0]),
            (found, wanted) => assert_eq!(Some(trap(found).as_str()), wanted),
        }
    }
}

#[test]
fn what_was_overwritten_is_not_read() {
    let mut code = storage(1, 4);
    code.push(I::MakeShape { to: to(2), heap: r(3), codes: [Code::Literal(2)].into() });
    code.extend([tensor(4, 1, 2, ZERO), tensor(5, 1, 2, c(3)), kernel(&[0, 4])]);
    code.extend([kernel(&[0, 5]), tensor(6, 7, 2, ZERO), kernel(&[4, 6]), I::Return(r(6))]);
    let place = code.iter().rposition(|step| matches!(step, I::AllocTensor { .. }));
    let other = I::AllocStorage { to: to(7), size: r(2), dtype: DType::F32 };
    code.insert(place.expect("there is one"), other);
    let module = with_integer(4, 1, 8, code);
    assert_eq!(trap(call(&module, "f", &[vector(&[1.0, 2.0])])), "memory/overwritten");
}

/// A kernel writes to a copy of a value, which the register has then; who gave the value keeps it.
#[test]
fn values_of_others_stay() {
    let x = vector(&[0.0, 0.0]);
    let code = || vec![I::CallKernel { kernel: 0, args: [c(2), r(0)].into() }, I::Return(r(0))];
    let y = run(1, code(), std::slice::from_ref(&x)).expect("it runs");
    assert_eq!((elements(&x), elements(&y)), (vec![0.0, 0.0], vec![2.0, 4.0]));
    // The same with a caller that gives it up, while it has another name, and where it lies in a file that is mapped.
    let mut donated = with(1, 1, code());
    donated.program.functions.last_mut().expect("`f`").donated = vec![0];
    let donated = of(donated);
    let donate = |value| donated.function("f").expect("it is offered").call_donating(vec![value]);
    assert_eq!(elements(&donate(x.clone()).expect("it runs")), [2.0, 4.0]);
    assert_eq!(elements(&x), [0.0, 0.0]);
    let mut constant = with(0, 0, vec![I::Return(c(2))]);
    constant.program.functions.drain(..4);
    constant.program.kernels.clear();
    let path = std::env::temp_dir().join(format!("relax-stops-{}.rxm", std::process::id()));
    std::fs::write(&path, constant.to_bytes()).expect("it is written");
    let module = Module::open(&path, Limits::default()).expect("it is a module file");
    std::fs::remove_file(&path).expect("it is there");
    let mapped = call(&module, "f", &[]).expect("it runs");
    drop(module);
    assert_eq!(elements(&donate(mapped).expect("it runs")), [2.0, 4.0]);
}

/// With what was written to it before. A tensor that the caller has another name of was copied, and is as it was.
#[test]
fn donated_tensors_come_back_from_a_call_that_stops() {
    let written = I::CallKernel { kernel: 0, args: [c(2), r(1)].into() };
    let mut donated = with(3, 3, vec![written, I::KillStorage(r(0)), I::Return(r(0))]);
    donated.program.functions.last_mut().expect("`f`").donated = vec![1, 2];
    let donated = of(donated);
    let kept = vector(&[5.0, 6.0]);
    let call = |first: Value| {
        let args = vec![vector(&[7.0]), first, kept.clone()];
        let function = donated.function("f").expect("it is offered");
        let stopped = function.call_returning(args).expect_err("it stops");
        (trap(Err(stopped.stop)), stopped.donated)
    };
    let (stopped, back) = call(vector(&[0.0, 0.0]));
    assert_eq!(stopped, "memory.kill_storage/C1");
    assert_eq!(back.iter().map(elements).collect::<Vec<_>>(), [[2.0, 4.0], [5.0, 6.0]]);
    let Value::Tensor(first) = &back[0] else { panic!("it is a tensor") };
    assert!(first.is_owned());
    let other = vector(&[0.0, 0.0]);
    assert_eq!(elements(&call(other.clone()).1[0]), [0.0, 0.0]);
    // What is no tensor has no memory to give back.
    assert_eq!(call(Value::None).1.len(), 1);
}

/// Elements that lie at no multiple of their size are written in a copy, and brought there.
#[test]
fn tensors_that_are_not_aligned_are_written() {
    let mut code = storage(1, 4);
    code.push(I::MakeShape { to: to(2), heap: r(3), codes: [Code::Literal(2)].into() });
    code.extend([tensor(4, 1, 2, ONE), kernel(&[0, 4])]);
    code.push(I::AllocStorage { to: to(5), size: r(2), dtype: DType::F32 });
    code.extend([tensor(6, 5, 2, ZERO), kernel(&[4, 6]), I::Return(r(6))]);
    let y = run(7, code, &[vector(&[1.0, 2.0])]).expect("it runs");
    assert_eq!(elements(&y), [4.0, 8.0]);
}

#[test]
fn memory_is_released_once() {
    let ended = |steps: &[I]| {
        let mut code = storage(0, 2);
        code.push(tensor(3, 0, 1, ZERO));
        code.extend_from_slice(steps);
        code.push(I::Return(ZERO));
        run(4, code, &[])
    };
    let (storage, killed) = (I::KillStorage(r(0)), I::KillTensor(r(3)));
    assert!(ended(&[killed.clone(), storage.clone()]).is_ok());
    for twice in [
        [storage.clone(), storage.clone()],
        [killed.clone(), killed.clone()],
        // A storage ends with every tensor in it.
        [storage, killed],
    ] {
        assert_eq!(trap(ended(&twice)), "memory/released", "{twice:?}");
    }
    // The last tensor of a storage takes it along; one that is left keeps it.
    let (storage, object) = (I::KillStorage(r(0)), I::KillObject(r(3)));
    assert_eq!(trap(ended(&[object.clone(), storage.clone()])), "memory/released");
    assert!(ended(&[tensor(2, 0, 1, ZERO), object, storage]).is_ok());
}

#[test]
fn tensors_lie_in_their_storage_and_views_have_as_many_elements() {
    let code = |n, last: I| {
        let mut code = storage(0, 2);
        code.push(I::MakeShape { to: to(3), heap: r(2), codes: [Code::Literal(n)].into() });
        code.extend([last, I::Return(ZERO)]);
        code
    };
    let view = || I::View { to: to(4), tensor: c(2), shape: r(3) };
    assert!(run(5, code(2, tensor(4, 0, 3, ZERO)), &[]).is_ok());
    assert_eq!(trap(run(5, code(3, tensor(4, 0, 3, ZERO)), &[])), "memory.alloc_tensor/C2");
    assert!(run(5, code(2, view()), &[]).is_ok());
    for n in [1, 3] {
        assert_eq!(trap(run(5, code(n, view()), &[])), "memory.view/C1", "{n}");
    }
}

#[test]
fn kinds_dtypes_and_ranks_are_checked() {
    let check = |kind, size, dtype| I::CheckKind { value: r(0), kind, size, dtype, label: LABEL };
    let checked = |check: I, x: Value| run(1, vec![check, I::Return(ZERO)], &[x]);
    let dtype = || check(Kind::Tensor, None, Some(DType::I32));
    assert_eq!(trap(checked(dtype(), vector(&[1.0]))), "boundary/dtype");
    let fields = |size| {
        let pair = I::Tuple { to: to(0), items: [ZERO, ONE].into() };
        run(1, vec![pair, check(Kind::Tuple, Some(size), None), I::Return(ZERO)], &[])
    };
    assert!(fields(2).is_ok());
    assert_eq!(["boundary/rank"; 2], [1, 3].map(|size| trap(fields(size))));
    let matched = |shape: &[i64]| {
        let elements = vec![1.0; usize::try_from(shape.iter().product::<i64>()).expect("few")];
        let x = Value::Tensor(Tensor::from_f32(shape, &elements).expect("they fit"));
        let heap = I::AllocHeap { to: to(1), size: ONE };
        let codes = [Code::Store(0)].into();
        let (value, heap_at, terms) = (r(0), r(1), Box::default());
        let step = I::MatchShape { value, heap: heap_at, codes, terms, label: LABEL };
        run(2, vec![heap, step, I::Return(ZERO)], &[x])
    };
    assert!(matched(&[3]).is_ok());
    assert_eq!(["boundary/rank"; 2], [&[][..], &[3, 2]].map(|shape| trap(matched(shape))));
}

/// A dim of 0 + `value`, and a step that asks for it in slot 0.
fn of_dim(value: i64, step: I) -> Result<Value, Stop> {
    let compute = I::ComputeDim {
        heap: r(0),
        slot: 0,
        op: DimOp::Add,
        a: Code::Literal(0),
        b: Code::Literal(value),
        check: Text(0),
        about: Text(1),
    };
    let heap = I::AllocHeap { to: to(0), size: ONE };
    run(2, vec![heap, compute, step, I::Return(ZERO)], &[])
}

#[test]
fn bounds_of_dims_are_checked() {
    let bound = |value, fact, limit| {
        let (name, about) = (Text(1), Text(1));
        of_dim(value, I::CheckBound { heap: r(0), slot: 0, fact, limit, name, about })
    };
    for (fact, holds, fails, id) in [
        (Fact::LowerBound, 4, 3, "bound/lower"),
        (Fact::UpperBound, 4, 5, "bound/upper"),
        (Fact::MultipleOf, 8, 6, "bound/multiple_of"),
    ] {
        assert!(bound(holds, fact, 4).is_ok(), "{id}");
        assert_eq!(trap(bound(fails, fact, 4)), id);
    }
    let extent = || I::CheckExtent { heap: r(0), slot: 0, about: Text(1) };
    let shape = || I::MakeShape { to: to(1), heap: r(0), codes: [Code::Slot(0)].into() };
    for step in [extent(), shape()] {
        assert!(of_dim(0, step.clone()).is_ok());
        assert_eq!(trap(of_dim(-1, step)), "shape/negative");
    }
}

#[test]
fn heaps_are_limited() {
    let code = || vec![I::AllocHeap { to: to(0), size: c(3) }, I::Return(ZERO)];
    assert!(call(&with_integer(1 << 20, 0, 1, code()), "f", &[]).is_ok());
    let stop = call(&with_integer((1 << 20) + 1, 0, 1, code()), "f", &[]);
    assert!(matches!(stop, Err(Stop::Exhausted { resource: "memory", .. })), "{stop:?}");
}

#[test]
fn what_a_closure_holds_comes_last() {
    let code = vec![
        I::Tuple { to: to(2), items: [r(1)].into() },
        I::MakeClosure { to: to(3), function: c(3), last: r(2) },
        I::CallValue { to: to(4), function: r(3), args: [r(0)].into() },
        I::Return(r(4)),
    ];
    let mut image = with(2, 5, code);
    image.program.functions.push(function("first", 2, 2, vec![I::Return(r(0))]));
    image.program.constants.push(Constant::Function(5));
    let given = call(&of(image), "f", &[Value::int(7), Value::int(8)]).expect("it runs");
    assert!(matches!(given, Value::Scalar(_, Number::Int(7))), "{given:?}");
}

/// A graph that calls one closure first and another one then: what it is found by is the same.
fn replayed(first: u32, second: u32) -> Result<Value, Stop> {
    let kernel = |number, args: &[Operand]| I::CallKernel { kernel: number, args: args.into() };
    let bodies = [
        vec![kernel(0, &[r(0), r(1)]), I::Return(r(1))],
        vec![kernel(1, &[r(0), r(1)]), I::Return(r(1))],
        vec![kernel(0, &[r(0), r(1)]), kernel(0, &[r(0), r(1)]), I::Return(r(1))],
        vec![kernel(2, &[r(0), r(1), ZERO]), I::Return(r(1))],
        vec![kernel(2, &[r(0), r(1), ONE]), I::Return(r(1))],
        vec![kernel(0, &[r(0), r(1)]), I::Return(r(0))],
    ];
    let mut code = storage(1, 2);
    code.extend([tensor(4, 1, 2, ZERO), I::Tuple { to: to(5), items: Box::default() }]);
    for (at, which) in [(6, first), (7, second)] {
        code.push(I::MakeClosure { to: to(at), function: c(4 + which), last: r(5) });
        let args = [r(at), r(0), r(4)].into();
        code.push(I::RunGraph { to: to(8), function: c(3), args });
    }
    code.push(I::Return(r(8)));
    let mut image = with(1, 9, code);
    let call = I::CallValue { to: to(3), function: r(0), args: [r(1), r(2)].into() };
    image.program.functions.push(function("graph", 3, 4, vec![call, I::Return(r(3))]));
    for (at, body) in bodies.into_iter().enumerate() {
        image.program.functions.push(function(&format!("body{at}"), 2, 2, body));
    }
    let others = [[].as_slice(), &[Param::Int]].map(|more| {
        let mut kernel = image.program.kernels[0].clone();
        kernel.params.extend_from_slice(more);
        kernel
    });
    image.program.kernels.extend(others);
    image.program.constants.extend((5..12).map(Constant::Function));
    call_f(image)
}

fn call_f(image: Image) -> Result<Value, Stop> {
    call(&of(image), "f", &[vector(&[1.0, 2.0])])
}

#[test]
fn a_graph_is_replayed_as_it_was_recorded() {
    for body in 0..6 {
        assert!(replayed(body, body).is_ok(), "{body}");
    }
    // Another kernel, fewer and more launches, another scalar, another result.
    for (first, second) in [(0, 1), (1, 0), (2, 0), (0, 2), (3, 4), (4, 3), (0, 5), (5, 0)] {
        let id = trap(replayed(first, second));
        assert_eq!(id, "builtin.cuda_graph_run_or_capture/C4", "{first}, {second}");
    }
}

/// Stops, with the numbers of the message.
struct Noting;

impl Kernels for Noting {
    fn call(&self, _: usize, _: &[TensorArg<'_>], _: &[i64]) -> Result<(), KernelTrap> {
        Err(KernelTrap::Noted(0, vec![4, -7]))
    }
}

#[test]
fn messages_of_kernels_have_their_numbers() {
    let mut image = image();
    let site = &mut image.program.kernels[0].sites[0];
    (site.values, site.message) = (2, "less than {}, found {}".to_owned());
    let module = Module::new(image, Box::new(Noting)).expect("the program is valid");
    let stop = call(&module, "main", &[vector(&[1.0])]).expect_err("it stops").to_string();
    assert!(stop.contains("less than 4, found -7"), "{stop}");
}

#[test]
fn tensors_are_made_of_their_bytes() {
    let of = |dtype, bytes: &[u8]| Tensor::from_bytes(dtype, &[2], bytes).map(|_| ());
    assert_eq!(of(DType::Bool, &[0, 1]), Ok(()));
    assert_eq!(of(DType::Bool, &[0, 2]), Err("a bool is 0 or 1".to_owned()));
    for bytes in [7, 9] {
        let why = of(DType::F32, &vec![0; bytes]).expect_err("others than 8");
        assert!(why.contains("has 8 bytes"), "{why}");
    }
}
