//! StableHLO text: what programs of JAX compute is what JAX computed, sizes of 1 and primes included. `scripts/jax_programs.py`
//! recorded both, so no JAX is needed here.

mod outputs;
mod recorded;

use ndarray::{ArrayD, IxDyn};
use recorded::{Loaded, call, floats};
use relax_import::{Bytes, ImportError, Imported, Options, import_model, supported_stablehlo};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stablehlo")
}

fn import(text: &str) -> Result<Imported, ImportError> {
    import_model(Bytes::from(text.to_owned()), &Options::default())
}

fn loaded(text: &str) -> Loaded {
    recorded::loaded(import(text))
}

fn program(name: &str) -> String {
    let path = folder().join(format!("{name}.mlir"));
    std::fs::read_to_string(path).expect("the program is there")
}

macro_rules! recorded {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let name = stringify!($name);
            recorded::assert_as_recorded(&loaded(&program(name)), &folder(), name, 1);
        })*
    };
}

recorded! {
    mlp layer_norm attention embedding transformer conv channels_last dims relation order regions bits solved loops scanned
    elements reductions indexing linear constants no_rows no_sums
}

/// JAX's assertions on the inputs are types of the parameters, whose traps name the dim.
#[test]
fn dims_of_inputs_are_checked() {
    let loaded = loaded(&program("attention"));
    let trap = |b: usize, n: usize, m: usize, other: usize| {
        let arguments = vec![
            floats(&[b, n, 2, 8]),
            floats(&[other, m, 2, 8]),
            floats(&[b, m, 2, 8]),
            Tensor::full(DType::Bool, &[b, m], Number::Int(1)),
        ];
        call(&loaded, arguments).map_err(|stop| stop.to_string())
    };
    trap(2, 3, 4, 2).expect("dims that fit");
    let other_batch = trap(2, 3, 4, 5).expect_err("another batch");
    assert!(other_batch.contains("boundary/dim") && other_batch.contains("b = 2"), "{other_batch}");
    let empty = trap(2, 0, 4, 2).expect_err("a dim that JAX takes from 1 on only");
    assert!(empty.contains("bound/lower"), "{empty}");
}

/// A note says what became of JAX's assertions.
#[test]
fn assertions_that_are_types_are_noted() {
    let notes = import(&program("attention")).expect("it is imported").notes;
    let wanted = "shape assertions of JAX: 1 <= b; 1 <= n; dim 0 of `k` == b; 1 <= m;";
    assert!(notes.len() == 1 && notes[0].starts_with(wanted), "{notes:?}");
}

/// Other assertions are checked where the program begins, with the message of JAX.
#[test]
fn assertions_keep_their_message() {
    let dims = loaded(&program("dims"));
    let stop = call(&dims, vec![floats(&[6, 6])]).expect_err("6 is no multiple of 4");
    assert!(stop.to_string().contains("symbolic shape constraint"), "{stop}");
    let relation = loaded(&program("relation"));
    let stop = call(&relation, vec![floats(&[2, 6]), floats(&[2])]);
    let stop = stop.expect_err("6 is not 2 * n + 1").to_string();
    assert!(stop.contains("when computing the value of 'n'"), "{stop}");
    let stop = call(&relation, vec![floats(&[2, 7]), floats(&[2])]);
    let stop = stop.expect_err("two values of n").to_string();
    assert!(stop.contains("boundary/dim"), "{stop}");
}

/// Shapes are expressions over the dims of the inputs, and names are those of the Python program.
#[test]
fn shapes_are_symbolic() {
    let text = loaded(&program("dims")).text;
    for part in ["x: Tensor((\"n\", 6), \"f32\")", "(\"n // 4\", 4, 6)", "(\"n * 2 + 1\",)"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("match_cast"), "{text}");
    let text = loaded(&program("attention")).text;
    assert!(text.contains("-> Tensor((\"b\", \"n\", 2, 8), \"f32\")"), "{text}");
}

