//! Tensor programs as CUDA C++: expressions and statements as for C, loops bound to threads as threads.
//!
//! Outermost nests of `blockIdx` loops are kernels, launched one after the other; what stands between them is a kernel of one block.
//! Where a program has no such form, or its threads wait in a way that threads of a device cannot, one thread runs all
//! of it, in the order of the text.
//!
//! What stops, stops alone: the thread notes its site and ends, and the host asks the interpreter what is to be said.
//! Other threads go on, each with its own checks, so that nothing is touched that is not there.

mod blocks;
mod call;
mod copies;
mod cores;
mod groups;
mod launch;
mod meetings;
mod memory;
mod threads;
mod vectors;

pub use call::{Plan, Refused};
pub use launch::{Begins, Extent, Known, Launch, Per, Sizes, Workspace};

use crate::checks::{Checks, Learned};
use crate::dtypes;
use crate::printer::Printer;
use crate::{Site, first_message, names, prelude};
use groups::{Group, groups};
use relax_runtime::program::Numerics;
use relax_semantics::tir::ranges::assume_declared;
use relax_semantics::tir::walk::stored;
use relax_syntax::Name;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{BufferId, Param, ScalarId, Stmt, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;
use relax_tir::analysis::definite_init::unproved_workspaces;
use relax_tir::barrier_fission::without_barriers;
use relax_tir::barriers::has_barrier;
use relax_tir::launches::{Launches, by_one_thread, launches};
use relax_tir::named_blocks::without_named_blocks;
use relax_tir::workspaces::is_workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Bytes that a thread loads or stores at once at most: each buffer of a kernel begins at a multiple of that.
pub const ALIGNED: i64 = 16;

/// Threads of a multiprocessor that are there at once, whatever a kernel does: each then has 128 registers.
const RESIDENT: i64 = 512;

/// Parameters of a kernel: 4 KiB on every device.
const PARAMETERS: usize = 500;

/// The text of a module's tensor programs for CUDA.
#[derive(Clone, Debug)]
pub struct CudaSource {
    /// One file.
    pub text: String,
    /// What it offers, in the order of the module.
    pub kernels: Vec<CudaKernel>,
    /// Programs that are not in it, each with the reason.
    pub left_out: Vec<(Name, String)>,
}

/// One tensor program on a device.
#[derive(Clone, Debug)]
pub struct CudaKernel {
    /// Its name.
    pub name: Name,
    /// The program that was printed; it has what a call must hold.
    pub program: TensorProgram,
    /// Functions of the file, in the order in which they are launched.
    pub launches: Vec<Launch>,
    /// Memory beside the parameters.
    pub workspaces: Vec<Workspace>,
    /// Where it may stop.
    pub sites: Vec<Site>,
    /// What became of its checks.
    pub checks: Checks,
    /// Why one thread runs all of it, where it has loops bound to threads.
    pub alone: Option<String>,
    /// What the host evaluates first: scalars that read no memory.
    pub(crate) scalars: Vec<(ScalarId, TExpr)>,
    /// Which of its buffers it writes to, in the order of the parameters.
    pub writes: Vec<bool>,
    /// Symbolic variables in the order in which functions take them.
    pub dims: Vec<Name>,
    /// The same for calls with elements that nothing wrote, where it was asked for: it takes a map of each tensor
    /// ([`Begins::Given`]), stops where it reads such an element, and notes what it writes.
    pub watched: Option<Box<CudaKernel>>,
}

impl CudaKernel {
    /// The functions of the file that are its own, with those of calls with elements that nothing wrote.
    pub fn symbols(&self) -> impl Iterator<Item = &str> {
        let watched = self.watched.iter().flat_map(|kernel| &kernel.launches);
        self.launches.iter().chain(watched).map(|launch| launch.symbol.as_str())
    }
}

/// What the printer keeps for CUDA.
#[derive(Debug, Default)]
pub(crate) struct Cuda {
    pub(crate) workspaces: Vec<Workspace>,
    /// Names of the parameters that stand for them, with their types.
    parameters: Vec<(String, String)>,
    /// The number of the function at hand.
    launch: usize,
    /// Bytes of shared memory of this function.
    shared: i64,
    place: Place,
    /// Whether a block has several threads along each axis.
    axes: [bool; 3],
    /// Whether the function has one nest of threads.
    is_only_nest: bool,
    /// Whether memory was touched since threads last met.
    dirty: bool,
    /// What is not printed, and why.
    refused: Option<String>,
    /// Of buffers that get a vector, the element of an iteration.
    pub(crate) lanes: BTreeMap<BufferId, String>,
    /// Threads of the nest at hand that form products together.
    warp: Option<cores::Warp>,
    /// Memory that vectors are copied into while its threads go on.
    copies: BTreeSet<BufferId>,
    /// Whether a product and a sum of f32 may be rounded once.
    pub(crate) contracts: bool,
    /// How often a thread of this function may stop.
    pub(crate) stops: usize,
}

impl Cuda {
    /// Whether memory of a block is shared memory, and none that the host finds.
    fn is_shared(&self, buffer: BufferId) -> bool {
        self.workspaces.iter().all(|other| other.buffer != buffer)
    }
}

/// Who runs the statement at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// The host, before anything is launched.
    #[default]
    Program,
    /// All threads of a block, alike.
    Block,
    /// One thread.
    Thread,
}

