//! The rules that a saturation uses: proved ones of the families that are wanted, each way that it may be used.

use relax_syntax::Name;
use relax_theorems::rules::rule::{Arg, Axis, Entry, Node, Operand};
use relax_theorems::rules::{self, Direction, Kind, Rule, locked};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// A rule, one way.
#[derive(Clone, Debug)]
pub(super) struct Directed {
    /// The name of the rule, with a mark where it is used from right to left.
    pub(super) name: Name,
    pub(super) rule: &'static Rule,
    pub(super) from: &'static Node,
    pub(super) to: &'static Node,
}

/// Behind the name of a rule that is used from right to left.
pub(super) const BACKWARDS: &str = " (backwards)";

/// Every rule that is proved; a rule that is only tested is never applied.
fn proved() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let all = rules::all();
        let sound = |rule: &Rule| rules::status_of(rule).is_proved();
        debug_assert!(!locked().is_empty(), "invariant: there is a lock");
        all.into_iter().filter(sound).collect()
    })
}

/// The rules of some families (all, if none is named), of a kind or a nearer one.
pub(super) fn select(families: &[Name], kind: Kind) -> Vec<Directed> {
    let wanted = |rule: &&Rule| {
        (families.is_empty() || families.contains(&rule.family))
            && (rule.kind == Kind::Exact || kind == Kind::Approximate)
    };
    proved().iter().filter(wanted).flat_map(directions).collect()
}

/// The rule of a name as explanations say it: these tell a step from either side, whichever way the rule is used.
pub(super) fn named(name: &str) -> Option<Directed> {
    let rule = name.strip_suffix(BACKWARDS).unwrap_or(name);
    let rule = proved().iter().find(|known| known.name == rule)?;
    both_ways(rule).into_iter().find(|directed| directed.name == name)
}

fn both_ways(rule: &'static Rule) -> [Directed; 2] {
    let forward = Directed { name: rule.name.clone(), rule, from: &rule.left, to: &rule.right };
    let backward = Directed {
        name: format!("{}{BACKWARDS}", rule.name).into(),
        rule,
        from: &rule.right,
        to: &rule.left,
    };
    [forward, backward]
}

/// The ways in which a rule is searched for.
fn directions(rule: &'static Rule) -> Vec<Directed> {
    let [forward, backward] = both_ways(rule);
    let both = rule.direction == Direction::Both;
    let mut found = Vec::new();
    for (directed, used) in [(forward, true), (backward, both)] {
        if used && matches!(directed.from, Node::Call(_) | Node::Part(..)) && determines(&directed)
        {
            found.push(directed);
        }
    }
    found
}

/// Whether the side that is found tells everything that the other side mentions.
fn determines(directed: &Directed) -> bool {
    let found = params(directed.from);
    let mut dims: BTreeSet<Name> = BTreeSet::new();
    let mut groups: BTreeSet<Name> = BTreeSet::new();
    for &at in &found {
        let Operand::Tensor(axes, _) = &directed.rule.params[at].what else { continue };
        for axis in axes {
            match axis {
                Axis::Dim(dim) => dim.visit_vars(&mut |name| _ = dims.insert(name.clone())),
                Axis::Group(name) => _ = groups.insert(name.clone()),
            }
        }
    }
    mentioned(directed.from, &mut dims, &mut BTreeSet::new());
    let (mut wanted, mut wanted_groups) = (BTreeSet::new(), BTreeSet::new());
    mentioned(directed.to, &mut wanted, &mut wanted_groups);
    let is_rank = |name: &Name| name.starts_with("len(");
    params(directed.to).is_subset(&found)
        && wanted.iter().all(|name| is_rank(name) || dims.contains(name))
        && wanted_groups.is_subset(&groups)
}

/// The operands of a side, floats included.
fn params(side: &Node) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    side.visit(&mut |node| match node {
        Node::Param(at) => _ = found.insert(*at),
        Node::Call(call) => {
            for arg in &call.args {
                if let Arg::Scalar(at) = arg {
                    found.insert(*at);
                }
            }
        }
        Node::Constant(..) | Node::Part(..) => {}
    });
    found
}

/// The dims and groups in the attributes of a side.
fn mentioned(side: &Node, dims: &mut BTreeSet<Name>, groups: &mut BTreeSet<Name>) {
    side.visit(&mut |node| {
        let Node::Call(call) = node else { return };
        for arg in &call.args {
            match arg {
                Arg::Integer(dim) => dim.visit_vars(&mut |name| _ = dims.insert(name.clone())),
                Arg::List(entries) => {
                    for entry in entries {
                        match entry {
                            Entry::One(dim) => {
                                dim.visit_vars(&mut |name| _ = dims.insert(name.clone()));
                            }
                            Entry::Dims(group) | Entry::Span(_, group) => {
                                groups.insert(group.clone());
                            }
                        }
                    }
                }
                _ => {}
            }
        }
    });
}
