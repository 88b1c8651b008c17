//! Tensor programs, from TVM's text.

use super::attributes::attributes;
use super::blocks;
use super::graph::dim;
use super::tree::{
    argument, arguments, assign, call, callee, declaration, expr, expressions, is_call, items,
    name, name_of, names_in, statement, string, taken,
};
use super::{Module, Refused, Turned, refuse};
use relax_syntax::Name;
use relax_syntax::ast::{
    BinaryOp, Def, Expr, ExprKind, Identifier, Parameter, Statement, StatementKind,
};
use relax_syntax::dtype::DType;
use relax_syntax::print::print_expression;
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Functions of scalars that both have, under the same name.
const SAME: &[&str] = &[
    "max", "min", "ceildiv", "abs", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid",
    "floor", "ceil", "round", "trunc", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "asinh", "acosh", "atanh", "pow", "atan2",
];

/// Names of TVM's patterns, by number.
const PATTERNS: &[(i64, &str)] = &[
    (0, "ElementWise"),
    (1, "Broadcast"),
    (2, "Injective"),
    (3, "Reduction"),
    (4, "OutputEwiseFusible"),
    (8, "Opaque"),
];

struct Program {
    /// Buffers that are declared in the body, by the name of their handle.
    matched: BTreeMap<Name, (Name, Expr)>,
    /// Symbolic variables.
    variables: BTreeSet<Name>,
}

/// `@T.prim_func`
pub(super) fn program(def: &Def, decorator: &Expr, module: &Module) -> Turned<Def> {
    for option in arguments(decorator) {
        match option.keyword.as_ref().map(|keyword| keyword.name.as_str()) {
            Some("private" | "s_tir" | "check_well_formed") => {}
            _ => return refuse(option.value.span, "an option of T.prim_func that is not known"),
        }
    }
    let mut program = Program { matched: BTreeMap::new(), variables: module.variables.clone() };
    program.declare(&def.body)?;
    let (mut buffers, mut scalars) = (Vec::new(), Vec::new());
    for parameter in &def.parameters {
        let turned = program.parameter(parameter)?;
        let is_scalar = turned.annotation.as_ref().is_some_and(|a| name_of(a) == Some("int"));
        if is_scalar { scalars.push(turned) } else { buffers.push(turned) }
    }
    let mut own: BTreeSet<Name> = scalars.iter().map(|scalar| scalar.name.name.clone()).collect();
    // Symbolic variables are those of all functions, so that a loop variable may have the name of one.
    loop_variables(&def.body, &mut own);
    let body = program.body(&def.body)?;
    let body = blocks::implicit(body);
    let mut used = BTreeSet::new();
    expressions(&body, &mut |expr| {
        names_in(expr, &mut |name| {
            if program.variables.contains(name) && !own.contains(name) {
                used.insert(name.clone());
            }
        });
    });
    let mut lines: Vec<Statement> = declaration(&used, def.header).into_iter().collect();
    lines.extend(body);
    buffers.extend(scalars);
    Ok(Def {
        decorators: vec![name("tensorir_function", decorator.span)],
        name: def.name.clone(),
        parameters: buffers,
        returns: None,
        body: lines,
        header: def.header,
    })
}

fn loop_variables(statements: &[Statement], found: &mut BTreeSet<Name>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::For { targets, body, .. } => {
                found.extend(targets.iter().map(|target| target.name.clone()));
                loop_variables(body, found);
            }
            StatementKind::With { body, .. } => loop_variables(body, found),
            StatementKind::If { then, otherwise, .. } => {
                loop_variables(then, found);
                loop_variables(otherwise, found);
            }
            _ => {}
        }
    }
}

