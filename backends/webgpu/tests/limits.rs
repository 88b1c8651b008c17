//! What 32 bits and the number of storage buffers leave of a program: what is printed, and for which calls it is launched.
//! No device is needed.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use relax_program::frontend::Program;
use relax_symbolic::Prover;
use relax_syntax::span::Source;
use relax_webgpu::{Formats, Kernel, Refused, Word, print_wgsl};

/// A valid kernel of a text with one program.
fn printed(text: &str) -> Kernel {
    let program = Program::load(Source::new("limits.rx", text.to_owned()));
    let printed = print_wgsl(&program.module, &mut Prover::new(), Formats::NATIVE, None);
    let [kernel] = printed.kernels.as_slice() else { panic!("{:?}", printed.left_out) };
    let module = naga::front::wgsl::parse_str(&kernel.text);
    let module = module.unwrap_or_else(|error| panic!("{}", error.emit_to_string(&kernel.text)));
    let mut validator = Validator::new(
        ValidationFlags::all(),
        Capabilities::FLOAT64 | Capabilities::SHADER_FLOAT16,
    );
    let valid = validator.validate(&module);
    valid.unwrap_or_else(|error| panic!("{}", error.emit_to_string(&kernel.text)));
    kernel.clone()
}

/// The lines of it that are not the program's own text.
fn lines(kernel: &Kernel) -> Vec<&str> {
    kernel.text.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect()
}

fn program(body: &str) -> String {
    format!(
        "@tensorir_function\ndef far(X: Buffer((\"n\",), \"i64\"), Y: Buffer((\"n\",), \"i64\")):\n{body}"
    )
}

#[test]
fn far_values_have_64_bits() {
    let text = program("    for i in range(n):\n        Y[i] = i * 3000000000000000000\n");
    let kernel = printed(&text);
    assert!(kernel.text.contains("rx_mul_64(rx_wide_i32("), "{}", kernel.text);
    assert!(kernel.launch(&[&[4], &[4]], &[]).is_ok());
    // 4 * 3e18 is beyond 64 bits, which is a trap that the interpreter tells.
    assert_eq!(kernel.launch(&[&[5], &[5]], &[]), Err(Refused::Wide));
}

#[test]
fn far_indices_are_launched_where_they_fit() {
    let text =
        program("    for i in range(n):\n        Y[i] = X[(i + 5000000000) // 4294967296 - 1]\n");
    let kernel = printed(&text);
    assert!(kernel.text.contains("rx_index_i64("), "{}", kernel.text);
    assert!(kernel.launch(&[&[4], &[4]], &[]).is_ok());
    let kernel = printed(&program("    for i in range(n):\n        Y[i] = X[i + 5000000000]\n"));
    assert_eq!(kernel.launch(&[&[4], &[4]], &[]), Err(Refused::Wide));
}

#[test]
fn what_a_far_value_is_compared_with_stays_in_32_bits() {
    let chosen = "        Y[select(i * 2 < 5000000000, i, 0)] = X[i]\n";
    let kernel = printed(&program(&format!("    for i in range(n):\n{chosen}")));
    let lines = lines(&kernel);
    assert!(lines.iter().any(|line| line.contains("rx_less_i64(rx_wide_i32((")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("rx_index_i64(")), "{lines:?}");
}

#[test]
fn what_is_near_has_none_of_the_functions_of_64_bits() {
    let kernel =
        printed(&program("    for i in range(n):\n        Y[i] = X[min(i * 2 - i, n + -1)]\n"));
    let calls = |name: &str| kernel.text.contains(name);
    assert!(!calls("rx_wide_i32") && !calls("_64(") && !calls("rx_index_i64"), "{}", kernel.text);
}

/// WGSL leaves open how a device rounds an integer that is no f32.
#[test]
fn integers_become_floats_by_their_bits() {
    for dtype in ["i32", "u32"] {
        let kernel = printed(&format!(
            "@tensorir_function\ndef f(X: Buffer((\"n\",), \"{dtype}\"), Y: Buffer((\"n\",), \"f32\")):\n    \
             for i in range(n):\n        Y[i] = f32(X[i])\n"
        ));
        assert!(kernel.text.contains(&format!("= rx_f32_of_{dtype}(")), "{}", kernel.text);
    }
}

/// Bytes are stored as bytes; what else is made of a sum of them is made of its lowest byte.
#[test]
fn sums_of_bytes_are_bytes() {
    for (dtype, wide, wrapped) in [("i8", "i32", " << 24u) >> 24u)"), ("u8", "u32", " & 0xffu)")] {
        let kernel = printed(&format!(
            "@tensorir_function\ndef f(X: Buffer((\"n\",), \"{dtype}\"), Y: Buffer((\"n\",), \"{wide}\")):\n    \
             for i in range(n):\n        Y[i] = {wide}(X[i] + X[i])\n"
        ));
        let lines = lines(&kernel);
        let sum = lines.iter().find(|line| line.contains(" + ") && line.contains(wrapped));
        assert!(sum.is_some(), "{}", kernel.text);
    }
}

