//! Terms and statements from text, by precedence climbing. A term is read as its polynomial at once;
//! beside it stand the divisors that its text has, which a polynomial may have lost.

use crate::polynomial::{Algebra, Atom, Poly};
use crate::statement::{Comparison, Connective, Fact, Relation, Sign, Statement};
use crate::{Checks, refuse};
use num_bigint::BigInt;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How deep operators may nest: the only recursion of the checker.
const MAX_DEPTH: usize = 250;
/// How many statements one statement may connect.
const MAX_PARTS: usize = 1_000;
/// The longest number, in digits.
const MAX_DIGITS: usize = 600;
/// Names that mean something, so that no variable has them.
const RESERVED: &[&str] = &[
    "and", "or", "not", "implies", "divides", "min", "max", "ceildiv", "True", "False", "true",
    "false", "where",
];

/// Operators of two operands, with how tightly they bind.
const OPERATORS: &[(&str, u8)] = &[
    ("or", 1),
    ("and", 2),
    ("==", COMPARISON),
    ("!=", COMPARISON),
    ("<=", COMPARISON),
    (">=", COMPARISON),
    ("<", COMPARISON),
    (">", COMPARISON),
    ("+", SUM),
    ("-", SUM),
    ("*", 6),
    ("//", 6),
    ("%", 6),
];
const NOT: u8 = 3;
const COMPARISON: u8 = 4;
const SUM: u8 = 5;
const NEGATIVE: u8 = 7;

/// A term that was read.
struct Term {
    poly: Poly,
    /// Inner before outer, left before right, with repetition; constants other than 0 left out.
    divisors: Vec<Poly>,
}

/// What a text may be.
enum Phrase {
    Term(Term),
    Statement(Rc<Statement>),
}

impl Phrase {
    fn term(self) -> Checks<Term> {
        match self {
            Phrase::Term(term) => Ok(term),
            Phrase::Statement(_) => refuse("a statement stands where a term is expected"),
        }
    }

    fn statement(self) -> Checks<Rc<Statement>> {
        match self {
            Phrase::Statement(statement) => Ok(statement),
            Phrase::Term(_) => refuse("a term stands where a statement is expected"),
        }
    }
}

/// Reads one text from its beginning to its end.
pub(crate) struct Reader<'a> {
    tokens: Vec<&'a str>,
    next: usize,
    depth: usize,
    parts: usize,
    algebra: &'a mut Algebra,
    /// What names stand for; without it they are variables.
    values: Option<&'a BTreeMap<String, Poly>>,
}

/// A statement.
pub(crate) fn statement(text: &str, algebra: &mut Algebra) -> Checks<Rc<Statement>> {
    let mut reader = Reader::new(text, algebra, None)?;
    let statement = reader.statement()?;
    reader.end()?;
    Ok(statement)
}

/// A term, as its polynomial.
pub(crate) fn term(text: &str, algebra: &mut Algebra) -> Checks<Poly> {
    let mut reader = Reader::new(text, algebra, None)?;
    let term = reader.phrase(SUM)?.term()?;
    reader.end()?;
    Ok(term.poly)
}

/// A fact as it stands behind `is`: `p >= 0`, `p == 0` or `p != 0`.
pub(crate) fn fact(text: &str, algebra: &mut Algebra) -> Checks<Fact> {
    let mut reader = Reader::new(text, algebra, None)?;
    let poly = reader.phrase(SUM)?.term()?.poly;
    let signs = [Sign::AtLeastZero, Sign::Zero, Sign::NotZero];
    let Some(sign) = signs.into_iter().find(|sign| reader.take(sign.symbol())) else {
        return refuse("expected `>= 0`, `== 0` or `!= 0`");
    };
    reader.expect("0")?;
    reader.end()?;
    Ok(Fact::Number(poly, sign))
}

/// The names of variables in a text.
pub(crate) fn variables(text: &str) -> Checks<Vec<&str>> {
    Ok(tokens(text)?.into_iter().filter(|token| is_variable(token)).collect())
}

impl<'a> Reader<'a> {
    /// At the beginning of a text. `values` says what its variables stand for.
    pub(crate) fn new(
        text: &'a str,
        algebra: &'a mut Algebra,
        values: Option<&'a BTreeMap<String, Poly>>,
    ) -> Checks<Self> {
        Ok(Reader { tokens: tokens(text)?, next: 0, depth: 0, parts: 0, algebra, values })
    }

    /// Reads a statement.
    pub(crate) fn statement(&mut self) -> Checks<Rc<Statement>> {
        self.phrase(0)?.statement()
    }

