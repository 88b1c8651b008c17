//! `relax fuzz`: generated programs against the compiler itself. A finding is made small and written as a
//! program whose header says what does not hold and which command shows it.

mod replay;

use crate::args::{Format, FuzzArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::report::{Finding, show};
use crate::terminal::Terminal;
use relax_fuzz::{Found, Oracle, Plan, Share, Statistics, run, shrink};
use relax_rewrite::pass::Device;
use relax_syntax::span::Source;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Seconds without a number of them or of programs.
const SECONDS: u64 = 60;

pub(super) fn fuzz(args: &FuzzArgs, terminal: &mut Terminal) -> Outcome {
    if let Some(path) = &args.replay {
        return replay::replay(args, path, terminal);
    }
    if args.show {
        let oracle = args.oracle.first().copied().unwrap_or(Oracle::Check);
        terminal.program(&oracle.program(args.seed.unwrap_or(0)))?;
        return Ok(Exit::Fine);
    }
    // Before hours of work whose findings would have no place.
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::usage(format!("cannot make the folder {}: {error}", args.out.display()))
    })?;
    let start = Instant::now();
    let mut statistics = Statistics::timed(nanoseconds);
    let paths = findings(args, start, &mut statistics, terminal)?;
    let seconds = start.elapsed().as_secs_f64();
    let (verdict, exit) = match (paths.is_empty(), statistics.compared) {
        (true, 0) => ("nothing compared".to_owned(), Exit::Vacuous),
        (true, _) => ("nothing found".to_owned(), Exit::Fine),
        (false, _) => (format!("{} found: {}", paths.len(), paths.join(" ")), Exit::Wrong),
    };
    match terminal.format {
        Format::Text => {
            terminal.result(&format!("{statistics}\n"))?;
            let rate = statistics.programs as f64 / seconds.max(1e-9);
            terminal.note(&format!("{rate:.0} programs a second"));
            for (oracle, share) in &statistics.by_oracle {
                terminal.note(&share_text(*oracle, *share));
            }
            terminal.detail(&statistics.times.account(statistics.programs, seconds));
            terminal.result(&format!("{verdict}\n"))?;
        }
        Format::Json => terminal.object(|| summary(&statistics, &verdict, &paths))?,
    }
    Ok(exit)
}

/// Runs programs; findings are shown as they come. The paths of their programs.
fn findings(
    args: &FuzzArgs,
    start: Instant,
    statistics: &mut Statistics,
    terminal: &mut Terminal,
) -> Result<Vec<String>, Failure> {
    // One at a time, so that each is reported before the search goes on.
    let plan = Plan { findings: 1, ..plan(args) };
    let limit = Duration::from_secs(args.seconds.unwrap_or(SECONDS));
    let mut paths = Vec::new();
    while paths.len() < args.findings.max(1) {
        let mut go_on = |programs| {
            let (goes_on, goal) = match args.programs {
                Some(most) => (programs < most, format!(" of {most}")),
                None => (start.elapsed() < limit, format!(", {} s", limit.as_secs())),
            };
            terminal.doing(format!("fuzzing: {programs}{goal}"));
            goes_on
        };
        let found = run(&plan, &mut go_on, statistics);
        if found.is_empty() {
            break;
        }
        for found in &found {
            terminal.doing(format!("shrinking the program of seed {}", found.seed));
            paths.push(write(args, &shrink(found, plan.backend), terminal)?);
        }
    }
    Ok(paths)
}

fn summary(statistics: &Statistics, verdict: &str, paths: &[String]) -> serde_json::Value {
    json!({
        "type": "fuzz",
        "verdict": if paths.is_empty() { verdict } else { "found" },
        "findings": paths,
        "programs": statistics.programs,
        "refused": statistics.refused,
        "calls": statistics.calls,
        "compared": statistics.compared,
        "trapped_alike": statistics.trapped,
        "limits": statistics.exhausted,
        "unsupported": statistics.unsupported,
        "without_inputs": statistics.unfit,
        "twins_refused": statistics.rejected,
        "operators_never_seen": statistics.coverage.missing().len(),
        "oracles": statistics.by_oracle.iter().map(|(oracle, share)| json!({
            "oracle": oracle.name(),
            "programs": share.programs,
            "programs_compared": share.compared,
            "seconds": share.nanoseconds as f64 / 1e9,
            "programs_a_second": share.rate(),
        })).collect::<Vec<_>>(),
    })
}

/// `twins: 197 programs, 195 of them compared, 3.1 s, 64 programs a second`
fn share_text(oracle: Oracle, share: Share) -> String {
    let Share { programs, compared, nanoseconds } = share;
    let (seconds, rate) = (nanoseconds as f64 / 1e9, share.rate().unwrap_or_default());
    format!(
        "{oracle}: {programs} programs, {compared} of them compared, {seconds:.1} s, {rate:.0} programs a second"
    )
}

