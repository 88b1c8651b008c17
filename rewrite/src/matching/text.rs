//! The language of patterns: `relu?(add(matmul(x, w), b)) where dim(x, 0) >= 2`.
//!
//! A name is an operand; the same name twice is the same operand. `_` is anything. A number is a scalar
//! constant. A call is one of an operator of the table, with literals for its attributes; what is not
//! mentioned must have its default. `op?(e)` matches `op(e)` and `e`. Conditions compare dims, which
//! must be proved, and ranks, and say which dtypes there may be.

use relax_semantics::ops::{Known, Operator, lookup};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::fmt;

/// A pattern, and what computes it.
#[derive(Clone)]
pub(crate) struct Rule {
    /// The function: a library's, whose name stands before the dot.
    pub(crate) function: Name,
    pub(crate) root: Node,
    pub(crate) conditions: Vec<Condition>,
}

/// A part of a pattern.
#[derive(Clone)]
pub(crate) enum Node {
    Any,
    Operand(Name),
    Number(f64),
    Call(Call),
}

#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) row: &'static Operator,
    /// Whether its first operand matches without it.
    pub(crate) optional: bool,
    pub(crate) args: Vec<Node>,
    pub(crate) attrs: Attributes,
}

type Attributes = Vec<(Name, Known)>;
type Arguments = (Vec<Node>, Attributes);