    /// Passes a token, when it is the next.
    pub(crate) fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.next += usize::from(found);
        found
    }

    /// Nothing is left.
    pub(crate) fn end(&self) -> Checks<()> {
        if self.peek().is_empty() { Ok(()) } else { self.unexpected("the end") }
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.next).copied().unwrap_or_default()
    }

    fn expect(&mut self, token: &str) -> Checks<()> {
        if self.take(token) { Ok(()) } else { self.unexpected(&format!("`{token}`")) }
    }

    fn unexpected<T>(&self, expected: &str) -> Checks<T> {
        match self.peek() {
            "" => refuse(format!("expected {expected}, found the end of the text")),
            found => refuse(format!("expected {expected}, found `{found}`")),
        }
    }

    /// An operand and the operators behind it that bind at least so tightly.
    fn phrase(&mut self, tightness: u8) -> Checks<Phrase> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse(format!("operators nest deeper than {MAX_DEPTH}"));
        }
        let mut left = self.operand(tightness)?;
        while let Some((operator, binds)) = self.operator(tightness) {
            self.next += 1;
            let right = self.phrase(binds + 1)?;
            left = match binds {
                COMPARISON => {
                    let (left, right) = (left.term()?, right.term()?);
                    self.comparison(operator, left, right)?
                }
                SUM.. => Phrase::Term(self.arithmetic(operator, left.term()?, right.term()?)?),
                _ => {
                    let connective =
                        if operator == "and" { Connective::And } else { Connective::Or };
                    self.join(connective, left.statement()?, right.statement()?)?
                }
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&self, tightness: u8) -> Option<(&'static str, u8)> {
        let next = self.peek();
        OPERATORS.iter().copied().find(|(token, binds)| *token == next && *binds >= tightness)
    }

    fn operand(&mut self, tightness: u8) -> Checks<Phrase> {
        let token = self.peek();
        self.next += 1;
        let called = self.peek() == "(";
        match token {
            "(" => {
                let inner = self.phrase(0)?;
                self.expect(")")?;
                Ok(inner)
            }
            "-" => {
                let term = self.phrase(NEGATIVE)?.term()?;
                let poly = self.algebra.linear(-1, &term.poly, 0)?;
                Ok(Phrase::Term(Term { poly, ..term }))
            }
            "not" if tightness <= NOT => {
                let inner = self.phrase(NOT)?.statement()?;
                self.count_part()?;
                Ok(Phrase::Statement(Rc::new(Statement::Not(inner))))
            }
            "True" | "False" => {
                Ok(Phrase::Statement(Rc::new(Statement::Constant(token == "True"))))
            }
            "min" | "max" | "ceildiv" | "divides" | "implies" if called => self.call(token),
            _ if token.starts_with(|c: char| c.is_ascii_digit()) => number(token),
            _ if is_variable(token) => self.variable(token),
            _ => {
                self.next -= 1;
                self.unexpected("a term or a statement")
            }
        }
    }

    fn variable(&mut self, name: &str) -> Checks<Phrase> {
        let poly = match self.values {
            None => self.algebra.atom(Atom::Name(name.to_owned()))?,
            Some(values) => match values.get(name) {
                Some(poly) => self.algebra.linear(1, poly, 0)?,
                None => return refuse(format!("nothing is given for `{name}`")),
            },
        };
        Ok(Phrase::Term(Term { poly, divisors: Vec::new() }))
    }

    fn call(&mut self, function: &str) -> Checks<Phrase> {
        self.expect("(")?;
        let mut arguments = vec![self.phrase(0)?];
        while self.take(",") {
            arguments.push(self.phrase(0)?);
        }
        self.expect(")")?;
        match (function, <[Phrase; 2]>::try_from(arguments)) {
            ("implies", Ok([p, q])) => {
                self.join(Connective::Implies, p.statement()?, q.statement()?)
            }
            ("divides", Ok([a, b])) => {
                let (a, b) = (a.term()?, b.term()?);
                self.comparison("divides", a, b)
            }
            ("ceildiv", Ok([a, b])) => {
                let (mut a, b) = (a.term()?, b.term()?);
                a.poly = self.algebra.linear(-1, &a.poly, 0)?;
                let mut quotient = self.arithmetic("//", a, b)?;
                quotient.poly = self.algebra.linear(-1, &quotient.poly, 0)?;
                Ok(Phrase::Term(quotient))
            }
            ("min", Ok(operands)) => self.extreme(Atom::Least, operands.into()),
            ("max", Ok(operands)) => self.extreme(Atom::Greatest, operands.into()),
            ("min", Err(operands)) => self.extreme(Atom::Least, operands),
            ("max", Err(operands)) => self.extreme(Atom::Greatest, operands),
            _ => refuse(format!("`{function}` takes two arguments")),
        }
    }

    fn extreme(&mut self, atom: fn(Vec<Poly>) -> Atom, operands: Vec<Phrase>) -> Checks<Phrase> {
        if operands.len() < 2 {
            return refuse("`min` and `max` take two arguments or more");
        }
        let (mut polys, mut divisors) = (Vec::new(), Vec::new());
        for operand in operands {
            let term = operand.term()?;
            polys.push(term.poly);
            divisors.extend(term.divisors);
        }
        Ok(Phrase::Term(Term { poly: self.algebra.atom(atom(polys))?, divisors }))
    }

    fn arithmetic(&mut self, operator: &str, a: Term, b: Term) -> Checks<Term> {
        let poly = match operator {
            "+" => self.algebra.plus(&a.poly, 1, &b.poly)?,
            "-" => self.algebra.plus(&a.poly, -1, &b.poly)?,
            "*" => self.algebra.product(&a.poly, &b.poly)?,
            "//" => self.algebra.quotient(&a.poly, &b.poly)?,
            _ => self.algebra.remainder(&a.poly, &b.poly)?,
        };
        let mut divisors = a.divisors;
        divisors.extend(b.divisors);
        let divides = matches!(operator, "//" | "%");
        if divides && b.poly.as_constant().is_none_or(|value| value == BigInt::ZERO) {
            self.algebra.keep(&b.poly)?;
            divisors.push(b.poly);
        }
        Ok(Term { poly, divisors })
    }

    /// `a > b` is `b < a`, with the divisors of `b` first.
    fn comparison(&mut self, operator: &str, a: Term, b: Term) -> Checks<Phrase> {
        self.algebra.keep(&a.poly)?;
        self.algebra.keep(&b.poly)?;
        let (relation, left, right) = match operator {
            "==" => (Relation::Equal, a, b),
            "!=" => (Relation::NotEqual, a, b),
            "<=" => (Relation::AtMost, a, b),
            "<" => (Relation::Less, a, b),
            ">=" => (Relation::AtMost, b, a),
            ">" => (Relation::Less, b, a),
            _ => (Relation::Divides, a, b),
        };
        let mut divisors = left.divisors;
        divisors.extend(right.divisors);
        let (left, right) = (left.poly, right.poly);
        let comparison = Comparison { relation, left, right, divisors };
        Ok(Phrase::Statement(Rc::new(Statement::Compare(comparison))))
    }

    fn join(&mut self, how: Connective, p: Rc<Statement>, q: Rc<Statement>) -> Checks<Phrase> {
        self.count_part()?;
        Ok(Phrase::Statement(Rc::new(Statement::Join(how, p, q))))
    }

    fn count_part(&mut self) -> Checks<()> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return refuse(format!("a statement of more than {MAX_PARTS} parts"));
        }
        Ok(())
    }
}