/// Prints every tensor program of a checked module that has a body. `facts` answers which checks can
/// never fail; with the source, comments say which lines a function comes from. Programs of `watched` are there a second time, with maps.
/// Where sums may have any order, functions of f32 are those of the device.
#[must_use]
pub fn print_cuda(
    module: &Module,
    facts: &mut dyn Facts,
    source: Option<&Source>,
    watched: &BTreeSet<Name>,
    sums: Numerics,
) -> CudaSource {
    let text = prelude::cuda_text(sums);
    let mut printed = CudaSource { text, kernels: Vec::new(), left_out: Vec::new() };
    let mut symbols = names::Names::default();
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let symbol = symbols.fresh(&format!("relax_{}", program.name));
        let mut print = |symbol: &str, has_maps| {
            let how = How { source, has_maps, sums };
            let (text, kernel) = print_program(program, symbol, facts, how)?;
            printed.text.push_str(&text);
            Ok(kernel)
        };
        let kernel = print(&symbol, false).and_then(|mut kernel| {
            if watched.contains(&program.name) {
                let symbol = symbols.fresh(&format!("{symbol}_watched"));
                kernel.watched = Some(Box::new(print(&symbol, true)?));
            }
            Ok(kernel)
        });
        match kernel {
            Ok(kernel) => printed.kernels.push(kernel),
            Err(reason) => printed.left_out.push((program.name.clone(), reason)),
        }
    }
    printed
}

type Printed = Result<(String, CudaKernel), String>;

#[derive(Clone, Copy)]
struct How<'s> {
    /// Of which lines are named.
    source: Option<&'s Source>,
    /// Whether there is a map of each tensor.
    has_maps: bool,
    sums: Numerics,
}

/// With threads, else by one.
fn print_program(
    program: &TensorProgram,
    symbol: &str,
    facts: &mut dyn Facts,
    how: How<'_>,
) -> Printed {
    let body = program.body.as_ref().ok_or("it is external: it has no body")?;
    let body = without_named_blocks(body);
    let reason =
        match print_launches(program, symbol, (body.as_slice(), launches(&body)), facts, how) {
            Ok(printed) => return Ok(printed),
            Err(reason) => reason,
        };
    let apart = if has_barrier(&body) { without_barriers(program)? } else { program.clone() };
    let body = without_named_blocks(apart.body.as_deref().unwrap_or(&[]));
    let all = (body.as_slice(), by_one_thread(&body));
    let (text, mut kernel) = print_launches(&apart, symbol, all, facts, how)?;
    kernel.alone = Some(reason);
    Ok((text, kernel))
}

