//! Printing and parsing are inverse, and formatting settles at once and keeps every comment.

mod support;

use proptest::prelude::*;
use relax_syntax::ast::{ExprKind, StatementKind};
use relax_syntax::format::format_source;
use relax_syntax::parse::parse_expression;
use relax_syntax::print::{print_expression, print_file, print_statement};
use relax_syntax::span::Source;
use support::{PROGRAMS, file, parse_valid, structure};

fn formatted(text: &str) -> String {
    format_source(&Source::new("test.rx", text))
        .unwrap_or_else(|diagnostics| panic!("{diagnostics:#?}\n{text}"))
}

#[test]
fn programs_print_and_parse_back() {
    for program in PROGRAMS {
        let file = parse_valid(program);
        let printed = print_file(&file);
        assert_eq!(structure(&file), structure(&parse_valid(&printed)), "{printed}");
        assert!(printed.lines().all(|line| line.len() <= 100), "{printed}");
    }
}

#[test]
fn programs_are_formatted_once_and_for_all() {
    for program in PROGRAMS {
        let once = formatted(program);
        assert_eq!(once, formatted(&once));
        assert_eq!(comments(program), comments(&once));
    }
}

fn comments(text: &str) -> Vec<String> {
    let mut texts: Vec<String> =
        parse_valid(text).comments.into_iter().map(|comment| comment.text).collect();
    texts.sort();
    texts
}

#[test]
fn comments_keep_their_places() {
    let text = "\
# head


x = f(  # opened
    a,  # first
    # between
    b
    # last
)  # after
def g( y: A,  # of y
    z ):  # header
    # body

    @deco  # not here
    # about h
    def h(): pass  # one
    if c: # if
        return y
        # in the block
    # before else
    else: # else
        t = (a + # inside
            b)

    # end of g
# outside
";
    let expected = "\
# head

x = f(
    # opened
    a,  # first
    # between
    b,
    # last
)  # after

def g(
    y: A,  # of y
    z,
):  # header
    # body

    @deco  # not here
    # about h
    def h():
        pass  # one
    if c:  # if
        return y
        # in the block
    # before else
    else:  # else
        # inside
        t = a + b

    # end of g
# outside
";
    assert_eq!(formatted(text), expected);
    assert_eq!(formatted(expected), expected);
}

