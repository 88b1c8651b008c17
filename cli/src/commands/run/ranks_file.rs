//! `relax run --ranks` and `--mpi` of a module file that `relax build --ranks` made.

use super::super::constants::{Constants, load_for_ranks};
use super::super::kernel_check;
use super::super::meshes::times;
use super::ranks::{Code, Content, Ranked, finished, flag, mesh_of};
use super::{On, entry, loaded, size};
use crate::args::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::files::shown_name;
use crate::terminal::Terminal;
use relax_program::frontend::Program;
use relax_runtime::file::ModuleFile;
use relax_sharding::signature::{Layouts, layouts_of};
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

pub(super) fn run(args: &RunArgs, on: &On, terminal: &mut Terminal) -> Outcome {
    let name = shown_name(&args.file);
    let file = loaded(ModuleFile::open(&args.file), &name)?;
    if file.ranks().is_empty() {
        let flag = flag(args);
        return Err(Failure::usage(format!(
            "{flag}: {name} has code for one rank: build it with `relax build --ranks`, or give the program"
        )));
    }
    if args.versions {
        let why = "--versions: what ranks choose among was decided when the file was built";
        return Err(Failure::usage(why));
    }
    let (signatures, layouts) = signatures_of_ranks(file.ranks(), &name)?;
    let mesh = &mesh_of(args, &layouts.axes, on)?;
    let function = entry(&signatures, &args.entry)?;
    kernel_check::warn(file.metadata().kernel_check.as_ref(), terminal);
    let limit = size("--max-memory", &args.max_memory)?;
    let constants = load_for_ranks(&signatures, function, args.params.as_deref(), limit)?;
    let Constants { parameters, stored, .. } = &constants;
    let content = Content::File(&file);
    let ranked = Ranked { args, content, function, layouts: &layouts, mesh };
    let arguments = ranked.arguments(parameters, stored)?;
    terminal.doing(ranked.doing());
    let ran = ranked.job(&arguments).compiled_on(on, &Code::File(&file))?;
    let parts = loaded(file.parts(), &name)?;
    let source = Source::new(parts.metadata.source_name, parts.source);
    finished(args, (&source, &ranked), ran, terminal)
}

/// What a module file says of the function that ranks run: its signature, and its layouts.
pub(in crate::commands) fn signatures_of_ranks(
    text: &str,
    name: &str,
) -> Result<(Module, Layouts), Failure> {
    let wrong = |why: &str| Failure::usage(format!("{name}: its layouts do not read: {why}"));
    let program = Program::load(Source::new("signatures", text));
    if program.has_errors() {
        return Err(wrong("they are no program"));
    }
    let functions: Vec<_> = program.module.functions().collect();
    let [function] = functions[..] else {
        return Err(wrong("they are not of one function"));
    };
    let layouts = layouts_of(&program.module, function).map_err(|why| wrong(&why))?;
    Ok((program.module, layouts))
}

/// Why code of each rank does not run alone, and what runs it.
pub(super) fn not_alone(text: &str, name: &str) -> Result<Failure, Failure> {
    let (_, layouts) = signatures_of_ranks(text, name)?;
    let axes = &layouts.axes;
    let (of, ranks) = match axes.fixed() {
        Some(mesh) => {
            let ranks = mesh.extents.iter().product::<usize>().to_string();
            (format!("the {ranks} ranks"), ranks)
        }
        None => (format!("{} ranks", times(axes)), "N".to_owned()),
    };
    Ok(Failure::usage(format!(
        "{name} has the code of each of {of} of \"{}\": give --ranks {ranks}, or start `mpirun -np {ranks} relax run --mpi {name}`",
        axes.mesh
    )))
}
