//! The codes of errors in the text, RX01: what `relax explain` says about each.

use crate::diagnostic::CodeInfo;

/// A token that cannot stand where it does.
pub const SYNTAX: &str = "RX0101";
/// A character that is in no token.
pub const CHARACTER: &str = "RX0102";
/// Bytes that are not UTF-8.
pub const UTF8: &str = "RX0103";
/// A tab in an indent.
pub const TAB: &str = "RX0104";
/// An indent that opens no block or matches none.
pub const INDENT: &str = "RX0105";
/// A header without a block.
pub const MISSING_BLOCK: &str = "RX0106";
/// A header without a colon.
pub const MISSING_COLON: &str = "RX0107";
/// A bracket without its partner.
pub const BRACKET: &str = "RX0108";
/// A string without its end.
pub const STRING: &str = "RX0109";
/// An unknown escape.
pub const ESCAPE: &str = "RX0110";
/// A malformed number.
pub const NUMBER: &str = "RX0111";
/// A number out of range.
pub const NUMBER_RANGE: &str = "RX0112";
/// An operator of another language.
pub const FOREIGN_OPERATOR: &str = "RX0113";
/// `a < b < c`.
pub const CHAINED_COMPARISON: &str = "RX0114";
/// Something that nothing can be assigned to.
pub const TARGET: &str = "RX0115";
/// Arguments or parameters in the wrong order, or given twice.
pub const ARGUMENTS: &str = "RX0116";
/// Nesting beyond a limit.
pub const TOO_DEEP: &str = "RX0117";
/// A file beyond the limit.
pub const TOO_LARGE: &str = "RX0118";
/// More errors than are shown.
pub const TOO_MANY: &str = "RX0119";

