//! What a build knows of a module: weights that are bound are stored as products read them, once, with the same results for every
//! number of rows, bit for bit, as the elements are small integers; and memory of a function with bounds is the same for all shapes.

use relax_cpu::{Cache, Compiler, hardware};
use relax_driver::{Bound, KernelCheck, Target, build_cpu, compile, lower, panel};
use relax_lower::lowered::Lowered;
use relax_lower::program::Around;
use relax_program::compare::{Relation, compare};
use relax_program::externals::externals;
use relax_program::frontend::Program;
use relax_reference::{to_machine, to_semantics};
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::passes::bind_params;
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_runtime::program::Numerics;
use relax_runtime::{Limits, Module as Machine};
use relax_semantics::interp::{Interpreter, Options};
use relax_semantics::tensor::{Data, Number, Tensor};
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Columns at and around those of panels, stored by rows and by columns; `w` is read by two products, `v` also as it is.
const TEXT: &str = r#"
def main(
    x: Tensor(("n", 7), "f32"),
    x1: Tensor(("n", 7), "f32"),
    w: Tensor((7, 131), "f32"),
    b: Tensor((131,), "f32"),
    u: Tensor((65, 131), "f32"),
    v: Tensor((65, 128), "f32"),
    t: Tensor((128, 3), "f32"),
):
    with dataflow():
        h = nn.relu(add(matmul(x, w), b))
        k = matmul(x1, w)
        g = matmul(add(h, k), permute_dims(u))
        y = matmul(g, v)
        z = matmul(y, t)
        s = add(y, take(v, const([1], "i64"), axis=0))
        output(s, z)
    return (s, z)
"#;

/// Small integers, so that no sum is rounded.
fn integers(shape: &[usize], seed: usize) -> Tensor {
    let mut data = Tensor::full(DType::F32, shape, Number::Float(0.0)).data().clone();
    if let Data::F32(elements) = &mut data {
        let elements = elements.as_slice_mut().expect("row-major").iter_mut().enumerate();
        elements.for_each(|(at, element)| *element = ((at * 7 + at / 5 + seed) % 5) as f32 - 2.0);
    }
    Tensor::from_data(data)
}

fn weights() -> BTreeMap<Name, Tensor> {
    let all: [(&str, &[usize]); 5] =
        [("w", &[7, 131]), ("b", &[131]), ("u", &[65, 131]), ("v", &[65, 128]), ("t", &[128, 3])];
    let each = all.into_iter().enumerate();
    each.map(|(seed, (name, shape))| (Name::new(name), integers(shape, seed))).collect()
}

/// The program with its weights bound, and as it is built.
fn lowered(program: &Program, values: &Arc<BTreeMap<Name, Tensor>>) -> (Module, Lowered) {
    let panel = panel(hardware().isa, None);
    let settings = Settings { params: Arc::clone(values), panel, ..Settings::default() };
    let route = Route::Passes(vec![&bind_params::PASS]);
    let bound = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched);
    let bound = bound.expect("the values fit");
    let target = Target::of(Device::Cpu, Numerics::Reassociated);
    let lowered = lower(&target, &bound, &settings, &mut Unwatched);
    (bound, lowered.unwrap_or_else(|failed| panic!("{failed:?}")))
}

#[test]
fn packed_weights_give_the_same() {
    let program = Program::load(Source::new("packed", TEXT));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let values = Arc::new(weights());
    let (bound, Lowered { module, values: made, .. }) = lowered(&program, &values);
    let left: Vec<String> = externals(&module).keys().map(ToString::to_string).collect();
    assert_eq!(made.len(), 3, "{left:?}");
    // What is laid out is not there a second time, but for `v`, of which something else reads a row.
    assert!(left.iter().all(|name| name != "w" && name != "u"), "{left:?}");
    assert!(["b", "v", "t"].iter().all(|name| left.iter().any(|own| own == name)), "{left:?}");
    let mut all = (*values).clone();
    all.extend(made);
    let around = Around { externals: &all, source: &program.source, signatures: &bound };
    let compiler = Compiler::of_system().expect("a C compiler").with_flag("-DRX_GRAIN=1");
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let image = build_cpu(
        &module,
        &around,
        Numerics::Reassociated,
        (&compiler, &Cache::at(folder.path())),
        KernelCheck::default(),
    );
    let bytes = image.unwrap_or_else(|error| panic!("{error}")).to_bytes();
    for threads in [1, 3] {
        let machine = Machine::load_with(&bytes, Limits { threads, ..Limits::default() });
        let machine = machine.unwrap_or_else(|error| panic!("{error}"));
        for rows in [0, 1, 2, 3, 5, 7, 13, 14, 15, 16, 29, 65] {
            let [x, x1] = [rows, rows + 2].map(|seed| Value::Tensor(integers(&[rows, 7], seed)));
            let options = Options { externals: Arc::clone(&values), ..Options::default() };
            let wanted =
                Interpreter::new(&bound, options).call("main", vec![x.clone(), x1.clone()]);
            let main = machine.function("main").expect("it is there");
            let given = [x, x1].map(|x| to_machine(&x).expect("a tensor"));
            let found = main.call(&given);
            let found = found.unwrap_or_else(|stop| panic!("{rows} rows: {stop}"));
            let found = to_semantics(&found, &mut |_| None).expect("a tensor");
            let wanted = wanted.unwrap_or_else(|stop| panic!("{stop:?}"));
            assert_eq!(
                format!("{wanted:?}"),
                format!("{found:?}"),
                "{rows} rows, {threads} threads"
            );
        }
    }
}

