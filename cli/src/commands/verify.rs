//! `relax verify`: certificates, replayed by a checker that knows nothing of the prover.

use super::at_most_one_stdin;
use super::numerics;
use super::run::loaded;
use crate::args::{Format, VerifyArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{is_module, read_text, shown_name};
use crate::terminal::Terminal;
use relax_program::frontend::{Program, print};
use relax_proofs::Outcome::{Proved, Trusted};
use relax_proofs::{Checked, Refused, check_all};
use relax_runtime::file::{Image, ModuleFile};
use relax_syntax::span::Source;
use relax_validation::certificate::Header;
use relax_validation::check::{Verified, is_compilation};
use relax_validation::derive::Counts;
use relax_validation::obligation::{Kind, Obligation, Outcome as Ended};
use relax_validation::ranks::RANKS;
use relax_validation::report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The text of the rules that certificates may use.
const RULES: Option<&str> = Some(relax_symbolic::RULES);

/// What comes after the last program of a certificate, and is trusted.
const NOT_COVERED: [&str; 4] = ["the VM's code", "the C source", "the C compiler", "machine code"];

/// The same of a certificate of what ranks run.
const NOT_COVERED_OF_RANKS: [&str; 3] =
    ["how arguments are cut", "rounding", "the compilation of the local program"];

fn not_covered(route: &str) -> &'static [&'static str] {
    if route == RANKS { &NOT_COVERED_OF_RANKS } else { &NOT_COVERED }
}

pub(super) fn verify(args: &VerifyArgs, terminal: &mut Terminal) -> Outcome {
    at_most_one_stdin(args.files.iter().map(AsRef::as_ref))?;
    let mut exit = Exit::Fine;
    for path in &args.files {
        let name = shown_name(path);
        terminal.doing(format!("verifying {name}"));
        if is_module(path)? {
            exit = worse(exit, of_module(&name, path, args, terminal)?);
            continue;
        }
        let text = read_text(path)?;
        if is_compilation(&text) {
            exit = worse(exit, compilation(&name, &text, None, args, terminal)?);
            continue;
        }
        for result in check_all(&text, RULES) {
            let accepted = match &result {
                Ok(checked) => checked.outcome == Proved || args.trust.is_some(),
                Err(_) => false,
            };
            if !accepted {
                exit = Exit::Wrong;
            }
            match terminal.format {
                Format::Json => terminal.result(&format!("{}\n", json_of(&name, &result)))?,
                Format::Text => show(&name, &result, accepted, terminal)?,
            }
        }
    }
    Ok(exit)
}

/// Of several files the worst counts: what is refused, then what is partial.
fn worse(left: Exit, right: Exit) -> Exit {
    match (left, right) {
        (Exit::Fine, other) | (other, Exit::Fine) => other,
        (Exit::Partial, Exit::Partial) => Exit::Partial,
        _ => Exit::Wrong,
    }
}

/// The certificate in a module file, which is about the source in it.
fn of_module(name: &str, path: &Path, args: &VerifyArgs, terminal: &mut Terminal) -> Outcome {
    let file = loaded(ModuleFile::open(path), name)?;
    let image = loaded(Image::from_bytes(file.bytes()), name)?;
    if image.certificate.is_empty() {
        let text =
            format!("error: {name}: there is no certificate in it: build it with --certify\n");
        terminal.message(text.as_bytes());
        return Ok(Exit::Wrong);
    }
    let source = Source::new(image.metadata.source_name, image.source);
    let input = print(&Program::load(source).module);
    let about = About { input: &input, route: numerics::route(image.metadata.numerics) };
    compilation(name, &image.certificate, Some(&about), args, terminal)
}

/// What the certificate in a module file must be about.
struct About<'a> {
    input: &'a str,
    /// The numerics of the file, as certificates say it.
    route: &'a str,
}

/// The certificate of a compilation, and of this program, where one is given.
fn compilation(
    name: &str,
    text: &str,
    about: Option<&About>,
    args: &VerifyArgs,
    terminal: &mut Terminal,
) -> Outcome {
    let program = args.program.as_ref().map(|path| read_text(path)).transpose()?;
    let verified = relax_validation::check::verify(text, program.as_deref());
    let verified = verified.and_then(|verified| match about {
        Some(about) if verified.input != about.input => {
            Err("the certificate is about another source than that of the file".to_owned())
        }
        Some(About { route, .. }) if verified.header.route != *route => Err(format!(
            "the certificate is about `{}`, and the numerics of the file are those of `{route}`",
            verified.header.route
        )),
        _ => Ok(verified),
    });
    let verified = match verified {
        Ok(verified) => verified,
        Err(why) if terminal.format == Format::Json => {
            let line = json!({ "file": name, "verdict": "refused", "why": why });
            terminal.result(&format!("{line}\n"))?;
            return Ok(Exit::Wrong);
        }
        Err(why) => {
            terminal.message(format!("error: {name}: {why}\n").as_bytes());
            return Ok(Exit::Wrong);
        }
    };
    let counts = Counts::of(&verified.obligations);
    let is_open = |each: &&Obligation| !matches!(each.outcome, Ended::Proved | Ended::Trusted);
    let open: Vec<_> = verified.obligations.iter().filter(is_open).collect();
    tell(name, &verified, &open, terminal)?;
    let trusts = Kind::ALL.into_iter().any(|kind| counts.count(kind, Ended::Trusted.word()) > 0);
    if args.trust.is_none() && trusts {
        terminal
            .message(format!("error: {name}: trusted only; --trust z3 accepts it\n").as_bytes());
        return Ok(Exit::Wrong);
    }
    Ok(if open.is_empty() { Exit::Fine } else { Exit::Partial })
}

