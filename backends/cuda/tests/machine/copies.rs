//! What is copied when, what is waited for, and what is recorded and replayed: the processor runs it, and counts.

use super::counted::{Counted, Event, Events};
use super::shim::{Shim, compiler};
use super::{exact, load};
use Event::{Begin, Copy, Download, End, Fill, Launch, Replay, Upload};
use relax_cuda::Built;
use relax_program::frontend::Program;
use relax_runtime::{Module, ObservedCall, Observer, Stop, Tensor, Value};
use relax_syntax::span::Source;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A program on a device that counts; none where there is no compiler.
fn counted(text: &str) -> Option<(Module, Events, tempfile::TempDir)> {
    compiler()?;
    let folder = tempfile::tempdir().expect("a folder");
    let (events, source) = (Events::default(), Source::new("copies", text));
    let program = Program::load(source.clone());
    #[cfg(feature = "cuda")]
    if super::is_on_driver() {
        let device = |built: &Built| {
            let device = relax_cuda::Driver::new(&built.text)?;
            Ok(Counted { device, events: events.clone() })
        };
        let module = load(&program.module, &source, &device, &exact());
        return Some((module.expect("it is well-formed"), events, folder));
    }
    let device = |built: &Built| {
        let device = Shim::of(&built.text, &built.kernels, folder.path(), false);
        Ok(Counted { device, events: events.clone() })
    };
    let module = load(&program.module, &source, &device, &exact());
    Some((module.expect("it is well-formed"), events, folder))
}

fn tensor(shape: &[i64], elements: &[f32]) -> Tensor {
    Tensor::from_f32(shape, elements).expect("a tensor")
}

fn call(module: &Module, args: &[&Tensor]) -> Result<Tensor, Stop> {
    let args: Vec<Value> = args.iter().map(|&tensor| Value::Tensor(tensor.clone())).collect();
    match module.function("main").expect("a function `main`").call(&args)? {
        Value::Tensor(tensor) => Ok(tensor),
        other => panic!("{other:?}"),
    }
}

fn f32s(tensor: &Tensor) -> Vec<f32> {
    tensor.to_f32().expect("f32")
}

/// Twice the unit.
fn twice() -> Tensor {
    tensor(&[2, 2], &[2.0, 0.0, 0.0, 2.0])
}

const CHAIN: &str = r#"
def main(x: Tensor(("n", 2), "f32"), w: Tensor((2, 2), "f32")):
    return matmul(matmul(matmul(x, w), w), w)
"#;

#[test]
fn a_chain_of_kernels_copies_its_arguments_and_its_result() {
    let Some((module, events, _folder)) = counted(CHAIN) else { return };
    let (x, w) = (tensor(&[1, 2], &[1.0, -3.0]), twice());
    assert_eq!(f32s(&call(&module, &[&x, &w]).expect("a value")), [8.0, -24.0]);
    // The status is cleared once, for all kernels.
    let first = [Fill, Upload(8), Upload(16), Launch, Launch, Launch, Download(8)];
    assert_eq!(events.take(), first);
    // What is there is not brought there again, and results are.
    let y = call(&module, &[&x, &w]).expect("a value");
    assert_eq!(events.take(), [Launch, Launch, Launch, Download(8)]);
    assert_eq!(f32s(&call(&module, &[&y, &w]).expect("a value")), [64.0, -192.0]);
    assert_eq!(events.take(), [Launch, Launch, Launch, Download(8)]);
    // Other dims need other memory, and no other weights.
    let other = tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(f32s(&call(&module, &[&other, &w]).expect("a value")), [8.0, 16.0, 24.0, 32.0]);
    assert_eq!(events.take(), [Upload(16), Launch, Launch, Launch, Download(16)]);
}

#[test]
fn a_host_function_gets_what_the_device_has() {
    let text = r#"
def main(x: Tensor((1, 2), "f32"), w: Tensor((2, 2), "f32")):
    y: Tensor((1, 2), "f32") = call_pure_packed("builtin.relu", matmul(x, w), ret=Tensor((1, 2), "f32"))
    z = call_tir(doubled, [y], Tensor((1, 2), "f32"))
    return z

@tensorir_function
def doubled(X: Buffer((1, 2), "f32"), Y: Buffer((1, 2), "f32")):
    for i in range(2):
        Y[0, i] = X[0, i] + X[0, i]
"#;
    let Some((module, events, _folder)) = counted(text) else { return };
    let (x, w) = (tensor(&[1, 2], &[1.0, -3.0]), twice());
    assert_eq!(f32s(&call(&module, &[&x, &w]).expect("a value")), [4.0, 0.0]);
    let all = [Fill, Upload(8), Upload(16), Launch, Download(8), Upload(8), Launch, Download(8)];
    assert_eq!(events.take(), all);
}

const STOPPING: &str = r#"
def main(x: Tensor((3,), "f32"), at: Tensor((1,), "i64")):
    y: Tensor((3,), "f32") = call_tir_inplace(raise_up_to, [x, at], inplace=[0], out=Tensor((3,), "f32"))
    return y

