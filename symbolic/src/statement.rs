//! Statements and terms as text, in the syntax of the language: `n % 4 == 0 and n >= 1`.
//!
//! The text is read to a tree in which `select(c, a, b)` may stand for an integer or for a truth
//! value; [`choices`] then takes the `select`s apart, since formulas and dims have none. What
//! [`Formula`] prints reads back as the same formula. Decimal integers beyond i64 are read as `a * 2^62 + b`, since dims have none.

mod choices;
mod digits;

use crate::claims::Formula;
use choices::{Number, Truth};
pub(crate) use digits::is_of_name;
use relax_syntax::ast::{Argument, BinaryOp, Expr, ExprKind, UnaryOp};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::Relation;
use relax_syntax::parse::parse_expression;

type Read<T> = Result<T, String>;

/// How long a text may be.
const LONGEST: usize = 20_000;

/// The statement that `text` makes: comparisons of integers, `divides(a, b)`, `True` and `False`,
/// connected by `and`, `or`, `not`, `implies(p, q)`, `select(c, p, q)`, and `==`, `!=` between
/// statements.
///
/// # Errors
/// A sentence on what was expected or which limit was reached.
pub fn formula(text: &str) -> Result<Formula, String> {
    let Value::Truth(truth) = value(&parsed(text)?)? else {
        return Err("expected a comparison such as `n % 4 == 0`, found an integer".to_owned());
    };
    choices::formula(&truth)
}

/// The integer expression that `text` writes, as it stands: nothing is simplified.
///
/// # Errors
/// A sentence on what was expected or which limit was reached.
pub fn term(text: &str) -> Result<Dim, String> {
    let number = number(&parsed(text)?)?;
    choices::term(&number).ok_or_else(|| "`select` stands only in statements".to_owned())
}

fn parsed(text: &str) -> Read<Expr> {
    if text.len() > LONGEST {
        return Err(format!("a statement may have at most {LONGEST} characters"));
    }
    parse_expression(&digits::split(text)?, 0).map_err(|diagnostic| diagnostic.message)
}

/// An integer beyond i64, as dims have it: `a * 2^62 + b`.
fn big(value: u64) -> Number {
    let part = |value| Number::Int(i64::try_from(value).expect("invariant: it has 62 bits"));
    let (high, low) = (value >> digits::BITS, value % (1 << digits::BITS));
    let product = Number::op(DimOp::Mul, part(high), part(1 << digits::BITS));
    Number::op(DimOp::Add, product, part(low))
}

/// What an expression stands for.
enum Value {
    Truth(Truth),
    Number(Number),
}

fn truth(expr: &Expr) -> Read<Truth> {
    match value(expr)? {
        Value::Truth(truth) => Ok(truth),
        Value::Number(_) => {
            Err("expected a statement such as `n % 4 == 0`, found an integer".to_owned())
        }
    }
}

fn number(expr: &Expr) -> Read<Number> {
    match value(expr)? {
        Value::Number(number) => Ok(number),
        Value::Truth(_) => Err("expected an integer expression, found a statement".to_owned()),
    }
}

fn value(expr: &Expr) -> Read<Value> {
    match &expr.kind {
        ExprKind::Bool(known) => Ok(Value::Truth(Truth::Known(*known))),
        ExprKind::Name(name) if &**name == "true" => Ok(Value::Truth(Truth::Known(true))),
        ExprKind::Name(name) if &**name == "false" => Ok(Value::Truth(Truth::Known(false))),
        ExprKind::Name(name) => Ok(Value::Number(Number::Var(name.clone()))),
        ExprKind::Int(value) => Ok(Value::Number(Number::Int(*value))),
        ExprKind::BigInt(value) => Ok(Value::Number(big(*value))),
        ExprKind::Unary(UnaryOp::Not, operand) => {
            Ok(Value::Truth(Truth::Not(Box::new(truth(operand)?))))
        }
        ExprKind::Unary(UnaryOp::Negate, operand) => {
            Ok(Value::Number(Number::op(DimOp::Sub, Number::Int(0), number(operand)?)))
        }
        ExprKind::Binary(op, operands) => binary(*op, expr, &operands.0, &operands.1),
        ExprKind::Call { callee, arguments } => call(callee, arguments),
        _ => Err("expected a comparison or an integer expression".to_owned()),
    }
}

