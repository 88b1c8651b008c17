//! Nests that follow each other over the same rows, as one kernel with a block for each row (stitching: BladeDISC §4.2): the threads
//! of the block share a row, reduce it by a tree in shared memory, and hand on there what the row comes to. So softmax and the
//! normalizations are one kernel. Rows that are not long enough for that are a warp's each, several of which are in a block; where only
//! a call tells how long they are, both kernels are in the text, and the host chooses (BladeDISC §5.2).
//!
//! Where a reduction goes down columns, neighbouring threads have neighbouring columns, and some threads of the block share each:
//! so memory is read along its rows, and a tall matrix of few columns has work for all. Columns of few elements are not worth
//! that: a thread has each alone, and where only a call tells how long they are, both kernels are in the text, and the host chooses.
//!
//! A tree combines in another order: floats not where the exactness forbids it. What is combined of integers is the same in any
//! order. Nothing of it may stop the program, since rows and steps change places.

use super::Limits;
use super::bind::{bind_times, is_of_host};
use super::block::{Kernel, Sharing};
use super::expressions::{extent, multiply, opposite, reaches};
use super::pieces::{self, Pieces};
use super::scope_promotion::{is_at_iteration, own_elements};
use super::steps::{Role, Step, runs_across, runs_along, steps, unwrapped};
use crate::passes::fuse_loops::never_stops;
use crate::writer::Writer;
use relax_rewrite::pass::Exactness;
use relax_semantics::tir::ranges::{assume_declared, is_proved};
use relax_semantics::tir::walk::{Rewrite, loaded, statements, stored};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::Class;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::span::Span;
use relax_tir::analysis::dependence::loops::independent_loops;
use relax_tir::dims::as_dim;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that are known to be shorter are not worth more than a thread each.
const SHORT: i64 = 32;
/// Elements of a row for each thread of a block, where all of them are to share it: rows of fewer are a warp's each. Of 256 threads
/// that are 2048 elements: warps of a library's softmax have 1024 at most. Presumed, not measured.
const WORTH: i64 = 8;

/// Nests over the same rows.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) rows: Vec<Loop>,
    pub(super) steps: Vec<Step>,
    /// How elements of a row follow each other.
    along: Along,
    /// How many statements of the program they are.
    length: usize,
    /// Memory that is allocated between them.
    allocated: Vec<Stmt>,
    pub(super) span: Span,
}

/// Where the elements lie that a reduction goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Along {
    /// Side by side.
    Rows,
    /// Those of neighbouring iterations of the outer loops do.
    Columns,
}

/// The kernels of the nests that `rest` begins with, of which the host chooses one, and how many statements they stand for.
pub(super) fn stitch(
    writer: &mut Writer,
    (before, rest): (&[Stmt], &[Stmt]),
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    (limits, exactness): (Limits, Exactness),
) -> Option<(usize, Vec<Stmt>)> {
    let mut group = [Along::Rows, Along::Columns]
        .into_iter()
        .find_map(|along| group(writer, (rest, along), host, facts, exactness))?;
    let (versions, alone) = versions(writer, &group, facts, limits)?;
    // What the kernels before bind has other kinds of names then.
    let alone = alone.map(|times| (times, writer.renamed(&rest[0])));
    let outside = [before, &rest[group.length..]].concat();
    let read_outside = loaded(&outside);
    let all = statements_of(&group.steps);
    let cells = own_elements(writer, &group.rows, &all, &outside);
    group.allocated.retain(|stmt| !matches!(&stmt.kind, StmtKind::Alloc(id) if cells.contains(id)));
    let mut done = std::mem::take(&mut group.allocated);
    // What rows come to that others see is stored at the end.
    let results = group.results(&cells);
    let near = cells.iter().copied().chain(stored(&statements_of(&results))).collect();
    let last = group.steps.len();
    group.steps.extend(results);
    let read = loaded(&statements_of(&group.steps)).union(&read_outside).copied().collect();
    let rows = Rows { near, last, read, limits };
    let cut = match group.along == Along::Rows && stored(&all).is_disjoint(&read_outside) {
        true => pieces::cut(writer, &group, facts, limits),
        false => None,
    };
    let parts = parts(writer, &group, (versions, cut), &mut done);
    for part in parts {
        done.extend(rows.written(writer, part));
    }
    if let Some((times, alone)) = alone {
        done.extend(bind_times(writer, (&alone, Some(times)), &outside, host, facts, limits)?);
    }
    Some((group.length, done))
}

