//! The table of `docs/ONNX.md`: counts for each operator, and each test that does not pass with its
//! reason.

use crate::case::{Case, Outcome};
use relax_import::{summary as model_summary, supported};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

type Rows<'a> = [(&'a Case, &'a Outcome)];

#[derive(Clone, Copy, Default)]
struct Counts {
    pass: usize,
    given: usize,
    unsupported: usize,
    fail: usize,
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Pass(bound) => {
                self.pass += 1;
                self.given += usize::from(!bound.is_empty());
            }
            Outcome::Unsupported(_) => self.unsupported += 1,
            Outcome::Fail(_) => self.fail += 1,
        }
    }

    fn all(self) -> usize {
        self.pass + self.unsupported + self.fail
    }

    fn words(self) -> String {
        let Counts { pass, given, unsupported, fail } = self;
        let share = 100.0 * pass as f64 / self.all().max(1) as f64;
        format!(
            "{pass} of {} pass ({share:.1} %), {given} of them with inputs given to the import; \
             {unsupported} are not supported, {fail} fail",
            self.all()
        )
    }
}

/// Whether a test counts for the goal: operator sets 13 to 23 of ONNX itself.
fn is_counted(case: &Case) -> bool {
    let Ok(summary) = model_summary(case.model().clone()) else { return false };
    summary.domains.is_empty() && summary.opset.is_some_and(|opset| (13..=23).contains(&opset))
}

fn counts(rows: &Rows, which: impl Fn(&Case) -> bool) -> Counts {
    let mut counts = Counts::default();
    rows.iter().filter(|(case, _)| which(case)).for_each(|(_, outcome)| counts.add(outcome));
    counts
}

/// Two lines.
pub(crate) fn summary(rows: &Rows) -> String {
    format!(
        "Of operator sets 13 to 23: {}.\nOf all tests: {}.",
        counts(rows, is_counted).words(),
        counts(rows, |_| true).words()
    )
}

/// What a test is filed under: its operator, or that of the test of which it is the expansion.
fn operator(case: &Case, rows: &Rows) -> String {
    let base = case.name.split("_expanded").next().unwrap_or(&case.name);
    let base = rows.iter().find(|(case, _)| case.name == base).map_or(case, |(case, _)| *case);
    let operators = model_summary(base.model().clone()).map(|summary| summary.operators);
    match operators.unwrap_or_default().as_slice() {
        [one] => one.clone(),
        _ => "several operators".to_owned(),
    }
}

const HEAD: &str = "# ONNX

`relax import MODEL.onnx -o model.rx --params model.safetensors` makes a program of a model, and
`relax run MODEL.onnx` runs one directly. Operator sets 7 to 24 are read.

";

/// Between these the page is generated.
const START: &str =
    "<!-- generated with RELAX_BLESS=1 by the test `conformance` of relax-import -->\n";

/// Writes the page: what people wrote stands before the mark.
pub(crate) fn write(page: &Path, rows: &Rows) {
    let old = fs::read_to_string(page).unwrap_or_else(|_| format!("{HEAD}{START}"));
    let head = old.split(START).next().unwrap_or(HEAD);
    let mut text = format!("{head}{START}\n## Operators\n\n");
    let _ = writeln!(
        text,
        "{} operators are imported: {}.\n",
        supported().len(),
        supported().join(", ")
    );
    let _ = writeln!(text, "## The backend tests of ONNX\n\n{}\n", summary(rows));
    text +=
        "| operator | pass | of them given inputs | unsupported | fail |\n|---|---|---|---|---|\n";
    let mut by_operator: BTreeMap<String, Counts> = BTreeMap::new();
    for (case, outcome) in rows {
        by_operator.entry(operator(case, rows)).or_default().add(outcome);
    }
    for (operator, c) in &by_operator {
        let _ = writeln!(
            text,
            "| {operator} | {} | {} | {} | {} |",
            c.pass, c.given, c.unsupported, c.fail
        );
    }
    text += "\n### Tests that do not pass\n\n| test | why |\n|---|---|\n";
    for (case, outcome) in rows.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Pass(_))) {
        let _ = writeln!(text, "| {} | {} |", case.name, cell(&outcome.to_string()));
    }
    fs::write(page, text).expect("the page can be written");
}

fn cell(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.replace('|', "\\|").chars().take(200).collect()
}

/// Tests that do not pass, and are not listed as such.
pub(crate) fn lost(page: &Path, rows: &Rows) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let listed = |name: &str| text.contains(&format!("| {name} |"));
    rows.iter()
        .filter(|(case, outcome)| !matches!(outcome, Outcome::Pass(_)) && !listed(&case.name))
        .map(|(case, outcome)| format!("{}: {outcome}", case.name))
        .collect()
}
