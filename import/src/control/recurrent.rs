//! `RNN`, `GRU` and `LSTM` over a sequence that is symbolic or long: a scan whose graph is the operator itself, over a
//! sequence of one step.

use super::repeat::{Kind, Repeated, Slices};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::graph::{Importer, Scope};
use crate::operators::MOST_STEPS;
use crate::proto;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::Dim;

/// Inputs of the operators by place; the states are in front of the peepholes.
const NAMES: [&str; 8] = ["step", "w", "r", "b", "", "h", "c", "p"];

/// Attributes that are about the sequence as a whole, or of each direction.
const OUTER: &[&str] = &["direction", "layout", "activations"];

/// Whether a node is a recurrent network over more steps than are unrolled.
pub(crate) fn is_long(importer: &Importer, node: &proto::Node, inputs: &[Option<V>]) -> bool {
    let name = node.op_type.as_deref().unwrap_or_default();
    let Some(Some(x)) = inputs.first() else { return false };
    let dims = importer.builder.dims(*x);
    let axis = usize::from(int(node, "layout") == 1);
    matches!(name, "RNN" | "GRU" | "LSTM")
        && dims.len() == 3
        && dims[axis].as_int().is_none_or(|steps| steps > MOST_STEPS)
}

fn int(node: &proto::Node, name: &str) -> i64 {
    node.named(name).and_then(|attribute| attribute.i).unwrap_or(0)
}

impl Importer<'_> {
    pub(crate) fn recurrent(&mut self, node: &proto::Node, inputs: &[Option<V>]) -> Done<Vec<V>> {
        let given = |place: usize| inputs.get(place).copied().flatten();
        if given(4).is_some() {
            return unsupported("lengths of sequences where a sequence is symbolic or long");
        }
        let batch_first = int(node, "layout") == 1;
        let direction = node.named("direction").and_then(|attribute| attribute.s.as_deref());
        let directions: &[bool] = match direction {
            None | Some(b"forward") => &[false],
            Some(b"reverse") => &[true],
            Some(b"bidirectional") => &[false, true],
            Some(_) => return invalid("`direction` is none of the three"),
        };
        let x = given(0).ok_or_else(|| Reason::Invalid("input 0 is missing".to_owned()))?;
        let x = if batch_first { self.swapped(x, &[1, 0, 2])? } else { x };
        let (mut all, mut ends) = (Vec::new(), vec![Vec::new(), Vec::new()]);
        for (place, &reversed) in directions.iter().enumerate() {
            let results =
                self.one_direction(node, inputs, x, place as i64, reversed, batch_first)?;
            let (steps, states) = results.split_last().expect("invariant: a scan gives its steps");
            all.push(if reversed { self.flipped(*steps)? } else { *steps });
            ends.iter_mut().zip(states).for_each(|(ends, &state)| ends.push(state));
        }
        // (steps, directions, b, h), or batches first: (b, steps, directions, h).
        let y = self.builder.call("stack", &[all.into(), key("axis", 1_i64)])?;
        let mut outputs = vec![if batch_first { self.swapped(y, &[2, 0, 1, 3])? } else { y }];
        for ends in ends.into_iter().filter(|ends| !ends.is_empty()) {
            let axis = i64::from(batch_first);
            outputs.push(self.builder.call("stack", &[ends.into(), key("axis", axis)])?);
        }
        Ok(outputs)
    }

    /// The states at the end, and those of all steps in the order in which they were computed.
    #[allow(clippy::too_many_arguments)] // a node as it is given, and which part of it
    fn one_direction(
        &mut self,
        node: &proto::Node,
        inputs: &[Option<V>],
        x: V,
        direction: i64,
        reversed: bool,
        batch_first: bool,
    ) -> Done<Vec<V>> {
        let given = |place: usize| inputs.get(place).copied().flatten();
        // Its names are those of the graph that is made here, and none of the model's.
        let mut scope = Scope::new();
        let mut kept = vec![0];
        for place in [1, 2, 3, 7] {
            let Some(weight) = given(place) else { continue };
            let weight = self.part(weight, 0, direction)?;
            scope.insert(NAMES[place].to_owned(), Some(weight));
            kept.push(place);
        }
        let recurrence =
            given(2).ok_or_else(|| Reason::Invalid("input 2 is missing".to_owned()))?;
        let (dims, hidden) = (self.builder.dims(x), self.builder.dims(recurrence)[2].clone());
        let mut carried = Vec::new();
        let is_lstm = node.op_type.as_deref() == Some("LSTM");
        for place in if is_lstm { vec![5, 6] } else { vec![5] } {
            kept.push(place);
            carried.push(match given(place) {
                Some(state) => {
                    let axis = i64::from(batch_first);
                    let state = self.part(state, axis, direction)?;
                    self.builder.call("squeeze", &[state.into(), key("axis", vec![axis])])?
                }
                None => {
                    let shape = Arg::Shape(vec![dims[1].clone(), hidden.clone()]);
                    let dtype = self.builder.dtype(x);
                    self.builder.call("zeros", &[shape, dtype.into()])?
                }
            });
        }
        let graph = body(node, &kept);
        let extent: Dim = dims[0].clone();
        let trip =
            Some(self.builder.integers(vec![extent.clone()], 0, relax_syntax::dtype::DType::I64));
        let kind = Kind::Scan(vec![Slices { of: x, axis: 0, extent, reversed }]);
        self.repeated(&Repeated { graph: &graph, scope, trip, condition: None, carried, kind })
    }

    /// The slice of that place along an axis, which stays with extent 1.
    fn part(&mut self, v: V, axis: i64, place: i64) -> Done<V> {
        let bounds = [vec![axis], vec![place], vec![place + 1]].map(Arg::from);
        let [axes, begin, end] = bounds;
        self.builder.call("strided_slice", &[v.into(), axes, begin, end])
    }

    fn swapped(&mut self, v: V, axes: &[i64]) -> Done<V> {
        self.builder.call("permute_dims", &[v.into(), key("axes", axes)])
    }

    fn flipped(&mut self, v: V) -> Done<V> {
        self.builder.call("flip", &[v.into(), key("axis", 0_i64)])
    }
}

