//! What one nest of loops writes and later ones read is computed where it is read, and its buffer goes:
//! a fused program then has no intermediate in memory (paper §4.2, Figure 9).
//!
//! The nest must write each element once and never stop the program, for where it stood is not where it
//! is read; every read must be proved to be in bounds, for an element that is not there would
//! stop it. The value is the same bit for bit: it has the dtype of the buffer already, literals excepted,
//! which are cast. A nest that sums keeps its buffer: what follows reads finished elements.
//!
//! What is read many times is computed many times. That is done for arithmetic, as when 4-bit weights
//! are decoded inside of a product; exp and the like are not moved into a loop that the read does not
//! depend on, nor to a second place.

mod producer;
mod readers;

use crate::maybe_uninit::maybe_uninitialized;
use crate::pass::{Exactness, Pass, PassContext};
use crate::tir_call::TirCall;
use producer::{Inlined, Producer, reads};
use readers::may_read_inlined;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{BufferId, Stmt, StmtKind};
use relax_syntax::ir::{
    Atom, AttrValue, Body, Callee, Definition, Expr, Module, TensorProgram, VarId, attr,
};
use relax_tir::kernel_kind::{ATTRIBUTE, Analysis, KernelKind};
use relax_tir::renumber::renumber_program;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "inline_buffers",
    doc: "Computes what a nest of loops writes to a buffer of a tensor program where it is read, if \
          that nest never stops the program, and leaves out the buffer.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let maybe_uninit = maybe_uninit_inputs(module);
    let mut result = module.clone();
    let (mut done, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        found += allocations(program).len();
        let before = program.clone();
        let inputs = inputs(program, &maybe_uninit);
        done += inline_all(program, &inputs, context.facts);
        if *program != before {
            record_anew(&before, program);
        }
    }
    context.count_of("inlined", done, found, "buffers");
    Ok(result)
}

/// What is recorded from an analysis is told from the new loops; what someone wrote stays.
fn record_anew(before: &TensorProgram, program: &mut TensorProgram) {
    let told = KernelKind::recorded(before) == Some(Analysis::of(before).kind);
    if told && attr(&program.attrs, ATTRIBUTE).is_some() {
        let pattern = AttrValue::Str(Name::new(Analysis::of(program).kind.name()));
        program.attrs.iter_mut().filter(|(key, _)| key == ATTRIBUTE).for_each(|(_, value)| {
            *value = pattern.clone();
        });
    }
}

fn allocations(program: &TensorProgram) -> Vec<BufferId> {
    let body = program.body.iter().flatten();
    let own = body.filter_map(|stmt| match stmt.kind {
        StmtKind::Alloc(id) => Some(id),
        _ => None,
    });
    own.collect()
}

/// Inlines one buffer after the other, again from the first until none goes any more: what one reads
/// may be known only once another went. Returns how many went.
fn inline_all(
    program: &mut TensorProgram,
    written: &BTreeSet<BufferId>,
    facts: &mut dyn Facts,
) -> usize {
    let mut done = 0;
    loop {
        let (before, mut at) = (done, 0);
        while let Some(&buffer) = allocations(program).get(at) {
            match inlined(program, buffer, written, facts) {
                Some(inlined) => {
                    inlined.put_into(program.body.as_mut().expect("invariant: it has buffers"));
                    // The next one is in its place now.
                    done += 1;
                }
                None => at += 1,
            }
        }
        if done == before {
            break;
        }
    }
    if done > 0 {
        renumber_program(program);
    }
    done
}

/// What becomes of a body without one of its buffers.
struct Change {
    buffer: BufferId,
    /// The place of the nest that wrote it.
    producer: usize,
    /// The statements that read it, as they are now.
    readers: Vec<(usize, Stmt)>,
}

impl Change {
    fn put_into(self, body: &mut Vec<Stmt>) {
        for (at, reader) in self.readers {
            body[at] = reader;
        }
        body.remove(self.producer);
        body.retain(|stmt| stmt.kind != StmtKind::Alloc(self.buffer));
    }
}

fn inlined(
    program: &TensorProgram,
    buffer: BufferId,
    written: &BTreeSet<BufferId>,
    facts: &mut dyn Facts,
) -> Option<Change> {
    // The allocation goes: its dims must have values.
    let shapes: Vec<&[Dim]> =
        program.buffer_params().map(|id| &*program.buffer(id).shape).collect();
    if !program.buffer(buffer).shape.iter().all(|dim| always_evaluates(dim, &shapes)) {
        return None;
    }
    let body = program.body.as_ref()?;
    let producer = Producer::of(program, body, buffer, written, facts)?;
    let after = &body[producer.at + 1..];
    if !may_read_inlined(program, &producer, after, facts) {
        return None;
    }
    let mut readers = Vec::new();
    for (at, stmt) in body.iter().enumerate().skip(producer.at + 1) {
        if reads(stmt, buffer) {
            readers.push((at, Inlined::new(&producer).statement(stmt)?));
        }
    }
    Some(Change { buffer, producer: producer.at, readers })
}

/// For each program the inputs that some call passes with elements that nothing has written; `None` for
/// one that is called in another way.
type MaybeUninitInputs = BTreeMap<Name, Option<BTreeSet<usize>>>;

/// The parameters of a program whose elements are all written.
fn inputs(program: &TensorProgram, maybe_uninit: &MaybeUninitInputs) -> BTreeSet<BufferId> {
    let none = Some(BTreeSet::new());
    let Some(maybe_uninit) = maybe_uninit.get(&program.name).unwrap_or(&none) else {
        return BTreeSet::new();
    };
    let all: Vec<BufferId> = program.buffer_params().collect();
    let inputs = all.len().saturating_sub(1);
    (0..inputs).filter(|at| !maybe_uninit.contains(at)).map(|at| all[at]).collect()
}

fn maybe_uninit_inputs(module: &Module) -> MaybeUninitInputs {
    let mut found = MaybeUninitInputs::new();
    let vars = maybe_uninitialized(module);
    for function in module.functions() {
        if let Some(body) = &function.lambda.body {
            in_body(body, &vars[&function.name], &mut found);
        }
    }
    found
}

fn in_body(body: &Body, vars: &BTreeSet<VarId>, found: &mut MaybeUninitInputs) {
    for binding in body.bindings() {
        if let Some(call) = TirCall::of(&binding.expr) {
            let places = call.args.iter().enumerate();
            let places = places.filter(|(_, arg)| crate::in_place::mentions(arg, vars));
            let known = found.entry(call.program.clone()).or_insert_with(|| Some(BTreeSet::new()));
            if let Some(known) = known {
                known.extend(places.map(|(at, _)| at));
            }
            continue;
        }
        match &binding.expr {
            Expr::If { then, otherwise, .. } => {
                in_body(then, vars, found);
                in_body(otherwise, vars, found);
            }
            Expr::Call { callee, args, attrs } => {
                if let Callee::Global(name) = callee {
                    found.insert(name.clone(), None);
                }
                let attrs = attrs.iter().map(|(_, atom)| atom);
                args.iter().chain(attrs).for_each(|atom| held(atom, found));
            }
            Expr::Atom(atom) => held(atom, found),
            _ => {}
        }
    }
}

/// Whoever holds a program may pass it anything.
fn held(atom: &Atom, found: &mut MaybeUninitInputs) {
    match atom {
        Atom::Global(name) => _ = found.insert(name.clone(), None),
        Atom::Tuple(items) | Atom::List(items) => items.iter().for_each(|item| held(item, found)),
        _ => {}
    }
}