fn number(digits: &str) -> Checks<Phrase> {
    // The language has no such numbers, so that whoever reads the statement there could not.
    if digits.len() > 1 && digits.starts_with('0') {
        return refuse("a number that begins with 0");
    }
    let value = if digits.len() > MAX_DIGITS { None } else { digits.parse::<BigInt>().ok() };
    let Some(value) = value else {
        return refuse(format!("a number of more than {MAX_DIGITS} digits"));
    };
    Ok(Phrase::Term(Term { poly: Poly::constant(value), divisors: Vec::new() }))
}

fn is_variable(token: &str) -> bool {
    let letter = token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    letter && !RESERVED.contains(&token)
}

/// Splits a text: names, numbers, and the longest symbols that fit, between spaces. A text that has
/// tokens is printable: it may be shown as it is.
fn tokens(text: &str) -> Checks<Vec<&str>> {
    const SYMBOLS: &[&str] =
        &["==", "!=", "<=", ">=", "//", "<", ">", "+", "-", "*", "%", "(", ")", ","];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(' ');
    while let Some(first) = rest.chars().next() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let in_word: fn(char) -> bool = if first.is_ascii_digit() {
            |c| c.is_ascii_digit()
        } else {
            |c| c.is_ascii_alphanumeric() || c == '_'
        };
        let word = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        let length = symbol.map_or(word, |symbol| symbol.len());
        if length == 0 {
            return refuse(format!("`{first}` means nothing here"));
        }
        let (token, behind) = rest.split_at(length);
        tokens.push(token);
        rest = behind.trim_start_matches(' ');
    }
    Ok(tokens)
}