/// A kernel that sums `count - 1` buffers of a dtype into another one and has others beside, and where those that share begin.
fn shared(dtype: &str, count: usize, others: &[&str]) -> (Kernel, Vec<i32>) {
    let own = (0..count).map(|at| format!("D{at}: Buffer((\"n\",), \"{dtype}\")"));
    let others = others.iter().map(|other| format!("{other}: Buffer((\"n\",), \"f32\")"));
    let params: Vec<String> = own.chain(others).collect();
    let sum: Vec<String> = (1..count).map(|at| format!("D{at}[i]")).collect();
    let (params, sum) = (params.join(", "), sum.join(" + "));
    let kernel = printed(&format!(
        "@tensorir_function\ndef sums({params}):\n    for i in range(n):\n        D0[i] = {sum}\n"
    ));
    let shapes = vec![&[3_i64][..]; kernel.program.params.len()];
    let launch = kernel.launch(&shapes, &[]).expect("its extents are small");
    let words = kernel.words.iter().zip(&launch.words);
    let bases = words.filter(|(word, _)| matches!(word, Word::Base(_))).map(|(_, at)| *at);
    let bases = bases.collect();
    (kernel, bases)
}

fn parts(kernel: &Kernel) -> Vec<usize> {
    kernel.bindings.iter().map(|binding| binding.parts.len()).collect()
}

#[test]
fn buffers_of_f64_share_one_of_their_own() {
    let (kernel, bases) = shared("f64", 7, &[]);
    assert_eq!((parts(&kernel), bases), (vec![1; 7], vec![]));
    let (kernel, bases) = shared("f64", 9, &[]);
    assert_eq!((parts(&kernel), bases), (vec![1, 1, 1, 1, 1, 1, 3], vec![0, 3, 6]));
    assert!(kernel.text.contains("shared_doubles: array<f64>"), "{}", kernel.text);
    // One that is not of f64 keeps its own; several share.
    let (kernel, bases) = shared("f64", 7, &["A"]);
    assert_eq!((parts(&kernel), bases), (vec![1, 1, 1, 1, 1, 1, 2], vec![0, 3]));
    let (kernel, bases) = shared("f64", 8, &["A", "B"]);
    assert_eq!((parts(&kernel), bases), (vec![1, 1, 1, 1, 1, 3, 2], vec![0, 3, 6, 0, 3]));
    assert!(kernel.text.contains("shared_words: array<u32>"), "{}", kernel.text);
}

#[test]
fn buffers_of_f16_share_one_of_their_own() {
    // Three elements take two words.
    let (kernel, bases) = shared("f16", 9, &[]);
    assert_eq!((parts(&kernel), bases), (vec![1, 1, 1, 1, 1, 1, 3], vec![0, 4, 8]));
    assert!(kernel.text.contains("shared_halves: array<f16>"), "{}", kernel.text);
    let (kernel, bases) = shared("f16", 8, &["A", "B"]);
    assert_eq!((parts(&kernel), bases), (vec![1, 1, 1, 1, 1, 3, 2], vec![0, 4, 8, 0, 3]));
    assert!(kernel.text.contains("shared_words: array<u32>"), "{}", kernel.text);
}

/// Most iterations of a thread for this n.
fn iterations(body: &str, n: i64) -> u64 {
    printed(&program(body)).launch(&[&[n], &[n]], &[]).expect("it is launched").iterations
}

#[test]
fn iterations_of_a_thread_are_bounded() {
    // The outer loop, and an inner one in each of its iterations.
    assert_eq!(iterations("    for i in range(n):\n        Y[i] = X[i]\n", 7), 7);
    let nest = "    for i, j in grid(n, 3):\n        Y[i] += X[j]\n";
    assert_eq!([0, 1, 7].map(|n| iterations(nest, n)), [0, 4, 28]);
    let chosen = "    for i in range(n):\n        if X[i] > 0:\n            for j in range(2):\n                Y[i] = j\n";
    assert_eq!(iterations(chosen, 5), 15);
    // Threads take turns.
    let threads = "    for b in thread_binding((n + 63) // 64, \"blockIdx.x\"):\n        \
                   for t in thread_binding(64, \"threadIdx.x\"):\n            \
                   if b * 64 + t < n:\n                Y[b * 64 + t] = X[b * 64 + t]\n";
    assert_eq!([64, 65, 64 * 65_535, 64 * 65_536].map(|n| iterations(threads, n)), [2, 2, 2, 4]);
    // As often as memory says.
    let read = "    for i in range(n):\n        for j in range(X[i]):\n            Y[i] = j\n";
    assert_eq!(iterations(read, 1), u64::MAX);
}
