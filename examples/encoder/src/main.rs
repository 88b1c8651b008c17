//! `minilm`: similarity of sentences by a sentence encoder that runs in the reference interpreter.

use clap::Parser;
use relax_demo::encoder::Encoder;
use relax_demo::similarity::{cosines, table};
use relax_demo::tokens::{MOST_TOKENS, Tokenizer};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Sentences that run together: the memory of a run stays the same, however many there are.
const BATCH: usize = 8;

/// Prints how similar sentences are: the matrix of cosines of their embeddings.
#[derive(Parser)]
#[command(name = "minilm", version)]
struct Args {
    /// The folder of model.safetensors and tokenizer.json.
    #[arg(long, value_name = "FOLDER", default_value = ".cache/minilm")]
    model: PathBuf,
    /// The sentences; without any, three are taken as an example.
    #[arg(value_name = "SENTENCE")]
    sentences: Vec<String>,
}

const EXAMPLE: [&str; 3] =
    ["A man is eating pasta.", "Someone is having a meal.", "The stock fell by a tenth today."];

fn main() -> ExitCode {
    let mut args = Args::parse();
    if args.sentences.is_empty() {
        args.sentences = EXAMPLE.map(str::to_owned).to_vec();
    }
    match similarity(&args) {
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                failed(&format!("the output could not be written: {error}"))
            }
            _ => ExitCode::SUCCESS,
        },
        Err(why) => failed(&why),
    }
}

fn failed(why: &str) -> ExitCode {
    note(&format!("error: {why}"));
    ExitCode::from(2)
}

/// A line beside the result; where nobody reads it, nothing is lost.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn similarity(args: &Args) -> Result<String, String> {
    if let Some(place) = args.sentences.iter().position(|text| text.trim().is_empty()) {
        return Err(format!("sentence {} is empty", place + 1));
    }
    if !args.model.is_dir() {
        let folder = args.model.display();
        return Err(format!("there is no folder {folder}: ./setup.sh minilm fetches the model"));
    }
    let start = Instant::now();
    let tokenizer = Tokenizer::open(&args.model.join("tokenizer.json"))?;
    let encoder = Encoder::load(&args.model.join("model.safetensors"))?;
    let loaded = Instant::now();
    let (mut vectors, mut tokens) = (Vec::new(), 0);
    for (index, sentences) in args.sentences.chunks(BATCH).enumerate() {
        let batch = tokenizer.batch(sentences)?;
        for place in &batch.cut {
            note(&format!(
                "note: sentence {} is longer than the {MOST_TOKENS} tokens that the model reads; \
                 the rest of it is left out",
                index * BATCH + place + 1
            ));
        }
        tokens += batch.ids.len();
        let embeddings = encoder.embed(&batch)?.to_floats();
        vectors.extend(embeddings.rows().into_iter().map(|row| row.to_vec()));
    }
    note(&format!(
        "{} sentences, {tokens} tokens with padding: loaded in {:.2} s, run in {:.2} s",
        args.sentences.len(),
        (loaded - start).as_secs_f64(),
        loaded.elapsed().as_secs_f64()
    ));
    Ok(table(&args.sentences, &cosines(&vectors)))
}
