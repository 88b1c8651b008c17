//! Reads a certificate and has every proof in it checked. Lines stand in one order, with these keys and no others.

use super::lines::read_dim;
use super::{Header, Said};
use crate::RULES;
use crate::answers::{Answers, Proof, Simple};
use crate::derive::Stage;
use crate::used_rules::UsedRule;
use relax_proofs::{Checked, Outcome, check_all};
use relax_syntax::Name;
use relax_syntax::facts::Counterexample;
use serde_json::Value;

/// What stands in a certificate.
pub struct Read {
    /// What the compilation was.
    pub header: Header,
    /// The stages, whose hashes are right.
    pub stages: Vec<Stage>,
    /// The answers, whose proofs were checked.
    pub(crate) answers: Answers,
    pub(crate) said: Said,
}

/// How an arithmetic certificate begins.
const PROOF: &str = "{\"relax\": \"certificate\"";

/// Reads a text.
///
/// # Errors
/// What is wrong, with the line.
pub fn read(text: &str) -> Result<Read, String> {
    let (head, proofs) = divided(text);
    let mut reader = Reader { lines: Vec::new(), at: 0 };
    for (index, line) in head.lines().enumerate() {
        let value = serde_json::from_str(line)
            .map_err(|error| format!("line {}: it is no JSON: {error}", index + 1))?;
        reader.lines.push(value);
    }
    let (header, input, output) = reader.header()?;
    let mut stages = Vec::new();
    while let Some(stage) = reader.stage(stages.last())? {
        stages.push(stage);
    }
    let (Some(first), Some(last)) = (stages.first(), stages.last()) else {
        return Err("it has no stage".to_owned());
    };
    if first.name != "input" || first.hash() != input || last.hash() != output {
        return Err("line 1: the hashes of input and output are not those of the stages".to_owned());
    }
    let said = reader.said()?;
    let mut answers = Answers::default();
    reader.answers(&mut answers)?;
    let before = head.lines().count();
    for result in check_all(proofs, Some(RULES)).into_iter().filter(|_| !proofs.trim().is_empty()) {
        let checked =
            result.map_err(|refused| format!("line {}: {}", before + refused.line, refused.why))?;
        keep(&mut answers, checked);
    }
    Ok(Read { header, stages, answers, said })
}

/// The lines of the compilation, and the certificates of arithmetic after them.
fn divided(text: &str) -> (&str, &str) {
    if text.starts_with(PROOF) {
        return ("", text);
    }
    match text.find(&format!("\n{PROOF}")) {
        Some(at) => text.split_at(at + 1),
        None => (text, ""),
    }
}

fn keep(answers: &mut Answers, checked: Checked) {
    let trusted = matches!(checked.outcome, Outcome::Trusted { .. });
    let mut hypotheses = checked.hypotheses;
    hypotheses.sort();
    let proof = Proof { hypotheses, text: String::new(), trusted };
    answers.proved.entry(checked.goal).or_default().push(proof);
}

struct Reader {
    lines: Vec<Value>,
    at: usize,
}

impl Reader {
    /// The next line, if it has exactly these keys.
    fn take(&mut self, keys: &[&str]) -> Option<Value> {
        let line = self.lines.get(self.at)?;
        let object = line.as_object()?;
        if object.len() != keys.len() || !keys.iter().all(|key| object.contains_key(*key)) {
            return None;
        }
        self.at += 1;
        Some(line.clone())
    }

    fn wrong<T>(&self, why: &str) -> Result<T, String> {
        Err(format!("line {}: {why}", self.at.max(1)))
    }

    fn header(&mut self) -> Result<(Header, String, String), String> {
        let keys = ["relax", "version", "route", "target", "tested", "input", "output"];
        let Some(line) = self.take(&keys) else {
            return self.wrong("it is no header of a compilation");
        };
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let parts =
            (text("route"), text("target"), line["tested"].as_u64(), text("input"), text("output"));
        let (Some(route), Some(target), Some(tested), Some(input), Some(output)) = parts else {
            return self.wrong("the header has a value of another kind");
        };
        if line["relax"] != "compilation" || line["version"] != 1 {
            return self.wrong("it is no certificate of a compilation, or one of another version");
        }
        Ok((Header { route, target, tested }, input, output))
    }

    fn stage(&mut self, before: Option<&Stage>) -> Result<Option<Stage>, String> {
        let Some(line) = self.take(&["stage", "after", "sha256", "text"]) else { return Ok(None) };
        let (Some(name), Some(text)) = (line["stage"].as_str(), line["text"].as_str()) else {
            return self.wrong("a stage has a name and a text");
        };
        let mut stage = Stage::read(name, text)?;
        if line["sha256"].as_str() != Some(stage.hash().as_str()) {
            return self.wrong("the hash is not that of the text");
        }
        let after = before.map_or_else(String::new, Stage::hash);
        if line["after"].as_str() != Some(after.as_str()) {
            return self.wrong("another stage stands before this one");
        }
        while let Some(rule) = self.rule()? {
            stage.rules.push(rule);
        }
        Ok(Some(stage))
    }

    fn rule(&mut self) -> Result<Option<UsedRule>, String> {
        let Some(line) = self.take(&["rule", "sha256", "text"]) else { return Ok(None) };
        let (Some(name), Some(text)) = (line["rule"].as_str(), line["text"].as_str()) else {
            return self.wrong("a rule has a name and a text");
        };
        let rule = UsedRule::read(name, text)?;
        if line["sha256"].as_str() != Some(rule.hash().as_str()) {
            return self.wrong("the hash is not that of the text of the rule");
        }
        Ok(Some(rule))
    }

    fn said(&mut self) -> Result<Said, String> {
        let mut open = Vec::new();
        while let Some(line) = self.take(&["obligation", "outcome"]) {
            let (Some(obligation), Some(outcome)) =
                (line["obligation"].as_str(), line["outcome"].as_str())
            else {
                return self.wrong("an obligation and its outcome are texts");
            };
            open.push((obligation.to_owned(), outcome.to_owned()));
        }
        match self.take(&["summary"]) {
            Some(line) => Ok(Said { open, summary: line["summary"].clone() }),
            None => self.wrong("the next line is not the summary"),
        }
    }

    fn answers(&mut self, answers: &mut Answers) -> Result<(), String> {
        while let Some(line) = self.take(&["refuted", "values"]) {
            let Some((claim, values)) = line["refuted"].as_str().zip(values(&line["values"]))
            else {
                return self.wrong("a refuted claim has values");
            };
            answers.refuted.entry(claim.to_owned()).or_default().push(values);
        }
        while let Some(line) = self.take(&["simplify", "is", "given"]) {
            let parts = (line["simplify"].as_str(), read_dim(&line["is"]), texts(&line["given"]));
            let (Some(of), Some(dim), Some(given)) = parts else {
                return self.wrong("a simplification has a dim and what it rests on");
            };
            answers.equal.entry(of.to_owned()).or_default().push(Simple { dim, given });
        }
        if self.at < self.lines.len() {
            self.at += 1;
            return self.wrong("a line of this form does not stand here");
        }
        Ok(())
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn values(value: &Value) -> Option<Counterexample> {
    let each = value.as_object()?.iter();
    each.map(|(name, value)| Some((Name::new(name), value.as_i64()?))).collect()
}