/// All of what is not imported is named, with counts and Python lines.
#[test]
fn operations_that_are_missing_are_counted() {
    let text = program("mlp")
        .replacen("stablehlo.tanh", "stablehlo.frobnicate", 1)
        .replace("stablehlo.dot_general", "stablehlo.frobnicate");
    let error = import(&text).expect_err("an unknown operation");
    assert!(error.is_unsupported());
    let shown = error.to_string();
    let wanted = "3 × stablehlo.frobnicate: this operation is not imported";
    assert!(shown.contains(wanted) && shown.contains("jax_programs.py:"), "{shown}");
}

/// A kind of comparison that is not known, of a later version, was once read as that of IEEE 754, so NaN compared otherwise.
#[test]
fn kinds_of_comparisons_that_are_not_known_are_refused() {
    let program = |kind: &str| {
        format!(
            "func.func @main(%x: tensor<2xf64>) -> tensor<2xi1> {{\n  %0 = stablehlo.compare EQ, %x, %x, {kind} : \
             (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>\n  return %0 : tensor<2xi1>\n}}"
        )
    };
    loaded(&program("FLOAT"));
    for (kind, what) in [
        ("WEAKORDER", "comparisons of the kind WEAKORDER"),
        ("TOTALORDER", "the total order of floats, outside of a sort"),
    ] {
        let error = import(&program(kind)).expect_err("another order of floats");
        assert!(error.is_unsupported() && error.to_string().contains(what), "{error}");
    }
}

#[test]
fn an_assertion_that_never_holds_is_an_error() {
    let text = program("mlp").replacen("tensor<?x4xf32>", "tensor<0x4xf32>", 1);
    let text = text.replace("(tensor<?x4xf32>) -> tensor<i32>", "(tensor<0x4xf32>) -> tensor<i32>");
    let error = import(&text).expect_err("a dim of 0").to_string();
    assert!(error.contains("it never holds: Input shapes do not match"), "{error}");
}

fn malformed(text: &str) -> String {
    match import(text).expect_err("malformed text") {
        ImportError::Malformed(why) => why,
        other => panic!("{other}"),
    }
}

#[test]
fn malformed_text_is_refused_with_its_place() {
    let text = program("mlp");
    for (from, to, what) in [
        ("module @", "module %", "line 3, column 8 of the StableHLO text: expected"),
        ("tensor<?x4xf32>", "tensor<?y4xf32>", "`tensor<?y4xf32>` is no type"),
        ("func.func public @main(", "func.func public @main[", "expected `(`, found `[%arg0:`"),
        ("%arg0: tensor", "%arg0 tensor", "expected `:`, found `tensor"),
        ("dense<1>", "dense<1", "expected `:`, found"),
        ("= stablehlo.tanh %", "= stablehlo.tanh %%", "expected a name"),
        ("    return ", "    return %nothing, ", "nothing before it defines `%nothing#0`"),
    ] {
        assert!(text.contains(from), "{from}");
        let found = malformed(&text.replacen(from, to, 1));
        assert!(found.contains(what), "{found}");
    }
    let deep = format!("module {{\n  func.func @main() -> {}", "(".repeat(100_000));
    assert!(malformed(&deep).contains("line 2"), "{}", malformed(&deep));
    let attributes = format!("module attributes {{a = {}", "[".repeat(100_000));
    assert!(malformed(&attributes).contains("levels of nesting"));
    let recursive = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  \
                     %0 = call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}";
    let error = import(recursive).expect_err("a function that calls itself").to_string();
    assert!(error.contains("calls within calls"), "{error}");
    let bytecode = import("ML\u{ef}R").expect_err("no text");
    assert!(matches!(bytecode, ImportError::Malformed(_)), "{bytecode}");
}

/// The generic form, which other tools print, is the same program.
#[test]
fn the_generic_form_is_read() {
    let generic = r#"
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x3xf32>) -> tensor<2xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %3 = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %2 = "stablehlo.compare"(%1, %1) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    %4 = "stablehlo.select"(%2, %1, %1) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%4) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"#;
    let loaded = loaded(generic);
    let found = call(&loaded, vec![floats(&[2, 3])]).expect("it runs");
    assert_eq!(found[0].to_floats().as_slice(), Some(&[3.0, 3.0][..]));
}

