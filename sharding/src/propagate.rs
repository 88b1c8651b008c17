//! Propagation: a layout for each value of a function, such that few bytes are moved.
//!
//! Layouts in annotations, of `redistribute` and of `annotate_sharding` are constraints. A call that can use its operands
//! as they lie does so. Where none of its placements fits, the cheapest redistributions are chosen, by dynamic programming
//! over the bindings: states are the layouts of the values that are still used. Costs are polynomials in the dims; they are
//! compared at sample sizes, which affects speed only.

use crate::beam::{State, best};
use crate::branches::{of_branches, used_in};
use crate::calls::{Choice, choices};
use crate::layout::{Axes, Layout, stages, text};
use crate::movement::{Collective, Movement, copies, movements};
use crate::plan::completed;
pub use crate::plan::{Branch, Plan, Step};
use crate::program::{laid, mesh_of, named_stages, samples, unsupported};
use relax_semantics::check::codes;
use relax_semantics::ops::{Operator, is_of_ranks, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId};
use relax_syntax::span::Span;
use relax_theorems::placement::calls::{Site, assume_declared, tensor};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The size of a symbolic dim at which costs are compared, unless another one is given.
pub const SAMPLE: i64 = 1024;
/// The same for the number of workers along an axis of a mesh.
pub const SAMPLE_WORKERS: i64 = 4;

/// Chooses the layouts of a function of a checked module.
///
/// # Errors
/// What is not supported, with its place.
pub fn propagate(
    module: &Module,
    function: &Function,
    sizes: &BTreeMap<Name, i64>,
    facts: &mut dyn Facts,
) -> Result<Plan, Diagnostic> {
    planned(module, function, sizes, &Known::default(), facts)
}

/// The layouts that each call may have, whatever the sizes are.
pub(crate) type Known = RefCell<BTreeMap<VarId, Arc<[Choice]>>>;

/// The same, with what is known of the calls of this function.
pub(crate) fn planned(
    module: &Module,
    function: &Function,
    sizes: &BTreeMap<Name, i64>,
    known: &Known,
    facts: &mut dyn Facts,
) -> Result<Plan, Diagnostic> {
    let mesh = mesh_of(module, function)?;
    let deduced = of_branches(module, function, facts);
    let function = &completed(function, &deduced);
    let taken = |name: &str| {
        function.dim(name).is_some() || function.vars.iter().any(|var| var.name == name)
    };
    let axes =
        Axes::of(module, &mesh, &taken).map_err(|message| refused(function.span, message))?;
    facts.push();
    assume_declared(function, facts);
    axes.assume(facts);
    let samples = samples(function, &axes, sizes);
    let is_truncated = Cell::new(false);
    let stages = named_stages(function);
    let propagation = Propagation {
        module,
        function,
        axes: &axes,
        stages,
        samples: &samples,
        known,
        is_truncated,
    };
    let planned = propagation.run(facts);
    let is_truncated = propagation.is_truncated.get();
    facts.pop();
    let (state, params, results) = planned?;
    Ok(Plan {
        axes,
        function: function.name.clone(),
        steps: state.steps.to_vec(),
        params,
        results,
        samples,
        is_truncated,
        deduced,
    })
}

/// Whether a tensor in one layout can be used where another one is wanted: what every worker has, one alone has too.
fn serves(own: &[Placement], wanted: &[Placement]) -> bool {
    own.len() == wanted.len()
        && own.iter().zip(wanted).all(|(own, wanted)| {
            let is_whole = *own == Placement::Replicated && matches!(wanted, Placement::Only(_));
            own == wanted || is_whole
        })
}

/// The layout in which a value can be used as it lies.
fn at_stages(state: &State, var: VarId, wanted: &Layout) -> Option<Layout> {
    let have = state.have.get(&var)?;
    let exact = have.iter().find(|own| *own == wanted);
    exact.or_else(|| have.iter().find(|own| serves(own, wanted))).cloned()
}

/// Whether each stage of a result has some operand of the call: elsewhere there is no reason to compute it on one worker.
fn has_stages(state: &State, site: &Site, result: &Layout) -> bool {
    stages(result).into_iter().all(|(axis, stage)| {
        let mut have = site.vars.iter().flatten().filter_map(|var| state.have.get(var)).flatten();
        have.any(|own| own[axis] == Placement::Only(stage))
    })
}

pub(crate) fn refused(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::SHARDING, span, message)
}

pub(crate) struct Propagation<'a> {
    module: &'a Module,
    pub(crate) function: &'a Function,
    pub(crate) axes: &'a Axes,
    /// The stages that the function names: no other worker is chosen to compute something alone.
    stages: BTreeSet<(usize, usize)>,
    samples: &'a BTreeMap<Name, i64>,
    known: &'a Known,
    /// Whether states were left out.
    is_truncated: Cell<bool>,
}

