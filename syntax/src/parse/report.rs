//! Parse errors in words: what was expected, what was found, and what a person probably meant.

use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::span::Span;

/// The diagnostic for a token that cannot stand where it does.
pub(super) fn unexpected(
    text: &str,
    base: u32,
    span: Span,
    found: &Token<'_>,
    expected: &[String],
) -> Diagnostic {
    let at = (span.start.saturating_sub(base)) as usize;
    let line = line_before(text, at);
    let wanted = wanted(expected);
    let place = place(line);
    let mut diagnostic = Diagnostic::error(
        codes::SYNTAX,
        span,
        format!("expected {wanted}{place}, found {}", found.describe()),
    );
    diagnostic.primary.text = format!("expected {wanted}");
    diagnostic.help = help(text, at, line, found, expected).map(str::to_string);
    diagnostic
}

/// The part of the line before `at`, its indent left out.
fn line_before(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or("");
    let start = before.rfind('\n').map_or(0, |line_end| line_end + 1);
    before[start..].trim_start()
}

/// Where in a statement the error is, when its first word tells.
fn place(line: &str) -> &'static str {
    match first_word(line) {
        "def" => " in the header of the function",
        "if" => " in the header of `if`",
        "elif" => " in the header of `elif`",
        "else" => " after `else`",
        "for" => " in the header of `for`",
        "with" => " in the header of `with`",
        "return" => " after `return`",
        _ => "",
    }
}

fn first_word(line: &str) -> &str {
    let end = line.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(line.len());
    &line[..end]
}

/// The expected terminals in words, in a fixed order; what any operand begins with is one thing.
fn wanted(expected: &[String]) -> String {
    let has = |terminal: &str| expected.iter().any(|name| name.trim_matches('"') == terminal);
    let mut words: Vec<&str> = Vec::new();
    if has("def") && has("return") {
        words.push("a statement");
    } else if has("a float") {
        words.push("an expression");
    } else if has("a name") {
        words.push("a name");
    }
    let signs = [
        (")", "`)`"),
        ("]", "`]`"),
        ("(", "`(`"),
        (",", "`,`"),
        (":", "`:`"),
        ("=", "`=`"),
        ("->", "`->`"),
        ("in", "`in`"),
        ("def", "`def`"),
        ("end of line", "the end of the line"),
        ("indent", "an indented block"),
    ];
    let operand = words.contains(&"an expression") || words.contains(&"a statement");
    for (terminal, word) in signs {
        // `(` begins an operand or calls what stands before; neither is worth a mention.
        let implied = match terminal {
            "(" => operand || has("["),
            "def" => operand,
            "=" | "," => has("end of line"),
            _ => false,
        };
        if has(terminal) && !implied {
            words.push(word);
        }
    }
    match words.as_slice() {
        [] => "something else".to_string(),
        [only] => (*only).to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// What to write instead, for common mistakes.
fn help(
    text: &str,
    at: usize,
    line: &str,
    found: &Token<'_>,
    expected: &[String],
) -> Option<&'static str> {
    let has = |terminal: &str| expected.iter().any(|name| name.trim_matches('"') == terminal);
    let statement = if line.is_empty() { text.get(at..).unwrap_or("") } else { line };
    let word = first_word(statement);
    match (word, found) {
        ("while", _) => return Some("there is no `while`: recursion or `for` repeats"),
        ("class" | "import" | "from", _) => {
            return Some("a file holds functions and tensor programs only");
        }
        ("assert" | "raise" | "try" | "lambda", _) => {
            return Some("this statement of Python is not part of the language");
        }
        (_, Token::Else | Token::Elif) => return Some("it follows the block of an `if`"),
        ("if" | "elif", Token::Equals) => return Some("`==` compares; `=` binds a name"),
        (_, Token::Equals) if has(")") => {
            return Some("a keyword argument is `name=value`; `==` compares");
        }
        (_, Token::Equals) if has("end of line") => {
            return Some("one `=` a statement; `==` compares");
        }
        ("def", Token::Equals) => return Some("parameters have no default values"),
        ("return", Token::Newline) => return Some("return the empty tuple `()` for no value"),
        (_, Token::If) => return Some("use `select(condition, a, b)` or an `if` statement"),
        (_, Token::For) => return Some("there are no comprehensions; use a `for` statement"),
        (_, Token::Colon) if has("]") => return Some("there are no slices; use an operator"),
        (_, Token::Newline) if has("=") && !has("end of line") => {
            return Some("an annotated binding has a value: `name: annotation = value`");
        }
        _ => {}
    }
    let operand_follows = matches!(
        found,
        Token::Name(_) | Token::Int(_) | Token::Float(_) | Token::Str(_) | Token::OpenParen
    );
    (operand_follows && has(",")).then_some("is a `,` or an operator missing before it?")
}
