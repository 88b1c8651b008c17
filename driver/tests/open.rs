//! Which kernels of the processor watch elements, which check dims in innermost loops, and which models have graphs.

use relax_cpu::hardware;
use relax_driver::{Target, lower, panel};
use relax_emit::print_c;
use relax_import::{Bytes, Options, import_model};
use relax_lower::maybe_uninit::maybe_uninitialized;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print};
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::{Unwatched, run};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::Definition;
use relax_syntax::span::Source;
use relax_tir::analysis::definite_init::summary_of_parameters;
use std::path::{Path, PathBuf};

/// Programs, and a function whose body is given.
fn names(body: &str) -> Vec<String> {
    let lines: String = body.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        r#"
@tensorir_function
def first(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    for i in range(n):
        if i < 1:
            Y[i] = X[i]

@tensorir_function
def opaque(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    func_attr("compute_pattern", "Opaque")
    for i in range(n):
        Y[i] = X[i] * 2.0

@tensorir_function
def prefix(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    func_attr("compute_pattern", "Opaque")
    T = alloc_buffer((n,), "f32")
    for i in range(n):
        if i < 1:
            T[i] = X[i]
    for i in range(n):
        Y[i] = T[0] + X[i]

def given(x: Tensor(("n",), "f32")):
    return call_tir(opaque, [x], Tensor((n,), "f32"))

def main(x: Tensor(("n",), "f32"), c: Tensor((), "bool")):
    n = sym_var()
{lines}"#
    );
    let program = Program::load(Source::new("open", text));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let settings = Settings::default();
    let lowered = lower(&Target::default(), &program.module, &settings, &mut Unwatched);
    let lowered = lowered.unwrap_or_else(|failed| panic!("{failed:?}")).module;
    maybe_uninitialized(&lowered, summary_of_parameters)
        .into_iter()
        .map(|name| name.to_string())
        .collect()
}

#[test]
fn tensors_that_are_filled_are_not_watched() {
    assert_eq!(names("return call_tir(opaque, [x], Tensor((n,), \"f32\"))"), [""; 0]);
    let operators = "y = nn.softmax(reshape(x, shape(1, n)), axis=0)\nreturn nn.layer_norm(y, ones((n,), \"f32\"), zeros((n,), \"f32\"), axes=[-1])";
    assert_eq!(names(operators), [""; 0]);
}

#[test]
fn what_leaves_elements_is_watched_with_what_reads_them() {
    let left = "y = call_tir(first, [x], Tensor((n,), \"f32\"))\n";
    assert_eq!(names(&format!("{left}return y")), ["first"]);
    let read = "z = call_tir(opaque, [y], Tensor((n,), \"f32\"))\nreturn z";
    assert_eq!(names(&format!("{left}{read}")), ["first", "opaque"]);
    // A function that is given it is not followed.
    assert_eq!(names(&format!("{left}z = given(y)\nreturn z")), ["first", "opaque"]);
    let branch = "if c:\n    y = call_tir(first, [x], Tensor((n,), \"f32\"))\nelse:\n    y = x\n";
    assert_eq!(names(&format!("{branch}{read}")), ["first", "opaque"]);
}

#[test]
fn operators_hand_on_what_nothing_wrote() {
    let read = "return call_tir(opaque, [y], Tensor((n,), \"f32\"))";
    let names_of = |y: &str| names(&format!("{y}\n{read}"));
    assert_eq!(names_of("y = empty((n,), \"f32\")"), ["opaque"]);
    assert_eq!(names_of("y = flip(empty((n,), \"f32\"), axis=0)"), ["opaque"]);
    assert_eq!(names_of("y = flip(x, axis=0)"), [""; 0]);
}

#[test]
fn a_workspace_is_watched_where_its_program_reads_beyond_it() {
    assert_eq!(names("return call_tir(prefix, [x], Tensor((n,), \"f32\"))"), ["prefix"]);
}

/// A model of the corpus as text.
fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("it can be read");
    if path.extension().is_some_and(|extension| extension == "rx") {
        return String::from_utf8(bytes).expect("it is text");
    }
    import_model(Bytes::from(bytes), &Options::default()).expect("it is imported").text
}

/// All models of the corpus by name.
fn models() -> Vec<(String, Program)> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models");
    let of = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("the models are there");
        entries.map(|entry| entry.expect("it can be read").path()).collect()
    };
    let is_model = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "rx" || extension == "onnx")
    };
    let mut paths: Vec<PathBuf> = [of(&models), of(&models.join("onnx"))].concat();
    paths.retain(is_model);
    paths.sort();
    assert!(paths.len() > 15, "{paths:?}");
    let named = paths.iter().map(|path| {
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        (name, Program::load(Source::new("model", text(path))))
    });
    named.collect()
}

