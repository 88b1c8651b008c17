//! Checkpoints: a resumed run is the same run, and what is damaged or of another run is refused.

use super::folder::{Folder, PROGRAM, refusal};
use relax_train::{TrainError, checkpoints};
use std::fs;

const STEPS: u64 = 12;

#[test]
fn an_interrupted_run_continues_bit_for_bit() {
    let whole = Folder::new();
    let (_, losses) = whole.train(None, STEPS).expect("it trains");
    let expected = whole.checkpoint_bytes(STEPS);
    let metrics = |folder: &Folder| {
        let text = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics");
        let lines = text.lines().map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            line["seconds"] = 0.into();
            line.to_string()
        });
        lines.collect::<Vec<_>>()
    };
    for step in 1..STEPS {
        let folder = Folder::new();
        let (ended, before) = folder.train(None, step).expect("it trains");
        assert_eq!((ended.steps, ended.interrupted), (step, true));
        let (_, after) = folder.train(Some(step), STEPS).expect("it trains");
        assert_eq!([before, after].concat(), losses, "step {step}");
        assert!(folder.checkpoint_bytes(STEPS) == expected, "step {step}");
        assert_eq!(metrics(&folder), metrics(&whole), "step {step}");
    }
}

/// Lines of steps after the checkpoint are of a run that is repeated.
#[test]
fn a_run_that_was_killed_repeats_steps_after_its_checkpoint() {
    let folder = Folder::new();
    folder.train(None, STEPS).expect("it trains");
    let expected = folder.checkpoint_bytes(STEPS);
    fs::remove_file(folder.checkpoint(STEPS)).expect("it was there");
    folder.train(Some(10), STEPS).expect("it trains");
    assert!(folder.checkpoint_bytes(STEPS) == expected);
    let metrics = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics");
    assert_eq!(metrics.lines().count() as u64, STEPS);
}

#[test]
fn so_many_checkpoints_are_kept() {
    let folder = Folder::new();
    folder.edit("every = 5", "every = 2\nkeep = 3");
    folder.write("mine.safetensors", "");
    folder.train(None, STEPS).expect("it trains");
    let found = checkpoints(&folder.path().join("out")).expect("a folder");
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [8, 10, 12]);
}

/// A changed byte anywhere, and an end anywhere.
#[test]
fn damaged_checkpoints_are_refused() {
    let folder = Folder::new();
    folder.train(None, 5).expect("it trains");
    let (path, bytes) = (folder.checkpoint(5), folder.checkpoint_bytes(5));
    let mut session = folder.session().expect("it is prepared");
    let mut resumed = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("it is written");
        session.resume(&path)
    };
    resumed(&bytes).expect("it is whole");
    for at in (0..bytes.len()).step_by(37) {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        assert!(resumed(&changed).is_err(), "byte {at} of {}", bytes.len());
        assert!(resumed(&bytes[..at]).is_err(), "{at} bytes");
    }
    let mut changed = bytes.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    let why = refusal(resumed(&changed));
    assert!(why.contains("the checkpoint is damaged: `") && why.contains("its digest"), "{why}");
}

#[test]
fn checkpoints_of_another_run_are_refused() {
    let edits = [
        ("rate = 0.1", "rate = 0.2", "`optimizer.rate` is 0.1 there and 0.2 here"),
        ("seed = 3", "seed = 4", "`seed` is 3 there and 4 here"),
        ("steps = 12", "steps = 13", "`steps` is 12 there and 13 here"),
        ("[4, 3]", "[4, 2]", "`data.batch_size` is [4, 3] there and [4, 2] here"),
        ("clip_norm = 1.0\n", "", "`optimizer.clip_norm` is 1.0 there and not given here"),
        (
            "bias = \"zeros\"",
            "bias = \"ones\"",
            "`weights.bias` is \"zeros\", entry 1 there and \"ones\", entry 1 here",
        ),
        ("\"adamw\"", "\"sgd\"", "`optimizer.name` is \"adamw\" there and \"sgd\" here"),
    ];
    for (from, to, expected) in edits {
        let folder = Folder::new();
        folder.train(None, 5).expect("it trains");
        folder.edit(from, to);
        let why = refusal(folder.train(Some(5), STEPS));
        assert!(why.contains("it is a checkpoint of another run"), "{why}");
        assert!(why.contains(expected), "{why}");
    }
    let folder = Folder::new();
    folder.train(None, 5).expect("it trains");
    folder.write("model.rx", &PROGRAM.replace("tanh", "sigmoid"));
    let why = refusal(folder.train(Some(5), STEPS));
    assert!(why.ends_with("it is a checkpoint of another run: `program_text` differs"), "{why}");
}

