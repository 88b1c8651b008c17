//! The rules that a saturation uses: proved ones of the families that are wanted and those that the caller brings, each way that
//! it may be used.

use super::Options;
use relax_syntax::Name;
use relax_theorems::rules::rule::Node;
use relax_theorems::rules::{self, Direction, Kind, Rule, locked};
use std::sync::{Arc, OnceLock};

/// A rule, one way.
#[derive(Clone, Debug)]
pub(super) struct Directed {
    /// The name of the rule, with a mark where it is used from right to left.
    pub(super) name: Name,
    pub(super) rule: Arc<Rule>,
    is_backward: bool,
}

/// Behind the name of a rule that is used from right to left.
pub(super) const BACKWARDS: &str = " (backwards)";

/// The name of a rule, whichever way it is used.
pub(super) fn base(name: &str) -> &str {
    name.strip_suffix(BACKWARDS).unwrap_or(name)
}

/// Every rule of this program that is proved; one that is only tested is never applied.
fn proved() -> &'static [Arc<Rule>] {
    static RULES: OnceLock<Vec<Arc<Rule>>> = OnceLock::new();
    RULES.get_or_init(|| {
        let all = rules::all();
        let sound = |rule: &Rule| rules::status_of(rule).is_proved();
        debug_assert!(!locked().is_empty(), "invariant: there is a lock");
        all.into_iter().filter(sound).map(Arc::new).collect()
    })
}

/// The rules that are asked for, of a kind or a nearer one.
pub(super) fn select(options: &Options, kind: Kind) -> Vec<Directed> {
    let families = options.families.as_deref();
    let is_wanted = |rule: &&Arc<Rule>| families.is_none_or(|all| all.contains(&rule.family));
    let of_reals = options.families_of_reals.as_deref();
    let is_listed = |rule: &&Arc<Rule>| {
        rule.kind == Kind::Exact || of_reals.is_none_or(|all| all.contains(&rule.family))
    };
    let near = |rule: &&Arc<Rule>| rule.kind == Kind::Exact || kind == Kind::Approximate;
    let all = proved().iter().filter(is_wanted).filter(is_listed).chain(&options.own);
    all.filter(near).flat_map(directions).collect()
}

/// The rule of a name as explanations say it: these tell a step from either side, whichever way the rule is used.
pub(super) fn named(own: &[Arc<Rule>], name: &str) -> Option<Directed> {
    let rule = base(name);
    let rule = proved().iter().chain(own).find(|known| known.name == rule)?;
    both_ways(rule).into_iter().find(|directed| directed.name == name)
}

fn both_ways(rule: &Arc<Rule>) -> [Directed; 2] {
    let forward = Directed { name: rule.name.clone(), rule: Arc::clone(rule), is_backward: false };
    let backward = forward.reversed();
    [forward, backward]
}

/// The ways in which a rule is searched for.
fn directions(rule: &Arc<Rule>) -> Vec<Directed> {
    let [forward, backward] = both_ways(rule);
    let both = rule.direction == Direction::Both;
    let mut found = Vec::new();
    for (directed, used) in [(forward, true), (backward, both)] {
        if used
            && matches!(directed.from(), Node::Call(_) | Node::Part(..))
            && rule.undetermined(directed.from(), directed.to()).is_none()
        {
            found.push(directed);
        }
    }
    found
}

impl Directed {
    /// What is found.
    pub(super) fn from(&self) -> &Node {
        if self.is_backward { &self.rule.right } else { &self.rule.left }
    }

    /// What it becomes.
    pub(super) fn to(&self) -> &Node {
        if self.is_backward { &self.rule.left } else { &self.rule.right }
    }

    /// The same rule, the other way.
    pub(super) fn reversed(&self) -> Directed {
        let is_backward = !self.is_backward;
        let mark = if is_backward { BACKWARDS } else { "" };
        let name = format!("{}{mark}", self.rule.name).into();
        Directed { name, rule: Arc::clone(&self.rule), is_backward }
    }
}