/// One step: states and a slice of the sequence in, states out, and what the step adds to the result.
fn body(node: &proto::Node, kept: &[usize]) -> proto::Graph {
    let states: &[&str] = if kept.contains(&6) { &["h", "c"] } else { &["h"] };
    let mut nodes = Vec::new();
    for name in states.iter().chain(&["step"]) {
        nodes.push(along_first("Unsqueeze", &format!("slice.{name}"), name));
    }
    let mut cell = proto::Node {
        output: ["y", "last.h", "last.c"][..states.len() + 1]
            .iter()
            .map(|&n| n.to_owned())
            .collect(),
        ..node.clone()
    };
    let name =
        |place: usize| if kept.contains(&place) { NAMES[place].to_owned() } else { String::new() };
    cell.input = (0..NAMES.len()).map(name).collect();
    let outer = |attribute: &proto::Attribute| {
        OUTER.contains(&attribute.name.as_deref().unwrap_or_default())
    };
    cell.attribute.retain(|attribute| !outer(attribute));
    // The usual activations, or those that the operator refuses: of one direction either way.
    cell.attribute.extend(node.named("activations").cloned());
    nodes.push(cell);
    for name in states {
        nodes.push(along_first("Squeeze", &format!("last.{name}"), &format!("next.{name}")));
    }
    let value = |name: String| proto::ValueInfo { name: Some(name), r#type: None };
    let inputs = states.iter().chain(&["step"]).map(|name| value(format!("slice.{name}")));
    let outputs = states.iter().map(|name| value(format!("next.{name}")));
    proto::Graph {
        node: nodes,
        input: inputs.collect(),
        output: outputs.chain([value("next.h".to_owned())]).collect(),
        ..proto::Graph::default()
    }
}

/// A node that adds or takes away a first dim of 1.
fn along_first(operator: &str, from: &str, to: &str) -> proto::Node {
    let axes =
        proto::Attribute { name: Some("axes".to_owned()), ints: vec![0], ..Default::default() };
    proto::Node {
        input: vec![from.to_owned()],
        output: vec![to.to_owned()],
        op_type: Some(operator.to_owned()),
        attribute: vec![axes],
        ..proto::Node::default()
    }
}