/// Without a wrapper of JAX each `?` is a dim of its own, and what only the run knows is a `match_cast`.
#[test]
fn text_alone_has_dims() {
    let text = r#"
module {
  func.func @main(%x: tensor<?x4xf32>, %n: tensor<i32>) -> tensor<?xf32> {
    %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.dynamic_reshape %x, %0 : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}
"#;
    let loaded = loaded(text);
    assert!(loaded.text.contains("arg0: Tensor((\"arg0_0\", 4)"), "{}", loaded.text);
    assert!(loaded.text.contains("match_cast"), "{}", loaded.text);
    let found =
        call(&loaded, vec![floats(&[3, 4]), Tensor::full(DType::I32, &[], Number::Int(12))])
            .expect("it runs");
    assert_eq!(found[0].shape(), &[12]);
    call(&loaded, vec![floats(&[3, 4]), Tensor::full(DType::I32, &[], Number::Int(11))])
        .expect_err("other elements");
}

#[test]
fn every_row_has_one_name() {
    let names = supported_stablehlo();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
}

/// Loops within loops are functions where they would be too long, written out.
#[test]
fn nested_loops_stay_short() {
    let text = r#"
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %many = stablehlo.constant dense<60> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<2xf32>
  cond {
    %c = stablehlo.compare LT, %i, %many, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1:2 = stablehlo.while(%j = %zero, %b = %a) : tensor<i32>, tensor<2xf32>
    cond {
      %c = stablehlo.compare LT, %j, %many, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %2 = stablehlo.add %b, %x : tensor<2xf32>
      %3 = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %3, %2 : tensor<i32>, tensor<2xf32>
    }
    %4 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %4, %1#1 : tensor<i32>, tensor<2xf32>
  }
  return %0#1 : tensor<2xf32>
}
"#;
    let loaded = loaded(text);
    assert!(loaded.text.lines().count() < 300, "{}", loaded.text.lines().count());
    let found = call(&loaded, vec![floats(&[2])]).expect("it runs");
    assert_eq!(found[0].to_floats().as_slice(), Some(&[3601.0, 3601.0][..]));
}

/// Attributes that do not fit their operation, and constants of more elements than there is memory for.
#[test]
fn attributes_that_do_not_fit_are_refused() {
    for (from, to) in [
        ("offset_dims = [1]", "offset_dims = [7]"),
        ("start_index_map = [0]", "start_index_map = [7]"),
        ("index_vector_dim = 1", "index_vector_dim = 9"),
        ("collapsed_slice_dims = [0]", "operand_batching_dims = [0]"),
        ("slice_sizes = array<i64: 1, 3>", "slice_sizes = array<i64: 1>"),
        ("slice_sizes = array<i64: 1, 3>", "slice_sizes = array<i64: 9, 3>"),
    ] {
        let text = r#"
func.func @main(%x: tensor<4x3xf32>, %i: tensor<2x1xi32>) -> tensor<2x3xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"#;
        import(text).expect("it is imported");
        let error = import(&text.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains("1 × stablehlo.gather: "), "{to}: {error}");
    }
    for constant in ["dense<\"0x01000000\">", "dense<[1]>", "dense<\"0x0\">", "dense<1.5>"] {
        let text = format!(
            "func.func @main() -> tensor<99999999999xi32> {{\n  \
             %0 = stablehlo.constant {constant} : tensor<99999999999xi32>\n  \
             %1 = stablehlo.abs %0 : tensor<99999999999xi32>\n  \
             return %1 : tensor<99999999999xi32>\n}}"
        );
        let imported = import(&text);
        let is_one = constant == "dense<\"0x01000000\">";
        assert_eq!(imported.is_ok(), is_one, "{constant}: {imported:?}");
    }
}

/// The regions of sorts are read, not executed: one that reads its own result ends all the same. So do windows of another rank.
#[test]
fn regions_that_are_no_forms_are_refused() {
    let text = program("regions");
    for (within, from, to) in [
        ("stablehlo.sort", "stablehlo.and %95, %93", "stablehlo.and %95, %97"),
        ("stablehlo.sort", "select %87, %cst_0, %86", "select %87, %cst_0, %88"),
        (
            "stablehlo.select_and_scatter",
            "window_dimensions = array<i64: 1, ",
            "window_dimensions = array<i64: ",
        ),
    ] {
        let (before, after) = text.split_at(text.find(within).expect("the operation is there"));
        assert!(after.contains(from), "{from}");
        let wrong = format!("{before}{}", after.replacen(from, to, 1));
        import(&wrong).expect_err("a region, or a window, that is wrong");
    }
}

