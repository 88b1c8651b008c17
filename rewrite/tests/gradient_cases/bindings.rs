//! The lines of an adjoint as a rule has them.

use relax_syntax::ast::{Def, Expr, ExprKind, File, Statement, StatementKind};
use relax_syntax::print::print_file;

/// What stands for an operand where a gradient reads it.
pub(crate) fn other(operand: &str) -> String {
    format!("{operand}_other")
}

/// The lines of an adjoint as a rule has them, and the names of its gradients.
pub(crate) fn bindings(adjoint: Def, operands: &[&str]) -> Result<(String, Vec<String>), String> {
    let (mut lines, mut gradients) = (Vec::new(), Vec::new());
    for statement in flat(adjoint.body.clone()) {
        match statement.kind {
            StatementKind::Assign { target, value, .. } => {
                let value = as_rule(value, operands);
                let span = statement.span;
                lines.push(Statement {
                    kind: StatementKind::Assign { target, annotation: None, value },
                    span,
                });
            }
            StatementKind::Return(Expr { kind: ExprKind::Tuple(items), .. }) => {
                let Some(Expr { kind: ExprKind::Tuple(own), .. }) = items.into_iter().nth(1) else {
                    return Err("the gradients are no tuple".to_owned());
                };
                for gradient in own {
                    let ExprKind::Name(name) = as_rule(gradient, operands).kind else {
                        return Err("a gradient is no binding".to_owned());
                    };
                    gradients.push(name.to_string());
                }
            }
            StatementKind::Expr(_) => {}
            _ => return Err("the adjoint has control flow".to_owned()),
        }
    }
    let def = Def { parameters: Vec::new(), returns: None, body: lines, ..adjoint };
    let span = def.header;
    let statements = vec![Statement { kind: StatementKind::Def(Box::new(def)), span }];
    let text = print_file(&File { statements, comments: Vec::new() });
    let (_, body) = text.split_once(":\n").ok_or("the adjoint has no bindings")?;
    Ok((body.to_owned(), gradients))
}

/// Statements without the blocks around them.
fn flat(statements: Vec<Statement>) -> Vec<Statement> {
    let inner = |statement: Statement| match statement.kind {
        StatementKind::With { body, .. } => flat(body),
        kind => vec![Statement { kind, span: statement.span }],
    };
    statements.into_iter().flat_map(inner).collect()
}

/// An expression with `w` for each operand, and shapes as lists of dims.
fn as_rule(expr: Expr, operands: &[&str]) -> Expr {
    let all = |items: Vec<Expr>| items.into_iter().map(|item| as_rule(item, operands)).collect();
    let kind = match expr.kind {
        ExprKind::Name(name) if operands.contains(&name.as_str()) => {
            ExprKind::Name(other(&name).into())
        }
        ExprKind::Call { callee, arguments } => {
            let is_shape = matches!(&callee.kind, ExprKind::Name(name) if name == "shape");
            if is_shape {
                ExprKind::List(arguments.into_iter().map(|argument| argument.value).collect())
            } else {
                let mut arguments = arguments;
                for argument in &mut arguments {
                    argument.value = as_rule(argument.value.clone(), operands);
                }
                ExprKind::Call { callee, arguments }
            }
        }
        ExprKind::Tuple(items) => ExprKind::Tuple(all(items)),
        ExprKind::List(items) => ExprKind::List(all(items)),
        ExprKind::Subscript { base, indices } => {
            ExprKind::Subscript { base: Box::new(as_rule(*base, operands)), indices }
        }
        kind => kind,
    };
    Expr { kind, span: expr.span }
}