impl Program {
    fn declare(&mut self, body: &[Statement]) -> Turned<()> {
        for statement in body {
            let StatementKind::Assign { target, value, .. } = &statement.kind else { continue };
            if is_call(value, &["T.match_buffer"]) {
                let (Some(handle), Some(buffer)) =
                    (taken(value, 0, &["param"]).and_then(name_of), name_of(target))
                else {
                    return refuse(value.span, "a buffer of no handle");
                };
                let annotation = buffer_type(value, 1)?;
                self.matched.insert(Name::new(handle), (Name::new(buffer), annotation));
            } else if is_variable(value) {
                names_in(target, &mut |name| _ = self.variables.insert(name.clone()));
            }
        }
        Ok(())
    }

    fn parameter(&self, parameter: &Parameter) -> Turned<Parameter> {
        let span = parameter.name.span;
        let Some(annotation) = &parameter.annotation else {
            return refuse(span, "a parameter without a type");
        };
        let turned = match name_of(annotation).or_else(|| callee(annotation)) {
            Some("T.handle") => {
                let Some((buffer, annotation)) = self.matched.get(&parameter.name.name) else {
                    return refuse(span, "a handle that no buffer matches");
                };
                let name = Identifier { name: buffer.clone(), span };
                return Ok(Parameter { name, annotation: Some(annotation.clone()) });
            }
            Some("T.Buffer") => buffer_type(annotation, 0)?,
            Some("T.int64" | "T.int32") => name("int", annotation.span),
            _ => return refuse(annotation.span, "a parameter that is no buffer and no integer"),
        };
        Ok(Parameter { name: parameter.name.clone(), annotation: Some(turned) })
    }

    fn body(&self, statements: &[Statement]) -> Turned<Vec<Statement>> {
        let mut lines = Vec::new();
        for line in statements {
            lines.extend(self.line(line)?);
        }
        if lines.is_empty() {
            lines.push(statement(StatementKind::Pass, Span::default()));
        }
        Ok(lines)
    }

    fn line(&self, line: &Statement) -> Turned<Vec<Statement>> {
        let span = line.span;
        let kind = match &line.kind {
            StatementKind::Assign { value, .. }
                if is_variable(value) || is_call(value, &["T.match_buffer"]) =>
            {
                return Ok(Vec::new());
            }
            StatementKind::Assign { target, value, .. } if is_call(value, &["T.axis.remap"]) => {
                return remapped(target, value);
            }
            StatementKind::Assign { target, annotation: _, value } => {
                let turned = match callee(value) {
                    Some(axis @ ("T.axis.spatial" | "T.axis.reduce")) => {
                        let parts = arguments(value).iter().map(|a| dim(&a.value).map(argument));
                        call(&axis[7..], parts.collect::<Turned<_>>()?, value.span)
                    }
                    Some("T.sblock_alloc_buffer" | "T.alloc_buffer") => allocation(value)?,
                    _ => scalar(value)?,
                };
                return Ok(vec![assign(scalar(target)?, None, turned)]);
            }
            StatementKind::Update { target, op, value } => {
                StatementKind::Update { target: scalar(target)?, op: *op, value: scalar(value)? }
            }
            StatementKind::Expr(given) => match callee(given) {
                Some("T.reads" | "T.writes" | "T.sblock_attr" | "T.block_attr") => {
                    return Ok(Vec::new());
                }
                Some("T.func_attr") => return Ok(patterns(attributes(given, "func_attr")?)),
                Some("T.evaluate") => return Ok(Vec::new()),
                Some("T.tvm_storage_sync") => {
                    StatementKind::Expr(call("barrier", Vec::new(), given.span))
                }
                _ => return refuse(given.span, "a statement of TVM that is not known"),
            },
            StatementKind::If { condition, then, otherwise, else_span } => StatementKind::If {
                condition: scalar(condition)?,
                then: self.body(then)?,
                otherwise: if otherwise.is_empty() { Vec::new() } else { self.body(otherwise)? },
                else_span: *else_span,
            },
            StatementKind::For { targets, iterator, body } => StatementKind::For {
                targets: targets.clone(),
                iterator: iteration(iterator)?,
                body: self.body(body)?,
            },
            StatementKind::With { context, body } => {
                let context = match callee(context) {
                    Some("T.init") => call("init", Vec::new(), context.span),
                    Some("T.sblock" | "T.block") => {
                        let named = |a: &&relax_syntax::ast::Argument| !matches!(&a.value.kind, ExprKind::Str(text) if text.is_empty());
                        let name = arguments(context).iter().take(1).filter(named).cloned();
                        call("block", name.collect(), context.span)
                    }
                    _ => return refuse(context.span, "a block of TVM that is not known"),
                };
                StatementKind::With { context, body: self.body(body)? }
            }
            StatementKind::Pass => StatementKind::Pass,
            _ => return refuse(span, "a statement that a tensor program does not have"),
        };
        Ok(vec![statement(kind, span)])
    }
}

