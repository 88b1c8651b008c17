//! How much of what the compiler makes of the corpus is proved: the shares on record may only rise, of each program. A sample of the
//! programs is certified, and the certificates are verified, with each commit another one. `RELAX_WHOLE=1 RELAX_BLESS=1` writes the record; with
//! `-- --nocapture` the tables are shown.

use relax_corpus::files;
use relax_corpus::par_map::par_map_chunks;
use relax_corpus::sample::{Sample, is_whole};
use relax_lower::certify::Stages;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::run;
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::span::Source;
use relax_validation::certificate::{Certificate, Header};
use relax_validation::check::verify;
use relax_validation::derive::Counts;
use relax_validation::obligation::{Kind, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One program in so many is certified.
const CERTIFIED: usize = 4;

/// Where the record stands.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certified.txt");

/// Obligations of memory that are refuted, with the mistake of each program.
const REFUTED: &str = include_str!("refuted_memory.txt");

/// What came of some programs.
#[derive(Default)]
struct Sum {
    programs: usize,
    counts: Counts,
    /// By file.
    by_file: BTreeMap<String, Counts>,
    /// For each pass how its obligations ended, proofs as such and all else by its reason.
    passes_by: BTreeMap<String, BTreeMap<String, usize>>,
    /// Of all that the planner placed, none may be open.
    planned_open: Vec<String>,
    /// Obligations of memory that fail for some dims.
    refuted: BTreeSet<String>,
    passes: Duration,
    certifying: Duration,
    verifying: Duration,
    bytes: usize,
}

#[test]
fn shares_of_what_is_proved_only_rise() {
    let mut sum = Sum::default();
    let sample = Sample::of("programs that are certified", CERTIFIED);
    let programs: Vec<PathBuf> = sample.take(files::programs()).collect();
    let names: BTreeSet<String> = programs.iter().map(|path| files::name(path)).collect();
    for share in par_map_chunks(programs, |files| of_files(&files)) {
        sum.programs += share.programs;
        sum.counts.add(&share.counts);
        sum.by_file.extend(share.by_file);
        for (pass, ends) in share.passes_by {
            let own = sum.passes_by.entry(pass).or_default();
            ends.into_iter().for_each(|(end, count)| *own.entry(end).or_default() += count);
        }
        sum.planned_open.extend(share.planned_open);
        sum.refuted.extend(share.refuted);
        sum.passes += share.passes;
        sum.certifying += share.certifying;
        sum.verifying += share.verifying;
        sum.bytes += share.bytes;
    }
    println!("{}", times(&sum));
    println!("{}", record(&sum.counts));
    println!("{}", by_pass(&sum.passes_by));
    assert!(sum.planned_open.is_empty(), "plans that are not proved: {:#?}", sum.planned_open);
    held(&sum);
    let is_tried =
        |line: &&str| line.split_once(": ").is_some_and(|(file, _)| names.contains(file));
    let known = REFUTED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let known: BTreeSet<&str> = known.filter(is_tried).collect();
    let found: BTreeSet<&str> = sum.refuted.iter().map(String::as_str).collect();
    assert_eq!(found, known, "refuted obligations of memory are others than the explained ones");
}

fn times(sum: &Sum) -> String {
    let Sum { programs, passes, certifying, verifying, bytes, .. } = sum;
    format!(
        "{programs} programs: passes {passes:.1?}, certifying {certifying:.1?}, verifying {verifying:.1?}, {bytes} bytes"
    )
}

fn of_files(files: &[PathBuf]) -> Sum {
    let mut sum = Sum::default();
    for path in files {
        if let Some(certificate) = of_file(path, &mut sum) {
            verify_one(path, &certificate, &mut sum);
        }
    }
    sum
}

/// The certificate of a program; some stand in the corpus because they are no text, or are refused.
fn of_file(path: &Path, sum: &mut Sum) -> Option<Certificate> {
    let text = std::fs::read_to_string(path).ok()?;
    let program = Program::load(Source::new("corpus", text.as_str()));
    let input = well_formed_part(&program);
    if input.definitions.is_empty() {
        return None;
    }
    let start = Instant::now();
    let mut stages = Stages::of(&input);
    let (route, settings) = (PIPELINE.to(Phase::P21), Settings::default());
    let output = run(&input, &route, &settings, &mut Prover::new(), &mut stages).ok()?;
    stages.end(&output);
    sum.passes += start.elapsed();
    let start = Instant::now();
    let header = Header { route: "P2.1".to_owned(), target: "cpu".to_owned(), tested: 0 };
    let certificate = stages.certified(header).expect("what is printed reads back");
    sum.certifying += start.elapsed();
    sum.programs += 1;
    note_passes(&certificate, &mut sum.passes_by);
    let refuted = certificate
        .obligations
        .iter()
        .filter(|each| each.kind == Kind::Memory && matches!(each.outcome, Outcome::Refuted(_)));
    let name = files::name(path);
    sum.refuted.extend(refuted.map(|each| format!("{name}: {each}: {}", each.why())));
    let counts = Counts::of(&certificate.obligations);
    sum.counts.add(&counts);
    sum.by_file.insert(files::name(path), counts);
    if Phase::of_module(&input) == Ok(Phase::Surface) {
        note_plans(path, &certificate, &mut sum.planned_open);
    }
    Some(certificate)
}

fn verify_one(path: &Path, certificate: &Certificate, sum: &mut Sum) {
    // What is refuted is wrong in the text of a person: such programs stand in the corpus.
    let refuted =
        certificate.obligations.iter().any(|each| matches!(each.outcome, Outcome::Refuted(_)));
    let text = certificate.text();
    sum.bytes += text.len();
    let start = Instant::now();
    let verified = verify(&text, Some(&stages_output(certificate)));
    sum.verifying += start.elapsed();
    match verified {
        Ok(verified) => {
            assert_eq!(verified.obligations, certificate.obligations, "{}", path.display())
        }
        Err(why) => assert!(refuted, "{}: {why}", path.display()),
    }
}

fn stages_output(certificate: &Certificate) -> String {
    certificate.stages.last().expect("a run has a stage").text.clone()
}

/// How a proof is told from reasons.
const PROVED: &str = "proved";

fn note_passes(certificate: &Certificate, by: &mut BTreeMap<String, BTreeMap<String, usize>>) {
    for each in certificate.obligations.iter().filter(|each| each.kind == Kind::Pass) {
        let end = match &each.outcome {
            Outcome::Proved | Outcome::Trusted => PROVED.to_owned(),
            // Names of values differ from program to program.
            _ => each.why().chars().take_while(|c| !c.is_ascii_digit()).take(60).collect(),
        };
        *by.entry(each.place.clone()).or_default().entry(end).or_default() += 1;
    }
}

/// For each pass how much is proved, and what else is most frequent.
fn by_pass(passes: &BTreeMap<String, BTreeMap<String, usize>>) -> String {
    let mut text = String::new();
    for (pass, ends) in passes {
        let (proved, all) = (ends.get(PROVED).copied().unwrap_or(0), ends.values().sum::<usize>());
        let mut others: Vec<_> = ends.iter().filter(|(end, _)| *end != PROVED).collect();
        others.sort_by_key(|(end, count)| (std::cmp::Reverse(**count), *end));
        let others = others.iter().take(6).map(|(end, count)| format!("{count} {end}"));
        let others: Vec<String> = others.collect();
        let _ = writeln!(text, "{pass:<34}{proved:>6} of {all:<6}{}", others.join("; "));
    }
    text
}

/// Obligations of memory that are open though the text was written without storages.
fn note_plans(path: &Path, certificate: &Certificate, open: &mut Vec<String>) {
    let by_hand = certificate.stages[0].text.contains("alloc_storage");
    for each in certificate.obligations.iter().filter(|each| each.kind == Kind::Memory && !by_hand)
    {
        // What kernels read is theirs to show.
        if each.outcome != Outcome::Proved && each.what != "is written before it is read" {
            open.push(format!("{}: {each}: {}", files::name(path), each.why()));
        }
    }
}

/// The shares as they are recorded: for each kind how many obligations ended how.
fn record(counts: &Counts) -> String {
    let mut text =
        "kind      proved (rules)   proved (z3)      unproved       refuted   share proved\n"
            .to_owned();
    for kind in counts.kinds() {
        let _ = write!(text, "{:<8}", kind.name());
        for word in Outcome::WORDS {
            let _ = write!(text, "{:>14}", counts.count(kind, word));
        }
        let _ = writeln!(text, "{:>13}.{} %", share(counts, kind) / 10, share(counts, kind) % 10);
    }
    text
}

/// How many obligations of a kind are proved.
fn proved(counts: &Counts, kind: Kind) -> usize {
    counts.count(kind, Outcome::Proved.word()) + counts.count(kind, Outcome::Trusted.word())
}

/// Thousandths that are proved, rounded down.
fn share(counts: &Counts, kind: Kind) -> usize {
    proved(counts, kind) * 1000 / counts.all(kind).max(1)
}

/// A program in the record: of each kind how many are proved, and of how many.
fn line(file: &str, counts: &Counts) -> String {
    let of = |kind| format!("{} of {}", proved(counts, kind), counts.all(kind));
    let kinds: Vec<String> =
        counts.kinds().map(|kind| format!("{} {}", kind.name(), of(kind))).collect();
    format!("{file}: {}\n", kinds.join(", "))
}

fn held(sum: &Sum) {
    if std::env::var_os("RELAX_BLESS").is_some() {
        assert!(is_whole(), "the record is of all programs: RELAX_WHOLE=1 RELAX_BLESS=1");
        let programs: String =
            sum.by_file.iter().map(|(file, counts)| line(file, counts)).collect();
        let text = format!("{}\n{programs}", record(&sum.counts));
        std::fs::write(RECORD, text).expect("the record is written");
        return;
    }
    let text = std::fs::read_to_string(RECORD).expect("there is a record");
    let (mut fallen, mut compared) = (Vec::new(), 0);
    for known in text.lines().filter(|line| line.contains(": ")) {
        let (file, kinds) = known.split_once(": ").expect("invariant: it was looked for");
        let Some(counts) = sum.by_file.get(file) else { continue };
        for (kind, part) in Kind::ALL.into_iter().zip(kinds.split(", ")) {
            let words: Vec<&str> = part.split(' ').collect();
            let [name, proved_then, "of", all_then] = words[..] else { panic!("{known}") };
            assert_eq!(name, kind.name(), "{known}");
            let number = |text: &str| text.parse::<usize>().expect("the record has numbers");
            let (then, all_then) = (number(proved_then), number(all_then));
            compared += 1;
            // As fractions, without rounding.
            if proved(counts, kind) * all_then < then * counts.all(kind) {
                fallen.push(format!("{known}\n  is now {}", line(file, counts).trim_end()));
            }
        }
    }
    assert!(fallen.is_empty(), "less is proved than on record:\n{}", fallen.join("\n"));
    assert!(compared > 3 * sum.programs * 9 / 10, "{compared} of {} are on record", sum.programs);
    if is_whole() {
        assert_eq!(
            text.split("\n\n").next().map(|table| format!("{table}\n")),
            Some(record(&sum.counts)),
            "RELAX_WHOLE=1 RELAX_BLESS=1"
        );
    }
}
