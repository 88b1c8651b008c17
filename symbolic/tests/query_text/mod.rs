//! Reads the queries of the data file: recursive descent to a tree with `select` and booleans, then
//! down to formulas over dims.

use relax_symbolic::claims::Formula;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

/// How many claims one query may become when its `select`s are taken apart.
const MAX_CLAIMS: usize = 400;

#[derive(Clone, Debug, PartialEq)]
enum Number {
    Int(i64),
    Var(String),
    Op(DimOp, Box<(Number, Number)>),
    Select(Box<(Truth, Number, Number)>),
}

#[derive(Clone, Debug, PartialEq)]
enum Truth {
    Known(bool),
    Compare(Relation, Number, Number),
    And(Box<(Truth, Truth)>),
    Or(Box<(Truth, Truth)>),
    Not(Box<Truth>),
    Same(Box<(Truth, Truth)>),
    Choose(Box<(Truth, Truth, Truth)>),
}

enum Value {
    Number(Number),
    Truth(Truth),
}

/// The formula that `text` says; `None` if it is not in the syntax or becomes too big.
pub(crate) fn formula(text: &str) -> Option<Formula> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let truth = parser.disjunction()?.truth()?;
    (parser.at == tokens.len()).then_some(())?;
    lower(&truth, &mut 0)
}

fn tokens(text: &str) -> Option<Vec<String>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else {
            let long = ["//", "<=", ">=", "==", "!="].iter().any(|op| rest.starts_with(op));
            if !long && !"+-*%()<>,".contains(first) {
                return None;
            }
            if long { 2 } else { 1 }
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

struct Parser<'a> {
    tokens: &'a [String],
    at: usize,
}

impl Value {
    fn truth(self) -> Option<Truth> {
        if let Value::Truth(truth) = self { Some(truth) } else { None }
    }

    fn number(self) -> Option<Number> {
        if let Value::Number(number) = self { Some(number) } else { None }
    }
}

