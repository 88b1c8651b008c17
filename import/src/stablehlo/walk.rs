//! The functions of a module, executed on symbolic values from `main` on: calls are inlined, each operation becomes lines of
//! the program, or a reason why not.
//!
//! JAX computes dims with scalar integers. They are dims here from the first `get_dimension_size` on, so that shapes are
//! expressions over the dims of the inputs. The `?` of a type only says that a dim is not a number.

use super::call::{Call, dtype, tensor_type};
use super::dense;
use super::places::Places;
use super::rows;
use super::scalars::Rounded;
use super::syntax::{Attribute, Elements, Function, Module, Op, Region, Type};
use crate::builder::{Builder, Content, Line, V};
use crate::model::Options;
use crate::reason::{Done, ImportError, Missing, Reason, invalid, unsupported};
use crate::weight::Weight;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// Operations with those of calls and loops, written out.
const MOST: usize = 200_000;
/// Calls within calls.
const DEEPEST: usize = 64;

/// Names of a function, those of the innermost region last. A value is `None` where it could not be imported.
#[derive(Default)]
pub(super) struct Scope<'m>(Vec<BTreeMap<&'m str, Vec<Option<V>>>>);

/// Values of the parameters of a block or the results of an operation.
pub(super) type Values = Vec<Option<V>>;

pub(super) struct Walk<'m> {
    pub(super) builder: Builder,
    pub(super) options: &'m Options,
    pub(super) module: &'m Module,
    pub(super) text: &'m str,
    pub(super) notes: Vec<String>,
    /// Comparisons of dims that are not decided.
    pub(super) claims: BTreeMap<V, Claim>,
    /// Steps of divisions of dims.
    pub(super) rounded: BTreeMap<V, Rounded>,
    /// What a value is the broadcast of, by the rules of NumPy.
    pub(super) sources: BTreeMap<V, V>,
    /// Values that count along an axis from 0.
    pub(super) counts: BTreeMap<V, usize>,
    /// What JAX's assertions say, as far as inputs are declared so.
    pub(super) declared: Vec<String>,
    /// Symbolic dims that the exported program has names for.
    pub(super) named: BTreeSet<String>,
    /// What the others are dims of, for people.
    pub(super) unnamed: BTreeMap<String, String>,
    places: Places<'m>,
    missing: BTreeMap<(String, String, bool), BTreeMap<usize, String>>,
    /// Whether a region of scalars is executed on tensors, whose elements its types are those of.
    lifted: bool,
    /// Operations executed so far.
    pub(super) count: usize,
    depth: usize,
}

impl<'m> Walk<'m> {
    pub(super) fn new(module: &'m Module, text: &'m str, options: &'m Options) -> Self {
        let mut builder = Builder::new();
        builder.names.fresh(&options.entry);
        Self {
            builder,
            options,
            module,
            text,
            notes: Vec::new(),
            claims: BTreeMap::new(),
            rounded: BTreeMap::new(),
            sources: BTreeMap::new(),
            counts: BTreeMap::new(),
            declared: Vec::new(),
            named: BTreeSet::new(),
            unnamed: BTreeMap::new(),
            places: Places::new(module),
            missing: BTreeMap::new(),
            lifted: false,
            count: 0,
            depth: 0,
        }
    }

    /// The parameters and results of the program.
    pub(super) fn main(&mut self, main: &'m Function) -> Result<(Vec<V>, Vec<V>), ImportError> {
        let values = self.inputs(main)?;
        self.refuse_unknown_bounds()?;
        let mut scope = Scope::default();
        let given = values.iter().map(|&v| Some(v));
        let outputs = self.block(&mut scope, names(&main.params), &main.ops, given)?;
        if !self.missing.is_empty() {
            let missing = std::mem::take(&mut self.missing).into_iter();
            let missing = missing.map(|((operator, why, is_invalid), nodes)| Missing {
                operator,
                why,
                nodes: nodes.into_values().collect(),
                is_invalid,
            });
            return Err(ImportError::Unsupported(missing.collect()));
        }
        let outputs: Vec<V> = outputs.into_iter().flatten().collect();
        if outputs.is_empty() {
            return Err(ImportError::Malformed("the program has no output".to_owned()));
        }
        let is_input = |v: &V| matches!(self.builder.info(*v).content, Content::Input(_));
        Ok((values.into_iter().filter(is_input).collect(), outputs))
    }

    /// Executes the operations of a block, with its parameters in a frame of their own.
    pub(super) fn block(
        &mut self,
        scope: &mut Scope<'m>,
        params: Vec<&'m str>,
        ops: &'m [Op],
        values: impl Iterator<Item = Option<V>>,
    ) -> Done<Values> {
        let frame = params.into_iter().zip(values.map(|v| vec![v])).collect();
        scope.0.push(frame);
        let results = self.ops(scope, ops);
        scope.0.pop();
        results
    }

