//! The nodes of a description in their order: each becomes lines of the program, or a reason why not.
//!
//! The dims of results are deduced here. Those that PyTorch says are compared with them, and name what only the run knows.

use super::call::{Argument, Call};
use super::description::{Claim as ClaimText, Description, Extent, Node, Output, Port};
use super::rows;
use crate::builder::{Builder, Content, Line, Origin, V};
use crate::model::{Bound, Options};
use crate::operators::elementwise::convert;
use crate::reason::{Done, ImportError, Missing, Reason, invalid, unsupported};
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Facts, Relation};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for a dtype in an input that is a shape: it gives symbols their values.
const SHAPE: &str = "shape";

pub(crate) struct Walk<'d> {
    pub(crate) builder: Builder,
    pub(crate) options: &'d Options,
    /// What names stand for; `None` for what could not be imported.
    scope: BTreeMap<&'d str, Option<V>>,
    pub(crate) symbols: BTreeMap<&'d str, Dim>,
    missing: BTreeMap<(String, String, bool), Vec<String>>,
    /// The places of the nodes that could not be imported, and why.
    pub(crate) refused: Vec<(usize, String)>,
    pub(crate) notes: Vec<String>,
}

impl<'d> Walk<'d> {
    pub(crate) fn new(options: &'d Options) -> Self {
        let mut builder = Builder::new();
        builder.names.fresh(&options.entry);
        Self {
            builder,
            options,
            scope: BTreeMap::new(),
            symbols: BTreeMap::new(),
            missing: BTreeMap::new(),
            refused: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn main(
        &mut self,
        description: &'d Description,
    ) -> Result<(Vec<V>, Vec<V>), ImportError> {
        self.bare_symbols(description);
        let mut inputs = Vec::new();
        for port in &description.inputs {
            let value = self.input(port)?;
            inputs.extend(value);
        }
        self.refuse_unknown_bounds()?;
        self.weights(description)?;
        self.guards(&description.guards)?;
        for (place, node) in description.nodes.iter().enumerate() {
            if let Some(reason) = self.node(node)? {
                self.note(place, node, reason);
            }
        }
        let mut outputs = Vec::new();
        for output in &description.outputs {
            match self.argument(&output.value)? {
                Some(Argument::Tensor(v)) => outputs.push(v),
                Some(Argument::Dim(dim)) => {
                    outputs.push(self.builder.integers(vec![dim], 0, DType::I64));
                }
                Some(other) => {
                    let why = format!("the output `{}` is no tensor: {other:?}", output.name);
                    return Err(ImportError::Malformed(why));
                }
                None => {}
            }
        }
        if !self.missing.is_empty() {
            let missing = std::mem::take(&mut self.missing).into_iter();
            let missing = missing.map(|((operator, why, is_invalid), nodes)| Missing {
                operator,
                why,
                nodes,
                is_invalid,
            });
            return Err(ImportError::Unsupported(missing.collect()));
        }
        if outputs.is_empty() {
            return Err(ImportError::Malformed("the model has no output".to_owned()));
        }
        Ok((inputs, outputs))
    }

    /// The symbols that some dim of an input is alone become variables of the program.
    fn bare_symbols(&mut self, description: &'d Description) {
        let bounds: BTreeMap<&str, (Option<i64>, Option<i64>)> =
            description.symbols.iter().map(|s| (s.name.as_str(), (s.lower, s.upper))).collect();
        for extent in description.inputs.iter().flat_map(|port| &port.shape) {
            let Extent::Symbol(name) = extent else { continue };
            if self.symbols.contains_key(name.as_str()) {
                continue;
            }
            let wanted = self.options.dims.get(name).map_or(name.as_str(), String::as_str);
            if let Ok(extent) = wanted.parse::<i64>() {
                self.symbols.insert(name, Dim::Int(extent.max(0)));
                continue;
            }
            let dim = self.builder.variable(Some(wanted), Origin::Signature);
            let (lower, upper) = bounds.get(name.as_str()).copied().unwrap_or_default();
            self.bound(name, &dim, Bound { lower, upper });
            self.symbols.insert(name, dim);
        }
    }

    /// Declares the bounds that the description has; those that are given come instead.
    fn bound(&mut self, name: &str, dim: &Dim, own: Bound) {
        let Dim::Var(variable) = dim else { return };
        let given = &self.options.bounds;
        let given = given.get(name).or_else(|| given.get(&**variable));
        let bound = given.copied().unwrap_or(own);
        if bound == Bound::default() {
            return;
        }
        if let Some(lower) = bound.lower {
            self.builder.facts.assume(Claim::new(lower, Relation::AtMost, dim.clone()));
        }
        if let Some(upper) = bound.upper {
            self.builder.facts.assume(Claim::new(dim.clone(), Relation::AtMost, upper));
        }
        self.builder.bounded.insert(variable.to_string(), bound);
    }

    fn refuse_unknown_bounds(&self) -> Result<(), ImportError> {
        for name in self.options.bounds.keys() {
            let known = self.builder.bounded.contains_key(name)
                || matches!(self.symbols.get(name.as_str()), Some(Dim::Var(_)));
            if !known {
                let why = format!("the inputs of the model have no symbolic dim `{name}`");
                return Err(ImportError::Bound(why));
            }
        }
        Ok(())
    }

    /// An input; none where it is bound to a value.
    fn input(&mut self, port: &'d Port) -> Done<Option<V>> {
        let value = if let Some(tensor) = self.options.bind.get(&port.name) {
            self.builder.constant(tensor.clone())
        } else {
            let mut dims = Vec::new();
            for extent in &port.shape {
                dims.push(self.dim(extent).map_err(|reason| match reason {
                    Reason::Unsupported(why) | Reason::Invalid(why) => {
                        Reason::Unsupported(format!("the input `{}`: {why}", port.name))
                    }
                    other => other,
                })?);
            }
            let content = Content::Input(port.name.clone());
            if port.dtype == SHAPE {
                let annotation = Annotation::Shape(Extents::Known(dims));
                let shape = self.builder.add(Vec::new(), DType::I64, content);
                self.builder.tuples.insert(shape, annotation);
                shape
            } else {
                self.builder.add(dims, dtype(&port.dtype)?, content)
            }
        };
        self.builder.values[value.0].hint = Some(port.name.clone());
        self.define(&port.name, Some(value))?;
        Ok((!self.options.bind.contains_key(&port.name)).then_some(value))
    }

    pub(super) fn define(&mut self, name: &'d str, value: Option<V>) -> Done<()> {
        match self.scope.insert(name, value) {
            None => Ok(()),
            Some(_) => invalid(format!("two values are named `{name}`")),
        }
    }

    pub(crate) fn dim(&mut self, extent: &Extent) -> Done<Dim> {
        match extent {
            Extent::Int(value) => Ok(Dim::Int(*value)),
            Extent::Symbol(name) => match self.symbols.get(name.as_str()) {
                Some(dim) => Ok(dim.clone()),
                None => unsupported(format!(
                    "the symbolic dim `{name}` is not the whole of a dim of an input, so nothing gives it a value"
                )),
            },
            Extent::Op(operation, left, right) => {
                let (left, right) = (self.dim(left)?, self.dim(right)?);
                let Some(op) = DimOp::of_symbol(operation) else {
                    return invalid(format!("the operation {operation:?} on dims"));
                };
                Ok(self.builder.dim(op, &left, &right))
            }
        }
    }

    pub(crate) fn claim(&mut self, claim: &ClaimText) -> Done<Claim> {
        let ClaimText(relation, left, right) = claim;
        let (left, right) = (self.dim(left)?, self.dim(right)?);
        let relation = match relation.as_str() {
            "==" => Relation::Equal,
            "!=" => Relation::NotEqual,
            "<=" => Relation::AtMost,
            "<" => Relation::Less,
            other => return invalid(format!("the relation {other:?}")),
        };
        Ok(Claim::new(left, relation, right))
    }

    /// An argument; `None` where it depends on what could not be imported.
    fn argument(&mut self, value: &Value) -> Done<Option<Argument>> {
        Ok(Some(match value {
            Value::Null => Argument::None,
            Value::Bool(value) => Argument::Bool(*value),
            Value::String(text) => Argument::Str(text.clone()),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(int), _) => Argument::Dim(Dim::Int(int)),
                (None, Some(float)) => Argument::Float(float),
                (None, None) => return invalid(format!("the number {number}")),
            },
            Value::Array(items) => {
                let mut arguments = Vec::new();
                for item in items {
                    match self.argument(item)? {
                        Some(argument) => arguments.push(argument),
                        None => return Ok(None),
                    }
                }
                Argument::List(arguments)
            }
            Value::Object(fields) => {
                let Some((kind, content)) = fields.iter().next().filter(|_| fields.len() == 1)
                else {
                    return invalid(format!("an argument has one field, found {value}"));
                };
                return self.tagged(kind, content);
            }
        }))
    }