#[test]
fn models_check_no_dims_in_innermost_loops() {
    let mut found = Vec::new();
    for (name, program) in models() {
        let lowered =
            lower(&Target::default(), &program.module, &Settings::default(), &mut Unwatched);
        let lowered = lowered.unwrap_or_else(|failed| panic!("{name}: {failed:?}")).module;
        for kernel in print_c(&lowered, &mut Prover::new(), Numerics::Reassociated).kernels {
            if kernel.innermost.on_dims > 0 {
                found.push(format!("{name}: {}", kernel.name));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// Models without two launches in a row whose memory is the same at every call: of few kernels, or with a result of its own each.
const WITHOUT_GRAPHS: [&str; 4] = ["decode_q4_mlp.rx", "layer_norm_f16.rx", "mlp.rx", "rnn.rx"];

#[test]
fn models_with_bounded_dims_have_graphs() {
    let settings = Settings { device: Device::Cuda, ..Settings::default() };
    let mut without = Vec::new();
    for (name, program) in models() {
        let mut module = program.module;
        for definition in &mut module.definitions {
            if let Definition::Graph(function) = definition {
                let dims = function.dims.iter_mut().filter(|dim| dim.in_signature);
                dims.for_each(|dim| dim.upper = Some(dim.upper.unwrap_or(64)));
            }
        }
        let route = PIPELINE.to(Phase::P22);
        let lowered = run(&module, &route, &settings, &mut Prover::new(), &mut Unwatched);
        let lowered = lowered.unwrap_or_else(|failed| panic!("{name}: {failed:?}"));
        if !print(&lowered).contains("builtin.cuda_graph_run_or_capture(") {
            without.push(name);
        }
    }
    assert_eq!(without, WITHOUT_GRAPHS);
}

/// Of each function the tiled routine that its products are given to.
#[test]
fn products_of_16_bit_floats_reach_the_tiled_routine() {
    let weights = [("f16", "24, \"c\""), ("bf16", "\"c\", 24")];
    let [columns, rows] = weights.map(|(dtype, shape)| {
        format!("x: Tensor((\"n\", 24), \"{dtype}\"), w: Tensor(({shape}), \"{dtype}\")")
    });
    let window = "x: Tensor((\"b\", 8, \"h\", \"v\"), \"f16\"), w: Tensor((16, 8, 3, 3), \"f16\")";
    for (params, value, kernels) in [
        (columns.as_str(), "matmul(x, w)", 1),
        (&columns, "matmul(x, w, out_dtype=\"f32\")", 1),
        (&rows, "matmul(x, permute_dims(w))", 1),
        (&columns, "matmul(astype(x, \"f32\"), astype(w, \"f32\"))", 1),
        // One where extents are known to be positive, and one for others.
        (window, "conv2d(x, w, padding=[1, 1, 1, 1])", 2),
    ] {
        let text = format!("def main({params}):\n    return {value}\n");
        let program = Program::load(Source::new("halves", text));
        assert!(!program.has_errors(), "{:?}", program.diagnostics);
        let module = program.module;
        let settings = Settings { panel: panel(hardware().isa, None), ..Settings::default() };
        let target = Target::of(Device::Cpu, Numerics::Reassociated);
        let made = lower(&target, &module, &settings, &mut Unwatched);
        let made = made.unwrap_or_else(|failed| panic!("{failed:?}"));
        let text = print_c(&made.module, &mut Prover::new(), Numerics::Reassociated).text;
        let calls = text.matches("if (rx_product").count();
        assert_eq!(calls, kernels, "{value}: {}", print(&made.module));
    }
}
