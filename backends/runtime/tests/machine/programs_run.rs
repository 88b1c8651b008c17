//! What the machine does with programs, and at its limits.

use crate::programs;
use crate::programs::{c, call, elements, function, image, module, r, to, vector};
use relax_runtime::file::{Image, LoadError};
use relax_runtime::instruction::{Instruction as I, Text};
use relax_runtime::{Limits, Module, Stop, Value};

fn trap(result: Result<Value, Stop>) -> Box<relax_runtime::Trap> {
    match result {
        Err(Stop::Trap(trap)) => trap,
        other => panic!("expected a trap, found {other:?}"),
    }
}

#[test]
fn tensors_of_every_size() {
    let module = module(Limits::default());
    for n in [0_u8, 1, 3, 64, 100] {
        let x: Vec<f32> = (0..n).map(f32::from).collect();
        let y = call(&module, "main", &[vector(&x)]).expect("it runs");
        assert_eq!(elements(&y), x.iter().map(|x| x * 4.0).collect::<Vec<_>>());
    }
}

#[test]
fn a_second_call_of_the_same_shapes_allocates_nothing() {
    let module = module(Limits::default());
    let x = vector(&[1.0; 50]);
    drop(call(&module, "main", std::slice::from_ref(&x)));
    let allocations = module.allocations();
    assert!(allocations > 0);
    for _ in 0..20 {
        drop(call(&module, "main", std::slice::from_ref(&x)));
    }
    assert_eq!(module.allocations(), allocations);
}

#[test]
fn a_result_is_not_changed_by_later_calls() {
    let module = module(Limits::default());
    let first = call(&module, "main", &[vector(&[1.0, 2.0])]).expect("it runs");
    let second = call(&module, "main", &[vector(&[5.0, 6.0])]).expect("it runs");
    assert_eq!(elements(&first), [4.0, 8.0]);
    assert_eq!(elements(&second), [20.0, 24.0]);
}

#[test]
fn several_threads_call_at_once() {
    let module = module(Limits::default());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let module = &module;
            scope.spawn(move || {
                let x = f32::from(thread);
                for _ in 0..50 {
                    let y = call(module, "main", &[vector(&[x; 33])]).expect("it runs");
                    assert_eq!(elements(&y), [x * 4.0; 33]);
                }
            });
        }
    });
}

#[test]
fn a_recursion_without_end_is_a_limit() {
    let limits = Limits { depth: 100_000, ..Limits::default() };
    let stop = call(&module(limits), "deep", &[]).expect_err("it has no end");
    assert!(matches!(stop, Stop::Exhausted { resource: "call depth", .. }), "{stop}");
    let limits = Limits { steps: 10, ..Limits::default() };
    let stop = call(&module(limits), "deep", &[]).expect_err("it has no end");
    assert!(matches!(stop, Stop::Exhausted { resource: "steps", .. }), "{stop}");
}

#[test]
fn memory_is_limited() {
    let small = module(Limits { bytes: 1024, ..Limits::default() });
    assert!(call(&small, "main", &[vector(&[1.0; 100])]).is_ok());
    let stop = call(&small, "main", &[vector(&[1.0; 300])]).expect_err("it takes more");
    assert!(matches!(stop, Stop::Exhausted { resource: "memory", .. }), "{stop}");
    assert!(call(&small, "main", &[vector(&[1.0; 100])]).is_ok());
}

#[test]
fn checks_are_traps_with_places() {
    let module = module(Limits::default());
    let found = trap(call(&module, "main", &[Value::int(3)]));
    assert_eq!(found.id, "boundary/kind");
    assert_eq!(found.message, "parameter `x` must be `Tensor((n,), \"f32\")`, found a scalar");
    assert_eq!(found.function.as_deref(), Some("main"));
    assert_eq!(found.span.start, 1);
    let found = trap(call(&module, "main", &[]));
    assert_eq!((found.id.as_str(), found.span.end), ("boundary/arguments", 100));
}

#[test]
fn a_kernel_stops_at_its_site() {
    let module = module(Limits::default());
    let found = trap(call(&module, "main", &[vector(&[-1.0])]));
    assert_eq!((found.id.as_str(), found.span.start), ("tir/test", 7));
    assert_eq!(found.message, "the first element is negative");
}

#[test]
fn a_constant_that_a_kernel_writes_to_stays() {
    let module = module(Limits::default());
    for _ in 0..2 {
        let x = call(&module, "nothing", &[]).expect("it runs");
        assert_eq!(elements(&x), [1.0, 2.0]);
    }
}

#[test]
fn host_functions_are_asked_for_by_name() {
    let mut module = module(Limits::default());
    assert_eq!(module.missing(), ["add_one"]);
    let stop = call(&module, "host", &[Value::int(1)]).expect_err("there is none");
    assert!(matches!(&stop, Stop::Unsupported(why) if why.contains("`add_one`")), "{stop}");
    module.register("add_one", |call| match call.args.as_slice() {
        [Value::Scalar(dtype, relax_runtime::Number::Int(value))] => {
            Ok(Value::Scalar(*dtype, relax_runtime::Number::Int(value + 1)))
        }
        _ => Err(Stop::trap("add_one/C1", "it takes an integer")),
    });
    assert!(module.missing().is_empty());
    let value = call(&module, "host", &[Value::int(1)]).expect("it runs");
    assert!(matches!(value, Value::Scalar(_, relax_runtime::Number::Int(2))), "{value:?}");
    let found = trap(call(&module, "host", &[vector(&[])]));
    assert_eq!((found.id.as_str(), found.function.as_deref()), ("add_one/C1", Some("host")));
}

fn refused(change: impl FnOnce(&mut Image)) -> String {
    let mut image = image();
    change(&mut image);
    match Module::new(image, Box::new(programs::Double)) {
        Err(LoadError::Invalid(why)) => why,
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn programs_that_name_what_is_not_there_are_refused() {
    type Change = fn(&mut Image);
    let cases: [(Change, &str); 10] = [
        (|i| i.program.functions[3].code[1] = I::Return(r(0)), "an operand is not there"),
        (|i| i.program.functions[3].code[1] = I::Return(c(9)), "an operand is not there"),
        (|i| i.program.functions[3].code[1] = I::Return(c(3)), "an operand is not there"),
        (
            |i| i.program.functions[3].code[1] = I::Fail { id: Text(4), message: Text(0) },
            "a text is not there",
        ),
        (|i| i.program.functions[0].code[12] = I::Jump(13), "names what is not there"),
        (|i| drop(i.program.functions[0].code.pop()), "differ in number"),
        (|i| i.program.kernels.clear(), "names what is not there"),
        (|i| i.program.texts.clear(), "a text is not there"),
        (|i| i.data.clear(), "outside of the section"),
        (|i| i.program.functions[2].symbol = Some("main".to_owned()), "offered as `main`"),
    ];
    for (change, why) in cases {
        let found = refused(change);
        assert!(found.contains(why), "{found}, expected {why}");
    }
    let found = refused(|image| {
        let code = vec![I::Fail { id: Text(0), message: Text(0) }, I::Drop(Box::default())];
        image.program.functions.push(function("f", 0, 0, code));
    });
    assert!(found.contains("runs past its end"), "{found}");
    let found = refused(|image| {
        let code = vec![I::Copy { to: to(1), value: c(0) }, I::Return(c(0))];
        image.program.functions.push(function("f", 0, 1, code));
    });
    assert!(found.contains("register of the result"), "{found}");
}
