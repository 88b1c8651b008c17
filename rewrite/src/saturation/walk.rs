//! The way through a module to its regions, and the bindings of their forms back into it.

use super::comparison::{BY_FUSION, Comparison, MOST_COMPARISONS, constants, keep_dearer};
use super::emit::Emit;
use super::encode::{Encoded, can_encode};
use super::extract::{Pricing, Values, Wanted};
use super::fused::Fusion;
use super::region::regions;
use super::report::{FunctionReport, RegionReport, Report};
use super::rulebook::{Directed, select};
use super::samples;
use super::solve::{Solution, Solved, Task, are_alike, solve};
use super::{Options, RuleKind};
use crate::guarded::Guard;
use crate::in_place::{mentions, updated_in_place};
use crate::names::Names;
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, Binding, BlockKind, Body, Definition, DimVar, Expr, Function, Module, VarId, VarInfo,
};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Which forms are taken, and whether it is said why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extraction {
    /// A form that is proved to cost no more for all dims.
    Cheapest,
    /// The same, with the rules that lead to it.
    Explained,
    /// Some dear form: to be run against the others.
    Dearest,
    /// The form that is cheap at a sample, whatever it costs at others.
    Sample(usize),
}

/// Rewrites every graph function of a checked module.
pub fn saturate_module(
    checked: &Checked,
    facts: &mut dyn Facts,
    options: &Options,
    kind: RuleKind,
    extraction: Extraction,
) -> (Module, Report) {
    let module = &checked.module;
    let mut engine = Engine::new(checked, facts, options, kind, extraction);
    let definitions = module.definitions.iter().map(|definition| match definition {
        Definition::Graph(function) if function.lambda.body.is_some() => {
            Definition::Graph(engine.function(function))
        }
        other => other.clone(),
    });
    let definitions = definitions.collect();
    let mut rewritten = Module { attrs: module.attrs.clone(), definitions };
    if let Some(fusion) = &options.fusion {
        keep_dearer(module, &mut rewritten, &mut engine.report, (fusion, engine.facts));
    }
    (rewritten, engine.into_report())
}

/// The most searches of a module under guards: each reads the module once.
const MOST_SEARCHES: usize = 24;

/// A region that was saturated, with what was known of dims.
struct Known {
    region: Encoded,
    dims: Vec<DimVar>,
    solved: Option<Rc<Solved>>,
}

pub(super) struct Engine<'a> {
    module: &'a Module,
    checked: &'a Checked,
    traps: TrapAnalysis<'a>,
    facts: &'a mut dyn Facts,
    rules: Vec<Directed>,
    options: &'a Options,
    kind: RuleKind,
    extraction: Extraction,
    /// What holds of dims beside what is declared of them.
    assumed: Guard,
    /// How often functions may still be searched again under a guard.
    searches_left: usize,
    comparisons_left: usize,
    names: Names,
    known: Vec<Known>,
    /// Where the extraction is at a sample, these.
    samples: Vec<Values>,
    /// What came of the regions of the last function, in the order of the walk.
    visited: Vec<Rc<Solved>>,
    report: Report,
}

/// What the regions of a function have in common.
struct Scope<'s> {
    function: &'s Function,
    annotations: &'s [Annotation],
    updated: BTreeSet<VarId>,
    /// How many expressions and results of the function use a variable.
    uses: BTreeMap<VarId, usize>,
    samples: Vec<Values>,
    vars: Vec<VarInfo>,
    regions: Vec<RegionReport>,
    /// Variables whose values are known when a module is built.
    constants: BTreeSet<VarId>,
}

impl<'a> Engine<'a> {
    /// For a checked module.
    pub(super) fn new(
        checked: &'a Checked,
        facts: &'a mut dyn Facts,
        options: &'a Options,
        kind: RuleKind,
        extraction: Extraction,
    ) -> Self {
        let module = &checked.module;
        Self {
            module,
            checked,
            traps: TrapAnalysis::new(module, checked),
            facts,
            rules: select(options, kind),
            options,
            kind,
            extraction,
            assumed: Guard::new(),
            searches_left: MOST_SEARCHES,
            comparisons_left: MOST_COMPARISONS,
            names: Names::of(module),
            known: Vec::new(),
            samples: Vec::new(),
            visited: Vec::new(),
            report: Report::default(),
        }
    }

    /// Changes which forms are taken.
    pub(super) fn take(&mut self, extraction: Extraction, samples: Vec<Values>) {
        self.extraction = extraction;
        self.samples = samples;
    }

    /// Assumes that a guard holds of dims.
    pub(super) fn assume(&mut self, guard: Guard) {
        self.assumed = guard;
    }

    /// What a search under a guard needs, if there may be one more.
    pub(super) fn search_again(
        &mut self,
    ) -> Option<(&'a Checked, &mut dyn Facts, &'a Options, RuleKind)> {
        self.searches_left = self.searches_left.checked_sub(1)?;
        Some((self.checked, &mut *self.facts, self.options, self.kind))
    }