/// Two buffers in use at a time, of `n` elements; the result has one.
const CHAIN: &str = r#"
def main(x: Tensor(("n",), "f32")):
    n = sym_var(BOUND)
    with dataflow():
        a = call_tir(greatest, [x], Tensor((n,), "f32"))
        b = call_tir(greatest, [a], Tensor((n,), "f32"))
        c = call_tir(first, [b], Tensor((1,), "f32"))
        output(c)
    return c

@tensorir_function
def greatest(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    n = sym_var()
    for i in grid(n):
        Y[i] = -inf
        for j in grid(n):
            Y[i] = max(Y[i], X[j])

@tensorir_function
def first(X: Buffer(("n",), "f32"), Y: Buffer((1,), "f32")):
    n = sym_var()
    for i in grid(1):
        Y[i] = select(n > 0, X[i], 0.0)
"#;

#[test]
fn bounded_functions_ask_for_memory_once() {
    // How often the system is asked after the first call, with a bound and without.
    let asked = ["upper_bound=3000", ""].map(|bound| {
        let text = CHAIN.replace("BOUND", bound);
        let program = Program::load(Source::new("chain", &*text));
        assert!(!program.has_errors(), "{:?}", program.diagnostics);
        let lowered =
            lower(&Target::default(), &program.module, &Settings::default(), &mut Unwatched);
        let lowered = lowered.unwrap_or_else(|failed| panic!("{failed:?}")).module;
        let none = BTreeMap::new();
        let (source, signatures) = (&program.source, &program.module);
        let around = Around { externals: &none, source, signatures };
        let compiler = Compiler::of_system().expect("a C compiler");
        let folder = tempfile::tempdir().expect("a folder for the cache");
        let cache = Cache::at(folder.path());
        let image = build_cpu(
            &lowered,
            &around,
            Numerics::Exact,
            (&compiler, &cache),
            KernelCheck::default(),
        );
        let bytes = image.unwrap_or_else(|error| panic!("{error}")).to_bytes();
        let machine = Machine::load(&bytes).unwrap_or_else(|error| panic!("{error}"));
        let main = machine.function("main").expect("it is there");
        let mut first = None;
        for rows in [1, 0, 7, 1000, 2049, 3000, 3] {
            let x = integers(&[rows], 1);
            let all = (0..rows).map(|at| x.number(at).as_f64());
            let wanted = all.reduce(f64::max).unwrap_or(0.0);
            let x = to_machine(&Value::Tensor(x)).expect("a tensor");
            let found = main.call(&[x]).unwrap_or_else(|stop| panic!("{rows} rows: {stop}"));
            let found = to_semantics(&found, &mut |_| None).expect("a tensor");
            let Value::Tensor(found) = found else { panic!("{found:?}") };
            assert_eq!(found.number(0), Number::Float(wanted), "{rows} rows");
            first.get_or_insert(machine.allocations());
        }
        machine.allocations() - first.expect("there were calls")
    });
    assert_eq!(asked[0], 0);
    assert!(asked[1] > 0, "without a bound it grows, so that the count tells");
}

/// What a user of the crates writes: one call for each device.
#[test]
fn one_call_compiles_a_program() {
    let text = "def main(x: Tensor((\"n\", 7), \"f32\")):\n    return sum(add(x, x), axis=0)\n";
    let program = Program::load(Source::new("sum", text));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let x = Value::Tensor(integers(&[5, 7], 0));
    let options = Options::default();
    let wanted = Interpreter::new(&program.module, options).call("main", vec![x.clone()]);
    let wanted = wanted.expect("it has a value");
    for device in [Device::Interp, Device::Cpu] {
        for numerics in [Numerics::Exact, Numerics::Reassociated] {
            let target = Target::of(device, numerics);
            let made = compile(&program, &target, &Bound::default(), &mut Unwatched);
            let made = made.unwrap_or_else(|error| panic!("{device:?}: {error}"));
            let machine = made.load(Limits::default()).expect("it loads");
            let main = machine.function("main").expect("it is there");
            let found = main.call(&[to_machine(&x).expect("a tensor")]).expect("it has a value");
            let found = to_semantics(&found, &mut |_| None).expect("it has elements");
            compare(Relation::Equal, &wanted, &found)
                .unwrap_or_else(|why| panic!("{target:?}: {why}"));
        }
    }
}
