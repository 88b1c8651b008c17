//! Planted mistakes: C text of kernels, changed in one place, stands for a miscompilation. The kernel check alone finds them.

use relax_cpu::{Cache, Compiler, Text};
use relax_driver::{Budget, Target, Verdict, check_kernel, lower};
use relax_emit::{Kernel, Source as CText, print_c};
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;

/// Functions of one operator each.
const OPERATORS: &str = include_str!("planted.rx");
/// A kernel, text in its C functions, and what stands there instead.
type Edit = (&'static str, &'static str, &'static str);
/// Guards, masks, tails, offsets, strides, initial values, operands.
const EDITS: &[Edit] = &[
    ("legal_pad", "((i0 - 1) >= 0)", "((i0 - 1) >= 1)"),
    ("legal_pad", "((i0 - 1) < n0)", "((i0 - 1) < n0 - 1)"),
    ("legal_pad", "if (n1 < upto) upto = n1;", "if (n1 < upto) upto = n1 + 1;"),
    ("legal_pad", "if (0 > v_from) v_from = 0;", "if (1 > v_from) v_from = 1;"),
    ("legal_pad", "i1 = upto; i1 < stop_2", "i1 = upto; i1 < stop_2 - 1"),
    ("legal_pad", "v_from = upto = stop_2;", "v_from = upto = 0;"),
    ("legal_pad", "X0[((i0 - 1)) * n1 + i1]", "X0[((i0 - 1)) * n1 + i1 / 4 * 4]"),
    ("legal_pad", "rx_i64_of_f64(2.0)", "rx_i64_of_f64(0.0)"),
    ("legal_pad", "Y[i0 * Y_d1 + i1] =", "if (i1 < (stop_2 & -4)) Y[i0 * Y_d1 + i1] ="),
    ("legal_conv2d", "((i2 - 1) + i5) >= 0", "((i2 - 1) + i5) >= 1"),
    ("legal_conv2d", "((i2 - 1) + i5) < n1", "((i2 - 1) + i5) < n1 - 1"),
    ("legal_conv2d", "((i3 - 1) + i6) < 9", "((i3 - 1) + i6) < 8"),
    ("legal_conv2d", "((i3 - 1) + i6) >= 0", "((i3 - 1) + i6) >= -1"),
    ("legal_conv2d", "i4 < 2", "i4 < 1"),
    ("legal_conv2d", "* 9 + i3] = 0.0;", "* 9 + i3] = 1.0;"),
    ("legal_conv2d", "sum = (sum + ", "sum = (0.0 + "),
    ("legal_max_pool2d", "((i2 * 2) + i4) < n1", "((i2 * 2) + i4) <= n1 - 2"),
    ("legal_max_pool2d", "((i3 - 1) + i5) < 8", "((i3 - 1) + i5) < 7"),
    ("legal_max_pool2d", "((i3 - 1) + i5) >= 0", "((i3 - 1) + i5) >= 1"),
    ("legal_max_pool2d", "(-INFINITY)", "(0.0f)"),
    ("legal_max_pool2d", "i5 < 3", "i5 < 2"),
    ("legal_softmax", "i1 < n1", "i1 < n1 - 1"),
    ("legal_softmax", "i3 < n1", "i3 < (n1 & -8)"),
    ("legal_softmax", "i5 < n1", "i5 < (n1 & -4)"),
    ("legal_softmax", "T[i0] = 0.0", "T[i0] = 1e-3"),
    ("legal_softmax", "/ T[i0]", "/ M[i0]"),
    ("legal_layer_norm", "i1 < 19", "i1 < 18"),
    ("legal_layer_norm", "i3 < 19", "i3 < 16"),
    ("legal_layer_norm", "V_sum[i0] / 19.0", "V_sum[i0] / 18.0"),
    ("legal_layer_norm", "(double)X1[i5]", "(double)X2[i5]"),
    ("legal_layer_norm", "1e-5", "1e-2"),
    ("legal_layer_norm", "+ i5] - M[i0]", "+ i5] - M[0]"),
    ("legal_matmul", "i2 < n1", "i2 < n1 - 1"),
    ("legal_matmul", "i2 < n1", "i2 < (n1 & -8)"),
    ("legal_matmul", "X1[i2 * n2 + i1]", "X1[i2 * n1 + i1]"),
    ("legal_matmul", "X0[i0 * n1 + i2]", "X0[i2 * n1 + i0]"),
    ("legal_matmul", "++i1 == n2", "++i1 == n2 + 1"),
    ("legal_take", "(t0 < n0)", "(t0 <= n0)"),
    ("legal_take", "(t0 >= 0)", "(t0 > 0)"),
    ("legal_take", "X0[t1 * n1 + i2]", "X0[t1 * n1]"),
    ("legal_take", "i2 < n1", "i2 < (n1 & -2)"),
    ("legal_concat", "(i0 < n0)", "(i0 <= n0)"),
    ("legal_concat", "(i0 - n0)", "(i0 - n0 + 1)"),
    ("legal_concat", "X1[((i0 - n0)) * n1 + i1]", "X1[((i0 - n0)) * n1]"),
    ("legal_cumsum", "T[i0] = 0.0;", ""),
    ("legal_cumsum", "(T[i0] + (double)", "((double)"),
    ("legal_cumsum", "i1 < n1", "i1 < n1 - 1"),
    ("legal_permute_dims", "X0[i1 * n1 + i0]", "X0[i1 * n0 + i0]"),
    ("legal_permute_dims", "i1 < n0", "i1 < (n0 & -16)"),
    ("legal_where", "X2[i1]", "X2[i0]"),
    ("legal_where", "X1[i0 * n1 + i1], X2[i1]", "X2[i1], X1[i0 * n1 + i1]"),
    ("legal_argmax", "(t2 > t1)", "(t2 >= t1)"),
    ("legal_argmax", "(t2 != t2) || ", ""),
    ("legal_argmax", "Y[i0] = 0;", "Y[i0] = n1 > 16;"),
    ("legal_strided_slice", "(i0 * 3)", "(i0 * 2)"),
    ("legal_strided_slice", "rx_min_i64(1, 33)", "0"),
];

/// The kernels of the operators, each in a module of its own.
fn modules() -> Vec<Module> {
    let program = Program::load(Source::new("planted", OPERATORS));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    let lowered = lower(&Target::default(), &program.module, &Settings::default(), &mut Unwatched);
    let lowered = lowered.unwrap_or_else(|failed| panic!("{failed:?}")).module;
    let programs =
        lowered.definitions.into_iter().filter(|own| matches!(own, Definition::Tensor(_)));
    programs.map(|own| Module { definitions: vec![own], ..Module::default() }).collect()
}

/// The text with the edit in the functions of the kernel.
fn edited(text: &str, (kernel, from, to): Edit) -> String {
    let start = text
        .find(&format!("rx_relax_{kernel}_1("))
        .or_else(|| text.find(&format!("relax_{kernel}_body(")));
    let (before, functions) = text.split_at(start.expect("the kernel has a function"));
    assert!(functions.contains(from), "{kernel}: `{from}` is not in {functions}");
    format!("{before}{}", functions.replace(from, to))
}

pub(super) fn verdict(
    program: &TensorProgram,
    kernel: &Kernel,
    (text, compiler, cache): (&str, &Compiler, &Cache),
) -> Verdict {
    let library = relax_cpu::build(Text::of(text), compiler, cache);
    let library = library.unwrap_or_else(|error| panic!("{error}"));
    check_kernel(program, (kernel, &library), Numerics::Exact, Budget::default())
}

#[test]
fn planted_mistakes_are_found() {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let compiler = Compiler::of_system().expect("a C compiler").with_flag("-O0");
    let modules = modules();
    let mut missed = Vec::new();
    for &edit in EDITS {
        let found = modules
            .iter()
            .find_map(|module| module.tensor_program(edit.0).map(|program| (module, program)));
        let (module, program) = found.unwrap_or_else(|| panic!("there is no kernel {}", edit.0));
        let CText { text, kernels, .. } = print_c(module, &mut Prover::new(), Numerics::Exact);
        let found = verdict(program, &kernels[0], (&edited(&text, edit), &compiler, &cache));
        if !matches!(found, Verdict::Differs { .. }) {
            missed.push(format!("{edit:?}: {found:?}"));
        }
        let right = verdict(program, &kernels[0], (&text, &compiler, &cache));
        assert!(matches!(right, Verdict::Agrees { .. }), "{}: {right:?}", edit.0);
    }
    eprintln!("{} of {} planted mistakes found", EDITS.len() - missed.len(), EDITS.len());
    eprintln!("{}", missed.join("\n"));
    assert!(
        EDITS.len() >= 50 && missed.len() <= 2,
        "{} missed:\n{}",
        missed.len(),
        missed.join("\n")
    );
}