    pub(super) fn facts(&mut self) -> &mut dyn Facts {
        &mut *self.facts
    }

    pub(super) fn checked(&self) -> &'a Checked {
        self.checked
    }

    /// After which passes forms are compared.
    pub(super) fn fusion(&self) -> Option<Fusion> {
        self.options.fusion
    }

    /// The report of what comes now begins.
    pub(super) fn report_from_here(&mut self) {
        let Report { regions, rewritten, functions, .. } = &mut self.report;
        (*regions, *rewritten) = (0, 0);
        functions.clear();
    }

    /// Says of what was done to a function that it is in a copy of it.
    pub(super) fn report_under(&mut self, copy: &Name, function: &Name) {
        let own = self.report.functions.iter_mut().filter(|own| own.name == *function);
        own.for_each(|own| own.name = copy.clone());
    }

    /// What was done.
    pub(super) fn into_report(self) -> Report {
        let rules = self.rules.iter().map(|directed| &directed.rule);
        let rules = rules.map(|rule| (rule.name.clone(), Arc::clone(rule))).collect();
        Report { rules, ..self.report }
    }

    pub(super) fn visited(&self) -> &[Rc<Solved>] {
        &self.visited
    }

    pub(super) fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    pub(super) fn function(&mut self, function: &Function) -> Function {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are passed");
        let checked = self.checked;
        self.visited.clear();
        let samples = match self.extraction {
            Extraction::Sample(_) => self.samples.clone(),
            _ => samples::alike(&function.dims),
        };
        let mut scope = Scope {
            function,
            annotations: &checked.annotations[&function.name],
            updated: updated_in_place(self.module, function),
            uses: BTreeMap::new(),
            samples,
            vars: std::mem::take(&mut rebuilt.vars),
            regions: Vec::new(),
            constants: constants(&body),
        };
        count_uses(&body, &mut scope.uses);
        self.body(&mut scope, &mut body);
        rebuilt.vars = scope.vars;
        rebuilt.lambda.body = Some(body);
        if !scope.regions.is_empty() {
            let (name, regions) = (function.name.clone(), scope.regions);
            self.report.functions.push(FunctionReport { name, regions });
        }
        rebuilt
    }

    fn body(&mut self, scope: &mut Scope, body: &mut Body) {
        for block in &mut body.blocks {
            for binding in &mut block.bindings {
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    self.body(scope, then);
                    self.body(scope, otherwise);
                }
            }
            let listed = match &block.kind {
                BlockKind::Dataflow { outputs } => outputs.iter().copied().collect(),
                BlockKind::Plain => BTreeSet::new(),
            };
            self.block(scope, &mut block.bindings, &listed);
        }
    }

    fn block(&mut self, scope: &mut Scope, bindings: &mut Vec<Binding>, listed: &BTreeSet<VarId>) {
        let eligible: Vec<bool> =
            bindings.iter().map(|binding| self.is_eligible(scope, binding)).collect();
        let seen = scope.seen_after(bindings, listed);
        let ranges = regions(bindings, &eligible, &seen);
        for range in ranges.into_iter().rev() {
            let part = &bindings[range.clone()];
            let outputs = scope.seen_after(part, listed);
            if let Some(made) = self.region(scope, part, &outputs) {
                bindings.splice(range, made);
            }
        }
    }

    fn is_eligible(&mut self, scope: &Scope, binding: &Binding) -> bool {
        let changes = |atom: &Atom| mentions(atom, &scope.updated);
        let is_changed = match &binding.expr {
            Expr::Atom(atom) | Expr::Get(atom, _) => changes(atom),
            Expr::Call { args, attrs, .. } => {
                args.iter().any(changes) || attrs.iter().any(|(_, atom)| changes(atom))
            }
            _ => true,
        };
        !is_changed
            && scope.function.var(binding.var).name != "_"
            && !scope.updated.contains(&binding.var)
            && can_encode(binding)
            && scope.annotations[binding.var.0 as usize].is_known()
            && self.traps.is_removable(scope.function, binding)
    }

    /// The bindings in the place of those of a region; `None` where they stay.
    fn region(
        &mut self,
        scope: &mut Scope,
        bindings: &[Binding],
        outputs: &BTreeSet<VarId>,
    ) -> Option<Vec<Binding>> {
        let mut region = Encoded::of(bindings, scope.annotations)?;
        region.outputs = bindings
            .iter()
            .map(|binding| binding.var)
            .filter(|var| outputs.contains(var))
            .collect();
        self.report.regions += 1;
        let solved = self.solved(scope, &region, bindings)?;
        self.visited.push(Rc::clone(&solved));
        let form = match self.extraction {
            Extraction::Cheapest | Extraction::Explained => solved.always,
            Extraction::Dearest => solved.at[0],
            Extraction::Sample(at) => solved.at[at],
        };
        if solved.is_unchanged(form) {
            return None;
        }
        let solution = &solved.forms[form];
        self.report.rewritten += 1;
        scope.regions.push(RegionReport {
            leaves: region.leaves.iter().map(|leaf| scope.name_of(&leaf.atom)).collect(),
            outputs: region
                .outputs
                .iter()
                .map(|&var| scope.function.var(var).name.clone())
                .collect(),
            before: solved.forms[0].cost.clone(),
            after: solution.cost.clone(),
            explained: solution.explained.clone(),
            replays: solution.replays,
        });
        let span = scope.function.span;
        let mut emit = Emit { names: &mut self.names, vars: &mut scope.vars, span };
        Some(emit.bindings(&region, bindings, solution))
    }

    /// What came of a region, or of one that is like it.
    fn solved(
        &mut self,
        scope: &Scope,
        region: &Encoded,
        bindings: &[Binding],
    ) -> Option<Rc<Solved>> {
        let dims = &scope.function.dims;
        let alike = |known: &&Known| known.dims == *dims && are_alike(&known.region, region);
        if let Some(known) = self.known.iter().find(alike) {
            return known.solved.clone();
        }
        let (function, vars, samples) = (scope.function, &*scope.vars, &*scope.samples);
        let constants = &scope.constants;
        let comparison = Comparison { function, vars, samples, region, bindings, constants };
        let constants = comparison.known_when_built(self.options.fusion);
        let task = Task {
            rules: &self.rules,
            own: &self.options.own,
            limits: &self.options.limits,
            assumed: &self.assumed,
            samples: &scope.samples,
            wanted: match self.extraction {
                Extraction::Dearest => Wanted::Dearest,
                _ => Wanted::Cheapest,
            },
            explain: self.extraction == Extraction::Explained,
            pricings: if self.options.fusion.is_some() { &BY_FUSION } else { &[Pricing::Separate] },
            constants: &constants,
            clock: self.options.clock,
        };
        let Options { fusion, least_gain, .. } = *self.options;
        let names = &self.names;
        let left = &mut self.comparisons_left;
        // Whole functions are compared where forms are taken at samples.
        let are_sampled = matches!(self.extraction, Extraction::Sample(_));
        let mut choose = |forms: &[Solution], facts: &mut dyn Facts| match fusion? {
            _ if are_sampled => Some(0),
            fusion => {
                let found = comparison.cheapest(forms, (&fusion, least_gain), (names, left), facts);
                // Where the cost is not known, nothing is taken for cheaper.
                Some(found.unwrap_or(0))
            }
        };
        let solved = solve(region, dims, self.facts, &task, &mut choose).map(Rc::new);
        if let Some(solved) = &solved {
            self.report.count(&solved.saturated);
            self.report.count_forms(&solved.looked_for);
        }
        let (region, dims) = (region.clone(), dims.clone());
        self.known.push(Known { region, dims, solved: solved.clone() });
        solved
    }
}

