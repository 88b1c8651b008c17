//! One kernel: its stages as entries of one text, and what the host must bring.

use crate::iterations::Threads;
use crate::names::Names;
use crate::stages::{Way, stages};
use crate::{Binding, Content, Doubles, Formats, Kernel, Kind, Part, Stage, Word, dtypes, prelude};
use relax_semantics::tir::ranges::{Ranges, assume_declared};
use relax_semantics::tir::walk::{loaded, stored};
use relax_semantics::tir::{Sources, Typing};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{BufferId, Param, ScalarId};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::print::print_file;
use relax_syntax::raise::raise_module;
use relax_syntax::span::Source;
use relax_tir::analysis::definite_init::unproved_with_parameters;
use relax_tir::barrier_fission::without_barriers;
use relax_tir::barriers::has_barrier;
use relax_tir::workspaces::is_workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Storage buffers of one stage, without the status.
const STORAGE: usize = 7;

/// In the order in which they are given buffers of their own.
const KINDS: [Kind; 3] = [Kind::Doubles, Kind::Halves, Kind::Words];

/// Where a buffer lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a variable of its own, of this name.
    Own(String),
    /// In the shared storage buffer, from this word of the uniform buffer on.
    Shared(String),
    /// In the one of this name that buffers with elements of its type share, from the element that such a word says on.
    SharedElements(&'static str, String),
}

/// What is known where the printer is.
pub(crate) struct Printer<'p, 'f> {
    pub(crate) program: &'p TensorProgram,
    pub(crate) typing: Typing<'p>,
    pub(crate) facts: &'f mut dyn Facts,
    pub(crate) ranges: Ranges,
    pub(crate) sources: Sources,
    pub(crate) formats: Formats,
    pub(crate) source: Option<&'p Source>,
    pub(crate) names: Names,
    pub(crate) scalars: BTreeMap<ScalarId, String>,
    /// The first value of each loop variable.
    pub(crate) starts: BTreeMap<ScalarId, String>,
    pub(crate) places: BTreeMap<BufferId, Place>,
    /// Buffers in storage buffers.
    pub(crate) bound: BTreeSet<BufferId>,
    /// The threads of a block, of the entry that is printed.
    pub(crate) size: [i64; 3],
    /// Where it is noted which elements were written, of buffers with reads that may come before.
    pub(crate) written: BTreeMap<BufferId, Place>,
    /// Buffers with such reads.
    pub(crate) watched: BTreeSet<BufferId>,
    /// Whether every parameter is watched.
    pub(crate) has_maps: bool,
    pub(crate) words: Vec<(Word, String)>,
    pub(crate) lines: String,
    pub(crate) indent: usize,
    /// Variables in workgroup memory, as text.
    pub(crate) workgroup: String,
    /// Bytes of those of the entry that is printed.
    pub(crate) workgroup_bytes: i64,
    /// Bytes of the arrays of a thread.
    pub(crate) local_bytes: i64,
    pub(crate) sites: u32,
    /// Where in a launch the printer is.
    pub(crate) way: Way,
    /// Loops around, outside of which an allocation is made once.
    pub(crate) depth: usize,
    /// What is in the way.
    pub(crate) refused: Option<String>,
}

/// How a program is printed.
#[derive(Clone, Copy)]
pub(crate) struct How<'p> {
    pub(crate) formats: Formats,
    /// Of which lines are quoted.
    pub(crate) source: Option<&'p Source>,
    /// Whether there is a map beside each tensor that says what was written of it.
    pub(crate) has_maps: bool,
}

/// Prints one program: with its threads, or, where they are not such as a launch has, by one thread. Where threads wait for each
/// other that one runs them from barrier to barrier.
pub(crate) fn print_program(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    how: How<'_>,
) -> Result<Kernel, String> {
    facts.push();
    assume_declared(facts, &program.dims);
    let printed = attempt(program, facts, how, Way::Launched).or_else(|why| {
        if !has_barrier(program.body.as_deref().unwrap_or(&[])) {
            return attempt(program, facts, how, Way::Alone);
        }
        let apart = without_barriers(program).map_err(|_| why.clone())?;
        attempt(&apart, facts, how, Way::Alone).map_err(|_| why)
    });
    facts.pop();
    printed
}

