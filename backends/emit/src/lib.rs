//! Floor 5: the tensor programs of a module as text for a compiler of a device. [`print_c`] writes one
//! C file that people can read; it is the text of the programs, not of one shape of them.
//!
//! The meaning is the interpreter's (`relax_semantics::tir`): an operation rounds once in the dtype of its
//! operands, integers wrap, what traps there traps here, at the same statement and in the same order. A
//! check is left out only where the prover shows that it never fails. Iterations run in the order of the
//! text, whatever the kinds of their loops are.
//!
//! Threads that wait for each other become loops from barrier to barrier (`relax_tir::barrier_fission`).
//!
//! Limits: barriers in loops whose bounds differ between threads, in blocks, and in branches within loops are
//! refused. What the elements of a parameter are before anything is written is the caller's business: only buffers that a program
//! allocates are watched for reads of what nothing has written, where [`Options::watched`] does not ask for more.

mod accumulate;
mod allocation;
mod attempt;
mod boundary;
mod checks;
mod column_groups;
mod column_packing;
mod column_reads;
mod conditions;
pub mod cuda;
mod dims;
mod dtypes;
mod expressions;
mod f32_narrowing;
mod fused_packing;
mod guarded_lanes;
mod guarded_loops;
mod held_values;
mod innermost;
mod message;
mod multiply;
mod names;
mod nibbles;
mod outline;
mod parallel_loops;
mod prelude;
mod printer;
mod reciprocals;
mod rounded;
mod rows;
mod softmax_epilogue;
mod statements;
mod steps;
mod streaming_stores;
pub mod tiles;
mod translation_units;
mod weighing;

pub use checks::Checks;
pub use cuda::{CudaKernel, CudaSource, print_cuda};
pub use expressions::symbol;
pub use innermost::Innermost;
pub use prelude::prelude;

use prelude::Uses;
use relax_runtime::program::Numerics;
use relax_semantics::tir::ranges::assume_declared;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{AttrValue, Definition, Module, TensorProgram, attr};
use relax_syntax::span::Span;
use relax_tir::analysis::access_summary::AccessSummary;
use relax_tir::analysis::definite_init::summary_of_parameters;
use relax_tir::barrier_fission::without_barriers;
use relax_tir::barriers::has_barrier;
use relax_tir::named_blocks::without_named_blocks;
use std::collections::BTreeSet;
use translation_units::{Piece, Units};

/// A program that ran out of memory: no trap, but `Stop::Exhausted`.
pub const OUT_OF_MEMORY: &str = "exhausted/memory";

/// The text of a module's tensor programs.
#[derive(Clone, Debug)]
pub struct Source {
    /// One C file.
    pub text: String,
    /// How many parts it has that can be compiled side by side: part `k` is what is left of it where `RX_PART` is defined as `k`,
    /// all of it where it is not.
    pub parts: u32,
    /// The text of the unit that its parts are linked with: the routines of products, the same for all modules with these tiles. `None`
    /// where no kernel multiplies matrices. The whole file has them too.
    pub routines: Option<String>,
    /// What it offers, in the order of the module.
    pub kernels: Vec<Kernel>,
    /// Programs that are not in it, each with the reason.
    pub left_out: Vec<(Name, String)>,
}

/// One function of the C file.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The tensor program.
    pub name: Name,
    /// The function.
    pub symbol: String,
    /// Where it may stop: a kernel that returns `k > 0` stopped at entry `k - 1`, one that returns -1 for lack of steps.
    pub sites: Vec<Site>,
    /// What became of its checks.
    pub checks: Checks,
    /// Those that are left in innermost loops.
    pub innermost: Innermost,
    /// The same program, asked for with [`Options::watched`].
    pub watched: Option<Watched>,
}

/// A function that is called with a map beside each buffer, a byte for each element: 1 if something was written to it. It stops
/// where it reads another one, and notes what it writes, but for buffers that it fills before it reads them
/// ([`AccessSummary`]).
#[derive(Clone, Debug)]
pub struct Watched {
    /// The function.
    pub symbol: String,
    /// Where it may stop.
    pub sites: Vec<Site>,
    /// What is known of each buffer, of the function that watches nothing too.
    pub elements: Vec<AccessSummary>,
}

