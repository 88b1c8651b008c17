//! Adjoints within a budget of memory: they keep it, measured as planned, for all dims as the formula says, and give the same bits.

use relax_driver::differential::called;
use relax_driver::{Bound, Target, compile};
use relax_program::compare::Relation;
use relax_program::frontend::{Program, RunOptions, run};
use relax_program::signature::{Dims, random_value};
use relax_rewrite::pass::Device;
use relax_rewrite::passes::gradient::Options;
use relax_rewrite::pipeline::Unwatched;
use relax_rewrite::verify::compare_values;
use relax_runtime::Limits;
use relax_runtime::program::Numerics;
use relax_semantics::random::Random;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use relax_train::{Budget, BudgetError, Recomputing, differentiated_within};

/// Layers whose results the adjoint needs.
const PROGRAM: &str = r#"
def main(
    x: Tensor(("n", 32), "f64"),
    a: Tensor((32, 32), "f64"), b: Tensor((32, 32), "f64"), c: Tensor((32, 32), "f64"), d: Tensor((32, 32), "f64"),
) -> Tensor((), "f64"):
    n = sym_var()
    h1 = tanh(matmul(x, a))
    h2 = add(tanh(matmul(h1, b)), h1)
    h3 = sigmoid(matmul(h2, c))
    h4 = tanh(matmul(h3, d))
    h5 = add(tanh(matmul(h4, a)), h4)
    h6 = sigmoid(matmul(h5, b))
    h7 = tanh(matmul(h6, c))
    h8 = add(tanh(matmul(h7, d)), h6)
    return sum(square(h8))
"#;

const ROWS: i64 = 512;

fn exact() -> Target {
    Target::of(Device::Cpu, Numerics::Exact)
}

fn options() -> Options {
    Options { function: Some(Name::new("main")), ..Options::default() }
}

fn within(bytes: i64) -> Result<Recomputing, BudgetError> {
    let program = Program::load(Source::new("layers", PROGRAM));
    let dims = [(Name::new("n"), ROWS)].into();
    differentiated_within(&program.module, &options(), &Budget { bytes, dims }, &exact())
}

fn arguments(module: &Module, rows: i64) -> Vec<Value> {
    let function = module.function("main_adjoint").expect("the pass made it");
    let dims = Dims::from([(Name::new("n"), rows)]);
    let params = function.lambda.params.iter().map(|&param| {
        let mut random = Random::new(7, &function.var(param).name);
        let annotation = function.param_annotation(param);
        random_value(annotation, &dims, &mut random, &(0..=3), 1 << 24).expect("it is bound")
    });
    params.collect()
}

/// What the compiled adjoint gives for so many rows, where all live tensors may take so many bytes.
fn compiled(module: &Module, rows: i64, bytes: usize) -> Option<Value> {
    let source = Source::new("layers", PROGRAM);
    let program =
        Program { source, module: module.clone(), diagnostics: Vec::new(), left: Vec::new() };
    let made = compile(&program, &exact(), &Bound::default(), &mut Unwatched).expect("it compiles");
    let machine = made.load(Limits { bytes, threads: 1, ..Limits::default() }).expect("it loads");
    called(&machine, &Name::new("main_adjoint"), &arguments(module, rows)).ok()
}

/// Whether two values have the same bits.
fn same(want: &Value, got: &Value) -> bool {
    compare_values(Relation::Equal, want, got, &[]).is_ok()
}

/// The least limit with which a call ends.
fn measured(module: &Module, rows: i64) -> i64 {
    let (mut fails, mut runs) = (0_usize, 1 << 26);
    assert!(compiled(module, rows, runs).is_some());
    while runs - fails > 1 {
        let middle = fails.midpoint(runs);
        match compiled(module, rows, middle) {
            Some(_) => runs = middle,
            None => fails = middle,
        }
    }
    i64::try_from(runs).expect("it is small")
}

#[test]
fn a_budget_is_kept_with_the_same_bits() {
    let whole = within(i64::MAX).expect("everything is kept");
    assert_eq!(whole.segments, 1);
    let budget = whole.peak * 3 / 4;
    let own = within(budget).expect("a quarter less is enough");
    assert!(own.segments > 1 && own.peak <= budget, "{} bytes", own.peak);
    let fewer = within(own.peak).expect("it was reached");
    assert_eq!((fewer.segments, fewer.peak), (own.segments, own.peak));
    let [formula, all] = [&own, &whole].map(|made| made.formula.clone().expect("dims are known"));
    for rows in [3, ROWS] {
        let value = |formula: &Dim| formula.eval(&|_| Some(rows)).expect("it is");
        // What both take beside: arguments, and results that are copied.
        let saved = measured(&whole.module, rows) - measured(&own.module, rows);
        assert_eq!(saved, value(&all) - value(&formula), "{rows} rows: {all} and {formula}");
    }
    for rows in [0, 1, 5, 17] {
        let options = RunOptions::default();
        let [want, got] = [&whole, &own].map(|made| {
            let arguments = arguments(&made.module, rows);
            let result = run(&made.module, "main_adjoint", arguments, &options).result;
            result.expect("it runs")
        });
        assert!(same(&want, &got), "{rows} rows");
        let compiled = [&whole, &own].map(|made| compiled(&made.module, rows, 1 << 26));
        let [Some(want), Some(got)] = compiled else { panic!("they run") };
        assert!(same(&want, &got), "{rows} rows");
    }
}

#[test]
fn budgets_that_cannot_be_kept_say_so() {
    let Err(error) = within(1000) else { panic!("nothing takes so little") };
    let BudgetError::TooSmall { budget: 1000, least, segments } = error else { panic!("{error}") };
    assert!(segments > 1);
    assert_eq!(within(least).expect("it is the least").segments, segments);
    assert!(matches!(within(least - 1), Err(BudgetError::TooSmall { .. })));

    let program = Program::load(Source::new("layers", PROGRAM));
    let budget = Budget { bytes: i64::MAX, dims: [].into() };
    let made = differentiated_within(&program.module, &options(), &budget, &exact());
    assert_eq!(
        made.expect_err("n has no value").to_string(),
        "a budget is for given dims: give values of n"
    );
}
