//! `relax prove --stats`: what each stage of the prover decided, and how long it took.

use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_symbolic::{Stage, Statistics};
use serde_json::{Map, Value, json};

pub(super) fn report(statistics: &Statistics, terminal: &mut Terminal) -> Result<(), Failure> {
    terminal.tell(&table(statistics), || object(statistics))
}

fn table(statistics: &Statistics) -> String {
    let mut text = format!(
        "{:<12}{:>9}{:>9}{:>9}{:>14}\n",
        "stage", "asked", "proved", "refuted", "microseconds"
    );
    for (stage, own) in Stage::ALL.into_iter().zip(&statistics.stages) {
        text += &format!(
            "{:<12}{:>9}{:>9}{:>9}{:>14}\n",
            stage.name(),
            own.asked,
            own.proved,
            own.refuted,
            own.nanoseconds / 1000
        );
    }
    let queries = statistics.queries;
    let noun = if queries == 1 { "question" } else { "questions" };
    text + &format!("{queries} {noun}, {} not decided\n", statistics.unknown())
}

fn object(statistics: &Statistics) -> Value {
    let mut stages = Map::new();
    for (stage, own) in Stage::ALL.into_iter().zip(&statistics.stages) {
        let counts = json!({
            "asked": own.asked,
            "proved": own.proved,
            "refuted": own.refuted,
            "microseconds": own.nanoseconds / 1000,
        });
        stages.insert(stage.name().to_owned(), counts);
    }
    json!({ "queries": statistics.queries, "unknown": statistics.unknown(), "stages": stages })
}
