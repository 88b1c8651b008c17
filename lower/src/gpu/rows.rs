//! Nests that follow each other over the same rows, as one kernel with a block for each row (stitching: BladeDISC §4.2): the threads
//! of the block share a row, reduce it by a tree in shared memory, and hand on there what the row comes to. So softmax and the
//! normalizations are one kernel.
//!
//! Where a reduction goes down columns, neighbouring threads have neighbouring columns, and some threads of the block share each:
//! so memory is read along its rows, and a tall matrix of few columns has work for all. Columns of few elements are not worth
//! that: a thread has each alone, and where only a call tells how long they are, both kernels are in the text, and the host chooses.
//!
//! A tree combines in another order: floats only where [`Order::Free`] allows it. What is combined of integers is the same in any
//! order. Nothing of it may stop the program, since rows and steps change places.

use super::bind::{bind_times, is_of_host};
use super::block::Kernel;
use super::expressions::{as_dim, binary, extent, multiply};
use super::handed::own_elements;
use super::own::apart;
use super::program::Writer;
use super::steps::{Role, Step, runs_across, runs_along, steps, unwrapped};
use super::{Limits, Order};
use crate::passes::fuse_loops::never_stops;
use relax_rewrite::ranges::{assume_declared, is_proved};
use relax_rewrite::walk::{Rewrite, statements, stored};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::Class;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that are known to be shorter are not worth a block.
const SHORT: i64 = 32;

/// Nests over the same rows.
pub(super) struct Group {
    pub(super) rows: Vec<Loop>,
    pub(super) steps: Vec<Step>,
    /// How elements of a row follow each other.
    along: Along,
    /// How many statements of the program they are.
    length: usize,
    /// Memory that is allocated between them.
    pub(super) allocated: Vec<Stmt>,
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

/// The kernel of the nests that `rest` begins with, and how many statements it stands for.
pub(super) fn stitch(
    writer: &mut Writer,
    (before, rest): (&[Stmt], &[Stmt]),
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    (limits, order): (Limits, Order),
) -> Option<(usize, Vec<Stmt>)> {
    let mut group = [Along::Rows, Along::Columns]
        .into_iter()
        .find_map(|along| group(writer, (rest, along), host, facts, order))?;
    let long = match group.along {
        Along::Rows => None,
        Along::Columns => long(writer, &group, facts)?,
    };
    // What the kernel binds has other kinds of names then.
    let alone = long.is_some().then(|| writer.renamed(&rest[0]));
    let outside = [before, &rest[group.length..]].concat();
    let cells = own_elements(writer, &group.rows, &statements_of(&group), &outside);
    let mut kernel = match group.along {
        Along::Rows => Kernel::of_rows(writer, group.span, limits),
        Along::Columns => Kernel::of_columns(writer, &group, long.as_ref(), limits),
    };
    let mut shared = kernel.cells(&cells);
    for step in &mut group.steps {
        step.body = shared.statements(&step.body);
    }
    group.allocated.retain(|stmt| !matches!(&stmt.kind, StmtKind::Alloc(id) if cells.contains(id)));
    let shared = shared.allocations(group.span);
    let mut done = kernel.write(&group, shared);
    if let Some((long, alone)) = long.zip(alone) {
        let short = binary(BinOp::Sub, TExpr::Int(1), long);
        done.extend(bind_times(writer, (&alone, Some(short)), &outside, host, facts, limits)?);
    }
    Some((group.length, done))
}

/// 1 where columns are long enough to be shared, which the host finds; else a thread has each alone. None where all are, or where
/// what a column comes to is handed on; not at all where they are known to be short.
fn long(writer: &Writer, group: &Group, facts: &mut dyn Facts) -> Option<Option<TExpr>> {
    let reduced = group.steps.iter().filter(|step| step.role == Role::Reduce);
    let mut counts = reduced.map(|step| step.loops.iter().map(extent).reduce(multiply));
    let Some(Some(count)) = counts.next() else { return Some(None) };
    let are_same = counts.all(|other| other.as_ref() == Some(&count));
    let known = as_dim(&count).filter(|_| are_same && group.length == 1 && !group.rows.is_empty());
    let Some(dim) = known.filter(|dim| !matches!(dim, Dim::Int(_))) else { return Some(None) };
    facts.push();
    assume_declared(facts, &writer.program.dims);
    let always = is_proved(facts, &Claim::new(SHORT, Relation::AtMost, dim.clone()));
    let never = !always && is_proved(facts, &Claim::new(dim, Relation::Less, SHORT));
    facts.pop();
    let whole = binary(BinOp::FloorDiv, count, TExpr::Int(SHORT));
    (!never).then(|| (!always).then(|| binary(BinOp::Min, whole, TExpr::Int(1))))
}

fn group(
    writer: &Writer,
    (rest, along): (&[Stmt], Along),
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    order: Order,
) -> Option<Group> {
    let first = rest.first()?;
    let (rows, body) = unwrapped(first);
    let all = steps(&[], &body)?;
    let is_first = all.iter().any(|step| step.role == Role::Reduce);
    let (allocated, span) = (Vec::new(), first.span);
    let mut group = Group { rows, steps: all, along, length: 1, allocated, span };
    let starts =
        is_first && fits(writer, &group, host, order) && never_stops(&writer.program, first, facts);
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
        if !fits(writer, &longer, host, order) || !never_stops(&writer.program, stmt, facts) {
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

struct Renamed {
    names: BTreeMap<ScalarId, ScalarId>,
}

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.names.get(&id).copied().unwrap_or(id)
    }
}

/// What the steps do, without their loops.
fn statements_of(group: &Group) -> Vec<Stmt> {
    group.steps.iter().flat_map(|step| step.body.clone()).collect()
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
fn fits(writer: &Writer, group: &Group, host: &BTreeSet<ScalarId>, order: Order) -> bool {
    let known =
        |item: &Loop| is_of_host(&item.start, writer, host) && is_of_host(&item.stop, writer, host);
    let are_apart =
        |loops: &[Loop], body: &[Stmt]| apart(loops, body).into_iter().all(|apart| apart);
    all_begin(&group.steps)
        && group.rows.iter().all(known)
        && are_apart(&group.rows, &statements_of(group))
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
                        (order == Order::Free || !is_float)
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
