//! One kernel: a function that binds and checks, and one with the loops, whose pointers do not overlap.

use crate::checks::{Checks, Learned};
use crate::cuda::Cuda;
use crate::dtypes;
use crate::held_values::HeldValues;
use crate::innermost::{Innermost, innermost};
use crate::names::Names;
use crate::outline::Shared;
use crate::prelude::Uses;
use crate::{Kernel, Site};
use relax_runtime::program::Numerics;
use relax_semantics::tir::ranges::Ranges;
use relax_semantics::tir::walk::stored;
use relax_semantics::tir::{Sources, Typing};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{BufferId, Param, ScalarId, Stmt, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::print::print_file;
use relax_syntax::raise::raise_module;
use relax_syntax::span::Span;
use relax_tir::analysis::definite_init::unproved;
use relax_tir::store_forwarding::{Workspaces, forwarded};
use relax_tir::workspaces::has_f64_tensors;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What is known where the printer is.
pub(crate) struct Printer<'p, 'f> {
    pub(crate) program: &'p TensorProgram,
    pub(crate) typing: Typing<'p>,
    pub(crate) facts: &'f mut dyn Facts,
    pub(crate) ranges: Ranges,
    pub(crate) sources: Sources,
    /// Extents of parameters: each is an i64.
    pub(crate) extents: Vec<Dim>,
    pub(crate) learned: Learned,
    /// The first value of each loop variable, as C.
    pub(crate) starts: BTreeMap<ScalarId, String>,
    pub(crate) names: Names,
    pub(crate) scalars: BTreeMap<ScalarId, String>,
    pub(crate) buffers: BTreeMap<BufferId, String>,
    pub(crate) dims: BTreeMap<Name, String>,
    /// C names of extents that are neither a literal nor a variable.
    pub(crate) computed: BTreeMap<(BufferId, usize), String>,
    /// Buffers with elements that may be read before they are written, and what it is noted in.
    pub(crate) watched: BTreeMap<BufferId, String>,
    pub(crate) lines: String,
    pub(crate) indent: usize,
    /// Declarations at the top of the function.
    pub(crate) declared: Vec<String>,
    /// Pointers to free at its end.
    pub(crate) owned: Vec<String>,
    pub(crate) sites: Vec<Site>,
    pub(crate) checks: Checks,
    pub(crate) may_stop: bool,
    /// Whether sums of floats may be formed in another order and in f32.
    pub(crate) sums: Numerics,
    /// Whether values of f64 may be computed in f32: with reassociation, where the program has no tensors of f64.
    pub(crate) narrows: bool,
    /// Whether the bits of a matrix may not depend on the others of its batch.
    pub(crate) is_batch_invariant: bool,
    /// Whether the prelude's product is called.
    pub(crate) multiplies: bool,
    /// The same of f64.
    pub(crate) multiplies_f64: bool,
    /// Block formats of weights that products with rounded rows read, as the prelude takes them.
    pub(crate) block_formats: BTreeSet<String>,
    /// Whether routines of the prelude for rows are called.
    pub(crate) rows: bool,
    /// Expressions whose values are at hand.
    pub(crate) replaced: HeldValues,
    /// What many values are divided by, and what C has its inverse in.
    pub(crate) divisors: Vec<(TExpr, String)>,
    /// Whether functions of f64 need to be right to f32 only.
    pub(crate) about: bool,
    /// Buffers that are only a value on its way to where it is used: nothing is stored.
    pub(crate) forwarded: BTreeSet<BufferId>,
    /// The function that is called.
    pub(crate) symbol: &'p str,
    /// Functions of parts, before the function with the loops.
    pub(crate) functions: String,
    /// How many of them there are.
    pub(crate) parts: usize,
    /// What they may use.
    pub(crate) shared: Vec<Shared>,
    /// The threads that are there, as C.
    pub(crate) threads: &'static str,
    /// The statement.
    pub(crate) span: Span,
    /// Bytes on the stack so far.
    pub(crate) stack: i64,
    /// What C has the steps in that are left, where a nest takes its own.
    pub(crate) steps: Option<String>,
    /// Loops of the nests that do.
    pub(crate) takes_own: BTreeSet<ScalarId>,
    /// Whether what is printed is evaluated under a condition of the innermost loop around it.
    pub(crate) is_guarded: bool,
    /// Whether an expression is computed for one element, not in a loop over vectors.
    pub(crate) is_alone: bool,
    /// Whether the version of a nest is printed that runs where its ranges do not hold.
    pub(crate) is_out_of_range: bool,
    /// Places where a check stops the kernel in such versions, and elsewhere.
    pub(crate) stops_out_of_range: BTreeSet<usize>,
    pub(crate) stops: BTreeSet<usize>,
    /// What CUDA needs to be known beside; none for C.
    pub(crate) cuda: Option<Cuda>,
}

impl<'p, 'f> Printer<'p, 'f> {
    pub(crate) fn new(
        program: &'p TensorProgram,
        (symbol, body): (&'p str, &[Stmt]),
        facts: &'f mut dyn Facts,
        sums: Numerics,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut printer = Self {
            program,
            typing: Typing::new(program)?,
            facts,
            ranges: Ranges::of(program),
            sources: Sources::default(),
            extents: Vec::new(),
            learned: Learned::default(),
            starts: BTreeMap::new(),
            names: Names::default(),
            scalars: BTreeMap::new(),
            buffers: BTreeMap::new(),
            dims: BTreeMap::new(),
            computed: BTreeMap::new(),
            watched: BTreeMap::new(),
            lines: String::new(),
            indent: 1,
            declared: Vec::new(),
            owned: Vec::new(),
            sites: Vec::new(),
            checks: Checks::default(),
            may_stop: false,
            sums,
            narrows: sums == Numerics::Reassociated && !has_f64_tensors(program),
            is_batch_invariant: false,
            multiplies: false,
            multiplies_f64: false,
            block_formats: BTreeSet::new(),
            rows: false,
            replaced: HeldValues::default(),
            divisors: Vec::new(),
            about: false,
            forwarded: forwarded(program, body, workspaces_with(sums)),
            symbol,
            functions: String::new(),
            parts: 0,
            shared: Vec::new(),
            threads: "threads",
            span: program.span,
            stack: 0,
            steps: None,
            takes_own: BTreeSet::new(),
            is_guarded: false,
            is_alone: false,
            is_out_of_range: false,
            stops_out_of_range: BTreeSet::new(),
            stops: BTreeSet::new(),
            cuda: None,
        };
        printer.name_everything();
        Ok(printer)
    }

    /// The same, noting also what is written to these buffers.
    pub(crate) fn watching(mut self, buffers: impl IntoIterator<Item = BufferId>) -> Self {
        buffers.into_iter().for_each(|buffer| self.watch(buffer));
        self
    }

    /// Whether each access to a buffer asks or notes which elements were written, so that routines of the
    /// prelude, which do neither, cannot stand for loops over it.
    pub(crate) fn notes_elements(&self, buffer: BufferId) -> bool {
        self.watched.contains_key(&buffer)
    }

    fn watch(&mut self, buffer: BufferId) {
        let fresh = self.names.fresh(&format!("{}_written", self.program.buffer(buffer).name));
        self.watched.insert(buffer, fresh);
    }

    fn name_everything(&mut self) {
        let program = self.program;
        let dims = program.dims.iter().map(|dim| &dim.name);
        let params = program.params.iter().filter_map(|param| match param {
            Param::Dim(name) => Some(name),
            Param::Buffer(_) | Param::Scalar(_) => None,
        });
        let buffers = self.program_buffers();
        for name in dims.chain(params).chain(&self.free_dims()) {
            if !self.dims.contains_key(name) {
                let fresh = self.names.fresh(name);
                self.dims.insert(name.clone(), fresh);
            }
        }
        for id in buffers {
            self.extents.extend(program.buffer(id).shape.iter().cloned());
        }
        for (info, id) in program.buffers.iter().zip(0..) {
            let fresh = self.names.fresh(&info.name);
            self.buffers.insert(BufferId(id), fresh);
        }
        for (info, id) in program.scalars.iter().zip(0..) {
            let fresh = self.names.fresh(&info.name);
            self.scalars.insert(ScalarId(id), fresh);
        }
        unproved(program).into_iter().for_each(|buffer| self.watch(buffer));
    }

    /// Symbolic variables of signatures that no declaration names.
    fn free_dims(&self) -> Vec<Name> {
        let mut names = Vec::new();
        for info in &self.program.buffers {
            info.shape.iter().for_each(|dim| dim.visit_vars(&mut |name| names.push(name.clone())));
        }
        names
    }

    /// The buffers among the parameters.
    pub(crate) fn program_buffers(&self) -> Vec<BufferId> {
        self.program.buffer_params().collect()
    }

    /// A line of the body.
    pub(crate) fn line(&mut self, text: &str) {
        let _ = writeln!(self.lines, "{:1$}{text}", "", self.indent * 4);
    }

    /// A value in a variable of its own.
    pub(crate) fn temporary(&mut self, of: &str, value: &str) -> String {
        let name = self.names.fresh("t");
        self.line(&format!("const {of} {name} = {value};"));
        self.share(of, &name);
        name
    }

    /// Both functions.
    pub(crate) fn kernel(mut self, body: &[Stmt]) -> (String, Kernel, Uses) {
        let symbol = self.symbol;
        self.count_steps(body);
        let entry = self.boundary(symbol, body);
        let parameters = self.parameters(body);
        self.share_parameters(&parameters);
        let extents = self.computed_extents();
        self.body(body);
        let mut text = crate::rounded::definitions(&self.block_formats);
        let _ = write!(text, "\n{}", self.comment());
        text.push_str(&self.functions);
        let _ = writeln!(text, "static __attribute__((noinline)) int32_t {symbol}_body(");
        text.push_str("    const rx_threads *threads");
        for (of, name) in &parameters {
            let _ = write!(text, ",\n    {of} {name}");
        }
        text.push_str(") {\n    (void)threads;\n");
        text.push_str(&self.take_text().body(&extents));
        text.push_str("}\n\n");
        text.push_str(&entry);
        let slow = self.stops_out_of_range.difference(&self.stops).copied().collect();
        let Printer { program, sites, checks, multiplies, multiplies_f64, rows, .. } = self;
        let rounds = !self.block_formats.is_empty();
        let name = program.name.clone();
        let symbol = symbol.to_owned();
        // Other places where a kernel stops, as for memory that a product lacks, are no checks.
        let innermost =
            if checks.left() == 0 { Innermost::default() } else { innermost(&text, &slow) };
        let kernel = Kernel { name, symbol, sites, checks, innermost, watched: None };
        (text, kernel, Uses { multiplies, multiplies_f64, rounds, rows })
    }

    /// The text of the program, and what became of its checks.
    pub(crate) fn comment(&self) -> String {
        let definitions = vec![Definition::Tensor(self.program.clone())];
        let text = print_file(&raise_module(&Module { definitions, ..Module::default() }));
        let mut comment = String::new();
        for line in text.lines() {
            let _ = writeln!(comment, "// {line}");
        }
        let _ = writeln!(comment, "// {}", self.checks);
        comment
    }

    /// The maps of parameters, each with the number of its buffer.
    pub(crate) fn maps(&self) -> impl Iterator<Item = (usize, &String)> {
        let buffers = self.program.buffer_params().enumerate();
        buffers.filter_map(|(at, buffer)| Some((at, self.watched.get(&buffer)?)))
    }

    /// Parameters of the function with the loops, in C.
    fn parameters(&self, body: &[Stmt]) -> Vec<(String, String)> {
        let written = stored(body);
        let buffers = self.program_buffers().into_iter().map(|id| {
            let of = dtypes::stored(self.program.buffer(id).dtype);
            let constant = if written.contains(&id) { "" } else { "const " };
            (format!("{constant}{of} *restrict"), self.buffers[&id].clone())
        });
        let maps = self.maps().map(|(_, map)| ("uint8_t *restrict".to_owned(), map.clone()));
        let dims = self.dims.values().map(|name| ("int64_t".to_owned(), name.clone()));
        let scalars = self.program.params.iter().filter_map(|param| match param {
            Param::Scalar(id) => Some(("int64_t".to_owned(), self.scalars[id].clone())),
            Param::Buffer(_) | Param::Dim(_) => None,
        });
        let steps = self.steps.iter().map(|name| ("int64_t *".to_owned(), name.clone()));
        buffers.chain(maps).chain(dims).chain(scalars).chain(steps).collect()
    }
}

/// The interpreter stores to workspaces too, so they are forwarded only where its results are not kept bit for bit.
fn workspaces_with(sums: Numerics) -> Workspaces {
    match sums {
        Numerics::Exact => Workspaces::Kept,
        Numerics::Reassociated => Workspaces::Forwarded,
    }
}
