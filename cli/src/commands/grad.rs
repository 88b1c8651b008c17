//! `relax grad`: a program with the gradients of its loss.

use super::loading::{Given, load};
use super::opt::{failed_run, memory::given};
use super::run::size;
use crate::args::GradArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_driver::Target;
use relax_program::frontend::{Program, print};
use relax_rewrite::pass::Device;
use relax_rewrite::passes::bind_params::entry;
use relax_rewrite::passes::gradient::Options;
use relax_rewrite::pipeline::{Failed, leads_back};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_train::{Budget, BudgetError, Recomputing, differentiated, differentiated_within};

pub(super) fn grad(args: &GradArgs, terminal: &mut Terminal) -> Outcome {
    let Some(Given { program, .. }) = load(&args.file, &args.model, terminal)? else {
        return Ok(Exit::Wrong);
    };
    if let Some(back) = leads_back(&program.module, Phase::P0) {
        return Ok(show_diagnostics(terminal, &program.source, &[back]));
    }
    let options = options(&program, args.func.as_deref(), &args.wrt)?;
    let made = match &args.memory {
        None => differentiated(&program.module, options),
        Some(memory) => within(&program, &options, (memory, &args.sym), terminal)?,
    };
    match made {
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

/// The adjoint within a budget of memory. What it takes is reported.
fn within(
    program: &Program,
    options: &Options,
    (memory, sym): (&str, &[String]),
    terminal: &mut Terminal,
) -> Result<Result<Module, Failed>, Failure> {
    let bytes = i64::try_from(size("--memory", memory)?).unwrap_or(i64::MAX);
    let budget = Budget { bytes, dims: given(sym)? };
    let target = Target::of(Device::Cpu, Numerics::default());
    match differentiated_within(&program.module, options, &budget, &target) {
        Ok(Recomputing { module, plan }) => {
            plan.lines().iter().for_each(|line| terminal.note(line));
            Ok(Ok(module))
        }
        Err(BudgetError::Gradient(failed)) => Ok(Err(*failed)),
        Err(error) => Err(Failure::usage(format!("--memory {memory}: {error}"))),
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
    let wrt = wrt.iter().map(Name::new).collect();
    Ok(Options { function: Some(function), wrt, ..Options::default() })
}
