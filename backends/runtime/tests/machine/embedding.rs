//! Embedding: what a program learns of a module, a stop and its calls, and what kernels may do with their tensors.

use crate::programs;
use crate::programs::{Double, c, call, elements, function, image, r, to, vector};
use relax_runtime::file::{Image, LoadError};
use relax_runtime::instruction::{Code, Instruction as I, Kind, Label, Text};
use relax_runtime::program::{Constant, Param};
use relax_runtime::{
    Callee, DType, KernelTrap, Kernels, Limits, Mirrors, Module, Number, ObservedCall, Observer,
    Output, Span, Stop, Tensor, TensorArg, Trap, Value,
};
use std::sync::{Arc, Mutex};

fn of(image: Image) -> Module {
    Module::new(image, Box::new(Double)).expect("the program is valid")
}

/// Texts of a program: the usual ones, and from 4 on these.
fn with_texts(texts: &[&str]) -> Image {
    let mut image = image();
    image.program.texts.extend(texts.iter().map(|&text| text.to_owned()));
    image
}

/// Parameters are read off the checks that a function begins with, each off its own.
#[test]
fn parameters_have_names_dtypes_and_dims() {
    let mut image = with_texts(&[
        "parameter `a`",
        "Tensor((n, 4), \"f32\")",
        "n",
        "4",
        "parameter `b`",
        "Tensor(dtype=\"i8\", ndim=3)",
        "parameter `s`",
        "Shape([n])",
        "a result",
        "no text",
    ]);
    let label =
        |about, expected| Label { check: Text(0), about: Text(about), expected: Text(expected) };
    let check =
        |at, kind, size, dtype, label| I::CheckKind { value: r(at), kind, size, dtype, label };
    let shape = |at, terms: &[u32], label| I::MatchShape {
        value: r(at),
        heap: r(4),
        codes: terms.iter().map(|_| Code::Skip).collect(),
        terms: terms.iter().map(|&term| Text(term)).collect(),
        label,
    };
    let code = vec![
        check(0, Kind::Tensor, Some(2), Some(DType::F32), label(4, 5)),
        shape(0, &[6, 7], label(4, 5)),
        check(1, Kind::Tensor, Some(3), Some(DType::I8), label(8, 9)),
        shape(1, &[], label(8, 9)),
        check(2, Kind::Shape, Some(1), Some(DType::F32), label(10, 11)),
        // Of other values, and of a parameter that is checked for something else.
        check(3, Kind::Tensor, Some(2), Some(DType::F32), label(12, 5)),
        shape(3, &[6], label(12, 5)),
        check(4, Kind::Tensor, Some(2), Some(DType::F32), label(4, 5)),
        I::Return(r(0)),
    ];
    image.program.functions.push(function("f", 4, 5, code));
    image.program.functions.last_mut().expect("`f`").donated = vec![1, 3];
    let module = of(image);
    let f = module.function("f").expect("it is offered");
    assert_eq!((f.params(), module.function("g").is_some()), (4, false));
    let found = f.parameters();
    let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "s", ""]);
    let annotations: Vec<&str> = found.iter().map(|one| one.annotation.as_str()).collect();
    assert_eq!(
        annotations,
        ["Tensor((n, 4), \"f32\")", "Tensor(dtype=\"i8\", ndim=3)", "Shape([n])", "Object"]
    );
    let dtypes: Vec<Option<DType>> = found.iter().map(|one| one.dtype).collect();
    assert_eq!(dtypes, [Some(DType::F32), Some(DType::I8), None, None]);
    let dims: Vec<Option<String>> =
        found.iter().map(|one| Some(one.dims.as_ref()?.join(" "))).collect();
    assert_eq!(dims, [Some("n 4".to_owned()), Some("? ? ?".to_owned()), None, None]);
    let donated: Vec<bool> = found.iter().map(|one| one.is_donated).collect();
    assert_eq!(donated, [false, true, false, true]);
}

