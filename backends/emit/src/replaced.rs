//! Values that are at hand: an element that was computed a moment before needs not be stored and loaded again, and
//! a buffer of which every element is only that needs no memory.

use crate::Sums;
use crate::apart::loads;
use relax_rewrite::walk::accesses;
use relax_rewrite::workspaces::is_forgotten;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Param, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// Expressions, and what C has their values in.
#[derive(Debug, Default)]
pub(crate) struct Replaced(Vec<(TExpr, String)>);

impl Replaced {
    pub(crate) fn of(&self, expr: &TExpr) -> Option<String> {
        let found = self.0.iter().rev().find(|(known, _)| known == expr);
        found.map(|(_, text)| text.clone())
    }

    pub(crate) fn push(&mut self, expr: TExpr, text: String) {
        self.0.push((expr, text));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

/// The buffers that nothing sees after the program, with one plain store, and with loads of the very element only,
/// in the statements that follow it in the same body. A buffer that the caller sees is kept where results
/// are to be those of the interpreter.
pub(crate) fn forwarded(program: &TensorProgram, body: &[Stmt], sums: Sums) -> BTreeSet<BufferId> {
    let mut found = BTreeMap::new();
    in_body(body, &mut found);
    let mut all: BTreeMap<BufferId, usize> = BTreeMap::new();
    for stmt in body {
        accesses(std::slice::from_ref(stmt), &mut |buffer, _, _| {
            *all.entry(buffer).or_default() += 1
        });
    }
    let plain = |dim: &Dim| matches!(dim, Dim::Var(_) | Dim::Int(0..));
    let allowed = |buffer: BufferId| {
        let hidden = !program.params.contains(&Param::Buffer(buffer)) || sums == Sums::AnyOrder;
        hidden && is_forgotten(program, buffer) && program.buffer(buffer).shape.iter().all(plain)
    };
    let found = found
        .into_iter()
        .filter(|(buffer, count)| all.get(buffer) == Some(count) && *count > 1 && allowed(*buffer));
    found.map(|(buffer, _)| buffer).collect()
}

/// Statements without the blocks that only have a name: what such a block does is done where it stands.
pub(crate) fn without_names(body: &[Stmt]) -> Vec<Stmt> {
    let mut result = Vec::new();
    for stmt in body {
        let kind = match &stmt.kind {
            StmtKind::Block { axes, init, body, .. } if axes.is_empty() && init.is_empty() => {
                result.extend(without_names(body));
                continue;
            }
            StmtKind::For { loops, kind, body } => StmtKind::For {
                loops: loops.clone(),
                kind: kind.clone(),
                body: without_names(body),
            },
            StmtKind::If { condition, then, otherwise } => StmtKind::If {
                condition: condition.clone(),
                then: without_names(then),
                otherwise: without_names(otherwise),
            },
            other => other.clone(),
        };
        result.push(Stmt { kind, span: stmt.span });
    }
    result
}

/// The buffers with a plain store in a body, with how many accesses that is, loads after it counted.
fn in_body(body: &[Stmt], found: &mut BTreeMap<BufferId, usize>) {
    for (at, stmt) in body.iter().enumerate() {
        match &stmt.kind {
            StmtKind::Store { buffer, indices, update: None, .. } => {
                let mut count = 1;
                for later in &body[at + 1..] {
                    loads(later, &mut |other, place| {
                        count += usize::from(other == *buffer && place == indices.as_slice());
                    });
                }
                found.insert(*buffer, count);
            }
            StmtKind::For { body, .. } => in_body(body, found),
            StmtKind::If { then, otherwise, .. } => {
                in_body(then, found);
                in_body(otherwise, found);
            }
            // What a block does at its first iteration only is not known in the others.
            _ => {}
        }
    }
}
