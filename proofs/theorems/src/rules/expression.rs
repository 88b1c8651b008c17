//! The expressions of rules: calls of operators, lists of axes and dims, conditions.

use super::rule::{Arg, Call, Entry, Node, Operand, Param, rank_of};
use super::text::{Read, element_type, group_name};
use relax_semantics::ops::{self, Kind as ParamKind, Literal, bind};
use relax_syntax::Name;
use relax_syntax::ast::{Argument, BinaryOp, Expr, ExprKind, UnaryOp};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::parse::parse_expression;
use relax_syntax::span::Span;
use std::cell::Cell;
use std::collections::BTreeMap;

/// What a rule says.
pub(super) struct Sides {
    pub(super) conditions: Vec<Claim>,
    pub(super) left: Node,
    pub(super) right: Node,
    pub(super) mutant: Option<Node>,
}

/// Calls and operands that a rule may have once its abbreviations are written out: these can double with each line.
const MOST_NODES: usize = 1_000;

/// Reads the lines of a rule.
pub(super) struct Reader<'a> {
    params: &'a [Param],
    /// Abbreviations with their places; one may use those before it.
    locals: BTreeMap<Name, (usize, Expr)>,
    /// How many abbreviations may be used here.
    visible: Cell<usize>,
    /// How many nodes were read.
    nodes: Cell<usize>,
    conditions: Vec<Claim>,
    sides: BTreeMap<Name, Node>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(params: &'a [Param]) -> Self {
        Self {
            params,
            locals: BTreeMap::new(),
            visible: Cell::new(0),
            nodes: Cell::new(0),
            conditions: Vec::new(),
            sides: BTreeMap::new(),
        }
    }

    /// `name = value`
    pub(super) fn define(&mut self, name: &Name, value: &Expr) -> Read<()> {
        match name.as_str() {
            "where" => {
                let ExprKind::List(items) = &value.kind else {
                    return Err((value.span, "expected a list of conditions".to_owned()));
                };
                self.conditions = items.iter().map(claim).collect::<Read<_>>()?;
            }
            "left" | "right" | "mutant" => {
                let node = self.node(value)?;
                self.sides.insert(name.clone(), node);
            }
            _ => {
                let fresh = self.params.iter().all(|param| param.name != *name);
                let local = (self.locals.len(), value.clone());
                if !fresh || self.locals.insert(name.clone(), local).is_some() {
                    return Err((value.span, format!("`{name}` has a meaning already")));
                }
                self.visible.set(self.locals.len());
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, span: Span) -> Read<Sides> {
        let mut side = |name: &str| {
            self.sides.remove(name).ok_or((span, format!("the rule has no `{name} = …`")))
        };
        let (left, right) = (side("left")?, side("right")?);
        Ok(Sides { left, right, mutant: side("mutant").ok(), conditions: self.conditions })
    }

    /// What an abbreviation stands for, read with those before it.
    fn local<T>(&self, name: &Name, read: impl FnOnce(&Expr) -> Read<T>) -> Option<Read<T>> {
        let (at, value) = self.locals.get(name)?;
        if *at >= self.visible.get() {
            return None;
        }
        let visible = self.visible.replace(*at);
        let result = read(value);
        self.visible.set(visible);
        Some(result)
    }

    /// A tensor.
    fn node(&self, expr: &Expr) -> Read<Node> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > MOST_NODES {
            return Err((
                expr.span,
                format!("the rule has more than {MOST_NODES} calls and operands"),
            ));
        }
        match &expr.kind {
            ExprKind::Name(name) => self.named(name, expr),
            ExprKind::Call { callee, arguments } => match &callee.kind {
                ExprKind::Name(name) if name == "const" => constant(expr.span, arguments),
                ExprKind::Name(name) => self.call(name, expr, arguments).map(Node::Call),
                _ => Err((expr.span, "expected the name of an operator".to_owned())),
            },
            ExprKind::Subscript { base, indices } => match indices.as_slice() {
                [Expr { kind: ExprKind::Int(at), .. }] if (0..16).contains(at) => {
                    Ok(Node::Part(Box::new(self.node(base)?), *at as usize))
                }
                _ => Err((expr.span, "a part is taken by a literal: `t[0]`".to_owned())),
            },
            _ => Err((expr.span, "expected a tensor".to_owned())),
        }
    }

    fn named(&self, name: &Name, expr: &Expr) -> Read<Node> {
        let tensor = |param: &Param| param.name == *name && param.what != Operand::Float;
        if let Some(at) = self.params.iter().position(tensor) {
            return Ok(Node::Param(at));
        }
        let unknown = || Err((expr.span, format!("there is no tensor `{name}` in this rule")));
        self.local(name, |value| self.node(value)).unwrap_or_else(unknown)
    }

    fn call(&self, name: &Name, expr: &Expr, arguments: &[Argument]) -> Read<Call> {
        let Some(row) = ops::lookup(name) else {
            return Err((expr.span, format!("`{name}` is no operator")));
        };
        let (mut positional, mut keywords) = (Vec::new(), Vec::new());
        for argument in arguments {
            let value = Some(&argument.value);
            match &argument.keyword {
                None => positional.push(Written::Here(value)),
                Some(keyword) => keywords.push((keyword.name.clone(), Written::Here(value))),
            }
        }
        let bound = bind(row, positional, keywords, &|literal| Written::Default(literal))
            .map_err(|error| (expr.span, format!("`{name}`: {error}")))?;
        let pairs = row.params.iter().zip(bound);
        let args = pairs.map(|(param, written)| match written {
            Written::Default(literal) => Ok(default(literal)),
            Written::Here(Some(value)) => self.arg(param.kind, value),
            Written::Here(None) => Ok(Arg::None),
        });
        Ok(Call { row, args: args.collect::<Read<_>>()? })
    }

    fn arg(&self, kind: ParamKind, expr: &Expr) -> Read<Arg> {
        if let ExprKind::Name(name) = &expr.kind
            && let Some(read) = self.local(name, |value| self.arg(kind, value))
        {
            return read;
        }
        match (kind, &expr.kind) {
            (_, ExprKind::None) => Ok(Arg::None),
            (ParamKind::Tensor | ParamKind::OptionalTensor, _) => self.node(expr).map(Arg::Node),
            (ParamKind::Tensors, ExprKind::Tuple(items) | ExprKind::List(items)) => {
                items.iter().map(|item| self.node(item)).collect::<Read<_>>().map(Arg::Nodes)
            }
            (ParamKind::Tensors, _) => self.node(expr).map(Arg::Node),
            (ParamKind::DType | ParamKind::OptionalDType, _) => element_type(expr).map(Arg::Type),
            (_, ExprKind::Bool(value)) => Ok(Arg::Bool(*value)),
            (ParamKind::Str | ParamKind::OptionalStr, ExprKind::Str(text)) => {
                Ok(Arg::Str(text.clone()))
            }
            (_, ExprKind::Tuple(items) | ExprKind::List(items)) => {
                items.iter().map(entry).collect::<Read<_>>().map(Arg::List)
            }
            (ParamKind::Value, ExprKind::Binary(..)) => dim(expr).map(Arg::Integer),
            (ParamKind::Value, ExprKind::Name(name)) if self.is_dim(name) => {
                Ok(Arg::Integer(Dim::Var(name.clone())))
            }
            (ParamKind::Float | ParamKind::OptionalFloat | ParamKind::Value, _) => self.float(expr),
            _ => dim(expr).map(Arg::Integer),
        }
    }

    /// Whether a name is that of no operand, so that it stands for a dim.
    fn is_dim(&self, name: &Name) -> bool {
        name != "inf" && self.params.iter().all(|param| param.name != *name)
    }

    fn float(&self, expr: &Expr) -> Read<Arg> {
        let scalar = |name: &Name| {
            self.params.iter().position(|p| p.name == *name && p.what == Operand::Float)
        };
        match &expr.kind {
            ExprKind::Name(name) if scalar(name).is_some() => {
                Ok(Arg::Scalar(scalar(name).unwrap_or_default()))
            }
            _ => match number(expr) {
                Some(value) => Ok(Arg::Float(value)),
                None => self.node(expr).map(Arg::Node),
            },
        }
    }
}

