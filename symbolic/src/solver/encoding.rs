//! A question as a text in SMT-LIB. Integers there have no bounds, as in what is to be proved.
//!
//! The solver's own division is Euclidean; `//` and `%` round towards minus infinity, which differs
//! for negative divisors. Statements have three outcomes (holds, fails, no value), so each gets two
//! definitions: `h` says that it holds, `f` that it fails, both false where it has no value.

use super::question::Question;
use crate::claims::Formula;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// How long a text may become.
const MAX_LENGTH: usize = 400_000;

/// How divisions are written. Each proves what the others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// A fresh quotient and remainder: `x == y * q + r`, `r` between 0 and `y`.
    QuotientRemainder,
    /// A fresh quotient; the remainder is `x - y * q`, which cancels against other products.
    Quotient,
    /// The solver's own `div` and `mod`, corrected for negative divisors.
    Direct,
}

impl Encoding {
    /// All, in the order in which they are tried.
    pub const ALL: [Encoding; 3] =
        [Encoding::QuotientRemainder, Encoding::Direct, Encoding::Quotient];

    /// The word for it in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Encoding::QuotientRemainder => "quotient-remainder",
            Encoding::Quotient => "quotient",
            Encoding::Direct => "direct",
        }
    }
}

/// What an assignment is sought for, besides the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The formula has no value or fails. If there is none, it is proved.
    Refused,
    /// The formula has a value and fails, and no variable is farther from 0 than this.
    #[cfg_attr(
        not(feature = "z3"),
        expect(dead_code, reason = "only the solver finds assignments")
    )]
    Fails(Option<i64>),
}

/// The text; `None` where it becomes too long.
pub(crate) fn text(question: &Question<'_>, encoding: Encoding, goal: Goal) -> Option<String> {
    let mut writer = Writer::new(question, encoding);
    for fact in &question.facts {
        let (nonzero, relation) = writer.relation(fact);
        for part in nonzero.iter().chain([&relation]) {
            writer.line(format_args!("(assert {part})"));
        }
    }
    let (holds, fails) = writer.formula(question.formula);
    match goal {
        Goal::Refused => writer.line(format_args!("(assert (not {holds}))")),
        Goal::Fails(bound) => {
            writer.line(format_args!("(assert {fails})"));
            for number in 0..question.variables.len() {
                if let Some(bound) = bound {
                    let low = literal(-bound);
                    writer.line(format_args!("(assert (<= {low} v{number} {bound}))"));
                }
            }
        }
    }
    writer.line(format_args!("(check-sat)"));
    (writer.text.len() <= MAX_LENGTH).then_some(writer.text)
}

/// A number as SMT-LIB has it.
fn literal(value: i64) -> String {
    if value < 0 { format!("(- {})", value.unsigned_abs()) } else { value.to_string() }
}

struct Writer<'a> {
    question: &'a Question<'a>,
    encoding: Encoding,
    text: String,
    /// The name of what was defined last.
    fresh: usize,
    /// Quotient and remainder of what was divided.
    divisions: BTreeMap<(String, String), (String, String)>,
    /// The divisors of the claim at hand that could be 0.
    divisors: Vec<String>,
    /// Dims that a fact says are at least 1.
    positive: BTreeSet<&'a Dim>,
}

impl<'a> Writer<'a> {
    fn new(question: &'a Question<'a>, encoding: Encoding) -> Self {
        let mut text = format!("; {}\n", encoding.name());
        for number in 0..question.variables.len() {
            text += &format!("(declare-const v{number} Int)\n");
        }
        let positive = question.facts.iter().filter_map(|fact| says_positive(fact)).collect();
        let (divisions, divisors) = (BTreeMap::new(), Vec::new());
        Self { question, encoding, text, fresh: 0, divisions, divisors, positive }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Past the limit the text is of no use; it need not grow.
        if self.text.len() <= MAX_LENGTH {
            writeln!(self.text, "{line}").expect("writing to a string does not fail");
        }
    }

