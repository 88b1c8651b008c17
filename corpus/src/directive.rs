//! Directives: the expectations of a corpus file, written in its comments.
//!
//! Directives stand on comment lines of their own: `# run: f(SPECS) == VALUE`, `~= VALUE`,
//! `# trap[id]: f(SPECS)`, `# race: f(SPECS)`, `# check:`, `# params: …`, and after passes
//! `# structure[PASSES]: COUNT = 1, f.COUNT = 2`.
//! Markers stand at the end of the line they are about: `# error[RX0501]`, `# warning[RX0301]`, and of demands of a phase
//! that deduction alone does not decide, `# refused[RX0314]`, `# open[RX0317]`.
//! They are read from the lines, not from the syntax tree, so that they hold for text that does
//! not parse.

use relax_program::compare::Relation;
use relax_syntax::Name;
use relax_syntax::ast::{Expr, ExprKind};
use relax_syntax::diagnostic::Severity;
use relax_syntax::parse::parse_expression;
use std::collections::BTreeSet;
use std::ops::Range;

/// One expectation of a file.
#[derive(Clone, Debug)]
pub struct Directive {
    /// Its line, from 1.
    pub line: usize,
    /// What is expected.
    pub kind: Kind,
}

/// The kinds of expectations.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The file is only checked.
    Check,
    /// A call gives a value.
    Run {
        /// The call.
        call: Call,
        /// How the result is compared with the value.
        relation: Relation,
        /// The bytes of the value's text in the file.
        want: Range<usize>,
    },
    /// A call stops with a trap of this id.
    Trap {
        /// `match_cast/dim`
        id: String,
        /// The call.
        call: Call,
    },
    /// A call stops with the trap `tir/race` in lock-step mode.
    Race(Call),
    /// Counts after passes, see [`crate::structure`].
    Structure {
        /// What stands in brackets: passes, or a phase.
        passes: String,
        /// What is counted, and how many are expected.
        counts: Vec<(String, usize)>,
    },
    /// External weights that the functions need.
    Params,
}

/// `f(SPECS)`
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub function: Name,
    /// The SPECs, parsed.
    pub arguments: Vec<Expr>,
    /// As written.
    pub text: String,
}

/// An expected diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marker {
    /// The line of its primary place, from 1.
    pub line: usize,
    /// Error or warning.
    pub severity: Severity,
    /// `RX0501`
    pub code: String,
}

/// A directive that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// All that a file expects.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// In text order.
    pub directives: Vec<Directive>,
    /// Exactly the diagnostics of the file.
    pub markers: BTreeSet<Marker>,
    /// Exactly what is found of the demands of its phase.
    pub demands: BTreeSet<Marker>,
    /// What was not understood.
    pub malformed: Vec<Malformed>,
}

/// Reads the directives and markers of a text.
#[must_use]
pub fn read(text: &str) -> Expectations {
    let mut found = Expectations::default();
    let mut start = 0;
    for (index, line) in text.split('\n').enumerate() {
        let number = index + 1;
        if let Some(comment) = line.trim_start().strip_prefix('#') {
            let at = start + line.len() - comment.len();
            match directive(comment, at) {
                Ok(Some(kind)) => found.directives.push(Directive { line: number, kind }),
                Ok(None) => markers(comment, number, &mut found),
                Err(message) => found.malformed.push(Malformed { line: number, message }),
            }
        } else if let Some((_, comment)) = line.split_once('#') {
            markers(comment, number, &mut found);
        }
        start += line.len() + 1;
    }
    found
}