fn attempt(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    How { formats, source, has_maps }: How<'_>,
    way: Way,
) -> Result<Kernel, String> {
    let body = program.body.as_ref().ok_or("it is external: it has no body")?;
    let typing = Typing::new(program).map_err(|found| {
        let first = found.first().map_or("", |first| first.message.as_str());
        format!("not well-formed: {first}")
    })?;
    let mut printer = Printer {
        program,
        typing,
        facts,
        ranges: Ranges::default(),
        sources: Sources::default(),
        formats,
        source,
        names: Names::default(),
        scalars: BTreeMap::new(),
        starts: BTreeMap::new(),
        places: BTreeMap::new(),
        bound: BTreeSet::new(),
        size: [1; 3],
        written: BTreeMap::new(),
        watched: unproved_with_parameters(program),
        has_maps,
        words: Vec::new(),
        lines: String::new(),
        indent: 1,
        workgroup: String::new(),
        workgroup_bytes: 0,
        local_bytes: 0,
        sites: 0,
        way,
        depth: 0,
        refused: None,
    };
    let stages = stages(program, body, way)?;
    printer.name_everything();
    let bindings = printer.bind(&stages.scratch)?;
    let mut entries = String::new();
    let mut launched = Vec::new();
    let mut threads = Vec::new();
    for (plan, number) in stages.stages.iter().zip(0..) {
        let entry = format!("stage_{number}");
        let text = printer.stage(plan, &entry)?;
        threads.push(Threads {
            blocks: plan.launch.blocks.iter().map(|(_, item)| (*item).clone()).collect(),
            body: plan.launch.body.iter().map(|stmt| (*stmt).clone()).collect(),
            shared_by: plan.launch.has_threads.then(|| plan.size.map(i64::unsigned_abs)),
            inner: prelude::iterations(&text),
        });
        entries.push_str(&text);
        launched.push(Stage { entry, blocks: plan.blocks(), bound: plan.bound() });
    }
    if let Some(reason) = printer.refused.take() {
        return Err(reason);
    }
    let text = printer.text(&bindings, &entries);
    let watched = std::mem::take(&mut printer.watched);
    let words = printer.words.into_iter().map(|(word, _)| word).collect();
    let can_stop = text.contains("rx_stop(");
    let (program, stages) = (program.clone(), launched);
    Ok(Kernel { program, text, stages, bindings, words, formats, can_stop, threads, watched })
}

impl Printer<'_, '_> {
    fn name_everything(&mut self) {
        for (info, id) in self.program.scalars.iter().zip(0..) {
            let fresh = self.names.fresh("s", &info.name);
            self.scalars.insert(ScalarId(id), fresh);
        }
        for param in &self.program.params {
            if let Param::Scalar(id) = param {
                let name = self.word(Word::Scalar(*id));
                self.scalars.insert(*id, name);
            }
        }
    }

    /// The name of a word that the host gives.
    pub(crate) fn word(&mut self, word: Word) -> String {
        if let Some((_, name)) = self.words.iter().find(|(known, _)| *known == word) {
            return format!("given.{name}");
        }
        let name = match &word {
            Word::Dim(name) => self.names.fresh("d", name),
            Word::Scalar(id) => {
                let wish = self.program.scalar(*id).name.clone();
                self.names.fresh("g", &wish)
            }
            Word::Extent(_) => self.names.fresh("x", "extent"),
            Word::Base(part) => {
                let wish = self.program.buffer(part.buffer).name.clone();
                self.names.fresh("at", &wish)
            }
        };
        self.words.push((word, name.clone()));
        format!("given.{name}")
    }

    pub(crate) fn dim(&mut self, name: &Name) -> String {
        self.word(Word::Dim(name.clone()))
    }

