//! Rules as text: definitions in the syntax of the language, read in another way.
//!
//! ```text
//! @rewrite_rule("exact", reason="…")
//! def transpose_of_transpose(x: Tensor(("*s", "m", "n"), "any")):
//!     swap = [span(0, s), len(s) + 1, len(s)]
//!     where = [m >= 1]
//!     left = permute_dims(permute_dims(x, swap), swap)
//!     right = x
//! ```
//! `"*s"` is any number of axes, `len(s)` how many, `span(p, s)` the axes from `p` on. `left`, `right`,
//! `where` and `mutant` are what the rule says; any other name stands for its expression.

use super::expression::Reader;
use super::rule::{Axis, Direction, ElementType, Kind, Operand, Param, Rule};
use relax_syntax::Name;
use relax_syntax::ast::{Argument, Def, Expr, ExprKind, Parameter, StatementKind};
use relax_syntax::dtype::DType;
use relax_syntax::parse::parse_file;
use relax_syntax::span::{Source, Span};

/// Why a text is no rule, and where.
pub(super) type Wrong = (Span, String);
pub(super) type Read<T> = Result<T, Wrong>;

/// The classes of element types that a rule may range over.
pub(super) const CLASSES: [&str; 6] = ["float", "int", "uint", "number", "bool", "any"];

/// Reads the rules of a family.
///
/// # Errors
/// What is wrong with the text, one sentence each, with the line.
pub fn read_rules(family: &str, text: &str) -> Result<Vec<Rule>, Vec<String>> {
    let source = Source::new(family, text);
    let (file, diagnostics) = parse_file(&source);
    let place = |span: Span| {
        let at = (span.start as usize).min(text.len());
        let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        format!("{family}.rx:{line}")
    };
    let mut wrong: Vec<String> =
        diagnostics.iter().map(|d| format!("{}: {}", place(d.primary.span), d.message)).collect();
    let mut rules: Vec<Rule> = Vec::new();
    for statement in &file.statements {
        let read = match &statement.kind {
            StatementKind::Def(def) => {
                let span = statement.span;
                rule(family, def, &text[span.start as usize..span.end as usize])
            }
            _ => Err((statement.span, "expected `@rewrite_rule(…)` and a `def`".to_owned())),
        };
        match read {
            Ok(rule) => rules.push(rule),
            Err((span, why)) => wrong.push(format!("{}: {why}", place(span))),
        }
    }
    if wrong.is_empty() { Ok(rules) } else { Err(wrong) }
}

fn rule(family: &str, def: &Def, text: &str) -> Read<Rule> {
    let (kind, direction, reason) = header(def)?;
    let params = def.parameters.iter().map(param).collect::<Read<Vec<_>>>()?;
    let mut reader = Reader::new(&params);
    for statement in &def.body {
        match &statement.kind {
            StatementKind::Assign {
                target: Expr { kind: ExprKind::Name(name), .. },
                annotation: None,
                value,
            } => reader.define(name, value)?,
            _ => return Err((statement.span, "expected `name = expression`".to_owned())),
        }
    }
    let sides = reader.finish(def.name.span)?;
    Ok(Rule {
        name: def.name.name.clone(),
        family: family.into(),
        kind,
        direction,
        reason,
        params,
        conditions: sides.conditions,
        left: sides.left,
        right: sides.right,
        mutant: sides.mutant,
        text: text.into(),
    })
}

/// `@rewrite_rule("exact", direction="both", reason="…")`
fn header(def: &Def) -> Read<(Kind, Direction, String)> {
    let expected = "expected `@rewrite_rule(\"exact\" or \"approximate\", reason=\"…\")`";
    let wrong = |span| (span, expected.to_owned());
    let [Expr { kind: ExprKind::Call { callee, arguments }, span }] = def.decorators.as_slice()
    else {
        return Err(wrong(def.header));
    };
    if !matches!(&callee.kind, ExprKind::Name(name) if name == "rewrite_rule") {
        return Err(wrong(*span));
    }
    let (mut kind, mut direction, mut reason) = (None, Direction::Forward, None);
    for Argument { keyword, value } in arguments {
        let ExprKind::Str(text) = &value.kind else { return Err(wrong(value.span)) };
        match (keyword.as_ref().map(|keyword| keyword.name.as_str()), text.as_str()) {
            (None, "exact") => kind = Some(Kind::Exact),
            (None, "approximate") => kind = Some(Kind::Approximate),
            (Some("direction"), "both") => direction = Direction::Both,
            (Some("direction"), "forward") => direction = Direction::Forward,
            (Some("reason"), text) if !text.is_empty() => reason = Some(text.to_owned()),
            _ => return Err(wrong(value.span)),
        }
    }
    Ok((kind.ok_or(wrong(*span))?, direction, reason.ok_or(wrong(*span))?))
}

fn param(parameter: &Parameter) -> Read<Param> {
    let name = parameter.name.name.clone();
    let wrong =
        |span| (span, "expected `Tensor((\"*s\", \"n\"), \"float\")` or `Float`".to_owned());
    let Some(annotation) = &parameter.annotation else { return Err(wrong(parameter.name.span)) };
    let what = match &annotation.kind {
        ExprKind::Name(class) if class == "Float" => Operand::Float,
        ExprKind::Call { callee, arguments } => match (&callee.kind, arguments.as_slice()) {
            (ExprKind::Name(class), [shape, kind]) if class == "Tensor" => {
                Operand::Tensor(axes(&shape.value)?, element_type(&kind.value)?)
            }
            _ => return Err(wrong(annotation.span)),
        },
        _ => return Err(wrong(annotation.span)),
    };
    Ok(Param { name, what })
}

fn axes(shape: &Expr) -> Read<Vec<Axis>> {
    let ExprKind::Tuple(items) = &shape.kind else {
        return Err((shape.span, "expected a tuple of dims".to_owned()));
    };
    items.iter().map(axis).collect()
}

fn axis(item: &Expr) -> Read<Axis> {
    if let Some(group) = group_name(item) {
        return Ok(Axis::Group(group));
    }
    super::expression::dim(item).map(Axis::Dim)
}

/// The name in `"*s"`.
pub(super) fn group_name(expr: &Expr) -> Option<Name> {
    match &expr.kind {
        ExprKind::Str(text) => text.strip_prefix('*').map(Name::from),
        _ => None,
    }
}

/// A dtype, or a variable for one: a class, and after a dot what tells two of a class apart.
pub(super) fn element_type(expr: &Expr) -> Read<ElementType> {
    let ExprKind::Str(text) = &expr.kind else {
        return Err((expr.span, "expected the name of a dtype or a class of them".to_owned()));
    };
    if let Some(dtype) = DType::parse(text) {
        return Ok(ElementType::Fixed(dtype));
    }
    let variable = ElementType::Variable(text.clone());
    if variable.class().is_some_and(|class| CLASSES.contains(&class)) {
        return Ok(variable);
    }
    let classes = CLASSES.join(", ");
    Err((expr.span, format!("`{text}` is no dtype and none of the classes {classes}")))
}
