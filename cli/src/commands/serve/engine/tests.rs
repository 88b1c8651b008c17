//! Calls that stop for one of several sequences: traps are planted into the program of a tiny model.

use super::*;
use crate::args::{Cli, Command};
use crate::commands::generate::{Asked, Compiled, Suppressed, load, opened};
use crate::terminal::Terminal;
use clap::Parser;
use relax_corpus::requirement;
use relax_llm::{Sampler, Sampling};
use std::path::Path;
use tokio::sync::mpsc::unbounded_channel;

/// Sequences, and tokens of each.
const SEQUENCES: u64 = 5;
const TOKENS: usize = 14;

fn corpus(path: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models/llm");
    folder.join(path).display().to_string()
}

/// The tiny Llama, with this in the place of the only such lines of its program.
fn compiled(edits: &[(&str, &str)]) -> (Checkpoint, Compiled) {
    let folder = corpus("tiny/llama");
    let cli = Cli::parse_from(["relax", "serve", &folder, "--no-model-cache", "-q"]);
    let Command::Serve(args) = cli.command else { panic!("it is `serve`") };
    let mut terminal = Terminal::new(&cli.global);
    let Ok(mut checkpoint) = opened(&args.loading) else { panic!("{folder} is no model") };
    for (from, to) in edits {
        let (before, after) = checkpoint.text.text.rsplit_once(from).expect("it has such a line");
        checkpoint.text.text = format!("{before}{to}{after}");
    }
    let Ok(compiled) = load(&args.loading, &checkpoint, &mut terminal) else {
        panic!("it is not compiled")
    };
    (checkpoint, compiled)
}

/// Tokens of a sequence with their logarithms of probabilities, and why it failed.
type Told = (Vec<(u32, f64)>, Option<String>);

/// What the clients of sequences are told that run together.
fn told((checkpoint, compiled): &(Checkpoint, Compiled), metrics: &Metrics) -> Vec<Told> {
    let json = std::fs::read(corpus("tokenizers/bytes.json")).expect("it is there");
    let tokenizer = Tokenizer::from_json(&json).expect("it is a tokenizer");
    let pool = Pool::of_bytes(compiled, &checkpoint.config, 1 << 20).expect("there is memory");
    let (queue, (stop, _stopped)) = (Queue::new(8), watch::channel(false));
    let (events, mut news) = unbounded_channel();
    let sampling = Sampling { temperature: 1.0, ..Sampling::greedy() };
    let job = |seed: u64| {
        let asked = Asked {
            prompt: vec![3, 1, 4],
            sampler: Sampler::new(sampling, seed).expect("the switches are admitted"),
            max_tokens: TOKENS,
            context: 64,
            top_logprobs: 0,
            stops: Vec::new(),
            suppressed: Suppressed::default(),
            constraint: None,
        };
        // The first choice of a request would not begin any more.
        let choice = usize::try_from(seed + 1).expect("it is small");
        Job { asked, input: Input::Text, bytes: 1, choice, events: events.clone() }
    };
    assert_eq!(queue.push((0..SEQUENCES).map(job).collect()), Ok(()));
    drop(events);
    // Running sequences and those that follow them end.
    queue.stop();
    let (tokenizer, queue) = (&tokenizer, &queue);
    let (parallel, bytes) = (8, 1 << 20);
    let engine = Engine {
        checkpoint,
        tokenizer,
        vision: None,
        queue,
        metrics,
        stop: &stop,
        parallel,
        bytes,
    };
    engine.run(pool);
    let mut told = vec![(Vec::new(), None); 5];
    while let Some((choice, event)) = news.blocking_recv() {
        let (tokens, failure): &mut Told = &mut told[choice - 1];
        match event {
            Event::Token(token) => tokens.push((token.chosen.token, token.chosen.logprob)),
            Event::Failed(refusal) => *failure = Some(refusal.json().to_string()),
            Event::Started | Event::End(..) => {}
        }
    }
    told
}

/// Before the first layer; and behind the last one, when keys and values of all sequences are written.
#[test]
fn a_trap_ends_the_sequence_that_it_is_of() {
    if relax_cpu::Compiler::of_system().is_err() {
        requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
        return;
    }
    let want = told(&compiled(&[]), &Metrics::default());
    assert!(want.iter().all(|(tokens, failure)| tokens.len() == TOKENS && failure.is_none()));
    // A token in the middle of one sequence that no other one reads.
    let reads =
        |(tokens, _): &Told, token| tokens[..TOKENS - 1].iter().any(|(own, _)| *own == token);
    let tokens =
        |one: usize| want[one].0[2..TOKENS - 1].iter().map(move |(token, _)| (one, *token));
    let mut alone = (0..want.len())
        .flat_map(tokens)
        .filter(|(_, token)| want.iter().filter(|told| reads(told, *token)).count() == 1);
    let (stopped, token) = alone.next().expect("there is one");
    let (read, first) = (
        "tokens, axis=0)",
        "    last_logits = reshape(logits(last), shape(b, 64))\n    return (last_logits, state[1]",
    );
    let early = format!(
        "where(equal(tokens, const({token}, \"i64\")), const(64, \"i64\"), tokens), axis=0)"
    );
    let late = format!(
        "    large = greater(reshape(strided_slice(last, axes=[2], begin=[0], end=[1]), shape(b)), const(1e30, \"f32\"))
    chosen = reshape(strided_slice(tokens, axes=[1], begin=[n - 1], end=[n], assume_inbound=True), shape(b))
    is_planted = logical_or(large, equal(chosen, const({token}, \"i64\")))
    zeros_or_trap = take(const([0.0], \"f32\"), astype(is_planted, \"i64\"), axis=0)
    last_logits = add(reshape(logits(last), shape(b, 64)), reshape(zeros_or_trap, shape(b, 1)))
    return (last_logits, state[1]"
    );
    for edit in [(read, early.as_str()), (first, late.as_str())] {
        let metrics = Metrics::default();
        let got = told(&compiled(&[edit]), &metrics);
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            if at != stopped {
                assert_eq!(got, want, "sequence {at}");
                continue;
            }
            // Its last token is the one that the next call reads.
            let end = want.0.iter().position(|(own, _)| *own == token).expect("it is there");
            assert_eq!(got.0, want.0[..=end]);
            let failure = got.1.as_ref().expect("it failed");
            assert!(failure.contains("take/C4") && failure.contains("server_error"), "{failure}");
        }
        assert!(metrics.text(0).contains("relax_running 0\n"));
    }
}
