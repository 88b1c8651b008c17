//! `relax grad`: a program with the gradients of its loss.

use super::loading::{Given, load};
use super::opt::failed_run;
use crate::args::GradArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_program::frontend::{Program, print};
use relax_rewrite::passes::bind_params::entry;
use relax_rewrite::passes::gradient::Options;
use relax_rewrite::pipeline::leads_back;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_train::differentiated;

pub(super) fn grad(args: &GradArgs, terminal: &mut Terminal) -> Outcome {
    let Some(Given { program, .. }) = load(&args.file, &args.model, terminal)? else {
        return Ok(Exit::Wrong);
    };
    if let Some(back) = leads_back(&program.module, Phase::P0) {
        return Ok(show_diagnostics(terminal, &program.source, &[back]));
    }
    let options = options(&program, args.func.as_deref(), &args.wrt)?;
    match differentiated(&program.module, options) {
        Ok(module) => {
            let text = print(&module);
            match &args.output {
                Some(path) => write_whole(path, text.as_bytes())?,
                None => terminal.program(&text)?,
            }
            Ok(Exit::Fine)
        }
        Err(failed) => failed_run(&failed, &program, terminal),
    }
}

/// What is differentiated: the named function, or the entry of the program.
pub(super) fn options(
    program: &Program,
    function: Option<&str>,
    wrt: &[String],
) -> Result<Options, Failure> {
    let function = match function {
        Some(name) => Name::new(name),
        None => entry(&program.module).map(|entry| entry.name.clone()).ok_or_else(|| {
            Failure::usage("the program has no `main` and not one public function: name one")
        })?,
    };
    Ok(Options { function: Some(function), wrt: wrt.iter().map(Name::new).collect() })
}