/// An argument that stands in the text, or a default.
enum Written<'e> {
    Here(Option<&'e Expr>),
    Default(Literal),
}

/// What stands for a parameter that is left out.
pub(super) fn default(literal: Literal) -> Arg {
    match literal {
        Literal::None => Arg::None,
        Literal::Int(value) => Arg::Integer(Dim::Int(value)),
        Literal::Float(value) => Arg::Float(value),
        Literal::Bool(value) => Arg::Bool(value),
        Literal::Str(text) => Arg::Str(text.into()),
        Literal::Ints(values) => {
            Arg::List(values.iter().map(|&value| Entry::One(Dim::Int(value))).collect())
        }
    }
}

/// `const(1.0, "float")`
fn constant(span: Span, arguments: &[Argument]) -> Read<Node> {
    let wrong = || (span, "expected `const(number, \"dtype or class\")`".to_owned());
    let [value, kind] = arguments else { return Err(wrong()) };
    let value = number(&value.value).ok_or_else(wrong)?;
    Ok(Node::Constant(value, element_type(&kind.value)?))
}

fn number(expr: &Expr) -> Option<f64> {
    match &expr.kind {
        ExprKind::Float(value) => Some(*value),
        ExprKind::Int(value) => Some(*value as f64),
        ExprKind::Bool(value) => Some(f64::from(u8::from(*value))),
        ExprKind::Name(name) if name == "inf" => Some(f64::INFINITY),
        ExprKind::Unary(UnaryOp::Negate, operand) => number(operand).map(|value| -value),
        _ => None,
    }
}