    /// An extent: what is computed is computed by the host.
    pub(crate) fn extent(&mut self, dim: &Dim) -> String {
        match dim {
            Dim::Int(value) => dtypes::index(*value),
            Dim::Var(name) => self.dim(name),
            Dim::Op(..) => self.word(Word::Extent(dim.clone())),
        }
    }

    /// What lies in memory of the device.
    fn parts(&self, scratch: &[BufferId]) -> Result<Vec<Part>, String> {
        let body = self.program.body.as_deref().unwrap_or(&[]);
        let (read, written) = (loaded(body), stored(body));
        let is_touched = |id: &BufferId| read.contains(id) || written.contains(id);
        let (mut parts, mut own) = (Vec::new(), scratch.to_vec());
        for (at, buffer) in self.program.buffer_params().enumerate() {
            let info = self.program.buffer(buffer);
            let is_narrowed = info.dtype == DType::F64 && self.formats.doubles == Doubles::Narrowed;
            if is_workspace(self.program, buffer) && (is_narrowed || !is_touched(&buffer)) {
                // What the host lends would have room for another type. Of what is not used nothing is needed.
                own.extend(Some(buffer).filter(is_touched));
            } else if is_narrowed {
                let name = &info.name;
                return Err(format!("`{name}` has elements of f64, which not every device has"));
            } else {
                parts.push(Part { buffer, content: Content::Parameter(at) });
            }
        }
        for part in parts.clone() {
            let Content::Parameter(at) = part.content else { continue };
            let (buffer, is_watched) = (part.buffer, self.watched.contains(&part.buffer));
            // A workspace holds whatever another call left there.
            if is_workspace(self.program, buffer) {
                parts.extend(is_watched.then_some(Part { buffer, content: Content::Written }));
            } else if self.has_maps || is_watched && written.contains(&buffer) {
                parts.push(Part { buffer, content: Content::Given(at) });
            }
        }
        for buffer in own {
            parts.push(Part { buffer, content: Content::Scratch });
            if self.watched.contains(&buffer) {
                parts.push(Part { buffer, content: Content::Written });
            }
        }
        Ok(parts)
    }

    /// Gives every buffer that is in memory of the device a storage buffer; what is too many shares one.
    fn bind(&mut self, scratch: &[BufferId]) -> Result<Vec<Binding>, String> {
        let parts = self.parts(scratch)?;
        // Where there are too many, those share whose elements have one type, or are words.
        let of_kind = |kind| {
            let own = |part: &&Part| part.kind(self.program, self.formats) == kind;
            parts.iter().filter(own).cloned().collect()
        };
        Ok(self.bindings(KINDS.map(of_kind)))
    }

    /// Each group has as many as leave one for those behind it. Those with one part come first.
    fn bindings(&mut self, groups: [Vec<Part>; 3]) -> Vec<Binding> {
        let mut behind = groups.iter().filter(|group| !group.is_empty()).count();
        let (mut left, mut alone, mut shared) = (STORAGE, Vec::new(), Vec::new());
        for mut group in groups.into_iter().filter(|group| !group.is_empty()) {
            behind -= 1;
            let rest = split_off(&mut group, left - behind);
            left -= group.len() + usize::from(!rest.is_empty());
            alone.extend(group);
            shared.push(rest);
        }
        let mut bindings = Vec::new();
        for part in alone {
            let wish = self.program.buffer(part.buffer).name.clone();
            let prefix = if part.content.is_of_writing() { "w" } else { "b" };
            let name = self.names.fresh(prefix, &wish);
            self.place(&part, Place::Own(name));
            bindings.push(self.binding(vec![part]));
        }
        for parts in shared.into_iter().filter(|parts| !parts.is_empty()) {
            for part in &parts {
                let base = self.word(Word::Base(part.clone()));
                let place = match part.kind(self.program, self.formats) {
                    Kind::Words => Place::Shared(base),
                    Kind::Doubles => Place::SharedElements("shared_doubles", base),
                    Kind::Halves => Place::SharedElements("shared_halves", base),
                };
                self.place(part, place);
            }
            bindings.push(self.binding(parts));
        }
        bindings
    }