#[test]
fn a_module_says_what_is_in_it() {
    let mut image = image();
    image.program.constants.push(Constant::Tensor { dtype: DType::F64, shape: vec![1], at: 0 });
    image.program.constants.push(Constant::Shape(vec![5]));
    let module = of(image);
    assert_eq!(module.constant_bytes(), 8 + 8);
    assert_eq!(module.functions().collect::<Vec<_>>(), ["deep", "host", "main", "nothing"]);
    assert_eq!(module.name_of(&Value::Function(1)), Some("deep"));
    assert_eq!(module.name_of(&Value::Kernel(0)), Some("double"));
    for other in [Value::Function(4), Value::Kernel(1), Value::int(0)] {
        assert_eq!(module.name_of(&other), None);
    }
    assert_eq!((module.kernels().len(), module.host_functions()), (1, vec!["add_one"]));
    assert_eq!(module.account(), None);
    let limits = Limits { threads: 3, ..Limits::default() };
    assert_eq!(programs::module(limits).threads(), 3);
    assert_eq!(format!("{module:?}"), r#"Module(["deep", "host", "main", "nothing"])"#);
}

/// Constants that name what is not there, and those that just are.
#[test]
fn constants_are_validated() {
    let refused = |constant: Constant| {
        let mut image = image();
        image.data = vec![0; 128];
        image.program.constants.push(constant);
        match Module::new(image, Box::new(Double)) {
            Ok(_) => None,
            Err(LoadError::Invalid(why)) => Some(why),
            Err(other) => panic!("{other:?}"),
        }
    };
    let tensor = |dtype, shape: &[i64], at| Constant::Tensor { dtype, shape: shape.to_vec(), at };
    let output = |dtype, dims: &[i64]| Constant::Output(Output { dtype, dims: dims.to_vec() });
    for fine in [
        tensor(DType::F32, &[16], 64),
        tensor(DType::Bool, &[128], 0),
        Constant::Shape(vec![0, 3]),
        Constant::Function(3),
        Constant::Kernel(0),
        output(Some(DType::F32), &[2]),
        output(None, &[1 << 61]),
    ] {
        assert_eq!(refused(fine.clone()), None, "{fine:?}");
    }
    let outside = "it lies outside of the section of constants";
    let cases = [
        (tensor(DType::F32, &[17], 64), outside),
        (tensor(DType::F32, &[1], 128), outside),
        (tensor(DType::F32, &[1], u64::MAX), outside),
        (tensor(DType::F32, &[1], 32), "it is not aligned"),
        (tensor(DType::F32, &[-1], 0), "its shape is none"),
        (Constant::Shape(vec![3, -1]), "a dim is negative"),
        (Constant::Function(4), "it names a function that is not there"),
        (Constant::Kernel(1), "it names a kernel that is not there"),
        (output(Some(DType::F64), &[1 << 61]), "its shape is none"),
        (output(None, &[-1]), "its shape is none"),
    ];
    for (constant, why) in cases {
        let why = format!("constant 3: {why}");
        assert_eq!(refused(constant.clone()), Some(why), "{constant:?}");
    }
    let mut image = image();
    image.program.constants[2] = Constant::Tensor { dtype: DType::Bool, shape: vec![8], at: 0 };
    let bools = |bytes: &[u8]| {
        Module::new(Image { data: bytes.to_vec(), ..image.clone() }, Box::new(Double))
    };
    assert!(bools(&[0, 1, 1, 0, 1, 0, 0, 1]).is_ok());
    let why = bools(&[0, 1, 1, 0, 2, 0, 0, 1]).expect_err("2 is no bool").to_string();
    assert!(why.contains("a constant of bools holds something else"), "{why}");
}

#[test]
fn functions_are_validated() {
    let refused = |change: fn(&mut relax_runtime::program::Function)| {
        let mut image = image();
        change(&mut image.program.functions[0]);
        match Module::new(image, Box::new(Double)) {
            Err(LoadError::Invalid(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        refused(|f| f.registers = (1 << 20) + 1),
        "function `main`: more than 1048576 registers"
    );
    assert_eq!(refused(|f| f.params = 8), "function `main`: more parameters than registers");
    assert_eq!(
        refused(|f| f.donated = vec![0, 1]),
        "function `main`: a donated parameter is not there"
    );
    assert_eq!(
        refused(|f| f.spans.truncate(1)),
        "function `main`: places and instructions differ in number"
    );
    assert_eq!(
        refused(|f| {
            f.code.clear();
            f.spans.clear();
        }),
        "function `main`: it runs past its end"
    );
    let mut image = image();
    (image.program.functions[0].registers, image.program.functions[0].donated) = (1 << 20, vec![0]);
    assert!(Module::new(image, Box::new(Double)).is_ok());
}

fn trapped(result: Result<Value, Stop>) -> Trap {
    match result {
        Err(Stop::Trap(trap)) => *trap,
        other => panic!("{other:?}"),
    }
}

/// Functions that call each other, the last one of which fails; places are told from the inside.
#[test]
fn a_trap_has_the_places_that_led_to_it() {
    let mut image = image();
    let first = image.program.functions.len() as u32;
    for at in 0..9 {
        let called = |next| I::Call { to: to(0), function: first + next, args: [].into() };
        let step = if at == 8 { I::Fail { id: Text(0), message: Text(1) } } else { called(at + 1) };
        let mut one = function(&format!("f{at}"), 0, 1, vec![step, I::Return(r(0))]);
        one.spans = vec![Span { start: 10 * at, end: 10 * at + 5 }; 2];
        one.span = Span { start: 100 * (at + 1), end: 100 * (at + 1) + 1 };
        image.program.functions.push(one);
    }
    let module = of(image);
    let trap = trapped(call(&module, "f5", &[]));
    assert_eq!((trap.function.as_deref(), trap.span), (Some("f8"), Span { start: 80, end: 85 }));
    let place =
        |at: u32| (Span { start: 10 * at, end: 10 * at + 5 }, format!("called from `f{at}`"));
    assert_eq!(trap.places, [place(7), place(6), place(5)]);
    let trap = trapped(call(&module, "f0", &[]));
    assert_eq!(trap.places, (2..8).rev().map(place).collect::<Vec<_>>(), "six of them");
}

/// A function that calls itself: the backtrace names the place of the trap once, and each call site once.
#[test]
fn a_recursion_is_told_once() {
    let mut image = image();
    let itself = image.program.functions.len() as u32;
    let code = vec![
        I::Branch { condition: r(0), otherwise: 2 },
        I::Fail { id: Text(0), message: Text(1) },
        I::Call { to: to(1), function: itself, args: [c(3)].into() },
        I::Return(r(1)),
    ];
    image.program.functions.push(function("f", 1, 2, code));
    let caller =
        vec![I::Call { to: to(0), function: itself, args: [c(4)].into() }, I::Return(r(0))];
    let mut caller = function("g", 0, 1, caller);
    caller.spans[0] = Span { start: 50, end: 60 };
    image.program.functions.push(caller);
    let bool = |value| Constant::Scalar(DType::Bool, Number::Int(value));
    image.program.constants.extend([bool(1), bool(0)]);
    let trap = trapped(call(&of(image), "g", &[]));
    assert_eq!(trap.function.as_deref(), Some("f"));
    assert_eq!(trap.places, [(Span { start: 50, end: 60 }, "called from `g`".to_owned())]);
}

/// What an observer was told: kind, name, shapes, integers, place.
type Told = (Callee, String, Vec<Vec<i64>>, Vec<i64>, Span);

#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Vec<Told>>>);

impl Observer for Notebook {
    fn called(&self, call: &ObservedCall<'_>) {
        let shapes = call.shapes.iter().map(|shape| shape.to_vec()).collect();
        let told = (call.callee, call.name.to_owned(), shapes, call.integers.to_vec(), call.span);
        self.0.lock().expect("nobody panicked").push(told);
    }
}

#[test]
fn observers_are_told_of_each_call() {
    let mut module = of(image());
    module.register("add_one", |call| Ok(call.args[0].clone()));
    let notes = Notebook::default();
    module.watch(Box::new(notes.clone()));
    let x = vector(&[1.0, 2.0, 3.0]);
    call(&module, "main", std::slice::from_ref(&x)).expect("it runs");
    call(&module, "host", &[x]).expect("it runs");
    let span = |at| Span { start: at, end: at + 1 };
    let kernel =
        |at| (Callee::Kernel, "double".to_owned(), vec![vec![3], vec![3]], vec![], span(at));
    let host = (Callee::Host, "add_one".to_owned(), vec![vec![3]], vec![], span(0));
    assert_eq!(*notes.0.lock().expect("nobody panicked"), [kernel(6), kernel(9), host]);
}

/// A kernel that is a function of the test.
struct Kernel<F>(F);

impl<F: Fn(&[TensorArg<'_>], &[i64]) -> Result<(), KernelTrap> + Send + Sync> Kernels
    for Kernel<F>
{
    fn call(&self, _: usize, tensors: &[TensorArg<'_>], ints: &[i64]) -> Result<(), KernelTrap> {
        (self.0)(tensors, ints)
    }
}

fn why(result: Result<(), KernelTrap>) -> String {
    match result {
        Err(KernelTrap::Stop(stop)) => stop.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn kernels_write_to_outputs_and_all_of_them() {
    let kernel = Kernel(|tensors: &[TensorArg<'_>], _: &[i64]| {
        let [x, y] = tensors else { panic!("two tensors") };
        assert_eq!((x.length(), y.length(), x.is_written(), y.is_written()), (12, 12, true, false));
        let read = "not supported: a kernel writes 12 bytes to a tensor of 12 bytes (Read)";
        assert_eq!(why(x.write(&[0; 12])), read);
        for bytes in [0, 11, 13] {
            let wrong = format!(
                "not supported: a kernel writes {bytes} bytes to a tensor of 12 bytes (ReadWrite)"
            );
            assert_eq!(why(y.write(&vec![0; bytes])), wrong);
            let brought = format!(
                "not supported: {bytes} bytes are brought to a tensor that cannot take them"
            );
            assert_eq!(why(y.settle(&vec![0; bytes])), brought);
        }
        assert!(x.memory().is_some(), "an argument stays where it is");
        let brought = "not supported: 12 bytes are brought to a tensor that cannot take them";
        assert_eq!(why(x.settle(&[0; 12])), brought);
        y.write(&x.to_bytes())
    });
    let mut image = image();
    image.program.constants.push(Constant::Shape(vec![3]));
    let zero = c(1);
    let code = vec![
        I::AllocStorage { to: to(1), size: c(3), dtype: DType::F32 },
        I::AllocTensor { to: to(2), storage: r(1), shape: c(3), dtype: None, offset: zero },
        I::CallKernel { kernel: 0, args: [r(0), r(2)].into() },
        I::Return(r(2)),
    ];
    image.program.functions.push(function("f", 1, 3, code));
    let module = Module::new(image, Box::new(kernel)).expect("the program is valid");
    let y = call(&module, "f", &[vector(&[1.0, 2.0, 3.0])]).expect("it runs");
    assert_eq!(elements(&y), [1.0, 2.0, 3.0]);
}

/// Mirrors are found by the bytes and the dtype of a tensor; what is written there takes away those that share a byte.
#[test]
fn mirrors_are_of_bytes() {
    let kernel = Kernel(|tensors: &[TensorArg<'_>], _: &[i64]| {
        let mut mirrors = Mirrors::default();
        let mut gone = Vec::new();
        // [0, 8), [4, 12), [8, 16) of one storage, and [0, 8) as i32.
        let [a, b, c, other] = tensors else { panic!("four tensors") };
        for (tensor, name) in [(a, 'a'), (c, 'c')] {
            mirrors.put(tensor, (name, true), &mut gone);
        }
        assert_eq!(mirrors.of(a).map(|mirror| (mirror.buffer, mirror.is_newer)), Some(('a', true)));
        assert_eq!(mirrors.of(c).map(|mirror| mirror.buffer), Some('c'), "they share no byte");
        assert!(mirrors.of(b).is_none() && mirrors.of(other).is_none());
        mirrors.put(a, ('A', false), &mut gone);
        assert_eq!(std::mem::take(&mut gone), ['a'], "the one before it");
        assert_eq!(mirrors.remove(other), None);
        mirrors.put(b, ('b', false), &mut gone);
        assert!(gone.is_empty() && mirrors.of(a).is_some() && mirrors.of(b).is_some());
        mirrors.forget(a, &mut gone);
        assert_eq!(std::mem::take(&mut gone), ['A', 'b']);
        assert!(mirrors.of(a).is_none() && mirrors.of(b).is_none() && mirrors.of(c).is_some());
        mirrors.put(b, ('B', true), &mut gone);
        assert_eq!(std::mem::take(&mut gone), ['c'], "it is newer than what shares bytes with it");
        mirrors.purge(&mut gone);
        assert!(gone.is_empty(), "the storage is there");
        assert_eq!((mirrors.remove(b), mirrors.remove(b)), (Some('B'), None));
        Ok(())
    });
    let mut image = image();
    let buffer = |dtype| Param::Buffer { name: "X".to_owned(), dtype, rank: 1, is_written: false };
    image.program.kernels[0].params =
        [DType::F32, DType::F32, DType::F32, DType::I32].map(buffer).to_vec();
    let offset = |at: i64| Constant::Scalar(DType::I64, Number::Int(at.into()));
    image.program.constants.extend([
        offset(4),
        offset(8),
        Constant::Shape(vec![2]),
        Constant::Shape(vec![4]),
    ]);
    let place = |at, offset, dtype| I::AllocTensor {
        to: to(at),
        storage: r(0),
        shape: c(5),
        dtype,
        offset,
    };
    let code = vec![
        I::AllocStorage { to: to(0), size: c(6), dtype: DType::F32 },
        place(1, c(1), None),
        place(2, c(3), None),
        place(3, c(4), None),
        place(4, c(1), Some(DType::I32)),
        I::CallKernel { kernel: 0, args: [r(1), r(2), r(3), r(4)].into() },
        I::Return(c(0)),
    ];
    image.program.functions.push(function("f", 0, 5, code));
    let module = Module::new(image, Box::new(kernel)).expect("the program is valid");
    call(&module, "f", &[]).expect("it runs");
}

#[test]
fn tensors_know_whose_memory_they_have() {
    let tensor = Tensor::from_f32(&[2], &[1.0, 2.0]).expect("a vector");
    assert!(tensor.is_owned());
    let other = tensor.clone();
    assert!(!tensor.is_owned() && !other.is_owned(), "it has two names");
    drop(other);
    assert!(tensor.is_owned());
    let bytes: Arc<[u8]> = Arc::from([1_u8, 0, 1, 0]);
    let lent = |dtype, shape: &[i64], bytes: &Arc<[u8]>| {
        let loan = Box::new(Arc::clone(bytes));
        // SAFETY: the loan keeps the bytes, which nobody writes to.
        #[allow(unsafe_code)]
        unsafe { Tensor::lent(dtype, shape, bytes.as_ptr(), loan) }.map_err(|why| why.to_string())
    };
    let bools = lent(DType::Bool, &[2, 2], &bytes).expect("they are bools");
    assert_eq!(
        (bools.bytes(), bools.is_owned(), Arc::strong_count(&bytes)),
        (&bytes[..], false, 2)
    );
    drop(bools);
    assert_eq!(Arc::strong_count(&bytes), 1, "the loan has ended");
    let twos: Arc<[u8]> = Arc::from([1_u8, 2, 0, 0]);
    assert_eq!(lent(DType::Bool, &[4], &twos).map(drop), Err("a bool is 0 or 1".to_owned()));
    assert!(lent(DType::U8, &[4], &twos).is_ok());
    assert!(
        lent(DType::U8, &[-4], &twos)
            .is_err_and(|why| why.contains("[-4] is no shape of a tensor"))
    );
    let same = Tensor::from_f32(&[2, 1], &[1.0, 2.0]).expect("a column").extended(1, 1);
    assert_eq!(same.expect("it stays").to_f32(), Some(vec![1.0, 2.0]));
    let map = Tensor::from_f32(&[2], &[1.0, 2.0]).expect("a vector").written_at(&[1]);
    assert_eq!(map.map(drop), Err("1 bytes tell of 2 elements".to_owned()));
}

/// A module that comes through a pipe cannot be mapped, and is read.
#[cfg(unix)]
#[test]
fn modules_come_through_pipes() {
    let path = std::env::temp_dir().join(format!("relax-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    let mut image = image();
    image.program.functions.truncate(3);
    image.program.functions.push(function("f", 0, 0, vec![I::Return(c(2))]));
    let bytes = image.to_bytes();
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || std::fs::write(path, bytes).expect("somebody reads"))
    };
    let module = Module::open(&path, Limits::default()).expect("it is whole");
    writer.join().expect("it is written");
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(elements(&call(&module, "f", &[]).expect("it runs")), [1.0, 2.0]);
}
