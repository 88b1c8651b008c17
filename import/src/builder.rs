//! The program as it grows: calls of operators, each deduced as it is made.
//!
//! Every tensor has known dims: where an operator leaves one open, a `match_cast` gives it a variable.
//! What is known of elements goes along: constants, and integers that are expressions over dims, out of
//! which shapes are made. A call on constants alone is computed here and leaves no line.

use crate::argument::Arg;
pub(crate) use crate::line::Line;
use crate::model::Bound;
use crate::names::Names;
use crate::narrow::{Narrow, Packed};
use crate::reason::{Done, Reason, invalid, unsupported};
use crate::weight::{Stored, Weight};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::ops::{Infer, Limits, Operand, Operator, apply, bind, lookup};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A value of the program: an index into [`Builder::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct V(pub(crate) usize);

/// What is known of a value.
#[derive(Clone, Debug)]
pub(crate) struct Info {
    pub(crate) dims: Vec<Dim>,
    pub(crate) dtype: DType,
    pub(crate) content: Content,
    /// The name that the model has for it.
    pub(crate) hint: Option<String>,
}

/// What is known of the elements.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Nothing: a line computes it.
    Computed,
    /// A parameter of the program, and the input of the model that it is.
    Input(String),
    /// All.
    Constant(Arc<Tensor>),
    /// All, as they lie in the model: more than are computed with here.
    Stored(Stored),
    /// Integers, of which some are symbolic; of rank 0 or 1.
    Dims(Vec<Dim>),
    /// No tensor but a list of them.
    Sequence(Vec<V>),
    /// An optional that holds nothing.
    Nothing,
}

/// The largest constant that is computed while importing.
pub(crate) const FOLDED: usize = 4096;
/// The longest vector of which elements are looked at as dims.
const DIMS: usize = 64;

/// See the module.
pub(crate) struct Builder {
    pub(crate) values: Vec<Info>,
    pub(crate) lines: Vec<Line>,
    pub(crate) names: Names,
    pub(crate) facts: Prover,
    /// Every symbolic variable, and whether the signature binds it.
    pub(crate) variables: BTreeMap<String, Origin>,
    /// Those of the signature whose bounds are given.
    pub(crate) bounded: BTreeMap<String, Bound>,
    /// Parameters that are tuples.
    pub(crate) tuples: BTreeMap<V, Annotation>,
    /// Values that are of 4 bits in the model.
    pub(crate) narrow: BTreeMap<V, Narrow>,
    /// Constants of them that are not decoded.
    pub(crate) packed: BTreeMap<V, Packed>,
}

/// Where a symbolic variable comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Signature,
    Cast,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            values: Vec::new(),
            lines: Vec::new(),
            names: Names::new(),
            facts: Prover::new(),
            variables: BTreeMap::new(),
            bounded: BTreeMap::new(),
            tuples: BTreeMap::new(),
            narrow: BTreeMap::new(),
            packed: BTreeMap::new(),
        }
    }

    pub(crate) fn info(&self, v: V) -> &Info {
        &self.values[v.0]
    }

    pub(crate) fn dims(&self, v: V) -> Vec<Dim> {
        self.info(v).dims.clone()
    }

    pub(crate) fn rank(&self, v: V) -> usize {
        self.info(v).dims.len()
    }

    pub(crate) fn dtype(&self, v: V) -> DType {
        self.info(v).dtype
    }

    /// A new symbolic variable, which is at least 0.
    pub(crate) fn variable(&mut self, wanted: Option<&str>, origin: Origin) -> Dim {
        let name = match wanted {
            Some(wanted) => self.names.fresh(wanted),
            None => self.names.numbered("d"),
        };
        let dim = Dim::var(name.as_str());
        self.facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
        self.variables.insert(name, origin);
        dim
    }

    pub(crate) fn add(&mut self, dims: Vec<Dim>, dtype: DType, content: Content) -> V {
        self.values.push(Info { dims, dtype, content, hint: None });
        V(self.values.len() - 1)
    }

    /// A constant.
    pub(crate) fn constant(&mut self, tensor: Tensor) -> V {
        let dims = tensor.shape().iter().map(|&extent| Dim::Int(extent as i64)).collect();
        let dtype = tensor.dtype();
        self.add(dims, dtype, Content::Constant(Arc::new(tensor)))
    }

    /// A constant of the model.
    pub(crate) fn weight(&mut self, weight: Weight) -> V {
        match weight {
            Weight::Computed(tensor) => self.constant(Arc::unwrap_or_clone(tensor)),
            Weight::Stored(stored) => {
                let dims = stored.shape().iter().map(|&extent| Dim::Int(extent as i64)).collect();
                self.add(dims, stored.dtype(), Content::Stored(stored))
            }
        }
    }

    /// A constant of rank 0.
    pub(crate) fn scalar(&mut self, dtype: DType, value: f64) -> V {
        self.constant(Tensor::scalar(dtype, Number::Float(value)))
    }

    /// A constant vector.
    pub(crate) fn vector(&mut self, values: &[i64]) -> V {
        let values: Vec<i128> = values.iter().map(|&value| value.into()).collect();
        let array = ArrayD::from_shape_vec(IxDyn(&[values.len()]), values);
        self.constant(Tensor::from_ints(
            DType::I64,
            array.expect("invariant: a vector is as long as its elements"),
        ))
    }

    /// Integers over dims, of rank 0 or 1; a constant where all are numbers.
    pub(crate) fn integers(&mut self, elements: Vec<Dim>, rank: usize, dtype: DType) -> V {
        let elements: Vec<Dim> = elements.iter().map(|dim| self.simplified(dim)).collect();
        let extents: Vec<usize> = if rank == 0 { Vec::new() } else { vec![elements.len()] };
        let numbers: Option<Vec<i128>> =
            elements.iter().map(|dim| dim.as_int().map(i128::from)).collect();
        if let Some(numbers) = numbers {
            let array = ArrayD::from_shape_vec(IxDyn(&extents), numbers)
                .expect("invariant: one element a place");
            return self.constant(Tensor::from_ints(dtype, array));
        }
        let dims = extents.iter().map(|&extent| Dim::Int(extent as i64)).collect();
        self.add(dims, dtype, Content::Dims(elements))
    }

    pub(crate) fn simplified(&mut self, dim: &Dim) -> Dim {
        if dim.as_int().is_some() { dim.clone() } else { self.facts.simplify(dim) }
    }

    /// The constant that a value is.
    pub(crate) fn tensor(&self, v: V) -> Option<Arc<Tensor>> {
        match &self.info(v).content {
            Content::Constant(tensor) => Some(tensor.clone()),
            Content::Stored(stored) => Some(Arc::new(stored.tensor())),
            _ => None,
        }
    }

    /// The elements as dims, where they are integers of rank 0 or 1 that are known.
    pub(crate) fn elements(&self, v: V) -> Option<Vec<Dim>> {
        match &self.info(v).content {
            Content::Dims(dims) => Some(dims.clone()),
            Content::Constant(tensor) => {
                let fits = !tensor.dtype().is_float() && tensor.rank() <= 1 && tensor.len() <= DIMS;
                let ints = fits.then(|| tensor.to_ints())?;
                ints.iter().map(|&value| i64::try_from(value).ok().map(Dim::Int)).collect()
            }
            _ => None,
        }
    }

    /// As [`Builder::elements`], of a value that must be known to import the node.
    pub(crate) fn known(&self, v: V, what: &str) -> Done<Vec<Dim>> {
        self.elements(v).ok_or_else(|| self.unknown(v, what))
    }

    pub(crate) fn unknown(&self, v: V, what: &str) -> Reason {
        match &self.info(v).content {
            Content::Input(name) => Reason::Needs(name.clone()),
            _ => match self.vector_behind(v) {
                Some(name) => Reason::Needs(name),
                None => Reason::Unsupported(format!("`{what}` is computed when the program runs")),
            },
        }
    }

    /// An input of the model out of which alone a value is computed, where all those are short vectors of
    /// integers: sizes and axes.
    fn vector_behind(&self, v: V) -> Option<String> {
        let mut wanted = BTreeSet::from([v]);
        let mut found = None;
        for line in self.lines.iter().rev() {
            match line {
                Line::Call { targets, args, .. } if targets.iter().any(|v| wanted.contains(v)) => {
                    for arg in args {
                        match arg {
                            Arg::V(v) => _ = wanted.insert(*v),
                            Arg::Many(vs) => wanted.extend(vs),
                            _ => {}
                        }
                    }
                }
                Line::Cast { target, from } if wanted.contains(target) => {
                    wanted.insert(*from);
                }
                _ => {}
            }
        }
        for v in wanted {
            let info = self.info(v);
            if let Content::Input(name) = &info.content {
                let short = info.dims.iter().all(|dim| dim.as_int().is_some_and(|e| e <= 64));
                if info.dtype.is_float() || info.dims.len() > 1 || !short {
                    return None;
                }
                found.get_or_insert_with(|| name.clone());
            }
        }
        found
    }

    /// Integers of at least 0: known ones, or variables that the run gives their values.
    pub(crate) fn extents(&mut self, v: V, what: &str) -> Done<Vec<Dim>> {
        if let Some(elements) = self.elements(v) {
            return Ok(elements);
        }
        let vector = match self.rank(v) {
            0 => self.call("reshape", &[v.into(), Arg::Shape(vec![Dim::Int(1)])])?,
            _ => v,
        };
        let length = self.dims(vector).first().and_then(Dim::as_int);
        let Some(length) = length.filter(|&length| self.rank(vector) == 1 && length <= 64) else {
            return Err(self.unknown(v, what));
        };
        let dims: Vec<Dim> = (0..length).map(|_| self.variable(None, Origin::Cast)).collect();
        let target = self.add(Vec::new(), DType::I64, Content::Computed);
        self.lines.push(Line::ShapeCast { target, from: vector, dims: dims.clone() });
        Ok(dims)
    }

    /// Known integers that are numbers.
    pub(crate) fn known_ints(&self, v: V, what: &str) -> Done<Vec<i64>> {
        let dims = self.known(v, what)?;
        let ints = dims.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>();
        ints.ok_or_else(|| Reason::Unsupported(format!("`{what}` depends on dims")))
    }

    /// A known number of rank 0 or with one element.
    pub(crate) fn known_number(&self, v: V, what: &str) -> Done<f64> {
        match self.tensor(v) {
            Some(tensor) if tensor.len() == 1 => Ok(tensor.number(0).as_f64()),
            Some(_) => invalid(format!("`{what}` must have one element")),
            None => Err(self.unknown(v, what)),
        }
    }

    pub(crate) fn proves(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }

    pub(crate) fn same(&mut self, a: &Dim, b: &Dim) -> bool {
        self.facts.equal(a, b) == Answer::Proved
    }

    pub(crate) fn at_least(&mut self, dim: &Dim, least: i64) -> bool {
        dim.as_int().map_or_else(
            || self.proves(&Claim::new(least, Relation::AtMost, dim.clone())),
            |value| value >= least,
        )
    }

    /// Folded, simplified arithmetic on dims.
    pub(crate) fn dim(&mut self, op: DimOp, a: &Dim, b: &Dim) -> Dim {
        let dim = Dim::op(op, a.clone(), b.clone());
        self.simplified(&dim)
    }

    /// A call that gives one tensor.
    pub(crate) fn call(&mut self, operator: &str, args: &[Arg]) -> Done<V> {
        let annotation = self.deduced(operator, args)?;
        let Some(tensor) = annotation.as_tensor().cloned() else {
            return unsupported(format!("`{operator}` gives {annotation}"));
        };
        if let Some(Value::Tensor(value)) = self.folded(operator, args, &[&tensor]) {
            return Ok(self.constant(value));
        }
        Ok(self.bound(operator, args, vec![tensor])?[0])
    }

    /// A call that stays in the program where its operands are constants: what it gives is larger than they are.
    pub(crate) fn call_kept(&mut self, operator: &str, args: &[Arg]) -> Done<V> {
        match self.deduced(operator, args)?.as_tensor().cloned() {
            Some(tensor) => Ok(self.bound(operator, args, vec![tensor])?[0]),
            None => unsupported(format!("`{operator}` gives no tensor")),
        }
    }

    /// A call that gives a tuple of tensors.
    pub(crate) fn call_many(&mut self, operator: &str, args: &[Arg]) -> Done<Vec<V>> {
        let annotation = self.deduced(operator, args)?;
        let Annotation::Tuple(fields) = &annotation else {
            return unsupported(format!("`{operator}` gives {annotation}"));
        };
        let tensors = fields.iter().map(|field| field.as_tensor().cloned());
        let Some(tensors) = tensors.collect::<Option<Vec<_>>>() else {
            return unsupported(format!("`{operator}` gives {annotation}"));
        };
        if let Some(Value::Tuple(values)) =
            self.folded(operator, args, &tensors.iter().collect::<Vec<_>>())
        {
            let constants = values.into_iter().map(|value| match value {
                Value::Tensor(tensor) => Some(self.constant(tensor)),
                _ => None,
            });
            if let Some(constants) = constants.collect() {
                return Ok(constants);
            }
        }
        self.bound(operator, args, tensors)
    }

    /// A line for a call, and casts of what it leaves open.
    fn bound(&mut self, operator: &str, args: &[Arg], types: Vec<TensorType>) -> Done<Vec<V>> {
        let mut targets = Vec::new();
        let mut results = Vec::new();
        let mut casts = Vec::new();
        for tensor in types {
            let Some(dtype) = tensor.dtype else {
                return unsupported(format!("`{operator}` gives a tensor of unknown dtype"));
            };
            match tensor.extents {
                Extents::Known(dims) => {
                    let dims = dims.iter().map(|dim| self.simplified(dim)).collect();
                    targets.push(self.add(dims, dtype, Content::Computed));
                    results.push(targets[targets.len() - 1]);
                }
                Extents::Rank(rank) => {
                    let open = self.add(Vec::new(), dtype, Content::Computed);
                    let dims = (0..rank).map(|_| self.variable(None, Origin::Cast)).collect();
                    let target = self.add(dims, dtype, Content::Computed);
                    casts.push(Line::Cast { target, from: open });
                    targets.push(open);
                    results.push(target);
                }
                Extents::Unknown => {
                    return unsupported(format!("`{operator}` gives a tensor of unknown rank"));
                }
            }
        }
        self.lines.push(Line::Call { targets, operator: operator.to_owned(), args: args.to_vec() });
        self.lines.extend(casts);
        Ok(results)
    }

    fn operand(&self, arg: &Arg) -> Operand {
        match arg {
            Arg::V(v) => Operand { annotation: self.annotation(*v), known: None },
            Arg::Many(vs) => Operand {
                annotation: Annotation::Tuple(vs.iter().map(|&v| self.annotation(v)).collect()),
                known: None,
            },
            other => other.operand().expect("invariant: keywords are taken apart before"),
        }
    }

    pub(crate) fn annotation(&self, v: V) -> Annotation {
        let info = self.info(v);
        match (&info.content, self.tuples.get(&v)) {
            (_, Some(tuple)) => tuple.clone(),
            (Content::Sequence(items), None) => {
                Annotation::Tuple(items.iter().map(|&item| self.annotation(item)).collect())
            }
            (Content::Nothing, None) => Annotation::Tuple(Vec::new()),
            _ => Annotation::tensor(info.dims.clone(), info.dtype),
        }
    }

    /// Whether a value is a tensor.
    pub(crate) fn is_tensor(&self, v: V) -> bool {
        !matches!(self.info(v).content, Content::Sequence(_) | Content::Nothing)
    }

    /// What the operator table deduces.
    fn deduced(&mut self, operator: &str, args: &[Arg]) -> Done<Annotation> {
        let row = row(operator);
        let (positional, keywords) = parted(args, |arg| Some(self.operand(arg)))
            .expect("invariant: every argument is an operand");
        let operands =
            bind(row, positional, keywords, &|literal| Operand::of_known(literal.known()));
        let operands = operands
            .map_err(|error| Reason::Unsupported(format!("a call of `{operator}`: {error}")))?;
        let mut infer = Infer {
            row,
            operands: &operands,
            facts: &mut self.facts,
            obligations: Vec::new(),
            module: None,
        };
        (row.infer)(&mut infer).map_err(|reject| {
            Reason::Invalid(format!("{operator}/{}: {}", reject.constraint, reject.message))
        })
    }

    /// The value of a call, where all of it is known and small.
    fn folded(&self, operator: &str, args: &[Arg], types: &[&TensorType]) -> Option<Value> {
        let count = |dims: &[Dim]| {
            let extents = dims.iter().map(|dim| dim.as_int().and_then(|e| usize::try_from(e).ok()));
            let mut extents = extents;
            extents.try_fold(1_usize, |product, extent| product.checked_mul(extent?))
        };
        let small = types.iter().all(|tensor| {
            let dims = tensor.extents.dims();
            dims.is_none_or(|dims| count(dims).is_some_and(|count| count <= FOLDED))
        });
        if !small || operator == "empty" {
            return None;
        }
        let constant = |v: &V| {
            if matches!(self.info(*v).content, Content::Stored(_)) {
                return None;
            }
            let tensor = self.tensor(*v).filter(|tensor| tensor.len() <= FOLDED)?;
            Some(Value::Tensor((*tensor).clone()))
        };
        let (positional, keywords) = parted(args, |arg| match arg {
            Arg::V(v) => constant(v),
            Arg::Many(vs) => vs.iter().map(constant).collect::<Option<_>>().map(Value::Tuple),
            other => other.value(),
        })?;
        apply(row(operator), positional, keywords, &Limits::default(), None).ok()
    }
}

fn row(operator: &str) -> &'static Operator {
    lookup(operator).unwrap_or_else(|| panic!("invariant: `{operator}` is an operator"))
}

/// Positional and named arguments, each as `of` makes it.
#[allow(clippy::type_complexity)] // the two lists that `bind` takes
fn parted<T>(args: &[Arg], of: impl Fn(&Arg) -> Option<T>) -> Option<(Vec<T>, Vec<(Name, T)>)> {
    let (mut positional, mut keywords) = (Vec::new(), Vec::new());
    for arg in args {
        match arg {
            Arg::Key(name, arg) => keywords.push((Name::new_static(name), of(arg)?)),
            arg => positional.push(of(arg)?),
        }
    }
    Some((positional, keywords))
}
