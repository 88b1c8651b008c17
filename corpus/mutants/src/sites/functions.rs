//! Mutants of whole functions and statements: a result that was not computed, a call that was left out.

use super::{Sites, bytes};
use syn::visit;
use syn::{Expr, ReturnType, Signature, Stmt, Type};

impl Sites<'_> {
    /// A function: results in place of what it computes, then what stands in it.
    pub(super) fn body(&mut self, signature: &Signature, block: &syn::Block) {
        let name = signature.ident.to_string();
        // What the compiler runs cannot choose. How things are shown is no part of what is asked for here.
        if signature.constness.is_some() || name == "fmt" {
            return;
        }
        let outer = std::mem::replace(&mut self.function, name);
        let after = bytes(&block.brace_token.span.open()).end;
        if !block.stmts.is_empty() {
            for result in results(&signature.output) {
                let edit =
                    format!("returns {}", if result.is_empty() { "at once" } else { result });
                let number = self.mutant(bytes(&signature.ident).start, &edit);
                let text = format!(" if {} {{ return {result}; }}", Self::pick(number));
                self.edits.around(number, after..after, &text, "");
            }
        }
        visit::visit_block(self, block);
        self.function = outer;
    }

    /// A statement that is left out.
    pub(super) fn statement(&mut self, statement: &Stmt) {
        let Stmt::Expr(expression, Some(semicolon)) = statement else { return };
        let inner = match expression {
            Expr::Try(inner) => &*inner.expr,
            other => other,
        };
        let assigns = match inner {
            Expr::Call(_) | Expr::MethodCall(_) => false,
            // A variable that is declared without a value must get one.
            Expr::Assign(assign) => !matches!(&*assign.left, Expr::Path(_)),
            Expr::Binary(binary) => is_assigning(&binary.op),
            _ => return,
        };
        if matches!(inner, Expr::Assign(_)) && !assigns {
            return;
        }
        let at = bytes(expression).start..bytes(semicolon).end;
        let number = self.mutant(at.start, &format!("leaves out `{}`", self.excerpt(&at)));
        let before = format!("if !{} {{ ", Self::pick(number));
        self.edits.around(number, at, &before, " }");
    }
}

/// Does the operator change its left operand?
pub(super) fn is_assigning(operator: &syn::BinOp) -> bool {
    use syn::BinOp;
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
    )
}

/// Results that have a type.
fn results(output: &ReturnType) -> &'static [&'static str] {
    let ReturnType::Type(_, of) = output else { return &[""] };
    let Type::Path(path) = &**of else { return &[] };
    let Some(last) = path.path.segments.last() else { return &[] };
    match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "Option" => &["None"],
        "Vec" => &["Vec::new()"],
        "String" => &["String::new()"],
        "BTreeMap" | "BTreeSet" => &["Default::default()"],
        "usize" | "i64" | "i128" | "u64" | "u32" => &["0", "1"],
        "Result" if is_of_unit(last) => &["Ok(())"],
        _ => &[],
    }
}

/// Is this `Result<(), …>`?
fn is_of_unit(segment: &syn::PathSegment) -> bool {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    matches!(
        arguments.args.first(),
        Some(syn::GenericArgument::Type(Type::Tuple(tuple))) if tuple.elems.is_empty()
    )
}
