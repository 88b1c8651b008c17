//! Parameters whose values are known: constants in their place, the same meaning with these values, and
//! a clear error where a value cannot be the parameter's.

use relax_program::frontend::{Program, print};
use relax_rewrite::pass::{Exactness, Settings};
use relax_rewrite::passes::bind_params;
use relax_rewrite::pipeline::{Failed, Route, Unwatched, run};
use relax_rewrite::verify::{Effort, verify};
use relax_semantics::tensor::{Number, Tensor};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::sync::Arc;

type Values = BTreeMap<Name, Tensor>;

fn module(text: &str) -> Module {
    let program = Program::load(Source::new("text", text));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    program.module
}

fn value(shape: &[usize]) -> Tensor {
    Tensor::full(DType::F32, shape, Number::Float(0.5))
}

fn values(of: &[(&str, &[usize])]) -> Values {
    of.iter().map(|(name, shape)| (Name::new(*name), value(shape))).collect()
}

/// The module with its parameters bound, held against the module itself.
fn bound(text: &str, values: &Values) -> Module {
    let before = module(text);
    let settings = Settings { params: Arc::new(values.clone()), ..Settings::default() };
    let route = Route::Passes(vec![&bind_params::PASS]);
    let after =
        run(&before, &route, &settings, &mut Prover::new(), &mut Unwatched).expect("it fits");
    let effort = Effort { cases: 30, seed: 0 };
    let tally = verify(&before, &after, Exactness::Exact, effort, values)
        .unwrap_or_else(|difference| panic!("{difference}\n{}", print(&after)));
    assert!(tally.compared > 0 && tally.rejected == 0, "{tally:?}");
    after
}

fn refused(text: &str, values: &Values) -> String {
    let settings = Settings { params: Arc::new(values.clone()), ..Settings::default() };
    let route = Route::Passes(vec![&bind_params::PASS]);
    match run(&module(text), &route, &settings, &mut Prover::new(), &mut Unwatched) {
        Err(Failed::Refused { diagnostics, .. }) => diagnostics[0].message.clone(),
        other => panic!("{:?}", other.map(|module| print(&module))),
    }
}

const DENSE: &str = "def main(x: Tensor((\"n\", \"k\"), \"f32\"), dense_w: Tensor((\"k\", \"m\"), \"f32\"), b: Tensor((\"m\",), \"f32\")):
    k, m = sym_var(), sym_var(upper_bound=100)
    func_attr(\"num_input\", 1)
    y = matmul(x, dense_w)
    z = add(y, b)
    return reshape(z, (-1,))
";

#[test]
fn big_values_keep_their_stored_names_and_small_ones_are_text() {
    let values = values(&[("dense.w", &[8, 16]), ("b", &[16])]);
    let text = print(&bound(DENSE, &values));
    assert!(text.contains("param(\"dense.w\", Tensor((8, 16), \"f32\"))"), "{text}");
    assert!(
        text.contains("x: Tensor((\"n\", 8), \"f32\")) ->")
            || text.contains("x: Tensor((\"n\", 8), \"f32\")):"),
        "{text}"
    );
    assert!(text.contains("= const("), "{text}");
    assert!(!text.contains("sym_var"), "{text}");
}

#[test]
fn a_dim_that_an_unbound_parameter_also_has_is_a_number_there() {
    let text = print(&bound(DENSE, &values(&[("b", &[3])])));
    assert!(text.contains("dense_w: Tensor((\"k\", 3), \"f32\")"), "{text}");
    assert!(text.contains("x: Tensor((\"n\", \"k\"), \"f32\")"), "{text}");
}

#[test]
fn what_depends_on_other_parameters_stays() {
    let text = "def main(x: Tensor((\"n\",), \"f32\"), w: Tensor((\"n * 2\",), \"f32\")):
    n = sym_var()
    func_attr(\"num_input\", 2)
    return (x, w)
";
    let after = bound(text, &BTreeMap::new());
    assert_eq!(after, bound_only(text, &values(&[("w", &[6])])));
    let both = bound_only(text, &values(&[("x", &[3]), ("w", &[6])]));
    let printed = print(&both);
    assert!(
        printed.contains("def main():") && printed.contains("func_attr(\"num_input\", 0)"),
        "{printed}"
    );
}

/// As [`bound`], where no case may have inputs.
fn bound_only(text: &str, values: &Values) -> Module {
    let settings = Settings { params: Arc::new(values.clone()), ..Settings::default() };
    let route = Route::Passes(vec![&bind_params::PASS]);
    run(&module(text), &route, &settings, &mut Prover::new(), &mut Unwatched).expect("it fits")
}

#[test]
fn values_that_do_not_fit_are_refused() {
    assert!(refused(DENSE, &values(&[("b", &[3, 3])])).contains("the parameter `b`"));
    assert!(refused(DENSE, &values(&[("b", &[101])])).contains("`m` is 101"));
    let both = values(&[("dense_w", &[2, 3]), ("b", &[4])]);
    assert!(refused(DENSE, &both).contains("the parameter `"));
    let twice = values(&[("dense.w", &[2, 3]), ("dense_w", &[2, 3])]);
    assert!(refused(DENSE, &twice).contains("could be"));
    let text = "def main(b: Tensor((2,), \"f16\")):\n    return b\n";
    assert!(refused(text, &values(&[("b", &[2])])).contains("`b`"));
}

#[test]
fn an_entry_that_is_called_keeps_its_parameters() {
    let text = "def main(w: Tensor((2,), \"f32\")):\n    return w\n\ndef other(x: Tensor((2,), \"f32\")):\n    return main(x)\n";
    assert_eq!(bound(text, &values(&[("w", &[2])])), module(text));
}
