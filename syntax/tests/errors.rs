//! Every error of a file is reported in one run, once, where it is, and nothing panics.

mod support;

use proptest::prelude::*;
use relax_syntax::codes::CODES;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::format::format_source;
use relax_syntax::parse::{limits, parse_expression, parse_file, read_source};
use relax_syntax::span::Source;
use support::{PROGRAMS, parse};

/// The line and code of every diagnostic.
fn found(text: &str) -> Vec<(usize, &'static str)> {
    let source = Source::new("test.rx", text);
    let (_, diagnostics) = parse_file(&source);
    diagnostics
        .iter()
        .map(|diagnostic| (source.line_column(diagnostic.primary.span.start).0, diagnostic.code))
        .collect()
}

fn only(text: &str) -> Diagnostic {
    let (_, mut diagnostics) = parse(text);
    assert_eq!(diagnostics.len(), 1, "{text}: {diagnostics:#?}");
    diagnostics.remove(0)
}

#[test]
fn all_errors_of_a_file_are_found_in_one_run() {
    let text = "\
def f(x: A:
    return x

def g(x)
    y = add(x z)
    if y = 1:
        q = 1
    else:
        q = 2
    z = 1 < 2 < 3; w = a && b
    while x:
        x = y
    for i in range(n):
    return y

def h(x):
\ty = x ** 2
\ts = \"abc
\treturn f(x]
      z = 007
q = (1, 2
def k(): pass
";
    let expected = [
        (1, "RX0108"),
        (4, "RX0107"),
        (5, "RX0101"),
        (6, "RX0101"),
        (10, "RX0114"),
        (10, "RX0113"),
        (10, "RX0113"),
        (11, "RX0101"),
        (13, "RX0106"),
        (17, "RX0104"),
        (17, "RX0113"),
        (18, "RX0109"),
        (19, "RX0108"),
        (20, "RX0105"),
        (20, "RX0111"),
        (21, "RX0108"),
    ];
    assert_eq!(found(text), expected);
    let (file, _) = parse(text);
    assert_eq!(file.statements.len(), 3, "g, h and k are read in spite of the errors");
}

#[test]
fn one_mistake_is_one_error() {
    let cases = [
        ("x = f(a\ny = g(b)\ndef h():\n    pass\n", 1, "RX0108"),
        ("x = f(a, b\n", 1, "RX0108"),
        ("x = f(a))\ny = 1\n", 1, "RX0108"),
        ("x = [f(a]\ny = 1\n", 1, "RX0108"),
        ("def f(x:\n    y = x\n    return y\n", 1, "RX0108"),
        ("def f(x)\n    return x\n", 1, "RX0107"),
        ("if a:\n    x = 1\nelse\n    x = 2\n", 3, "RX0107"),
        ("def f(x):\nreturn x\n", 1, "RX0106"),
        ("if c:\n    x = 1\nelse:\ny = 2\n", 3, "RX0106"),
        ("x = 1\n  y = 2\nz = 3\n", 2, "RX0105"),
        ("if c:\n        x = 1\n    y = 2\nz = 3\n", 3, "RX0105"),
        ("if c:\n\tx = 1\n\ty = 2\n", 2, "RX0104"),
        ("x = $$$ + 1\n", 1, "RX0102"),
        ("größe = 1\n", 1, "RX0102"),
        ("x = a\u{0}b\n", 1, "RX0102"),
        ("x = {1}\n", 1, "RX0102"),
        ("x = 'abc\ny = 1\n", 1, "RX0109"),
        ("x = \"\"\"abc\ny = 1\n", 1, "RX0109"),
        ("x = \"a\\q\"\n", 1, "RX0110"),
        ("x = \"\\u{110000}\"\n", 1, "RX0110"),
        ("x = 12ab\n", 1, "RX0111"),
        ("x = 1__0\n", 1, "RX0111"),
        ("x = 0x\n", 1, "RX0111"),
        ("x = 18446744073709551616\n", 1, "RX0112"),
        ("x = -9223372036854775809\n", 1, "RX0112"),
        ("x = 1e999\n", 1, "RX0112"),
        ("x := 1\n", 1, "RX0113"),
        ("x = 1; y = 2\n", 1, "RX0113"),
        ("x = 1;\n", 1, "RX0113"),
        ("x = !a\n", 1, "RX0113"),
        ("x = a || b\n", 1, "RX0113"),
        ("x = a ** b\n", 1, "RX0113"),
        ("x = 0 <= i < n\n", 1, "RX0114"),
        ("f(x) = 1\n", 1, "RX0115"),
        ("nn.relu = 1\n", 1, "RX0115"),
        ("a, f(b) = 1\n", 1, "RX0115"),
        ("a, b += 1\n", 1, "RX0115"),
        ("def f(a.b):\n    pass\n", 1, "RX0115"),
        ("x = f(a=1, b)\n", 1, "RX0116"),
        ("x = f(a=1, a=2)\n", 1, "RX0116"),
        ("def f(a, a):\n    pass\n", 1, "RX0116"),
        ("x = = 1\n", 1, "RX0101"),
        ("x: A\n", 1, "RX0101"),
        ("return\n", 1, "RX0101"),
        ("x = a + not b\n", 1, "RX0101"),
        ("else:\n    x = 1\ny = 2\n", 1, "RX0101"),
        ("if x = 1:\n    y = 1\nelif z:\n    y = 2\nelse:\n    y = 3\nw = 1\n", 1, "RX0101"),
        ("def f(x, 3):\n    y = x\n    return y\nz = 1\n", 1, "RX0101"),
        ("class A:\n    def f(x):\n        return x\n", 1, "RX0101"),
        ("@deco\nx = 1\ny = 2\n", 2, "RX0101"),
    ];
    for (text, line, code) in cases {
        assert_eq!(found(text), [(line, code)], "{text}");
    }
}

#[test]
fn messages_say_what_was_expected_and_found() {
    let cases = [
        ("if c\nx = 1\n", "expected `:` in the header of `if`, found the end of the line", ""),
        ("if x = 1:\n    pass\n", "expected `:` in the header of `if`, found `=`", "`==` compares"),
        ("y = add(x z)\n", "expected `)` or `,`, found the name `z`", "is a `,`"),
        ("y = \n", "expected an expression, found the end of the line", ""),
        ("for i range(n):\n    pass\n", "expected `,` or `in` in the header of `for`", ""),
        ("def (x):\n    pass\n", "expected a name in the header of the function, found `(`", ""),
        ("return\n", "expected an expression after `return`, found the end of the line", "`()`"),
        ("x: A\n", "expected `=`, found the end of the line", "annotated binding"),
        ("while x:\n    pass\n", "expected a statement, found `while`", "recursion"),
        ("x = a[1:2]\n", "expected `]`, found `:`", "no slices"),
        ("x = a if b else c\n", "expected the end of the line, found `if`", "select"),
        ("x = 1 2\n", "expected the end of the line, found the integer `2`", ""),
    ];
    for (text, message, help) in cases {
        let diagnostic = only(text);
        assert!(diagnostic.message.starts_with(message), "{text}: {}", diagnostic.message);
        assert!(diagnostic.help.unwrap_or_default().contains(help), "{text}");
    }
}

#[test]
fn every_code_is_explained_once() {
    let mut codes: Vec<&str> = CODES.iter().map(|info| info.code).collect();
    codes.dedup();
    assert_eq!(codes.len(), CODES.len());
    for info in CODES {
        assert!(info.explanation.contains("Example"), "{}", info.code);
    }
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_place() {
    let unreadable = read_source("x.rx", b"a = 1\nb = \xff\xfe\n").expect_err("not UTF-8");
    assert_eq!(unreadable.diagnostic.code, "RX0103");
    let at = unreadable.diagnostic.primary.span.start;
    assert_eq!(unreadable.source.line_column(at), (2, 5));
    let source = read_source("x.rx", "\u{feff}a = 1\r\nb = 2\r\n".as_bytes()).expect("text");
    let (file, diagnostics) = parse_file(&source);
    assert_eq!((file.statements.len(), diagnostics.len()), (2, 0));
}

#[test]
fn expressions_report_the_first_error_in_their_file() {
    let error = parse_expression("n * (4", 100).expect_err("an open bracket");
    assert_eq!((error.code, error.primary.span.start), ("RX0108", 104));
    let error = parse_expression("n = 4", 100).expect_err("a statement");
    assert_eq!((error.code, error.primary.span.start), ("RX0101", 100));
    assert_eq!(parse_expression("", 7).expect_err("nothing").code, "RX0101");
    assert!(parse_expression("n\n + 1", 0).is_ok(), "line ends mean nothing in a string");
}

#[test]
fn nesting_is_bounded_and_never_overflows_the_stack() {
    let many = 100_000;
    let cases = [
        format!("x = {}1{}\n", "(".repeat(many), ")".repeat(many)),
        format!("x = {}1{}\n", "[".repeat(many), "]".repeat(many)),
        format!("x = {}\n", "f(".repeat(many)),
        format!("x = f{}\n", "()".repeat(many)),
        format!("x = f{}\n", "[0]".repeat(many)),
        format!("x = {}1\n", "not ".repeat(many)),
        format!("x = {}a\n", "-".repeat(many)),
        format!("x = 1{}\n", " + 1".repeat(many)),
        format!("x = 1{}\n", " ** 1".repeat(many)),
        format!("x = {}a{}\n", "(-".repeat(150), ")".repeat(150)) + &"(".repeat(many),
        format!("x = {}1{}\n", "(1 + 2 * 3 + ".repeat(190), ")".repeat(190)),
    ];
    for text in &cases {
        let codes: Vec<&str> = found(text).into_iter().map(|(_, code)| code).collect();
        assert!(codes.contains(&"RX0117") || codes == ["RX0108"], "{codes:?}");
    }
    let blocks: String = (0..1_000).map(|level| " ".repeat(level) + "if c:\n").collect();
    assert_eq!(found(&blocks).last().map(|found| found.1), Some("RX0117"));
    let chain = "if c: pass\n".to_string() + &"elif c: pass\n".repeat(many);
    assert_eq!(found(&chain).last().map(|found| found.1), Some("RX0117"));
    let fits = format!("x = {}1{}\n", "(".repeat(200), ")".repeat(200));
    assert_eq!(found(&fits), []);
    let fits = format!("x = 1{}\ny = f({}1)\n", " + 1".repeat(499), "1 + 1, ".repeat(many));
    assert_eq!(found(&fits), []);
}

#[test]
fn large_inputs_are_read() {
    let name = "a".repeat(10_000_000);
    assert_eq!(found(&format!("{name} = \"{name}\"\n")), []);
    assert_eq!(found(&"x = 1\n".repeat(300_000)), []);
    assert_eq!(found(&"\n".repeat(1_000_000)), []);
    assert_eq!(found(&format!("x = [{}]\n", "1, ".repeat(300_000))), []);
}

#[test]
fn after_many_errors_the_rest_is_not_shown() {
    for line in ["x = = 1\n", "x = $\n", "x = )\n", "f(x) = 1\n", "x = (\n", "      y\n  z\n"] {
        let found = found(&line.repeat(100_000));
        assert!(found.len() <= limits::ERRORS + 1, "{line}");
        let expected = if line == "x = (\n" { "RX0117" } else { "RX0119" };
        assert_eq!(found.last().map(|found| found.1), Some(expected), "{line}");
    }
}

/// Texts that end, begin or break off where nobody expects it.
const ODD: &[&str] = &[
    "",
    "\n",
    "\r",
    "\r\n",
    "\t",
    " ",
    "#",
    "# a",
    "\\",
    "\\\n",
    "x = \\\n1\n",
    "x = 1 \\",
    "\"",
    "'",
    "\"\"\"",
    "\"\\",
    "\"\\x",
    "\"\\u{",
    "\"\\\n",
    ".",
    "..",
    "...",
    "....",
    "1..2",
    "1.",
    "1.e",
    "1e",
    "1e+",
    "0x_",
    "-",
    "--",
    "- ",
    "->",
    "@",
    "@\n",
    "@x",
    "def",
    "def f",
    "def f(",
    "if",
    "if:",
    "else",
    "else:\n",
    "elif x: y\n",
    "for",
    "for i in",
    "with:",
    ":",
    "=",
    "x =",
    "x:",
    "(",
    ")",
    "[",
    "]",
    "(]",
    "[)",
    "([)]",
    ",",
    ";",
    ";;\n;",
    "!",
    "!=",
    "\u{feff}",
    "\u{feff}\u{feff}",
    "x = \u{feff}",
    "\0",
    "é",
    "  x",
    "  x\n y\nz",
    "if c:\n#a",
    "if c:\n  x\n #a\n# b",
    "return return",
    "pass pass",
    "x\n  \n\t\n",
    "f(\nreturn\n)",
    "f(\n  return\n)",
    "(\n@\n",
    "f(#",
    "f(#\n",
    "if c: if d: x\n",
    "if c: x; y\n",
    "x.y.z = 1",
    "a.1",
    "a. b",
    "x = a\\b",
];

#[test]
fn odd_inputs_do_not_panic() {
    for text in ODD {
        check(text);
        let _ = parse_expression(text, u32::MAX);
    }
}

/// Parses and formats; the diagnostics must be renderable and repeatable.
fn check(text: &str) {
    let source = Source::new("test.rx", text);
    let (_, diagnostics) = parse_file(&source);
    for diagnostic in &diagnostics {
        let places = diagnostic.secondary.iter().map(|label| label.span);
        for span in places.chain([diagnostic.primary.span]) {
            assert!(span.start <= span.end && span.start as usize <= text.len(), "{diagnostic:?}");
            assert!(text.is_char_boundary(span.start as usize), "{diagnostic:?}");
        }
        assert!(CODES.iter().any(|info| info.code == diagnostic.code));
    }
    assert_eq!(diagnostics, parse_file(&source).1);
    match format_source(&source) {
        Ok(once) => {
            let again = format_source(&Source::new("test.rx", once.as_str()));
            assert_eq!(again.as_ref(), Ok(&once), "{text}");
        }
        Err(found) => assert_eq!(found, diagnostics),
    }
}

/// Pieces that a mutation inserts.
const PIECES: [&str; 26] = [
    "(", ")", "[", "]", ":", ",", "=", "\n", "\n    ", " ", "\t", "def ", "if ", "else", "return ",
    "\"", "#", "\\", ";", "not ", "-", "1", "x", "\u{0}", "é", "@",
];

proptest! {
    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        match read_source("test.rx", &bytes) {
            Ok(source) => check(&source.text),
            Err(unreadable) => check(&unreadable.source.text),
        }
    }

    #[test]
    fn random_pieces_do_not_panic(pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..60)) {
        check(&pieces.concat());
    }

    #[test]
    fn mutated_programs_do_not_panic(
        program in 0..PROGRAMS.len(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0..6_usize, 0..PIECES.len(), 0..12_usize), 1..6),
    ) {
        let mut text: Vec<char> = PROGRAMS[program].chars().collect();
        for (place, kind, piece, length) in edits {
            let at = place.index(text.len() + 1);
            let end = (at + length).min(text.len());
            match kind {
                0 | 1 => drop(text.drain(at..end)),
                2 => {
                    let copy = text[at..end].to_vec();
                    drop(text.splice(at..at, copy));
                }
                _ => drop(text.splice(at..at, PIECES[piece].chars())),
            }
        }
        check(&text.into_iter().collect::<String>());
    }
}