@tensorir_function
def raise_up_to(X: Buffer((3,), "f32"), I: Buffer((1,), "i64")):
    for i in range(4):
        if i <= I[0]:
            X[i] += 1.0
"#;

#[test]
fn what_may_stop_is_waited_for_and_leaves_its_arguments() {
    let Some((module, events, _folder)) = counted(STOPPING) else { return };
    let x = tensor(&[3], &[1.0, 2.0, 3.0]);
    let at = |at: i64| {
        Tensor::from_bytes(relax_runtime::DType::I64, &[1], &at.to_ne_bytes()).expect("a tensor")
    };
    assert_eq!(f32s(&call(&module, &[&x, &at(1)]).expect("a value")), [2.0, 3.0, 3.0]);
    let waits = events.take().into_iter().filter(|event| matches!(event, Download(_)));
    assert_eq!(waits.collect::<Vec<_>>(), [Download(4), Download(12)], "the status, the result");
    let Err(Stop::Trap(trap)) = call(&module, &[&x, &at(3)]) else { panic!("it stops") };
    assert_eq!(trap.id, "tir/out_of_bounds");
    events.take();
    // Nothing is left of it.
    assert_eq!(f32s(&call(&module, &[&x, &at(2)]).expect("a value")), [2.0, 3.0, 4.0]);
}

/// The device says that the first check failed, and the interpreter finds that it holds: the trap is that of the check.
#[test]
fn a_stop_that_the_interpreter_does_not_see_is_that_of_its_place() {
    let Some((module, events, _folder)) = counted(STOPPING) else { return };
    events.claim(1);
    let at = Tensor::from_bytes(relax_runtime::DType::I64, &[1], &1_i64.to_ne_bytes());
    let x = tensor(&[3], &[1.0, 2.0, 3.0]);
    let stop = call(&module, &[&x, &at.expect("a tensor")]);
    let Err(Stop::Trap(trap)) = stop else { panic!("it stops: {stop:?}") };
    assert_eq!(trap.id, "tir/out_of_bounds");
}

const PARTLY: &str = r#"
def main(x: Tensor((3,), "f32")):
    y = call_tir(partly, [x], Tensor((3,), "f32"))
    return y

@tensorir_function
def partly(X: Buffer((3,), "f32"), Y: Buffer((3,), "f32")):
    T = alloc_buffer((3,), "f32")
    for i in range(3):
        if X[i] > 0.0:
            T[i] = X[i]
    for i in range(3):
        Y[i] = T[i]
"#;

/// Which elements were written is noted in memory that begins with zeros, whatever is in new memory.
#[test]
fn elements_that_nothing_wrote_are_noticed() {
    let Some((module, _events, _folder)) = counted(PARTLY) else { return };
    let y = call(&module, &[&tensor(&[3], &[1.0, 2.0, 3.0])]).expect("a value");
    assert_eq!(f32s(&y), [1.0, 2.0, 3.0]);
    let stop = call(&module, &[&tensor(&[3], &[1.0, -2.0, 3.0])]);
    let Err(Stop::Trap(trap)) = stop else { panic!("it stops: {stop:?}") };
    assert_eq!(trap.id, "tir/uninitialized");
}

const APART: &str = r#"
def main(x: Tensor((3,), "f32")):
    s = memory.alloc_storage(shape(7), "f32")
    a = memory.alloc_tensor(s, shape(3), "f32", offset=OFFSET)
    doubled(x, a)
    return a

@tensorir_function
def doubled(X: Buffer((3,), "f32"), Y: Buffer((3,), "f32")):
    for i in range(3):
        Y[i] = X[i] + X[i]
"#;

/// Texts load vectors from where memory begins, and every 16 bytes from there.
#[test]
fn tensors_that_lie_elsewhere_are_not_launched() {
    for (offset, is_launched) in [("0", true), ("4", false), ("16", true)] {
        let Some((module, events, _folder)) = counted(&APART.replace("OFFSET", offset)) else {
            return;
        };
        let y = call(&module, &[&tensor(&[3], &[1.0, 2.0, 3.0])]).expect("a value");
        assert_eq!(f32s(&y), [2.0, 4.0, 6.0]);
        assert_eq!(events.take().contains(&Launch), is_launched, "{offset}");
    }
}

const IN_PLACE: &str = r#"
def main(x: Tensor((3,), "f32"), at: Tensor((1,), "i64")):
    s = memory.alloc_storage(shape(3), "f32")
    a = memory.alloc_tensor(s, shape(3), "f32")
    doubled(x, a)
    raise_up_to(a, at)
    return a

@tensorir_function
def doubled(X: Buffer((3,), "f32"), Y: Buffer((3,), "f32")):
    for i in range(3):
        Y[i] = X[i] + X[i]

@tensorir_function
def raise_up_to(X: Buffer((3,), "f32"), I: Buffer((1,), "i64")):
    for i in range(4):
        if i <= I[0]:
            if X[i] != 6.0:
                X[i] += 1.0
            else:
                X[i + I[0]] = 0.0
"#;

