//! Mistakes planted into kernels with shared memory, of programs that people wrote and of such as the pipeline makes of the
//! corpus: each barrier left out alone, threads that take the place of others, conditions that always hold, and elements of others
//! that are read. The interpreter's lock-step mode finds every one, or what comes out is wrong.

use crate::launch::{VERY_LONG, agrees, first_stop, text};
use crate::programs::programs_of;
use libtest_mimic::Failed;
use relax_corpus::files;
use relax_lower::gpu::{Limits, schedule_in};
use relax_program::compare::Relation;
use relax_program::frontend::Program;
use relax_rewrite::pass::Exactness;
use relax_semantics::tir::walk::{Place, Rewrite, mentions, statements, visit_statements};
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Scope, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;
use relax_tir::launches::thread_axis;
use std::collections::BTreeSet;

/// Programs, in each of which threads of a block share memory once scheduled.
const TEXT: &str = include_str!("planted.rx");

/// Files of the corpus, and of each a kernel of the pipeline in which threads of a block share memory once scheduled.
const IN_CORPUS: [(&str, &str); 12] = [
    ("models/attention", "legal_softmax"),
    ("models/attention", "legal_matmul"),
    ("models/decode_q4_mlp", "fused_decode_q4_matmul_relu"),
    ("models/minilm", "legal_layer_norm"),
    ("paper/memory_plan_after", "swap_axes"),
    ("paper/partial_lowering_before", "legal_rms_norm"),
    ("suite/ops/attention", "legal_attention"),
    ("suite/ops/attention_bias", "legal_attention_bias"),
    ("suite/ops/batch_norm", "legal_batch_norm"),
    ("suite/ops/bucketize", "legal_bucketize"),
    ("suite/ops/collapse_sum_to", "legal_collapse_sum_to"),
    ("suite/ops/einsum", "legal_einsum"),
];

/// Programs whose rows or columns come to the same in any order, and to something else where an element is wrong.
const EXACT: [&str; 7] = [
    "sum_rows",
    "sum_all",
    "maximum",
    "layer_norm",
    "normalize",
    "sum_columns",
    "variance_of_columns",
];

/// So few threads that small extents have edges, and reach every kernel.
const LIMITS: Limits = Limits { threads: 4, blocks: 65_535, shared: 48 << 10, busy: 3 };
/// The same with so few blocks that the grid has edges in both dims.
const EDGES: Limits = Limits { threads: 4, blocks: 3, shared: 16 << 10, busy: 3 };
/// As few as tensor cores take.
const WARP: Limits = Limits { threads: 32, blocks: 65_535, shared: 48 << 10, busy: 3 };

pub(crate) fn all_are_found() -> Result<(), Failed> {
    let module = Program::load(Source::new("planted", TEXT)).module;
    let (mut kernels, mut planted) = (0, 0);
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let scheduled = schedule_in(program, &mut Prover::new(), LIMITS, Exactness::Approximate)
            .ok_or_else(|| format!("`{}` is not scheduled", program.name))?;
        planted += hold(&scheduled)?;
        kernels += 1;
        let schedule = |exactness| schedule_in(program, &mut Prover::new(), WARP, exactness);
        if let Some(cores) = schedule(Exactness::Rounded(DType::F32))
            && schedule(Exactness::Approximate).as_ref() != Some(&cores)
        {
            planted += hold(&cores)?;
            kernels += 1;
        }
    }
    let enough = kernels >= 21 && planted >= 215;
    enough.then_some(()).ok_or_else(|| format!("{kernels} kernels, {planted} mistakes").into())
}