    /// Defines a name for an expression.
    fn define(&mut self, prefix: &str, sort: &str, expression: &str) -> String {
        self.fresh += 1;
        let name = format!("{prefix}{}", self.fresh);
        self.line(format_args!("(define-fun {name} () {sort} {expression})"));
        name
    }

    fn formula(&mut self, formula: &Formula) -> (String, String) {
        match formula {
            Formula::True => ("true".to_owned(), "false".to_owned()),
            Formula::False => ("false".to_owned(), "true".to_owned()),
            Formula::Claim(claim) => self.claim(claim),
            Formula::Not(operand) => {
                let (holds, fails) = self.formula(operand);
                (fails, holds)
            }
            Formula::And(parts) => self.conjunction(parts, |pair| pair),
            // `a or b` is `not (not a and not b)`, in the same order.
            Formula::Or(parts) => {
                let (holds, fails) = self.conjunction(parts, |(holds, fails)| (fails, holds));
                (fails, holds)
            }
            Formula::Implies(parts) => {
                let (p, q) = (self.formula(&parts.0), self.formula(&parts.1));
                self.defined(
                    &format!("(or {} (and {} {}))", p.1, p.0, q.0),
                    &format!("(and {} {})", p.0, q.1),
                )
            }
        }
    }

    /// All of `parts` as `read` takes them, from left to right: the first that fails decides.
    fn conjunction(
        &mut self,
        parts: &[Formula],
        read: fn((String, String)) -> (String, String),
    ) -> (String, String) {
        let mut all = ("true".to_owned(), "false".to_owned());
        for part in parts {
            let (holds, fails) = self.formula(part);
            let (holds, fails) = read((holds, fails));
            all = self.defined(
                &format!("(and {} {holds})", all.0),
                &format!("(or {} (and {} {fails}))", all.1, all.0),
            );
        }
        all
    }

    fn defined(&mut self, holds: &str, fails: &str) -> (String, String) {
        (self.define("h", "Bool", holds), self.define("f", "Bool", fails))
    }

    fn claim(&mut self, claim: &Claim) -> (String, String) {
        let (nonzero, relation) = self.relation(claim);
        if nonzero.is_empty() {
            return self.defined(&relation, &format!("(not {relation})"));
        }
        let nonzero = nonzero.join(" ");
        self.defined(
            &format!("(and {nonzero} {relation})"),
            &format!("(and {nonzero} (not {relation}))"),
        )
    }

    /// What must hold for the claim to have a value, and what it says then.
    fn relation(&mut self, claim: &Claim) -> (Vec<String>, String) {
        let (a, b) = (self.term(&claim.left), self.term(&claim.right));
        let relation = match claim.relation {
            Relation::Equal => format!("(= {a} {b})"),
            Relation::NotEqual => format!("(not (= {a} {b}))"),
            Relation::AtMost => format!("(<= {a} {b})"),
            Relation::Less => format!("(< {a} {b})"),
            Relation::Divides => {
                let (_, remainder) = self.division(b, &claim.left, a.clone());
                format!("(and (not (= {a} 0)) (= {remainder} 0))")
            }
        };
        let divisors = std::mem::take(&mut self.divisors);
        let nonzero = divisors.iter().map(|divisor| format!("(not (= {divisor} 0))"));
        (nonzero.collect(), relation)
    }

    fn term(&mut self, dim: &Dim) -> String {
        match dim {
            Dim::Int(value) => literal(*value),
            Dim::Var(name) => format!("v{}", self.question.numbers[name]),
            Dim::Op(op, operands) => {
                let (a, b) = (self.term(&operands.0), self.term(&operands.1));
                self.operation(*op, a, &operands.1, b)
            }
        }
    }

