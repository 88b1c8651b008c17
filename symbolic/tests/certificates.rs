//! How many of the true cases get a certificate.

mod query_text;

use relax_symbolic::Prover;
use relax_symbolic::claims::Formula;
use relax_syntax::facts::{Answer, Facts};
use serde_json::Value;
use std::time::Instant;

#[test]
fn true_cases_have_certificates() {
    let (mut written, mut missing, mut text) = (0, Vec::new(), String::new());
    let mut times = Vec::new();
    let only = std::env::var("ONLY").ok();
    for line in include_str!("arith_cases.jsonl").lines() {
        let case: Value = serde_json::from_str(line).expect("one JSON object a line");
        if case["expect"] != "proved" || only.as_ref().is_some_and(|id| case["id"] != id.as_str()) {
            continue;
        }
        let mut prover = Prover::new();
        let mut hypotheses = Vec::new();
        for fact in case["assume"].as_array().expect("a list") {
            match query_text::formula(fact.as_str().expect("text")).expect("parses") {
                Formula::Claim(claim) => prover.assume(claim),
                Formula::And(parts) if parts.iter().all(|p| matches!(p, Formula::Claim(_))) => {
                    for part in parts {
                        if let Formula::Claim(claim) = part { prover.assume(claim) }
                    }
                }
                other => hypotheses.push(other),
            }
        }
        let mut goal = query_text::formula(case["query"].as_str().expect("text")).expect("parses");
        if !hypotheses.is_empty() {
            goal = Formula::implies(Formula::And(hypotheses), goal);
        }
        if prover.decide_formula(&goal) != Answer::Proved { continue; }
        let start = Instant::now();
        let certificate = prover.certificate(&goal);
        times.push((start.elapsed(), case["id"].to_string()));
        if start.elapsed().as_millis() > 300 { eprintln!("{} {:?}", case["id"], start.elapsed()); }
        match certificate {
            Some(certificate) => { written += 1; text += &certificate; }
            None => missing.push(format!("{} {} |- {}", case["id"], case["assume"], case["query"])),
        }
    }
    times.sort();
    if let Ok(path) = std::env::var("CERTS") { std::fs::write(path, text).expect("written"); }
    if let Ok(path) = std::env::var("MISSING") { std::fs::write(path, missing.join("\n")).expect("written"); }
    eprintln!("written {written}, missing {}, median {:?}, slowest {:?}", missing.len(), times[times.len() / 2], times.last());
}
