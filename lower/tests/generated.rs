//! Generated modules through the pipeline: after each pass the text reads back to the module, the
//! module means the same as the input, and it says no less.

use relax_corpus::par_map::par_map_chunks;
use relax_generate::{drawn, module};
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print, print_and_parse};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Applied, Watch, run};
use relax_rewrite::precision::coarsened;
use relax_rewrite::verify::{Effort, Tally, verify};
use relax_semantics::check::Phase;
use relax_semantics::random::Random;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

const EFFORT: Effort = Effort { cases: 8, seed: 3 };

/// What became of the modules: a property that nothing gets to says nothing.
#[derive(Debug, Default)]
struct Seen {
    changed: BTreeMap<&'static str, u32>,
    tally: Tally,
    /// Constraints that are never satisfied.
    refused: u32,
}

struct Held<'a> {
    input: &'a Module,
    seen: &'a mut Seen,
}

impl Watch for Held<'_> {
    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        if !applied.changed() {
            return Ok(());
        }
        *self.seen.changed.entry(applied.pass.name).or_default() += 1;
        print_and_parse(applied.after)?;
        let shown = |why: String| format!("{why}\n{}", print(applied.after));
        // From P2.3 on annotations are code.
        if applied.pass.to < Phase::P23 {
            coarsened(applied.before, applied.after, &mut Prover::new())
                .map_or(Ok(()), |what| Err(shown(what)))?;
        }
        let tally =
            verify(self.input, applied.after, applied.pass.exactness, EFFORT, &BTreeMap::new())
                .map_err(|difference| shown(difference.to_string()))?;
        self.seen.tally.add(&tally);
        Ok(())
    }
}

/// Ingestion, then fusion.
const FUSION: &str = "lift_lambdas,normalize,annotate_tir_op_pattern,fuse_ops";
/// From graphs to fused tensor programs.
const FUSED: &str = "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,\
                     inline_buffers,eliminate_dead_code";
/// Ingestion, then what is asked for by name and keeps values.
const NAMED: &str = "lift_lambdas,normalize,inline_private_functions,combine_parallel_matmul,\
                     lift_transform_params,outline_blocks";

fn holds(bytes: &[u8], seen: &mut Seen) {
    let text = module(bytes);
    let program = Program::load(Source::new("generated", text.as_str()));
    if program.has_errors() {
        seen.refused += 1;
        return;
    }
    let named = |list| PIPELINE.named(list).expect("the passes are registered");
    for route in [PIPELINE.to(Phase::P23), named(FUSION), named(FUSED), named(NAMED)] {
        let mut watch = Held { input: &program.module, seen };
        if let Err(ended) =
            run(&program.module, &route, &Settings::default(), &mut Prover::new(), &mut watch)
        {
            panic!("{ended:#?}\n{text}");
        }
    }
}

fn of_seeds(seeds: Vec<u64>) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        holds(&drawn(&mut Random::new(seed, "passes"), 240), &mut seen);
    }
    seen
}

#[test]
fn generated_modules_mean_the_same_after_every_pass() {
    let modules = std::env::var("RELAX_GENERATED").ok().and_then(|text| text.parse().ok());
    let mut seen = Seen::default();
    for share in par_map_chunks((0..modules.unwrap_or(300)).collect(), of_seeds) {
        seen.tally.add(&share.tally);
        seen.refused += share.refused;
        for (pass, count) in share.changed {
            *seen.changed.entry(pass).or_default() += count;
        }
    }
    assert!(seen.tally.compared > 2 * seen.tally.rejected, "{seen:?}");
    for pass in [
        "lift_lambdas",
        "normalize",
        "eliminate_broadcasts",
        "inline_private_functions",
        "eliminate_common_subexpr",
        "canonicalize_bindings",
        "eliminate_dead_code",
        "annotate_tir_op_pattern",
        "legalize_ops",
        "fuse_ops",
        "fuse_tir",
        "inline_buffers",
    ] {
        assert!(seen.changed.get(pass).is_some_and(|&count| count > 5), "{pass}: {seen:?}");
    }
}
