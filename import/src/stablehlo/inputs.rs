//! The inputs of a program: names out of the text, and a symbol for each `?`.
//!
//! A program of `jax.export` with symbolic dims is a wrapper, which measures the dims, around the function, which takes them as
//! parameters with the attribute `jax.global_constant`. So the names of dims and of inputs are those of that function.

use super::call::tensor_type;
use super::places::name;
use super::syntax::{Attribute, Function, Module, Op};
use super::walk::Walk;
use crate::builder::{Content, Origin, V};
use crate::model::Bound;
use crate::reason::{Done, ImportError, Reason, invalid};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// The function that the program is: `main`, else the only one, else none.
pub(super) fn entry(module: &Module) -> Result<&Function, ImportError> {
    let mut functions = module.functions.values();
    match (module.functions.get("main"), functions.next(), functions.next()) {
        (Some(main), ..) | (None, Some(main), None) => Ok(main),
        _ => Err(ImportError::Malformed("the module has no function @main".to_owned())),
    }
}

/// Names of the inputs, all different.
pub(super) fn input_names(module: &Module, main: &Function) -> Vec<String> {
    let mut names: Vec<Option<String>> = main
        .params
        .iter()
        .map(|param| param.location.as_deref().and_then(|location| name(module, location)))
        .collect();
    for (callee, op) in calls(module, main) {
        for (operand, param) in op.operands.iter().zip(&callee.params) {
            let place = main.params.iter().position(|own| own.name == operand.name);
            let found = param.location.as_deref().and_then(|location| name(module, location));
            if let (Some(place), Some(found)) = (place, found) {
                names[place].get_or_insert(found);
            }
        }
    }
    let mut taken = BTreeSet::new();
    let unique = names.into_iter().enumerate().map(|(index, name)| {
        let base = name.unwrap_or_else(|| format!("arg{index}"));
        let mut name = base.clone();
        let mut count = 1;
        while !taken.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        name
    });
    unique.collect()
}

pub(super) fn output_names(main: &Function, count: usize) -> Vec<String> {
    let name = |index: usize| {
        let info = main.results.get(index).and_then(|result| result.get("jax.result_info"));
        match info {
            Some(Attribute::Str(text)) if !text.is_empty() => text.clone(),
            _ => format!("result{index}"),
        }
    };
    (0..count).map(name).collect()
}

/// Names of dims by parameter and axis.
pub(super) fn dim_names(module: &Module, main: &Function) -> BTreeMap<(usize, i64), String> {
    let mut measured = BTreeMap::new();
    for op in main.ops.iter().filter(|op| op.name == "stablehlo.get_dimension_size") {
        let of = op.operands.first();
        let place = of.and_then(|of| main.params.iter().position(|param| param.name == of.name));
        let axis = ["dim", "dimension"].iter().find_map(|name| op.attributes.get(*name));
        if let (Some(result), Some(place), Some(Attribute::Int(axis))) = (&op.result, place, axis) {
            measured.insert(result.as_str(), (place, i64::try_from(*axis).unwrap_or(-1)));
        }
    }
    let mut names = BTreeMap::new();
    for (callee, op) in calls(module, main) {
        for (operand, param) in op.operands.iter().zip(&callee.params) {
            if let Some(Attribute::Str(name)) = param.attributes.get("jax.global_constant")
                && let Some(at) = measured.get(operand.name.as_str())
                && !name.is_empty()
            {
                names.insert(*at, name.clone());
            }
        }
    }
    names
}

fn calls<'m>(
    module: &'m Module,
    main: &'m Function,
) -> impl Iterator<Item = (&'m Function, &'m Op)> {
    main.ops.iter().filter(|op| op.name == "func.call").filter_map(|op| {
        let callee = module.functions.get(op.symbol.as_deref()?)?;
        Some((callee, op))
    })
}