    fn tagged(&mut self, kind: &str, content: &Value) -> Done<Option<Argument>> {
        let damaged = |error: serde_json::Error| Reason::Invalid(error.to_string());
        Ok(Some(match (kind, content) {
            ("t", Value::String(name)) => match self.scope.get(name.as_str()) {
                Some(Some(v)) => Argument::Tensor(*v),
                Some(None) => return Ok(None),
                None => return invalid(format!("nothing before it computes `{name}`")),
            },
            ("d", extent) => {
                let extent: Extent = serde_json::from_value(extent.clone()).map_err(damaged)?;
                match self.dim(&extent) {
                    Ok(dim) => Argument::Dim(dim),
                    // The node that makes the symbol is missing, and is reported.
                    Err(Reason::Unsupported(_)) if !self.missing.is_empty() => return Ok(None),
                    Err(reason) => return Err(reason),
                }
            }
            ("r", real) => match self.real(real) {
                Ok(v) => Argument::Real(v),
                Err(Reason::Unsupported(_)) if !self.missing.is_empty() => return Ok(None),
                Err(reason) => return Err(reason),
            },
            ("claim", claim) => {
                let claim: ClaimText = serde_json::from_value(claim.clone()).map_err(damaged)?;
                match self.claim(&claim) {
                    Ok(claim) => Argument::Claim(claim),
                    Err(Reason::Unsupported(_)) if !self.missing.is_empty() => return Ok(None),
                    Err(reason) => return Err(reason),
                }
            }
            ("f", Value::String(text)) => match text.as_str() {
                "nan" => Argument::Float(f64::NAN),
                "inf" => Argument::Float(f64::INFINITY),
                "-inf" => Argument::Float(f64::NEG_INFINITY),
                other => return invalid(format!("the float {other:?}")),
            },
            ("dtype", Value::String(name)) => Argument::DType(dtype(name)?),
            _ => return invalid(format!("an argument {{{kind:?}: {content}}}")),
        }))
    }

