//! What rewrites other compilers list, and what states each of them here: `rules/yardstick.txt`.

static TEXT: &str = include_str!("../../rules/yardstick.txt");

/// The lists that rewrites are from.
pub const SOURCES: [(&str, &str); 3] =
    [("xla", "XLA's algebraic simplifier"), ("taso", "TASO"), ("bladedisc", "BladeDISC")];

/// A rewrite of another compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Whose it is: a name in [`SOURCES`].
    pub source: &'static str,
    /// What becomes what.
    pub text: &'static str,
    /// What states it here.
    pub verdict: Verdict,
}

/// What states a rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These rules, alone or one after the other.
    Rules(Vec<&'static str>),
    /// A pass or an analysis.
    Engine(&'static str),
    /// Nothing: what it is about does not exist here.
    NoOperator(&'static str),
    /// Nothing, for this reason.
    Open(&'static str),
}

/// The rewrites, in the order of the file.
///
/// # Errors
/// A line that is not `source | rewrite | verdict | detail`, with its number.
pub fn yardstick() -> Result<Vec<Rewrite>, String> {
    let lines = TEXT.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(at, line)| rewrite(line).ok_or_else(|| format!("yardstick.txt:{}: {line}", at + 1)))
        .collect()
}

fn rewrite(line: &'static str) -> Option<Rewrite> {
    let fields: Vec<&'static str> = line.split(" | ").collect();
    let [source, text, verdict, detail] = fields[..] else { return None };
    let known = SOURCES.iter().any(|(name, _)| *name == source);
    if !known || text.is_empty() || detail.is_empty() {
        return None;
    }
    let verdict = match verdict {
        "rule" => Verdict::Rules(detail.split(' ').collect()),
        "engine" => Verdict::Engine(detail),
        "no operator" => Verdict::NoOperator(detail),
        "open" => Verdict::Open(detail),
        _ => return None,
    };
    Some(Rewrite { source, text, verdict })
}
