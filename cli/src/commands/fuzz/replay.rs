//! `relax fuzz --replay`: checks the program of a finding again, by the oracle that its header names.

use crate::args::FuzzArgs;
use crate::commands::loading::load_text;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::shown_name;
use crate::terminal::Terminal;
use relax_fuzz::{Oracle, Replayed, Statistics, replay as check};
use relax_rewrite::pass::Device;
use serde_json::json;
use std::path::Path;

/// How the header of a finding begins.
const FOUND_BY: &str = "# Found by the oracle `";

pub(super) fn replay(args: &FuzzArgs, path: &Path, terminal: &mut Terminal) -> Outcome {
    // What is wrong with the program is shown; a panic of the check is a finding that only its oracle shows.
    let Some(program) = load_text(path, terminal)? else { return Ok(Exit::Wrong) };
    let text = &program.source.text;
    let (oracles, seed) = asked(args, path, text)?;
    let mut exit = Exit::Fine;
    for oracle in oracles {
        terminal.doing(format!("checking the oracle {oracle}"));
        let mut statistics = Statistics::default();
        let found = match check(
            text,
            (oracle, seed),
            args.backend.unwrap_or(Device::Interp),
            &mut statistics,
        ) {
            Replayed::Refused => return Err(refused(path)),
            Replayed::Holds => None,
            Replayed::Found(finding) => Some(finding),
        };
        let text = match &found {
            None => format!("{oracle}: nothing found\n"),
            Some(finding) => format!("{oracle}: {}\n{}\n", finding.kind, finding.why.trim_end()),
        };
        terminal.tell(&text, || {
            json!({
                "type": "replay",
                "file": shown_name(path),
                "oracle": oracle.name(),
                "seed": seed,
                "verdict": if found.is_some() { "found" } else { "nothing found" },
                "kind": found.as_ref().map(|finding| &finding.kind),
                "why": found.as_ref().map(|finding| &finding.why),
            })
        })?;
        if found.is_some() {
            exit = Exit::Wrong;
        }
    }
    Ok(exit)
}

fn refused(path: &Path) -> Failure {
    let text = format!("{}: the checker refuses this program", shown_name(path));
    Failure::Message { exit: Exit::Wrong, text }
}

/// The oracles and the seed: of the header, where the command line does not give them.
fn asked(args: &FuzzArgs, path: &Path, text: &str) -> Result<(Vec<Oracle>, u64), Failure> {
    let header = header(text);
    let oracles = match (args.oracle.as_slice(), header) {
        ([], Some((oracle, _))) => vec![oracle],
        ([], None) => {
            return Err(Failure::usage(format!(
                "{}: its first line names no oracle, as that of a finding does (\"{FOUND_BY}print` with seed 7\"); give \
                 --oracle and --seed",
                shown_name(path)
            )));
        }
        (given, _) => given.to_vec(),
    };
    Ok((oracles, args.seed.or(header.map(|(_, seed)| seed)).unwrap_or(0)))
}

/// ``# Found by the oracle `print` with seed 7: …``
fn header(text: &str) -> Option<(Oracle, u64)> {
    let (oracle, rest) = text.lines().next()?.strip_prefix(FOUND_BY)?.split_once('`')?;
    let (seed, _) = rest.strip_prefix(" with seed ")?.split_once(':')?;
    Some((oracle.parse().ok()?, seed.parse().ok()?))
}
