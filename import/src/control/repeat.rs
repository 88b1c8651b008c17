//! `Loop`: unrolled where its few iterations are known, else a function that calls itself.

use super::graph;
use crate::argument::{Arg, key};
use crate::builder::{Content, Line, V};
use crate::graph::{Importer, Scope};
use crate::proto;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// Iterations that are always unrolled.
const FEW: i64 = 8;
/// Iterations that are unrolled where there is no other way.
const MOST: i64 = 4096;

/// What is repeated.
pub(super) struct Repeated<'g> {
    pub(super) graph: &'g proto::Graph,
    /// What the names mean to the graph, but for its inputs.
    pub(super) scope: Scope,
    /// How many times at most, an i64 of rank 0.
    pub(super) trip: Option<V>,
    /// Whether there is a first iteration; none: yes.
    pub(super) condition: Option<V>,
    /// The values that go from iteration to iteration, before the first.
    pub(super) carried: Vec<V>,
    pub(super) kind: Kind,
}

/// Which operator it is.
pub(super) enum Kind {
    /// The graph is given the number of the iteration and a condition, and gives a condition.
    Loop,
    /// The graph is given one slice of each of these.
    Scan(Vec<Slices>),
}

/// A tensor of which each iteration sees a slice.
pub(super) struct Slices {
    pub(super) of: V,
    pub(super) axis: usize,
    pub(super) extent: Dim,
    pub(super) reversed: bool,
}

/// What one iteration gives.
pub(super) struct Iteration {
    /// Whether there is a next one; none: yes.
    pub(super) condition: Option<V>,
    pub(super) carried: Vec<V>,
    pub(super) scanned: Vec<V>,
}