fn binary(op: BinaryOp, whole: &Expr, a: &Expr, b: &Expr) -> Read<Value> {
    let (relation, swapped) = match op {
        BinaryOp::And => return chain(Truth::And, BinaryOp::And, whole, (a, b)),
        BinaryOp::Or => return chain(Truth::Or, BinaryOp::Or, whole, (a, b)),
        BinaryOp::Equal => (Relation::Equal, false),
        BinaryOp::NotEqual => (Relation::NotEqual, false),
        BinaryOp::Less => (Relation::Less, false),
        BinaryOp::LessEqual => (Relation::AtMost, false),
        BinaryOp::Greater => (Relation::Less, true),
        BinaryOp::GreaterEqual => (Relation::AtMost, true),
        _ => return Ok(Value::Number(Number::op(dim_op(op)?, number(a)?, number(b)?))),
    };
    let comparison = match (value(a)?, value(b)?) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = if swapped { (b, a) } else { (a, b) };
            Truth::Compare(relation, a, b)
        }
        (Value::Truth(a), Value::Truth(b)) => {
            let same = Truth::Same(Box::new((a, b)));
            match relation {
                Relation::Equal => same,
                Relation::NotEqual => Truth::Not(Box::new(same)),
                _ => return Err(format!("`{}` does not compare statements", op.symbol())),
            }
        }
        _ => return Err(format!("`{}` between a statement and an integer", op.symbol())),
    };
    Ok(Value::Truth(comparison))
}

/// `a and b and c` is one conjunction of three; brackets around the first two make it one of two.
fn chain(
    make: fn(Vec<Truth>) -> Truth,
    op: BinaryOp,
    whole: &Expr,
    (a, b): (&Expr, &Expr),
) -> Read<Value> {
    let mut operands = vec![b];
    let mut first = a;
    while let ExprKind::Binary(inner, parts) = &first.kind {
        // Brackets are no part of a span: with them, what is around begins before.
        if *inner != op || first.span.start != whole.span.start {
            break;
        }
        operands.push(&parts.1);
        first = &parts.0;
    }
    operands.push(first);
    Ok(Value::Truth(make(operands.into_iter().rev().map(truth).collect::<Read<_>>()?)))
}

fn dim_op(op: BinaryOp) -> Read<DimOp> {
    match op {
        BinaryOp::Add => Ok(DimOp::Add),
        BinaryOp::Sub => Ok(DimOp::Sub),
        BinaryOp::Mul => Ok(DimOp::Mul),
        BinaryOp::FloorDiv => Ok(DimOp::FloorDiv),
        BinaryOp::Mod => Ok(DimOp::FloorMod),
        BinaryOp::Div => Err("`/` is not of integers: write `//`".to_owned()),
        other => Err(format!("`{}` is no operation of symbolic integers", other.symbol())),
    }
}

fn call(callee: &Expr, arguments: &[Argument]) -> Read<Value> {
    let ExprKind::Name(name) = &callee.kind else {
        return Err("expected a name before the bracket".to_owned());
    };
    if arguments.iter().any(|argument| argument.keyword.is_some()) {
        return Err(format!("`{name}` takes no keywords"));
    }
    let values: Vec<&Expr> = arguments.iter().map(|argument| &argument.value).collect();
    match (&**name, values.as_slice()) {
        ("min", [_, _, ..]) => extreme(DimOp::Min, &values),
        ("max", [_, _, ..]) => extreme(DimOp::Max, &values),
        ("ceildiv", [a, b]) => {
            Ok(Value::Number(Number::op(DimOp::CeilDiv, number(a)?, number(b)?)))
        }
        ("divides", [a, b]) => {
            Ok(Value::Truth(Truth::Compare(Relation::Divides, number(a)?, number(b)?)))
        }
        ("implies", [a, b]) => Ok(Value::Truth(Truth::Implies(Box::new((truth(a)?, truth(b)?))))),
        ("select", [condition, a, b]) => select(truth(condition)?, value(a)?, value(b)?),
        ("min" | "max", _) => Err(format!("`{name}` takes two integers or more")),
        ("ceildiv" | "divides" | "implies", _) => Err(format!("`{name}` takes two arguments")),
        ("select", _) => Err("`select` takes a condition and two values".to_owned()),
        _ => Err(format!(
            "`{name}` is unknown; known are min, max, ceildiv, divides, implies and select"
        )),
    }
}

fn extreme(op: DimOp, values: &[&Expr]) -> Read<Value> {
    let numbers = values.iter().map(|value| number(value)).collect::<Read<Vec<_>>>()?;
    let folded = numbers.into_iter().reduce(|a, b| Number::op(op, a, b));
    Ok(Value::Number(folded.expect("there are two or more")))
}