fn entry(item: &Expr) -> Read<Entry> {
    if let Some(group) = group_name(item) {
        return Ok(Entry::Dims(group));
    }
    if let ExprKind::Call { callee, arguments } = &item.kind
        && matches!(&callee.kind, ExprKind::Name(name) if name == "unpadded")
    {
        return match arguments.as_slice() {
            [Argument { value: Expr { kind: ExprKind::Name(group), .. }, .. }] => {
                Ok(Entry::Unpadded(group.clone()))
            }
            _ => Err((item.span, "expected `unpadded(s)`".to_owned())),
        };
    }
    if let ExprKind::Call { callee, arguments } = &item.kind
        && matches!(&callee.kind, ExprKind::Name(name) if name == "span")
    {
        return match arguments.as_slice() {
            [at, Argument { value: Expr { kind: ExprKind::Name(group), .. }, .. }] => {
                Ok(Entry::Span(dim(&at.value)?, group.clone()))
            }
            _ => Err((item.span, "expected `span(axis, s)`".to_owned())),
        };
    }
    dim(item).map(Entry::One)
}

/// An integer expression: dims, and `len(s)`.
pub(super) fn dim(expr: &Expr) -> Read<Dim> {
    let wrong = || (expr.span, "expected an integer expression of dims".to_owned());
    match &expr.kind {
        ExprKind::Int(value) => Ok(Dim::Int(*value)),
        ExprKind::Name(name) => Ok(Dim::Var(name.clone())),
        ExprKind::Str(text) => {
            let inner = parse_expression(text, expr.span.start + 1);
            dim(&inner.map_err(|d| (d.primary.span, d.message))?)
        }
        ExprKind::Unary(UnaryOp::Negate, operand) => {
            Ok(Dim::op(DimOp::Sub, Dim::Int(0), dim(operand)?))
        }
        ExprKind::Binary(op, operands) => {
            let op = match op {
                BinaryOp::Add => DimOp::Add,
                BinaryOp::Sub => DimOp::Sub,
                BinaryOp::Mul => DimOp::Mul,
                BinaryOp::FloorDiv => DimOp::FloorDiv,
                BinaryOp::Mod => DimOp::FloorMod,
                _ => return Err(wrong()),
            };
            Ok(Dim::op(op, dim(&operands.0)?, dim(&operands.1)?))
        }
        ExprKind::Call { callee, arguments } => match (&callee.kind, arguments.as_slice()) {
            (ExprKind::Name(name), [a]) if name == "len" => match &a.value.kind {
                ExprKind::Name(group) => Ok(Dim::Var(rank_of(group))),
                _ => Err(wrong()),
            },
            (ExprKind::Name(name), [a, b]) => {
                let op = match name.as_str() {
                    "min" => DimOp::Min,
                    "max" => DimOp::Max,
                    "ceildiv" => DimOp::CeilDiv,
                    _ => return Err(wrong()),
                };
                Ok(Dim::op(op, dim(&a.value)?, dim(&b.value)?))
            }
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// A condition: a comparison, or `divides(a, b)`.
fn claim(expr: &Expr) -> Read<Claim> {
    let wrong = || (expr.span, "expected a comparison of dims, or `divides(a, b)`".to_owned());
    match &expr.kind {
        ExprKind::Binary(op, operands) => {
            let (a, b) = (dim(&operands.0)?, dim(&operands.1)?);
            Ok(match op {
                BinaryOp::Equal => Claim::new(a, Relation::Equal, b),
                BinaryOp::NotEqual => Claim::new(a, Relation::NotEqual, b),
                BinaryOp::LessEqual => Claim::new(a, Relation::AtMost, b),
                BinaryOp::Less => Claim::new(a, Relation::Less, b),
                BinaryOp::GreaterEqual => Claim::new(b, Relation::AtMost, a),
                BinaryOp::Greater => Claim::new(b, Relation::Less, a),
                _ => return Err(wrong()),
            })
        }
        ExprKind::Call { callee, arguments } => match (&callee.kind, arguments.as_slice()) {
            (ExprKind::Name(name), [a, b]) if name == "divides" => {
                Ok(Claim::new(dim(&a.value)?, Relation::Divides, dim(&b.value)?))
            }
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}
