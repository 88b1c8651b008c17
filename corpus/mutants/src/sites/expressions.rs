//! Mutants of expressions. An edit evaluates each operand once, and asks for its mutant only where that would make a difference
//! if this can be known at once: a mutant that no test asks for needs no run.

use super::functions::is_assigning;
use super::{Sites, bytes};
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprBinary, ExprMethodCall};

/// Numbers up to which a literal is changed; larger ones are limits and sizes.
const LARGEST: u64 = 4;

impl Sites<'_> {
    pub(super) fn expression(&mut self, expression: &Expr) {
        match expression {
            Expr::Const(_) | Expr::Macro(_) => {}
            Expr::Repeat(repeat) => self.visit_expr(&repeat.expr),
            Expr::Lit(literal) => self.literal(literal),
            Expr::Unary(syn::ExprUnary { op: syn::UnOp::Not(_), expr, .. }) => {
                self.negated(expression, "drops `!`");
                self.visit_expr(expr);
            }
            Expr::Binary(binary) => self.binary(expression, binary),
            Expr::If(inner) => {
                self.condition(&inner.cond, &["true", "false"]);
                self.visit_block(&inner.then_branch);
                if let Some((_, other)) = &inner.else_branch {
                    self.visit_expr(other);
                }
            }
            Expr::While(inner) => {
                // A loop without an end is found, but after a wait.
                self.condition(&inner.cond, &["false"]);
                self.visit_block(&inner.body);
            }
            Expr::Match(inner) => self.arms(inner),
            Expr::Range(range) => self.range(range),
            Expr::MethodCall(call) => self.call(call),
            other => visit::visit_expr(self, other),
        }
    }

    /// A condition is true, or false. `let` cannot stand in parentheses, and is only left out.
    fn condition(&mut self, expression: &Expr, values: &[&str]) {
        if let Expr::Let(inner) = expression {
            let number = self.mutant(bytes(expression).start, "`let` does not match");
            let text = format!(" && !{}", Self::pick(number));
            self.edits.around(number, bytes(expression), "", &text);
            return self.visit_expr(&inner.expr);
        }
        if has_let(expression) {
            let Expr::Binary(binary) = expression else { return };
            self.condition(&binary.left, values);
            return self.condition(&binary.right, values);
        }
        let (at, shown) = (bytes(expression), self.excerpt(&bytes(expression)));
        for value in values {
            let number = self.mutant(at.start, &format!("`{shown}` is {value}"));
            let pick = Self::pick(number);
            let after =
                if *value == "true" { format!(") || {pick})") } else { format!(") && !{pick})") };
            self.edits.around(number, at.clone(), "((", &after);
        }
        match expression {
            // True and false are worse than its opposite.
            Expr::Binary(binary) if matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)) => {
                self.operands(binary);
            }
            Expr::Unary(inner) => self.visit_expr(&inner.expr),
            other => self.visit_expr(other),
        }
    }

    fn operands(&mut self, binary: &ExprBinary) {
        self.visit_expr(&binary.left);
        self.visit_expr(&binary.right);
    }

    fn binary(&mut self, whole: &Expr, binary: &ExprBinary) {
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) if has_let(whole) => {
                return self.condition(whole, &["true", "false"]);
            }
            BinOp::And(_) | BinOp::Or(_) => return self.connected(binary),
            BinOp::Eq(_) => self.negated(whole, "`==` to `!=`"),
            BinOp::Ne(_) => self.negated(whole, "`!=` to `==`"),
            BinOp::Lt(_) => self.compared(binary, "<", "<="),
            BinOp::Le(_) => self.compared(binary, "<=", "<"),
            BinOp::Gt(_) => self.compared(binary, ">", ">="),
            BinOp::Ge(_) => self.compared(binary, ">=", ">"),
            BinOp::Add(_) => self.computed(binary, "+", "-"),
            BinOp::Sub(_) => self.computed(binary, "-", "+"),
            BinOp::Mul(_) => self.computed(binary, "*", "+"),
            BinOp::Div(_) => self.computed(binary, "/", "*"),
            BinOp::Rem(_) => self.computed(binary, "%", "/"),
            _ if is_assigning(&binary.op) => return self.visit_expr(&binary.right),
            _ => {}
        }
        self.operands(binary);
    }

    /// Another value of a truth.
    fn negated(&mut self, expression: &Expr, edit: &str) {
        let at = bytes(expression);
        let number = self.mutant(at.start, edit);
        self.edits.around(number, at, "((", &format!(") ^ {})", Self::pick(number)));
    }

    /// `&&` and `||`: the second operand is wanted where the first is not what decides.
    fn connected(&mut self, binary: &ExprBinary) {
        let (is, other) =
            if matches!(binary.op, BinOp::And(_)) { ("&&", "||") } else { ("||", "&&") };
        let number = self.mutant(bytes(&binary.op).start, &format!("`{is}` to `{other}`"));
        let at = bytes(&binary.left).start..bytes(&binary.right).end;
        let pick = Self::pick(number);
        let between = if is == "&&" {
            format!("); if mutant_left != {pick} {{ ")
        } else {
            format!("); if mutant_left == {pick} {{ ")
        };
        self.edits.around(number, at, "({ let mutant_left: bool = (", " } else { mutant_left } })");
        self.edits.instead(number, bytes(&binary.op), &between);
        self.condition(&binary.left, &["true", "false"]);
        self.condition(&binary.right, &["true", "false"]);
    }

    fn compared(&mut self, binary: &ExprBinary, is: &str, other: &str) {
        let number = self.mutant(bytes(&binary.op).start, &format!("`{is}` to `{other}`"));
        let at = bytes(&binary.left).start..bytes(&binary.right).end;
        let after = format!(
            ")) {{ (mutant_left, mutant_right) => {{ let mutant_is = mutant_left {is} mutant_right; \
             mutant_is ^ (mutant_is != (mutant_left {other} mutant_right) && {}) }} }})",
            Self::pick(number)
        );
        self.edits.around(number, at, "(match (&(", &after);
        self.edits.instead(number, bytes(&binary.op), "), &(");
    }

    fn computed(&mut self, binary: &ExprBinary, is: &str, other: &str) {
        let number = self.mutant(bytes(&binary.op).start, &format!("`{is}` to `{other}`"));
        let at = bytes(&binary.left).start..bytes(&binary.right).end;
        let after = format!(
            ")) {{ (mutant_left, mutant_right) => if {} {{ mutant_left {other} mutant_right }} \
             else {{ mutant_left {is} mutant_right }} }})",
            Self::pick(number)
        );
        self.edits.around(number, at, "(match ((", &after);
        self.edits.instead(number, bytes(&binary.op), "), (");
    }

    fn literal(&mut self, literal: &syn::ExprLit) {
        let syn::Lit::Int(number) = &literal.lit else { return };
        let Ok(value) = number.base10_parse::<u64>() else { return };
        if value > LARGEST {
            return;
        }
        let suffix = number.suffix();
        let other = if value == 1 { 0 } else { value + 1 };
        let at = bytes(literal);
        let mutant = self.mutant(at.start, &format!("`{value}` to `{other}`"));
        let before = format!("(if {} {{ {other}{suffix} }} else {{ ", Self::pick(mutant));
        self.edits.around(mutant, at, &before, " })");
    }

    /// A range ends one later, or one earlier where it holds its end.
    fn range(&mut self, range: &syn::ExprRange) {
        if let Some(start) = &range.start {
            self.visit_expr(start);
        }
        let Some(end) = &range.end else { return };
        if !matches!(&**end, Expr::Lit(_)) {
            let (edit, sign) = match range.limits {
                syn::RangeLimits::HalfOpen(_) => ("`..` to `..=`", "+"),
                syn::RangeLimits::Closed(_) => ("`..=` to `..`", "-"),
            };
            let number = self.mutant(bytes(&**end).start, edit);
            let after = format!(") {sign} (if {} {{ 1 }} else {{ 0 }})", Self::pick(number));
            self.edits.around(number, bytes(&**end), "(", &after);
        }
        self.visit_expr(end);
    }

    /// Arms: a guard that is true or false; an arm that is left to the last one, where that takes everything.
    fn arms(&mut self, inner: &syn::ExprMatch) {
        self.visit_expr(&inner.expr);
        let takes_all =
            inner.arms.last().is_some_and(|arm| arm.guard.is_none() && binds_all(&arm.pat));
        for (index, arm) in inner.arms.iter().enumerate() {
            if let Some((_, guard)) = &arm.guard {
                self.condition(guard, &["true", "false"]);
            } else if takes_all && index + 1 < inner.arms.len() {
                let at = bytes(&arm.fat_arrow_token).start;
                let shown = self.excerpt(&bytes(&arm.pat));
                let number = self.mutant(at, &format!("leaves out the arm `{shown}`"));
                let text = format!("if !{} ", Self::pick(number));
                self.edits.around(number, at..at, &text, "");
            }
            self.visit_expr(&arm.body);
        }
    }

    fn call(&mut self, call: &ExprMethodCall) {
        let name = call.method.to_string();
        match (name.as_str(), call.args.len()) {
            ("min", 1) => self.extreme(call, "min", "max"),
            ("max", 1) => self.extreme(call, "max", "min"),
            ("any", 1) => self.quantified(call, "`any` to `all`"),
            ("all", 1) => self.quantified(call, "`all` to `any`"),
            _ => {}
        }
        visit::visit_expr_method_call(self, call);
    }

    fn extreme(&mut self, call: &ExprMethodCall, is: &str, other: &str) {
        let number = self.mutant(bytes(&call.method).start, &format!("`{is}` to `{other}`"));
        let text = format!("(if {} {{ Ord::{other} }} else {{ Ord::{is} }})((", Self::pick(number));
        let at = bytes(call);
        self.edits.around(number, at.clone(), &text, "");
        let end = bytes(&call.args).start;
        self.edits.instead(number, bytes(&call.dot_token).start..end, "), ");
    }

    /// `any` of the opposites is the opposite of `all`.
    fn quantified(&mut self, call: &ExprMethodCall, edit: &str) {
        let Some(Expr::Closure(closure)) = call.args.first() else { return };
        if !matches!(closure.output, syn::ReturnType::Default) {
            return;
        }
        let number = self.mutant(bytes(&call.method).start, edit);
        let pick = Self::pick(number);
        self.edits.around(number, bytes(call), "((", &format!(") ^ {pick})"));
        self.edits.around(number, bytes(&*closure.body), "((", &format!(") ^ {pick})"));
    }
}

/// Does a pattern match everything? A name in capitals is one of a variant, such as `None`.
fn binds_all(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Wild(_) => true,
        syn::Pat::Ident(name) => {
            name.subpat.is_none() && name.ident.to_string().starts_with(|c: char| c.is_lowercase())
        }
        _ => false,
    }
}

/// Does a chain of conditions hold a `let`?
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}
