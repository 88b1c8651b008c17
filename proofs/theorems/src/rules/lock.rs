//! `rules.lock`: what was proved of each rule, and of which text. A rule that was changed since is
//! unproved until its proof was repeated.

use super::proof::Status;
use super::rule::Rule;
use std::collections::BTreeMap;
use std::fmt::Write;

static LOCK: &str = include_str!("../../rules/rules.lock");

/// A line of the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The digest of what the rule says.
    pub digest: String,
    /// What was proved.
    pub status: Status,
}

/// The lines of the lock, by the name of the rule.
#[must_use]
pub fn locked() -> BTreeMap<String, Entry> {
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (name, digest, status) = (words.next()?, words.next()?, words.next()?);
        let status = Status::of_word(status)?;
        Some((name.to_owned(), Entry { digest: digest.to_owned(), status }))
    };
    LOCK.lines().filter_map(line).collect()
}

/// What is known of a rule, by the lock.
#[must_use]
pub fn status_of(rule: &Rule) -> Status {
    match locked().remove(rule.name.as_str()) {
        Some(entry) if entry.digest == digest(rule) => entry.status,
        Some(_) => Status::Unproved("it was changed since its proof".to_owned()),
        None => Status::Unproved("it is not in `rules.lock`".to_owned()),
    }
}

/// The text of a lock.
#[must_use]
pub fn lock_text(rules: &[(Rule, Status)]) -> String {
    let mut text = String::new();
    for (rule, status) in rules {
        let _ = writeln!(text, "{} {} {status}", rule.name, digest(rule));
    }
    text
}

/// A digest of what a rule says, its name and reason left out (FNV-1a): against mistakes, not malice.
fn digest(rule: &Rule) -> String {
    let said = format!(
        "{:?} {:?} {:?} {:?} {:?}",
        rule.kind, rule.params, rule.conditions, rule.left, rule.right
    );
    let hash = said.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}