    /// A float that is computed of dims and numbers.
    fn real(&mut self, value: &Value) -> Done<V> {
        if let Some(number) = value.as_f64() {
            return Ok(self.builder.scalar(DType::F64, number));
        }
        if let Some(extent) = value.get("d") {
            let damaged = |error: serde_json::Error| Reason::Invalid(error.to_string());
            let dim = self.dim(&serde_json::from_value(extent.clone()).map_err(damaged)?)?;
            let count = self.builder.integers(vec![dim], 0, DType::I64);
            return convert(&mut self.builder, count, DType::F64);
        }
        let malformed = || Reason::Invalid(format!("the float {value}"));
        let Some([name, left, right]) = value.as_array().map(Vec::as_slice) else {
            return Err(malformed());
        };
        let operator = match name.as_str() {
            Some("+") => "add",
            Some("*") => "multiply",
            Some("/") => "divide",
            _ => return Err(malformed()),
        };
        let (left, right) = (self.real(left)?, self.real(right)?);
        self.builder.call(operator, &[left.into(), right.into()])
    }

    /// The lines of a node, or why it cannot be imported.
    fn node(&mut self, node: &'d Node) -> Done<Option<Reason>> {
        let before = self.builder.lines.len();
        let variables: BTreeSet<String> = self.builder.variables.keys().cloned().collect();
        let result = self.results(node).and_then(|values| match values {
            Some(values) => self.outputs(node, &values, before, &variables).map(|()| true),
            None => Ok(false),
        });
        let refused = match result {
            Ok(true) => {
                if self.builder.lines.len() > before {
                    let place = node.at.as_deref().map_or_else(String::new, |at| format!("  {at}"));
                    let text = printable(&format!("{}{place}", node.op));
                    self.builder.lines.insert(before, Line::Comment(text));
                }
                return Ok(None);
            }
            Ok(false) => None,
            Err(reason) => {
                self.builder.lines.truncate(before);
                Some(reason)
            }
        };
        for output in node.outputs.iter().flatten() {
            if let Output::Tensor(port) = output
                && !self.scope.contains_key(port.name.as_str())
            {
                self.define(&port.name, None)?;
            }
        }
        Ok(refused)
    }