fn is_variable(value: &Expr) -> bool {
    let many = matches!(&value.kind, ExprKind::Tuple(items) if !items.is_empty());
    many && items(value).into_iter().all(is_variable)
        || is_call(value, &["T.Var"])
        || is_call(value, &["T.int64", "T.int32"])
            && arguments(value).iter().all(|argument| argument.keyword.is_some())
}

/// `op_pattern` by its name; TVM's analysis adds it beside a `compute_pattern` of the program, which then stays.
fn patterns(lines: Vec<Statement>) -> Vec<Statement> {
    let is_named = lines.iter().any(|line| attribute_name(line) == Some("compute_pattern"));
    let turned = lines.into_iter().filter_map(|line| match attribute_name(&line) {
        Some("op_pattern") if is_named => None,
        Some("op_pattern") => Some(named_pattern(line)),
        _ => Some(line),
    });
    turned.collect()
}

/// The first argument of `func_attr`.
fn attribute_name(line: &Statement) -> Option<&str> {
    let StatementKind::Expr(given) = &line.kind else { return None };
    match taken(given, 0, &[]).map(|key| &key.kind) {
        Some(ExprKind::Str(word)) => Some(word),
        _ => None,
    }
}

fn named_pattern(line: Statement) -> Statement {
    let StatementKind::Expr(given) = &line.kind else { return line };
    let Some(ExprKind::Int(number)) = taken(given, 1, &[]).map(|value| &value.kind) else {
        return line;
    };
    let Some((_, pattern)) = PATTERNS.iter().find(|(code, _)| code == number) else { return line };
    let pair = ["compute_pattern", pattern].map(|text| argument(string(text, given.span)));
    super::tree::bare(call("func_attr", pair.into(), given.span))
}

/// The dims and the dtype of a buffer, as an annotation of a parameter.
fn buffer_type(given: &Expr, place: usize) -> Turned<Expr> {
    let Some(shape) = taken(given, place, &["shape"]) else {
        return refuse(given.span, "a buffer without dims");
    };
    let mut dims = Vec::new();
    for item in items(shape) {
        let dim = dim(item)?;
        dims.push(match dim.kind {
            ExprKind::Int(_) => dim,
            _ => string(&print_expression(&dim), item.span),
        });
    }
    let dtype = taken(given, place + 1, &["dtype"]).cloned();
    let dtype = dtype.unwrap_or_else(|| string("float32", given.span));
    for option in arguments(given) {
        let known = ["shape", "dtype", "scope", "offset_factor", "align"];
        if option.keyword.as_ref().is_some_and(|word| !known.contains(&word.name.as_str())) {
            return refuse(option.value.span, "a buffer with strides, offsets or the like");
        }
    }
    let shape = expr(ExprKind::Tuple(dims), given.span);
    Ok(call("Buffer", vec![argument(shape), argument(dtype)], given.span))
}

