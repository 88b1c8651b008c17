//! Reads `rules/dims.rules` and its lock file, `rules/dims.lock`: for each rule the checksum of its
//! text, and how it was proved.

use relax_symbolic::claims::Formula;
use relax_symbolic::statement;
use relax_symbolic::{Encoding, text_hash};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Claim;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// `name: left == right where c1, c2  # reason`
pub(crate) struct Rule {
    pub(crate) name: String,
    /// What stands between the name and the reason.
    pub(crate) text: String,
    pub(crate) statement: Statement,
}

/// An equation and the conditions under which it has a value and holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) conditions: Vec<Claim>,
    pub(crate) equation: Claim,
}

/// How a rule was proved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) hash: String,
    pub(crate) encoding: Encoding,
    /// The solver's steps that are enough.
    pub(crate) rlimit: u32,
    /// A rule that stands earlier, which the proof uses.
    pub(crate) lemma: Option<Lemma>,
}

/// A rule with other variables in place of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lemma {
    pub(crate) name: String,
    pub(crate) with: BTreeMap<Name, Name>,
}

impl std::fmt::Display for Lemma {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let with: Vec<String> = self.with.iter().map(|(x, y)| format!("{x}={y}")).collect();
        write!(f, "{}[{}]", self.name, with.join(","))
    }
}

impl Rule {
    pub(crate) fn hash(&self) -> String {
        text_hash(&self.text)
    }
}

impl Statement {
    pub(crate) fn variables(&self) -> BTreeSet<Name> {
        let mut names = BTreeSet::new();
        for claim in self.conditions.iter().chain([&self.equation]) {
            for dim in [&claim.left, &claim.right] {
                dim.visit_vars(&mut |name| _ = names.insert(name.clone()));
            }
        }
        names
    }

    /// As one formula, with other variables.
    pub(crate) fn renamed(&self, with: &BTreeMap<Name, Name>) -> Formula {
        let map = with.iter().map(|(from, to)| (from.clone(), Dim::Var(to.clone()))).collect();
        let claim = |claim: &Claim| Formula::Claim(claim.substitute(&map));
        let conditions = self.conditions.iter().map(claim).collect();
        Formula::implies(Formula::And(conditions), claim(&self.equation))
    }
}

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Formula::Claim(self.equation.clone()))?;
        for (index, condition) in self.conditions.iter().enumerate() {
            let word = if index == 0 { " where" } else { "," };
            write!(f, "{word} {}", Formula::Claim(condition.clone()))?;
        }
        Ok(())
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("rules").join(name)
}

/// All rules, in order.
pub(crate) fn rules() -> Vec<Rule> {
    let text = std::fs::read_to_string(path("dims.rules")).expect("the rule file can be read");
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(rule).collect()
}

fn rule(line: &str) -> Rule {
    let (name, text) = line.split_once(':').unwrap_or_else(|| panic!("no name: {line}"));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let statement = statement(&text).unwrap_or_else(|| panic!("not a rule: {line}"));
    Rule { name: name.trim().to_owned(), text, statement }
}

fn statement(text: &str) -> Option<Statement> {
    let (equation, conditions) = text.split_once(" where ").unwrap_or((text, ""));
    let parts = parts(conditions);
    let conditions = parts.iter().map(|part| claim(part)).collect::<Option<Vec<_>>>()?;
    Some(Statement { conditions, equation: claim(equation)? })
}

fn claim(text: &str) -> Option<Claim> {
    if let Formula::Claim(claim) = statement::formula(text).ok()? { Some(claim) } else { None }
}

/// What commas outside of brackets separate.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("it starts with one").push(c);
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The lock file: a line `name hash encoding rlimit` for each rule, and maybe a lemma.
pub(crate) fn lock() -> BTreeMap<String, Entry> {
    let text = std::fs::read_to_string(path("dims.lock")).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| entry(line).unwrap_or_else(|| panic!("not an entry: {line}"))).collect()
}

fn entry(line: &str) -> Option<(String, Entry)> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let (name, hash, encoding) = (words.next()?, words.next()?, words.next()?);
    let encoding = Encoding::ALL.into_iter().find(|one| one.name() == encoding)?;
    let rlimit = words.next()?.parse().ok()?;
    let lemma = match words.next() {
        Some(word) => Some(lemma(&word)?),
        None => None,
    };
    words.next().is_none().then_some((name, Entry { hash, encoding, rlimit, lemma }))
}

fn lemma(word: &str) -> Option<Lemma> {
    let (name, with) = word.strip_suffix(']')?.split_once('[')?;
    let pair = |pair: &str| pair.split_once('=').map(|(x, y)| (x.into(), y.into()));
    let with = with.split(',').map(pair).collect::<Option<_>>()?;
    Some(Lemma { name: name.to_owned(), with })
}

/// Writes the lock file, in the order of the rules.
pub(crate) fn write_lock(rules: &[Rule], entries: &BTreeMap<String, Entry>) {
    let mut text =
        "# How z3 proved each rule: checksum of its text, encoding of divisions, steps, \
                    an earlier rule that the proof uses. \
                    Written by RELAX_BLESS=1.\n"
            .to_owned();
    for rule in rules {
        let Some(entry) = entries.get(&rule.name) else { continue };
        let (encoding, rlimit) = (entry.encoding.name(), entry.rlimit);
        let lemma = entry.lemma.as_ref().map_or(String::new(), |lemma| format!(" {lemma}"));
        text += &format!("{} {} {encoding} {rlimit}{lemma}\n", rule.name, entry.hash);
    }
    std::fs::write(path("dims.lock"), text).expect("the lock file can be written");
}
