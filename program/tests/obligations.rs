//! Obligations: checks that are left to run time, and `match_cast`s that are proved. No result of a program shows a
//! lost obligation: the interpreter checks again. A pass that relied on the list breaks instead.

use relax_program::frontend::Program;
use relax_semantics::check::{Phase, check};
use relax_symbolic::Prover;
use relax_syntax::span::Source;

/// The obligations of a program in order.
fn left(text: &str) -> Vec<String> {
    let program = Program::load(Source::new("obligations", text));
    assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
    program.left.into_iter().map(|left| left.text).collect()
}

/// For each `match_cast` whether it is proved, and the dims that its variables take.
fn casts(text: &str) -> Vec<(bool, Vec<String>)> {
    let program = Program::load(Source::new("casts", text));
    assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
    let checked = check(&program.module, &mut Prover::new(), Phase::P0);
    let shown = |cast: &relax_semantics::check::Cast| {
        (cast.proved, cast.binds.iter().map(|(name, dim)| format!("{name} = {dim}")).collect())
    };
    checked.casts.iter().map(shown).collect()
}

#[test]
fn calls_leave_what_is_not_proved() {
    let callee = "def f(x: Tensor((\"n\",), \"f32\"), y: Tensor((\"n\",), \"f32\")) -> Tensor((\"n\",), \"f32\"):\n    \
                  return add(x, y)\n\n";
    let equation =
        "def g(x: Tensor((\"a\",), \"f32\"), y: Tensor((\"b\",), \"f32\")):\n    return f(x, y)\n";
    assert_eq!(left(&format!("{callee}{equation}")), ["call: b == a (dim 0 of argument 2)"]);
    let open = "def g(x: Tensor((\"a\",), \"f32\"), y: Object):\n    return f(x, y)\n";
    assert_eq!(left(&format!("{callee}{open}")), ["call: the arguments fit the parameters"]);
    // Neither is shown that these are the same, nor that they may differ.
    let length = "a + a * a * a // 9000000000";
    let undecided = format!(
        "def g(x: Tensor((\"a\",), \"f32\"), y: Tensor((\"{length}\",), \"f32\")):\n    return f(x, y)\n"
    );
    let told = format!("call: {length} == a (dim 0 of argument 2)");
    assert_eq!(left(&format!("{callee}{undecided}")), [told]);
    let proved = "def g(x: Tensor((\"a\",), \"f32\")):\n    return f(x, x)\n";
    assert_eq!(left(&format!("{callee}{proved}")), Vec::<String>::new());
}

#[test]
fn declared_bounds_are_left_where_they_are_not_proved() {
    let callee = |bound: &str| {
        format!(
            "def f(x: Tensor((\"n\",), \"f32\")) -> Tensor((\"n\",), \"f32\"):\n    n = sym_var({bound})\n    \
             return exp(x)\n\n"
        )
    };
    for bound in ["lower_bound=2", "upper_bound=64", "multiple_of=4"] {
        let open = "def g(x: Tensor((\"a\",), \"f32\")):\n    return f(x)\n";
        let told = "call: a satisfies what is declared of `n`";
        assert_eq!(left(&format!("{}{open}", callee(bound))), [told], "{bound}");
        let known = format!(
            "def g(x: Tensor((\"a\",), \"f32\")):\n    a = sym_var({bound})\n    return f(x)\n"
        );
        assert_eq!(left(&format!("{}{known}", callee(bound))), Vec::<String>::new(), "{bound}");
    }
}

#[test]
fn calls_of_values_casts_and_results_leave_what_is_open() {
    let unknown = "def g(f: Callable, x: Tensor((\"a\",), \"f32\")):\n    return f(x)\n";
    assert_eq!(left(unknown), ["call: it is a function, and the arguments fit it"]);
    let rank = "def g(x: Tensor(dtype=\"f32\")):\n    return match_cast(x, Tensor(ndim=2, dtype=\"f32\"))\n";
    assert_eq!(left(rank).len(), 1, "{:?}", left(rank));
    let result = "def g(x: Tensor((\"a\",), \"f32\"), y: Tensor((\"b\",), \"f32\")) -> Tensor((\"a\",), \"f32\"):\n    \
                  return exp(y)\n";
    assert_eq!(left(result).len(), 1, "{:?}", left(result));
    let length = "a + a * a * a // 9000000000";
    let undecided = format!(
        "def g(x: Tensor((\"{length}\",), \"f32\"), y: Tensor((\"a\",), \"f32\")) -> Tensor((\"a\",), \"f32\"):\n    \
         return x\n"
    );
    let told = format!("return: dim 0: {length} is not known to be a");
    assert_eq!(left(&undecided), [told]);
}

#[test]
fn casts_are_proved_only_where_all_is_known() {
    let of = |annotation: &str, declared: &str, wanted: &str| {
        casts(&format!(
            "def g(x: {annotation}):\n    m = sym_var({declared})\n    y = match_cast(x, {wanted})\n    return y\n"
        ))
    };
    let bound = |proved: bool, dims: &[&str]| {
        vec![(proved, dims.iter().map(|&dim| dim.to_owned()).collect::<Vec<_>>())]
    };
    let (known, cast) = ("Tensor((\"a\", \"b\"), \"f32\")", "Tensor((m, 3), \"f32\")");
    assert_eq!(of("Tensor((\"a\", 3), \"f32\")", "", cast), bound(true, &["m = a"]));
    assert_eq!(of(known, "", cast), bound(false, &["m = a"]));
    assert_eq!(of("Tensor(ndim=2, dtype=\"f32\")", "", cast), bound(false, &[]));
    assert_eq!(of("Object", "", cast), bound(false, &[]));
    // Twice the same variable takes the first dim, and the second must be that.
    assert_eq!(of(known, "", "Tensor((m, m), \"f32\")"), bound(false, &["m = a"]));
    let tuple = "Tuple[Tensor((\"a\",), \"f32\"), Tensor((\"b\",), \"f32\")]";
    let second = "Tuple[Tensor(ndim=1, dtype=\"f32\"), Tensor((m,), \"f32\")]";
    assert_eq!(of(tuple, "", second), bound(true, &["m = b"]));
    // Nothing is bound: what was bound before is compared, and a rank is known.
    let ranked = "Tensor(ndim=2, dtype=\"f32\")";
    assert_eq!(of("Tensor((\"a\", 3), \"f32\")", "", ranked), bound(true, &[]));
    let both = "Tensor((\"a\",), \"f32\"), y: Tensor((\"b\",), \"f32\")";
    let again = format!(
        "def g(x: {both}):\n    a = sym_var()\n    z = match_cast(y, Tensor((a,), \"f32\"))\n    return z\n"
    );
    assert_eq!(casts(&again), bound(false, &[]));
    // What a value does when it is called is not seen from its signature.
    let signature = "Callable([Object], Object)";
    assert_eq!(of(signature, "", signature), bound(false, &[]));
    // What is declared of the variable must be proved of the dim.
    for declared in ["lower_bound=2", "upper_bound=64", "multiple_of=4"] {
        assert_eq!(
            of("Tensor((\"a\", 3), \"f32\")", declared, cast),
            bound(false, &[]),
            "{declared}"
        );
    }
}