    pub(super) fn region(
        &mut self,
        scope: &mut Scope<'m>,
        region: &'m Region,
        values: &[V],
    ) -> Done<Vec<V>> {
        if region.params.len() != values.len() {
            let (wanted, given) = (region.params.len(), values.len());
            return invalid(format!("its region takes {wanted} values, and is given {given}"));
        }
        let values = values.iter().map(|&v| Some(v));
        let results = self.block(scope, names(&region.params), &region.ops, values)?;
        let all = results.into_iter().collect::<Option<Vec<V>>>();
        all.ok_or_else(|| Reason::Unsupported("a region of which a part is missing".to_owned()))
    }

    /// What a region of scalars computes of the elements of tensors.
    pub(super) fn region_on_tensors(
        &mut self,
        scope: &mut Scope<'m>,
        region: &'m Region,
        values: &[V],
    ) -> Done<Vec<V>> {
        let outer = std::mem::replace(&mut self.lifted, true);
        let results = self.region(scope, region, values);
        self.lifted = outer;
        results
    }

    fn ops(&mut self, scope: &mut Scope<'m>, ops: &'m [Op]) -> Done<Values> {
        for op in ops {
            let args = self.operands(scope, op)?;
            if matches!(op.name.as_str(), "func.return" | "stablehlo.return") {
                return Ok(args);
            }
            self.count += 1;
            if self.count > MOST {
                return invalid(format!(
                    "more than {MOST} operations, with calls and loops written out"
                ));
            }
            let results = self.op(scope, op, args)?;
            if let Some(name) = &op.result {
                let frame = scope.0.last_mut().expect("invariant: a block has a frame");
                if frame.insert(name, results).is_some() {
                    return invalid(format!("line {}: two values are named `%{name}`", op.line));
                }
            }
        }
        invalid("a block that returns nothing")
    }

    fn operands(&self, scope: &Scope<'m>, op: &Op) -> Done<Values> {
        let value = |operand: &super::syntax::Use| {
            let found = scope.0.iter().rev().find_map(|frame| frame.get(operand.name.as_str()));
            match found.and_then(|values| values.get(operand.index)) {
                Some(v) => Ok(*v),
                None => invalid(format!(
                    "line {}: nothing before it defines `%{}#{}`",
                    op.line, operand.name, operand.index
                )),
            }
        };
        op.operands.iter().map(value).collect()
    }

    fn op(&mut self, scope: &mut Scope<'m>, op: &'m Op, args: Values) -> Done<Values> {
        let before = self.builder.lines.len();
        let result = match self.callee(op) {
            Some(function) => self.called(op, function, args),
            None => self.computed(scope, op, args).and_then(|values| match values {
                Some(values) => self.compared(op, values).map(Some),
                None => Ok(None),
            }),
        };
        match result {
            Ok(Some(values)) => {
                let is_line = op.regions.is_empty() && self.builder.lines.len() > before;
                if is_line && !op.name.ends_with("call") {
                    let text = self.shown(op);
                    self.builder.lines.insert(before, Line::Comment(text));
                }
                Ok(values)
            }
            Ok(None) => Ok(vec![None; op.types.len()]),
            Err(reason) => {
                self.builder.lines.truncate(before);
                self.note(op, reason);
                Ok(vec![None; op.types.len()])
            }
        }
    }

    fn shown(&self, op: &Op) -> String {
        let name = op.name.strip_prefix("stablehlo.").unwrap_or(&op.name);
        let place = self.places.of(op).map_or_else(String::new, |place| format!("  {place}"));
        printable(&format!("{name}{place}"))
    }

    fn note(&mut self, op: &Op, reason: Reason) {
        let is_invalid = matches!(reason, Reason::Invalid(_));
        let why = reason.text_of_node();
        let name = op.name.as_str();
        let name = match (&op.symbol, name) {
            (Some(symbol), "stablehlo.custom_call" | "stablehlo.composite") => {
                format!("{name} @{symbol}")
            }
            _ => name.to_owned(),
        };
        let place = match self.places.of(op) {
            Some(place) => format!("line {}, {place}", op.line),
            None => format!("line {}", op.line),
        };
        let nodes =
            self.missing.entry((printable(&name), printable(&why), is_invalid)).or_default();
        nodes.insert(op.line, printable(&place));
    }