/// What the kernel had written before it stopped would change where the interpreter stops.
#[test]
fn the_interpreter_sees_what_the_call_began_with() {
    let Some((module, events, _folder)) = counted(IN_PLACE) else { return };
    let i64s = |at: i64| Tensor::from_bytes(relax_runtime::DType::I64, &[1], &at.to_ne_bytes());
    let x = tensor(&[3], &[1.0, 2.0, 3.0]);
    let y = call(&module, &[&x, &i64s(1).expect("a tensor")]).expect("a value");
    assert_eq!(f32s(&y), [3.0, 5.0, 6.0]);
    let all = events.take();
    assert_eq!(all.iter().filter(|event| **event == Copy).count(), 1, "what is there is kept");
    let Err(Stop::Trap(trap)) = call(&module, &[&x, &i64s(2).expect("a tensor")]) else {
        panic!("it stops")
    };
    assert_eq!(trap.id, "tir/out_of_bounds");
    let copies = events.take().into_iter().filter(|event| *event == Copy).count();
    assert_eq!(copies, 2, "it is kept, and comes back");
}

const GRAPH: &str = r#"
def main(x: Tensor(("n", 2), "f32")):
    n = sym_var(upper_bound=8)
    a: Tensor((n, 2), "f32") = cumsum(negative(abs(x)), axis=0)
    b = cumsum(a, axis=0)
    c = cumsum(b, axis=0)
    return cumsum(c, axis=0)
"#;

#[test]
fn a_region_is_recorded_once_for_its_dims_and_replayed() {
    let Some((module, events, _folder)) = counted(GRAPH) else { return };
    let outer = |events: Vec<Event>| {
        let is_of_graphs = |event: &Event| matches!(event, Begin | End | Replay | Download(_));
        events.into_iter().filter(is_of_graphs).collect::<Vec<_>>()
    };
    for elements in [[1.0, 2.0], [-5.0, 3.0], [0.5, -0.5]] {
        let x = tensor(&[1, 2], &elements);
        let want: Vec<f32> = elements.iter().map(|element: &f32| -element.abs()).collect();
        let y = call(&module, &[&x]).expect("a value");
        assert_eq!(f32s(&y), want);
        let seen = outer(events.take());
        match elements {
            [1.0, _] => assert_eq!(seen, [Begin, End, Download(8)]),
            _ => assert_eq!(seen, [Replay, Download(8)]),
        }
    }
    // Other dims are another graph, and the first is still there.
    let other = tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(f32s(&call(&module, &[&other]).expect("a value")), [-1.0, -2.0, -7.0, -12.0]);
    assert_eq!(outer(events.take()), [Begin, End, Download(16)]);
    drop(other);
    // Other memory is another graph too.
    let held = tensor(&[1, 2], &[7.0, 0.0]);
    assert_eq!(f32s(&call(&module, &[&held]).expect("a value")), [-7.0, 0.0]);
    assert_eq!(outer(events.take()), [Replay, Download(8)]);
    let x = tensor(&[1, 2], &[0.0, 9.0]);
    assert_eq!(f32s(&call(&module, &[&x]).expect("a value")), [0.0, -9.0]);
    assert_eq!(outer(events.take()), [Begin, End, Download(8)]);
    assert!(call(&module, &[&tensor(&[9, 2], &[0.0; 18])]).is_err(), "a dim beyond its bound");
}

const SUM: &str = r#"
def main(x: Tensor(("n",), "f32"), y: Tensor(("n",), "f32")):
    return add(x, y)
"#;

/// Each copy goes through two pieces of pinned memory in turns, and through one of them where it fills what the one before left.
#[test]
fn copies_of_many_pieces_are_whole_and_are_timed() {
    let Some((mut module, _, _folder)) = counted(SUM) else { return };
    for n in [1_i64 << 20, (1 << 20) - 7, 5 * (1 << 19) + 3, 1, 3 << 20] {
        let x: Vec<f32> = (0..n).map(|at| at as f32).collect();
        let y: Vec<f32> = (0..n).map(|at| (at * 37 % 1009) as f32).collect();
        let sum = call(&module, &[&tensor(&[n], &x), &tensor(&[n], &y)]).expect("a value");
        let expected = x.iter().zip(&y).map(|(x, y)| x + y);
        assert!(f32s(&sum).into_iter().eq(expected), "{n} elements");
    }
    // An observer gets the time between events of the device: on an emulated device a millisecond passes between two of them.
    #[derive(Clone, Default)]
    struct Times(Arc<Mutex<Vec<Duration>>>);
    impl Observer for Times {
        fn called(&self, call: &ObservedCall<'_>) {
            self.0.lock().expect("nobody panicked").push(call.duration);
        }
    }
    let times = Times::default();
    module.watch(Box::new(times.clone()));
    let one = tensor(&[1], &[1.0]);
    call(&module, &[&one, &one]).expect("a value");
    let expected =
        if cfg!(feature = "cuda") && std::env::var_os("RELAX_ON_DRIVER").is_some() { 1 } else { 0 };
    assert_eq!(*times.0.lock().expect("nobody panicked"), [Duration::from_millis(expected)]);
}
