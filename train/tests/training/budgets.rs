//! Adjoints within a budget of memory: they keep it, measured as planned, for all dims as the formula says, and give the same bits.

use super::folder::{Folder, Mistake, refusal, refuse_edits};
use ndarray::{ArrayD, IxDyn};
use relax_driver::differential::called;
use relax_driver::{Bound, Target, compile};
use relax_program::compare::Relation;
use relax_program::frontend::{Program, RunOptions, run};
use relax_program::signature::{Dims, random_value};
use relax_rewrite::pass::Device;
use relax_rewrite::passes::gradient::Options;
use relax_rewrite::pipeline::Unwatched;
use relax_rewrite::verify::compare_values;
use relax_runtime::program::Numerics;
use relax_runtime::{ALIGNMENT, Limits};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
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

/// How many segments are functions.
fn segment_functions(module: &Module) -> usize {
    let is_segment = |name: &Name| name.starts_with("main_segment") && !name.contains("pullback");
    module.functions().filter(|function| is_segment(&function.name)).count()
}

/// Whether two values have the same bits.
fn same(want: &Value, got: &Value) -> bool {
    compare_values(Relation::Equal, want, got, &[]).is_ok()
}

/// The least limit with which a call ends.
fn measured(module: &Module, rows: i64) -> usize {
    let (mut fails, mut runs) = (0_usize, 1 << 26);
    assert!(compiled(module, rows, runs).is_some());
    while runs - fails > 1 {
        let middle = fails.midpoint(runs);
        match compiled(module, rows, middle) {
            Some(_) => runs = middle,
            None => fails = middle,
        }
    }
    runs
}

