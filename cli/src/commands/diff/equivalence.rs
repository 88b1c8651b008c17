//! `relax equiv`: whether two programs have the same values and traps. Random cases look for a difference first; then the functions are
//! compared by `relax-validation`, which shares its obligations, and its certificates, with compilations.

use super::pairs::pairs;
use super::reproduction::refuse_path;
use super::{counts, different, object};
use crate::args::{DiffArgs, EquivArgs, KernelCheckArgs, NumericsArgs};
use crate::commands::at_most_one_stdin;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, kind_of, shown_name, write_whole};
use crate::terminal::Terminal;
use relax_driver::differential::Tally;
use relax_driver::differential::{Other, Routes};
use relax_lower::certify::certified;
use relax_program::compare::{Relation, compare};
use relax_program::frontend::print;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::{AttrValue, Function, Module, attr};
use relax_validation::certificate::{Certificate, Header};
use relax_validation::derive::{EQUIVALENCE, Stage};
use relax_validation::obligation::{Kind, Outcome as Ended};
use serde_json::json;
use std::collections::BTreeSet;

/// What is known of a function.
struct Finding {
    function: Name,
    /// How its proof ended; the reason where none was tried.
    ended: Result<Ended, String>,
    tally: Tally,
}

/// What a function comes to, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Equal,
    /// No case had a value, whatever is proved.
    Vacuous,
    Open,
    Different,
}

pub(in crate::commands) fn equiv(args: &EquivArgs, terminal: &mut Terminal) -> Outcome {
    if let Some(path) = &args.save {
        refuse_path(path)?;
    }
    at_most_one_stdin([args.left.as_path(), args.right.as_path()])?;
    for path in [&args.left, &args.right] {
        if kind_of(path)? == FileKind::Module {
            let name = shown_name(path);
            return Err(Failure::usage(format!(
                "{name}: of the machine code of a module file nothing is proved; `relax diff` compares it on random inputs"
            )));
        }
    }
    let asked = as_diff(args);
    let found = pairs(&asked, terminal)?.into_iter().next();
    let (mut routes, names) = found.expect("invariant: of two texts there is one pair");
    let Other::Text { module, relation, wide, .. } = &mut routes.other else {
        unreachable!("invariant: no backend was asked for");
    };
    if !args.up_to_rounding {
        (*relation, *wide) = (Relation::Equal, None);
    }
    let other = module.clone();
    if args.entry.is_none()
        && let Some(why) = alone(&routes.left, &other)
    {
        terminal.tell(
            &format!("different: {why}\n"),
            || json!({ "type": "equiv", "verdict": "different", "why": why }),
        )?;
        return Ok(Exit::Wrong);
    }
    let mut tallies = Vec::new();
    for name in names {
        let mut tally = Tally::default();
        let watch = &mut |cases| terminal.doing(format!("`{name}`: {cases} of {}", args.cases));
        if let Some(difference) = routes.function(&name, &mut tally, watch) {
            return different(&asked, &routes, &difference, terminal);
        }
        tallies.push((name, tally));
    }
    terminal.doing("proving that they are equal".to_owned());
    let tested = tallies.iter().map(|(_, tally)| u64::from(tally.compared)).sum();
    let proved = match other_constants(&routes) {
        Some(why) => Err(why),
        None => Ok(proof(&routes.left, &other, tested)?),
    };
    let functions = routes.left.functions().chain(other.functions());
    let private: BTreeSet<Name> =
        functions.filter(|one| is_private(one)).map(|one| one.name.clone()).collect();
    let findings = tallies.into_iter().map(|(function, tally)| {
        let ended = match &proved {
            Ok(certificate) => ended(certificate, &function, &private),
            Err(why) => Err(why.clone()),
        };
        Finding { function, ended, tally }
    });
    let exit = show(args, &findings.collect::<Vec<_>>(), terminal)?;
    if let (Some(path), Ok(certificate)) = (&args.certificate, &proved)
        && exit != Exit::Wrong
    {
        write_whole(path, certificate.text().as_bytes())?;
    }
    Ok(exit)
}

fn as_diff(args: &EquivArgs) -> DiffArgs {
    DiffArgs {
        file: args.left.clone(),
        model: args.model.clone(),
        against: Some(args.right.clone()),
        grad: false,
        backend: None,
        entry: args.entry.clone(),
        params: args.params.clone(),
        cases: args.cases,
        seed: args.seed,
        save: args.save.clone(),
        numerics: NumericsArgs::default(),
        kernel_check: KernelCheckArgs::default(),
    }
}

fn is_private(function: &Function) -> bool {
    attr(&function.lambda.attrs, "private") == Some(&AttrValue::Bool(true))
}

/// A function that others may call and that one of the programs alone has.
fn alone(left: &Module, right: &Module) -> Option<String> {
    let missing = |module: &Module, other: &Module| {
        let mut functions = module
            .functions()
            .filter(|function| !is_private(function) && function.lambda.body.is_some());
        functions.find(|one| other.function(&one.name).is_none()).map(|one| one.name.clone())
    };
    let of_left = missing(left, right).map(|name| format!("only the first program has `{name}`"));
    of_left.or_else(|| {
        missing(right, left).map(|name| format!("only the second program has `{name}`"))
    })
}

