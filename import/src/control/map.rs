//! `SequenceMap`: a graph for each element of lists.

use super::graph;
use crate::builder::{Content, V};
use crate::graph::{Importer, Scope};
use crate::proto;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dtype::DType;

impl Importer<'_> {
    pub(super) fn map(
        &mut self,
        node: &proto::Node,
        inputs: &[Option<V>],
        scope: &Scope,
    ) -> Done<Vec<V>> {
        let graph = graph(node, "body")?;
        let inputs = inputs.iter().copied().collect::<Option<Vec<V>>>();
        let inputs = inputs.ok_or_else(|| Reason::Invalid("an input is left out".to_owned()))?;
        if inputs.is_empty() || inputs.len() != graph.input.len() {
            return invalid(format!("its graph takes {} values", graph.input.len()));
        }
        let items = |importer: &Self, v: V| match &importer.builder.info(v).content {
            Content::Sequence(items) => Some(items.clone()),
            _ => None,
        };
        let Some(first) = items(self, inputs[0]) else {
            return unsupported("a list of unknown length");
        };
        let mut outer = scope.clone();
        self.initializers(graph, &mut outer)?;
        let mut lists: Vec<Vec<V>> = vec![Vec::new(); graph.output.len()];
        for place in 0..first.len() {
            let mut scope = outer.clone();
            for (&v, info) in inputs.iter().zip(&graph.input) {
                let value = match items(self, v) {
                    Some(items) => items.get(place).copied(),
                    None => Some(v),
                };
                let Some(value) = value else { return invalid("lists of different lengths") };
                scope.insert(info.name.clone().unwrap_or_default(), Some(value));
            }
            let results = self.computed(graph, scope)?;
            lists.iter_mut().zip(results).for_each(|(list, v)| list.push(v));
        }
        let add = |list| self.builder.add(Vec::new(), DType::F32, Content::Sequence(list));
        Ok(lists.into_iter().map(add).collect())
    }
}
