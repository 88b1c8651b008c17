//! `Scan`: a loop over slices of tensors. Before operator set 9 it has a batch, of which each element is
//! scanned on its own.

use super::graph;
use super::repeat::{Kind, Repeated, Slices};
use crate::argument::{Arg, key};
use crate::builder::{Content, Line, V};
use crate::graph::{Importer, Scope};
use crate::proto;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::ops::normalize_axis;
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// The first version without a batch.
const UNBATCHED: i64 = 9;
/// The largest batch that is unrolled.
const BATCH: i64 = 64;

impl Importer<'_> {
    pub(super) fn scan(
        &mut self,
        node: &proto::Node,
        inputs: &[Option<V>],
        scope: &Scope,
    ) -> Done<Vec<V>> {
        if self.opset >= UNBATCHED {
            let inputs = inputs.iter().copied().collect::<Option<Vec<V>>>();
            let inputs =
                inputs.ok_or_else(|| Reason::Invalid("an input is left out".to_owned()))?;
            return self.one_scan(node, &inputs, scope);
        }
        if inputs.first().is_some_and(Option::is_some) {
            return unsupported("lengths of sequences");
        }
        let inputs = inputs.get(1..).unwrap_or_default().iter().copied();
        let inputs = inputs.collect::<Option<Vec<V>>>();
        let inputs = inputs.ok_or_else(|| Reason::Invalid("an input is left out".to_owned()))?;
        let batch = inputs.first().and_then(|&v| self.builder.dims(v).first()?.as_int());
        let Some(batch) = batch.filter(|batch| (1..=BATCH).contains(batch)) else {
            return unsupported(format!("a batch that is symbolic, empty, or larger than {BATCH}"));
        };
        let mut all: Vec<Vec<V>> = Vec::new();
        for place in 0..batch {
            let mut row = Vec::new();
            for &v in &inputs {
                let place = Arg::Scalar(DType::I64, Number::Int(place.into()));
                row.push(self.builder.call("take", &[v.into(), place, key("axis", 0_i64)])?);
            }
            let results = self.one_scan(node, &row, scope)?;
            all.resize(results.len(), Vec::new());
            all.iter_mut().zip(results).for_each(|(all, v)| all.push(v));
        }
        let stacked = all.into_iter();
        stacked.map(|all| self.builder.call("stack", &[all.into(), key("axis", 0_i64)])).collect()
    }

    fn one_scan(&mut self, node: &proto::Node, inputs: &[V], scope: &Scope) -> Done<Vec<V>> {
        let graph = graph(node, "body")?;
        let count = node.named("num_scan_inputs").and_then(|a| a.i).unwrap_or(0);
        let count = usize::try_from(count).ok().filter(|&count| count > 0 && count <= inputs.len());
        let Some(count) = count else { return invalid("`num_scan_inputs` is wrong") };
        let ints = |name: &str, place: usize| {
            node.named(name).and_then(|a| a.ints.get(place).copied()).unwrap_or(0)
        };
        let old = |name: &'static str| if self.opset < UNBATCHED { "directions" } else { name };
        let (carried, tensors) = inputs.split_at(inputs.len() - count);
        let directions = old("scan_input_directions");
        let mut slices = Vec::new();
        let mut length: Option<Dim> = None;
        for (place, &v) in tensors.iter().enumerate() {
            let rank = self.builder.rank(v);
            let axis = normalize_axis(ints("scan_input_axes", place), rank);
            let axis = axis.ok_or_else(|| Reason::Invalid("an axis is out of range".to_owned()))?;
            let extent = length.get_or_insert_with(|| self.builder.dims(v)[axis].clone()).clone();
            let of = self.of_length(v, axis, &extent);
            slices.push(Slices { of, axis, extent, reversed: ints(directions, place) != 0 });
        }
        let length = length.expect("invariant: there is one tensor at least");
        let trip = Some(self.builder.integers(vec![length], 0, DType::I64));
        let mut scope = scope.clone();
        self.initializers(graph, &mut scope)?;
        let (carried, kind) = (carried.to_vec(), Kind::Scan(slices));
        let fixed = carried.len();
        let repeated = Repeated { graph, scope, trip, condition: None, carried, kind };
        let mut results = self.repeated(&repeated)?;
        for (place, v) in results.iter_mut().skip(fixed).enumerate() {
            let axis = ints("scan_output_axes", place);
            *v = self.placed(*v, axis, ints("scan_output_directions", place) != 0)?;
        }
        Ok(results)
    }

    /// All tensors have slices for each iteration.
    fn of_length(&mut self, v: V, axis: usize, length: &Dim) -> V {
        let mut dims = self.builder.dims(v);
        if self.builder.same(&dims[axis], length) {
            return v;
        }
        dims[axis] = length.clone();
        let dtype = self.builder.dtype(v);
        let target = self.builder.add(dims, dtype, Content::Computed);
        self.builder.lines.push(Line::Cast { target, from: v });
        target
    }

    /// The values of all iterations, along the axis and in the order that is wanted.
    fn placed(&mut self, mut v: V, axis: i64, reversed: bool) -> Done<V> {
        let rank = self.builder.rank(v);
        let axis = normalize_axis(axis, rank);
        let axis = axis.ok_or_else(|| Reason::Invalid("an axis is out of range".to_owned()))?;
        if reversed {
            v = self.builder.call("flip", &[v.into(), key("axis", 0_i64)])?;
        }
        if axis > 0 {
            let mut axes: Vec<i64> = (1..rank as i64).collect();
            axes.insert(axis, 0);
            v = self.builder.call("permute_dims", &[v.into(), key("axes", axes)])?;
        }
        Ok(v)
    }
}