fn print_launches(
    program: &TensorProgram,
    symbol: &str,
    (body, launches): (&[Stmt], Launches<'_>),
    facts: &mut dyn Facts,
    How { source, has_maps, sums }: How<'_>,
) -> Printed {
    let memory = launches.memory.clone();
    let groups = groups(launches)?;
    facts.push();
    assume_declared(facts, &program.dims);
    call::assume_small(facts, program);
    let mut watched = unproved_workspaces(program);
    if has_maps {
        watched.extend(program.buffer_params().filter(|buffer| !is_workspace(program, *buffer)));
    }
    let printed = Printer::new(program, (symbol, body), facts, Numerics::Exact)
        .map_err(|found| first_message(&found))
        .map(|printer| printer.watching(watched))
        .and_then(|mut printer| {
            printer.cuda =
                Some(Cuda { contracts: sums == Numerics::Reassociated, ..Cuda::default() });
            printer.cuda_program(body, (&memory, &groups), source)
        });
    facts.pop();
    printed
}

impl Printer<'_, '_> {
    pub(crate) fn is_cuda(&self) -> bool {
        self.cuda.is_some()
    }

    pub(crate) fn cuda(&mut self) -> &mut Cuda {
        self.cuda.get_or_insert_default()
    }

    /// All functions of a program.
    fn cuda_program(
        mut self,
        body: &[Stmt],
        (memory, groups): (&[BufferId], &[Group<'_>]),
        source: Option<&Source>,
    ) -> Printed {
        // What one thread stores another one may load.
        self.forwarded = BTreeSet::new();
        self.handed_on(memory);
        let extents = self.computed_extents();
        let mut bodies = Vec::new();
        let mut launches = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            self.facts.push();
            let first = group.launch.body.first();
            bodies.push((self.function_body(group, at), first.map(|stmt| stmt.span)));
            self.facts.pop();
            let symbol = format!("{}_{at}", self.symbol);
            launches.push(Launch {
                symbol,
                grid: group.grid(),
                block: group.block(),
                waits: group.waits(),
            });
        }
        if let Some(reason) = self.cuda().refused.take() {
            return Err(reason);
        }
        let parameters = self.device_parameters(body);
        if parameters.len() > PARAMETERS {
            return Err(format!(
                "it takes {} parameters, {PARAMETERS} are the most",
                parameters.len()
            ));
        }
        let mut text = format!("\n{}", self.comment());
        let parameters = &parameters;
        for ((body, span), launch) in bodies.iter().zip(&launches) {
            if let (Some(source), Some(span)) = (source, span) {
                let (line, _) = source.line_column(span.start);
                let _ = writeln!(text, "// {}:{line}", source.name);
            }
            text.push_str(&function(launch, parameters, &format!("{extents}{body}")));
        }
        let scalars = groups.last().map_or_else(Vec::new, Group::values);
        let written = stored(body);
        let writes = self.program_buffers().iter().map(|id| written.contains(id)).collect();
        let Printer { program, sites, checks, cuda, dims, .. } = self;
        let workspaces = cuda.unwrap_or_default().workspaces;
        let (name, dims) = (program.name.clone(), dims.into_keys().collect());
        let program = program.clone();
        let kernel = CudaKernel {
            name,
            program,
            launches,
            workspaces,
            sites,
            checks,
            alone: None,
            scalars,
            writes,
            dims,
            watched: None,
        };
        Ok((text, kernel))
    }

    /// Memory between the functions.
    fn handed_on(&mut self, memory: &[BufferId]) {
        for &buffer in memory {
            self.span = self.program.buffer(buffer).span;
            self.device_memory(buffer);
        }
        for buffer in self.program_buffers() {
            if let Some(map) = self.watched.get(&buffer).cloned() {
                self.device_array(buffer, "uint8_t", &map, 1);
            }
        }
    }

    /// The inside of one function.
    fn function_body(&mut self, group: &Group<'_>, at: usize) -> String {
        let cuda = self.cuda();
        (cuda.launch, cuda.shared, cuda.dirty, cuda.stops) = (at, 0, false, 0);
        cuda.axes = group.block().map(|axis| !axis.is_empty());
        (self.stack, self.indent) = (0, 1);
        self.learned = Learned::default();
        self.group(group);
        let outlined = self.take_text();
        let mut text = String::new();
        if at > 0 {
            text.push_str("    if (*(volatile uint32_t *)rx_status != RX_FINE) return;\n");
        }
        for line in outlined.declared() {
            let _ = writeln!(text, "    {line}");
        }
        match self.cuda().stops {
            0 => text + &outlined.lines,
            _ => text + &cores::by_loops(&outlined.lines),
        }
    }

    /// Buffers, workspaces, symbolic variables and scalars: eight bytes each, after the status.
    fn device_parameters(&mut self, body: &[Stmt]) -> Vec<(String, String)> {
        let written = stored(body);
        let buffer = |id: &BufferId| {
            let of = dtypes::stored(self.program.buffer(*id).dtype);
            let constant = if written.contains(id) { "" } else { "const " };
            (format!("{constant}{of} *__restrict__"), self.buffers[id].clone())
        };
        let mut all = vec![("uint32_t *".to_owned(), "rx_status".to_owned())];
        all.extend(self.program_buffers().iter().map(buffer));
        all.extend(self.cuda.iter().flat_map(|cuda| cuda.parameters.iter().cloned()));
        all.extend(self.dims.values().map(|name| ("int64_t".to_owned(), name.clone())));
        all.extend(self.program.params.iter().filter_map(|param| match param {
            Param::Scalar(id) => Some(("int64_t".to_owned(), self.scalars[id].clone())),
            Param::Buffer(_) | Param::Dim(_) => None,
        }));
        all
    }
}

fn function(launch: &Launch, parameters: &[(String, String)], body: &str) -> String {
    let (symbol, most) = (&launch.symbol, launch.most_threads());
    let list: Vec<String> = parameters.iter().map(|(of, name)| format!("{of} {name}")).collect();
    // With so few registers that several blocks run at once: while the threads of one wait, others compute.
    let bounds = match RESIDENT / most {
        blocks @ 2..=4 => format!("{most}, {blocks}"),
        _ => most.to_string(),
    };
    format!(
        "extern \"C\" __global__ void __launch_bounds__({bounds}) {symbol}(\n    {}\n) {{\n{body}}}\n",
        list.join(",\n    ")
    )
}
