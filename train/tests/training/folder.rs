//! A folder with a small language model, its data and a configuration.

use ndarray::{ArrayD, IxDyn};
use relax_driver::Target;
use relax_program::frontend::Program;
use relax_program::tensor_files::write_npz;
use relax_rewrite::pass::Device;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use relax_train::{Config, Ended, Environment, Session, TrainError};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Predicts the next of five tokens.
pub(crate) const PROGRAM: &str = r#"
def main(
    tokens: Tensor(("b", "t"), "i64"), targets: Tensor(("b", "t"), "i64"),
    embedding: Tensor((5, 8), "f32"), w: Tensor((8, 5), "f32"), bias: Tensor((5,), "f32"),
) -> Tensor((), "f32"):
    b, t = sym_var(lower_bound=1), sym_var(lower_bound=1)
    logits = add(matmul(tanh(take(embedding, tokens, axis=0)), w), bias)
    logs = log_softmax(reshape(logits, shape(b * t, 5)))
    return nll_loss(logs, reshape(targets, shape(b * t)))
"#;

/// With batches and lengths that change in every step.
pub(crate) const CONFIG: &str = r#"
program = "model.rx"
backend = "interp"
seed = 3
steps = 12
metrics = "metrics.jsonl"
[weights]
bias = "zeros"
"*" = "normal(0.5)"
[optimizer]
name = "adamw"
rate = 0.1
schedule = "cosine"
warm_up = 2
clip_norm = 1.0
[data]
files = "data.npz"
batch = "b"
batch_size = [4, 3]
length = "t"
length_size = [5, 9, 2]
[checkpoint]
folder = "out"
every = 5
"#;

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write("model.rx", PROGRAM);
        folder.write("train.toml", CONFIG);
        folder.data("data.npz", 10, 12, 4);
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("it is written");
    }

    /// The configuration with some text replaced.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.path().join("train.toml")).expect("it is there");
        assert_eq!(text.matches(from).count(), 1, "{from}");
        self.write("train.toml", &text.replace(from, to));
    }

    /// Rows of tokens, each of which decides the next; tokens are at most `most`.
    pub(crate) fn data(&self, name: &str, rows: usize, length: usize, most: i128) {
        let next = |token: i128| (2 * token + 1) % 5;
        let chain = |row: usize, at: usize| (0..at).fold((row % 5) as i128, |token, _| next(token));
        let tensor = |shift: usize| {
            let element = |index: IxDyn| chain(index[0], index[1] + shift).min(most);
            let values = ArrayD::from_shape_fn(IxDyn(&[rows, length]), element);
            Tensor::from_ints(DType::I64, values)
        };
        self.tensors(name, &[("tokens", tensor(0)), ("targets", tensor(1))]);
    }

    pub(crate) fn tensors(&self, name: &str, tensors: &[(&str, Tensor)]) {
        let tensors: Vec<(String, Tensor)> =
            tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let bytes = write_npz(&tensors).expect("NumPy has these dtypes");
        fs::write(self.path().join(name), bytes).expect("it is written");
    }

    pub(crate) fn session(&self) -> Result<Session, TrainError> {
        let text = fs::read_to_string(self.path().join("train.toml")).expect("it is there");
        let config = Config::parse(&Source::new("train.toml", text), self.path())?;
        let text = fs::read_to_string(&config.program.value).expect("it is there");
        let program = Program::load(Source::new("model.rx", text));
        assert!(!program.has_errors(), "{:?}", program.diagnostics);
        let target = Target::of(config.backend, config.numerics);
        assert!(matches!(config.backend, Device::Interp | Device::Cpu));
        Session::new(config, &program, &Environment { target, max_bytes: 1 << 30 })
    }

    /// Trains from the begin, or from a checkpoint, until after a step.
    pub(crate) fn train(
        &self,
        from: Option<u64>,
        until: u64,
    ) -> Result<(Ended, Vec<f64>), TrainError> {
        let mut session = self.session()?;
        if let Some(step) = from {
            session.resume(&self.checkpoint(step))?;
        }
        let mut losses = Vec::new();
        let ended = session.run(&mut |step| {
            losses.push(step.loss);
            if step.step >= until { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok((ended, losses))
    }

    pub(crate) fn checkpoint(&self, step: u64) -> PathBuf {
        self.path().join(format!("out/step-{step}.safetensors"))
    }

    pub(crate) fn checkpoint_bytes(&self, step: u64) -> Vec<u8> {
        fs::read(self.checkpoint(step)).expect("there is a checkpoint")
    }
}

/// An edit of a configuration, from and to, how the message begins, and the text at its place.
pub(crate) type Mistake = (&'static str, &'static str, &'static str, &'static str);

/// Demands that each edit of the configuration of a folder is refused at its place.
pub(crate) fn refuse_edits(folder: impl Fn() -> Folder, config: &str, edits: &[Mistake]) {
    for (from, to, expected, place) in edits {
        let folder = folder();
        folder.edit(from, to);
        let error = folder.session().err().unwrap_or_else(|| panic!("{to}: no error"));
        let TrainError::Config(error) = error else { panic!("{to}: {error}") };
        assert!(error.message.starts_with(expected), "{to}: {}", error.message);
        let text = config.replacen(from, to, 1);
        let found = &text[error.span.start as usize..error.span.end as usize];
        assert_eq!(found, *place, "{to}: {}", error.message);
    }
}

/// What is said of a failure.
pub(crate) fn refusal<T>(result: Result<T, TrainError>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}
