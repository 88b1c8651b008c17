//! A function whose operators have a value for some dims only gets a version for those dims: there the constraints
//! are proved, so its calls become tensor programs and fuse like any others. For all other dims the function as it was
//! says which constraint fails, or goes on where another guard would have done (BladeDISC §4.1 has constraints as facts;
//! a guard makes facts of what nobody declared).
//!
//! A guard is what a signature can declare: two dims are one, or a dim has a bound or a divisor. A claim that is none of
//! these, such as `3 <= (h - 1) // 2 + 3`, is asked for the bound of its only variable that decides it: sizes give
//! the bound, the prover shows that it is enough.

use crate::dims::assume_declared;
use crate::guarded::choose::guarded_body;
use crate::guarded::specialize::{Specialized, specialize};
use crate::guarded::{Guard, Way, make_private};
use crate::kernels::has_kernels;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::saturation::is_known;
use relax_semantics::check::{Checked, Phase, check};
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{AttrValue, Body, Callee, Definition, Expr, Function, Module, VarId, attr};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "guard_constraints",
    doc: "Gives a function whose operators' constraints hold for some dims only a version for those dims, \
          behind comparisons of dims.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Says that a function is what is left of one that has versions: it gets none again.
const OTHERWISE: &str = "otherwise";
/// The greatest bound that is looked for.
const MOST: i64 = 1024;

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut names = Names::of(module);
    let mut versions: BTreeMap<Name, Version> = BTreeMap::new();
    let mut tried = module.clone();
    let mut found = 0;
    for function in module.functions() {
        let open = open_calls(context.checked, function);
        found += usize::from(!open.is_empty());
        let Some(mut version) = Version::of(function, open, context) else { continue };
        version.special.name = names.numbered_from_one(&function.name);
        tried.definitions.push(Definition::Graph(version.special.clone()));
        versions.insert(function.name.clone(), version);
    }
    if !versions.is_empty() {
        let checked = check(&tried, context.facts, Phase::P0);
        versions.retain(|_, version| version.leaves_less(&checked));
    }
    context.count_of("guarded", versions.len(), found, "functions");
    let mut definitions = Vec::with_capacity(module.definitions.len());
    for definition in &module.definitions {
        match (definition, versions.remove(definition.name())) {
            (Definition::Graph(function), Some(version)) => {
                let made = version.beside(function, &mut names);
                definitions.extend(made.map(Definition::Graph));
            }
            _ => definitions.push(definition.clone()),
        }
    }
    Ok(Module { attrs: module.attrs.clone(), definitions })
}

/// The calls of operators with kernels of which a constraint is left to run time.
fn open_calls(checked: &Checked, function: &Function) -> BTreeSet<VarId> {
    let mut open = BTreeSet::new();
    if let Some(body) = &function.lambda.body {
        calls(body, &checked.left_in(&function.name).vars, &mut open);
    }
    open
}

fn calls(body: &Body, left: &BTreeSet<VarId>, open: &mut BTreeSet<VarId>) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::If { then, otherwise, .. } => {
                calls(then, left, open);
                calls(otherwise, left, open);
            }
            Expr::Call { callee: Callee::Operator(name), .. }
                if left.contains(&binding.var) && lookup(name).is_some_and(has_kernels) =>
            {
                open.insert(binding.var);
            }
            _ => {}
        }
    }
}

/// A function for some dims only.
struct Version {
    special: Function,
    guard: Guard,
    /// The calls that are open in the function that it is of.
    open: BTreeSet<VarId>,
    /// What the function gives, where it is known: from the version the same is deduced in other words, as `0` for a dim
    /// that is.
    result: Option<Annotation>,
}

impl Version {
    /// `None` where nothing that a signature can declare would close one of the calls.
    fn of(function: &Function, open: BTreeSet<VarId>, context: &mut PassContext) -> Option<Self> {
        let has = |key: &str| attr(&function.lambda.attrs, key).is_some();
        if open.is_empty() || has("primitive") || has(OTHERWISE) {
            return None;
        }
        let mut guard = Guard::new();
        for left in &context.checked.obligations {
            let is_open = left.var.is_some_and(|var| open.contains(&var));
            if left.function != function.name || !is_open {
                continue;
            }
            let declared = left.claim.as_ref();
            let declared = declared.and_then(|claim| declarable(function, claim, context.facts));
            guard.extend(declared.filter(|claim| !guard.contains(claim)));
        }
        if guard.is_empty() {
            return None;
        }
        let Specialized { function: mut special, assumed, .. } = specialize(function, &guard)?;
        let result = context.checked.results.get(&function.name).filter(|it| are_tensors(it))?;
        let result = Some(result.clone()).filter(is_known);
        make_private(&mut special);
        assumed.is_empty().then_some(Self { special, guard, open, result })
    }

