//! The model against embeddings that were computed in float64 without Relax, at several lengths.
//!
//! The weights are not part of the repository: without them the tests are shown as ignored, and with
//! `RELAX_REQUIRE_WEIGHTS=1` they fail. `RELAX_WEIGHTS` names their folder; else it is the one that
//! `./setup.sh minilm` fills.

use libtest_mimic::{Arguments, Failed, Trial};
use relax_demo::encoder::Encoder;
use relax_demo::tokens::{Batch, Tokenizer};
use relax_program::compare::largest_difference;
use relax_program::tensor_files::read_npz;
use relax_semantics::tensor::{Number, Tensor};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// The model computes in f32, the reference in f64: entries of a vector of length 1 differ by less.
const TOLERANCE: f64 = 1e-5;

/// File, number of the case in it, its shape.
const CASES: [(&str, usize, [usize; 2]); 7] = [
    ("reference", 0, [4, 10]),
    ("reference", 1, [1, 3]),
    ("reference", 2, [1, 256]),
    ("lengths", 0, [1, 1]),
    ("lengths", 1, [1, 256]),
    ("lengths", 2, [3, 13]),
    ("lengths", 3, [8, 64]),
];

fn main() -> ExitCode {
    let folder = weights_folder();
    let present = folder.join("model.safetensors").exists();
    let required = std::env::var_os("RELAX_REQUIRE_WEIGHTS").is_some_and(|value| value == "1");
    if !present && !required {
        eprintln!("SKIPPED: no weights in {}; ./setup.sh minilm fetches them", folder.display());
    }
    let model = Arc::new(Model { folder, encoder: OnceLock::new() });
    let mut trials = vec![trial("a damaged file is refused", &model, |_| refuses_damage())];
    let mut needs_weights = |name: String, test: fn(&Model, usize) -> Result<(), Failed>, at| {
        let trial = trial(&name, &model, move |model| test(model, at));
        trials.push(trial.with_ignored_flag(!present && !required));
    };
    for (index, (file, number, [b, n])) in CASES.iter().enumerate() {
        let name = format!("minilm_{file}.npz case {number}: {b} x {n} tokens");
        needs_weights(name, |model, index| agrees(model, CASES[index]), index);
    }
    needs_weights("sentences have the reference's tokens".to_owned(), |m, _| tokens_agree(m), 0);
    needs_weights("a long sentence is cut at the limit".to_owned(), |m, _| cut_at_limit(m), 0);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(
    name: &str,
    model: &Arc<Model>,
    test: impl FnOnce(&Model) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let model = Arc::clone(model);
    Trial::test(name, move || test(&model))
}

/// What the tests share: reading 90 MB once is enough.
struct Model {
    folder: PathBuf,
    encoder: OnceLock<Result<Encoder, String>>,
}

impl Model {
    fn encoder(&self) -> Result<&Encoder, Failed> {
        let file = self.folder.join("model.safetensors");
        let loaded = self.encoder.get_or_init(|| Encoder::load(&file));
        loaded.as_ref().map_err(Failed::from)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn weights_folder() -> PathBuf {
    let named = std::env::var_os("RELAX_WEIGHTS").map(PathBuf::from);
    named.unwrap_or_else(|| root().join(".cache/minilm"))
}

fn reference(file: &str, member: &str) -> Result<Tensor, String> {
    let path = root().join(format!("corpus/models/minilm_{file}.npz"));
    let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    read_npz(&bytes, Some(member))
}

fn agrees(model: &Model, (file, number, shape): (&str, usize, [usize; 2])) -> Result<(), Failed> {
    let ids = reference(file, &format!("ids{number}"))?;
    let mask = reference(file, &format!("mask{number}"))?;
    assert_eq!(ids.shape(), shape, "the case is of the size that its name says");
    let expected = reference(file, &format!("embedding{number}"))?;
    let found = model.encoder()?.embed(&Batch { ids, mask, cut: Vec::new() })?;
    let worst = largest_difference(&expected, &found);
    if worst > TOLERANCE {
        return Err(format!("an entry is off by {worst:e}, more than {TOLERANCE:e}").into());
    }
    Ok(())
}

/// The sentences that the tokens of the first reference were made from.
const SENTENCES: [&str; 4] = [
    "A dog runs through the park.",
    "A puppy is running on the grass.",
    "Shape inference for dynamic tensors.",
    "The stock market fell sharply today.",
];

fn tokens_agree(model: &Model) -> Result<(), Failed> {
    let tokenizer = Tokenizer::open(&model.folder.join("tokenizer.json"))?;
    let batch = tokenizer.batch(&SENTENCES.map(str::to_owned))?;
    for (what, found) in [("ids0", &batch.ids), ("mask0", &batch.mask)] {
        let expected = reference("reference", what)?;
        if !found.same_as(&expected) {
            return Err(format!("{what}: found {found:?}, expected {expected:?}").into());
        }
    }
    Ok(())
}

fn cut_at_limit(model: &Model) -> Result<(), Failed> {
    let tokenizer = Tokenizer::open(&model.folder.join("tokenizer.json"))?;
    let batch = tokenizer.batch(&["dog ".repeat(1300), "dog".to_owned()])?;
    assert_eq!(batch.ids.shape(), [2, 512]);
    assert_eq!(batch.cut, [0]);
    assert_eq!(batch.ids.number(511), Number::Int(102));
    assert_eq!(batch.mask.number(512 + 3), Number::Int(0));
    Ok(())
}

/// A header that claims more than the file has.
fn refuses_damage() -> Result<(), Failed> {
    let path = std::env::temp_dir().join(format!("relax-damaged-{}", std::process::id()));
    std::fs::write(&path, [8, 0, 0, 0, 0, 0, 0, 0, b'{', b'"'])?;
    let refused = Encoder::load(&path).err();
    std::fs::remove_file(&path)?;
    match refused {
        Some(why) if why.contains("is no proper safetensors file") => Ok(()),
        other => Err(format!("expected a refusal, found {other:?}").into()),
    }
}
