//! The implementations that the pass `alter_op_impl` may use: each is compared with what it implements before.

use super::watch::Reporter;
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use relax_driver::differential::{Difference, Tally};
use relax_driver::equivalence::Trust;
use relax_driver::implementations::{Effort, Judgement, judged};
use relax_program::compare::Relation;
use relax_program::spec::{Typing, literal};
use relax_rewrite::passes::alter_op_impl::{Alterations, Candidate, PASS, candidates};
use relax_rewrite::pipeline::Failed;
use relax_runtime::program::Numerics;
use relax_semantics::check::{Phase, check};
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use serde_json::json;

/// Characters of a value that is shown.
const LONGEST: usize = 400;

impl Reporter<'_> {
    /// Of each definition that implementations are for the first one that fits and that no comparison refutes.
    pub(super) fn alterations(
        &mut self,
        module: &Module,
        numerics: Numerics,
    ) -> Result<Alterations, Failed> {
        self.chosen(module, numerics).map_err(|failure| {
            self.failure = Some(failure);
            Failed::Stopped { pass: PASS.name, why: String::new() }
        })
    }

    fn chosen(&mut self, module: &Module, numerics: Numerics) -> Result<Alterations, Failure> {
        let phase = Phase::of_module(module).unwrap_or(Phase::P0);
        let checked = check(module, &mut Prover::new(), phase);
        let found = candidates(&checked.module);
        for (by, name) in &found.unused {
            let text = format!("`{by}` is not used: nothing that is called has the name `{name}`");
            self.terminal.warn(&text);
        }
        let relation = match numerics {
            Numerics::Exact => Relation::Equal,
            Numerics::Reassociated => Relation::Close,
        };
        let (cases, seed) = (self.args.cases, self.args.seed);
        let effort = Effort { cases, seed, relation, trust: Trust::Rules };
        let mut chosen = Alterations::new();
        for candidate in found.pairs {
            let Candidate { of, by } = &candidate;
            if let Some(first) = chosen.get(of) {
                self.terminal.warn(&format!("`{by}` is not used: `{first}` implements `{of}`"));
                continue;
            }
            self.terminal.doing(format!("comparing `{by}` with `{of}`"));
            let judgement = judged(&checked, &candidate, self.params, effort)
                .map_err(|text| Failure::Message { exit: Exit::Internal, text })?;
            if accepted(&candidate, judgement, self.terminal)? {
                chosen.insert(candidate.of, candidate.by);
            }
        }
        Ok(chosen)
    }
}

/// Says what became of an implementation, and whether it may be used.
fn accepted(
    candidate: &Candidate,
    judgement: Judgement,
    terminal: &mut Terminal,
) -> Result<bool, Failure> {
    let Candidate { of, by } = candidate;
    let (verdict, text) = match judgement {
        Judgement::Proved => {
            let text = format!("`{by}` is `{of}` for all dims and inputs: proved");
            terminal.note(&text);
            ("proved", text)
        }
        Judgement::Tested(why, Tally { compared, trapped, .. }) => {
            let text = format!(
                "`{by}` is not proved to be `{of}`: {why}; no difference in {compared} random cases with a value and {trapped} with a trap"
            );
            terminal.warn(&text);
            ("tested", text)
        }
        Judgement::Unfit(why) => {
            let text = format!("`{by}` is not used for `{of}`: {why}");
            terminal.warn(&text);
            ("unfit", text)
        }
        Judgement::Different(difference, one) => {
            return Err(wrong(candidate, &shown(&difference, &one)));
        }
        Judgement::Refuted(why) => return Err(wrong(candidate, &why)),
        Judgement::Nothing(why) => {
            let text = format!("`{by}` cannot be compared with `{of}`: {why}");
            return Err(Failure::Message { exit: Exit::Vacuous, text });
        }
    };
    if terminal.format == Format::Json {
        let line = json!({
            "type": "implementation", "of": of.as_str(), "by": by.as_str(), "verdict": verdict, "message": text,
        });
        terminal.message(format!("{line}\n").as_bytes());
    }
    Ok(verdict != "unfit")
}

fn wrong(Candidate { of, by }: &Candidate, why: &str) -> Failure {
    Failure::Message { exit: Exit::Wrong, text: format!("`{by}` does not implement `{of}`: {why}") }
}

/// How results differ, and the arguments.
fn shown(difference: &Difference, one: &Module) -> String {
    let mut text = difference.why.clone();
    let function = one.function(&difference.function);
    let names = function
        .iter()
        .flat_map(|function| function.lambda.params.iter().map(|&param| &function.var(param).name));
    for (name, value) in names.zip(&difference.case.arguments) {
        let value = literal(value, Typing::Written)
            .filter(|text| text.len() <= LONGEST)
            .unwrap_or_else(|| value.annotation().to_string());
        text.push_str(&format!("\n  {name} = {value}"));
    }
    text
}
