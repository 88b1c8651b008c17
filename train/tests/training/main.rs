//! Training runs: they learn, do not depend on the backend with exact sums, continue bit for bit, and refuse what is wrong.

mod budgets;
mod checkpoints;
mod folder;
mod mixed;
mod random;
mod refusals;

use folder::{CONFIG, Folder};
use ndarray::{ArrayD, IxDyn};
use relax_program::tensor_files::Weights;
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use std::collections::BTreeSet;
use std::fs;

/// Both backends form sums in the order of the text, so that losses and weights are equal bit for bit.
#[test]
fn a_model_learns_with_shapes_that_change() {
    let mut runs = Vec::new();
    for backend in ["interp", "cpu"] {
        let folder = Folder::new();
        folder.edit("steps = 12", "steps = 25");
        folder.edit("backend = \"interp\"", &format!("backend = \"{backend}\"\nexact = true"));
        let (ended, losses) = folder.train(None, 25).expect("it trains");
        assert_eq!((ended.steps, ended.interrupted), (25, false));
        assert!(losses[24] < 0.5 * losses[0], "{losses:?}");
        let metrics = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics");
        let dims = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
            line["dims"].to_string()
        };
        assert_eq!(metrics.lines().count(), 25);
        assert!(metrics.lines().map(dims).collect::<BTreeSet<_>>().len() >= 5, "{metrics}");
        let weights = Weights::open(&folder.checkpoint(25)).expect("a checkpoint");
        let names = ["bias", "embedding", "w"].map(str::to_owned);
        runs.push((losses, weights.tensors(&names).expect("the weights are in it")));
    }
    let [(interpreted, ours), (compiled, theirs)] = runs.as_slice() else { panic!("two runs") };
    assert_eq!(interpreted, compiled);
    assert!(ours.iter().zip(theirs).all(|(ours, theirs)| ours.same_as(theirs)));
}

#[test]
fn equal_configurations_give_equal_bytes_and_other_seeds_do_not() {
    let bytes = |seed: &str| {
        let folder = Folder::new();
        folder.edit("seed = 3", seed);
        folder.train(None, 12).expect("it trains");
        folder.checkpoint_bytes(12)
    };
    assert_eq!(bytes("seed = 3"), bytes("seed = 3"));
    assert_ne!(bytes("seed = 3"), bytes("seed = 4"));
}

/// A vector of four elements, the loss of which is half its squared distance to the data.
const DISTANCE: &str = r#"
def main(x: Tensor((2,), "DATA"), p: Tensor((2,), "DATA")) -> Tensor((), "DATA"):
    return multiply(sum(square(subtract(p, x))), const(0.5, "DATA"))
"#;

const STEP: &str = r#"
program = "model.rx"
backend = "interp"
steps = 3
[weights]
p = "ones"
[optimizer]
name = "sgd"
rate = 0.25
[data]
files = "x.npz"
[checkpoint]
folder = "out"
"#;

fn distance(dtype: DType, optimizer: &str) -> Tensor {
    let folder = Folder::new();
    folder.write("model.rx", &DISTANCE.replace("DATA", dtype.name()));
    folder.write("train.toml", STEP);
    folder.edit("name = \"sgd\"\nrate = 0.25", optimizer);
    let values = ArrayD::from_shape_vec(IxDyn(&[2]), vec![3.0, -1.0]).expect("two");
    folder.tensors("x.npz", &[("x", Tensor::from_floats(dtype, values))]);
    folder.train(None, 3).expect("it trains");
    let weights = Weights::open(&folder.checkpoint(3)).expect("a checkpoint");
    weights.tensors(&["p".to_owned()]).expect("the weight is in it").remove(0)
}

/// By hand: the gradient is `p - x`.
#[test]
fn optimizers_compute_their_formulas() {
    let elements = |tensor: &Tensor| [0, 1].map(|at| tensor.number(at).as_f64());
    let sgd = distance(DType::F64, "name = \"sgd\"\nrate = 0.25");
    let left = 0.75_f64.powi(3);
    assert_eq!(elements(&sgd), [3.0 - 2.0 * left, -1.0 + 2.0 * left]);
    let linear = "name = \"sgd\"\nrate = 0.5\nschedule = \"linear\"\nlast_rate = 0.125";
    let left: f64 = [0.375, 0.25, 0.125].iter().map(|rate| 1.0 - rate).product();
    assert_eq!(elements(&distance(DType::F64, linear)), [3.0 - 2.0 * left, -1.0 + 2.0 * left]);
    let momentum = "name = \"momentum\"\nrate = 0.25\nparameters = { decay = 0.5 }";
    let (mut p, mut v) = (1.0, 0.0);
    for _ in 0..3 {
        v = 0.5 * v + (p - 3.0);
        p -= 0.25 * v;
    }
    assert_eq!(elements(&distance(DType::F64, momentum))[0], p);
    // The first gradient is (-2, 2): a norm of 1 is half of the diagonal.
    let clipped = "name = \"sgd\"\nrate = 1.0\nclip_norm = 0.5";
    let found = elements(&distance(DType::F64, clipped))[0];
    assert!((found - (1.0 + 3.0 * 0.5 / 2.0_f64.sqrt())).abs() < 1e-5, "{found}");
    let adamw = "name = \"adamw\"\nrate = 0.25\nparameters = { decay = 0.0 }";
    // As long as the gradients are nearly the same, a step is the rate.
    assert!((elements(&distance(DType::F64, adamw))[0] - 1.75).abs() < 0.05);
}

/// Steps that an f16 cannot hold add up, as the weight is kept in f32.
#[test]
fn narrow_weights_are_kept_in_f32() {
    let found = distance(DType::F16, "name = \"sgd\"\nrate = 0.0001");
    assert_eq!(found.dtype(), DType::F16);
    assert_eq!(found.number(0), Number::Float(1.000_976_562_5));
}

#[test]
fn a_file_a_step_has_shapes_of_its_own() {
    let folder = Folder::new();
    for (name, rows, length) in [("a", 2, 3), ("b", 5, 7), ("c", 1, 4)] {
        folder.data(&format!("part-{name}.npz"), rows, length, 4);
    }
    let cut =
        &CONFIG[CONFIG.find("files").expect("files")..CONFIG.find("[checkpoint]").expect("it")];
    folder.edit(cut, "files = \"part-*.npz\"\n");
    folder.train(None, 12).expect("it trains");
    let metrics = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics");
    let lines: Vec<serde_json::Value> =
        metrics.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (epoch, steps) in lines.chunks(3).enumerate() {
        let seen: BTreeSet<String> = steps.iter().map(|line| line["dims"].to_string()).collect();
        let all = [r#"{"b":1,"t":4}"#, r#"{"b":2,"t":3}"#, r#"{"b":5,"t":7}"#];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
        assert!(steps.iter().all(|line| line["epoch"] == epoch as u64), "{steps:?}");
    }
}
