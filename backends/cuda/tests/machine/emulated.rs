//! The same tests through the driver's code (`driver.rs`, `cublas.rs`, `nvrtc.rs`) on an emulated CUDA: a process of its own runs
//! them, which finds the emulated libraries, with `RELAX_ON_DRIVER` set.

use super::emulator::{Emulator, Report};

/// Runs tests of this program by parts of their names, all of which pass; none where CUDA cannot be emulated.
fn run(names: &[&str], lacks: &str) -> Option<Report> {
    let emulator = Emulator::build()?;
    let mut command = emulator.command(std::env::current_exe().expect("this program"));
    command.args(names).args(["--nocapture", "--test-threads=1"]).env("RELAX_ON_DRIVER", "1");
    let (output, report) = emulator.watch(command.env("EMULATED_CUBLAS_LACKS", lacks));
    let said = String::from_utf8_lossy(&output.stderr);
    eprintln!("{}{report:#?}", said);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(report.lines, [""; 0], "what was refused, or left behind");
    Some(report)
}

/// How often each of these was.
fn counts<const N: usize>(report: &Report, names: [&str; N]) -> [u64; N] {
    names.map(|name| report.count(name))
}

#[test]
fn the_corpus_passes_on_an_emulated_driver() {
    let Some(report) = run(&["the_processor_runs_the_text"], "") else { return };
    let [contexts, modules, launches] = counts(&report, ["contexts", "modules", "launches"]);
    // One of each for a file.
    assert!(contexts == modules && modules >= 15 && launches > 140, "{report:?}");
}

#[test]
fn what_is_copied_and_recorded_is_the_same_on_an_emulated_driver() {
    let Some(report) = run(&["copies::"], "") else { return };
    // Three graphs were recorded, one of them replayed twice and another once.
    assert_eq!(counts(&report, ["contexts", "captures", "graphs", "replays"]), [11, 3, 3, 3]);
}

#[test]
fn products_are_the_same_on_an_emulated_driver() {
    let Some(report) = run(&["products::"], "5") else { return };
    let [libraries, products, heuristics] =
        counts(&report, ["libraries", "products", "heuristics"]);
    assert!(libraries > 30 && products > 60 && heuristics > products, "{report:?}");
}
