//! `relax diff --grad`: the gradients that the pass makes, against differences of the function itself, in f64.

use crate::args::DiffArgs;
use crate::commands::grad::options;
use crate::commands::loading::{Given, load};
use crate::commands::opt::failed_run;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use relax_driver::differential::MAX_BYTES;
use relax_program::reals::widened;
use relax_program::signature::{random_dims, random_value};
use relax_rewrite::finite_differences::{Outcome as Compared, compare};
use relax_semantics::random::Random;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Function;
use relax_train::differentiated;
use serde_json::json;

/// Random integers: most of a loss are indices and labels.
const INDICES: std::ops::RangeInclusive<i64> = 0..=4;

#[derive(Default)]
struct Tally {
    compared: u32,
    stopped: u32,
    not_finite: u32,
    rejected: u32,
}

pub(super) fn gradients(args: &DiffArgs, terminal: &mut Terminal) -> Outcome {
    let Some(Given { program, .. }) = load(&args.file, &args.model, terminal)? else {
        return Ok(Exit::Wrong);
    };
    let options = options(&program, args.entry.as_deref(), &[])?;
    let name = options.function.clone().expect("invariant: a function is chosen");
    let Some(wide) = widened(&program.module) else {
        return Err(Failure::missing(
            "the program has closures, or tensor programs of f32 literals, which do not run in f64: differences tell nothing",
        ));
    };
    let module = match differentiated(&wide, options) {
        Ok(module) => module,
        Err(failed) => return failed_run(&failed, &program, terminal),
    };
    let function = module.function(&name).expect("invariant: the pass found it");
    let params = function.lambda.params.iter().enumerate();
    let wrt: Vec<usize> = params
        .filter(|(_, param)| {
            let tensor = function.param_annotation(**param).as_tensor();
            tensor.and_then(|tensor| tensor.dtype) == Some(DType::F64)
        })
        .map(|(at, _)| at)
        .collect();
    let mut tally = Tally::default();
    for case in 0..args.cases {
        terminal.doing(format!("`{name}`: {case} of {}", args.cases));
        let seed = args.seed.wrapping_add(u64::from(case));
        let Ok((shown, arguments)) = arguments(function, seed) else {
            tally.rejected += 1;
            continue;
        };
        match compare(&module, &name, &wrt, &arguments, seed) {
            Ok(Compared::Agree { .. }) => tally.compared += 1,
            Ok(Compared::Stops(_)) => tally.stopped += 1,
            Ok(Compared::NotFinite) => tally.not_finite += 1,
            Err(why) => {
                let text = format!("different: `{name}`, {shown}: {why}\n");
                let object = || {
                    json!({ "type": "diff", "verdict": "different", "function": name.as_str(),
                            "dims": shown, "seed": seed, "why": why })
                };
                terminal.tell(&text, object)?;
                return Ok(Exit::Wrong);
            }
        }
    }
    terminal.tell(&tally.text(wrt.len()), || tally.object(wrt.len()))?;
    Ok(if tally.compared == 0 { Exit::Vacuous } else { Exit::Fine })
}

fn arguments(function: &Function, seed: u64) -> Result<(String, Vec<Value>), String> {
    let dims = random_dims(function, &mut Random::new(seed, "dims"));
    let shown: Vec<String> = dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let values = function.lambda.params.iter().map(|&param| {
        let mut random = Random::new(seed, &function.var(param).name);
        random_value(function.param_annotation(param), &dims, &mut random, &INDICES, MAX_BYTES)
    });
    Ok((shown.join(", "), values.collect::<Result<_, _>>()?))
}

impl Tally {
    fn verdict(&self) -> &'static str {
        if self.compared == 0 { "nothing compared" } else { "the same" }
    }

    fn text(&self, gradients: usize) -> String {
        let mut text = format!(
            "{}: {} compared by differences, each {gradients} gradients",
            self.verdict(),
            self.compared
        );
        for (count, what) in [
            (self.stopped, "where the function stops"),
            (self.not_finite, "where it is not finite"),
            (self.rejected, "without arguments"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        text.push('\n');
        text
    }

    fn object(&self, gradients: usize) -> serde_json::Value {
        json!({
            "type": "diff",
            "verdict": self.verdict(),
            "compared": self.compared,
            "gradients": gradients,
            "stopped": self.stopped,
            "not_finite": self.not_finite,
            "rejected": self.rejected,
        })
    }
}