impl<'m> Walk<'m> {
    pub(super) fn inputs(&mut self, main: &'m Function) -> Done<Vec<V>> {
        let names = input_names(self.module, main);
        let dims = dim_names(self.module, main);
        let mut symbols = BTreeMap::new();
        let mut values = Vec::new();
        for (place, (param, name)) in main.params.iter().zip(names).enumerate() {
            let (stated, dtype) = tensor_type(&param.r#type).map_err(|reason| match reason {
                Reason::Unsupported(why) => {
                    Reason::Unsupported(format!("the input `{name}`: {why}"))
                }
                other => other,
            })?;
            let v = if let Some(tensor) = self.options.bind.get(&name) {
                let fits = tensor.dtype() == dtype
                    && tensor.rank() == stated.len()
                    && tensor
                        .shape()
                        .iter()
                        .zip(&stated)
                        .all(|(&own, stated)| stated.is_none_or(|stated| stated == own as i64));
                if !fits {
                    return invalid(format!("the value of `{name}` does not have its type"));
                }
                self.builder.constant(tensor.clone())
            } else {
                let extent = |(axis, stated): (usize, &Option<i64>)| match stated {
                    Some(extent) => Dim::Int(*extent),
                    None => {
                        let known = dims.get(&(place, axis as i64));
                        self.symbol(known.map(String::as_str), &name, axis, &mut symbols)
                    }
                };
                let dims = stated.iter().enumerate().map(extent).collect();
                self.builder.add(dims, dtype, Content::Input(name.clone()))
            };
            self.builder.values[v.0].hint = Some(name);
            values.push(v);
        }
        Ok(values)
    }

    /// A symbol for a `?`: that of its name, or a new one.
    fn symbol(
        &mut self,
        known: Option<&str>,
        input: &str,
        axis: usize,
        symbols: &mut BTreeMap<String, Dim>,
    ) -> Dim {
        let own = format!("{input}_{axis}");
        let name = known.unwrap_or(&own);
        if let Some(dim) = symbols.get(name) {
            return dim.clone();
        }
        let wanted = self.options.dims.get(name).map_or(name, String::as_str);
        let dim = match wanted.parse::<i64>() {
            Ok(extent) => Dim::Int(extent.max(0)),
            Err(_) => self.builder.variable(Some(wanted), Origin::Signature),
        };
        if let Dim::Var(variable) = &dim {
            match known {
                Some(_) => _ = self.named.insert(variable.to_string()),
                None => {
                    let place = format!("dim {axis} of `{input}`");
                    self.unnamed.insert(variable.to_string(), place);
                }
            }
            let given = &self.options.bounds;
            let given = given.get(name).or_else(|| given.get(&**variable)).copied();
            if let Some(bound) = given {
                self.named.insert(variable.to_string());
                self.bound(&dim, bound);
            }
        }
        symbols.insert(name.to_owned(), dim.clone());
        dim
    }

    /// Declares bounds of a variable of the signature beside those that it has.
    pub(super) fn bound(&mut self, dim: &Dim, new: Bound) {
        let Dim::Var(variable) = dim else { return };
        let bound = self.builder.bounded.entry(variable.to_string()).or_default();
        bound.lower = bound.lower.max(new.lower);
        bound.upper = bound.upper.into_iter().chain(new.upper).min();
        if let Some(lower) = new.lower {
            self.builder.facts.assume(Claim::new(lower, Relation::AtMost, dim.clone()));
        }
        if let Some(upper) = new.upper {
            self.builder.facts.assume(Claim::new(dim.clone(), Relation::AtMost, upper));
        }
    }

    pub(super) fn refuse_unknown_bounds(&self) -> Result<(), ImportError> {
        for name in self.options.bounds.keys() {
            let is_known = self.builder.bounded.contains_key(name)
                || self.builder.bounded.contains_key(&crate::names::valid(name));
            if !is_known {
                let why = format!("the inputs of the model have no symbolic dim `{name}`");
                return Err(ImportError::Bound(why));
            }
        }
        Ok(())
    }
}
