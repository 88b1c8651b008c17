//! From a graph of nodes to the lines of a function: inputs become parameters, nodes are imported in
//! their order, and what cannot be imported is collected, so that all of it is told at once.

use crate::beside::Beside;
use crate::builder::{Builder, FOLDED, Line, V};
use crate::control;
use crate::model::Options;
use crate::node::Node;
use crate::operators;
use crate::proto;
use crate::reason::{Done, ImportError, Missing, Reason, invalid, unsupported};
use relax_syntax::dim::Dim;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Functions within functions, and graphs within graphs.
const DEEPEST: usize = 32;
/// Nodes after functions are put in their place.
const MOST_NODES: usize = 2_000_000;

/// What the names of a graph stand for; `None` for what could not be imported.
pub(crate) type Scope = BTreeMap<String, Option<V>>;

/// An import in progress.
pub(crate) struct Importer<'m> {
    pub(crate) builder: Builder,
    pub(crate) options: &'m Options,
    beside: Option<Beside<'m>>,
    functions: BTreeMap<(String, String), &'m proto::Function>,
    pub(crate) opset: i64,
    /// Nodes by operator, reason, and whether they break the format.
    pub(crate) missing: BTreeMap<(String, String, bool), Vec<String>>,
    pub(crate) needs: BTreeSet<String>,
    /// Inputs of which the model does not say enough.
    untyped: BTreeSet<String>,
    /// The first reason for which memory is missing.
    limit: Option<String>,
    pub(crate) notes: Vec<String>,
    depth: usize,
    nodes: usize,
    /// Dims of the model by name.
    pub(crate) named_dims: BTreeMap<String, Dim>,
}

