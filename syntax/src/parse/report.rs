//! Parse errors in words: what was expected, what was found, and what a person probably meant.

use crate::codes;
use crate::diagnostic::{Applicability, Diagnostic, Fix, Part};
use crate::foreign;
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
    let statement = if line.is_empty() { text.get(at..).unwrap_or("") } else { line };
    if let Some(diagnostic) = foreign_statement(text, base, at, statement) {
        return diagnostic;
    }
    let wanted = wanted(expected);
    let place = place(line);
    let mut diagnostic = Diagnostic::error(
        codes::SYNTAX,
        span,
        format!("expected {wanted}{place}, found {}", found.describe()),
    );
    diagnostic.primary.text = format!("expected {wanted}");
    diagnostic.help = help(first_word(statement), found, expected).map(str::to_string);
    diagnostic
}

/// The diagnostic for a line that begins with a statement of Python that is not in the language.
fn foreign_statement(text: &str, base: u32, at: usize, statement: &str) -> Option<Diagnostic> {
    let word = first_word(statement);
    let help = foreign::statement(word)?;
    // `statement` is a part of `text`: the line up to the error, or what begins there.
    let start = text[..at].rfind('\n').map_or(0, |line_end| line_end + 1);
    let start = start + text[start..].find(word).unwrap_or(0);
    let line = text[start..].split('\n').next().unwrap_or_default().trim_end();
    // These words are names too: `from = f(x)`.
    let rest = line[word.len()..].trim_start();
    let goes_on = rest.starts_with(|next: char| next.is_alphanumeric() || "_\"'".contains(next));
    if !goes_on && !matches!(word, "while" | "try") {
        return None;
    }
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX).saturating_add(base);
    let span = Span { start: place(start), end: place(start + word.len()) };
    let message = format!("expected a statement, found `{word}`");
    let found = Diagnostic::error(codes::SYNTAX, span, message)
        .with_label(format!("`{word}` is not part of the language"))
        .with_help(help);
    Some(if matches!(word, "import" | "from") {
        let span = Span { start: span.start, end: place(start + line.len()) };
        let replacement = String::new();
        found.with_edit(Fix {
            span,
            part: Part::Whole,
            replacement,
            applicability: Applicability::Certain,
        })
    } else {
        found
    })
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
            "," => has("end of line"),
            "=" => has("end of line") || has(","),
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
fn help(word: &str, found: &Token<'_>, expected: &[String]) -> Option<&'static str> {
    let has = |terminal: &str| expected.iter().any(|name| name.trim_matches('"') == terminal);
    match (word, found) {
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