fn markers(comment: &str, line: usize, found: &mut Expectations) {
    let words = [
        ("error[", Severity::Error, false),
        ("warning[", Severity::Warning, false),
        ("refused[", Severity::Error, true),
        ("open[", Severity::Warning, true),
    ];
    for (word, severity, is_demand) in words {
        for (at, _) in comment.match_indices(word) {
            let begins_word =
                comment[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
            let codes = comment[at + word.len()..].split_once(']').map(|(codes, _)| codes);
            let Some(codes) = codes.filter(|_| begins_word) else { continue };
            for code in codes.split(',').map(str::trim) {
                let well_formed = code.len() == 6 && code.starts_with("RX");
                if well_formed {
                    let of = if is_demand { &mut found.demands } else { &mut found.markers };
                    of.insert(Marker { line, severity, code: code.to_owned() });
                } else {
                    let message = format!("`{code}` is no code; a code is like RX0501");
                    found.malformed.push(Malformed { line, message });
                }
            }
        }
    }
}

/// Reads the text after `#` (it begins at byte `at` of the file); `None` for prose.
fn directive(comment: &str, at: usize) -> Result<Option<Kind>, String> {
    let body = comment.trim_start();
    let at = at + comment.len() - body.len();
    let Some((head, rest)) = body.split_once(':') else { return Ok(None) };
    let at = at + head.len() + 1;
    Ok(Some(match head {
        "check" => Kind::Check,
        "structure" => {
            return Err("a structure names passes: `# structure[P1]: bindings = 1`".to_owned());
        }
        "params" => Kind::Params,
        "run" => run(rest, at)?,
        "race" => Kind::Race(call(rest)?),
        "trap" => return Err("a trap has an id: `# trap[match_cast/dim]: f(…)`".to_owned()),
        _ => match head.strip_prefix("trap[").and_then(|id| id.strip_suffix(']')) {
            Some(id) => Kind::Trap { id: id.to_owned(), call: call(rest)? },
            None => match head.strip_prefix("structure[").and_then(|list| list.strip_suffix(']')) {
                Some(passes) => {
                    Kind::Structure { passes: passes.to_owned(), counts: counts(rest)? }
                }
                None => return Ok(None),
            },
        },
    }))
}

/// `bindings = 2, main.calls = 1`
fn counts(text: &str) -> Result<Vec<(String, usize)>, String> {
    let count = |item: &str| {
        let (what, number) = item.split_once('=')?;
        Some((what.trim().to_owned(), number.trim().parse().ok()?))
    };
    let counts: Option<Vec<_>> = text.split(',').map(|item| count(item.trim())).collect();
    counts.ok_or_else(|| format!("expected counts such as `bindings = 2`, found `{}`", text.trim()))
}

fn run(rest: &str, at: usize) -> Result<Kind, String> {
    let (middle, relation) = relation_of(rest)
        .ok_or_else(|| "expected `f(SPECS) == VALUE` or `f(SPECS) ~= VALUE`".to_owned())?;
    let value = rest[middle + 2..].trim();
    if value.is_empty() {
        return Err("expected a value at the end".to_owned());
    }
    let begin = at + rest.len() - rest[middle + 2..].trim_start().len();
    let call = call(&rest[..middle])?;
    Ok(Kind::Run { call, relation, want: begin..begin + value.len() })
}

/// Where `==` or `~=` stands outside of strings and brackets.
fn relation_of(text: &str) -> Option<(usize, Relation)> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(' | b'[') => depth += 1,
            (None, b')' | b']') => depth = depth.saturating_sub(1),
            (None, b'=') if depth == 0 && text[at..].starts_with("==") => {
                return Some((at, Relation::Equal));
            }
            (None, b'~') if depth == 0 && text[at..].starts_with("~=") => {
                return Some((at, Relation::Close));
            }
            _ => {}
        }
    }
    None
}

fn call(text: &str) -> Result<Call, String> {
    let text = text.trim();
    let expr = parse_expression(text, 0).map_err(|diagnostic| diagnostic.message)?;
    let not_a_call = || format!("expected a call such as `f([1, 2])`, found `{text}`");
    let ExprKind::Call { callee, arguments } = expr.kind else { return Err(not_a_call()) };
    let ExprKind::Name(function) = callee.kind else { return Err(not_a_call()) };
    if arguments.iter().any(|argument| argument.keyword.is_some()) {
        return Err("the arguments of a directive are positional".to_owned());
    }
    let arguments = arguments.into_iter().map(|argument| argument.value).collect();
    Ok(Call { function, arguments, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_of_every_kind() {
        let text = "# prose: nothing\n# run: f([1], \"a==b\") == zeros(0, 4)\n\
                    # trap[match_cast/dim]: f(ones(2))\n  # race: g()\n# check:\n# structure[P1]: bindings = 1\n";
        let found = read(text);
        assert!(found.malformed.is_empty(), "{:?}", found.malformed);
        let lines: Vec<usize> = found.directives.iter().map(|d| d.line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6]);
        let Kind::Run { call, relation, want } = &found.directives[0].kind else {
            panic!("the first directive is a run")
        };
        assert_eq!((call.function.as_str(), call.arguments.len()), ("f", 2));
        assert_eq!((*relation, &text[want.clone()]), (Relation::Equal, "zeros(0, 4)"));
        assert!(
            matches!(&found.directives[1].kind, Kind::Trap { id, .. } if id == "match_cast/dim")
        );
    }

    #[test]
    fn markers_stand_on_their_line() {
        let found =
            read("x = f(y)  # error[RX0501], error[RX0203, RX0301]\ny  # warning[RX0302]\n");
        let codes: Vec<(usize, &str)> =
            found.markers.iter().map(|m| (m.line, m.code.as_str())).collect();
        assert_eq!(codes, [(1, "RX0203"), (1, "RX0301"), (1, "RX0501"), (2, "RX0302")]);
    }

    #[test]
    fn demands_are_no_diagnostics() {
        let found = read("s = f()  # refused[RX0316]\nt = g()  # open[RX0317], error[RX0203]\n");
        let codes: Vec<(usize, &str, Severity)> =
            found.demands.iter().map(|m| (m.line, m.code.as_str(), m.severity)).collect();
        assert_eq!(codes, [(1, "RX0316", Severity::Error), (2, "RX0317", Severity::Warning)]);
        assert_eq!(found.markers.len(), 1);
    }

    #[test]
    fn malformed_directives_are_told() {
        for text in [
            "# run: f(1)",
            "# run: f(1) ==",
            "# run: f == 1",
            "# trap: f(1)",
            "# trap[x]: f(",
            "# structure: bindings = 1",
            "# structure[P1]: bindings",
            "# run: f(a=1) == 2",
            "x  # error[501]",
        ] {
            let found = read(text);
            assert_eq!(found.malformed.len(), 1, "{text}: {found:?}");
        }
    }
}
