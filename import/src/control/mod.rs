//! Operators that have graphs of their own: branches, loops, and what maps lists.

mod branch;
mod map;
pub(crate) mod recurrent;
mod recursion;
mod repeat;
mod scan;

use crate::builder::{Line, V};
use crate::graph::{Importer, Scope};
use crate::proto;
use crate::reason::{Done, Reason};

/// As the importers of other operators, with what the names around mean.
type Control =
    for<'a, 'm> fn(&'a mut Importer<'m>, &proto::Node, &[Option<V>], &Scope) -> Done<Vec<V>>;

/// Their names.
pub(crate) const NAMES: &[&str] = &["If", "Loop", "Scan", "SequenceMap"];

/// The importer of a node that has graphs.
pub(crate) fn importer(node: &proto::Node) -> Option<Control> {
    if !matches!(node.domain.as_deref(), None | Some("" | "ai.onnx")) {
        return None;
    }
    Some(match node.op_type.as_deref()? {
        "If" => |importer, node, inputs, scope| importer.branch(node, inputs, scope),
        "Loop" => |importer, node, inputs, scope| importer.repeat(node, inputs, scope),
        "Scan" => |importer, node, inputs, scope| importer.scan(node, inputs, scope),
        "SequenceMap" => |importer, node, inputs, scope| importer.map(node, inputs, scope),
        _ => return None,
    })
}

/// The graph of that name.
fn graph<'n>(node: &'n proto::Node, name: &str) -> Done<&'n proto::Graph> {
    let graph = node.named(name).and_then(|attribute| attribute.g.as_ref());
    graph.ok_or_else(|| Reason::Invalid(format!("`{name}` is missing")))
}

impl Importer<'_> {
    /// What `make` gives, and the lines that it wrote, which are taken out.
    fn apart<T>(&mut self, make: impl FnOnce(&mut Self) -> Done<T>) -> Done<(T, Vec<Line>)> {
        let outer = std::mem::take(&mut self.builder.lines);
        let made = make(self);
        let lines = std::mem::replace(&mut self.builder.lines, outer);
        Ok((made?, lines))
    }

    /// The outputs of a graph whose inputs are in the scope.
    fn computed(&mut self, graph: &proto::Graph, mut scope: Scope) -> Done<Vec<V>> {
        // What was copied to come here counts as well, so that loops within loops end.
        self.count(1 + scope.len() / 16)?;
        self.nested(&graph.node, &mut scope)?;
        let outputs = self.outputs(graph, &scope)?;
        outputs
            .into_iter()
            .collect::<Option<Vec<V>>>()
            .ok_or_else(|| Reason::Unsupported("a graph of which a part is missing".to_owned()))
    }
}