/// A kernel that a group becomes.
struct Part {
    group: Group,
    version: Version,
    /// How many pieces of a row there are, where blocks have no whole ones.
    pieces: Option<i64>,
}

/// The kernels of a group, each with names of its own; those of pieces first, with memory for what they come to.
fn parts(
    writer: &mut Writer,
    group: &Group,
    (versions, cut): (Vec<Version>, Option<Pieces>),
    done: &mut Vec<Stmt>,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut whole = versions;
    if let Some(Pieces { times, partial, count, each, all, sharing }) = cut {
        done.push(Stmt { kind: StmtKind::Alloc(partial), span: group.span });
        let all = all.renamed(writer);
        let own = Some(times.clone());
        parts.push(Part {
            group: each,
            version: (Sharing::Block, own.clone()),
            pieces: Some(count),
        });
        parts.push(Part { group: all, version: (sharing, own), pieces: None });
        for (sharing, used) in &mut whole {
            if *sharing == Sharing::Block {
                let rest = opposite(&times);
                *used = Some(match used.take() {
                    Some(before) => TExpr::binary(BinOp::Min, before, rest),
                    None => rest,
                });
            }
        }
        // Pieces always: no block has a whole row.
        whole.retain(|(sharing, _)| *sharing != Sharing::Block || times != TExpr::Int(1));
    }
    for version in whole {
        parts.push(Part { group: group.renamed(writer), version, pieces: None });
    }
    parts
}

/// How the kernels of a group are written.
struct Rows {
    /// What is kept in shared memory in the place of buffers with an element for each row.
    near: BTreeSet<BufferId>,
    /// How many steps there are before results are stored.
    last: usize,
    /// What is read somewhere in the program.
    read: BTreeSet<BufferId>,
    limits: Limits,
}

impl Rows {
    fn written(&self, writer: &mut Writer, part: Part) -> Vec<Stmt> {
        let Part { mut group, version: (sharing, times), pieces } = part;
        let how = (self.limits, group.span);
        let rows = (group.rows.as_slice(), sharing);
        let mut kernel = Kernel::new(writer, rows, times.as_ref(), how, self.read.clone());
        let (near, last) = match (pieces, group.rows.last()) {
            (Some(count), Some(piece)) => {
                kernel = kernel.of_pieces(piece.var, count);
                let (results, last) = (group.results(&BTreeSet::new()), group.steps.len());
                group.steps.extend(results.iter().cloned());
                (&stored(&statements_of(&results)), last)
            }
            _ => (&self.near, self.last),
        };
        let mut shared = kernel.cells(near);
        for (at, step) in group.steps.iter_mut().enumerate() {
            step.body = match at < last {
                true => shared.statements(&step.body),
                false => statements(&step.body, &mut shared),
            };
        }
        kernel.write(&group, shared.allocations(group.span))
    }
}

/// A way to share rows, and where it is used, which is 0 or 1: always without it.
type Version = (Sharing, Option<TExpr>);

/// How threads share rows or columns, and where a thread has each alone. One way of two is used, whatever the extents are; where the
/// prover decides there is one. Not at all where columns are known to be short.
fn versions(
    writer: &Writer,
    group: &Group,
    facts: &mut dyn Facts,
    limits: Limits,
) -> Option<(Vec<Version>, Option<TExpr>)> {
    match group.along {
        Along::Columns => {
            // What a column comes to is handed on where there are more nests.
            let count = group.count().filter(|_| group.length == 1 && !group.rows.is_empty());
            let count = count.filter(|count| !matches!(as_dim(count), None | Some(Dim::Int(_))));
            let reach = count.map_or(Reach::Always, |count| reach(writer, count, SHORT, facts));
            match reach {
                Reach::Never => None,
                Reach::Always => Some((vec![(Sharing::Columns, None)], None)),
                Reach::Where(times) => {
                    let alone = opposite(&times);
                    Some((vec![(Sharing::Columns, Some(times))], Some(alone)))
                }
            }
        }
        Along::Rows => {
            let has_warps = Sharing::Warp.is_possible(limits) && !group.rows.is_empty();
            let count = group.count().filter(|_| has_warps);
            let long = limits.threads.saturating_mul(WORTH);
            let found = match count.map_or(Reach::Always, |count| reach(writer, count, long, facts))
            {
                Reach::Always => vec![(Sharing::Block, None)],
                Reach::Never => vec![(Sharing::Warp, None)],
                Reach::Where(times) => {
                    let warps = opposite(&times);
                    vec![(Sharing::Block, Some(times)), (Sharing::Warp, Some(warps))]
                }
            };
            Some((found, None))
        }
    }
}

