//! Where patterns match in a dataflow block.
//!
//! What is matched is computed at once where its last call stands. So only calls that always give a
//! value are matched: none of their constraints is left to run time, and nothing can be read that is not
//! written. What lies within a match is used by it alone.

use super::text::{Call, Comparison, Condition, Node, Rule, Side, operands};
use crate::known::{Given, known_atom};
use crate::trap_free::TrapAnalysis;
use relax_semantics::ops::{Known, bind, lookup};
use relax_semantics::tir::ranges::is_proved;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Block, BlockKind, Callee, Expr, Function, VarId};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// A pattern that was found.
#[derive(Clone)]
pub(crate) struct Match {
    /// What computes it.
    pub(crate) function: Name,
    /// In the order in which the pattern names them.
    pub(crate) operands: Vec<Atom>,
    /// Places of its calls in the block, the last one gives its value.
    pub(crate) members: BTreeSet<usize>,
    /// Conditions on dims that are not decided.
    pub(crate) open: Vec<Claim>,
}

impl Match {
    /// The place of the call that gives the value, and those of all others.
    pub(crate) fn places(&self) -> (usize, impl Iterator<Item = usize> + '_) {
        let last = *self.members.last().expect("invariant: a pattern is a call");
        (last, self.members.iter().copied().filter(move |&at| at != last))
    }
}

/// What is known around a block.
pub(crate) struct Around<'a, 't> {
    pub(crate) function: &'a Function,
    pub(crate) annotations: &'a [Annotation],
    pub(crate) traps: &'a mut TrapAnalysis<'t>,
    pub(crate) facts: &'a mut dyn Facts,
}

/// Which matches are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Those whose conditions are all proved.
    Proved,
    /// Those with conditions that hold for some dims, too.
    Possible,
}

/// Matches in a block that have no call in common, the outermost first.
pub(crate) fn find(rules: &[Rule], block: &Block, around: &mut Around) -> Vec<Match> {
    matches(rules, block, Wanted::Proved, around)
}

/// The same with conditions on dims that are not decided: each match says which.
pub(crate) fn find_possible(rules: &[Rule], block: &Block, around: &mut Around) -> Vec<Match> {
    matches(rules, block, Wanted::Possible, around)
}

fn matches(rules: &[Rule], block: &Block, wanted: Wanted, around: &mut Around) -> Vec<Match> {
    let BlockKind::Dataflow { outputs } = &block.kind else { return Vec::new() };
    let search = Search::of(block, outputs);
    let (mut taken, mut found) = (BTreeSet::new(), Vec::new());
    for at in (0..block.bindings.len()).rev().filter(|_| !rules.is_empty()) {
        let matched = rules.iter().find_map(|rule| {
            let matched = search.rule(rule, at, around)?;
            let fits = wanted == Wanted::Possible || matched.open.is_empty();
            (fits && matched.members.is_disjoint(&taken)).then_some(matched)
        });
        if let Some(matched) = matched {
            taken.extend(&matched.members);
            found.push(matched);
        }
    }
    found
}

struct Search<'b> {
    block: &'b Block,
    places: BTreeMap<VarId, usize>,
    /// The bindings that use each binding; none where it is seen after the block.
    users: Vec<Option<BTreeSet<usize>>>,
}

/// What is matched so far.
#[derive(Clone, Default)]
struct State {
    operands: BTreeMap<Name, Atom>,
    members: BTreeSet<usize>,
}

impl<'b> Search<'b> {
    fn of(block: &'b Block, outputs: &[VarId]) -> Self {
        let bindings = block.bindings.iter().enumerate();
        let places: BTreeMap<VarId, usize> = bindings.map(|(at, b)| (b.var, at)).collect();
        let seen_after = |binding: &relax_syntax::ir::Binding| outputs.contains(&binding.var);
        let mut users: Vec<Option<BTreeSet<usize>>> =
            block.bindings.iter().map(|b| (!seen_after(b)).then(BTreeSet::new)).collect();
        for (at, binding) in block.bindings.iter().enumerate() {
            let mut used = BTreeSet::new();
            expr_uses(&binding.expr, &mut used);
            for place in used.iter().filter_map(|var| places.get(var)) {
                if let Some(users) = &mut users[*place] {
                    users.insert(at);
                }
            }
        }
        Self { block, places, users }
    }

