//! Dependence analysis by proof: whether two iterations of a loop can touch one element that one of them writes. The question to the
//! prover is that of a dependence test: from equal indices and a positive distance between the iterations a contradiction follows.

use relax_semantics::tir::ranges::{Ranges, assume_declared};
use relax_semantics::tir::walk::{visit, visit_own};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// Pairs of accesses that are asked about; a nest of more is taken to carry a dependence.
const MOST: usize = 64;

/// One access: its indices as dims, and what is known of the loops around it within the nest.
struct Access {
    buffer: BufferId,
    indices: Option<Vec<Dim>>,
    writes: bool,
    known: Vec<Claim>,
    vars: BTreeSet<Name>,
}

/// Whether no two iterations of a loop with this body touch one element that either writes, within one iteration of the loops
/// `outside`. What is not proved counts as carried.
#[must_use]
pub fn is_independent(
    program: &TensorProgram,
    outside: &[Loop],
    (item, body): (&Loop, &[Stmt]),
    facts: &mut dyn Facts,
) -> bool {
    let mut nest = Nest { accesses: Vec::new(), own: BTreeSet::new() };
    let mut around = Around { ranges: Ranges::of(program), ..Around::default() };
    facts.push();
    assume_declared(facts, &program.dims);
    outside.iter().for_each(|item| around.ranges.enter(facts, item));
    let around = around.entered(facts, item);
    nest.statements(&around, body, facts);
    let name = around.ranges.name(item.var);
    let independent = name.is_some_and(|name| nest.is_independent(&name, facts));
    facts.pop();
    independent
}

#[derive(Clone, Default)]
struct Around {
    ranges: Ranges,
    known: Vec<Claim>,
    vars: BTreeSet<Name>,
}

impl Around {
    /// Within a loop.
    fn entered(mut self, facts: &mut dyn Facts, item: &Loop) -> Self {
        let (start, stop) = (self.ranges.dim(&item.start), self.ranges.dim(&item.stop));
        facts.push();
        self.ranges.enter(facts, item);
        facts.pop();
        if let Some(name) = self.ranges.name(item.var) {
            let var = || Dim::Var(name.clone());
            self.known.extend(start.map(|start| Claim::new(start, Relation::AtMost, var())));
            self.known.extend(stop.map(|stop| Claim::new(var(), Relation::Less, stop)));
            self.vars.insert(name);
        }
        self
    }
}

struct Nest {
    accesses: Vec<Access>,
    /// Buffers of one iteration.
    own: BTreeSet<BufferId>,
}

impl Nest {
    fn statements(&mut self, around: &Around, body: &[Stmt], facts: &mut dyn Facts) {
        let mut around = around.clone();
        for stmt in body {
            visit_own(stmt, &mut |own| {
                visit(own, &mut |part| {
                    if let TExpr::Load { buffer, indices } = part {
                        self.access(&around, *buffer, indices, false);
                    }
                });
            });
            match &stmt.kind {
                StmtKind::For { loops, body, .. } => {
                    let inner =
                        loops.iter().fold(around.clone(), |inner, item| inner.entered(facts, item));
                    self.statements(&inner, body, facts);
                }
                StmtKind::Block { axes, init, body, .. } => {
                    axes.iter().for_each(|axis| around.ranges.bind(axis.var, &axis.value));
                    self.statements(&around, init, facts);
                    self.statements(&around, body, facts);
                }
                StmtKind::If { then, otherwise, .. } => {
                    self.statements(&around, then, facts);
                    self.statements(&around, otherwise, facts);
                }
                StmtKind::Store { buffer, indices, .. } => {
                    self.access(&around, *buffer, indices, true);
                }
                StmtKind::Let { var, value } => around.ranges.bind(*var, value),
                StmtKind::Alloc(buffer) => _ = self.own.insert(*buffer),
                StmtKind::Barrier | StmtKind::Check(_) => {}
            }
        }
    }

    fn access(&mut self, around: &Around, buffer: BufferId, indices: &[TExpr], writes: bool) {
        let indices = indices.iter().map(|index| around.ranges.dim(index)).collect();
        let (known, vars) = (around.known.clone(), around.vars.clone());
        self.accesses.push(Access { buffer, indices, writes, known, vars });
    }

    fn is_independent(&self, name: &Name, facts: &mut dyn Facts) -> bool {
        let shared = |access: &&Access| !self.own.contains(&access.buffer);
        let all: Vec<&Access> = self.accesses.iter().filter(shared).collect();
        let mut pairs = Vec::new();
        for (at, a) in all.iter().enumerate() {
            for b in &all[at..] {
                if a.buffer == b.buffer && (a.writes || b.writes) {
                    pairs.push((*a, *b));
                }
            }
        }
        pairs.len() <= MOST
            && pairs.iter().all(|(a, b)| {
                are_apart(a, b, name, facts)
                    && (std::ptr::eq(*a, *b) || are_apart(b, a, name, facts))
            })
    }
}

/// Whether an access never touches what another one touches in a later iteration.
fn are_apart(a: &Access, b: &Access, name: &Name, facts: &mut dyn Facts) -> bool {
    let (Some(own), Some(others)) = (&a.indices, &b.indices) else { return false };
    let later: BTreeMap<Name, Dim> = b
        .vars
        .iter()
        .map(|var| (var.clone(), Dim::Var(Name::new(format!("later {var}")))))
        .collect();
    let Some(second) = later.get(name) else { return false };
    facts.push();
    for claim in &a.known {
        facts.assume(claim.clone());
    }
    for claim in &b.known {
        let sides = [&claim.left, &claim.right].map(|side| side.substitute(&later));
        let [left, right] = sides;
        facts.assume(Claim::new(left, claim.relation, right));
    }
    facts.assume(Claim::new(Dim::Var(name.clone()), Relation::Less, second.clone()));
    for (index, other) in own.iter().zip(others) {
        facts.assume(Claim::new(index.clone(), Relation::Equal, other.substitute(&later)));
    }
    let apart = facts.decide(&Claim::new(1, Relation::AtMost, 0)) == Answer::Proved;
    facts.pop();
    apart
}
