//! Sequences of different lengths in one call, with keys and values in pages: each has the logits that it has alone.

use crate::model::{ALL, Model, columns, difference, integers};
use relax_llm::PAGE;
use relax_semantics::tensor::Tensor;

/// Share of the standard deviation of logits: weights of attention are divided after their sum, and by pages.
const TOLERANCE: f64 = 1e-5;
/// Tokens of each prompt: some of a page, a whole one, and more than one.
const LENGTHS: [usize; 3] = [3, PAGE, PAGE + 2];
/// The pages of each sequence. Page 3 is not in use, and a table has rows beyond a sequence.
const TABLE: [[i64; 2]; 3] = [[4, -1], [2, 5], [0, 1]];

/// Tokens of a sequence.
fn tokens(sequence: usize, count: usize, vocabulary: usize) -> Tensor {
    let elements = (0..count).map(|at| ((at * 7 + sequence * 5 + 3) % vocabulary) as i64);
    integers(&[1, count], &elements.collect::<Vec<i64>>())
}

/// A row of a matrix of logits.
fn row(logits: &Tensor, at: usize) -> Tensor {
    let columns = logits.shape()[1];
    logits.select(&[1, columns], &(at * columns..(at + 1) * columns).collect::<Vec<_>>())
}

fn agrees(name: &str) {
    let model = Model::tiny(name);
    let mut pools = model.pools(6);
    let mut wanted = Vec::new();
    let all = |sequence: usize| tokens(sequence, LENGTHS[sequence] + 1, model.vocabulary());
    for (sequence, (length, pages)) in LENGTHS.into_iter().zip(TABLE).enumerate() {
        let all = all(sequence);
        let mut cache = model.cache(1, length + 1);
        let first = model.call("step", columns(&all, 0, length), &mut cache);
        wanted.push(model.call("step", columns(&all, length, length + 1), &mut cache));
        let table = integers(&[1, 2], &pages);
        // A prompt in parts.
        model.step_in_pages(&columns(&all, 0, 2), &[0], &table, &mut pools).expect("it fits");
        let rest = columns(&all, 2, length);
        let found = model.step_in_pages(&rest, &[2], &table, &mut pools).expect("it fits");
        let found = difference(&first, &found);
        assert!(found <= TOLERANCE, "{name}: {found} of the prompt of {length}");
    }
    let last: Vec<i64> = (0..3)
        .map(|sequence| {
            let last = columns(&all(sequence), LENGTHS[sequence], LENGTHS[sequence] + 1);
            i64::try_from(last.to_ints()[[0, 0]]).expect("it is small")
        })
        .collect();
    let lengths = LENGTHS.map(|length| length as i64);
    let table = integers(&[3, 2], TABLE.as_flattened());
    let given = integers(&[3, 1], &last);
    let logits = model.step_in_pages(&given, &lengths, &table, &mut pools).expect("it fits");
    for (sequence, want) in wanted.iter().enumerate() {
        let found = difference(want, &row(&logits, sequence));
        assert!(found <= TOLERANCE, "{name}: {found} after {}", LENGTHS[sequence]);
    }
}

macro_rules! families {
    ($($name:ident)*) => {
        $(#[test] fn $name() { agrees(stringify!($name)); })*

        #[test]
        fn every_tiny_model_has_tests() {
            assert_eq!([$(stringify!($name)),*], ALL);
        }
    };
}

families! { llama llama3 llama_linear mistral qwen2 qwen3 gemma2 gemma3 phi3 gpt2 whisper llava }

/// Positions without a page, and pages that are not in the pool, stop a call.
#[test]
fn what_is_not_in_the_pool_is_a_trap() {
    let model = Model::tiny("llama");
    let mut pools = model.pools(2);
    let given = integers(&[2, 1], &[3, 4]);
    for (lengths, table, trap) in [
        ([0, 64], [1, 0], "position 64 has no page"),
        ([0, -1], [1, 0], "position -1 has no page"),
        ([0, i64::MAX], [1, 0], "position 9223372036854775807 has no page"),
        ([0, 1], [1, 2], "a page must satisfy 0 <= page < 2, found 2"),
        ([0, 1], [1, -1], "found -1"),
    ] {
        let table = integers(&[2, 1], &table);
        let stop = model.step_in_pages(&given, &lengths, &table, &mut pools);
        let said = stop.expect_err("it does not fit").to_string();
        assert!(said.contains("take/C4") && said.contains(trap), "{lengths:?}: {said}");
    }
    let table = integers(&[2, 1], &[1, 0]);
    model.step_in_pages(&given, &[0, 63], &table, &mut pools).expect("it fits");
}