#[test]
fn long_lines_break_at_brackets() {
    let text = "lv = call_tir(fused_multiply_add, [first_argument, second_argument], Tensor((n, 4 * n + 1), \"float32\"), sym_args=[n])\n\
        c = const([1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5, 18.5])\n\
        def f(first: Tensor((\"n\", 4), \"f32\"), second: Tensor((\"n\", 4), \"f32\"), third: A) -> Tensor((\"n\",), \"f32\"): ...\n";
    let expected = "lv = call_tir(
    fused_multiply_add,
    [first_argument, second_argument],
    Tensor((n, 4 * n + 1), \"f32\"),
    sym_args=[n],
)
c = const(
    [
        1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5,
        18.5,
    ],
)

def f(
    first: Tensor((\"n\", 4), \"f32\"),
    second: Tensor((\"n\", 4), \"f32\"),
    third: A,
) -> Tensor((\"n\",), \"f32\"):
    ...
";
    assert_eq!(formatted(text), expected);
}

#[test]
fn line_ends_and_marks_of_other_systems_are_dropped() {
    assert_eq!(
        formatted("\u{feff}a = 1\r\n\r\n\r\n# c \r\nb = f(\r\n  a)\r\n"),
        "a = 1\n\n# c\nb = f(a)\n"
    );
    assert_eq!(formatted("# only a comment"), "# only a comment\n");
    assert_eq!(formatted("\n\n"), "");
    let doc = "def f():\n    \"\"\"First line.\n\n    Second.\n    \"\"\"\n    ...\n";
    assert_eq!(formatted(doc), doc);
}

#[test]
fn long_names_become_short_where_they_mean_the_same() {
    let text = "x: Tensor((n,), \"float32\") = nn.relu(y, \"float32\", dtype=\"int64\")\n";
    assert_eq!(formatted(text), "x: Tensor((n,), \"f32\") = relu(y, \"float32\", dtype=\"i64\")\n");
    let bound = "def relu(x):\n    return nn.relu(x)\n";
    assert_eq!(formatted(bound), bound);
}

#[test]
fn expressions_print_with_few_parentheses() {
    for text in [
        "a + b * c",
        "(a + b) * c",
        "a - (b - c)",
        "a - b - c",
        "not a == b",
        "(not a) == b",
        "a and (b or c)",
        "-(a + b)",
        "-a * b",
        "-(1)",
        "-1",
        "- -1",
        "~-1",
        "(-1)[0]",
        "a < b == c",
        "(a < b) == c",
        "f(x)[0](y)",
        "t[(a, b)]",
        "t[a, b]",
        "(a,)",
        "()",
        "a << b + c",
        "1.0",
        "1e-5",
        "1e300",
        "-0.0",
        "18446744073709551615",
        "\"a\\n\\\"\\\\\\u{1f600}\"",
    ] {
        let Ok(expr) = parse_expression(text, 0) else {
            assert_eq!(text, "a < b == c");
            continue;
        };
        let printed = print_expression(&expr);
        let again = parse_expression(&printed, 0).expect("what is printed parses");
        assert_eq!(print_expression(&again), printed);
        if !text.contains("u{") && text != "- -1" {
            assert_eq!(printed, text);
        }
    }
}

#[test]
fn numbers_read_as_written() {
    let kinds = [
        ("0x1f", "Int(31)"),
        ("0b101", "Int(5)"),
        ("0o17", "Int(15)"),
        ("1_000", "Int(1000)"),
        ("9223372036854775807", "Int(9223372036854775807)"),
        (".5", "Float(0.5)"),
        ("9223372036854775808", "BigInt(9223372036854775808)"),
        ("1.", "Float(1.0)"),
        ("-9223372036854775808", "Int(-9223372036854775808)"),
        ("1e-5", "Float(1e-5)"),
        ("- 3", "Int(-3)"),
        ("1_0.2_5e1_0", "Float(102500000000.0)"),
        ("-.5", "Float(-0.5)"),
    ];
    for (text, expected) in kinds {
        let expr = parse_expression(text, 0).expect(text);
        assert_eq!(format!("{:?}", expr.kind), expected);
    }
}

#[test]
fn spans_cover_what_they_name() {
    let text = "def f(x):\n    y = (a + b) * c(d)\n    return y\n\n# end\n";
    let file = parse_valid(text);
    let slice = |span: relax_syntax::span::Span| &text[span.start as usize..span.end as usize];
    assert_eq!(slice(file.statements[0].span), text.trim_end_matches("\n\n# end\n"));
    assert_eq!(slice(file.comments[0].span), "# end");
    let StatementKind::Def(def) = &file.statements[0].kind else { panic!("a def") };
    assert_eq!(slice(def.header), "def f(x):");
    assert_eq!(slice(def.body[0].span), "y = (a + b) * c(d)");
    let StatementKind::Assign { value, .. } = &def.body[0].kind else { panic!("a binding") };
    assert_eq!(slice(value.span), "(a + b) * c(d)");
    let ExprKind::Binary(_, pair) = &value.kind else { panic!("a product") };
    assert_eq!((slice(pair.0.span), slice(pair.1.span)), ("a + b", "c(d)"));
    let shifted = parse_expression("n * 4", 100).expect("an expression");
    assert_eq!((shifted.span.start, shifted.span.end), (100, 105));
}

/// Adds comments, blank lines and line breaks where the layout rules allow some.
fn decorate(text: &str, choices: &[u8]) -> String {
    let mut out = String::new();
    let (mut depth, mut quoted, mut escaped, mut number) = (0_usize, false, false, 0_usize);
    for character in text.chars() {
        let choice = |number: usize| choices[number % choices.len()];
        match character {
            '\n' if !quoted => {
                number += 1;
                match choice(number) % 8 {
                    0 => out.push_str(&format!("  # c{number}\n")),
                    1 => out.push_str(&format!("\n{}# c{number}\n", " ".repeat(number % 9))),
                    2 => out.push_str("\n\n \n"),
                    3 => out.push_str(&format!(" # c{number}\n\n   # d{number}\n\n")),
                    _ => out.push('\n'),
                }
                continue;
            }
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && character == '\\' && !escaped;
        if depth > 0 && !quoted && matches!(character, ',' | '(' | '[' | ')') {
            number += 1;
            out.push(character);
            match choice(number) % 24 {
                0 => out.push_str(&format!(" # i{number}\n")),
                1 => out.push_str(&format!("\n# j{number}\n  ")),
                2 => out.push_str("\n      "),
                _ => {}
            }
        } else {
            out.push(character);
        }
    }
    out
}

proptest! {
    #[test]
    fn any_tree_prints_and_parses_back(file in file()) {
        let printed = print_file(&file);
        prop_assert_eq!(structure(&file), structure(&parse_valid(&printed)), "{}", printed);
        for statement in &file.statements {
            parse_valid(&(print_statement(statement, 0) + "\n"));
        }
    }

    #[test]
    fn any_text_is_formatted_once(file in file(), choices in proptest::collection::vec(any::<u8>(), 1..40)) {
        let text = decorate(&print_file(&file), &choices);
        let before = parse_valid(&text);
        let once = formatted(&text);
        prop_assert_eq!(structure(&before), structure(&parse_valid(&once)), "{}\n{}", text, once);
        prop_assert_eq!(comments(&text), comments(&once), "{}\n{}", text, once);
        prop_assert_eq!(&once, &formatted(&once), "{}", text);
    }
}
