//! Dropout in training: each step draws from the seed and the step alone, so that a run is the same on both backends, within a
//! budget of memory, and where it was interrupted.

use super::folder::{Folder, Mistake, refusal, refuse_edits};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;

/// Dropouts with one state.
const PROGRAM: &str = r#"
def main(
    x: Tensor(("n", 8), "f32"), rng: Tensor((4,), "u32"), w: Tensor((8, 16), "f32"), v: Tensor((16, 16), "f32"),
) -> Tensor((), "f32"):
    n = sym_var()
    h1 = dropout(square(matmul(x, w)), 0.5, rng)[0]
    h2 = dropout(square(matmul(h1, v)), 0.25, rng, stream=1)[0]
    h3 = dropout(square(matmul(h2, v)), 0.25, rng, stream=2)[0]
    h4 = dropout(abs(matmul(h3, v)), 0.25, rng, stream=3)[0]
    h5 = dropout(abs(matmul(h4, v)), 0.25, rng, stream=4)[0]
    return sum(square(h5))
"#;

const CONFIG: &str = r#"
program = "model.rx"
backend = "cpu"
exact = true
seed = 5
steps = 6
[random]
parameter = "rng"
[weights]
"*" = "normal(0.2)"
[optimizer]
name = "adamw"
rate = 0.01
[data]
files = "x.npz"
batch = "n"
batch_size = [5, 61, 1]
[checkpoint]
folder = "out"
"#;

const STEPS: u64 = 6;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("model.rx", PROGRAM);
    folder.write("train.toml", CONFIG);
    let element = |index: IxDyn| ((index[0] * 7 + index[1] * 3) % 11) as f64 / 11.0;
    let values = ArrayD::from_shape_fn(IxDyn(&[67, 8]), element);
    folder.tensors("x.npz", &[("x", Tensor::from_floats(DType::F32, values))]);
    folder
}

#[test]
fn an_interrupted_run_draws_the_same_bits() {
    let whole = folder();
    let (_, losses) = whole.train(None, STEPS).expect("it trains");
    let expected = whole.checkpoint_bytes(STEPS);
    for step in 1..STEPS {
        let folder = folder();
        let (_, before) = folder.train(None, step).expect("it trains");
        let (_, after) = folder.train(Some(step), STEPS).expect("it trains");
        assert_eq!([before, after].concat(), losses, "step {step}");
        assert!(folder.checkpoint_bytes(STEPS) == expected, "step {step}");
    }
    let interpreted = folder();
    interpreted.edit("backend = \"cpu\"", "backend = \"interp\"");
    assert_eq!(interpreted.train(None, STEPS).expect("it trains").1, losses);
    let other = folder();
    other.edit("seed = 5", "seed = 6");
    assert_ne!(other.train(None, STEPS).expect("it trains").1, losses);
}

/// A rate of 0 as the learning rate: nothing but the drawn bits tells two steps from each other.
#[test]
fn steps_draw_other_bits() {
    let folder = folder();
    folder.edit("rate = 0.01", "rate = 0.0\nparameters = { decay = 0.0 }");
    folder.edit("batch_size = [5, 61, 1]", "batch_size = 67\nshuffle = false");
    let (_, losses) = folder.train(None, STEPS).expect("it trains");
    let mut sorted = losses.clone();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    assert_eq!(sorted.len(), losses.len(), "{losses:?}");
}

/// Segments that are computed again drop the same elements.
#[test]
fn a_budget_of_memory_keeps_the_bits() {
    let whole = folder();
    whole.edit("[weights]", "[memory]\nbudget = \"64M\"\n[weights]");
    let plan = whole.session().expect("it fits").memory().cloned().expect("it has a budget");
    let (_, losses) = whole.train(None, STEPS).expect("it trains");
    let budget = plan.peak * 19 / 20;
    let own = folder();
    own.edit("[weights]", &format!("[memory]\nbudget = {budget}\n[weights]"));
    let session = own.session().expect("it fits");
    let plan = session.memory().expect("it has a budget");
    assert!(plan.segments > 1, "{plan:?}");
    assert_eq!(own.train(None, STEPS).expect("it trains").1, losses);
    assert!(own.checkpoint_bytes(STEPS) == whole.checkpoint_bytes(STEPS));
}

const EDITS: &[Mistake] = &[
    (
        "parameter = \"rng\"",
        "parameter = \"rnd\"",
        "no parameter of the program that is no weight is named `rnd` (`random.parameter`)",
        "\"rnd\"",
    ),
    (
        "parameter = \"rng\"",
        "parameter = \"x\"",
        "`x` is `Tensor((n, 8), \"f32\")`, and a state of random bits is `Tensor((4,), \"u32\")`",
        "\"x\"",
    ),
    (
        "parameter = \"rng\"",
        "parameter = \"w\"",
        "no parameter of the program that is no weight is named `w` (`random.parameter`)",
        "\"w\"",
    ),
    ("parameter = \"rng\"", "parameter = 3", "`random.parameter` must be a text, found 3", "3"),
    ("parameter = \"rng\"", "", "`random.parameter` is missing: a text", "random"),
    (
        "parameter = \"rng\"",
        "parameter = \"rng\"\nkey = 1",
        "`random.key` is no key of a configuration",
        "key",
    ),
    (
        "\"*\" = \"normal(0.2)\"",
        "rng = \"zeros\"\n\"*\" = \"normal(0.2)\"",
        "`rng` is `Tensor((4,), \"u32\")`, which is no weight: gradients are of float tensors only",
        "rng",
    ),
];

#[test]
fn states_that_cannot_be_given_are_refused() {
    refuse_edits(folder, CONFIG, EDITS);
    // Without the table the state is data, of which the file has none.
    let without = folder();
    without.edit("[random]\nparameter = \"rng\"\n", "");
    let why = refusal(without.train(None, 1));
    assert!(why.contains("`rng`"), "{why}");
    let resumed = folder();
    resumed.train(None, 2).expect("it trains");
    resumed.write("model.rx", &PROGRAM.replace("stream=2", "stream=3"));
    let why = refusal(resumed.train(Some(2), STEPS));
    assert!(why.ends_with("it is a checkpoint of another run: `program_text` differs"), "{why}");
}
