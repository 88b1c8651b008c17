//! Tensor programs as TVMScript.

use super::around::Around;
use super::blocks::{Scalars, explicit};
use super::tree::{
    argument, arguments, assign, call, callee, expr, items, keyword, name, name_of, names_in,
    statement, string, taken,
};
use super::words::{attributes, dim, dtype, is_attribute, is_declaration, quoted};
use super::{Turned, refuse};
use relax_syntax::Name;
use relax_syntax::ast::{Def, Expr, ExprKind, Parameter, Statement, StatementKind};
use relax_syntax::dtype::DType;
use relax_syntax::span::Span;
use std::collections::BTreeSet;

/// Functions of scalars that TVM has under the same name.
const SAME: &[&str] = &[
    "max", "min", "ceildiv", "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid",
    "floor", "ceil", "round", "trunc", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "asinh", "acosh", "atanh", "pow", "atan2",
];

/// Loops around, from the outside.
type Loops = Vec<(Name, Expr)>;

struct Program {
    variables: BTreeSet<Name>,
    scalars: Scalars,
}

/// `@T.prim_func`: parameters are inputs, integers, outputs, as TVM passes them.
pub(super) fn program(def: &Def, around: &Around, variables: &mut BTreeSet<Name>) -> Turned<Def> {
    let span = def.header;
    let mut program = Program { variables: BTreeSet::new(), scalars: Scalars::new() };
    let (mut buffers, mut scalars) = (Vec::new(), Vec::new());
    for parameter in &def.parameters {
        let turned = program.parameter(parameter)?;
        let is_scalar = parameter.annotation.as_ref().is_some_and(|a| name_of(a) == Some("int"));
        if is_scalar { scalars.push(turned) } else { buffers.push(turned) }
    }
    let outputs = around.programs.get(&def.name.name).copied().unwrap_or(1).min(buffers.len());
    let outputs = buffers.split_off(buffers.len() - outputs);
    let (attrs, body): (Vec<Statement>, Vec<Statement>) =
        def.body.iter().cloned().partition(|line| is_attribute(line).is_some());
    let attrs: Vec<&Expr> = attrs.iter().filter_map(is_attribute).collect();
    let mut lines = Vec::new();
    if !attrs.is_empty() {
        lines.push(attributes(&attrs, "T.func_attr"));
    }
    let body = super::blocks::implicit(body);
    lines.extend(program.body(&body, &Loops::new())?);
    // A parameter of TVM is no variable, and dims of other parameters cannot name it.
    if scalars.iter().any(|scalar| program.variables.contains(&scalar.name.name)) {
        return refuse(span, "an integer of a tensor program that is a dim of its buffers");
    }
    variables.extend(program.variables);
    buffers.extend(scalars);
    buffers.extend(outputs);
    let options = ["private", "s_tir"].map(|word| keyword(word, expr(ExprKind::Bool(true), span)));
    Ok(Def {
        decorators: vec![call("T.prim_func", options.into(), span)],
        name: def.name.clone(),
        parameters: buffers,
        returns: None,
        body: lines,
        header: span,
    })
}

impl Program {
    fn parameter(&mut self, parameter: &Parameter) -> Turned<Parameter> {
        let span = parameter.name.span;
        let Some(annotation) = &parameter.annotation else {
            return refuse(span, "a parameter without a type");
        };
        let turned = if name_of(annotation) == Some("int") {
            name("T.int64", span)
        } else {
            let (Some(shape), Some(of)) = (taken(annotation, 0, &[]), taken(annotation, 1, &[]))
            else {
                return refuse(span, "a buffer of another kind");
            };
            let mut dims = Vec::new();
            for item in items(shape) {
                dims.push(long(quoted(dim(item, &mut self.variables)?)));
            }
            let shape = expr(ExprKind::Tuple(dims), span);
            call("T.Buffer", vec![argument(shape), argument(dtype(of)?)], span)
        };
        Ok(Parameter { name: parameter.name.clone(), annotation: Some(turned) })
    }

    fn shape(&mut self, tree: &Expr) -> Turned<Expr> {
        let mut dims = Vec::new();
        for item in items(tree) {
            dims.push(long(dim(item, &mut self.variables)?));
        }
        Ok(expr(ExprKind::Tuple(dims), tree.span))
    }

