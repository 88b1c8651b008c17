//! The tokens that the grammar sees.

use crate::Name;
use crate::ast::BinaryOp;

/// One token. Layout tokens have no width.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'s> {
    Name(&'s str),
    Int(i64),
    BigInt(u64),
    Float(f64),
    Str(Name),
    Def,
    Return,
    If,
    Elif,
    Else,
    For,
    In,
    With,
    Pass,
    True,
    False,
    None,
    Not,
    Tilde,
    Minus,
    /// Every infix operator but `-`, which is a prefix too.
    Infix(BinaryOp),
    /// `+=` and its like.
    Update(BinaryOp),
    Equals,
    Arrow,
    Colon,
    Comma,
    At,
    Ellipsis,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    /// The end of a logical line.
    Newline,
    /// The start of a block.
    Indent,
    /// The end of a block.
    Dedent,
    /// Something that the lexer has reported; the parser stays silent about it.
    Bad,
}

impl<'s> Token<'s> {
    /// The token of a word: a keyword or a name.
    pub(super) fn word(word: &'s str) -> Self {
        match word {
            "def" => Token::Def,
            "return" => Token::Return,
            "if" => Token::If,
            "elif" => Token::Elif,
            "else" => Token::Else,
            "for" => Token::For,
            "in" => Token::In,
            "with" => Token::With,
            "pass" => Token::Pass,
            "True" => Token::True,
            "False" => Token::False,
            "None" => Token::None,
            "not" => Token::Not,
            "and" => Token::Infix(BinaryOp::And),
            "or" => Token::Infix(BinaryOp::Or),
            _ => Token::Name(word),
        }
    }

    /// True for what can end an operand, so that a `-` behind it subtracts.
    pub(super) fn ends_operand(&self) -> bool {
        matches!(
            self,
            Token::Name(_)
                | Token::Int(_)
                | Token::BigInt(_)
                | Token::Float(_)
                | Token::Str(_)
                | Token::True
                | Token::False
                | Token::None
                | Token::Ellipsis
                | Token::CloseParen
                | Token::CloseBracket
                | Token::Bad
        )
    }

    /// True for the keywords that begin a statement and can stand nowhere inside an expression.
    pub(super) fn begins_statement(&self) -> bool {
        matches!(self, Token::Return | Token::Pass | Token::At) || self.begins_block()
    }

    /// True for the keywords whose line ends with a colon and a block.
    pub(super) fn begins_block(&self) -> bool {
        matches!(
            self,
            Token::Def | Token::If | Token::Elif | Token::Else | Token::For | Token::With
        )
    }

    /// True for what makes an expression one level deeper.
    pub(super) fn deepens(&self) -> bool {
        matches!(self, Token::Infix(_) | Token::Minus | Token::Tilde | Token::Not)
    }

    /// How a message names it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Name(name) => return format!("the name `{}`", shortened(name)),
            Token::Int(value) => return format!("the integer `{value}`"),
            Token::BigInt(value) => return format!("the integer `{value}`"),
            Token::Float(value) => return format!("the float `{value:?}`"),
            Token::Infix(op) => return format!("`{}`", op.symbol()),
            Token::Update(op) => return format!("`{}=`", op.symbol()),
            Token::Str(_) => "a string",
            Token::Newline => "the end of the line",
            Token::Indent => "an indented line",
            Token::Dedent => "the end of the block",
            Token::Bad => "something that is not a token",
            Token::Tilde => "`~`",
            Token::Minus => "`-`",
            Token::Equals => "`=`",
            Token::Arrow => "`->`",
            Token::Colon => "`:`",
            Token::Comma => "`,`",
            Token::At => "`@`",
            Token::Ellipsis => "`...`",
            Token::OpenParen => "`(`",
            Token::CloseParen => "`)`",
            Token::OpenBracket => "`[`",
            Token::CloseBracket => "`]`",
            keyword => return format!("`{}`", keyword.keyword()),
        }
        .to_string()
    }

    fn keyword(&self) -> &'static str {
        match self {
            Token::Def => "def",
            Token::Return => "return",
            Token::If => "if",
            Token::Elif => "elif",
            Token::Else => "else",
            Token::For => "for",
            Token::In => "in",
            Token::With => "with",
            Token::Pass => "pass",
            Token::True => "True",
            Token::False => "False",
            Token::Not => "not",
            _ => "None",
        }
    }
}

/// A name cut to what a message can carry.
fn shortened(name: &str) -> String {
    if name.len() <= 40 {
        return name.to_string();
    }
    let kept: String = name.chars().take(37).collect();
    format!("{kept}...")
}
