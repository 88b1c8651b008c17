//! `relax prove`: statements on integers, decided for all values, and questions about terms.

mod cases;
mod stages;
mod terms;

use crate::args::{Format, ProveArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_symbolic::claims::Formula;
use relax_symbolic::{Prover, Statistics, Verdict, statement};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Steps that the solver may take for one statement: about a second.
const SOLVER_LIMIT: u32 = 2_000_000;
/// How many characters of a statement that cannot be read are shown.
const LONGEST_SHOWN: usize = 120;

pub(super) fn prove(args: &ProveArgs, terminal: &mut Terminal) -> Outcome {
    if args.json {
        terminal.format = Format::Json;
    }
    let stages = if args.no_solver { Stages::WithoutSolver } else { Stages::All };
    let mut certificates = args.certificate.as_ref().map(|_| String::new());
    let (exit, statistics) = if let Some(path) = &args.file {
        cases::prove(path, stages, &mut certificates, terminal)?
    } else {
        terminal.doing("proving".to_owned());
        let mut asked = Asked::new(&args.assume, stages)?;
        let exit = if let Some(term) = &args.simplify {
            terms::simplify(&mut asked, &read_term(term)?, terminal)
        } else if let Some(term) = &args.bounds {
            terms::bounds(&mut asked, &read_term(term)?, terminal)
        } else if let Some(term) = &args.no_overflow {
            terms::no_overflow(&mut asked, &read_term(term)?, terminal)
        } else {
            let text = args.statement.as_deref().unwrap_or_default();
            prove_one(&mut asked, &read(text)?, &mut certificates, terminal)
        };
        (exit?, asked.prover.statistics())
    };
    if let (Some(path), Some(text)) = (&args.certificate, certificates.filter(|t| !t.is_empty())) {
        write_whole(path, text.as_bytes())?;
    }
    if args.stats {
        stages::report(&statistics, terminal)?;
    }
    Ok(exit)
}

/// Which stages of the prover are asked.
#[derive(Clone, Copy)]
enum Stages {
    All,
    WithoutSolver,
}

/// The prover of this command.
fn prover(stages: Stages) -> Prover {
    let clock = || {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
    };
    let mut prover = Prover::timed(clock).with_second_attempt();
    if let Stages::All = stages {
        prover.limit_solver(Some(SOLVER_LIMIT));
    }
    prover
}

fn read(text: &str) -> Result<Formula, Failure> {
    statement::formula(text).map_err(|why| unread(text, &why))
}

fn read_term(text: &str) -> Result<Dim, Failure> {
    statement::term(text).map_err(|why| unread(text, &why))
}

/// What is wrong with a text, which is shown as far as a line goes.
fn unread(text: &str, why: &str) -> Failure {
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => Failure::usage(format!("`{}…`: {why}", &text[..end])),
        None => Failure::usage(format!("`{text}`: {why}")),
    }
}

/// A prover that knows the assumptions, and those that are no facts.
struct Asked {
    prover: Prover,
    hypotheses: Vec<Formula>,
    /// When the assumptions were read and the work began.
    start: Instant,
}