/// Where files lie, how often one is written, and a longer run with the same rates.
#[test]
fn what_does_not_change_the_run_may_differ() {
    let folder = Folder::new();
    folder.edit("schedule = \"cosine\"\n", "");
    folder.train(None, 5).expect("it trains");
    folder.edit("every = 5", "every = 4");
    folder.edit("steps = 12", "steps = 13\nthreads = 1");
    folder.edit("\nmetrics = \"metrics.jsonl\"", "");
    let (ended, _) = folder.train(Some(5), 13).expect("it trains");
    assert_eq!((ended.steps, ended.interrupted), (13, false));
}

#[test]
fn a_number_that_is_not_finite_ends_the_run() {
    let cases = [
        ("rate = 0.1", "rate = 1e300", "the optimizer's result for `"),
        ("\"*\" = \"normal(0.5)\"", "w = \"normal(1e38)\"\n\"*\" = \"ones\"", "the loss is "),
    ];
    for (from, to, expected) in cases {
        let folder = Folder::new();
        folder.edit("warm_up = 2\nclip_norm = 1.0\n", "");
        folder.edit(from, to);
        let error = folder.train(None, STEPS).expect_err("it overflows");
        assert!(matches!(error, TrainError::NotFinite { step: 1, .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    // A gradient alone: the derivative of the square root at 0.
    let folder = Folder::new();
    let program = "def main(x: Tensor((\"n\",), \"f32\"), p: Tensor((2,), \"f32\")) -> Tensor((), \"f32\"):\n    \
                   return add(sum(x), sum(sqrt(p)))\n";
    folder.write("model.rx", program);
    folder.edit("bias = \"zeros\"\n\"*\" = \"normal(0.5)\"", "p = \"zeros\"");
    let text = fs::read_to_string(folder.path().join("train.toml")).expect("it is there");
    let (begin, end) = (text.find("batch =").expect("it"), text.find("[checkpoint]").expect("it"));
    folder.write("train.toml", &format!("{}{}", &text[..begin], &text[end..]));
    let x = relax_semantics::tensor::Tensor::full(
        relax_syntax::dtype::DType::F32,
        &[3],
        relax_semantics::tensor::Number::Float(1.0),
    );
    folder.tensors("data.npz", &[("x", x)]);
    let why = refusal(folder.train(None, STEPS));
    assert_eq!(why, "step 1: the gradient of `p`: element [0] is inf");
}

/// An optimizer that fails has overwritten weights: nothing goes on with them, and no checkpoint is written of them.
#[test]
fn after_a_failed_update_only_a_checkpoint_goes_on() {
    let folder = Folder::new();
    folder.edit("name = \"adamw\"", "name = \"own\"\nfile = \"own.rx\"");
    let own = "def own(p: Tensor((\"n\",), \"f32\"), g: Tensor((\"n\",), \"f32\"), step: Tensor((), \"f32\")):\n    \
               return divide(p, subtract(const(6.0, \"f32\"), step))\n";
    folder.write("own.rx", own);
    let mut session = folder.session().expect("it is prepared");
    let run = |session: &mut relax_train::Session| {
        session.run(&mut |_| std::ops::ControlFlow::Continue(()))
    };
    let error = run(&mut session).expect_err("it divides by 0");
    assert!(matches!(error, TrainError::NotFinite { step: 6, .. }), "{error}");
    let lost = "a step that failed has overwritten `embedding`: resume from a checkpoint";
    assert_eq!(refusal(session.step()), lost);
    assert_eq!(refusal(session.save()), lost);
    session.resume(&folder.checkpoint(5)).expect("it was written before");
    assert_eq!(session.steps(), 5);
    assert!(matches!(run(&mut session), Err(TrainError::NotFinite { step: 6, .. })));
}

/// The state after a failed step is that before it, and the last checkpoint stays.
#[test]
fn the_last_checkpoint_stays_after_a_failure() {
    let folder = Folder::new();
    folder.edit("every = 5", "every = 1\nkeep = 1");
    folder.edit("schedule = \"cosine\"\nwarm_up = 2\nclip_norm = 1.0", "");
    folder.train(None, 3).expect("it trains");
    let before = folder.checkpoint_bytes(3);
    folder.data("data.npz", 10, 12, 4);
    let mut tokens = relax_semantics::tensor::Tensor::full(
        relax_syntax::dtype::DType::I64,
        &[10, 12],
        relax_semantics::tensor::Number::Int(77),
    );
    folder.tensors("data.npz", &[("tokens", tokens.clone()), ("targets", tokens.clone())]);
    let error = folder.train(Some(3), STEPS).expect_err("there is no token 77");
    let TrainError::Stopped { step: 4, stop, .. } = &error else { panic!("{error}") };
    assert!(stop.to_string().contains("take/C"), "{stop}");
    assert_eq!(folder.checkpoint_bytes(3), before);
    tokens = tokens.reshaped(&[12, 10]);
    folder.tensors("data.npz", &[("tokens", tokens.clone()), ("targets", tokens)]);
    assert!(folder.train(Some(3), STEPS).is_err());
    assert_eq!(checkpoints(&folder.path().join("out")).expect("a folder").len(), 1);
}
