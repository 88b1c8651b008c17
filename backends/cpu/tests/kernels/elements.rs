//! Checks of names that are elements: what they say is known after them.

use relax_emit::print_c;
use relax_program::frontend::Program;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::span::Source;

/// The checks that are left of a program with these statements, where `t` is an element.
fn left(body: &str) -> usize {
    let text = format!(
        "@tensorir_function\n\
         def f(K: Buffer((\"n\",), \"i64\"), X: Buffer((\"m\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")):\n    \
             n, m = sym_var(), sym_var()\n    for i in grid(n):\n        t = K[i]\n{body}\n"
    );
    let module = Program::load(Source::new("checks", text)).module;
    let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
    assert_eq!(source.kernels.len(), 1, "{:?}", source.left_out);
    source.kernels[0].checks.left()
}

#[test]
fn a_check_of_an_element_is_known_after_it() {
    let check =
        |limit: &str| format!("        check(t >= 0 and t <= {limit}, \"take/C4\", \"{{}}\", t)\n");
    assert_eq!(left("        Y[i] = X[t]"), 1);
    assert_eq!(left(&(check("m - 1") + "        Y[i] = X[t]")), 1);
    assert_eq!(left(&(check("m") + "        Y[i] = X[t]")), 2);
    let sum = "        for j in range(t):\n            Y[i] = X[j]";
    assert_eq!((left(sum), left(&(check("m") + sum))), (1, 1));
    // Arithmetic on elements wraps.
    assert_eq!(left(&(check("m - 2") + "        Y[i] = X[t + 1]")), 2);
}
