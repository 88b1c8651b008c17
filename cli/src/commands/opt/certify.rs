//! `relax opt --certify`: the program with a certificate of how it was made.

use crate::args::{OptArgs, Phase};
use crate::commands::certified::certificate;
use crate::exit::{Exit, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use clap::ValueEnum;
use relax_lower::certify::Stages;
use relax_program::frontend::print;
use relax_syntax::ir::Module;
use relax_validation::certificate::Header;

pub(super) fn certify(
    mut stages: Stages,
    module: &Module,
    tested: u64,
    args: &OptArgs,
    terminal: &mut Terminal,
) -> Outcome {
    stages.end(module);
    let header = Header { route: route(args), target: args.target.name().to_owned(), tested };
    let Some(certificate) = certificate(&stages, header, terminal)? else {
        return Ok(Exit::Wrong);
    };
    for (path, text) in [(&args.output, print(module)), (&args.certificate, certificate.text())] {
        let path = path.as_ref().expect("invariant: --certify requires both");
        write_whole(path, text.as_bytes())?;
    }
    Ok(Exit::Fine)
}

fn route(args: &OptArgs) -> String {
    match &args.passes {
        Some(passes) => passes.join(","),
        None => name(&args.to.unwrap_or(Phase::P0)),
    }
}

/// As the command line has it.
pub(super) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
