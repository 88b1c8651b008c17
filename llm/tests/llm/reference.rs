//! Tiny models agree with transformers.

use crate::model::{ALL, Model, columns, difference, reference};
use relax_syntax::format::format_source;

/// Share of the standard deviation of logits. Transformers sums f32 in its own order.
const TOLERANCE: f64 = 1e-4;
/// Tokens of the first call where the cache counts.
const FIRST: usize = 5;
/// Rows of that cache that are never in use.
const FREE: usize = 3;
/// Greedy tokens that the interpreter makes; compiled code makes all of them (`driver`).
const GREEDY: usize = 16;

fn agrees(name: &str) {
    let model = Model::tiny(name);
    let tokens = reference(name, "tokens");
    let want = reference(name, "logits");
    let whole = difference(&want, &model.scores(&tokens));
    let end = tokens.shape()[1];
    let mut cache = model.cache(2, end + FREE);
    let first = model.call("score", columns(&tokens, 0, FIRST), &mut cache);
    let second = model.call("score", columns(&tokens, FIRST, end), &mut cache);
    let split = reference(name, "split");
    let before = difference(&columns(&split, 0, FIRST), &first);
    let after = difference(&columns(&split, FIRST, end), &second);
    let capacity = cache.tensors[0].shape()[2];
    assert_eq!((cache.rows, capacity), (end, end + FREE), "{name}");
    eprintln!("{name}: {whole:.1e} in one call, {before:.1e} and {after:.1e} in two");
    for found in [whole, before, after] {
        assert!(found <= TOLERANCE, "{name}: {whole} in one call, {before} and {after} in two");
    }
}

fn continues(name: &str) {
    let model = Model::tiny(name);
    let want = reference(name, "greedy").to_ints();
    let want: Vec<i128> = want.iter().copied().take(GREEDY).collect();
    assert_eq!(model.greedy(&reference(name, "prompt"), GREEDY), want, "{name}");
}

macro_rules! families {
    ($($name:ident)*) => {
        $(mod $name {
            #[test]
            fn logits() { super::agrees(stringify!($name)); }

            #[test]
            fn greedy_tokens() { super::continues(stringify!($name)); }
        })*

        #[test]
        fn every_tiny_model_has_tests() {
            assert_eq!([$(stringify!($name)),*], ALL);
        }
    };
}

families! { llama llama3 llama_linear mistral qwen2 qwen3 gemma2 gemma3 phi3 gpt2 whisper llava }

#[test]
fn texts_are_formatted() {
    for name in ALL {
        let source = Model::tiny(name).program.source;
        assert_eq!(format_source(&source).expect("it parses"), source.text, "{name}");
    }
}

#[test]
fn no_obligation_is_left_to_run_time() {
    for name in ALL {
        let left = Model::tiny(name).program.left;
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

/// Tokens that do not fit the cache stop the call before it writes anything.
#[test]
fn a_full_cache_is_a_trap() {
    let model = Model::tiny("llama");
    let tokens = reference("llama", "tokens");
    let mut cache = model.cache(2, FIRST + 1);
    model.call("score", columns(&tokens, 0, FIRST), &mut cache);
    for entry in ["step", "score"] {
        let stop = model.run(entry, columns(&tokens, FIRST, FIRST + 2), &cache);
        let said = stop.expect_err("it is full").to_string();
        assert!(said.contains("shape/negative"), "{said}");
        assert!(said.contains("`capacity - m - n` = -1"), "{said}");
    }
    // One more fits, and so does none.
    model.call("score", columns(&tokens, FIRST, FIRST + 1), &mut cache);
    model.call("score", columns(&tokens, 0, 0), &mut cache);
    assert_eq!(cache.rows, FIRST + 1);
}