/// A place where a kernel may stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The trap, or [`OUT_OF_MEMORY`].
    pub trap: Name,
    /// What is wrong, with `{}` for each value.
    pub message: String,
    /// How many values the kernel notes for it.
    pub values: u32,
    /// The statement, or the header for what a call checks.
    pub span: Span,
}

/// What decides, beside the program, which code is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'t> {
    /// What may be done with sums of floats.
    pub sums: Numerics,
    /// What was measured on the machine that products are cut for; without it the built-in model decides.
    pub tiles: Option<&'t tiles::Table>,
    /// Programs that are printed a second time, to be called where their tensors may have elements that nothing wrote.
    pub watched: Option<&'t BTreeSet<Name>>,
}

impl From<Numerics> for Options<'_> {
    fn from(sums: Numerics) -> Self {
        Self { sums, ..Self::default() }
    }
}

/// Prints every tensor program of a checked module that has a body. `facts` answers which checks can
/// never fail.
#[must_use]
pub fn print_c<'t>(
    module: &Module,
    facts: &mut dyn Facts,
    options: impl Into<Options<'t>>,
) -> Source {
    let Options { sums, tiles, watched } = options.into();
    let batches = match attr(&module.attrs, BATCH_INVARIANT) {
        Some(AttrValue::Bool(true)) => Batches::Invariant,
        _ => Batches::Joined,
    };
    let (mut kernels, mut left_out, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    let mut symbols = names::Names::default();
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let symbol = symbols.fresh(&format!("relax_{}", program.name));
        let mut print = |symbol: &str, how| {
            print_program(program, symbol, facts, how).map(|(text, kernel, uses)| {
                pieces.push(Piece { text, uses });
                kernel
            })
        };
        let printed =
            print(&symbol, How { sums, is_watched: false, batches }).and_then(|mut kernel| {
                if watched.is_some_and(|names| names.contains(&program.name)) {
                    let symbol = symbols.fresh(&format!("{symbol}_watched"));
                    let how = How { sums: Numerics::Exact, is_watched: true, batches };
                    kernel.watched = print(&symbol, how)?.watched;
                }
                Ok(kernel)
            });
        match printed {
            Ok(kernel) => kernels.push(kernel),
            Err(reason) => left_out.push((program.name.clone(), reason)),
        }
    }
    let Units { text, parts, routines } = translation_units::units(&pieces, tiles);
    Source { text, parts, routines, kernels, left_out }
}

/// The attribute of a module whose products of a batch give each matrix the bits that it has alone.
pub const BATCH_INVARIANT: &str = "batch_invariant";
/// In such a module so many rounded rows, and fewer, are computed as one is: a batch of no more sequences with one row each.
pub const MOST_SEQUENCES: usize = 31;

/// Whether kernels of products are chosen by the rows of one matrix, or by those of its whole batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batches {
    Joined,
    Invariant,
}

#[derive(Clone, Copy)]
struct How {
    sums: Numerics,
    is_watched: bool,
    batches: Batches,
}

fn print_program(
    program: &TensorProgram,
    symbol: &str,
    facts: &mut dyn Facts,
    how: How,
) -> Result<(String, Kernel, Uses), String> {
    let How { sums, is_watched, batches } = how;
    let body = program.body.as_ref().ok_or("it is external: it has no body")?;
    if has_barrier(body) {
        let fissioned = without_barriers(program)?;
        return print_program(&fissioned, symbol, facts, how);
    }
    let body = without_named_blocks(body);
    facts.push();
    assume_declared(facts, &program.dims);
    let elements = if is_watched { summary_of_parameters(program) } else { Vec::new() };
    let open = program.buffer_params().zip(&elements);
    let open = open.filter(|(_, elements)| !elements.are_filled()).map(|(buffer, _)| buffer);
    let printed = printer::Printer::new(program, (symbol, &body), facts, sums)
        .map(|mut printer| {
            printer.is_batch_invariant = batches == Batches::Invariant;
            printer.watching(open).kernel(&body)
        })
        .map_err(|found| first_message(&found));
    facts.pop();
    let (text, mut kernel, uses) = printed?;
    if is_watched {
        let (symbol, sites) = (kernel.symbol.clone(), kernel.sites.clone());
        kernel.watched = Some(Watched { symbol, sites, elements });
    }
    Ok((text, kernel, uses))
}

pub(crate) fn first_message(found: &[Diagnostic]) -> String {
    found.first().map_or_else(String::new, |first| format!("not well-formed: {}", first.message))
}
