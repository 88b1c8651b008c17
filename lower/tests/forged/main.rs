//! A checker that accepts a wrong certificate is the worst mistake that this project can make. So certificates,
//! programs and plans are corrupted in more than a thousand ways, by fixed seeds. What is accepted all the same must be
//! harmless, and is counted.

mod lines;
mod parts;
mod programs;
mod random;
mod rules;
mod shown;
mod stages;
mod used_rules;

use relax_corpus::files;
use relax_lower::certify::Stages;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_proofs::check;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::run;
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use relax_validation::RULES;
use relax_validation::certificate::{Certificate, Header};
use relax_validation::check::{Verified, verify};

/// Programs with branches, graphs of functions, plans that reuse bytes, and kernels of several kinds.
const PROGRAMS: [&str; 6] = [
    "models/mlp.rx",
    "models/attention.rx",
    "models/decode_q4_mlp.rx",
    "suite/probes/if_temps.rx",
    "models/layer_norm_f16.rx",
    "paper/decode_q4_initial.rx",
];

/// A compilation that is certified.
struct Compiled {
    name: &'static str,
    input: Module,
    output: Module,
    certificate: Certificate,
    text: String,
    verified: Verified,
}

fn header() -> Header {
    Header { route: "P2.1".to_owned(), target: "cpu".to_owned(), tested: 0 }
}

fn compiled(name: &'static str) -> Compiled {
    let text = std::fs::read_to_string(files::root().join(name)).expect("the program is there");
    let input = Program::load(Source::new(name, text.as_str())).module;
    let mut stages = Stages::of(&input);
    let (route, settings) = (PIPELINE.to(Phase::P21), Settings::default());
    let output = run(&input, &route, &settings, &mut Prover::new(), &mut stages);
    let output = output.expect("the program is well-formed");
    stages.end(&output);
    let certificate = stages.certified(header()).expect("what is printed reads back");
    let text = certificate.text();
    let verified = verify(&text, None).expect("a certificate as it is written is accepted");
    Compiled { name, input, output, certificate, text, verified }
}

impl Compiled {
    /// Whether what was accepted says the same of the same program: then what was changed is no part of it.
    fn is_same(&self, verified: &Verified) -> bool {
        verified.output == self.verified.output && verified.obligations == self.verified.obligations
    }
}

#[test]
fn corrupted_certificates_are_refused() {
    let (mut refused, mut harmless) = (0, 0);
    for name in PROGRAMS {
        let compiled = compiled(name);
        let (no, yes) = lines::corrupt(&compiled);
        refused += no;
        harmless += yes;
    }
    println!(
        "certificates: {refused} refused, {harmless} accepted that say the same of the same program"
    );
    assert!(refused >= 1_000, "only {refused} were refused");
}

#[test]
fn corrupted_rules_are_refused() {
    let (mutants, proofs) = (rules::mutants(), rules::proofs());
    assert!(!proofs.is_empty(), "no proof uses rules");
    for proof in &proofs {
        assert!(check(proof, Some(RULES)).is_ok(), "{proof}");
        for mutant in &mutants {
            assert!(rules::is_refused(proof, mutant), "{proof}\n{mutant}");
        }
    }
    println!(
        "rules: {} wrong files, under each of which {} proofs are refused",
        mutants.len(),
        proofs.len()
    );
    assert!(mutants.len() >= 100, "only {} wrong files", mutants.len());
}

#[test]
fn corrupted_programs_are_refused() {
    let mut all = programs::Tally::default();
    for name in PROGRAMS {
        programs::corrupt(&compiled(name), &mut all);
    }
    println!("programs: {all}");
    assert!(all.wrong >= 150, "only {} are wrong", all.wrong);
}