fn allocation(given: &Expr) -> Turned<Expr> {
    let Some(shape) = taken(given, 0, &["shape"]) else {
        return refuse(given.span, "a buffer without dims");
    };
    let dims = items(shape).into_iter().map(dim).collect::<Turned<Vec<_>>>()?;
    let dtype = taken(given, 1, &["dtype"]).cloned();
    let dtype = dtype.unwrap_or_else(|| string("float32", given.span));
    let mut all = vec![argument(expr(ExprKind::Tuple(dims), given.span)), argument(dtype)];
    if let Some(scope) = taken(given, usize::MAX, &["scope"]) {
        all.push(argument(scope.clone()));
    }
    Ok(call("alloc_buffer", all, given.span))
}

/// `vi, vk = T.axis.remap("SR", [i, k])` as one line an axis. The extents are those of the loops, which
/// [`blocks::implicit`] knows.
fn remapped(target: &Expr, value: &Expr) -> Turned<Vec<Statement>> {
    let kinds = match taken(value, 0, &["kinds"]).map(|kinds| &kinds.kind) {
        Some(ExprKind::Str(kinds)) => kinds.to_string(),
        _ => return refuse(value.span, "axes without kinds"),
    };
    let (targets, values) = (items(target), taken(value, 1, &["bindings"]).map(items));
    let values = values.unwrap_or_default();
    if targets.len() != values.len() || kinds.chars().count() != values.len() {
        return refuse(value.span, "axes, kinds and values differ in number");
    }
    let mut lines = Vec::new();
    for ((target, of), kind) in targets.into_iter().zip(values).zip(kinds.chars()) {
        let kind = match kind {
            'S' => "spatial",
            'R' => "reduce",
            _ => return refuse(value.span, "an axis that is neither spatial nor of a reduction"),
        };
        let open = argument(expr(ExprKind::None, of.span));
        let value = call(kind, vec![open, argument(dim(of)?)], value.span);
        lines.push(assign(target.clone(), None, value));
    }
    Ok(lines)
}

/// What a loop runs over.
fn iteration(given: &Expr) -> Turned<Expr> {
    let kind = match callee(given) {
        Some("range" | "T.serial") => "range",
        Some("T.grid") => "grid",
        Some("T.parallel") => "parallel",
        Some("T.vectorized") => "vectorized",
        Some("T.unroll") => "unroll",
        Some("T.thread_binding") => "thread_binding",
        _ => return refuse(given.span, "a loop of TVM that is not known"),
    };
    let mut all = Vec::new();
    for argument_of in arguments(given) {
        let value = match (&argument_of.value.kind, &argument_of.keyword) {
            (ExprKind::Str(_), _) => argument_of.value.clone(),
            (_, None) => index(&argument_of.value)?,
            (_, Some(word)) if word.name == "annotations" => continue,
            _ => return refuse(argument_of.value.span, "an option of a loop that is not known"),
        };
        all.push(argument(value));
    }
    if all.len() == 2 && matches!(all[0].value.kind, ExprKind::Int(0)) {
        all.remove(0);
    }
    Ok(call(kind, all, given.span))
}

/// Whether casts of integer literals stay: among indices, literals take the dtype of what is beside them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literals {
    Cast,
    Plain,
}

/// An expression of scalars.
pub(super) fn scalar(tree: &Expr) -> Turned<Expr> {
    turned(tree, Literals::Cast)
}

/// An index, or a bound of a loop.
fn index(tree: &Expr) -> Turned<Expr> {
    turned(tree, Literals::Plain)
}

/// Arithmetic on variables and literals alone, as of indices.
fn is_index(tree: &Expr) -> bool {
    match &tree.kind {
        ExprKind::Int(_) | ExprKind::Name(_) => true,
        ExprKind::Unary(_, operand) => is_index(operand),
        ExprKind::Binary(_, pair) => is_index(&pair.0) && is_index(&pair.1),
        ExprKind::Call { .. } => {
            let parts = arguments(tree);
            is_call(tree, &["T.int64"])
                && parts.len() == 1
                && matches!(parts[0].value.kind, ExprKind::Int(_))
        }
        _ => false,
    }
}