    /// Whether fewer calls are open in the version.
    fn leaves_less(&self, checked: &Checked) -> bool {
        checked.is_ok() && open_calls(checked, &self.special).len() < self.open.len()
    }

    /// The function that chooses, the version, and what is called for all other dims.
    fn beside(self, function: &Function, names: &mut Names) -> [Function; 3] {
        let mut otherwise = function.clone();
        otherwise.name = names.numbered_from_one(&function.name);
        make_private(&mut otherwise);
        otherwise.lambda.attrs.push((Name::new(OTHERWISE), AttrValue::Bool(true)));
        let special =
            Way { name: self.special.name.clone(), guard: self.guard, result: self.result };
        let last = Way { name: otherwise.name.clone(), guard: Guard::new(), result: None };
        [guarded_body(function, &[special, last], names), self.special, otherwise]
    }
}

/// Tensors, whatever is known of their dims.
fn are_tensors(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Tensor(tensor) => tensor.dtype.is_some(),
        Annotation::Tuple(fields) => fields.iter().all(are_tensors),
        _ => false,
    }
}

/// The claim as something that a signature can declare, or a bound from which it follows.
fn declarable(function: &Function, claim: &Claim, facts: &mut dyn Facts) -> Option<Claim> {
    let in_signature =
        |name: &&Name| function.dims.iter().any(|dim| dim.in_signature && dim.name == **name);
    let pair = broadcast_pair(claim);
    let claim = pair.as_ref().unwrap_or(claim);
    let names = claim.vars();
    if !names.iter().all(in_signature) {
        return None;
    }
    match (claim.relation, &claim.left, &claim.right) {
        (Relation::Equal, Dim::Var(_), Dim::Var(_) | Dim::Int(_))
        | (Relation::Equal, Dim::Int(_), Dim::Var(_)) => Some(claim.clone()),
        (Relation::Divides, Dim::Int(step), Dim::Var(_)) if *step > 1 => Some(claim.clone()),
        _ => match names.into_iter().collect::<Vec<_>>()[..] {
            [name] => bound(function, name, claim, facts),
            _ => None,
        },
    }
}

/// Of a broadcast that only the run decides, `(n - m) * (n - 1) * (m - 1) == 0`: the case of equal dims.
fn broadcast_pair(claim: &Claim) -> Option<Claim> {
    fn pair(dim: &Dim) -> Option<Claim> {
        let Dim::Op(op, operands) = dim else { return None };
        match (op, &operands.0, &operands.1) {
            (DimOp::Mul, a, b) => pair(a).or_else(|| pair(b)),
            (DimOp::Sub, a @ Dim::Var(_), b @ Dim::Var(_)) => {
                Some(Claim::new(a.clone(), Relation::Equal, b.clone()))
            }
            _ => None,
        }
    }
    let is_product = claim.relation == Relation::Equal && claim.right == Dim::Int(0);
    pair(&claim.left).filter(|_| is_product && matches!(claim.left, Dim::Op(DimOp::Mul, _)))
}

/// The weakest bound of the one variable of a claim that is proved to decide it: a lower one, else an upper one.
fn bound(function: &Function, name: &Name, claim: &Claim, facts: &mut dyn Facts) -> Option<Claim> {
    let holds = |value: i64| claim.holds(&BTreeMap::from([(name.clone(), value)])) == Some(true);
    let last_failure = (0..=MOST).rev().find(|&value| !holds(value));
    let first_failure = (0..=MOST).find(|&value| !holds(value));
    let var = Dim::Var(name.clone());
    let lower = last_failure.filter(|&last| last < MOST);
    let lower = lower.map(|last| Claim::new(last + 1, Relation::AtMost, var.clone()));
    let upper = first_failure.filter(|&first| first > 0);
    let upper = upper.map(|first| Claim::new(var, Relation::AtMost, first - 1));
    [lower, upper].into_iter().flatten().find(|bound| {
        facts.push();
        assume_declared(facts, &function.dims);
        facts.assume(bound.clone());
        let decides = facts.decide(claim) == Answer::Proved;
        facts.pop();
        decides
    })
}