/// What is wrong with who does what, and with which element it is done.
pub(crate) fn all_of_places_are_found() -> Result<(), Failed> {
    let module = Program::load(Source::new("planted", TEXT)).module;
    let (mut kernels, mut planted) = (0, 0);
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        if !EXACT.contains(&&*program.name) {
            continue;
        }
        let scheduled = schedule_in(program, &mut Prover::new(), EDGES, Exactness::Approximate)
            .ok_or_else(|| format!("`{}` is not scheduled", program.name))?;
        agrees(program, &scheduled, Relation::Close, VERY_LONG)?;
        for (at, wrong) in wrong_places(&scheduled).into_iter().enumerate() {
            let wrong = TensorProgram { body: Some(wrong), ..scheduled.clone() };
            if agrees(program, &wrong, Relation::Close, VERY_LONG).is_ok() {
                return Err(format!("mistake {at} is not found\n{}", text(&wrong)).into());
            }
            planted += 1;
        }
        kernels += 1;
    }
    let enough = kernels == EXACT.len() && planted >= 171;
    enough.then_some(()).ok_or_else(|| format!("{kernels} kernels, {planted} mistakes").into())
}

pub(crate) fn all_in_the_corpus_are_found() -> Result<(), Failed> {
    let mut planted = 0;
    for (name, kernel) in IN_CORPUS {
        let path = files::root().join(name).with_extension("rx");
        let all = programs_of(&path)?;
        let program = all.iter().find(|program| &*program.name == kernel);
        let program = program.ok_or_else(|| format!("{name} has no `{kernel}`"))?;
        let scheduled = schedule_in(program, &mut Prover::new(), LIMITS, Exactness::Approximate)
            .ok_or_else(|| format!("`{kernel}` of {name} is not scheduled"))?;
        planted += hold(&scheduled)?;
    }
    (planted >= 122).then_some(()).ok_or_else(|| format!("{planted} mistakes").into())
}

/// Whether a scheduled program is clean, and every mistake in it is found; how many there were.
fn hold(scheduled: &TensorProgram) -> Result<usize, Failed> {
    if let Some(stop) = first_stop(scheduled) {
        return Err(format!("{stop}\n{}", text(scheduled)).into());
    }
    let wrong = mistakes(scheduled);
    if wrong.len() < 2 {
        return Err(format!("few mistakes are possible\n{}", text(scheduled)).into());
    }
    let planted = wrong.len();
    for (what, wrong) in wrong {
        let found = first_stop(&wrong).map(|stop| stop.to_string()).unwrap_or_default();
        // Who comes first, in the order of the threads, may read what was to be there by then.
        if !["[tir/race]", "[tir/uninitialized]"].iter().any(|id| found.starts_with(id)) {
            return Err(format!("{what}: found only `{found}`\n{}", text(&wrong)).into());
        }
    }
    Ok(planted)
}

/// The program with one mistake each.
fn mistakes(program: &TensorProgram) -> Vec<(String, TensorProgram)> {
    let body = program.body.as_deref().unwrap_or(&[]);
    let with = |body: Vec<Stmt>| TensorProgram { body: Some(body), ..program.clone() };
    let mut found = Vec::new();
    for at in 0.. {
        let mut left = at;
        let wrong = without_barrier(body, &mut left);
        if wrong == body {
            break;
        }
        found.push((format!("without barrier {at}"), with(wrong)));
    }
    for at in 0.. {
        let mut left = at;
        let wrong = in_place_of_neighbour(program, body, &mut left);
        if wrong == body {
            break;
        }
        found.push((format!("with threads that collide at store {at}"), with(wrong)));
    }
    found
}

/// Without the barrier of a number.
fn without_barrier(body: &[Stmt], left: &mut usize) -> Vec<Stmt> {
    let mut result = Vec::new();
    for stmt in body {
        if stmt.kind == StmtKind::Barrier {
            let is_it = *left == 0;
            *left = left.wrapping_sub(1);
            if is_it {
                continue;
            }
        }
        result.push(inside(stmt, &mut |body| without_barrier(body, left)));
    }
    result
}

/// Where each thread stores to an element of shared memory of its own, half of them store to that of a neighbour.
fn in_place_of_neighbour(program: &TensorProgram, body: &[Stmt], left: &mut usize) -> Vec<Stmt> {
    let mut result = Vec::new();
    for stmt in body {
        let mut stmt = inside(stmt, &mut |body| in_place_of_neighbour(program, body, left));
        if let StmtKind::Store { buffer, indices, update: None, value } = &mut stmt.kind
            && program.buffer(*buffer).scope == Scope::Shared
            && let Some(index) = indices.iter_mut().rev().find(|index| is_of_thread(program, index))
            && !matches!(value, TExpr::Binary(BinOp::Max | BinOp::Min, _))
        {
            if *left == 0 {
                *index = TExpr::Binary(BinOp::FloorDiv, Box::new((index.clone(), TExpr::Int(2))));
            }
            *left = left.wrapping_sub(1);
        }
        result.push(stmt);
    }
    result
}