/// Whether a number reaches a bound.
pub(super) enum Reach {
    Always,
    Never,
    /// Where this is 1, which is 0 or 1: the host finds it.
    Where(TExpr),
}

impl Reach {
    /// 1 where it does, else 0; none where it never does.
    pub(super) fn times(self) -> Option<TExpr> {
        match self {
            Self::Always => Some(TExpr::Int(1)),
            Self::Never => None,
            Self::Where(times) => Some(times),
        }
    }
}

pub(super) fn reach(writer: &Writer, count: TExpr, bound: i64, facts: &mut dyn Facts) -> Reach {
    if let Some(dim) = as_dim(&count) {
        facts.push();
        assume_declared(facts, &writer.program.dims);
        let always = is_proved(facts, &Claim::new(bound, Relation::AtMost, dim.clone()));
        let never = !always && is_proved(facts, &Claim::new(dim, Relation::Less, bound));
        facts.pop();
        if always {
            return Reach::Always;
        }
        if never {
            return Reach::Never;
        }
    }
    Reach::Where(reaches(count, bound))
}

impl Group {
    /// How many elements each reduction goes through, where it is the same number.
    pub(super) fn count(&self) -> Option<TExpr> {
        let reduced = self.steps.iter().filter(|step| step.role == Role::Reduce);
        let mut counts = reduced.map(|step| step.loops.iter().map(extent).reduce(multiply));
        let count = counts.next()??;
        counts.all(|other| other.as_ref() == Some(&count)).then_some(count)
    }

    /// Other rows and steps in the place of these.
    pub(super) fn of(&self, rows: Vec<Loop>, steps: Vec<Step>) -> Self {
        Self { rows, steps, ..self.clone() }
    }

    /// How many rows there are.
    pub(super) fn number_of_rows(&self) -> TExpr {
        self.rows.iter().map(extent).reduce(multiply).unwrap_or(TExpr::Int(1))
    }

    /// Steps that store, element for element, what reductions came to in buffers that are no `cells`: such as have an element for each
    /// row, and are stored to before they are read.
    fn results(&self, cells: &BTreeSet<BufferId>) -> Vec<Step> {
        let all = statements_of(&self.steps);
        let reduced = self.steps.iter().filter(|step| step.role == Role::Reduce);
        let reduced: BTreeSet<BufferId> = reduced.flat_map(|step| stored(&step.body)).collect();
        let own = reduced.difference(cells).filter_map(|buffer| {
            let touches = |stmt: &&Stmt| {
                let stmt = std::slice::from_ref(*stmt);
                stored(stmt).contains(buffer) || loaded(stmt).contains(buffer)
            };
            let first = all.iter().find(touches)?;
            let StmtKind::Store { indices, update: None, .. } = &first.kind else { return None };
            let begins = !loaded(std::slice::from_ref(first)).contains(buffer);
            let value = TExpr::Load { buffer: *buffer, indices: indices.clone() };
            let (buffer, indices) = (*buffer, indices.clone());
            let kind = StmtKind::Store { buffer, indices, update: None, value };
            let body = vec![Stmt { kind, span: self.span }];
            (begins && is_at_iteration(&self.rows, buffer, &all)).then_some(Step {
                role: Role::Cell,
                loops: Vec::new(),
                body,
            })
        });
        own.collect()
    }

    /// The same with names of its own, and nothing that is allocated.
    pub(super) fn renamed(&self, writer: &mut Writer) -> Self {
        let mut names = BTreeMap::new();
        let mut own = |var: ScalarId, writer: &mut Writer| {
            let info = writer.program.scalar(var).clone();
            let name = writer.scalar(info.name.as_str(), info.dtype, info.span);
            names.insert(var, name);
            name
        };
        let mut over = |loops: &[Loop], writer: &mut Writer| -> Vec<Loop> {
            let renamed =
                loops.iter().map(|item| Loop { var: own(item.var, writer), ..item.clone() });
            renamed.collect()
        };
        let rows = over(&self.rows, writer);
        let loops: Vec<Vec<Loop>> =
            self.steps.iter().map(|step| over(&step.loops, writer)).collect();
        for stmt in self.steps.iter().flat_map(|step| &step.body) {
            if let StmtKind::Let { var, .. } = &stmt.kind {
                own(*var, writer);
            }
        }
        let mut renamed = Renamed { names };
        let steps = self.steps.iter().zip(loops).map(|(step, loops)| Step {
            role: step.role,
            loops,
            body: statements(&step.body, &mut renamed),
        });
        let steps = steps.collect();
        Self { rows, steps, allocated: Vec::new(), ..*self }
    }
}