fn select(condition: Truth, a: Value, b: Value) -> Read<Value> {
    match (a, b) {
        (Value::Truth(a), Value::Truth(b)) => {
            Ok(Value::Truth(Truth::Choose(Box::new((condition, a, b)))))
        }
        (Value::Number(a), Value::Number(b)) => {
            Ok(Value::Number(Number::Select(Box::new((condition, a, b)))))
        }
        _ => Err("`select` between a statement and an integer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{formula, term};

    fn shown(text: &str) -> String {
        formula(text).map_or_else(|why| format!("error: {why}"), |formula| formula.to_string())
    }

    #[test]
    fn what_is_printed_reads_back() {
        let texts = [
            "n % 4 == 0 and n >= 1 and m < n",
            "(n == 1 and m == 2) and k == 3",
            "n == 1 and (m == 2 and k == 3) or not (n < 2 or True)",
            "implies(divides(4, n), n // -4 * 4 != -n) and False",
            "min(n, max(m, ceildiv(k, 3))) <= -9223372036854775808",
        ];
        for text in texts {
            let first = formula(text).expect("in the syntax");
            assert_eq!(formula(&first.to_string()), Ok(first.clone()), "{text} as {first}");
        }
        assert_eq!(shown("(a < 1 and b < 2) and c < 3"), "(a < 1 and b < 2) and c < 3");
        assert_eq!(shown("a < 1 and b < 2 and c < 3"), "a < 1 and b < 2 and c < 3");
    }

    #[test]
    fn selects_are_taken_apart_innermost_first_and_everywhere() {
        assert_eq!(
            shown("select(n < 1, n, 2) == select(n < 1, 3, m)"),
            "implies(n < 1, n == 3) and implies(not (n < 1), 2 == m)"
        );
        assert_eq!(
            shown("select(select(a < 1, b, c) < 2, 0, 1) == 0"),
            "implies(a < 1, implies(b < 2, 0 == 0) and implies(not (b < 2), 1 == 0)) and \
             implies(not (a < 1), implies(c < 2, 0 == 0) and implies(not (c < 2), 1 == 0))"
        );
        assert_eq!(
            shown("select(a < 1, b < 2, c < 3)"),
            "implies(a < 1, b < 2) and implies(not (a < 1), c < 3)"
        );
    }

    #[test]
    fn integers_beyond_i64_are_read() {
        for (text, wanted) in [
            ("n < 9223372036854775808", "n < 2 * 4611686018427387904 + 0"),
            ("n < 18446744073709551617", "n < 4 * 4611686018427387904 + 1"),
            ("-18_446_744_073_709_551_616 < n2", "0 - (4 * 4611686018427387904 + 0) < n2"),
            (
                "n == 1298074214633706907132624082305024",
                "n == 281474976710656 * 4611686018427387904 + 0",
            ),
            ("n == -9223372036854775808", "n == -9223372036854775808"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn statements_compare_by_equality() {
        assert_eq!(shown("(a < 1) == (b < 2)"), "implies(a < 1, b < 2) and implies(b < 2, a < 1)");
        assert_eq!(shown("(a < 1) < (b < 2)"), "error: `<` does not compare statements");
    }

    #[test]
    fn errors_are_sentences() {
        for (text, wanted) in [
            ("n + 1", "expected a comparison"),
            ("n < (m < 2)", "`<` between a statement and an integer"),
            ("n + (m < 2) == 0", "expected an integer expression, found a statement"),
            ("n and m < 2", "expected a statement"),
            ("n / 2 == 1", "write `//`"),
            ("f(n) == 1", "`f` is unknown"),
            ("min(n) == 1", "two integers or more"),
            ("min(a=n, b=m) == 1", "takes no keywords"),
            ("n == 1298074214633706907132624082305025", "beyond 2^110"),
            ("n == 0xffffffffffffffffff", ""),
            ("n <", "expected"),
            ("select(n < 1, 2, m < 3)", "between a statement and an integer"),
            ("select(n, 2, 3) == 2", "expected a statement"),
        ] {
            let why = formula(text).expect_err(text);
            assert!(why.contains(wanted), "{text}: {why}");
        }
        assert!(term("select(n < 1, 2, 3)").is_err());
        assert_eq!(term("n * 1 + 0").map(|dim| dim.to_string()), Ok("n * 1 + 0".to_owned()));
    }

    #[test]
    fn sizes_are_limited() {
        let many: Vec<String> = (0..40).map(|i| format!("select(a < {i}, {i}, b)")).collect();
        let why = formula(&format!("{} == 0", many.join(" + "))).expect_err("too many ways");
        assert!(why.contains("parts"), "{why}");
        let long = format!("{} == 0", "n + ".repeat(40_000) + "n");
        assert!(formula(&long).expect_err("too long").contains("characters"));
        let deep = format!("{}n{} == 0", "(".repeat(5000), ")".repeat(5000));
        assert!(formula(&deep).is_err());
        let negated = format!("{} n == 0", "not ".repeat(20_000));
        assert!(formula(&negated).is_err());
    }
}
