//! Kernels that hold what they write elsewhere, as a device with memory of its own does, until the machine settles it.

use crate::programs::{call, elements, image, r, to, vector};
use relax_runtime::file::Image;
use relax_runtime::instruction::{Instruction as I, Text};
use relax_runtime::{
    DType, KernelTrap, Kernels, Memory, Module, Operand, ResidentCall, Span, Stop, TensorArg, Value,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Place = (usize, usize, usize);

/// Doubles a vector of f32.
#[derive(Default)]
struct Elsewhere {
    held: Mutex<BTreeMap<Place, (Memory, Vec<u8>)>>,
    settled: Arc<AtomicUsize>,
}

fn place(tensor: &TensorArg<'_>) -> Option<(Place, Memory)> {
    let memory = tensor.memory()?;
    Some(((memory.number(), memory.offset, tensor.length()), memory))
}

impl Kernels for Elsewhere {
    fn call(&self, _: usize, tensors: &[TensorArg<'_>], _: &[i64]) -> Result<(), KernelTrap> {
        assert!(tensors[0].is_written(), "a kernel or a host function wrote what is read");
        let mut held = self.held.lock().expect("no test panics here");
        let known = place(&tensors[0]).and_then(|(place, _)| held.get(&place).cloned());
        let bytes = known.map_or_else(|| tensors[0].to_bytes(), |(_, bytes)| bytes);
        let read = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        let doubled = bytes.chunks_exact(4).map(read).flat_map(|x| (x * 2.0).to_ne_bytes());
        let doubled: Vec<u8> = doubled.collect();
        match place(&tensors[1]) {
            Some((place, memory)) => _ = held.insert(place, (memory, doubled)),
            None => tensors[1].write(&doubled)?,
        }
        held.retain(|_, (memory, _)| !memory.is_gone());
        Ok(())
    }

    fn settle(&self, tensor: &TensorArg<'_>) -> Result<(), KernelTrap> {
        let found = place(tensor);
        let mut held = self.held.lock().expect("no test panics here");
        let Some((_, bytes)) = found.and_then(|(place, _)| held.remove(&place)) else {
            return Ok(());
        };
        self.settled.fetch_add(1, Ordering::Relaxed);
        tensor.settle(&bytes)
    }
}

#[test]
fn only_what_leaves_the_machine_is_brought_back() {
    let kernels = Elsewhere::default();
    let settled = Arc::clone(&kernels.settled);
    let module = Module::new(image(), Box::new(kernels)).expect("the program is valid");
    for round in 1..=3 {
        let result = call(&module, "main", &[vector(&[1.0, -2.0, 3.0])]).expect("a value");
        assert_eq!(elements(&result), [4.0, -8.0, 12.0]);
        assert_eq!(settled.load(Ordering::Relaxed), round, "the first product never comes back");
    }
}

#[test]
fn a_copy_is_written_at_once() {
    let kernels = Elsewhere::default();
    let settled = Arc::clone(&kernels.settled);
    let module = Module::new(image(), Box::new(kernels)).expect("the program is valid");
    let result = call(&module, "nothing", &[]).expect("a value");
    assert_eq!(elements(&result), [1.0, 2.0], "a constant stays");
    assert_eq!(settled.load(Ordering::Relaxed), 0);
}

/// Between its two kernels `main` calls the host function `add_one`.
fn with_host_function() -> Image {
    let mut image = image();
    let main = &mut image.program.functions[0];
    let second = main.code.iter().rposition(|step| matches!(step, I::CallKernel { .. }));
    let second = second.expect("two kernels");
    main.code[second] = I::CallKernel { kernel: 0, args: vec![r(7), r(6)].into() };
    let host =
        I::CallHost { to: to(7), name: Text(3), args: vec![r(4)].into(), keywords: Box::default() };
    main.code.insert(second, host);
    main.spans.insert(second, Span { start: 40, end: 41 });
    main.registers += 1;
    image
}

/// Elements that are held, each with one added, held as those of another tensor.
fn add_one(kernels: &Elsewhere, call: &ResidentCall<'_>) -> Result<Operand, Stop> {
    assert_eq!((call.function.as_str(), call.span), ("main", Span { start: 40, end: 41 }));
    let [Operand::Tensor(x)] = call.args.as_slice() else { panic!("a tensor: {:?}", call.args) };
    assert_eq!((x.dtype(), x.shape(), x.first_unwritten()), (DType::F32, &[3][..], None));
    let mut made = call.blank(x.dtype(), x.shape())?;
    let reading = x.reading()?;
    let (from, _) = place(&reading).expect("it lies in a storage");
    let mut held = kernels.held.lock().expect("no test panics here");
    let bytes = held.get(&from).expect("a kernel wrote it").1.clone();
    let read = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let added = bytes.chunks_exact(4).map(read).flat_map(|x| (x + 1.0).to_ne_bytes()).collect();
    made.writing(|out| {
        assert!(!out.is_written());
        let (to, memory) = place(out).expect("it lies in a storage");
        assert_ne!(to, from);
        held.insert(to, (memory, added));
    })?;
    Ok(Operand::Tensor(made.filled("add_one")))
}

#[test]
fn a_host_function_may_leave_tensors_where_kernels_hold_them() {
    let kernels = Arc::new(Elsewhere::default());
    let mut module = Module::sharing(with_host_function(), Arc::clone(&kernels) as _);
    let module = module.as_mut().expect("the program is valid");
    let own = Arc::clone(&kernels);
    module.register_resident("add_one", move |call| Some(add_one(&own, call)));
    let result = call(module, "main", &[vector(&[1.0, -2.0, 3.0])]).expect("a value");
    assert_eq!(elements(&result), [6.0, -6.0, 14.0]);
    assert_eq!(kernels.settled.load(Ordering::Relaxed), 1, "the result alone comes back");
}

#[test]
fn a_call_that_such_a_function_leaves_is_the_host_functions() {
    let kernels = Arc::new(Elsewhere::default());
    let mut module = Module::sharing(with_host_function(), Arc::clone(&kernels) as _);
    let module = module.as_mut().expect("the program is valid");
    module.register_resident("add_one", |_| None);
    module.register("add_one", |call| match call.args.as_slice() {
        [Value::Tensor(x)] => {
            let elements = x.to_f32().expect("f32");
            Ok(vector(&elements.iter().map(|x| x + 2.0).collect::<Vec<f32>>()))
        }
        other => panic!("a tensor: {other:?}"),
    });
    let result = call(module, "main", &[vector(&[1.0, -2.0, 3.0])]).expect("a value");
    assert_eq!(elements(&result), [8.0, -4.0, 16.0]);
    assert_eq!(kernels.settled.load(Ordering::Relaxed), 2, "what the host function reads");
}