/// What must hold besides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Compare(Side, Comparison, Side),
    OneOf(Name, Vec<DType>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Side {
    Int(i64),
    /// An axis from the front, or as a negative one from the back.
    Dim(Name, i64),
    Rank(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoPattern {
    /// Counted from 1.
    column: usize,
    message: String,
}

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Number(f64),
    Int(i64),
    Text(String),
    Sign(&'static str),
    End,
}

/// The longer ones first.
const SIGNS: [&str; 14] =
    ["==", "!=", "<=", ">=", "<", ">", "=", "(", ")", "[", "]", ",", "?", "-"];
/// Calls within calls.
const DEPTH: usize = 32;

/// Reads a pattern.
pub(crate) fn parse(function: &str, text: &str) -> Result<Rule, NoPattern> {
    let tokens = tokens(text)?;
    let mut reader = Reader { tokens, at: 0 };
    let root = reader.node(0)?;
    let mut conditions = Vec::new();
    if reader.word("where") {
        conditions.push(reader.condition()?);
        while reader.sign(",") {
            conditions.push(reader.condition()?);
        }
    }
    if *reader.peek() != Token::End {
        return Err(reader.error("expected `where`, `,` or the end"));
    }
    let Node::Call(_) = root else {
        return Err(NoPattern { column: 1, message: "a pattern is a call of an operator".into() });
    };
    let mut names = Vec::new();
    operands(&root, &mut names);
    let rule = Rule { function: Name::new(function), root, conditions };
    match rule.unknown(&names) {
        Some(name) => {
            let message = format!("a condition is about `{name}`, which is no operand");
            Err(NoPattern { column: 1, message })
        }
        None => Ok(rule),
    }
}

/// The operands of a pattern, in the order in which it names them.
pub(crate) fn operands(node: &Node, names: &mut Vec<Name>) {
    match node {
        Node::Operand(name) if !names.contains(name) => names.push(name.clone()),
        Node::Call(call) => call.args.iter().for_each(|arg| operands(arg, names)),
        Node::Any | Node::Operand(_) | Node::Number(_) => {}
    }
}

impl Rule {
    /// A name that a condition is about and that is none of `names`.
    fn unknown(&self, names: &[Name]) -> Option<&Name> {
        let of_side = |side: &'_ Side| match side {
            Side::Int(_) => None,
            Side::Dim(name, _) | Side::Rank(name) => (!names.contains(name)).then_some(()),
        };
        self.conditions.iter().find_map(|condition| match condition {
            Condition::OneOf(name, _) => (!names.contains(name)).then_some(name),
            Condition::Compare(left, _, right) => [left, right]
                .into_iter()
                .find(|side| of_side(side).is_some())
                .and_then(|side| match side {
                    Side::Dim(name, _) | Side::Rank(name) => Some(name),
                    Side::Int(_) => None,
                }),
        })
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, NoPattern> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if next.is_whitespace() {
            at += next.len_utf8();
            continue;
        }
        let rest = &text[at..];
        let (token, length) = token(rest).ok_or_else(|| NoPattern {
            column: at + 1,
            message: format!("`{next}` has no meaning"),
        })?;
        tokens.push((at + 1, token));
        at += length;
    }
    tokens.push((at + 1, Token::End));
    Ok(tokens)
}

fn token(rest: &str) -> Option<(Token, usize)> {
    let first = rest.chars().next()?;
    let while_ = |keep: &dyn Fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
    if first.is_ascii_alphabetic() || first == '_' {
        let length = while_(&|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        return Some((Token::Name(rest[..length].to_owned()), length));
    }
    if first.is_ascii_digit() {
        let mut length = while_(&|c| c.is_ascii_alphanumeric() || c == '.');
        if rest[..length].ends_with('e') && rest[length..].starts_with('-') {
            let exponent = &rest[length + 1..];
            let digits = exponent.find(|c: char| !c.is_ascii_digit()).unwrap_or(exponent.len());
            length += 1 + digits;
        }
        let digits = &rest[..length];
        let number = digits.parse().map(Token::Int).or_else(|_| digits.parse().map(Token::Number));
        return Some((number.ok()?, length));
    }
    if first == '"' {
        let end = rest[1..].find('"')?;
        return Some((Token::Text(rest[1..=end].to_owned()), end + 2));
    }
    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
    Some((Token::Sign(sign), sign.len()))
}

struct Reader {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn sign(&mut self, wanted: &'static str) -> bool {
        let found = *self.peek() == Token::Sign(wanted);
        if found {
            self.next();
        }
        found
    }

    fn word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(name) if name == wanted);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, wanted: &'static str) -> Result<(), NoPattern> {
        if self.sign(wanted) { Ok(()) } else { Err(self.error(&format!("expected `{wanted}`"))) }
    }

    fn error(&self, message: &str) -> NoPattern {
        NoPattern { column: self.tokens[self.at].0, message: message.to_owned() }
    }

    fn name(&mut self, what: &str) -> Result<String, NoPattern> {
        let Token::Name(name) = self.peek().clone() else { return Err(self.error(what)) };
        self.next();
        Ok(name)
    }

    fn node(&mut self, depth: usize) -> Result<Node, NoPattern> {
        if depth > DEPTH {
            return Err(self.error("calls nest too deeply"));
        }
        match self.peek().clone() {
            Token::Int(_) | Token::Number(_) | Token::Sign("-") => {
                let wrong = self.error("expected a number");
                match self.literal()? {
                    Known::Dim(Dim::Int(value)) => Ok(Node::Number(value as f64)),
                    Known::Float(value) => Ok(Node::Number(value)),
                    _ => Err(wrong),
                }
            }
            Token::Name(name) => {
                let unknown = self.error(&format!("there is no operator `{name}`"));
                self.next();
                let optional = self.sign("?");
                if !self.sign("(") {
                    let plain = if name == "_" { Node::Any } else { Node::Operand(name.into()) };
                    return if optional { Err(self.error("expected `(`")) } else { Ok(plain) };
                }
                let row = lookup(&name).ok_or(unknown)?;
                let (args, attrs) = self.arguments(depth)?;
                if optional && args.is_empty() {
                    return Err(self.error("what is optional has an operand"));
                }
                Ok(Node::Call(Call { row, optional, args, attrs }))
            }
            _ => Err(self.error("expected an operand or a call")),
        }
    }

    /// Up to `)`.
    fn arguments(&mut self, depth: usize) -> Result<Arguments, NoPattern> {
        let (mut args, mut attrs) = (Vec::new(), Vec::new());
        while !self.sign(")") {
            if !args.is_empty() || !attrs.is_empty() {
                self.expect(",")?;
            }
            let keyword = matches!(self.peek(), Token::Name(_))
                && self.tokens.get(self.at + 1).is_some_and(|(_, t)| *t == Token::Sign("="));
            if keyword {
                let name = self.name("expected a name")?;
                self.expect("=")?;
                attrs.push((name.into(), self.literal()?));
            } else {
                args.push(self.node(depth + 1)?);
            }
        }
        Ok((args, attrs))
    }

    fn literal(&mut self) -> Result<Known, NoPattern> {
        let negative = self.sign("-");
        let wrong = self.error("expected a literal");
        Ok(match self.next() {
            Token::Int(value) => Known::Dim(Dim::Int(if negative { -value } else { value })),
            Token::Number(value) => Known::Float(if negative { -value } else { value }),
            _ if negative => return Err(wrong),
            Token::Text(text) => Known::Str(text.into()),
            Token::Name(name) if name == "True" || name == "False" => Known::Bool(name == "True"),
            Token::Name(name) if name == "None" => Known::None,
            Token::Sign("[") => {
                let mut items = Vec::new();
                while !self.sign("]") {
                    if !items.is_empty() {
                        self.expect(",")?;
                    }
                    if *self.peek() == Token::Sign("[") {
                        return Err(self.error("a list has no lists in it"));
                    }
                    items.push(self.literal()?);
                }
                Known::List(items)
            }
            _ => return Err(wrong),
        })
    }

    fn condition(&mut self) -> Result<Condition, NoPattern> {
        if self.word("dtype") {
            self.expect("(")?;
            let operand = self.name("expected an operand")?;
            self.expect(")")?;
            if !self.word("is") {
                return Err(self.error("expected `is`"));
            }
            let mut dtypes = vec![self.dtype()?];
            while self.word("or") {
                dtypes.push(self.dtype()?);
            }
            return Ok(Condition::OneOf(operand.into(), dtypes));
        }
        let left = self.side()?;
        let wrong = self.error("expected a comparison");
        let comparison = match self.next() {
            Token::Sign("==") => Comparison::Equal,
            Token::Sign("!=") => Comparison::NotEqual,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::AtMost,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::AtLeast,
            _ => return Err(wrong),
        };
        Ok(Condition::Compare(left, comparison, self.side()?))
    }

    fn dtype(&mut self) -> Result<DType, NoPattern> {
        let wrong = self.error("expected a dtype");
        DType::parse(&self.name("expected a dtype")?).ok_or(wrong)
    }

    fn side(&mut self) -> Result<Side, NoPattern> {
        let negative = self.sign("-");
        let wrong = self.error("expected an integer, `dim(x, 0)` or `rank(x)`");
        match self.next() {
            Token::Int(value) => Ok(Side::Int(if negative { -value } else { value })),
            Token::Name(name) if !negative && (name == "rank" || name == "dim") => {
                self.expect("(")?;
                let operand = self.name("expected an operand")?.into();
                let side = if name == "rank" {
                    Side::Rank(operand)
                } else {
                    self.expect(",")?;
                    let Side::Int(axis) = self.side()? else { return Err(wrong) };
                    Side::Dim(operand, axis)
                };
                self.expect(")")?;
                Ok(side)
            }
            _ => Err(wrong),
        }
    }
}