fn turned(tree: &Expr, literals: Literals) -> Turned<Expr> {
    let span = tree.span;
    let mut has_name = false;
    names_in(tree, &mut |name| has_name |= name.as_str() != "T.int64");
    let literals = if has_name && is_index(tree) { Literals::Plain } else { literals };
    let of = |tree: &Expr| turned(tree, literals);
    let all = |items: &[Expr]| items.iter().map(of).collect::<Turned<Vec<_>>>();
    let kind = match &tree.kind {
        ExprKind::Tuple(items) => ExprKind::Tuple(all(items)?),
        ExprKind::List(items) => ExprKind::List(all(items)?),
        ExprKind::Subscript { base, indices } => {
            let indices = indices.iter().map(index).collect::<Turned<_>>()?;
            ExprKind::Subscript { base: base.clone(), indices }
        }
        ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(of(operand)?)),
        ExprKind::Binary(op, pair) => ExprKind::Binary(*op, Box::new((of(&pair.0)?, of(&pair.1)?))),
        ExprKind::Call { .. } => return function(tree, literals),
        leaf => leaf.clone(),
    };
    Ok(expr(kind, span))
}

fn function(tree: &Expr, literals: Literals) -> Turned<Expr> {
    let span = tree.span;
    let scalar = |tree: &Expr| turned(tree, literals);
    let unknown =
        || Refused { span, why: format!("`{}` is not known", callee(tree).unwrap_or("")) };
    let what = callee(tree).and_then(|callee| callee.strip_prefix("T.")).ok_or_else(unknown)?;
    let parts = arguments(tree);
    let one = || parts.first().map(|part| &part.value).ok_or_else(unknown);
    if what == "Cast" {
        let ExprKind::Str(dtype) = &one()?.kind else { return Err(unknown()) };
        let dtype = DType::parse(dtype).ok_or_else(unknown)?;
        let value = scalar(&parts.get(1).ok_or_else(unknown)?.value)?;
        return Ok(call(dtype.name(), vec![argument(value)], span));
    }
    if let Some(dtype) = DType::parse(what) {
        let value = match &one()?.kind {
            ExprKind::Int(_)
                if literals == Literals::Plain && matches!(dtype, DType::I64 | DType::I32) =>
            {
                return Ok(one()?.clone());
            }
            ExprKind::Bool(_) => return Ok(one()?.clone()),
            ExprKind::Str(text) => name(text, span),
            _ => scalar(one()?)?,
        };
        return Ok(call(dtype.name(), vec![argument(value)], span));
    }
    let mut values = Vec::new();
    for part in parts {
        values.push(scalar(&part.value)?);
    }
    let infix = match what {
        "bitwise_and" => Some(BinaryOp::BitAnd),
        "bitwise_or" => Some(BinaryOp::BitOr),
        "bitwise_xor" => Some(BinaryOp::BitXor),
        "shift_left" => Some(BinaryOp::ShiftLeft),
        "shift_right" => Some(BinaryOp::ShiftRight),
        "floordiv" => Some(BinaryOp::FloorDiv),
        "floormod" => Some(BinaryOp::Mod),
        _ => None,
    };
    match (infix, values.len()) {
        (Some(op), 2) => {
            let right = values.remove(1);
            let pair = Box::new((values.remove(0), right));
            return Ok(expr(ExprKind::Binary(op, pair), span));
        }
        (Some(_), _) => return Err(unknown()),
        (None, _) => {}
    }
    let ours = match what {
        "Select" | "if_then_else" => "select",
        "power" => "pow",
        "fabs" => "abs",
        _ if SAME.contains(&what) => what,
        _ => return Err(unknown()),
    };
    Ok(call(ours, values.into_iter().map(argument).collect(), span))
}