impl Parser<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn disjunction(&mut self) -> Option<Value> {
        let mut left = self.conjunction()?;
        while self.accept("or") {
            let right = self.conjunction()?.truth()?;
            left = Value::Truth(Truth::Or(Box::new((left.truth()?, right))));
        }
        Some(left)
    }

    fn conjunction(&mut self) -> Option<Value> {
        let mut left = self.inversion()?;
        while self.accept("and") {
            let right = self.inversion()?.truth()?;
            left = Value::Truth(Truth::And(Box::new((left.truth()?, right))));
        }
        Some(left)
    }

    fn inversion(&mut self) -> Option<Value> {
        if self.accept("not") {
            let operand = self.inversion()?.truth()?;
            return Some(Value::Truth(Truth::Not(Box::new(operand))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Option<Value> {
        let left = self.sum()?;
        let op = self.peek().to_owned();
        if !["==", "!=", "<", "<=", ">", ">="].contains(&op.as_str()) {
            return Some(left);
        }
        self.at += 1;
        let right = self.sum()?;
        Some(Value::Truth(match (left, right) {
            (Value::Truth(a), Value::Truth(b)) => {
                let same = Truth::Same(Box::new((a, b)));
                match op.as_str() {
                    "==" => same,
                    "!=" => Truth::Not(Box::new(same)),
                    _ => return None,
                }
            }
            (a, b) => {
                let (a, b) = (a.number()?, b.number()?);
                match op.as_str() {
                    "==" => Truth::Compare(Relation::Equal, a, b),
                    "!=" => Truth::Compare(Relation::NotEqual, a, b),
                    "<" => Truth::Compare(Relation::Less, a, b),
                    "<=" => Truth::Compare(Relation::AtMost, a, b),
                    ">" => Truth::Compare(Relation::Less, b, a),
                    _ => Truth::Compare(Relation::AtMost, b, a),
                }
            }
        }))
    }

    fn sum(&mut self) -> Option<Value> {
        let mut left = self.product()?;
        loop {
            let op = match self.peek() {
                "+" => DimOp::Add,
                "-" => DimOp::Sub,
                _ => return Some(left),
            };
            self.at += 1;
            let right = self.product()?.number()?;
            left = Value::Number(Number::Op(op, Box::new((left.number()?, right))));
        }
    }

    fn product(&mut self) -> Option<Value> {
        let mut left = self.unary()?;
        loop {
            let op = match self.peek() {
                "*" => DimOp::Mul,
                "//" => DimOp::FloorDiv,
                "%" => DimOp::FloorMod,
                _ => return Some(left),
            };
            self.at += 1;
            let right = self.unary()?.number()?;
            left = Value::Number(Number::Op(op, Box::new((left.number()?, right))));
        }
    }

    fn unary(&mut self) -> Option<Value> {
        if self.accept("-") {
            let operand = self.unary()?.number()?;
            let zero = Number::Int(0);
            return Some(Value::Number(Number::Op(DimOp::Sub, Box::new((zero, operand)))));
        }
        self.primary()
    }

    fn primary(&mut self) -> Option<Value> {
        let token = self.peek().to_owned();
        self.at += 1;
        match token.as_str() {
            "" => None,
            "(" => {
                let inner = self.disjunction()?;
                self.accept(")").then_some(inner)
            }
            "true" => Some(Value::Truth(Truth::Known(true))),
            "false" => Some(Value::Truth(Truth::Known(false))),
            "min" | "max" | "ceildiv" | "select" => self.call(&token),
            word => Some(Value::Number(match word.parse() {
                Ok(value) => Number::Int(value),
                Err(_) if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                    Number::Var(word.to_owned())
                }
                Err(_) => return None,
            })),
        }
    }

    fn call(&mut self, function: &str) -> Option<Value> {
        let mut args = Vec::new();
        self.accept("(").then_some(())?;
        while !self.accept(")") {
            args.push(self.disjunction()?);
            self.accept(",");
        }
        if function == "select" {
            let [condition, first, second]: [Value; 3] = args.try_into().ok()?;
            let condition = condition.truth()?;
            return Some(match (first, second) {
                (Value::Truth(a), Value::Truth(b)) => {
                    Value::Truth(Truth::Choose(Box::new((condition, a, b))))
                }
                (a, b) => {
                    Value::Number(Number::Select(Box::new((condition, a.number()?, b.number()?))))
                }
            });
        }
        let op = match function {
            "min" => DimOp::Min,
            "max" => DimOp::Max,
            _ => DimOp::CeilDiv,
        };
        let numbers = args.into_iter().map(Value::number).collect::<Option<Vec<_>>>()?;
        numbers.into_iter().reduce(|a, b| Number::Op(op, Box::new((a, b)))).map(Value::Number)
    }
}

fn lower(truth: &Truth, claims: &mut usize) -> Option<Formula> {
    *claims += 1;
    (*claims <= MAX_CLAIMS).then_some(())?;
    Some(match truth {
        Truth::Known(true) => Formula::True,
        Truth::Known(false) => Formula::False,
        Truth::And(parts) => Formula::And(vec![lower(&parts.0, claims)?, lower(&parts.1, claims)?]),
        Truth::Or(parts) => Formula::Or(vec![lower(&parts.0, claims)?, lower(&parts.1, claims)?]),
        Truth::Not(operand) => Formula::negation(lower(operand, claims)?),
        Truth::Same(parts) => {
            let (a, b) = (lower(&parts.0, claims)?, lower(&parts.1, claims)?);
            let forward = Formula::implies(a.clone(), b.clone());
            Formula::And(vec![forward, Formula::implies(b, a)])
        }
        Truth::Choose(parts) => {
            let condition = lower(&parts.0, claims)?;
            let (a, b) = (lower(&parts.1, claims)?, lower(&parts.2, claims)?);
            choice(condition, a, b)
        }
        Truth::Compare(relation, a, b) => {
            let Some(condition) = first_condition(a).or_else(|| first_condition(b)) else {
                return Some(Formula::Claim(Claim::new(dim(a)?, *relation, dim(b)?)));
            };
            let with = |value| {
                Truth::Compare(
                    *relation,
                    decided(a, &condition, value),
                    decided(b, &condition, value),
                )
            };
            let (yes, no) = (lower(&with(true), claims)?, lower(&with(false), claims)?);
            choice(lower(&condition, claims)?, yes, no)
        }
    })
}

fn choice(condition: Formula, yes: Formula, no: Formula) -> Formula {
    let negated = Formula::negation(condition.clone());
    Formula::And(vec![Formula::implies(condition, yes), Formula::implies(negated, no)])
}

/// The condition of an innermost `select`.
fn first_condition(number: &Number) -> Option<Truth> {
    match number {
        Number::Int(_) | Number::Var(_) => None,
        Number::Op(_, operands) => {
            first_condition(&operands.0).or_else(|| first_condition(&operands.1))
        }
        Number::Select(parts) => {
            Some(condition_inside(&parts.0).unwrap_or_else(|| parts.0.clone()))
        }
    }
}

fn condition_inside(truth: &Truth) -> Option<Truth> {
    match truth {
        Truth::Known(_) => None,
        Truth::Compare(_, a, b) => first_condition(a).or_else(|| first_condition(b)),
        Truth::And(parts) | Truth::Or(parts) | Truth::Same(parts) => {
            condition_inside(&parts.0).or_else(|| condition_inside(&parts.1))
        }
        Truth::Not(operand) => condition_inside(operand),
        Truth::Choose(parts) => condition_inside(&parts.0)
            .or_else(|| condition_inside(&parts.1))
            .or_else(|| condition_inside(&parts.2)),
    }
}

/// `number` where `condition` is known to be `value`.
fn decided(number: &Number, condition: &Truth, value: bool) -> Number {
    match number {
        Number::Int(_) | Number::Var(_) => number.clone(),
        Number::Op(op, operands) => {
            let a = decided(&operands.0, condition, value);
            Number::Op(*op, Box::new((a, decided(&operands.1, condition, value))))
        }
        Number::Select(parts) if parts.0 == *condition => {
            decided(if value { &parts.1 } else { &parts.2 }, condition, value)
        }
        Number::Select(parts) => {
            let own = decided_truth(&parts.0, condition, value);
            let a = decided(&parts.1, condition, value);
            Number::Select(Box::new((own, a, decided(&parts.2, condition, value))))
        }
    }
}

fn decided_truth(truth: &Truth, condition: &Truth, value: bool) -> Truth {
    let both = |parts: &(Truth, Truth)| {
        let a = decided_truth(&parts.0, condition, value);
        Box::new((a, decided_truth(&parts.1, condition, value)))
    };
    match truth {
        Truth::Known(_) => truth.clone(),
        Truth::Compare(relation, a, b) => {
            let a = decided(a, condition, value);
            Truth::Compare(*relation, a, decided(b, condition, value))
        }
        Truth::And(parts) => Truth::And(both(parts)),
        Truth::Or(parts) => Truth::Or(both(parts)),
        Truth::Same(parts) => Truth::Same(both(parts)),
        Truth::Not(operand) => Truth::Not(Box::new(decided_truth(operand, condition, value))),
        Truth::Choose(parts) => Truth::Choose(Box::new((
            decided_truth(&parts.0, condition, value),
            decided_truth(&parts.1, condition, value),
            decided_truth(&parts.2, condition, value),
        ))),
    }
}

fn dim(number: &Number) -> Option<Dim> {
    match number {
        Number::Int(value) => Some(Dim::Int(*value)),
        Number::Var(name) => Some(Dim::var(name.as_str())),
        Number::Op(op, operands) => Some(Dim::op(*op, dim(&operands.0)?, dim(&operands.1)?)),
        Number::Select(_) => None,
    }
}