    fn binding(&self, parts: Vec<Part>) -> Binding {
        let written = stored(self.program.body.as_deref().unwrap_or(&[]));
        let is_written = parts.iter().any(|part| {
            !matches!(part.content, Content::Parameter(_)) || written.contains(&part.buffer)
        });
        Binding { parts, is_written }
    }

    fn place(&mut self, part: &Part, place: Place) {
        self.bound.insert(part.buffer);
        if part.content.is_of_writing() {
            self.written.insert(part.buffer, place);
        } else {
            self.places.insert(part.buffer, place);
        }
    }

    /// A line of the entry.
    pub(crate) fn line(&mut self, text: &str) {
        let _ = writeln!(self.lines, "{:1$}{text}", "", self.indent * 4);
    }

    /// A value in a variable of its own.
    pub(crate) fn temporary(&mut self, value: &str) -> String {
        let name = self.names.fresh("t", "");
        self.line(&format!("let {name} = {value};"));
        name
    }

    pub(crate) fn refuse(&mut self, reason: impl Into<String>) {
        self.refused.get_or_insert(reason.into());
    }

    fn text(&self, bindings: &[Binding], entries: &str) -> String {
        let mut text = comment(self.program);
        let is_half = |dtype| dtypes::stored(dtype, self.formats) == "f16";
        if self.program.buffers.iter().any(|buffer| is_half(buffer.dtype)) {
            text.push_str("enable f16;\n\n");
        }
        text.push_str("struct Given {\n");
        for (_, name) in &self.words {
            let _ = writeln!(text, "    {name}: i32,");
        }
        // A structure has a member.
        text.push_str("    end: i32,\n}\n\n");
        text.push_str("@group(0) @binding(0) var<uniform> given: Given;\n");
        text.push_str(
            "@group(0) @binding(1) var<storage, read_write> status: array<atomic<u32>, 1>;\n",
        );
        let _ = writeln!(text, "{}", prelude::LOOKS_NOT);
        for (binding, number) in bindings.iter().zip(2..) {
            let access = if binding.is_written { "read_write" } else { "read" };
            let (name, of) = self.variable(binding);
            let _ = writeln!(
                text,
                "@group(0) @binding({number}) var<storage, {access}> {name}: array<{of}>;"
            );
        }
        let _ = write!(
            text,
            "{}\n{}{entries}",
            self.workgroup,
            prelude::of(&format!("{entries}rx_bits("))
        );
        text
    }

    fn variable(&self, binding: &Binding) -> (String, &'static str) {
        let part = &binding.parts[0];
        let is_of_writing = part.content.is_of_writing();
        let places = if is_of_writing { &self.written } else { &self.places };
        match &places[&part.buffer] {
            Place::Own(name) if is_of_writing => (name.clone(), "u32"),
            Place::Own(name) => {
                let dtype = self.program.buffer(part.buffer).dtype;
                (name.clone(), dtypes::stored(dtype, self.formats))
            }
            Place::Shared(_) => ("shared_words".to_owned(), "u32"),
            Place::SharedElements(name, _) => {
                let dtype = self.program.buffer(part.buffer).dtype;
                ((*name).to_owned(), dtypes::stored(dtype, self.formats))
            }
        }
    }
}

/// What does not get one of so many storage buffers for itself, as the last of them is shared.
fn split_off(parts: &mut Vec<Part>, buffers: usize) -> Vec<Part> {
    if parts.len() > buffers { parts.split_off(buffers - 1) } else { Vec::new() }
}

/// The text of the program.
fn comment(program: &TensorProgram) -> String {
    let definitions = vec![Definition::Tensor(program.clone())];
    let text = print_file(&raise_module(&Module { definitions, ..Module::default() }));
    let mut comment = String::new();
    for line in text.lines() {
        let _ = writeln!(comment, "// {line}");
    }
    comment.push('\n');
    comment
}