#[test]
fn a_budget_is_kept_with_the_same_bits() {
    let whole = within(i64::MAX).expect("everything is kept");
    assert_eq!((whole.plan.segments, segment_functions(&whole.module)), (1, 0));
    let budget = whole.plan.peak * 3 / 4;
    let own = within(budget).expect("a quarter less is enough");
    assert!(own.plan.segments > 1 && own.plan.peak <= budget, "{} bytes", own.plan.peak);
    // All segments but the last are computed again.
    assert_eq!(segment_functions(&own.module), own.plan.segments - 1);
    let fewer = within(own.plan.peak).expect("it was reached");
    assert_eq!((fewer.plan.segments, fewer.plan.peak), (own.plan.segments, own.plan.peak));
    for made in [&whole, &own] {
        for rows in [3, ROWS] {
            let formula = made.plan.formula.as_ref().expect("dims are known");
            let value = formula.eval(&|_| Some(rows)).expect("it is");
            let value = usize::try_from(value).expect("it is not negative");
            // The loss is one number, in a storage that is as large as the alignment.
            let want = value.next_multiple_of(ALIGNMENT);
            assert_eq!(measured(&made.module, rows), want, "{rows} rows: {formula}");
        }
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

/// The same layers twice, as functions.
const LAYERS: &str = r#"
def pair(
    x: Tensor(("n", 32), "f64"), a: Tensor((32, 32), "f64"), b: Tensor((32, 32), "f64"),
) -> Tensor(("n", 32), "f64"):
    n = sym_var()
    func_attr("private", True)
    h1 = tanh(matmul(x, a))
    h2 = add(tanh(matmul(h1, b)), h1)
    h3 = sigmoid(matmul(h2, a))
    return add(tanh(matmul(h3, b)), h3)

def main(
    x: Tensor(("n", 32), "f64"), a: Tensor((32, 32), "f64"), b: Tensor((32, 32), "f64"),
) -> Tensor((), "f64"):
    n = sym_var()
    return sum(pair(pair(x, a, b), b, a))
"#;

#[test]
fn called_functions_are_cut_as_if_they_were_written_out() {
    let program = Program::load(Source::new("layers", LAYERS));
    let within = |bytes| {
        let dims = [(Name::new("n"), ROWS)].into();
        differentiated_within(&program.module, &options(), &Budget { bytes, dims }, &exact())
    };
    let whole = within(i64::MAX).expect("everything is kept");
    assert_eq!((whole.plan.segments, segment_functions(&whole.module)), (1, 0));
    // The function has three bindings, and those that it calls have twenty.
    let Err(error) = within(1000) else { panic!("nothing takes so little") };
    let BudgetError::TooSmall { least, segments, .. } = error else { panic!("{error}") };
    assert!(segments > 3, "{segments} segments");
    let own = within(least).expect("it is the least");
    assert!(least * 4 < whole.plan.peak * 3, "{least} of {}", whole.plan.peak);
    let results = [&whole, &own].map(|made| {
        let arguments = arguments(&made.module, 5);
        run(&made.module, "main_adjoint", arguments, &RunOptions::default()).result
    });
    let [Ok(want), Ok(got)] = results else { panic!("they run") };
    assert!(same(&want, &got));
}

#[test]
fn budgets_that_cannot_be_kept_say_so() {
    let Err(error) = within(1000) else { panic!("nothing takes so little") };
    let BudgetError::TooSmall { budget: 1000, least, segments } = error else { panic!("{error}") };
    assert!(segments > 1);
    assert_eq!(within(least).expect("it is the least").plan.segments, segments);
    assert!(matches!(within(least - 1), Err(BudgetError::TooSmall { .. })));

    let program = Program::load(Source::new("layers", PROGRAM));
    let budget = Budget { bytes: i64::MAX, dims: [].into() };
    let made = differentiated_within(&program.module, &options(), &budget, &exact());
    assert_eq!(
        made.expect_err("n has no value").to_string(),
        "a budget is for given dims: give values of n"
    );
}

const CONFIG: &str = r#"
program = "model.rx"
exact = true
steps = 4
[weights]
"*" = "normal(0.2)"
[memory]
budget = "2M"
[optimizer]
name = "sgd"
rate = 0.01
[data]
files = "x.npz"
batch = "n"
batch_size = [300, 512]
[checkpoint]
folder = "out"
"#;

/// A training run of the program.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("model.rx", PROGRAM);
    folder.write("train.toml", CONFIG);
    let element = |index: IxDyn| ((index[0] * 7 + index[1] * 3) % 11) as f64 / 11.0;
    let values = ArrayD::from_shape_fn(IxDyn(&[900, 32]), element);
    folder.tensors("x.npz", &[("x", Tensor::from_floats(DType::F64, values))]);
    folder
}

#[test]
fn a_run_within_a_budget_is_the_same_run() {
    let whole = folder();
    let plan = whole.session().expect("it fits").memory().cloned().expect("it has a budget");
    assert_eq!((plan.segments, plan.bytes(&[(Name::new("n"), 512)].into())), (1, Some(plan.peak)));
    let (_, losses) = whole.train(None, 4).expect("it trains");

    let budget = plan.peak * 9 / 10;
    let own = folder();
    own.edit("\"2M\"", &budget.to_string());
    let session = own.session().expect("it fits");
    let plan = session.memory().expect("it has a budget");
    assert!(plan.segments > 1 && plan.peak <= budget, "{plan:?}");
    assert_eq!(own.train(None, 4).expect("it trains").1, losses);
    assert!(own.checkpoint_bytes(4) == whole.checkpoint_bytes(4));

    let without = folder();
    without.edit("[memory]\nbudget = \"2M\"\n", "");
    let mut session = without.session().expect("it fits");
    assert!(session.memory().is_none());
    session.resume(&own.checkpoint(4)).expect("bits do not depend on a budget");
    // Where sums are reassociated they may.
    without.edit("exact = true", "exact = false");
    without.train(None, 1).expect("it trains");
    own.edit("exact = true", "exact = false");
    let why = refusal(own.session().expect("it fits").resume(&without.checkpoint(1)));
    assert!(why.contains("another run") && why.contains("memory.budget"), "{why}");
}

/// Edits of the configuration, what is said, and the text at the place.
const EDITS: &[Mistake] = &[
    ("\"2M\"", "1000", "`memory.budget`: the adjoint takes at least ", "1000"),
    (
        "\"2M\"",
        "\"1X\"",
        "`memory.budget` must be bytes, or a text such as `\"512M\"` or `\"8G\"`, found \"1X\"",
        "\"1X\"",
    ),
    ("\"2M\"", "-1", "`memory.budget` must be bytes, or a text such as", "-1"),
    ("budget = \"2M\"", "", "`memory.budget` is missing: bytes, or", "memory"),
    ("budget =", "bugdet = 1\nbudget =", "`memory.bugdet` is no key of a configuration", "bugdet"),
    (
        "exact = true",
        "backend = \"interp\"",
        "the interpreter plans no memory: the table `[memory]` needs `backend = \"cpu\"`",
        "memory",
    ),
    (
        "\"2M\"",
        "\"2M\"\ndims = { m = 3 }",
        "no parameter of `main` has the symbolic variable `m` (`memory.dims`)",
        "m",
    ),
    (
        "batch = \"n\"\nbatch_size = [300, 512]\n",
        "",
        "`memory.budget`: a budget is for given dims: give values of n",
        "\"2M\"",
    ),
];

#[test]
fn budgets_of_runs_that_cannot_be_kept_are_refused() {
    refuse_edits(folder, CONFIG, EDITS);
}

/// The second step is greater than the budget is for.
#[test]
fn steps_beyond_the_budget_end_a_run() {
    let small = folder();
    small.edit("\"2M\"", "\"2M\"\ndims = { n = 300 }");
    let plan = small.session().expect("it fits").memory().cloned().expect("it has a budget");
    let sizes = [300, 512].map(|n| plan.bytes(&[(Name::new("n"), n)].into()));
    let [Some(less), Some(more)] = sizes else { panic!("dims are known") };
    assert_eq!(less, plan.peak);
    small.edit("\"2M\"", &less.to_string());
    let why = refusal(small.train(None, 4));
    let expected = format!(
        "step 2: the adjoint takes {more} bytes for n = 512, more than {less} (`memory.budget`)"
    );
    assert_eq!(why, expected);
}