    fn body(&mut self, body: &[Statement], loops: &Loops) -> Turned<Vec<Statement>> {
        let mut lines = Vec::new();
        for line in body {
            if !is_declaration(line)? {
                lines.push(self.line(line, loops)?);
            }
        }
        Ok(lines)
    }

    fn line(&mut self, line: &Statement, loops: &Loops) -> Turned<Statement> {
        let kind = match &line.kind {
            StatementKind::Assign { target, value, .. } => {
                return self.assigned(line, target, value);
            }
            StatementKind::Update { target, op, value } => {
                let target = self.target(target)?;
                let pair = Box::new((target.clone(), self.scalar(value)?));
                return Ok(assign(target, None, expr(ExprKind::Binary(*op, pair), line.span)));
            }
            StatementKind::If { condition, then, otherwise, .. } => StatementKind::If {
                condition: self.scalar(condition)?,
                then: self.body(then, loops)?,
                otherwise: self.body(otherwise, loops)?,
                else_span: None,
            },
            StatementKind::For { targets, iterator, body } => {
                let iterator = self.iterator(iterator)?;
                let mut loops = loops.clone();
                let bounds = arguments(&iterator);
                for (place, target) in targets.iter().enumerate() {
                    match bounds.get(place) {
                        Some(extent) => loops.push((target.name.clone(), extent.value.clone())),
                        None => return refuse(line.span, "a loop of another kind"),
                    }
                }
                let body = self.body(body, &loops)?;
                StatementKind::For { targets: targets.clone(), iterator, body }
            }
            StatementKind::With { context, body } if callee(context) == Some("block") => {
                let named = taken(context, 0, &[]).cloned();
                let label = named.unwrap_or_else(|| string("", line.span));
                let context = call("T.sblock", vec![argument(label)], line.span);
                let own = body.iter().any(|line| super::blocks::axis(line).is_some());
                let body = self.body(body, loops)?;
                let body = if own { body } else { explicit(&body, loops, &self.scalars) };
                StatementKind::With { context, body }
            }
            StatementKind::With { body, .. } => {
                let context = call("T.init", Vec::new(), line.span);
                StatementKind::With { context, body: self.body(body, loops)? }
            }
            StatementKind::Pass => {
                let zero = argument(expr(ExprKind::Int(0), line.span));
                StatementKind::Expr(call("T.evaluate", vec![zero], line.span))
            }
            StatementKind::Expr(given) => match callee(given) {
                Some("barrier") => {
                    let scope = argument(string("shared", line.span));
                    StatementKind::Expr(call("T.tvm_storage_sync", vec![scope], line.span))
                }
                _ => return refuse(line.span, "a check in a tensor program, or no body"),
            },
            _ => return refuse(line.span, "a statement that TVM does not have"),
        };
        Ok(statement(kind, line.span))
    }

    fn assigned(&mut self, line: &Statement, target: &Expr, value: &Expr) -> Turned<Statement> {
        match callee(value) {
            Some("alloc_buffer") => {
                let (Some(shape), Some(of)) = (taken(value, 0, &[]), taken(value, 1, &[])) else {
                    return refuse(line.span, "a buffer of another kind");
                };
                let mut all = vec![argument(self.shape(shape)?), argument(dtype(of)?)];
                if let Some(scope) = taken(value, 2, &[]) {
                    all.push(keyword("scope", scope.clone()));
                }
                let value = call("T.sblock_alloc_buffer", all, line.span);
                Ok(assign(target.clone(), None, value))
            }
            Some(axis @ ("spatial" | "reduce")) => {
                let mut all = Vec::new();
                for part in arguments(value) {
                    all.push(argument(long(self.scalar(&part.value)?)));
                }
                let value = call(&format!("T.axis.{axis}"), all, line.span);
                Ok(assign(target.clone(), None, value))
            }
            // Already TVM's: a block that was made explicit.
            Some("T.axis.spatial" | "T.axis.reduce") => Ok(line.clone()),
            _ => {
                self.note_scalar(target, value);
                let value = self.scalar(value)?;
                Ok(assign(self.target(target)?, None, value))
            }
        }
    }

