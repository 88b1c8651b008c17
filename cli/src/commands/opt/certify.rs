//! `relax opt --certify`: the program with a certificate of how it was made.

use crate::args::OptArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use clap::ValueEnum;
use relax_corpus::pipeline::print;
use relax_lower::certify::Stages;
use relax_syntax::ir::Module;
use relax_validation::certificate::Header;
use relax_validation::derive::Counts;
use relax_validation::obligation::Outcome as Ended;
use relax_validation::report;

pub(super) fn certify(
    mut stages: Stages,
    module: &Module,
    tested: u64,
    args: &OptArgs,
    terminal: &mut Terminal,
) -> Outcome {
    stages.end(module);
    let header = Header { route: route(args), target: name(&args.target), tested };
    let certificate = stages.certified(header).map_err(|why| {
        let text = format!("a program that was made does not read back: {why}");
        Failure::Message { exit: Exit::Internal, text }
    })?;
    let is_refuted = |ended: &Ended| matches!(ended, Ended::Refuted(_));
    let refuted = certificate.obligations.iter().filter(|each| is_refuted(&each.outcome));
    let refuted: Vec<String> =
        refuted.map(|each| format!("error: {each}: {}\n", each.why())).collect();
    if !refuted.is_empty() {
        terminal.message(refuted.concat().as_bytes());
        return Ok(Exit::Wrong);
    }
    for line in report::unproved(&certificate.obligations) {
        terminal.detail(&line);
    }
    let table = report::table(&Counts::of(&certificate.obligations), tested);
    terminal.message(table.as_bytes());
    for (path, text) in [(&args.output, print(module)), (&args.certificate, certificate.text())] {
        let path = path.as_ref().expect("invariant: --certify requires both");
        write_whole(path, text.as_bytes())?;
    }
    Ok(Exit::Fine)
}

fn route(args: &OptArgs) -> String {
    match &args.passes {
        Some(passes) => passes.join(","),
        None => name(&args.to),
    }
}

/// As the command line has it.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