/// The verdict on a certificate that holds, and its open obligations.
fn tell(
    name: &str,
    verified: &Verified,
    open: &[&Obligation],
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let counts = Counts::of(&verified.obligations);
    let all: usize = Kind::ALL.into_iter().map(|kind| counts.all(kind)).sum();
    let verdict = if open.is_empty() { "verified" } else { "partial" };
    let Header { route, target, tested } = &verified.header;
    if terminal.format == Format::Json {
        let of = |kind: Kind| {
            let each = Ended::WORDS.iter().map(|word| (*word, counts.count(kind, word)));
            (kind.name(), each.collect::<BTreeMap<_, _>>())
        };
        let obligations: BTreeMap<_, _> = counts.kinds().map(of).collect();
        let line = json!({
            "file": name,
            "verdict": verdict,
            "proved": all - open.len(),
            "of": all,
            "open": open.iter().map(|each| report::line(each)).collect::<Vec<_>>(),
            "not_covered": not_covered(route),
            "route": route,
            "target": target,
            "tested": tested,
            "claims": verified.claims,
            "obligations": obligations,
        });
        return terminal.result(&format!("{line}\n"));
    }
    let claims = verified.claims;
    let extent = match open.len() {
        0 => String::new(),
        open => format!("{} of {all}, ", all - open),
    };
    let head = format!("{verdict}: {extent}{route} for {target}, by {claims} proofs on dims\n");
    terminal.result(&format!("{head}{}", report::table(&counts, *tested)))?;
    for each in open {
        terminal.result(&format!("{}\n", report::line(each)))?;
    }
    terminal.result(&format!("not covered: {}\n", not_covered(route).join(", ")))?;
    for each in verified.obligations.iter().filter(|each| matches!(each.outcome, Ended::Trusted)) {
        terminal.detail(&report::line(each));
    }
    Ok(())
}

type Replayed = Result<Checked, Refused>;

/// `accepted` is false for what is refused, and for what is trusted where nothing shall be.
fn show(
    name: &str,
    result: &Replayed,
    accepted: bool,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let line = match result {
        Ok(checked) => text_of(checked),
        Err(Refused { line, why }) => {
            terminal.message(format!("error: {name}:{line}: {why}\n").as_bytes());
            return Ok(());
        }
    };
    terminal.result(&line)?;
    if !accepted {
        terminal
            .message(format!("error: {name}: trusted only; --trust z3 accepts it\n").as_bytes());
    }
    Ok(())
}

fn text_of(checked: &Checked) -> String {
    let hypotheses = checked.hypotheses.join(", ");
    let space = if hypotheses.is_empty() { "" } else { " " };
    let statement = format!("{hypotheses}{space}|- {}", checked.goal);
    match &checked.outcome {
        Proved => {
            let steps = checked.steps;
            format!("verified: {statement}  ({steps} step{})\n", if steps == 1 { "" } else { "s" })
        }
        Trusted { solver, version, rlimit, .. } => {
            format!("trusted ({solver} {version}, rlimit {rlimit}): {statement}\n")
        }
    }
}

fn json_of(name: &str, result: &Replayed) -> Value {
    let checked = match result {
        Ok(checked) => checked,
        Err(Refused { line, why }) => {
            return json!({ "file": name, "verdict": "refused", "line": line, "why": why });
        }
    };
    let mut object = json!({
        "file": name,
        "verdict": "verified",
        "hypotheses": checked.hypotheses,
        "goal": checked.goal,
        "steps": checked.steps,
        "rules_used": checked.rules_used,
    });
    if let Trusted { solver, version, rlimit, question } = &checked.outcome {
        object["verdict"] = json!("trusted");
        object["solver"] = json!(solver);
        object["version"] = json!(version);
        object["rlimit"] = json!(rlimit);
        object["question"] = json!(question);
    }
    object
}