    /// Notes what a scalar is computed from, through other scalars too.
    fn note_scalar(&mut self, target: &Expr, value: &Expr) {
        let Some(scalar) = name_of(target) else { return };
        let mut from = BTreeSet::new();
        names_in(value, &mut |name| {
            from.insert(name.clone());
            from.extend(self.scalars.get(name).into_iter().flatten().cloned());
        });
        self.scalars.insert(Name::new(scalar), from);
    }

    /// What is stored to: an element, or a scalar. A buffer of rank 0 is indexed by ().
    fn target(&mut self, tree: &Expr) -> Turned<Expr> {
        match tree.kind {
            ExprKind::Name(_) => Ok(tree.clone()),
            _ => self.scalar(tree),
        }
    }

    fn iterator(&mut self, tree: &Expr) -> Turned<Expr> {
        let what = match callee(tree) {
            Some("range" | "serial") => "range",
            Some("grid") => "T.grid",
            Some("parallel") => "T.parallel",
            Some("vectorized") => "T.vectorized",
            Some("unroll") => "T.unroll",
            Some("thread_binding") => "T.thread_binding",
            _ => return refuse(tree.span, "a loop over shards"),
        };
        let mut all = Vec::new();
        for part in arguments(tree) {
            match part.value.kind {
                ExprKind::Str(_) => all.push(keyword("thread", part.value.clone())),
                ExprKind::Tuple(_) => return refuse(tree.span, "a loop that does not begin at 0"),
                _ => all.push(argument(long(self.scalar(&part.value)?))),
            }
        }
        if what != "T.grid" && all.iter().filter(|part| part.keyword.is_none()).count() > 1 {
            return refuse(tree.span, "a loop that does not begin at 0");
        }
        Ok(call(what, all, tree.span))
    }

    fn scalar(&mut self, tree: &Expr) -> Turned<Expr> {
        let span = tree.span;
        let mut all = |items: &[Expr]| -> Turned<Vec<Expr>> {
            items.iter().map(|item| self.scalar(item)).collect()
        };
        let kind = match &tree.kind {
            ExprKind::Tuple(items) => ExprKind::Tuple(all(items)?),
            ExprKind::Subscript { base, indices } => {
                ExprKind::Subscript { base: base.clone(), indices: all(indices)? }
            }
            ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(self.scalar(operand)?)),
            ExprKind::Binary(op, pair) => {
                ExprKind::Binary(*op, Box::new((self.scalar(&pair.0)?, self.scalar(&pair.1)?)))
            }
            ExprKind::Call { .. } => return self.function(tree),
            ExprKind::Name(text) if matches!(text.as_str(), "inf" | "nan") => {
                return refuse(span, "an infinite literal");
            }
            leaf => leaf.clone(),
        };
        Ok(expr(kind, span))
    }

    fn function(&mut self, tree: &Expr) -> Turned<Expr> {
        let span = tree.span;
        let what = callee(tree).unwrap_or_default();
        if let (Some(to), [one]) = (DType::parse(what), arguments(tree)) {
            let literal = matches!(one.value.kind, ExprKind::Float(_) | ExprKind::Int(_));
            if literal {
                return Ok(call(&format!("T.{}", to.long_name()), vec![one.clone()], span));
            }
            let value = self.scalar(&one.value)?;
            let all = [string(to.long_name(), span), value].map(argument);
            return Ok(call("T.Cast", all.into(), span));
        }
        let mut all = Vec::new();
        for part in arguments(tree) {
            all.push(argument(self.scalar(&part.value)?));
        }
        match what {
            "select" => Ok(call("T.Select", all, span)),
            _ if SAME.contains(&what) => Ok(call(&format!("T.{what}"), all, span)),
            _ => refuse(span, format!("`{what}`, which TVM does not have in tensor programs")),
        }
    }
}

/// Integers of 64 bits, as symbolic dims are.
fn long(tree: Expr) -> Expr {
    let span: Span = tree.span;
    match tree.kind {
        ExprKind::Int(_) => call("T.int64", vec![argument(tree)], span),
        _ => tree,
    }
}
