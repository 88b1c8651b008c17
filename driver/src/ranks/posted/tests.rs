//! A machine that computes while its collectives wait.

use crate::ranks::{OneRank, Shared};
use crate::{Bound, KernelCheck, Target, Toolchain, compile};
use relax_cpu::{Cache, Compiler};
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::program::Numerics;
use relax_runtime::{Callee, Limits, ObservedCall, Observer};
use relax_semantics::ops;
use relax_semantics::ranks::{Alike, Exchange, Peers, Place};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const PROGRAM: &str = r#"module_attr("mesh[0]", "2")

def main(world: Shape(["r"]), x: Tensor((4,), "f32")):
    y = spmd.all_reduce(x, "mesh[0]", 0, 2, r, "sum", async_op=True)
    z = exp(x)
    u = add(y, z)
    v = spmd.all_reduce(u, "mesh[0]", 0, 2, r, "sum")
    return v
"#;

/// Kernels that ran.
#[derive(Debug, Default)]
struct Ran {
    kernels: Mutex<usize>,
    changed: Condvar,
}

struct Watching(Arc<Ran>);

impl Observer for Watching {
    fn called(&self, call: &ObservedCall<'_>) {
        if call.callee == Callee::Kernel {
            *self.0.kernels.lock().expect("no panic") += 1;
            self.0.changed.notify_all();
        }
    }
}

/// Another rank that comes to the first collective when this one has run a kernel after it.
#[derive(Debug)]
struct Late {
    ran: Arc<Ran>,
    exchanges: AtomicUsize,
}

impl Peers<Shared> for Late {
    fn exchange(
        &self,
        exchange: Exchange<Shared>,
        _: &Alike<'_>,
        _: &Place,
    ) -> Result<Shared, Stop> {
        let number = self.exchanges.fetch_add(1, Ordering::SeqCst);
        let ran = self.ran.kernels.lock().expect("no panic");
        let none = |kernels: &mut usize| *kernels == 0;
        let minute = Duration::from_secs(60);
        let (ran, timeout) =
            self.ran.changed.wait_timeout_while(ran, minute, none).expect("no panic");
        if timeout.timed_out() {
            return Err(Stop::Unsupported("no kernel ran".to_owned()));
        }
        // What uses the first result has run before the second collective, and not before the first.
        assert_eq!(*ran, number + 1);
        Ok(exchange.tensor)
    }
}

#[test]
fn a_machine_computes_until_it_uses_a_result() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let program = Program::load(Source::new("program", PROGRAM));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let tools = Toolchain {
        compiler: Compiler::of_system().expect("a C compiler"),
        cache: Cache::at(folder.path()),
        check: KernelCheck::default(),
    };
    let target = Target::of(Device::Cpu, Numerics::Exact).by(tools);
    let artifact =
        compile(&program, &target, &Bound::default(), &mut Unwatched).expect("it compiles");
    let image = artifact.into_file().expect("a file");
    let mut rank =
        OneRank::load(&image, Limits::default(), &ops::Limits::default()).expect("it loads");
    let ran = Arc::new(Ran::default());
    rank.module.watch(Box::new(Watching(Arc::clone(&ran))));
    let x = Value::Tensor(
        Tensor::from_ints(DType::I64, ndarray::ArrayD::zeros(vec![4])).cast(DType::F32),
    );
    // A machine is called again and again.
    for _ in 0..3 {
        *ran.kernels.lock().expect("no panic") = 0;
        let late = Arc::new(Late { ran: Arc::clone(&ran), exchanges: AtomicUsize::new(0) });
        let called = rank.call(Arc::clone(&late) as _, "main", &[Value::Shape(vec![0]), x.clone()]);
        let Ok(Value::Tensor(sum)) = called.result else { panic!("{:?}", called.result) };
        assert!(sum.to_floats().iter().all(|&one| one == 1.0));
        assert_eq!(late.exchanges.load(Ordering::SeqCst), 2);
    }
}