impl Importer<'_> {
    pub(super) fn repeat(
        &mut self,
        node: &proto::Node,
        inputs: &[Option<V>],
        scope: &Scope,
    ) -> Done<Vec<V>> {
        let graph = graph(node, "body")?;
        let mut scope = scope.clone();
        self.initializers(graph, &mut scope)?;
        let scalar = |importer: &mut Self, index: usize| {
            let input = inputs.get(index).copied().flatten();
            input.map(|v| importer.scalar(v)).transpose()
        };
        let (trip, condition) = (scalar(self, 0)?, scalar(self, 1)?);
        let carried = inputs.get(2..).unwrap_or_default().iter().copied();
        let carried = carried.collect::<Option<Vec<V>>>();
        let carried = carried.ok_or_else(|| Reason::Invalid("a value is left out".to_owned()))?;
        let kind = Kind::Loop;
        self.repeated(&Repeated { graph, scope, trip, condition, carried, kind })
    }

    /// The one element of a tensor.
    fn scalar(&mut self, v: V) -> Done<V> {
        if self.builder.rank(v) == 0 {
            return Ok(v);
        }
        match self.builder.elements(v).as_deref() {
            Some([one]) => Ok(self.builder.integers(vec![one.clone()], 0, self.builder.dtype(v))),
            _ => self.builder.call("reshape", &[v.into(), Arg::Shape(Vec::new())]),
        }
    }

    pub(super) fn repeated(&mut self, repeated: &Repeated) -> Done<Vec<V>> {
        let count = self.iterations(repeated);
        let lists = repeated.carried.iter().any(|&v| !self.builder.is_tensor(v));
        let (missing, needs) = (self.missing.clone(), self.needs.clone());
        let before = self.builder.lines.len();
        let few = count.filter(|&count| count <= FEW || lists);
        if let Some(count) = few {
            let unrolled = self.unrolled(repeated, count);
            if unrolled.is_ok() || lists {
                return unrolled;
            }
        } else if lists {
            return Err(self.unknown_count(repeated));
        }
        (self.missing, self.needs) = (missing.clone(), needs.clone());
        self.builder.lines.truncate(before);
        let called = self.recursive(repeated);
        if called.is_ok() {
            return called;
        }
        // Unrolled, each iteration may have shapes of its own.
        match (count, self.unknown_count(repeated)) {
            (Some(count), _) if few.is_none() => {
                (self.missing, self.needs) = (missing, needs);
                self.builder.lines.truncate(before);
                self.unrolled(repeated, count)
            }
            (None, Reason::Needs(input)) => {
                (self.missing, self.needs) = (missing, needs);
                Err(Reason::Needs(input))
            }
            _ => called,
        }
    }

    /// How many iterations there are, at most, where that is known.
    fn iterations(&self, repeated: &Repeated) -> Option<i64> {
        if let Some(condition) = repeated.condition
            && self.builder.tensor(condition)?.number(0).as_f64() == 0.0
        {
            return Some(0);
        }
        match repeated.trip {
            Some(trip) => self.builder.elements(trip)?.first()?.as_int(),
            None => Some(i64::MAX),
        }
    }

    fn unknown_count(&self, repeated: &Repeated) -> Reason {
        let open = |v: &V| self.builder.tensor(*v).is_none();
        let unknown = repeated.trip.filter(open).or(repeated.condition.filter(open));
        match unknown {
            Some(v) => self.builder.unknown(v, "the number of iterations"),
            None => Reason::Unsupported("a loop over lists that does not end by itself".to_owned()),
        }
    }

    fn unrolled(&mut self, repeated: &Repeated, count: i64) -> Done<Vec<V>> {
        let mut carried = repeated.carried.clone();
        let mut scans: Vec<Vec<V>> = Vec::new();
        for place in 0..count {
            if place >= MOST {
                return unsupported(format!("a loop of more than {MOST} iterations, unrolled"));
            }
            let place = Tensor::scalar(DType::I64, Number::Int(place.into()));
            let place = self.builder.constant(place);
            let next = self.iteration(repeated, place, &carried)?;
            carried = next.carried;
            scans.resize(next.scanned.len(), Vec::new());
            scans.iter_mut().zip(next.scanned).for_each(|(scan, v)| scan.push(v));
            let Some(condition) = next.condition else { continue };
            let Some(known) = self.builder.tensor(condition) else {
                return unsupported("a loop over lists whose end only the run knows");
            };
            if known.number(0).as_f64() == 0.0 {
                break;
            }
        }
        let mut results = carried;
        for index in results.len()..self.given(repeated) {
            let scan = scans.get(index - repeated.carried.len());
            results.push(match scan {
                Some(items) if items.iter().any(|&v| !self.builder.is_tensor(v)) => {
                    return unsupported("lists as values of each iteration");
                }
                Some(items) => {
                    self.builder.call("stack", &[items.clone().into(), key("axis", 0_i64)])?
                }
                None => self.nothing(repeated, index)?,
            });
        }
        Ok(results)
    }

    /// How many values the loop gives.
    fn given(&self, repeated: &Repeated) -> usize {
        let condition = usize::from(matches!(repeated.kind, Kind::Loop));
        repeated.graph.output.len().saturating_sub(condition)
    }

    /// The values of no iteration: their dims are those that the graph declares.
    fn nothing(&mut self, repeated: &Repeated, index: usize) -> Done<V> {
        let condition = usize::from(matches!(repeated.kind, Kind::Loop));
        let declared = repeated.graph.output.get(index + condition);
        let tensor = declared.and_then(|info| info.r#type.as_ref()?.tensor_type.clone());
        let dtype = crate::elements::dtype(tensor.as_ref().and_then(|t| t.elem_type).unwrap_or(0))?;
        let dims = tensor.and_then(|tensor| tensor.shape).map(|shape| shape.dim);
        let extents = dims.and_then(|dims| dims.iter().map(|dim| dim.dim_value).collect());
        let extents: Vec<i64> = extents
            .ok_or_else(|| Reason::Unsupported("no iteration, and no declared dims".to_owned()))?;
        let dims = std::iter::once(0).chain(extents).map(Dim::Int).collect();
        self.builder.call("zeros", &[Arg::Shape(dims), dtype.into()])
    }

    /// One iteration: its lines are written where the program stands.
    pub(super) fn iteration(
        &mut self,
        repeated: &Repeated,
        place: V,
        carried: &[V],
    ) -> Done<Iteration> {
        let mut given = Vec::new();
        match &repeated.kind {
            Kind::Loop => {
                // An iteration is only run where the condition holds.
                given.push(place);
                given.push(self.builder.constant(Tensor::scalar(DType::Bool, Number::Int(1))));
                given.extend(carried);
            }
            Kind::Scan(slices) => {
                given.extend(carried);
                for slices in slices {
                    given.push(self.slice(slices, place)?);
                }
            }
        }
        if given.len() != repeated.graph.input.len() {
            return invalid(format!(
                "its graph takes {} values, and is given {}",
                repeated.graph.input.len(),
                given.len()
            ));
        }
        let mut scope = repeated.scope.clone();
        for (input, &v) in repeated.graph.input.iter().zip(&given) {
            let name = input.name.clone().unwrap_or_default();
            self.hint(Some(v), &name);
            scope.insert(name, Some(v));
        }
        let mut results = self.computed(repeated.graph, scope)?;
        for (v, declared) in results.iter_mut().zip(&repeated.graph.output) {
            *v = self.promised(*v, declared)?;
        }
        self.sorted(repeated, results)
    }

    fn sorted(&mut self, repeated: &Repeated, mut results: Vec<V>) -> Done<Iteration> {
        let condition = match repeated.kind {
            Kind::Loop if results.is_empty() => return invalid("its graph gives no condition"),
            Kind::Loop => Some(results.remove(0)),
            Kind::Scan(_) => None,
        };
        let condition = condition.map(|v| self.scalar(v)).transpose()?;
        let count = repeated.carried.len();
        if results.len() < count {
            return invalid(format!("its graph gives {} values, of {count}", results.len()));
        }
        let scanned = results.split_off(count);
        Ok(Iteration { condition, carried: results, scanned })
    }

    fn slice(&mut self, slices: &Slices, place: V) -> Done<V> {
        let place = if slices.reversed {
            let last = Dim::op(relax_syntax::dim::DimOp::Sub, slices.extent.clone(), Dim::Int(1));
            let last = self.builder.integers(vec![last], 0, DType::I64);
            self.builder.call("subtract", &[last.into(), place.into()])?
        } else {
            place
        };
        self.builder.call("take", &[slices.of.into(), place.into(), key("axis", slices.axis)])
    }

    /// With the numbers that the model declares for dims of the value.
    fn promised(&mut self, v: V, declared: &proto::ValueInfo) -> Done<V> {
        let tensor = declared.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
        let Some(shape) = tensor.and_then(|tensor| tensor.shape.as_ref()) else { return Ok(v) };
        let mut dims = self.builder.dims(v);
        if !self.builder.is_tensor(v) || shape.dim.len() != dims.len() {
            return Ok(v);
        }
        let mut news = false;
        for (dim, declared) in dims.iter_mut().zip(&shape.dim) {
            if let (None, Some(extent)) = (dim.as_int(), declared.dim_value) {
                *dim = Dim::Int(extent.max(0));
                news = true;
            }
        }
        if !news {
            return Ok(v);
        }
        let dtype = self.builder.dtype(v);
        let target = self.builder.add(dims, dtype, Content::Computed);
        self.builder.lines.push(Line::Cast { target, from: v });
        Ok(target)
    }
}