/// Every code of this crate's parser.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: SYNTAX,
        title: "unexpected token",
        explanation: "The text does not follow the grammar: at this place something else must \
            stand. The message says what was expected and what was found.\n\n\
            Example: `y = add(x z)` lacks a `,` between `x` and `z`.\n\n\
            Look at the place itself and at what stands just before it.",
    },
    CodeInfo {
        code: CHARACTER,
        title: "unknown character",
        explanation: "A character that begins no token: a brace, a `$`, a control character, a \
            letter beyond ASCII in a name.\n\nExample: `größe = 1`.\n\n\
            Names are made of `A-Z a-z 0-9 _`; other characters may stand in strings and comments.",
    },
    CodeInfo {
        code: UTF8,
        title: "not UTF-8",
        explanation: "The file holds bytes that are not UTF-8 text.\n\n\
            Example: a file stored as Latin-1 or UTF-16, or one that is not text.\n\n\
            Store it as UTF-8.",
    },
    CodeInfo {
        code: TAB,
        title: "tab in an indent",
        explanation: "Indents are made of spaces, because a tab has no width that all agree on.\n\n\
            Example: a line of a block that begins with a tab.\n\n\
            Replace tabs by four spaces. Only the first such line is reported.",
    },
    CodeInfo {
        code: INDENT,
        title: "wrong indent",
        explanation: "A line is indented although the line before opens no block, or its indent \
            lies between those of two blocks.\n\n\
            Example: `x = f(y)` and below it `    z = g(x)`.\n\n\
            Lines of one block have the same indent; only a line after `:` has a larger one.",
    },
    CodeInfo {
        code: MISSING_BLOCK,
        title: "missing block",
        explanation: "A header such as `if c:` is followed by a line that is not indented.\n\n\
            Example: `with dataflow():` as the last line of a function.\n\n\
            Indent the lines of the block, or write `pass` for an empty one.",
    },
    CodeInfo {
        code: MISSING_COLON,
        title: "missing colon",
        explanation: "The header of a block (`def if elif else for with`) ends with `:`.\n\n\
            Example: `for i in range(n)`, and an indented line below.\n\n\
            Add the `:`.",
    },
    CodeInfo {
        code: BRACKET,
        title: "bracket without partner",
        explanation: "A bracket is never closed, closes nothing, or is closed by one of the other \
            kind. An open bracket joins lines, so the error may show lines later; a line that \
            begins with a statement's keyword ends it.\n\n\
            Example: `y = add(x, (z)`.\n\n\
            Close the bracket that the message points at.",
    },
    CodeInfo {
        code: STRING,
        title: "string never closed",
        explanation: "A string in single or double quotes ends on its line; one in triple quotes \
            ends before the file does.\n\nExample: `\"f32`.\n\nAdd the closing quote.",
    },
    CodeInfo {
        code: ESCAPE,
        title: "unknown escape",
        explanation: "In a string `\\` begins an escape: `\\n \\t \\r \\0 \\\\ \\' \\\"`, `\\x41`, \
            or `\\u{1f600}`.\n\nExample: `\"C:\\weights\"`.\n\n\
            Write `\\\\` for a backslash.",
    },
    CodeInfo {
        code: NUMBER,
        title: "malformed number",
        explanation: "Digits are mixed with something that belongs to no number.\n\n\
            Example: `12ab`, `0x`, `1__0`, `007`.\n\n\
            Integers are `17`, `1_000`, `0x1f`, `0o17`, `0b101`; floats `1.0`, `.5`, `1e-5`.",
    },
    CodeInfo {
        code: NUMBER_RANGE,
        title: "number out of range",
        explanation: "An integer fits neither in i64 nor in u64, or a float is too large for \
            f64.\n\nExample: `99999999999999999999`, `1e999`.\n\n\
            Write `inf` for infinity; no other number beyond the range exists.",
    },
    CodeInfo {
        code: FOREIGN_OPERATOR,
        title: "operator of another language",
        explanation: "`&& || ! := ; **` are not part of the language.\n\n\
            Example: `if a && b:`, `y = x ** 2`.\n\n\
            Write `and`, `or`, `not`, `=`, one statement a line, and `x * x` or `power(x, y)`.",
    },
    CodeInfo {
        code: CHAINED_COMPARISON,
        title: "chained comparison",
        explanation: "A comparison has two operands; its result is not compared again.\n\n\
            Example: `0 <= i < n`.\n\nWrite `0 <= i and i < n`.",
    },
    CodeInfo {
        code: TARGET,
        title: "cannot be assigned to",
        explanation: "Left of `=` stands a name without dots, a tuple of such names, or an element \
            `B[i, j]`; with an annotation or as a parameter only a name.\n\n\
            Example: `f(x) = y`, `x + 1 = y`, `nn.relu = f`.\n\n\
            Bind a name and use it.",
    },
    CodeInfo {
        code: ARGUMENTS,
        title: "arguments out of order or twice",
        explanation: "Positional arguments come before keyword arguments, and no name is given \
            twice, neither in a call nor among parameters.\n\n\
            Example: `softmax(axis=1, x)`, `def f(x, x):`.\n\n\
            Move or remove one.",
    },
    CodeInfo {
        code: TOO_DEEP,
        title: "nested too deep",
        explanation: "Nesting has limits, so that no tool that reads the program can run out of \
            stack: 200 brackets, 200 blocks (an `elif` counts as one inside its `if`), and 500 \
            levels of operators and brackets in one expression.\n\n\
            Example: a sum of a thousand terms.\n\n\
            Bind parts to names; move inner blocks to functions.",
    },
    CodeInfo {
        code: TOO_LARGE,
        title: "file too large",
        explanation: "A source file has at most 1 GiB.\n\n\
            Example: weights written as constants.\n\n\
            Keep big constants in a safetensors or GGUF file and name them with `param`.",
    },
    CodeInfo {
        code: TOO_MANY,
        title: "further errors not shown",
        explanation: "After 100 errors the rest of the file is not read.\n\n\
            Example: a file in another language.\n\n\
            Correct the errors above and try again.",
    },
];
