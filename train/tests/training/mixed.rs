//! Mixed precision: gradients do not depend on the loss scale, small ones are not lost, overflows are skipped, and a resumed run is
//! the same run.

use super::folder::{CONFIG, Folder, Mistake, refusal, refuse_edits};
use ndarray::{ArrayD, IxDyn};
use relax_program::tensor_files::Weights;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use relax_train::TrainError;
use std::fs;

const STEPS: u64 = 12;

/// The folder of the small language model with a table `[mixed]`.
fn mixed(table: &str) -> Folder {
    let folder = Folder::new();
    folder.edit("[data]", &format!("[mixed]\n{table}\n[data]"));
    folder
}

fn metrics(folder: &Folder) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn weights(folder: &Folder, step: u64, names: &[&str]) -> Vec<Tensor> {
    let weights = Weights::open(&folder.checkpoint(step)).expect("a checkpoint");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    weights.tensors(&names).expect("the weights are in it")
}

/// Scales that are powers of two move exponents only: losses and weights have the same bits. Those of f16 are other ones than of f32.
#[test]
fn a_scale_that_is_a_power_of_two_changes_no_bit() {
    let run = |folder: Folder| {
        let (_, losses) = folder.train(None, STEPS).expect("it trains");
        (losses, weights(&folder, STEPS, &["bias", "embedding", "w"]))
    };
    for (dtype, scales) in [("f16", [64, 1024]), ("bf16", [1, 65536])] {
        let table = |scale| format!("dtype = \"{dtype}\"\nloss_scale = {scale}");
        let [(losses, ours), (others, theirs)] = scales.map(|scale| run(mixed(&table(scale))));
        assert_eq!(losses, others, "{dtype}");
        assert!(ours.iter().zip(&theirs).all(|(ours, theirs)| ours.same_as(theirs)), "{dtype}");
        let (single, _) = run(Folder::new());
        assert_ne!(losses, single, "{dtype}");
        assert!((losses[0] - single[0]).abs() < 0.02 * single[0], "{dtype}: {losses:?} {single:?}");
    }
}

/// Its cotangents are about 1e-9, which f16 rounds to 0.
const FAINT: &str = r#"
def main(x: Tensor(("n", 2), "f32"), w: Tensor((2, 1), "f32"), v: Tensor((1, 1), "f32")) -> Tensor((), "f32"):
    y = matmul(matmul(x, w), v)
    return multiply(mean(square(subtract(y, const(1.0, "f32")))), const(1e-9, "f32"))
"#;

const FAINT_CONFIG: &str = r#"
program = "model.rx"
backend = "BACKEND"
exact = true
steps = 40
metrics = "metrics.jsonl"
[weights]
w = "zeros"
v = "ones"
[optimizer]
name = "sgd"
rate = 1e8
[mixed]
dtype = "DTYPE"
[data]
files = "x.npz"
[checkpoint]
folder = "out"
"#;

fn faint(backend: &str, dtype: &str, more: &str) -> Folder {
    let folder = Folder::new();
    folder.write("model.rx", FAINT);
    let config = FAINT_CONFIG.replace("BACKEND", backend).replace("DTYPE", dtype);
    folder.write("train.toml", &config.replace("\n[data]", &format!("\n{more}[data]")));
    let x =
        ArrayD::from_shape_fn(
            IxDyn(&[8, 2]),
            |at| if at[1] == 0 { 1.0 } else { at[0] as f64 / 8.0 },
        );
    folder.tensors("x.npz", &[("x", Tensor::from_floats(DType::F32, x))]);
    folder
}

#[test]
fn gradients_that_f16_rounds_to_zero_need_a_scale() {
    for backend in ["interp", "cpu"] {
        let losses =
            |dtype, more| faint(backend, dtype, more).train(None, 40).expect("it trains").1;
        let scaled = losses("f16", "");
        assert!(scaled[39] < 0.5 * scaled[0], "{backend}: {scaled:?}");
        let not = losses("f16", "loss_scale = 1\n");
        assert!(not.iter().all(|loss| loss == &not[0]), "{backend}: {not:?}");
        // bf16 has the exponents of f32.
        let brain = losses("bf16", "");
        assert!(brain[39] < 0.5 * brain[0], "{backend}: {brain:?}");
    }
}

