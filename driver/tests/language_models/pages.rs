//! Sequences of different lengths in one call of compiled code, with keys and values in pages: each has the bits that it has alone, and
//! about the logits that the interpreter gives.

use super::{Model, is_near, some_tokens};
use relax_corpus::requirement;
use relax_cpu::Compiler;
use relax_llm::PAGE;
use relax_program::frontend::{RunOptions, run};
use relax_reference::{to_machine, to_semantics};
use relax_runtime::{DType, Module, Tensor, Value};
use std::sync::Arc;

/// Tokens before the call: none, some of a page, a whole one, more than one.
const LENGTHS: [usize; 9] = [0, 3, PAGE, PAGE + 2, 17, 1, PAGE - 1, 100, 9];
/// Pages of the pool, two of them for each sequence.
const PAGES: usize = 2 * LENGTHS.len() + 1;

/// The pages of a sequence, which lie apart.
fn pages(sequence: usize) -> [i64; 2] {
    [PAGES - 1 - sequence, sequence].map(|page| page as i64)
}

fn integers(shape: &[i64], elements: &[i64]) -> Value {
    let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
    Value::Tensor(Tensor::from_bytes(DType::I64, shape, &bytes).expect("it is a tensor"))
}

/// The arguments of a call for some sequences, which have as many tokens.
fn arguments(
    tokens: &[Vec<i64>],
    sequences: &[usize],
    lengths: &[i64],
    pools: &[Value],
) -> Vec<Value> {
    let batch = sequences.len() as i64;
    let table: Vec<i64> = sequences.iter().flat_map(|&sequence| pages(sequence)).collect();
    let given = [
        integers(&[batch, tokens[0].len() as i64], &tokens.concat()),
        integers(&[batch], lengths),
        integers(&[batch, 2], &table),
    ];
    given.into_iter().chain(pools.iter().cloned()).collect()
}

/// Logits as bytes and as a tensor of the interpreter, and the pools.
fn parts(result: &Value) -> (Vec<u8>, relax_semantics::tensor::Tensor, Vec<Value>) {
    let Value::Tuple(items) = result else { panic!("a tuple") };
    let (logits, pools) = items.items().split_first().expect("there are logits");
    let Value::Tensor(tensor) = logits else { panic!("a tensor") };
    let read = to_semantics(logits, &mut |_| None).expect("it is a tensor");
    let relax_semantics::value::Value::Tensor(read) = read else { panic!("a tensor") };
    (tensor.bytes().to_vec(), read, pools.to_vec())
}

fn called(module: &Module, arguments: &[Value]) -> Value {
    let entry = module.function("step_in_pages").expect("it is an entry");
    entry.call(arguments).unwrap_or_else(|stop| panic!("{stop}"))
}

fn interpreted(model: &Model, arguments: &[Value]) -> relax_semantics::tensor::Tensor {
    let arguments = arguments.iter().map(|value| to_semantics(value, &mut |_| None));
    let arguments = arguments.collect::<Result<Vec<_>, _>>().expect("they are values");
    let options =
        RunOptions { externals: Arc::new(model.externals.clone()), ..RunOptions::default() };
    let result = run(&model.program.module, "step_in_pages", arguments, &options).result;
    let result = result.unwrap_or_else(|stop| panic!("{stop}"));
    parts(&to_machine(&result).expect("it is a tuple")).1
}

#[test]
fn sequences_of_a_batch_have_the_bits_that_they_have_alone() {
    let Ok(compiler) = Compiler::of_system() else {
        requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
        return;
    };
    for name in ["llama", "gemma2", "gpt2"] {
        let model = Model::read(name);
        let module = model.built(name, &compiler);
        let mut pools = model.pools(PAGES, PAGE);
        let all = some_tokens(1, 101, model.config.vocabulary).to_ints();
        let token = |sequence: usize, at: usize| all[[0, (at + 11 * sequence) % 101]] as i64;
        for (sequence, length) in LENGTHS.into_iter().enumerate().filter(|(_, length)| *length > 0)
        {
            let prompt: Vec<i64> = (0..length).map(|at| token(sequence, at)).collect();
            let result = called(&module, &arguments(&[prompt], &[sequence], &[0], &pools));
            pools = parts(&result).2;
        }
        let last = LENGTHS.into_iter().enumerate();
        let last: Vec<Vec<i64>> = last.map(|(at, length)| vec![token(at, length)]).collect();
        let lengths = LENGTHS.map(|length| length as i64);
        let every: Vec<usize> = (0..LENGTHS.len()).collect();
        let whole = arguments(&last, &every, &lengths, &pools);
        let (bytes, logits, _) = parts(&called(&module, &whole));
        assert!(is_near(&interpreted(&model, &whole), &logits), "{name}: {logits:?}");
        let row = bytes.len() / LENGTHS.len();
        for at in every {
            let own = arguments(&last[at..=at], &[at], &lengths[at..=at], &pools);
            let alone = parts(&called(&module, &own)).0;
            assert!(bytes[at * row..(at + 1) * row] == alone, "{name}: sequence {at}");
        }
    }
}
