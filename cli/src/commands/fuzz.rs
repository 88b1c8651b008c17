//! `relax fuzz`: generated programs against the compiler itself. A finding is made small and written as a
//! program whose header says what does not hold and which command shows it.

use crate::args::{FuzzArgs, FuzzBackend};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_fuzz::{Backend, Found, Oracle, Plan, Statistics, program_of, run, shrink};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Seconds without a number of them or of programs.
const SECONDS: u64 = 60;

pub(super) fn fuzz(args: &FuzzArgs, terminal: &mut Terminal) -> Outcome {
    if args.show {
        terminal.result(&program_of(args.seed))?;
        return Ok(Exit::Fine);
    }
    // Before hours of work whose findings would have no place.
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::usage(format!("cannot make the folder {}: {error}", args.out.display()))
    })?;
    let plan = plan(args);
    let limit = Duration::from_secs(args.seconds.unwrap_or(SECONDS));
    let start = Instant::now();
    let mut go_on = |programs| match args.programs {
        Some(most) => programs < most,
        None => start.elapsed() < limit,
    };
    let mut statistics = Statistics::timed(nanoseconds);
    let findings = run(&plan, &mut go_on, &mut statistics);
    let seconds = start.elapsed().as_secs_f64();
    let mut paths = Vec::new();
    for found in &findings {
        paths.push(write(args, &shrink(found, plan.backend), terminal)?);
    }
    terminal.result(&format!("{statistics}\n"))?;
    terminal
        .note(&format!("{:.0} programs a second", statistics.programs as f64 / seconds.max(1e-9)));
    terminal.detail(&statistics.times.account(statistics.programs, seconds));
    if paths.is_empty() && statistics.compared == 0 {
        terminal.result("nothing compared\n")?;
        return Ok(Exit::Vacuous);
    }
    if paths.is_empty() {
        terminal.result("nothing found\n")?;
        return Ok(Exit::Fine);
    }
    terminal.result(&format!("{} found: {}\n", paths.len(), paths.join(" ")))?;
    Ok(Exit::Wrong)
}

/// Since some start.
fn nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn plan(args: &FuzzArgs) -> Plan {
    let oracles = if args.oracle.is_empty() { Oracle::ALL.to_vec() } else { args.oracle.clone() };
    let backend = match args.backend {
        Some(FuzzBackend::Cpu) => Backend::Cpu,
        Some(FuzzBackend::Interp) | None => Backend::Reference,
    };
    Plan { seed: args.seed, oracles, backend, findings: args.findings.max(1) }
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
    terminal.result(&format!("{text}\n"))?;
    Ok(shown)
}