/// Whether an index is a part of a thread's number.
fn is_of_thread(program: &TensorProgram, index: &TExpr) -> bool {
    let mut threads = BTreeSet::new();
    visit_statements(program.body.as_deref().unwrap_or(&[]), &mut |stmt| {
        if let StmtKind::For { loops, kind, .. } = &stmt.kind
            && thread_axis(kind).is_some()
        {
            threads.extend(loops.iter().map(|item| item.var));
        }
    });
    let is_part =
        matches!(index, TExpr::Scalar(_) | TExpr::Binary(BinOp::Mod | BinOp::FloorDiv, _));
    is_part && mentions(index, &threads)
}

/// With one mistake each: a condition holds always, or an index of shared memory is another one wherever it is read so.
fn wrong_places(program: &TensorProgram) -> Vec<Vec<Stmt>> {
    let body = program.body.as_deref().unwrap_or(&[]);
    let mut found = Vec::new();
    for at in 0.. {
        let mut left = at;
        let wrong = with_condition(body, &mut left);
        if wrong == body {
            break;
        }
        found.push(wrong);
    }
    let mut reads = Reads { program, seen: Vec::new() };
    statements(body, &mut reads);
    for (load, at, index) in reads.seen {
        found.push(statements(body, &mut Elsewhere { load, at, index }));
    }
    found
}

/// With a condition that always holds.
fn with_condition(body: &[Stmt], left: &mut usize) -> Vec<Stmt> {
    let mut result = Vec::new();
    for stmt in body {
        let mut stmt = inside(stmt, &mut |body| with_condition(body, left));
        if let StmtKind::If { condition, .. } = &mut stmt.kind {
            if *left == 0 {
                *condition = TExpr::Bool(true);
            }
            *left = left.wrapping_sub(1);
        }
        result.push(stmt);
    }
    result
}

/// Elements of shared memory that are read, and what another index of each is.
struct Reads<'p> {
    program: &'p TensorProgram,
    seen: Vec<(TExpr, usize, TExpr)>,
}

impl Rewrite for Reads<'_> {
    fn replace(&mut self, part: &TExpr, _place: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, indices } = part else { return None };
        if self.program.buffer(*buffer).scope == Scope::Shared {
            for (at, index) in indices.iter().enumerate() {
                let other = match index {
                    TExpr::Scalar(_) => {
                        TExpr::Binary(BinOp::Sub, Box::new((TExpr::Int(1), index.clone())))
                    }
                    TExpr::Binary(BinOp::Add, both) => both.0.clone(),
                    _ => continue,
                };
                let read = (part.clone(), at, other);
                if !self.seen.contains(&read) {
                    self.seen.push(read);
                }
            }
        }
        None
    }
}

/// A load at another index.
struct Elsewhere {
    load: TExpr,
    at: usize,
    index: TExpr,
}

impl Rewrite for Elsewhere {
    fn replace(&mut self, part: &TExpr, _place: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, indices } = part else { return None };
        let mut indices = indices.clone();
        (*part == self.load).then(|| {
            indices[self.at] = self.index.clone();
            TExpr::Load { buffer: *buffer, indices }
        })
    }
}

fn inside(stmt: &Stmt, each: &mut dyn FnMut(&[Stmt]) -> Vec<Stmt>) -> Stmt {
    let mut stmt = stmt.clone();
    match &mut stmt.kind {
        StmtKind::For { body, .. } => *body = each(body),
        StmtKind::Block { init, body, .. } => {
            *init = each(init);
            *body = each(body);
        }
        StmtKind::If { then, otherwise, .. } => {
            *then = each(then);
            *otherwise = each(otherwise);
        }
        _ => {}
    }
    stmt
}