/// Parts that are lost, doubled or of another place: errors, or programs, but no panic.
#[test]
fn damaged_texts_are_no_panic() {
    let names =
        ["attention", "loops", "indexing", "conv", "order", "regions", "bits", "constants", "dims"];
    let texts = names.map(program);
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let marks = [
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "%",
        "@",
        "#",
        ":",
        ",",
        "=",
        "x",
        "?",
        "\"",
        "-",
        "0",
        "99999999999999999999",
        "é",
        " ",
    ];
    let mut imported = 0;
    for round in 0..2100 {
        let mut chars: Vec<char> = texts[round % texts.len()].chars().collect();
        for _ in 0..1 + next(3) {
            let at = next(chars.len());
            let end = (at + 1 + next(12)).min(chars.len());
            match next(5) {
                0 => chars.truncate(at),
                1 => drop(chars.drain(at..end)),
                2 => {
                    let part = chars[at..end].to_vec();
                    let to = next(chars.len());
                    chars.splice(to..to, part);
                }
                3 => drop(chars.splice(at..end, marks[next(marks.len())].chars())),
                _ => drop(chars.splice(at..at, marks[next(marks.len())].chars())),
            }
        }
        let text: String = chars.into_iter().collect();
        let result = std::panic::catch_unwind(|| import(&text).is_ok());
        imported += usize::from(result.unwrap_or_else(|_| panic!("a panic for\n{text}")));
    }
    // Some changes are within names, and not all is lost.
    assert!(imported > 50, "{imported} of the texts are imported");
}

/// What a function of one operand makes of these numbers.
fn made(signature: &str, body: &str, shape: &[usize], numbers: &[f64]) -> (Vec<usize>, Vec<f64>) {
    let (from, to) = signature.split_once(" -> ").expect("a type of a function");
    let text = format!(
        "module @m {{\n  func.func public @main(%x: {from}) -> {to} {{\n{body}\n    return %y : {to}\n  }}\n}}\n"
    );
    let array = ArrayD::from_shape_vec(IxDyn(shape), numbers.to_vec()).expect("they fit");
    let made = call(&loaded(&text), vec![Tensor::from_floats(DType::F32, array)]);
    let made = made.unwrap_or_else(|stop| panic!("{stop}\n{text}"));
    (made[0].shape().to_vec(), (0..made[0].len()).map(|at| made[0].number(at).as_f64()).collect())
}

/// What JAX does not write: by the specification.
#[test]
fn windows_begin_with_the_initial_value() {
    let body = r#"    %init = stablehlo.constant dense<1.0e+01> : tensor<f32>
    %y = "stablehlo.reduce_window"(%x, %init) <{padding = dense<[[1, 0]]> : tensor<1x2xi64>, window_dilations = array<i64: 2>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>"#;
    let (shape, sums) = made("tensor<4xf32> -> tensor<3xf32>", body, &[4], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!((shape, sums), (vec![3], vec![22.0, 14.0, 16.0]));
}

#[test]
fn every_axis_is_reversed() {
    let body = "    %y = stablehlo.reverse %x, dims = [0, 1] : tensor<2x3xf32>";
    let numbers: Vec<f64> = (0..6).map(f64::from).collect();
    let (_, turned) = made("tensor<2x3xf32> -> tensor<2x3xf32>", body, &[2, 3], &numbers);
    assert_eq!(turned, [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
}

/// The dim that is not written is what the others leave.
#[test]
fn an_open_dim_of_a_reshape_is_the_rest() {
    let body = "    %y = stablehlo.reshape %x : (tensor<?x6xf32>) -> tensor<?x3xf32>";
    let numbers: Vec<f64> = (0..12).map(f64::from).collect();
    let of = made("tensor<?x6xf32> -> tensor<?x3xf32>", body, &[2, 6], &numbers);
    assert_eq!(of, (vec![4, 3], numbers));
}