/// A constant of the second program that is not one of the first with the same name and value: proofs take constants of one name for the
/// same.
fn other_constants(routes: &Routes) -> Option<String> {
    let Other::Text { externals: Some(own), .. } = &routes.other else { return None };
    let value = |tensor: &Tensor| Value::Tensor(tensor.clone());
    let is_same = |first: &Tensor, second: &Tensor| {
        compare(Relation::Equal, &value(first), &value(second)).is_ok()
    };
    own.iter().find_map(|(name, second)| match routes.externals.get(name) {
        None => Some(format!("only the second program has a constant `{name}`")),
        Some(first) if is_same(first, second) => None,
        Some(_) => Some(format!("the constant `{name}` has another value in the second program")),
    })
}

fn proof(left: &Module, right: &Module, tested: u64) -> Result<Certificate, Failure> {
    let stage = |name, module| {
        Stage::read(name, &print(module)).map_err(|why| {
            let text = format!("a program that was printed does not read back: {why}");
            Failure::Message { exit: Exit::Internal, text }
        })
    };
    let header = Header { route: EQUIVALENCE.to_owned(), target: "any target".to_owned(), tested };
    Ok(certified(header, vec![stage("input", left)?, stage(EQUIVALENCE, right)?]))
}

/// How the proof of a function ended: the worst of what is to be shown of it, and of the memory of private functions, which it may call.
fn ended(
    certificate: &Certificate,
    function: &Name,
    private: &BTreeSet<Name>,
) -> Result<Ended, String> {
    let mut own = certificate.obligations.iter().filter(|each| {
        let is_memory = each.kind == Kind::Memory && private.contains(&each.function);
        each.function == *function || is_memory
    });
    let first = own.next().ok_or_else(|| "only functions call it".to_owned())?;
    let mut worst = first.outcome.clone();
    for each in own {
        worst = match (worst, &each.outcome) {
            (Ended::Proved, other @ (Ended::Trusted | Ended::Proved)) => other.clone(),
            (Ended::Proved | Ended::Trusted, Ended::Unproved(why) | Ended::Refuted(why)) => {
                Ended::Unproved(format!("memory: {} {}: {why}", each.place, each.what))
            }
            (known, _) => known,
        };
    }
    Ok(worst)
}

impl Finding {
    fn verdict(&self, args: &EquivArgs) -> Verdict {
        match &self.ended {
            Ok(Ended::Refuted(_)) => Verdict::Different,
            Ok(Ended::Trusted) if args.trust.is_none() => Verdict::Open,
            Ok(Ended::Proved | Ended::Trusted) if self.tally.compared == 0 => Verdict::Vacuous,
            Ok(Ended::Proved | Ended::Trusted) => Verdict::Equal,
            Ok(Ended::Unproved(_)) | Err(_) => Verdict::Open,
        }
    }

    /// Why it is not proved, or how it is.
    fn how(&self) -> String {
        match &self.ended {
            Ok(Ended::Proved) => "proved".to_owned(),
            Ok(Ended::Trusted) => "proved, where z3 is trusted (--trust z3)".to_owned(),
            Ok(Ended::Unproved(why) | Ended::Refuted(why)) | Err(why) => why.clone(),
        }
    }

    fn text(&self, verdict: Verdict) -> String {
        let Finding { function, tally, .. } = self;
        let (how, cases) = (self.how(), counts(tally));
        match verdict {
            Verdict::Equal => format!("`{function}`: equal for all dims and inputs, {how}\n"),
            Verdict::Vacuous => {
                format!("`{function}`: equal, {how}, but no case had a value: {cases}\n")
            }
            Verdict::Open => format!("`{function}`: open: {how}; no case differs: {cases}\n"),
            Verdict::Different => format!("`{function}`: different: {how}\n"),
        }
    }

    fn object(&self, verdict: Verdict) -> serde_json::Value {
        let mut object = object(&self.tally);
        object["type"] = json!("equiv");
        object["function"] = json!(self.function.as_str());
        object["verdict"] = json!(verdict.word());
        object["how"] = json!(self.how());
        object
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Equal => "equal",
            Verdict::Vacuous => "vacuous",
            Verdict::Open => "open",
            Verdict::Different => "different",
        }
    }

    fn exit(self) -> Exit {
        match self {
            Verdict::Equal => Exit::Fine,
            Verdict::Vacuous => Exit::Vacuous,
            Verdict::Open => Exit::Partial,
            Verdict::Different => Exit::Wrong,
        }
    }
}

/// A line for each function, and the verdict on all.
fn show(args: &EquivArgs, findings: &[Finding], terminal: &mut Terminal) -> Result<Exit, Failure> {
    let mut worst = Verdict::Equal;
    for finding in findings {
        let verdict = finding.verdict(args);
        worst = worst.max(verdict);
        terminal.tell(&finding.text(verdict), || finding.object(verdict))?;
    }
    let count = |verdict| findings.iter().filter(|each| each.verdict(args) == verdict).count();
    let (equal, all) = (count(Verdict::Equal), findings.len());
    if all > 1 {
        let text = format!("{}: {equal} of {all} functions are equal\n", worst.word());
        terminal.tell(
            &text,
            || json!({ "type": "summary", "verdict": worst.word(), "equal": equal, "of": all }),
        )?;
    }
    Ok(worst.exit())
}