/// Who wants a value in a layout.
pub(crate) type Wanted<'a> = (Span, &'a str);

type Planned = (State, Vec<Option<Layout>>, Vec<(VarId, Layout)>);

impl Propagation<'_> {
    fn run(&self, facts: &mut dyn Facts) -> Result<Planned, Diagnostic> {
        let function = self.function;
        let Some(body) = &function.lambda.body else {
            return Err(refused(function.span, format!("`{}` is external", function.name)));
        };
        let mut start = State::default();
        let params = self.params(&mut start)?;
        let results = self.results(&body.result)?;
        let returned: Vec<VarId> = results.iter().map(|(var, _)| *var).collect();
        let states = self.through(body, &returned, start, facts)?;
        let ended = self.ended(&states, &results, (function.span, "the result"));
        let state =
            ended.ok_or_else(|| refused(function.span, "no layouts lead to that of the result"))?;
        Ok((state, params, results))
    }

    /// The states behind the bindings of a body, of which these values are used later.
    pub(crate) fn through(
        &self,
        body: &Body,
        later: &[VarId],
        start: State,
        facts: &mut dyn Facts,
    ) -> Result<Vec<State>, Diagnostic> {
        let mut states = vec![start];
        let bindings: Vec<&Binding> = body.bindings().collect();
        for (at, binding) in bindings.iter().enumerate() {
            if let Some(why) = unsupported(&binding.expr) {
                return Err(refused(self.function.var(binding.var).span, why));
            }
            // The values of a branch that gives several; it has no use of a tuple of them.
            let is_result = body.result == Atom::Var(binding.var);
            if is_result && matches!(binding.expr, Expr::Atom(Atom::Tuple(_))) {
                continue;
            }
            states = self.binding(binding, states, facts)?;
            let mut used: BTreeSet<VarId> = later.iter().copied().collect();
            bindings[at + 1..].iter().for_each(|later| used_in(&later.expr, &mut used));
            for state in &mut states {
                state.have.retain(|var, _| used.contains(var));
            }
            if best(&mut states, &|var, from, to| self.between(var, from, to)) {
                self.is_truncated.set(true);
            }
        }
        Ok(states)
    }

    /// The cheapest of the states in which these values have these layouts, moved there if need be.
    pub(crate) fn ended(
        &self,
        states: &[State],
        results: &[(VarId, Layout)],
        wanted: Wanted,
    ) -> Option<State> {
        let ended = states.iter().filter_map(|state| {
            let mut state = state.clone();
            let mut each = results.iter();
            each.try_for_each(|(var, layout)| self.ensure(&mut state, *var, layout, wanted))?;
            Some(state)
        });
        ended.min_by_key(State::cost)
    }

    fn params(&self, start: &mut State) -> Result<Vec<Option<Layout>>, Diagnostic> {
        let mut params = Vec::new();
        for &param in &self.function.lambda.params {
            let annotation = self.function.param_annotation(param);
            let name = &self.function.var(param).name;
            params.push(match annotation {
                Annotation::Tensor(_) | Annotation::DTensor(_) => {
                    if tensor(annotation).is_none() {
                        let message =
                            format!("dims or dtype of the parameter `{name}` are not known");
                        return Err(refused(self.function.span, message));
                    }
                    let layout = self.axes.layout_of(annotation);
                    if layout.iter().any(|placement| matches!(placement, Placement::Partial(_))) {
                        let message = format!(
                            "the parameter `{name}` is partial: a caller has the whole tensor"
                        );
                        return Err(refused(self.function.span, message));
                    }
                    start.have.insert(param, vec![layout.clone()]);
                    Some(layout)
                }
                Annotation::Shape(_) | Annotation::Prim(_) => None,
                other => {
                    let message = format!("the parameter `{name}` is `{other}`");
                    return Err(refused(self.function.span, message));
                }
            });
        }
        Ok(params)
    }

    /// The variables that are returned, each with its layout.
    fn results(&self, result: &Atom) -> Result<Vec<(VarId, Layout)>, Diagnostic> {
        let declared = self.function.lambda.result.as_ref();
        let items: Vec<(&Atom, Option<&Annotation>)> = match (result, declared) {
            (Atom::Tuple(items), Some(Annotation::Tuple(fields))) => {
                items.iter().zip(fields.iter().map(Some)).collect()
            }
            (Atom::Tuple(items), _) => items.iter().map(|item| (item, None)).collect(),
            (single, declared) => vec![(single, declared)],
        };
        let each = items.into_iter().map(|(item, declared)| {
            let Atom::Var(var) = item else {
                return Err(refused(self.function.span, "a result is no variable"));
            };
            let own = declared.or(self.function.var(*var).annotation.as_ref());
            match own {
                Some(annotation) if tensor(annotation).is_some() => {
                    Ok((*var, self.axes.layout_of(annotation)))
                }
                _ => Err(refused(self.function.span, "dims or dtype of a result are not known")),
            }
        });
        each.collect()
    }

    fn binding(
        &self,
        binding: &Binding,
        states: Vec<State>,
        facts: &mut dyn Facts,
    ) -> Result<Vec<State>, Diagnostic> {
        let span = self.function.var(binding.var).span;
        match &binding.expr {
            Expr::Atom(Atom::Var(of)) | Expr::Get(Atom::Var(of), _) => {
                let is_field = matches!(binding.expr, Expr::Get(..));
                let named = |mut state: State| {
                    let layouts = state.have.get(of)?.clone();
                    for layout in &layouts {
                        let (var, layout) = (binding.var, layout.clone());
                        state.steps.push(if is_field {
                            Step::Bind { var, operands: vec![layout.clone()], layout }
                        } else {
                            Step::Same { var, of: *of, layout }
                        });
                    }
                    state.have.insert(binding.var, layouts);
                    Some(state)
                };
                Ok(states.into_iter().filter_map(named).collect())
            }
            Expr::Atom(Atom::Constant(_) | Atom::External(_)) => {
                let layout = self.axes.replicated();
                let bound = |mut state: State| {
                    state.steps.push(Step::Bind {
                        var: binding.var,
                        operands: Vec::new(),
                        layout: layout.clone(),
                    });
                    state.have.insert(binding.var, vec![layout.clone()]);
                    state
                };
                Ok(states.into_iter().map(bound).collect())
            }
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                if let Some((Atom::Var(of), _, layout)) = laid(&binding.expr) {
                    return self.laid(binding.var, of, &layout, states);
                }
                let row = lookup(name)
                    .ok_or_else(|| refused(span, format!("there is no operator `{name}`")))?;
                self.call(binding.var, row, (args, attrs), states, facts)
            }
            Expr::If { condition, then, otherwise } => {
                self.branches(binding.var, condition, [then, otherwise], states, facts)
            }
            Expr::MatchCast(Atom::Var(of), annotation) => {
                self.match_cast(binding.var, *of, annotation, states)
            }
            _ => Err(refused(span, "this binding is not sharded")),
        }
    }

    /// A layout that the program asks for.
    fn laid(
        &self,
        var: VarId,
        of: VarId,
        layout: &Layout,
        states: Vec<State>,
    ) -> Result<Vec<State>, Diagnostic> {
        let span = self.function.var(var).span;
        let moved = |mut state: State| {
            self.ensure(&mut state, of, layout, (span, "the program"))?;
            state.steps.push(Step::Same { var, of, layout: layout.clone() });
            state.have.insert(var, vec![layout.clone()]);
            Some(state)
        };
        let moved: Vec<State> = states.into_iter().filter_map(moved).collect();
        if moved.is_empty() {
            let message = format!("there is no redistribution to `{}`", text(layout));
            return Err(refused(span, message));
        }
        Ok(moved)
    }

    fn call(
        &self,
        var: VarId,
        row: &'static Operator,
        passed: (&[Atom], &[(Name, Atom)]),
        states: Vec<State>,
        facts: &mut dyn Facts,
    ) -> Result<Vec<State>, Diagnostic> {
        let info = self.function.var(var);
        let name = row.short_name();
        let unsupported =
            |why: String| refused(info.span, format!("`{name}` is not sharded: {why}"));
        if is_of_ranks(row) {
            return Err(unsupported(
                "it is what a rank calls, in a program that is local".to_owned(),
            ));
        }
        if row.effect == relax_semantics::ops::Effect::Impure
            || ["call_tir", "call_dps_library"].contains(&row.name)
        {
            return Err(unsupported(
                "only operators that compute their result from tensors are".to_owned(),
            ));
        }
        let result = info.annotation.clone().unwrap_or(Annotation::Object);
        let annotation = |var: VarId| self.function.var(var).annotation.clone();
        let site = Site::of(row, passed, &result, &annotation).map_err(unsupported)?;
        let known = self.known.borrow().get(&var).cloned();
        let choices = known.unwrap_or_else(|| {
            let all = choices(&site, (self.axes, &self.stages), self.module, facts);
            let found: Arc<[Choice]> = all.into();
            self.known.borrow_mut().insert(var, Arc::clone(&found));
            found
        });
        let (stay, leave): (Vec<&Choice>, Vec<&Choice>) =
            choices.iter().partition(|choice| self.stays(&site, choice));
        let mut next = Vec::new();
        for state in states {
            let before = state.bytes;
            let ways = |choices: &[&Choice]| -> Vec<State> {
                let each = choices.iter();
                each.filter_map(|choice| self.chosen(&state, var, &site, choice, name)).collect()
            };
            let mut ways =
                Some(ways(&stay)).filter(|own| !own.is_empty()).unwrap_or_else(|| ways(&leave));
            // What fits as it lies is not moved.
            if ways.iter().any(|way| way.bytes == before) {
                ways.retain(|way| way.bytes == before);
            }
            next.extend(ways);
        }
        if next.is_empty() {
            return Err(unsupported("no layout of its operands can be reached".to_owned()));
        }
        Ok(next)
    }

    /// Whether parameters that one worker alone has stay with it: a weight of a stage says where its calls run.
    fn stays(&self, site: &Site, choice: &Choice) -> bool {
        site.vars.iter().zip(&choice.operands).all(|(var, layout)| {
            let param = var.filter(|var| self.function.lambda.params.contains(var));
            let own = param.map(|param| self.axes.layout_of(self.function.param_annotation(param)));
            own.is_none_or(|own| stages(&own).iter().all(|stage| stages(layout).contains(stage)))
        })
    }

    fn chosen(
        &self,
        state: &State,
        var: VarId,
        site: &Site,
        choice: &Choice,
        name: &str,
    ) -> Option<State> {
        if !has_stages(state, site, &choice.result) {
            return None;
        }
        let mut state = state.clone();
        let span = self.function.var(var).span;
        let mut operands = Vec::new();
        for (operand, layout) in site.vars.iter().zip(&choice.operands) {
            let own = match operand {
                Some(operand) => at_stages(&state, *operand, layout),
                None => Some(self.axes.replicated()).filter(|own| serves(own, layout)),
            };
            operands.push(match (own, operand) {
                (Some(own), _) => own,
                (None, Some(operand)) => {
                    self.ensure(&mut state, *operand, layout, (span, name))?;
                    layout.clone()
                }
                (None, None) => return None,
            });
        }
        for (dims, _) in &site.call.results {
            state.work += self.elements(dims, &choice.result);
        }
        state.steps.push(Step::Bind { var, operands, layout: choice.result.clone() });
        state.have.insert(var, vec![choice.result.clone()]);
        Some(state)
    }

    /// Elements of a tensor that all ranks hold together.
    fn elements(&self, dims: &[Dim], layout: &[Placement]) -> i128 {
        let copies: i128 =
            copies(layout).map(|axis| self.at_sample(&self.axes.workers[axis])).product();
        copies.saturating_mul(self.at_sample(&Dim::product(dims)))
    }

    fn at_sample(&self, dim: &Dim) -> i128 {
        dim.eval(&|name| self.samples.get(name).copied()).map_or(i128::from(i64::MAX), i128::from)
    }

    /// Has a value in a layout, moved there if need be; `None` where that cannot be.
    pub(crate) fn ensure(
        &self,
        state: &mut State,
        var: VarId,
        layout: &Layout,
        (span, wanted_by): Wanted,
    ) -> Option<()> {
        let have = state.have.get(&var)?;
        if have.contains(layout) {
            return Some(());
        }
        let (dims, dtype) = tensor(self.function.var(var).annotation.as_ref()?)?;
        let ways = have.iter().filter_map(|from| {
            let movements = movements((&dims, dtype), from, layout, self.axes)?;
            let bytes: i128 =
                movements.iter().map(|movement| self.at_sample(&movement.bytes)).sum();
            Some((bytes, from.clone(), movements))
        });
        let (bytes, from, movements) =
            ways.min_by_key(|(bytes, _, movements)| (*bytes, movements.len()))?;
        state.bytes += bytes;
        let is_cut = |one: &&Movement| matches!(one.collective, Collective::OwnShard(_));
        state.cuts += movements.iter().filter(is_cut).count();
        state.have.entry(var).or_default().push(layout.clone());
        state.steps.push(Step::Move {
            var,
            from,
            movements,
            span,
            wanted_by: wanted_by.to_owned(),
        });
        Some(())
    }

    /// Bytes that are moved from one layout of a value to another one.
    fn between(&self, var: VarId, from: &Layout, to: &Layout) -> Option<i128> {
        let (dims, dtype) = tensor(self.function.var(var).annotation.as_ref()?)?;
        let moved = movements((&dims, dtype), from, to, self.axes)?;
        Some(moved.iter().map(|one| self.at_sample(&one.bytes)).sum())
    }
}
