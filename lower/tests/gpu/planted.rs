//! Mistakes planted into kernels with shared memory, of programs that people wrote and of such as the pipeline makes of the
//! corpus: each barrier left out alone, and threads that take the place of others. The interpreter's lock-step mode finds every one.

use crate::launch::{first_stop, text};
use crate::programs::programs_of;
use libtest_mimic::Failed;
use relax_corpus::files;
use relax_corpus::pipeline::Program;
use relax_lower::gpu::{Limits, Order, schedule_in};
use relax_symbolic::Prover;
use relax_syntax::ir::tensor::{BinOp, Scope, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;

/// Programs, in each of which threads of a block share memory once scheduled.
const TEXT: &str = include_str!("planted.rx");

/// Files of the corpus, and of each a kernel of the pipeline in which threads of a block share memory once scheduled.
const IN_CORPUS: [(&str, &str); 12] = [
    ("models/attention", "stitched_fused_legal_broadcast_to_legal_greater_equal_legal_where"),
    ("models/attention", "legal_matmul"),
    ("models/decode_q4_mlp", "fused_decode_q4_legal_matmul_legal_relu"),
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

/// So few threads that small extents have edges, and reach every kernel.
const LIMITS: Limits = Limits { threads: 4, blocks: 65_535 };
/// As few as tensor cores take.
const WARP: Limits = Limits { threads: 32, blocks: 65_535 };

pub(crate) fn all_are_found() -> Result<(), Failed> {
    let module = Program::load(Source::new("planted", TEXT)).module;
    let (mut kernels, mut planted) = (0, 0);
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let scheduled = schedule_in(program, &mut Prover::new(), LIMITS, Order::Free)
            .ok_or_else(|| format!("`{}` is not scheduled", program.name))?;
        planted += hold(&scheduled)?;
        kernels += 1;
        let schedule = |order| schedule_in(program, &mut Prover::new(), WARP, order);
        if let Some(cores) = schedule(Order::Cores)
            && schedule(Order::Kept).as_ref() != Some(&cores)
        {
            planted += hold(&cores)?;
            kernels += 1;
        }
    }
    let enough = kernels >= 21 && planted >= 99;
    enough.then_some(()).ok_or_else(|| format!("{kernels} kernels, {planted} mistakes").into())
}

pub(crate) fn all_in_the_corpus_are_found() -> Result<(), Failed> {
    let mut planted = 0;
    for (name, kernel) in IN_CORPUS {
        let path = files::root().join(name).with_extension("rx");
        let all = programs_of(&path)?;
        let program = all.iter().find(|program| &*program.name == kernel);
        let program = program.ok_or_else(|| format!("{name} has no `{kernel}`"))?;
        let scheduled = schedule_in(program, &mut Prover::new(), LIMITS, Order::Free)
            .ok_or_else(|| format!("`{kernel}` of {name} is not scheduled"))?;
        planted += hold(&scheduled)?;
    }
    (planted >= 66).then_some(()).ok_or_else(|| format!("{planted} mistakes").into())
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
            && let Some(index @ (TExpr::Scalar(_) | TExpr::Binary(BinOp::Mod, _))) =
                indices.last_mut()
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