impl Scope<'_> {
    /// The variables of some bindings that are used elsewhere.
    fn seen_after(&self, bindings: &[Binding], listed: &BTreeSet<VarId>) -> BTreeSet<VarId> {
        let mut own: BTreeMap<VarId, usize> = BTreeMap::new();
        bindings.iter().for_each(|binding| count_binding(binding, &mut own));
        let count = |counts: &BTreeMap<VarId, usize>, var| counts.get(&var).copied().unwrap_or(0);
        let vars = bindings.iter().map(|binding| binding.var);
        vars.filter(|&var| listed.contains(&var) || count(&self.uses, var) > count(&own, var))
            .collect()
    }

    fn name_of(&self, atom: &Atom) -> Name {
        match atom {
            Atom::Var(var) => self.vars[var.0 as usize].name.clone(),
            Atom::External(external) => external.name.clone(),
            _ => Name::new("const"),
        }
    }
}

/// Counts the expressions and results that use each variable.
fn count_uses(body: &Body, uses: &mut BTreeMap<VarId, usize>) {
    body.bindings().for_each(|binding| count_binding(binding, uses));
    count_atom(&body.result, uses);
}

fn count_binding(binding: &Binding, uses: &mut BTreeMap<VarId, usize>) {
    match &binding.expr {
        Expr::If { condition, then, otherwise } => {
            count_atom(condition, uses);
            count_uses(then, uses);
            count_uses(otherwise, uses);
        }
        expr => {
            let mut used = BTreeSet::new();
            expr_uses(expr, &mut used);
            used.into_iter().for_each(|var| *uses.entry(var).or_default() += 1);
        }
    }
}

fn count_atom(atom: &Atom, uses: &mut BTreeMap<VarId, usize>) {
    let mut used = BTreeSet::new();
    atom_uses(atom, &mut used);
    used.into_iter().for_each(|var| *uses.entry(var).or_default() += 1);
}