impl<'m> Importer<'m> {
    pub(crate) fn new(
        model: &'m proto::Model,
        options: &'m Options,
        left: &'m Cell<u64>,
        opset: i64,
    ) -> Self {
        let functions = model.functions.iter().map(|function| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            ((text(&function.domain), text(&function.name)), function)
        });
        let mut builder = Builder::new();
        builder.names.fresh(&options.entry);
        Self {
            builder,
            options,
            beside: options.folder.as_deref().map(|folder| Beside { folder, left }),
            functions: functions.collect(),
            opset,
            missing: BTreeMap::new(),
            needs: BTreeSet::new(),
            untyped: BTreeSet::new(),
            limit: None,
            notes: Vec::new(),
            depth: 0,
            nodes: 0,
            named_dims: BTreeMap::new(),
        }
    }

    /// All of a model's graph: parameters and results.
    pub(crate) fn main(
        &mut self,
        graph: &'m proto::Graph,
    ) -> Result<(Vec<V>, Vec<V>), ImportError> {
        let mut scope = Scope::new();
        let (inputs, outputs) = self.parts(graph, &mut scope)?;
        if let Some(why) = self.limit.take() {
            return Err(ImportError::Limit(why));
        }
        if !self.missing.is_empty() {
            let missing = std::mem::take(&mut self.missing);
            let missing = missing.into_iter().map(|((operator, why, is_invalid), nodes)| Missing {
                operator,
                why,
                nodes,
                is_invalid,
            });
            return Err(ImportError::Unsupported(missing.collect()));
        }
        if !self.untyped.is_empty() {
            return Err(ImportError::Untyped(self.untyped.iter().cloned().collect()));
        }
        if !self.needs.is_empty() {
            return Err(ImportError::Needs(self.needs.iter().cloned().collect()));
        }
        let outputs = outputs.into_iter().collect::<Option<Vec<V>>>();
        let outputs = outputs.expect("invariant: an output without a value has a reason");
        Ok((inputs, outputs))
    }

    #[allow(clippy::type_complexity)] // parameters, and results where there are any
    fn parts(
        &mut self,
        graph: &'m proto::Graph,
        scope: &mut Scope,
    ) -> Done<(Vec<V>, Vec<Option<V>>)> {
        self.initializers(graph, scope)?;
        let mut inputs = Vec::new();
        for input in &graph.input {
            let name = input.name.clone().unwrap_or_default();
            // Older models list initializers among the inputs, as defaults.
            if scope.contains_key(&name) {
                continue;
            }
            let value = self.parameter(&name, input, &mut inputs);
            let value = self.noted("input", &name, value);
            scope.insert(name, value);
        }
        self.nested(&graph.node, scope)?;
        let outputs = self.outputs(graph, scope)?;
        for (output, value) in graph.output.iter().zip(&outputs) {
            let name = output.name.as_deref().unwrap_or_default();
            let note = value.and_then(|value| self.builder.note_narrow(&printable(name), value));
            self.notes.extend(note);
        }
        Ok((inputs, outputs))
    }

    pub(crate) fn initializers(&mut self, graph: &proto::Graph, scope: &mut Scope) -> Done<()> {
        if !graph.sparse_initializer.is_empty() {
            let tensors = vec!["sparse initializers".to_owned()];
            let what = ("initializer".to_owned(), "sparse tensors".to_owned(), false);
            self.missing.insert(what, tensors);
        }
        for tensor in &graph.initializer {
            let name = tensor.name.clone().unwrap_or_default();
            let beside = self.beside;
            let value = self.builder.constant_of(tensor, beside, FOLDED);
            let value = self.noted("initializer", &name, value);
            self.hint(value, &name);
            if scope.insert(name.clone(), value).is_some() {
                return invalid(format!("two values are named `{name}`"));
            }
        }
        Ok(())
    }

    pub(crate) fn hint(&mut self, value: Option<V>, name: &str) {
        if let Some(V(index)) = value {
            self.builder.values[index].hint.get_or_insert_with(|| name.to_owned());
        }
    }

    /// Notes why there is no value. What breaks the format is noted as well, so that it does not hide
    /// what is not supported.
    fn noted(&mut self, operator: &str, node: &str, value: Done<V>) -> Option<V> {
        value.map_err(|reason| self.note(operator, node, reason)).ok()
    }

    fn note(&mut self, operator: &str, node: &str, reason: Reason) {
        let is_invalid = matches!(reason, Reason::Invalid(_));
        match reason {
            Reason::Needs(input) => drop(self.needs.insert(input)),
            Reason::Untyped(input) => drop(self.untyped.insert(input)),
            Reason::Limit(why) => drop(self.limit.get_or_insert(why)),
            Reason::Unsupported(why) | Reason::Invalid(why) => {
                let what = (operator.to_owned(), why, is_invalid);
                self.missing.entry(what).or_default().push(node.to_owned());
            }
        }
    }

    pub(crate) fn outputs(&mut self, graph: &proto::Graph, scope: &Scope) -> Done<Vec<Option<V>>> {
        let mut outputs = Vec::new();
        for output in &graph.output {
            let name = output.name.clone().unwrap_or_default();
            let Some(value) = scope.get(&name) else {
                return invalid(format!("nothing computes the output `{name}`"));
            };
            outputs.push(value.map(|value| self.builder.unpacked(value)).transpose()?);
        }
        Ok(outputs)
    }

    fn node(&mut self, node: &proto::Node, scope: &mut Scope) -> Done<()> {
        let operator = qualified(node);
        let mut inputs = Vec::new();
        let mut lost = false;
        for name in &node.input {
            match scope.get(name) {
                _ if name.is_empty() => inputs.push(None),
                Some(Some(value)) => inputs.push(Some(*value)),
                Some(None) => lost = true,
                None => {
                    return invalid(format!(
                        "the node `{}` reads `{name}`, which nothing before it computes: the graph \
                         is cyclic, or its nodes are out of order",
                        shown(node)
                    ));
                }
            }
        }
        let before = self.builder.lines.len();
        let results = if !operators::is_known(node) && !self.is_function(node) {
            Err(Reason::Unsupported("this operator is not imported".to_owned()))
        } else if lost {
            return self.define(node, &[], scope);
        } else {
            self.results(node, inputs, scope)
        };
        match results {
            Ok(values) => {
                self.comment(node, before);
                self.define(node, &values, scope)
            }
            Err(reason) => {
                self.builder.lines.truncate(before);
                self.note(&operator, &shown(node), reason);
                self.define(node, &[], scope)
            }
        }
    }

    /// Says which node lines come from.
    fn comment(&mut self, node: &proto::Node, before: usize) {
        if self.builder.lines.len() > before && !self.is_function(node) {
            let name = node.name.as_deref().filter(|name| !name.is_empty());
            let name = name.map_or_else(String::new, |name| format!(" {}", printable(name)));
            let text = format!("{}{name}", printable(&qualified(node)));
            self.builder.lines.insert(before, Line::Comment(text));
        }
    }

    /// Gives the outputs of a node their values, or none.
    fn define(&mut self, node: &proto::Node, values: &[V], scope: &mut Scope) -> Done<()> {
        for (index, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let value = values.get(index).copied();
            self.hint(value, name);
            if scope.insert(name.clone(), value).is_some() {
                return invalid(format!("two values are named `{name}`"));
            }
        }
        Ok(())
    }

    fn is_function(&self, node: &proto::Node) -> bool {
        self.function(node).is_some()
    }

    fn function(&self, node: &proto::Node) -> Option<&'m proto::Function> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        self.functions.get(&(text(&node.domain), text(&node.op_type))).copied()
    }

    fn results(
        &mut self,
        node: &proto::Node,
        inputs: Vec<Option<V>>,
        scope: &Scope,
    ) -> Done<Vec<V>> {
        if let Some(function) = self.function(node) {
            return self.inlined(node, function, inputs);
        }
        let read = |v: Option<V>| v.map(|v| self.builder.unpacked(v)).transpose();
        let inputs = inputs.into_iter().map(read).collect::<Done<Vec<_>>>()?;
        let operator = node.op_type.as_deref().unwrap_or_default();
        self.builder.refuse_narrow(operator, &inputs)?;
        let results = self.composed(node, &inputs, scope)?;
        self.builder.keep_narrow(operator, &inputs, &results);
        Ok(results)
    }

    fn composed(
        &mut self,
        node: &proto::Node,
        inputs: &[Option<V>],
        scope: &Scope,
    ) -> Done<Vec<V>> {
        if node.attribute.iter().any(|attribute| attribute.sparse_tensor.is_some()) {
            return unsupported("sparse tensors");
        }
        if let Some(control) = control::importer(node) {
            return control(self, node, inputs, scope);
        }
        operators::check_ranks(node, &|index| {
            inputs.get(index).copied().flatten().map(|v| self.builder.rank(v))
        })?;
        if control::recurrent::is_long(self, node, inputs) {
            return self.recurrent(node, inputs);
        }
        let importer = operators::importer(node)
            .ok_or_else(|| Reason::Unsupported("this operator is not imported".to_owned()))?;
        let mut node = Node {
            builder: &mut self.builder,
            message: node,
            inputs: inputs.to_vec(),
            opset: self.opset,
            beside: self.beside,
        };
        importer(&mut node)
    }

    /// A call of a function of the model: its nodes in the place of the call.
    fn inlined(
        &mut self,
        node: &proto::Node,
        function: &proto::Function,
        inputs: Vec<Option<V>>,
    ) -> Done<Vec<V>> {
        let mut scope = Scope::new();
        for (index, name) in function.input.iter().enumerate() {
            if let Some(value) = inputs.get(index).copied().flatten() {
                scope.insert(name.clone(), Some(value));
            }
        }
        let mut nodes = function.node.clone();
        for inner in &mut nodes {
            for attribute in &mut inner.attribute {
                passed(attribute, node, function);
            }
            inner.attribute.retain(|attribute| attribute.ref_attr_name.is_none());
            // An input of the function that the call leaves out is left out here too.
            for name in &mut inner.input {
                if function.input.contains(name) && !scope.contains_key(name) {
                    name.clear();
                }
            }
        }
        self.nested(&nodes, &mut scope)?;
        let result = |name: &String| scope.get(name).copied().flatten();
        let results = function.output.iter().map(result).collect::<Option<Vec<V>>>();
        results
            .ok_or_else(|| Reason::Unsupported("a function of which a part is missing".to_owned()))
    }

    /// Nodes in their order.
    pub(crate) fn nested(&mut self, nodes: &[proto::Node], scope: &mut Scope) -> Done<()> {
        if self.depth >= DEEPEST {
            return invalid(format!(
                "graphs and functions are more than {DEEPEST} deep, or recursive"
            ));
        }
        self.depth += 1;
        let done = nodes.iter().try_for_each(|node| {
            self.count(1)?;
            self.node(node, scope)
        });
        self.depth -= 1;
        done
    }

    /// Counts nodes, those of graphs as often as they are imported.
    pub(crate) fn count(&mut self, nodes: usize) -> Done<()> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            return invalid(format!("there are more than {MOST_NODES} nodes"));
        }
        Ok(())
    }
}

/// An attribute in a function, which may stand for one of the call.
fn passed(attribute: &mut proto::Attribute, call: &proto::Node, function: &proto::Function) {
    if let Some(wanted) = attribute.ref_attr_name.clone() {
        let named = |given: &&proto::Attribute| given.name.as_ref() == Some(&wanted);
        let given = call.attribute.iter().find(named);
        let given = given.or_else(|| function.attribute_proto.iter().find(named));
        if let Some(given) = given {
            *attribute = proto::Attribute { name: attribute.name.clone(), ..given.clone() };
        }
    }
    if let Some(graph) = &mut attribute.g {
        for inner in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
            passed(inner, call, function);
        }
    }
}

fn qualified(node: &proto::Node) -> String {
    let name = node.op_type.clone().unwrap_or_default();
    match node.domain.as_deref() {
        None | Some("" | "ai.onnx") => name,
        Some(domain) => format!("{domain}.{name}"),
    }
}

/// How a message names a node.
fn shown(node: &proto::Node) -> String {
    let name = node.name.as_ref().filter(|name| !name.is_empty());
    name.or(node.output.first()).map_or_else(String::new, |name| printable(name))
}

/// Without what would break a line.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(120).collect()
}