    fn rule(&self, rule: &Rule, at: usize, around: &mut Around) -> Option<Match> {
        let root = Atom::Var(self.block.bindings[at].var);
        let state = self.node(&rule.root, &root, State::default())?;
        let mut inner = state.members.iter().filter(|&&member| member != at);
        let hidden = |member: &usize| {
            self.users[*member].as_ref().is_some_and(|users| users.is_subset(&state.members))
        };
        if !state.members.contains(&at) || !inner.all(hidden) {
            return None;
        }
        let total = state.members.iter().all(|&member| {
            around.traps.is_removable(around.function, &self.block.bindings[member])
        });
        if !total {
            return None;
        }
        let open = self.conditions(rule, &state, around)?;
        let mut names = Vec::new();
        operands(&rule.root, &mut names);
        let operands = names.iter().map(|name| state.operands.get(name).cloned());
        Some(Match {
            function: rule.function.clone(),
            operands: operands.collect::<Option<_>>()?,
            members: state.members,
            open,
        })
    }

    /// The conditions that are not decided; none where one does not hold.
    fn conditions(&self, rule: &Rule, state: &State, around: &mut Around) -> Option<Vec<Claim>> {
        let known = state.operands.iter();
        let types: BTreeMap<&Name, TensorType> =
            known.filter_map(|(name, atom)| Some((name, tensor(atom, around)?))).collect();
        let mut open = Vec::new();
        for condition in &rule.conditions {
            match holds(condition, &types, around.facts) {
                Verdict::Holds => {}
                Verdict::Open(claim) => open.push(claim),
                Verdict::Fails => return None,
            }
        }
        Some(open)
    }

    fn node(&self, node: &Node, atom: &Atom, mut state: State) -> Option<State> {
        match node {
            Node::Any => Some(state),
            Node::Number(value) => is_number(atom, *value).then_some(state),
            Node::Operand(name) => {
                if !matches!(atom, Atom::Var(_) | Atom::Constant(_) | Atom::External(_)) {
                    return None;
                }
                let known = state.operands.entry(name.clone()).or_insert_with(|| atom.clone());
                (known == atom).then_some(state)
            }
            Node::Call(call) => {
                let found = self.call(call, atom, state.clone());
                let without = || self.node(call.args.first()?, atom, state);
                found.or_else(|| if call.optional { without() } else { None })
            }
        }
    }

    fn call(&self, call: &Call, atom: &Atom, mut state: State) -> Option<State> {
        let Atom::Var(var) = atom else { return None };
        let place = *self.places.get(var)?;
        let Expr::Call { callee: Callee::Operator(name), args, attrs } =
            &self.block.bindings[place].expr
        else {
            return None;
        };
        let row = lookup(name).filter(|row| row.name == call.row.name)?;
        state.members.insert(place);
        let given = |atom: &Atom| Given::Atom(atom.clone());
        let positional = args.iter().map(given).collect();
        let keywords = attrs.iter().map(|(key, atom)| (key.clone(), given(atom))).collect();
        let bound = bind(row, positional, keywords, &Given::Default).ok()?;
        if call.args.len() > row.params.len() || bound.len() != row.params.len() {
            return None;
        }
        for (at, (param, given)) in row.params.iter().zip(&bound).enumerate() {
            let wanted = call.attrs.iter().find(|(key, _)| param.is_called(key));
            state = match (call.args.get(at), wanted, given) {
                (Some(Node::Any), ..) => state,
                (Some(node), _, Given::Atom(atom)) => self.node(node, atom, state)?,
                (Some(_), _, Given::Default(_)) => return None,
                (None, Some((_, value)), given) => same(&given.known()?, value).then_some(state)?,
                (None, None, Given::Default(_)) => state,
                (None, None, given) => {
                    same(&given.known()?, &param.default?.known()).then_some(state)?
                }
            };
        }
        Some(state)
    }
}