/// A scale that is too great overflows, is halved until it does not, and grows after so many steps.
#[test]
fn overflows_are_skipped_and_halve_the_scale() {
    let table = "dtype = \"f16\"\ninit_scale = 1073741824\ngrowth_interval = 4";
    let folder = mixed(table);
    folder.edit("steps = 12", "steps = 40");
    let (ended, losses) = folder.train(None, 40).expect("it trains");
    assert_eq!(ended.steps, 40);
    let lines = metrics(&folder);
    let skipped: Vec<bool> = lines.iter().map(|line| line["skipped"].is_string()).collect();
    let scales: Vec<f64> =
        lines.iter().map(|line| line["loss_scale"].as_f64().expect("a scale")).collect();
    assert!(skipped[0] && skipped[1] && !skipped[39 - 3..].iter().all(|skipped| *skipped));
    let why = lines[0]["skipped"].as_str().expect("a reason");
    assert!(why.starts_with("the gradient of `") && why.contains("is "), "{why}");
    assert_eq!(lines[0]["gradient_norm"], serde_json::Value::Null);
    let mut good = 0;
    for (at, pair) in scales.windows(2).enumerate() {
        good = if skipped[at] { 0 } else { good + 1 };
        let factor = if skipped[at] {
            0.5
        } else if good == 4 {
            2.0
        } else {
            1.0
        };
        good %= 4;
        assert_eq!(pair[1], factor * pair[0], "step {}", at + 1);
    }
    // Weights that are not changed give the same loss for the same batch, and training goes on.
    assert!(losses[39] < 0.5 * losses[0], "{losses:?}");
    let updates = skipped.iter().filter(|skipped| !**skipped).count();
    assert!((20..39).contains(&updates), "{skipped:?}");
}

/// A skipped step changes neither weights nor the state of the optimizer.
#[test]
fn a_skipped_step_leaves_weights_and_states() {
    let names = ["w", "optimizer.first.w", "optimizer.second.w", "bias", "embedding"];
    let folder = mixed("dtype = \"f16\"\ninit_scale = 3e38");
    folder.train(None, 1).expect("it is skipped");
    assert!(metrics(&folder)[0]["skipped"].is_string());
    let after = weights(&folder, 1, &names);
    let plain = Folder::new();
    plain.edit("rate = 0.1", "rate = 0.0");
    plain.train(None, 1).expect("it trains");
    let before = weights(&plain, 1, &names);
    // With a rate of 0 the weights stay, and the state does not.
    for (at, name) in names.iter().enumerate() {
        let is_state = name.starts_with("optimizer");
        assert_eq!(after[at].same_as(&before[at]), !is_state, "{name}");
        if is_state {
            assert!(after[at].to_floats().iter().all(|element| *element == 0.0), "{name}");
        }
    }
}

/// An optimizer counts updates: a run whose first steps are skipped is one that begins later, with the scale of then.
#[test]
fn skipped_steps_are_no_updates() {
    let run = |table: &str, steps: u64| {
        let folder = mixed(table);
        folder.edit("schedule = \"cosine\"\nwarm_up = 2\nclip_norm = 1.0\n", "");
        // The whole file is a batch, so that all steps have the same data.
        folder.edit(
            "batch = \"b\"\nbatch_size = [4, 3]\nlength = \"t\"\nlength_size = [5, 9, 2]\n",
            "",
        );
        folder.train(None, steps).expect("it trains");
        let skipped = metrics(&folder).iter().filter(|line| line["skipped"].is_string()).count();
        let names = ["w", "bias", "embedding", "optimizer.first.w", "optimizer.second.w"];
        (skipped as u64, weights(&folder, steps, &names))
    };
    let great = 2.0_f64.powi(26);
    let (skipped, ours) = run(&format!("dtype = \"f16\"\ninit_scale = {great}"), STEPS);
    assert!((2..8).contains(&skipped), "{skipped}");
    let least = great * 0.5_f64.powi(i32::try_from(skipped).expect("it is small"));
    let table = format!("dtype = \"f16\"\ninit_scale = {least}");
    let (none, theirs) = run(&table, STEPS - skipped);
    assert_eq!(none, 0);
    assert!(ours.iter().zip(&theirs).all(|(ours, theirs)| ours.same_as(theirs)));
}

#[test]
fn an_interrupted_run_continues_bit_for_bit() {
    let table = "dtype = \"f16\"\ninit_scale = 16777216\ngrowth_interval = 3";
    let whole = mixed(table);
    let (_, losses) = whole.train(None, STEPS).expect("it trains");
    let expected = whole.checkpoint_bytes(STEPS);
    let skipped = metrics(&whole).iter().filter(|line| line["skipped"].is_string()).count();
    assert!((2..10).contains(&skipped), "{skipped}");
    for step in 1..STEPS {
        let folder = mixed(table);
        let (_, before) = folder.train(None, step).expect("it trains");
        let (_, after) = folder.train(Some(step), STEPS).expect("it trains");
        assert_eq!([before, after].concat(), losses, "step {step}");
        assert!(folder.checkpoint_bytes(STEPS) == expected, "step {step}");
    }
}

#[test]
fn checkpoints_of_another_scale_are_refused() {
    let folder = mixed("dtype = \"f16\"");
    folder.train(None, 5).expect("it trains");
    folder.edit("dtype = \"f16\"", "dtype = \"f16\"\nbackoff_factor = 0.25");
    let why = refusal(folder.train(Some(5), STEPS));
    assert!(why.ends_with("`mixed.backoff_factor` is 0.5 there and 0.25 here"), "{why}");
}

