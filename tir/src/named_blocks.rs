//! Blocks that only have a name are dissolved: their statements stand in the body around them.

use relax_syntax::ir::tensor::{Stmt, StmtKind};

/// Statements without the blocks that only have a name: what such a block does is done where it stands.
#[must_use]
pub fn without_named_blocks(body: &[Stmt]) -> Vec<Stmt> {
    let mut result = Vec::new();
    for stmt in body {
        let kind = match &stmt.kind {
            StmtKind::Block { axes, init, body, .. } if axes.is_empty() && init.is_empty() => {
                result.extend(without_named_blocks(body));
                continue;
            }
            StmtKind::For { loops, kind, body } => StmtKind::For {
                loops: loops.clone(),
                kind: kind.clone(),
                body: without_named_blocks(body),
            },
            StmtKind::If { condition, then, otherwise } => StmtKind::If {
                condition: condition.clone(),
                then: without_named_blocks(then),
                otherwise: without_named_blocks(otherwise),
            },
            other => other.clone(),
        };
        result.push(Stmt { kind, span: stmt.span });
    }
    result
}
