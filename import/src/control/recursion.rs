//! A loop as a function that calls itself. The iterations from `first` to `last` are those of the first half
//! and then those of the second, so that the calls are as deep as the logarithm of their number; what each
//! iteration gives is concatenated in the same way.

use super::repeat::{Iteration, Repeated};
use crate::argument::{Arg, key};
use crate::builder::{Content, Line, Origin, V};
use crate::graph::Importer;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::collections::BTreeSet;

/// Times that the dims of what is carried may turn out to change.
const ATTEMPTS: usize = 16;

/// What an iteration is given and gives, once its dims are the same before and after.
struct Step {
    place: V,
    /// The carried values before it.
    params: Vec<V>,
    /// Axes whose extents change from iteration to iteration.
    open: Vec<BTreeSet<usize>>,
    /// Variables for these.
    own: BTreeSet<String>,
    iteration: Iteration,
    lines: Vec<Line>,
}

/// The parameters of the function, but for what is carried.
struct Head {
    first: V,
    last: V,
    /// Whether to go on, where an iteration can say no.
    more: Option<V>,
}

impl Importer<'_> {
    pub(super) fn recursive(&mut self, repeated: &Repeated) -> Done<Vec<V>> {
        let before: BTreeSet<String> = self.builder.variables.keys().cloned().collect();
        let step = self.step(repeated)?;
        let after = self.builder.variables.keys().filter(|name| !before.contains(*name));
        let locals: BTreeSet<String> = after.cloned().collect();
        for &v in &step.iteration.scanned {
            let known = |name: &relax_syntax::Name| {
                !locals.contains(name.as_str()) || step.own.contains(name.as_str())
            };
            if !self.builder.is_tensor(v)
                || !self.builder.dims(v).iter().all(|dim| dim.vars_all(&known))
            {
                return unsupported("values of iterations whose dims only each iteration knows");
            }
        }
        let certain = step.iteration.condition.is_none_or(|v| self.is_true(v));
        let name = self.builder.names.fresh("iterate");
        let scanned = step.iteration.scanned.clone();
        let (open, own) = (step.open.clone(), step.own.clone());
        let carried: Vec<V> = step.params.clone();
        self.defined(&name, step, certain, locals)?;
        self.called(repeated, &name, certain, &carried, &open, &scanned, &own)
    }

    fn is_true(&self, v: V) -> bool {
        self.builder.tensor(v).is_some_and(|t| t.len() == 1 && t.number(0).as_f64() != 0.0)
    }

    /// One iteration in general: dims that it changes become variables, until nothing new changes.
    fn step(&mut self, repeated: &Repeated) -> Done<Step> {
        let mut dims: Vec<Vec<Dim>> =
            repeated.carried.iter().map(|&v| self.builder.dims(v)).collect();
        let mut open = vec![BTreeSet::new(); dims.len()];
        let mut own = BTreeSet::new();
        for _ in 0..ATTEMPTS {
            let place = self.builder.add(Vec::new(), DType::I64, Content::Computed);
            let types: Vec<(Vec<Dim>, DType)> = dims
                .iter()
                .zip(&repeated.carried)
                .map(|(dims, &v)| (dims.clone(), self.builder.dtype(v)))
                .collect();
            let params: Vec<V> = types
                .into_iter()
                .map(|(dims, dtype)| self.builder.add(dims, dtype, Content::Computed))
                .collect();
            let (iteration, lines) =
                self.apart(|importer| importer.iteration(repeated, place, &params))?;
            let mut changed = false;
            for (index, (&param, &v)) in params.iter().zip(&iteration.carried).enumerate() {
                let (before, after) = (self.builder.annotation(param), self.builder.annotation(v));
                if !self.builder.is_tensor(v)
                    || self.builder.dtype(param) != self.builder.dtype(v)
                    || self.builder.rank(param) != self.builder.rank(v)
                {
                    return unsupported(format!(
                        "a value that is {before} before and {after} after"
                    ));
                }
                for (axis, dim) in self.builder.dims(v).iter().enumerate() {
                    if open[index].contains(&axis) || self.builder.same(dim, &dims[index][axis]) {
                        continue;
                    }
                    let variable = self.builder.variable(None, Origin::Cast);
                    own.insert(variable.to_string());
                    dims[index][axis] = variable;
                    open[index].insert(axis);
                    changed = true;
                }
            }
            if !changed {
                return Ok(Step { place, params, open, own, iteration, lines });
            }
        }
        unsupported("a loop that changes too many dims of what it carries")
    }

    /// The type of what the function gives for a carried value or for those of all iterations.
    fn declared(&self, v: V, open: bool, more: usize) -> Annotation {
        let dtype = Some(self.builder.dtype(v));
        let dims = self.builder.dims(v);
        let extents =
            if open || more > 0 { Extents::Rank(dims.len() + more) } else { Extents::Known(dims) };
        Annotation::Tensor(TensorType { extents, dtype })
    }

    /// A value that nothing is known of but its type.
    fn computed_like(&mut self, v: V) -> V {
        let (dims, dtype) = (self.builder.dims(v), self.builder.dtype(v));
        self.builder.add(dims, dtype, Content::Computed)
    }

    /// `def iterate(first, last, more, carried…)`
    fn defined(
        &mut self,
        name: &str,
        step: Step,
        certain: bool,
        locals: BTreeSet<String>,
    ) -> Done<()> {
        let integer = |importer: &mut Self, hint: &str| {
            let v = importer.builder.add(Vec::new(), DType::I64, Content::Computed);
            importer.hint(Some(v), hint);
            v
        };
        let last = integer(self, "last");
        let more = (!certain).then(|| {
            let v = self.builder.add(Vec::new(), DType::Bool, Content::Computed);
            self.hint(Some(v), "more");
            v
        });
        let head = Head { first: step.place, last, more };
        let mut results = Vec::new();
        results.extend(more.map(|_| Annotation::tensor(Vec::new(), DType::Bool)));
        let carried = step.params.iter().zip(&step.open);
        results.extend(carried.map(|(&v, open)| self.declared(v, !open.is_empty(), 0)));
        results.extend(step.iteration.scanned.iter().map(|&v| self.declared(v, false, 1)));
        let mut targets: Vec<V> = more.iter().map(|&v| self.computed_like(v)).collect();
        targets.extend(step.params.iter().map(|&v| self.computed_like(v)).collect::<Vec<_>>());
        let scanned = step.iteration.scanned.clone();
        targets.extend(scanned.iter().map(|&v| self.computed_like(v)).collect::<Vec<_>>());
        let mut params = vec![head.first, head.last];
        params.extend(more);
        params.extend(&step.params);
        let ((), lines) = self.apart(|importer| importer.body(name, &head, step, &targets))?;
        let name = name.to_owned();
        let function = Line::Define { name, params, results, locals, lines, returns: targets };
        self.builder.lines.push(function);
        Ok(())
    }

    /// Nothing to do, one iteration, or two halves.
    fn body(&mut self, name: &str, head: &Head, step: Step, targets: &[V]) -> Done<()> {
        let Head { first, last, more } = *head;
        let mut some = self.builder.call("less", &[first.into(), last.into()])?;
        if let Some(more) = more {
            some = self.builder.call("logical_and", &[some.into(), more.into()])?;
        }
        let (none, none_lines) = self.apart(|importer| importer.no_iteration(more, &step))?;
        let (halves, halves_lines) =
            self.apart(|importer| importer.halves(name, head, &step, targets))?;
        let (single, single_lines) = self.apart(|importer| {
            let count = importer.builder.call("subtract", &[last.into(), first.into()])?;
            importer
                .builder
                .call("less_equal", &[count.into(), Arg::Scalar(DType::I64, Number::Int(1))])
        })?;
        let (one, mut one_lines) = self.apart(|importer| importer.one(more, step))?;
        let alias = |lines: &mut Vec<Line>, from: &[V]| {
            let pairs = targets.iter().zip(from);
            lines.extend(pairs.map(|(&target, &from)| Line::Alias { target, from }));
        };
        let (mut then, mut otherwise) = (single_lines, halves_lines);
        alias(&mut one_lines, &one);
        alias(&mut otherwise, &halves);
        then.push(Line::If { condition: single, then: one_lines, otherwise });
        let mut otherwise = none_lines;
        alias(&mut otherwise, &none);
        self.builder.lines.push(Line::If { condition: some, then, otherwise });
        Ok(())
    }

    fn no_iteration(&mut self, more: Option<V>, step: &Step) -> Done<Vec<V>> {
        let mut values: Vec<V> = more.into_iter().chain(step.params.iter().copied()).collect();
        for &v in &step.iteration.scanned {
            let mut dims = self.builder.dims(v);
            dims.insert(0, Dim::Int(0));
            let dtype = self.builder.dtype(v);
            values.push(self.builder.call("zeros", &[Arg::Shape(dims), dtype.into()])?);
        }
        Ok(values)
    }

    fn one(&mut self, more: Option<V>, step: Step) -> Done<Vec<V>> {
        self.builder.lines.extend(step.lines);
        let Iteration { condition, carried, scanned } = step.iteration;
        let mut values: Vec<V> = more.and(condition).into_iter().chain(carried).collect();
        for v in scanned {
            values.push(self.builder.call("expand_dims", &[v.into(), key("axis", vec![0_i64])])?);
        }
        Ok(values)
    }

    fn halves(&mut self, name: &str, head: &Head, step: &Step, targets: &[V]) -> Done<Vec<V>> {
        let Head { first, last, .. } = *head;
        let count = self.builder.call("subtract", &[last.into(), first.into()])?;
        let two = Arg::Scalar(DType::I64, Number::Int(2));
        let half = self.builder.call("floor_divide", &[count.into(), two])?;
        let middle = self.builder.call("add", &[first.into(), half.into()])?;
        let given = targets.len() - step.iteration.scanned.len();
        let mut state: Vec<V> = head.more.into_iter().chain(step.params.iter().copied()).collect();
        let mut scans = Vec::new();
        for (from, to) in [(first, middle), (middle, last)] {
            let results: Vec<V> = targets.iter().map(|&v| self.computed_like(v)).collect();
            let mut args = vec![from, to];
            args.extend(&state);
            let function = name.to_owned();
            self.builder.lines.push(Line::Apply { targets: results.clone(), function, args });
            scans.push(results[given..].to_vec());
            state = results[..given].to_vec();
        }
        for (&a, &b) in scans[0].iter().zip(&scans[1]) {
            let both = self.computed_like(a);
            self.builder.lines.push(Line::Call {
                targets: vec![both],
                operator: "concat".to_owned(),
                args: vec![Arg::Many(vec![a, b]), key("axis", 0_i64)],
            });
            state.push(both);
        }
        Ok(state)
    }

    /// The call of the function, and casts of what it leaves open.
    #[allow(clippy::too_many_arguments)] // the parts of a step, most of which the function took
    fn called(
        &mut self,
        repeated: &Repeated,
        name: &str,
        certain: bool,
        carried: &[V],
        open: &[BTreeSet<usize>],
        scanned: &[V],
        own: &BTreeSet<String>,
    ) -> Done<Vec<V>> {
        let integer = |value: i64| Tensor::scalar(DType::I64, Number::Int(value.into()));
        let mut args = vec![self.builder.constant(integer(0))];
        let mut last = match repeated.trip {
            Some(trip) => trip,
            None => self.builder.constant(integer(i64::MAX)),
        };
        let begins = repeated.condition.is_none_or(|v| self.is_true(v));
        let certain_count = (certain && begins).then(|| self.builder.elements(last)).flatten();
        let yes = self.builder.constant(Tensor::scalar(DType::Bool, Number::Int(1)));
        let condition = repeated.condition.unwrap_or(yes);
        if certain && !begins {
            let zero = Arg::Scalar(DType::I64, Number::Int(0));
            last = self.builder.call("where", &[condition.into(), last.into(), zero])?;
        }
        args.push(last);
        args.extend((!certain).then_some(condition));
        args.extend(&repeated.carried);
        let mut targets = Vec::new();
        let mut results = Vec::new();
        let mut casts = Vec::new();
        if !certain {
            targets.push(self.computed_like(yes));
        }
        let shared = |dim: &Dim| dim.vars_all(&|name| !own.contains(name.as_str()));
        let count = certain_count.and_then(|count| count.first().cloned());
        let count = count.filter(|count| self.builder.at_least(count, 0));
        let all = carried.iter().zip(open.iter().map(|open| (!open.is_empty(), false)));
        let all = all.chain(scanned.iter().map(|v| (v, (true, true))));
        for (&v, (is_open, is_scan)) in all.collect::<Vec<_>>() {
            let target = self.computed_like(v);
            targets.push(target);
            if !is_open {
                results.push(target);
                continue;
            }
            let mut dims: Vec<Option<Dim>> =
                self.builder.dims(v).into_iter().map(|dim| shared(&dim).then_some(dim)).collect();
            if is_scan {
                dims.insert(0, count.clone());
            }
            let dims = dims
                .into_iter()
                .map(|dim| dim.unwrap_or_else(|| self.builder.variable(None, Origin::Cast)));
            let dims: Vec<Dim> = dims.collect();
            let dtype = self.builder.dtype(v);
            let cast = self.builder.add(dims, dtype, Content::Computed);
            casts.push(Line::Cast { target: cast, from: target });
            results.push(cast);
        }
        self.builder.lines.push(Line::Apply { targets, function: name.to_owned(), args });
        self.builder.lines.extend(casts);
        Ok(results)
    }
}
