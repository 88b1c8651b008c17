//! Tokenizes lines: for each JSON string of standard input, a JSON object of token ids and the text that they decode to, with special
//! tokens of the string parsed, and with them as plain text.
//!
//! `target/debug/examples/tokenize FILE`, where FILE is a `tokenizer.json`, or a GGUF file with a vocabulary
#![allow(clippy::print_stdout)] // the result is printed

#[path = "../../cli/src/commands/generate/gguf_metadata.rs"]
mod gguf_metadata;

use gguf_metadata::GgufMetadata;
use relax_llm::{Special, Tokenizer, Vocabulary};
use relax_program::tensor_files::{Gguf, read_file};
use serde_json::json;
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;

/// Bytes of a `tokenizer.json`.
const LONGEST: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        return Err("usage: tokenize FILE < LINES, FILE a tokenizer.json or a GGUF file".into());
    };
    let path = Path::new(&path);
    let tokenizer = open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for (number, line) in (1..).zip(std::io::stdin().lock().lines()) {
        let at = |error: &dyn Error| format!("line {number} of standard input: {error}");
        let line = line.map_err(|error| at(&error))?;
        let text: String = serde_json::from_str(&line).map_err(|error| at(&error))?;
        let tokenized = |special| {
            let ids = tokenizer.encode(&text, special)?;
            let decoded = tokenizer.decode(&ids)?;
            Ok::<_, relax_llm::TokenizerError>(json!({ "ids": ids, "text": decoded }))
        };
        let parsed = tokenized(Special::Parse).map_err(|error| at(&error))?;
        let plain = tokenized(Special::Plain).map_err(|error| at(&error))?;
        writeln!(output, "{}", json!({ "parsed": parsed, "plain": plain }))?;
    }
    Ok(output.flush()?)
}

fn open(path: &Path) -> Result<Tokenizer, Box<dyn Error>> {
    if path.extension().is_some_and(|extension| extension == "gguf") {
        let gguf = Gguf::open(path)?;
        let vocabulary = Vocabulary::from_metadata(&GgufMetadata(gguf.metadata()))?;
        return Ok(Tokenizer::from_vocabulary(&vocabulary)?);
    }
    let json = read_file(path, LONGEST).map_err(|error| error.to_string())?;
    Ok(Tokenizer::from_json(&json)?)
}