/// Whether two attributes say the same: an integer stands for a float, and for a list of it.
fn same(a: &Known, b: &Known) -> bool {
    let float = |known: &Known| match known {
        Known::Float(value) => Some(*value),
        Known::Dim(Dim::Int(value)) => Some(*value as f64),
        _ => None,
    };
    a == b
        || float(a).zip(float(b)).is_some_and(|(a, b)| a.to_bits() == b.to_bits())
        || a.dims().zip(b.dims()).is_some_and(|(a, b)| a == b)
}

fn is_number(atom: &Atom, wanted: f64) -> bool {
    use relax_syntax::ir::graph::Literals;
    match atom {
        Atom::Constant(constant) if constant.shape.is_empty() => match &constant.data {
            Literals::Float(values) => values.first() == Some(&wanted),
            Literals::Int(values) => values.first().is_some_and(|&value| value as f64 == wanted),
        },
        _ => known_atom(atom).is_some_and(|known| same(&known, &Known::Float(wanted))),
    }
}

fn tensor(atom: &Atom, around: &Around) -> Option<TensorType> {
    match atom {
        Atom::Var(var) => around.annotations[var.0 as usize].as_tensor().cloned(),
        Atom::External(external) => external.annotation.as_tensor().cloned(),
        Atom::Constant(constant) => {
            let dims = constant.shape.iter().map(|&extent| i64::try_from(extent).ok());
            let dims: Option<Vec<Dim>> = dims.map(|extent| extent.map(Dim::Int)).collect();
            Annotation::tensor(dims?, constant.dtype).as_tensor().cloned()
        }
        _ => None,
    }
}

/// Whether the conditions of a pattern hold for operands of these annotations, in the order in which it
/// names them.
pub(crate) fn conditions_hold(rule: &Rule, found: &[Annotation], facts: &mut dyn Facts) -> bool {
    let mut names = Vec::new();
    operands(&rule.root, &mut names);
    let tensors = found.iter().filter_map(Annotation::as_tensor).cloned();
    let types: BTreeMap<&Name, TensorType> = names.iter().zip(tensors).collect();
    let mut all = rule.conditions.iter();
    all.all(|condition| matches!(holds(condition, &types, facts), Verdict::Holds))
}

/// What is known of a condition.
enum Verdict {
    Holds,
    /// It depends on dims.
    Open(Claim),
    /// It does not, or nothing is known of what it is about.
    Fails,
}

fn holds(
    condition: &Condition,
    types: &BTreeMap<&Name, TensorType>,
    facts: &mut dyn Facts,
) -> Verdict {
    let operand = |name: &Name| types.get(name).cloned();
    match condition {
        Condition::OneOf(name, dtypes) => match operand(name).and_then(|found| found.dtype) {
            Some(own) if dtypes.contains(&own) => Verdict::Holds,
            _ => Verdict::Fails,
        },
        Condition::Compare(left, comparison, right) => {
            let side = |side: &Side| match side {
                Side::Int(value) => Some(Dim::Int(*value)),
                Side::Rank(name) => {
                    i64::try_from(operand(name)?.extents.rank()?).ok().map(Dim::Int)
                }
                Side::Dim(name, axis) => {
                    let found = operand(name)?;
                    let dims = found.extents.dims()?;
                    dims.get(relax_semantics::ops::normalize_axis(*axis, dims.len())?).cloned()
                }
            };
            let Some((a, b)) = side(left).zip(side(right)) else { return Verdict::Fails };
            let claim = match comparison {
                Comparison::Equal => Claim::new(a, Relation::Equal, b),
                Comparison::NotEqual => Claim::new(a, Relation::NotEqual, b),
                Comparison::Less => Claim::new(a, Relation::Less, b),
                Comparison::AtMost => Claim::new(a, Relation::AtMost, b),
                Comparison::Greater => Claim::new(b, Relation::Less, a),
                Comparison::AtLeast => Claim::new(b, Relation::AtMost, a),
            };
            match (is_proved(facts, &claim), claim.vars().is_empty()) {
                (true, _) => Verdict::Holds,
                (false, true) => Verdict::Fails,
                (false, false) => Verdict::Open(claim),
            }
        }
    }
}
