//! Calls of kernels with tensors that have elements which nothing wrote.

use crate::programs::{call, image, vector};
use relax_runtime::program::{Elements, Extent, Site, Watched};
use relax_runtime::{KernelTrap, Kernels, Limits, Module, Span, Stop, TensorArg, Value};
use std::sync::{Arc, Mutex};

/// Writes what it is given to the first element alone, and notes the maps of watched calls.
#[derive(Clone, Default)]
struct First(Arc<Mutex<Vec<Vec<Vec<u8>>>>>);

impl Kernels for First {
    fn call(&self, _: usize, tensors: &[TensorArg<'_>], _: &[i64]) -> Result<(), KernelTrap> {
        tensors[1].write(&tensors[0].to_bytes())
    }

    fn watches(&self, _: usize) -> bool {
        true
    }

    fn call_watched(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        maps: &mut [Vec<u8>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        self.0.lock().expect("nobody panicked").push(maps.to_vec());
        if maps[0].first() == Some(&0) {
            return Err(KernelTrap::Site(0));
        }
        if let Some(first) = maps[1].first_mut() {
            *first = 1;
        }
        self.call(kernel, tensors, ints)
    }
}

/// What a kernel is called with whose other code does this to its output.
fn maps(output: Elements, elements: &[f32]) -> (Result<Value, Stop>, Vec<Vec<Vec<u8>>>) {
    let input = Elements { are_read_first: true, are_written_where: None };
    let mut image = image();
    image.program.kernels[0].watched = Some(Watched {
        symbol: Some("watched".to_owned()),
        sites: vec![Site {
            id: "tir/watched".to_owned(),
            message: String::new(),
            values: 0,
            span: Span::default(),
        }],
        elements: vec![input, output],
    });
    let kernels = First::default();
    let module = Module::with_limits(image, Box::new(kernels.clone()), Limits::default());
    let result = call(&module.expect("the program is valid"), "main", &[vector(elements)]);
    let seen = kernels.0.lock().expect("nobody panicked").clone();
    (result, seen)
}

#[test]
fn elements_that_nothing_wrote_are_watched() {
    let open = Elements { are_read_first: false, are_written_where: None };
    let (result, seen) = maps(open.clone(), &[1.0, 2.0]);
    let first = vec![vec![1, 1], vec![0, 0]];
    assert_eq!(seen, [first, vec![vec![1, 0], vec![0, 0]]]);
    let Ok(Value::Tensor(tensor)) = result else { panic!("a tensor, not {result:?}") };
    assert_eq!(tensor.written_elements(), Some(&[1, 0][..]));
    assert!(tensor.is_written());
    // One element is whole, and what is empty has none.
    let (result, seen) = maps(open.clone(), &[1.0]);
    assert_eq!(seen, [vec![vec![1], vec![0]], vec![vec![1], vec![0]]]);
    let Ok(Value::Tensor(tensor)) = result else { panic!("a tensor, not {result:?}") };
    assert_eq!(tensor.written_elements(), None);
    assert_eq!(maps(open, &[]).1, [[[0_u8; 0]; 2]; 0]);
}

#[test]
fn what_a_kernel_fills_is_not_watched() {
    let filled = Elements { are_read_first: false, are_written_where: Some(Vec::new()) };
    assert!(maps(filled, &[1.0, 2.0]).1.is_empty());
    let extent = Extent { buffer: 0, axis: 0 };
    let by_extent = Elements { are_read_first: false, are_written_where: Some(vec![extent]) };
    assert!(maps(by_extent.clone(), &[1.0, 2.0]).1.is_empty());
    let nowhere =
        Elements { are_written_where: Some(vec![Extent { axis: 1, ..extent }]), ..by_extent };
    assert_eq!(maps(nowhere, &[1.0]).1.len(), 2, "an extent that is not there is not positive");
    let read = Elements { are_read_first: true, are_written_where: Some(Vec::new()) };
    assert_eq!(maps(read, &[1.0]).1.len(), 2);
}
