//! Mutation fuzzing of readers: valid files with random changes, fixed seeds. No reader may panic or take long. Its
//! answer is not checked.

use relax_corpus::files;
use relax_program::frontend::Program;
use relax_program::tensor_files::{
    Weights, read_npy, read_npz, write_npy, write_npz, write_safetensors,
};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::time::{Duration, Instant};

/// Longer than this a reader hangs, on a busy machine too.
const LONGEST: Duration = Duration::from_secs(10);
const STACK: usize = 256 << 20;

/// Pieces of text that parsers trip over.
const PIECES: [&[u8]; 14] = [
    b"(",
    b"]",
    b"\"",
    b"\\",
    b"\n    ",
    b"\t",
    b"9223372036854775808",
    b"-1",
    b"1e999",
    b"//",
    b"\xff",
    b"\0",
    b"sym_var()",
    b"{",
];

/// A few changes: bits, bytes, pieces, cuts, repetitions.
fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.int(&(0..=3)) {
        let mut at = |length: usize| {
            usize::try_from(random.int(&(0..=i64::try_from(length).unwrap_or(0)))).unwrap_or(0)
        };
        let (from, to, kind) = (at(out.len()), at(out.len()), at(7));
        let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 200));
        match kind {
            0 => out.truncate(from),
            1 => drop(out.drain(from..to)),
            2 => {
                let piece = out[from..to].to_vec();
                let place = at(out.len());
                out.splice(place..place, piece);
            }
            3 | 4 => {
                let piece = PIECES[at(PIECES.len() - 1)];
                out.splice(from..from, piece.iter().copied());
            }
            5 if from < out.len() => out[from] ^= 1 << at(7),
            6 if from + 8 <= out.len() => out[from..from + 8].fill(0xff),
            _ if from < out.len() => out[from] = u8::try_from(at(255)).unwrap_or(0),
            _ => {}
        }
    }
    out
}

/// Reads many mutants of each of some files.
fn read_all(seeds: &[Vec<u8>], count: u64, read: fn(&[u8])) {
    let seeds = seeds.to_vec();
    let work = move || {
        for (index, seed) in seeds.iter().enumerate() {
            for number in 0..count {
                let mut random = Random::new(number, &format!("mutant/{index}"));
                let bytes = mutated(seed, &mut random);
                let start = Instant::now();
                read(&bytes);
                let taken = start.elapsed();
                assert!(taken < LONGEST, "mutant {number} of file {index}: {taken:?}");
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    thread.expect("a thread can be had").join().expect("no reader panics");
}

fn some_tensors() -> Vec<(String, Tensor)> {
    let mut random = Random::new(1, "tensors");
    let dtypes = [DType::F32, DType::F16, DType::I8, DType::Bool, DType::U64];
    let tensor = |dtype: DType| (dtype.name().to_owned(), random.tensor(dtype, &[2, 3], &(-4..=4)));
    dtypes.into_iter().map(tensor).collect()
}

#[test]
fn texts() {
    let programs = files::programs().into_iter().step_by(17);
    let texts: Vec<Vec<u8>> = programs.filter_map(|path| std::fs::read(path).ok()).collect();
    let short: Vec<Vec<u8>> = texts.into_iter().filter(|text| text.len() < 6000).collect();
    assert!(short.len() > 5);
    read_all(&short, 60, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        drop(Program::load(Source::new("mutant", text.as_ref())));
    });
}

#[test]
fn numpy_files() {
    let tensors = some_tensors();
    let single = tensors.iter().map(|(_, tensor)| write_npy(tensor).expect("it can be written"));
    read_all(&single.collect::<Vec<_>>(), 2000, |bytes| drop(read_npy(bytes)));
    let archive = write_npz(&tensors).expect("it can be written");
    read_all(&[archive], 3000, |bytes| {
        drop(read_npz(bytes, None));
        drop(read_npz(bytes, Some("f32")));
    });
}

#[test]
fn weights() {
    let whole = write_safetensors(&some_tensors()).expect("it can be written");
    let gguf = std::fs::read(files::root().join("models/blocks.gguf")).expect("it is there");
    read_all(&[whole, gguf], 600, |bytes| {
        let path = std::env::temp_dir().join(format!("relax-mutant-{}", std::process::id()));
        std::fs::write(&path, bytes).expect("the mutant is written");
        if let Ok(weights) = Weights::open(&path)
            && let Ok(entries) = weights.entries()
        {
            drop(weights.tensors(&entries.keys().cloned().collect::<Vec<_>>()));
        }
        drop(std::fs::remove_file(path));
    });
}

#[test]
fn certificates() {
    let folder = files::root().join("../cli/tests/cmd/verify.in");
    let found = std::fs::read_dir(folder).expect("there are certificates").flatten();
    let texts: Vec<Vec<u8>> = found.filter_map(|entry| std::fs::read(entry.path()).ok()).collect();
    assert!(!texts.is_empty());
    read_all(&texts, 2000, |bytes| {
        drop(relax_proofs::check_all(&String::from_utf8_lossy(bytes), None));
    });
}