/// Since some start.
fn nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn plan(args: &FuzzArgs) -> Plan {
    let oracles = if args.oracle.is_empty() { Oracle::ALL.to_vec() } else { args.oracle.clone() };
    let (seed, backend, findings) =
        (args.seed.unwrap_or(0), args.backend.unwrap_or(Device::Interp), args.findings.max(1));
    Plan { seed, oracles, backend, findings }
}

/// Writes the program of a finding; gives the path.
fn write(args: &FuzzArgs, found: &Found, terminal: &mut Terminal) -> Result<String, Failure> {
    let name = format!("fuzz-{}-{}.rx", found.oracle, found.seed);
    let path = args.out.join(name);
    let shown = path.display().to_string();
    let command = found.finding.command.replace("FILE", &shown);
    let why: String =
        found.finding.why.lines().take(30).map(|line| format!("#   {line}\n")).collect();
    let text = format!(
        "# Found by the oracle `{}` with seed {}: {}.\n{why}# Shown by: relax {command}\n\n{}",
        found.oracle, found.seed, found.finding.kind, found.text
    );
    write_whole(&path, text.as_bytes())?;
    if terminal.log().is_some() {
        noted(&path, found, terminal);
    }
    terminal.tell(&format!("{text}\n"), || {
        let why: Vec<&str> = found.finding.why.lines().take(30).collect();
        json!({
            "type": "fuzz_finding",
            "oracle": found.oracle.name(),
            "seed": found.seed,
            "kind": found.finding.kind,
            "why": why.join("\n"),
            "command": format!("relax {command}"),
            "file": shown,
        })
    })?;
    terminal.flush()?;
    Ok(shown)
}

/// A finding for continuous integration: its place is the program that was written.
fn noted(path: &Path, found: &Found, terminal: &mut Terminal) {
    let path: PathBuf = path.components().collect();
    let why: Vec<&str> = found.finding.why.lines().take(30).collect();
    let finding = Finding {
        severity: "error",
        code: format!("fuzz/{}", found.oracle),
        message: format!("{}: {}", found.finding.kind, why.join("\n")),
        primary: None,
        secondary: Vec::new(),
        notes: vec![format!("seed {}", found.seed)],
        help: Some(format!("relax fuzz --replay {}", path.display())),
        fix: None,
    };
    show(terminal, &Source::new(path.display().to_string(), ""), &[finding]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command;

    #[test]
    fn an_oracle_tells_what_it_compared_and_how_quickly() {
        let share = Share { programs: 3, compared: 2, nanoseconds: 1_500_000_000 };
        assert_eq!(
            share_text(Oracle::Vm, share),
            "vm: 3 programs, 2 of them compared, 1.5 s, 2 programs a second"
        );
        let mut statistics = Statistics::default();
        statistics.by_oracle.insert(Oracle::Vm, share);
        let told = &summary(&statistics, "nothing found", &[])["oracles"];
        let expected = json!([{
            "oracle": "vm",
            "programs": 3,
            "programs_compared": 2,
            "seconds": 1.5,
            "programs_a_second": 2.0,
        }]);
        assert_eq!(*told, expected);
    }

    /// A finding as a log for continuous integration has it.
    fn log_of(format: &str) -> String {
        let words = ["relax", "fuzz", "--format", format];
        let matches = command().try_get_matches_from(words).expect("it parses");
        let cli = <crate::args::Cli as clap::FromArgMatches>::from_arg_matches(&matches);
        let mut terminal = Terminal::new(&cli.expect("it parses").global);
        let finding = relax_fuzz::Finding::new("value", "expected 1,\nfound 2", "diff FILE");
        let found = Found { oracle: Oracle::Vm, seed: 7, text: "def main".to_owned(), finding };
        noted(Path::new("found/fuzz-vm-7.rx"), &found, &mut terminal);
        terminal.log().expect("findings go to a log").text()
    }

    #[test]
    fn findings_are_told_to_continuous_integration() {
        let sarif: serde_json::Value = serde_json::from_str(&log_of("sarif")).expect("JSON");
        let result = &sarif["runs"][0]["results"][0];
        assert_eq!(result["ruleId"], "fuzz/vm");
        assert_eq!(result["level"], "error");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "found/fuzz-vm-7.rx");
        assert_eq!(place["region"], serde_json::Value::Null, "it is about the whole program");
        let text = result["message"]["text"].as_str().expect("a text");
        assert!(text.contains("found 2") && text.contains("fuzz --replay found/fuzz-vm-7.rx"));
        assert_eq!(
            log_of("github"),
            "::error file=found/fuzz-vm-7.rx,title=fuzz/vm::value: expected 1,%0Afound 2%0Aseed 7%0AHelp: \
             relax fuzz --replay found/fuzz-vm-7.rx\n"
        );
    }
}