    fn operation(&mut self, op: DimOp, a: String, divisor: &Dim, b: String) -> String {
        if matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv)
            && divisor.as_int().is_none_or(|value| value == 0)
            && !self.is_positive(divisor)
            && !self.divisors.contains(&b)
        {
            self.divisors.push(b.clone());
        }
        match op {
            DimOp::Add => format!("(+ {a} {b})"),
            DimOp::Sub => format!("(- {a} {b})"),
            DimOp::Mul => format!("(* {a} {b})"),
            DimOp::FloorDiv => self.division(a, divisor, b).0,
            DimOp::FloorMod => self.division(a, divisor, b).1,
            DimOp::CeilDiv => format!("(- {})", self.division(format!("(- {a})"), divisor, b).0),
            DimOp::Min => self.define("m", "Int", &format!("(ite (<= {a} {b}) {a} {b})")),
            DimOp::Max => self.define("m", "Int", &format!("(ite (<= {a} {b}) {b} {a})")),
        }
    }

    /// Whether the facts say so at a glance.
    fn is_positive(&self, dim: &Dim) -> bool {
        match dim {
            Dim::Int(value) => *value > 0,
            _ if self.positive.contains(dim) => true,
            Dim::Op(DimOp::Mul | DimOp::Add, operands) => {
                self.is_positive(&operands.0) && self.is_positive(&operands.1)
            }
            _ => false,
        }
    }

    /// Names for the quotient and the remainder of `a` by `b`, which is `divisor`; anything where
    /// that is 0.
    fn division(&mut self, a: String, divisor: &Dim, b: String) -> (String, String) {
        let key = (a, b);
        if let Some(known) = self.divisions.get(&key) {
            return known.clone();
        }
        let (a, b) = (key.0.as_str(), key.1.as_str());
        let found = match self.encoding {
            Encoding::QuotientRemainder | Encoding::Quotient => {
                self.divided_with_remainder(a, divisor, b)
            }
            Encoding::Direct => self.divided_directly(a, divisor, b),
        };
        self.divisions.insert(key, found.clone());
        found
    }

    fn divided_with_remainder(&mut self, a: &str, divisor: &Dim, b: &str) -> (String, String) {
        self.fresh += 1;
        let (q, r) = (format!("q{}", self.fresh), format!("r{}", self.fresh));
        self.line(format_args!("(declare-const {q} Int)"));
        let sum = if self.encoding == Encoding::Quotient {
            self.line(format_args!("(define-fun {r} () Int (- {a} (* {b} {q})))"));
            "true".to_owned()
        } else {
            self.line(format_args!("(declare-const {r} Int)"));
            format!("(= {a} (+ (* {b} {q}) {r}))")
        };
        let (above, below) = (format!("(<= 0 {r}) (< {r} {b})"), format!("(< {b} {r}) (<= {r} 0)"));
        if self.is_positive(divisor) {
            self.line(format_args!("(assert (and {sum} {above}))"));
        } else if divisor.as_int().is_some_and(|value| value < 0) {
            self.line(format_args!("(assert (and {sum} {below}))"));
        } else {
            self.line(format_args!(
                "(assert (or (= {b} 0) (and {sum} (or (and {above}) (and {below})))))"
            ));
        }
        (q, r)
    }

    fn divided_directly(&mut self, a: &str, divisor: &Dim, b: &str) -> (String, String) {
        let above = (format!("(div {a} {b})"), format!("(mod {a} {b})"));
        let below = (format!("(div (- {a}) (- {b}))"), format!("(- (mod (- {a}) (- {b})))"));
        let (q, r) = if self.is_positive(divisor) {
            above
        } else if divisor.as_int().is_some_and(|value| value < 0) {
            below
        } else {
            let choice = |x: &str, y: &str| format!("(ite (< 0 {b}) {x} {y})");
            (choice(&above.0, &below.0), choice(&above.1, &below.1))
        };
        (self.define("q", "Int", &q), self.define("r", "Int", &r))
    }
}

/// The dim that a fact says is at least 1.
fn says_positive(fact: &Claim) -> Option<&Dim> {
    let least = fact.left.as_int()?;
    let positive = match fact.relation {
        Relation::AtMost | Relation::Equal => least >= 1,
        Relation::Less => least >= 0,
        Relation::NotEqual | Relation::Divides => false,
    };
    positive.then_some(&fact.right)
}