    fn note(&mut self, place: usize, node: &Node, reason: Reason) {
        let is_invalid = matches!(reason, Reason::Invalid(_));
        let why = reason.text_of_node();
        self.refused.push((place, why.clone()));
        let at = node.at.as_deref().unwrap_or("of unknown place");
        self.missing.entry((node.op.clone(), why, is_invalid)).or_default().push(printable(at));
    }

    /// The values of a node; `None` where it reads what could not be imported.
    fn results(&mut self, node: &'d Node) -> Done<Option<Vec<V>>> {
        let Some(row) = rows::row(&node.op) else {
            return unsupported("this operator is not imported");
        };
        let mut args = BTreeMap::new();
        for (name, value) in &node.args {
            match self.argument(value)? {
                Some(argument) => args.insert(name.clone(), argument),
                None => return Ok(None),
            };
        }
        let result = |output: &Option<Output>| match output {
            Some(Output::Tensor(port)) => dtype(&port.dtype).map(Some),
            Some(Output::Symbol { .. }) => Ok(Some(DType::I64)),
            None => Ok(None),
        };
        let results = node.outputs.iter().map(result).collect::<Done<Vec<_>>>()?;
        let at = node.at.as_deref();
        let mut call = Call { builder: &mut self.builder, args, results, at };
        row(&mut call).map(Some)
    }

    /// Gives the results their names, compared with what PyTorch says of them.
    fn outputs(
        &mut self,
        node: &'d Node,
        values: &[V],
        before: usize,
        variables: &BTreeSet<String>,
    ) -> Done<()> {
        for (place, output) in node.outputs.iter().enumerate() {
            let Some(output) = output else { continue };
            let Some(&value) = values.get(place) else {
                return unsupported(format!("its result {place}"));
            };
            match output {
                Output::Symbol { symbol } => {
                    let dim = match self.builder.elements(value).as_deref() {
                        Some([dim]) => dim.clone(),
                        _ => self.builder.extents(value, "an element")?[0].clone(),
                    };
                    self.symbols.insert(symbol, dim);
                }
                Output::Tensor(port) => {
                    self.compared(port, value, before, variables)?;
                    self.builder.values[value.0].hint.get_or_insert_with(|| port.name.clone());
                    self.define(&port.name, Some(value))?;
                }
            }
        }
        Ok(())
    }

    fn compared(
        &mut self,
        port: &'d Port,
        value: V,
        before: usize,
        variables: &BTreeSet<String>,
    ) -> Done<()> {
        let (own, stated) = (self.builder.dtype(value), dtype(&port.dtype)?);
        let rank = self.builder.rank(value);
        if own != stated || rank != port.shape.len() {
            return unsupported(format!(
                "the import makes a tensor of rank {rank} of {own} of it, PyTorch one of rank {} of {stated}",
                port.shape.len()
            ));
        }
        for (axis, extent) in port.shape.iter().enumerate() {
            let own = self.builder.dims(value)[axis].clone();
            if let Extent::Symbol(name) = extent
                && !self.symbols.contains_key(name.as_str())
            {
                self.symbols.insert(name, own);
                continue;
            }
            let Ok(stated) = self.dim(extent) else { continue };
            if self.builder.same(&own, &stated) {
                continue;
            }
            let differs = Claim::new(own.clone(), Relation::NotEqual, stated.clone());
            if self.builder.proves(&differs) {
                return unsupported(format!(
                    "dim {axis} of its result is {own} here, and {stated} in PyTorch"
                ));
            }
            let is_new = matches!(&own, Dim::Var(name) if !variables.contains(&**name));
            let is_cast = self.builder.lines[before..]
                .iter()
                .any(|line| matches!(line, Line::Cast { target, .. } if *target == value));
            if is_new && is_cast {
                self.builder.values[value.0].dims[axis] = stated;
            }
        }
        Ok(())
    }
}

pub(crate) fn dtype(name: &str) -> Done<DType> {
    DType::ALL
        .into_iter()
        .find(|dtype| dtype.name() == name)
        .ok_or_else(|| Reason::Unsupported(format!("the dtype {name}")))
}

pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(160).collect()
}