fn group(
    writer: &Writer,
    (rest, along): (&[Stmt], Along),
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    exactness: Exactness,
) -> Option<Group> {
    let first = rest.first()?;
    let (rows, body) = unwrapped(first);
    let all = steps(&[], &body)?;
    let is_first = all.iter().any(|step| step.role == Role::Reduce);
    let (allocated, span) = (Vec::new(), first.span);
    let mut group = Group { rows, steps: all, along, length: 1, allocated, span };
    let starts = is_first
        && fits(writer, &group, host, exactness)
        && never_stops(&writer.program, first, facts);
    starts.then_some(())?;
    if group.rows.is_empty() {
        // One block: what follows is for the whole grid.
        return Some(group);
    }
    let mut allocated = Vec::new();
    for (at, stmt) in rest.iter().enumerate().skip(1) {
        if let StmtKind::Alloc(buffer) = &stmt.kind {
            if !super::storage::is_host_shape(writer.program.buffer(*buffer)) {
                break;
            }
            allocated.push(stmt.clone());
            continue;
        }
        let Some(longer) = with(&group, stmt) else { break };
        if !fits(writer, &longer, host, exactness) || !never_stops(&writer.program, stmt, facts) {
            break;
        }
        group = Group { length: at + 1, ..longer };
        group.allocated.append(&mut allocated);
    }
    Some(group)
}

/// The group with one more nest.
fn with(group: &Group, stmt: &Stmt) -> Option<Group> {
    let (loops, body) = unwrapped(stmt);
    let count = group.rows.len();
    let same = |(a, b): (&Loop, &Loop)| a.start == b.start && a.stop == b.stop;
    let fits = loops.len() >= count && group.rows.iter().zip(&loops).all(same);
    fits.then_some(())?;
    let names = loops.iter().zip(&group.rows).map(|(old, new)| (old.var, new.var)).collect();
    let mut renamed = Renamed { names };
    let body = statements(&body, &mut renamed);
    let more = steps(&loops[count..], &body)?;
    let steps = [group.steps.clone(), more].concat();
    Some(Group { steps, rows: group.rows.clone(), allocated: group.allocated.clone(), ..*group })
}

/// Scalars by other names.
pub(super) struct Renamed {
    pub(super) names: BTreeMap<ScalarId, ScalarId>,
}

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.names.get(&id).copied().unwrap_or(id)
    }
}

/// What steps do, without their loops.
pub(super) fn statements_of(steps: &[Step]) -> Vec<Stmt> {
    steps.iter().flat_map(|step| step.body.clone()).collect()
}

/// Whether each reduction combines with what the group stored before: without that an empty row would read what may be nothing.
fn all_begin(steps: &[Step]) -> bool {
    let mut begun = BTreeSet::new();
    steps.iter().all(|step| {
        let cells = stored(&step.body);
        match step.role {
            Role::Cell => begun.extend(cells),
            Role::Reduce => return cells.is_subset(&begun),
            Role::Elements => {}
        }
        true
    })
}

/// Whether rows touch what is their own, and all steps can be shared.
fn fits(writer: &Writer, group: &Group, host: &BTreeSet<ScalarId>, exactness: Exactness) -> bool {
    let known =
        |item: &Loop| is_of_host(&item.start, writer, host) && is_of_host(&item.stop, writer, host);
    let are_apart = |loops: &[Loop], body: &[Stmt]| {
        independent_loops(loops, body).into_iter().all(|apart| apart)
    };
    all_begin(&group.steps)
        && group.rows.iter().all(known)
        && are_apart(&group.rows, &statements_of(&group.steps))
        && group.steps.iter().all(|step| {
            step.loops.iter().all(known)
                && match step.role {
                    Role::Cell => true,
                    Role::Elements => {
                        group.along == Along::Rows && are_apart(&step.loops, &step.body)
                    }
                    Role::Reduce => {
                        let is_float = stored(&step.body)
                            .iter()
                            .any(|id| writer.program.buffer(*id).dtype.class() == Class::Float);
                        (exactness != Exactness::Exact || !is_float)
                            && is_long(&step.loops)
                            && match group.along {
                                Along::Rows => runs_along(step),
                                Along::Columns => runs_across(step, &group.rows),
                            }
                    }
                }
        })
}

fn is_long(loops: &[Loop]) -> bool {
    let extents = loops.iter().map(extent).reduce(multiply);
    !matches!(extents, Some(TExpr::Int(..SHORT)))
}