/// The loss is looked at, not the scaled one: where it is NaN, the model is wrong and no scale helps.
#[test]
fn what_no_scale_helps_ends_the_run() {
    let folder = mixed("dtype = \"f16\"");
    folder.edit("\"*\" = \"normal(0.5)\"", "w = \"normal(1e38)\"\n\"*\" = \"ones\"");
    let why = refusal(folder.train(None, STEPS));
    assert!(why.starts_with("step 1: the loss is "), "{why}");
    // A constant scale does not fall.
    let folder = mixed("dtype = \"f16\"\nloss_scale = 1e38");
    let why = refusal(folder.train(None, STEPS));
    assert!(why.starts_with("step 1: the gradient of `"), "{why}");
    assert!(why.ends_with("; the loss scale is 1e38"), "{why}");
    // A gradient that is infinite with every scale: the derivative of the square root at 0.
    let folder = faint("interp", "f16", "init_scale = 1\nbackoff_factor = 1e-3\n");
    folder.write("model.rx", STEEP);
    folder.edit("rate = 1e8", "rate = 1.0");
    let error = folder.train(None, 40).expect_err("it overflows in each step");
    assert!(matches!(error, TrainError::NotFinite { step: 13, .. }), "{error}");
    let why = error.to_string();
    assert!(
        why.contains("the loss scale falls from ") && why.contains("below the normal"),
        "{why}"
    );
}

/// Its gradient is infinite where the weights are 0.
const STEEP: &str = r#"
def main(x: Tensor(("n", 2), "f32"), w: Tensor((2, 1), "f32"), v: Tensor((1, 1), "f32")) -> Tensor((), "f32"):
    return add(multiply(mean(x), sum(v)), sum(sqrt(w)))
"#;

const TABLE: &str =
    "dtype = \"f16\"\ninit_scale = 8\ngrowth_factor = 3\nbackoff_factor = 0.5\ngrowth_interval = 7";

const EDITS: &[Mistake] = &[
    (
        "dtype = \"f16\"",
        "dtype = \"f8\"",
        "`mixed.dtype` must be `f16` or `bf16`, found \"f8\"",
        "\"f8\"",
    ),
    ("dtype = \"f16\"\n", "", "`mixed.dtype` is missing: `f16` or `bf16`", "mixed"),
    (
        "init_scale = 8",
        "init_scale = 0",
        "`mixed.init_scale` must be a number from 1.1754944e-38 to 3.4028235e38, found 0",
        "0",
    ),
    (
        "init_scale = 8",
        "loss_scale = -1.0",
        "`mixed.loss_scale` must be `dynamic`, or a number from 1.1754944e-38 to 3.4028235e38, found -1",
        "-1.0",
    ),
    (
        "init_scale = 8",
        "loss_scale = nan",
        "`mixed.loss_scale` must be `dynamic`, or a number from 1.1754944e-38 to 3.4028235e38, found NaN",
        "nan",
    ),
    (
        "init_scale = 8",
        "loss_scale = 1e39",
        "`mixed.loss_scale` must be `dynamic`, or a number from 1.1754944e-38 to 3.4028235e38, found 1",
        "1e39",
    ),
    (
        "init_scale = 8",
        "loss_scale = \"static\"",
        "`mixed.loss_scale` must be `dynamic`, or a number from 1.1754944e-38 to 3.4028235e38, found \"static\"",
        "\"static\"",
    ),
    (
        "init_scale = 8",
        "loss_scale = 8",
        "`mixed.growth_factor` needs `loss_scale = \"dynamic\"`",
        "3",
    ),
    (
        "growth_factor = 3",
        "growth_factor = 1",
        "`mixed.growth_factor` must be a number above 1, found 1",
        "1",
    ),
    (
        "backoff_factor = 0.5",
        "backoff_factor = 1.0",
        "`mixed.backoff_factor` must be a number between 0 and 1, found 1",
        "1.0",
    ),
    (
        "growth_interval = 7",
        "growth_interval = 0",
        "`mixed.growth_interval` must be an integer of at least 1, found 0",
        "0",
    ),
    (
        "init_scale = 8",
        "initscale = 8",
        "`mixed.initscale` is no key of a configuration",
        "initscale",
    ),
];

#[test]
fn mistakes_in_the_table_have_a_place() {
    let config = CONFIG.replace("[data]", &format!("[mixed]\n{TABLE}\n[data]"));
    refuse_edits(|| mixed(TABLE), &config, EDITS);
}

#[test]
fn a_program_of_f64_is_refused_at_the_table() {
    let folder = mixed("dtype = \"f16\"");
    let program = super::folder::PROGRAM.replace("\"f32\"", "\"f64\"");
    folder.write("model.rx", &program);
    let TrainError::Config(error) = folder.session().err().expect("it is f64") else {
        panic!("no mistake in the configuration")
    };
    assert_eq!(
        error.message,
        "the weight `embedding` is f64, and `[mixed]` rounds products of f32: leave the table out"
    );
    let config = fs::read_to_string(folder.path().join("train.toml")).expect("it is there");
    assert_eq!(&config[error.span.start as usize..error.span.end as usize], "\"f16\"");
}