    /// The function that an operation is a call of.
    fn callee(&self, op: &'m Op) -> Option<&'m Function> {
        let name = match op.name.as_str() {
            "func.call" => op.symbol.as_deref()?,
            "stablehlo.composite" if rows::composite(op.symbol.as_deref()?).is_none() => {
                match op.attributes.get("decomposition")? {
                    Attribute::Symbol(name) => name,
                    _ => return None,
                }
            }
            _ => return None,
        };
        self.module.functions.get(name)
    }

    fn called(&mut self, op: &'m Op, function: &'m Function, args: Values) -> Done<Option<Values>> {
        if self.depth >= DEEPEST {
            return invalid(format!("more than {DEEPEST} calls within calls"));
        }
        if args.len() != function.params.len() {
            return invalid(format!(
                "@{} takes {} values, and is given {}",
                function.name,
                function.params.len(),
                args.len()
            ));
        }
        self.depth += 1;
        let mut scope = Scope::default();
        let results =
            self.block(&mut scope, names(&function.params), &function.ops, args.into_iter());
        self.depth -= 1;
        let results = results?;
        if results.len() != op.types.len() {
            return invalid(format!("@{} gives {} values", function.name, results.len()));
        }
        Ok(Some(results))
    }

    /// The values of an operation; `None` where it reads what could not be imported.
    fn computed(
        &mut self,
        scope: &mut Scope<'m>,
        op: &'m Op,
        args: Values,
    ) -> Done<Option<Vec<V>>> {
        let row = match (op.name.as_str(), op.symbol.as_deref()) {
            ("func.call", _) => return invalid("it calls a function that is not there"),
            ("stablehlo.custom_call", Some(target)) => rows::custom(target),
            ("stablehlo.composite", Some(name)) => rows::composite(name),
            (name, _) => rows::row(name),
        };
        let Some(row) = row else {
            return unsupported("this operation is not imported");
        };
        let Some(args) = args.into_iter().collect::<Option<Vec<V>>>() else { return Ok(None) };
        let mut call = Call { walk: self, op, args, scope };
        row(&mut call).map(Some)
    }

    /// Results against the types that the text has for them: what is a number there and not here is cast.
    fn compared(&mut self, op: &Op, values: Vec<V>) -> Done<Values> {
        if values.len() != op.types.len() {
            return unsupported(format!("{} results", op.types.len()));
        }
        let mut compared = Vec::new();
        for (v, r#type) in values.into_iter().zip(&op.types) {
            if matches!(r#type, Type::Other(text) if text.starts_with("!stablehlo.token")) {
                compared.push(Some(v));
                continue;
            }
            let (dims, dtype) = tensor_type(r#type)?;
            let own = self.builder.dims(v);
            if self.lifted && dims.is_empty() && self.builder.dtype(v) == dtype {
                compared.push(Some(v));
                continue;
            }
            if self.builder.dtype(v) != dtype || own.len() != dims.len() {
                return invalid(format!(
                    "its result has the type tensor of rank {} of {dtype}, and is of rank {} of {}",
                    dims.len(),
                    own.len(),
                    self.builder.dtype(v)
                ));
            }
            compared.push(Some(self.cast(v, &own, &dims)?));
        }
        Ok(compared)
    }

    fn cast(&mut self, v: V, own: &[Dim], stated: &[Option<i64>]) -> Done<V> {
        let mut dims = own.to_vec();
        for (axis, (dim, stated)) in dims.iter_mut().zip(stated).enumerate() {
            let Some(stated) = stated.map(Dim::Int) else { continue };
            if self.builder.same(dim, &stated) {
                *dim = stated;
                continue;
            }
            let differs = Claim::new(dim.clone(), Relation::NotEqual, stated.clone());
            if self.builder.proves(&differs) {
                return invalid(format!(
                    "dim {axis} of its result is {dim}, and {stated} in its type"
                ));
            }
            *dim = stated;
        }
        if dims == own {
            return Ok(v);
        }
        let is_same = dims.iter().zip(own).all(|(dim, own)| self.builder.same(dim, own));
        if is_same {
            self.builder.values[v.0].dims = dims;
            return Ok(v);
        }
        let dtype = self.builder.dtype(v);
        let target = self.builder.add(dims, dtype, Content::Computed);
        self.builder.lines.push(Line::Cast { target, from: v });
        Ok(target)
    }

    /// The constant that an attribute is.
    pub(super) fn weight(&self, attribute: &Attribute) -> Done<Weight> {
        let Attribute::Dense(elements, Type::Tensor { dims, element }) = attribute else {
            return invalid("the value of a constant must be `dense<…>`");
        };
        let dtype = dtype(element)?;
        let shape = dims.iter().map(|dim| dim.and_then(|extent| usize::try_from(extent).ok()));
        let Some(shape) = shape.collect::<Option<Vec<usize>>>() else {
            return invalid("a constant without a shape");
        };
        let weight = match elements {
            Elements::Listed(range) => dense::constant(&self.text[range.clone()], dtype, &shape),
            Elements::Resource(name) => match self.module.resources.get(name) {
                // Four bytes of alignment come first.
                Some(range) => match self.text[range.clone()].strip_prefix("0x") {
                    Some(digits) if digits.len() >= 8 && digits.is_ascii() => {
                        dense::of_digits(&digits[8..], dtype, &shape)
                    }
                    _ => Err("a resource without its bytes".to_owned()),
                },
                None => Err(format!("the resource `{name}` is not in the text")),
            },
        };
        weight.map_err(Reason::Invalid)
    }
}

pub(super) fn names(params: &[super::syntax::Param]) -> Vec<&str> {
    params.iter().map(|param| param.name.as_str()).collect()
}

pub(super) fn printable(text: &str) -> String {
    crate::aten::printable(text)
}
