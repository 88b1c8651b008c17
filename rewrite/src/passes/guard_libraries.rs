//! A function with something that a library computes for some dims only gets a version for those dims: there the conditions of
//! the pattern are proved. For all other dims, such as the products of one row that are matrix-vector products, the function
//! stays as it was. A bound of the product of several dims, `2 <= b * n`, is asked for as one of the last, the others being
//! at least 1.

use crate::blocks::for_each_block;
use crate::dims::assume_declared;
use crate::guarded::version::{OTHERWISE, Version, declarable};
use crate::matching::find::{Around, Match, find, find_possible};
use crate::matching::registry::registry;
use crate::matching::text::Rule;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::{Checked, Phase, check};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{AttrValue, Block, Definition, Function, Module, attr};
use std::collections::BTreeMap;

/// What the pipelines know of the pass.
pub static PASS: Pass = Pass {
    name: "guard_libraries",
    doc: "Gives a function with what a library computes for some dims only a version for those dims, behind \
          comparisons of dims.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// The mark of what is called for all other dims.
const LIBRARIES: &str = "libraries";

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let rules = registry(module, context.settings)?;
    let mut search = Search { rules: &rules, traps: TrapAnalysis::new(module, context.checked) };
    let mut names = Names::of(module);
    let mut versions: BTreeMap<Name, (Version, usize)> = BTreeMap::new();
    let (mut tried, mut wanted) = (module.clone(), 0);
    for function in module.functions() {
        if attr(&function.lambda.attrs, OTHERWISE).is_some() {
            continue;
        }
        let possible = search.matches(function, context.checked, context.facts, find_possible);
        let open: Vec<&Claim> = possible.iter().flat_map(|matched| &matched.open).collect();
        wanted += usize::from(!open.is_empty());
        let guard = open.into_iter().flat_map(|claim| guards(function, claim, context.facts));
        let Some(mut version) = Version::of(function, guard.collect(), context.checked) else {
            continue;
        };
        let proved = search.matches(function, context.checked, context.facts, find).len();
        version.special.name = names.numbered_from_one(&function.name);
        tried.definitions.push(Definition::Graph(version.special.clone()));
        versions.insert(function.name.clone(), (version, proved));
    }
    if !versions.is_empty() {
        let checked = check(&tried, context.facts, Phase::P0);
        let mut search = Search { rules: &rules, traps: TrapAnalysis::new(&tried, &checked) };
        versions.retain(|name, (version, before)| {
            let made = tried.function(&version.special.name);
            let made = made.unwrap_or_else(|| panic!("invariant: a version of `{name}` was added"));
            checked.is_ok() && search.matches(made, &checked, context.facts, find).len() > *before
        });
    }
    context.count_of("guarded", versions.len(), wanted, "functions");
    let mut definitions = Vec::with_capacity(module.definitions.len());
    for definition in &module.definitions {
        match (definition, versions.remove(definition.name())) {
            (Definition::Graph(function), Some((version, _))) => {
                let mark = AttrValue::Str(Name::new(LIBRARIES));
                let made = version.beside(function, mark, &mut names);
                definitions.extend(made.map(Definition::Graph));
            }
            _ => definitions.push(definition.clone()),
        }
    }
    Ok(Module { attrs: module.attrs.clone(), definitions })
}

/// Matches in all blocks of a function.
struct Search<'a> {
    rules: &'a [Rule],
    traps: TrapAnalysis<'a>,
}

/// Matches in a block.
type Find = fn(&[Rule], &Block, &mut Around) -> Vec<Match>;

impl Search<'_> {
    fn matches(
        &mut self,
        function: &Function,
        checked: &Checked,
        facts: &mut dyn Facts,
        find: Find,
    ) -> Vec<Match> {
        let Some(mut body) = function.lambda.body.clone() else { return Vec::new() };
        let mut found = Vec::new();
        facts.push();
        assume_declared(facts, &function.dims);
        let annotations = &checked.annotations[&function.name];
        let traps = &mut self.traps;
        let mut around = Around { function, annotations, traps, facts: &mut *facts };
        for_each_block(&mut body, &mut |block| found.extend(find(self.rules, block, &mut around)));
        facts.pop();
        found
    }
}

/// What a signature can declare for a claim to hold.
fn guards(function: &Function, claim: &Claim, facts: &mut dyn Facts) -> Vec<Claim> {
    if let Some(declared) = declarable(function, claim, facts) {
        return vec![declared];
    }
    let (Relation::AtMost, Dim::Int(least)) = (claim.relation, &claim.left) else {
        return Vec::new();
    };
    let mut factors = Vec::new();
    let Some((last, others)) = variables(&claim.right, &mut factors).and(factors.split_last())
    else {
        return Vec::new();
    };
    let bound =
        |least: i64, name: &Name| Claim::new(least, Relation::AtMost, Dim::Var(name.clone()));
    let mut all: Vec<Claim> = others.iter().map(|name| bound(1, name)).collect();
    all.push(bound(*least, last));
    facts.push();
    assume_declared(facts, &function.dims);
    all.iter().for_each(|claim| facts.assume(claim.clone()));
    let is_enough = facts.decide(claim) == Answer::Proved;
    facts.pop();
    let in_signature =
        |name: &Name| function.dims.iter().any(|dim| dim.in_signature && dim.name == *name);
    if is_enough && factors.iter().all(in_signature) { all } else { Vec::new() }
}

/// The variables that a dim is the product of.
fn variables(dim: &Dim, all: &mut Vec<Name>) -> Option<()> {
    match dim {
        Dim::Var(name) => all.push(name.clone()),
        Dim::Op(DimOp::Mul, operands) => {
            variables(&operands.0, all)?;
            variables(&operands.1, all)?;
        }
        Dim::Int(factor) if *factor > 0 => {}
        _ => return None,
    }
    Some(())
}
