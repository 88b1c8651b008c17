//! The syntax tree: a small Python-like language in which nothing has a meaning yet.
//!
//! Annotations, dims, directives such as `sym_var()` and tensor-program loads are all plain
//! expressions here; [`crate::ir`] is where they become what they are. One grammar, one printer and
//! one formatter therefore serve both levels of the language.

use crate::Name;
use crate::span::Span;

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Top-level statements: `def`, and calls such as `module_attr("phase", "P1")`.
    pub statements: Vec<Statement>,
    /// Every comment, in order of position.
    pub comments: Vec<Comment>,
}

/// A `#` comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Where it stands, from the `#` to the last character of the line.
    pub span: Span,
    /// The text from `#` on, trailing blanks removed.
    pub text: String,
    /// True when nothing but blanks stands before it on its line.
    pub own_line: bool,
}

/// A statement with its place.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What it is.
    pub kind: StatementKind,
    /// From its first to its last token, nested blocks included.
    pub span: Span,
}

/// The statements.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// `target: annotation = value`, `a, b = value`, `Y[i, j] = value`.
    Assign {
        /// Left-hand side: a name, a tuple of names, or a subscript.
        target: Expr,
        /// After the colon.
        annotation: Option<Expr>,
        /// Right-hand side.
        value: Expr,
    },
    /// `target op= value`
    Update {
        /// Left-hand side.
        target: Expr,
        /// `+ - * /`
        op: BinaryOp,
        /// Right-hand side.
        value: Expr,
    },
    /// `return value`
    Return(Expr),
    /// An expression on a line of its own: a call, a string, or `...`.
    Expr(Expr),
    /// `pass`
    Pass,
    /// `if condition:` … `else:` …; `elif` is an `else` with one `if` in it.
    If {
        /// The condition.
        condition: Expr,
        /// Taken when true.
        then: Vec<Statement>,
        /// Taken when false; empty when there is no `else`.
        otherwise: Vec<Statement>,
        /// The place of `else:`, for comments.
        else_span: Option<Span>,
    },
    /// `for targets in iterator:`
    For {
        /// The loop variables.
        targets: Vec<Identifier>,
        /// `grid(n, 4)`, `range(n)`, …
        iterator: Expr,
        /// The body.
        body: Vec<Statement>,
    },
    /// `with context:`
    With {
        /// `dataflow()`, `block("mm")`, `init()`.
        context: Expr,
        /// The body.
        body: Vec<Statement>,
    },
    /// `def name(parameters) -> returns:`
    Def(Box<Def>),
}

/// A function, a tensor program, or a closure.
#[derive(Clone, Debug)]
pub struct Def {
    /// `@tensorir_function`: each is a name or a call.
    pub decorators: Vec<Expr>,
    /// Its name.
    pub name: Identifier,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// After `->`.
    pub returns: Option<Expr>,
    /// The body.
    pub body: Vec<Statement>,
    /// From `def` (or the first decorator) to the colon.
    pub header: Span,
}

/// `name: annotation`
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: Identifier,
    /// After the colon.
    pub annotation: Option<Expr>,
}

/// A name with its place.
#[derive(Clone, Debug)]
pub struct Identifier {
    /// The name.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
}

/// An expression with its place.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands, parentheses around it not included (those of a tuple are).
    pub span: Span,
}

/// The expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A name; dots are part of it (`builtin.alloc_shape_heap`).
    Name(Name),
    /// An integer literal: `7`, `0x1f`, `1_000`.
    Int(i64),
    /// An integer literal beyond i64 (up to `u64::MAX`), for `u64` constants.
    BigInt(u64),
    /// A float literal; `inf` and `nan` are names, not literals.
    Float(f64),
    /// A string, its escapes resolved.
    Str(Name),
    /// `True`, `False`
    Bool(bool),
    /// `None`
    None,
    /// `...`
    Ellipsis,
    /// `(a, b)`, `(a,)`, `()`, and `a, b` without parentheses.
    Tuple(Vec<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `f(a, b, key=c)`
    Call {
        /// What is called: a name in every meaningful program.
        callee: Box<Expr>,
        /// Positional and keyword arguments, in order.
        arguments: Vec<Argument>,
    },
    /// `base[i, j]`
    Subscript {
        /// What is indexed.
        base: Box<Expr>,
        /// The indices; `t[(a, b)]` and `t[a, b]` differ.
        indices: Vec<Expr>,
    },
    /// `-a`, `not a`, `~a`; `-1` is the literal −1 already.
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`, `a < b`, `a and b`. Comparisons do not chain.
    Binary(BinaryOp, Box<(Expr, Expr)>),
    /// Stands where the text did not parse; a diagnostic was given.
    Error,
}

/// One argument of a call.
#[derive(Clone, Debug)]
pub struct Argument {
    /// `key=` before it.
    pub keyword: Option<Identifier>,
    /// The value.
    pub value: Expr,
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `not`
    Not,
    /// `~`
    Invert,
}

/// Infix operators, with Python's precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the symbol says it: see `symbol`
pub enum BinaryOp {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    /// `**`: accepted by the grammar so that the error can say what to write instead.
    Power,
    /// `@`: likewise.
    MatMul,
}

impl BinaryOp {
    /// The spelling.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        use BinaryOp as B;
        match self {
            B::Or => "or",
            B::And => "and",
            B::Equal => "==",
            B::NotEqual => "!=",
            B::Less => "<",
            B::LessEqual => "<=",
            B::Greater => ">",
            B::GreaterEqual => ">=",
            B::BitOr => "|",
            B::BitXor => "^",
            B::BitAnd => "&",
            B::ShiftLeft => "<<",
            B::ShiftRight => ">>",
            B::Add => "+",
            B::Sub => "-",
            B::Mul => "*",
            B::Div => "/",
            B::FloorDiv => "//",
            B::Mod => "%",
            B::Power => "**",
            B::MatMul => "@",
        }
    }
}

impl Expr {
    /// An expression without a place, for what a pass makes.
    #[must_use]
    pub fn synthetic(kind: ExprKind) -> Self {
        Self { kind, span: Span::default() }
    }
}