impl Asked {
    fn new(assume: &[String], stages: Stages) -> Result<Self, Failure> {
        let known = assume.iter().map(|text| read(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::knowing(known, stages))
    }

    fn knowing(known: Vec<Formula>, stages: Stages) -> Self {
        let mut prover = prover(stages);
        let start = Instant::now();
        let hypotheses = prover.suppose(known);
        Self { prover, hypotheses, start }
    }

    fn judge(&mut self, goal: &Formula) -> Verdict {
        self.prover.judge(&goal.clone().under(&self.hypotheses))
    }

    /// Adds a proof of a goal that was proved. False where none is found.
    fn certify(&mut self, goal: &Formula, certificates: &mut Option<String>) -> bool {
        let Some(text) = certificates else {
            return true;
        };
        let certificate = self.prover.certificate(&goal.clone().under(&self.hypotheses));
        let found = certificate.is_some();
        text.push_str(&certificate.unwrap_or_default());
        found
    }

    fn statistics(&self) -> Statistics {
        self.prover.statistics()
    }

    /// Facts that would each decide a goal of one claim.
    fn missing(&mut self, goal: &Formula) -> Vec<Claim> {
        match goal {
            Formula::Claim(claim) if self.hypotheses.is_empty() => self.prover.missing(claim),
            _ => Vec::new(),
        }
    }
}

/// Decides one statement and tells what would decide it otherwise.
fn prove_one(
    asked: &mut Asked,
    goal: &Formula,
    certificates: &mut Option<String>,
    terminal: &mut Terminal,
) -> Outcome {
    let verdict = asked.judge(goal);
    let elapsed = asked.start.elapsed();
    let proved = verdict.answer == Answer::Proved;
    let missing = if proved { Vec::new() } else { asked.missing(goal) };
    if terminal.format == Format::Json {
        let mut object = json_of(&verdict, elapsed);
        if !missing.is_empty() {
            let facts: Vec<String> = missing.iter().map(ToString::to_string).collect();
            object["missing"] = json!(facts);
        }
        terminal.result(&format!("{object}\n"))?;
    } else {
        terminal.result(&format!("{}\n", text_of(&verdict, goal)))?;
        if !missing.is_empty() {
            terminal.result(&format!("it would hold {}\n", either(&missing)))?;
        }
        if proved && asked.judge(&Formula::False).answer == Answer::Proved {
            terminal.note("note: the assumptions contradict each other, so everything follows");
        }
    }
    if proved && !asked.certify(goal, certificates) {
        return Err(Failure::missing("it is proved, but no certificate of it was found"));
    }
    Ok(if proved { Exit::Fine } else { Exit::Wrong })
}

/// "with `a == b`, or with `c == d`"
fn either(facts: &[Claim]) -> String {
    let each: Vec<String> = facts.iter().map(|fact| format!("with `{fact}`")).collect();
    each.join(", or ")
}

fn text_of(verdict: &Verdict, goal: &Formula) -> String {
    match &verdict.answer {
        Answer::Proved => format!("proved ({})", verdict.stage.name()),
        Answer::Refuted(values) => refuted(values, goal),
        Answer::Unknown => "unknown".to_owned(),
    }
}

/// `refuted: n = 1: 4 vs 5`; where the claim that fails is a part of the goal, it is told too.
fn refuted(values: &Counterexample, goal: &Formula) -> String {
    let mut text = "refuted".to_owned();
    if !values.is_empty() {
        text += &format!(": {}", assignment(values));
    }
    let Some((claim, (a, b))) =
        goal.failing(values).and_then(|claim| Some((claim, claim.sides(values)?)))
    else {
        return text;
    };
    text += &match goal {
        // `n >= 1` was read as `1 <= n`; the values stand as people write it.
        Formula::Claim(claim) if claim.left.as_int().is_some() => format!(": {b} vs {a}"),
        Formula::Claim(_) => format!(": {a} vs {b}"),
        _ => format!(": `{claim}` fails, {a} vs {b}"),
    };
    text
}

fn assignment(values: &Counterexample) -> String {
    values.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

fn json_of(verdict: &Verdict, elapsed: Duration) -> Value {
    let mut object = json!({
        "answer": verdict.answer.word(),
        "stage": verdict.stage.name(),
        "microseconds": microseconds(elapsed),
    });
    if let Answer::Refuted(values) = &verdict.answer {
        object["counterexample"] = json_values(values);
    }
    object
}

fn json_values(values: &Counterexample) -> Value {
    let values: BTreeMap<&str, i64> = values.iter().map(|(n, v)| (&**n, *v)).collect();
    json!(values)
}

/// To the nanosecond.
fn microseconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e9).round() / 1e3
}
