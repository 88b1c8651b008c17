//! External constants: every `param("name", Tensor(…))` of a program.

use crate::tensor_files::{Entry, Weights};
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Body, Expr, Module};
use std::collections::BTreeMap;

/// Name and annotation of every external constant; a name may be asked for with several
/// annotations, which cannot all be right.
#[must_use]
pub fn externals(module: &Module) -> BTreeMap<Name, Vec<Annotation>> {
    let mut found = BTreeMap::new();
    for function in module.functions() {
        if let Some(body) = &function.lambda.body {
            of_body(body, &mut found);
        }
    }
    found
}

/// A stored name as a parameter is called: characters that no identifier has are `_`.
#[must_use]
pub fn as_identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

/// The values of a program's external constants, checked against their annotations.
///
/// # Errors
/// Everything that the file lacks or has otherwise, at once; sentences for the user.
pub fn constants(module: &Module, weights: &Weights) -> Result<BTreeMap<Name, Tensor>, String> {
    let (wanted, entries) = (externals(module), weights.entries()?);
    let mut problems = Vec::new();
    for (name, annotations) in &wanted {
        for annotation in annotations {
            match entries.get(name.as_str()) {
                None => {
                    let fields = weights.gguf().and_then(|gguf| gguf.fields_of(name.as_str()));
                    let fields = fields.map_or_else(String::new, |fields| format!("; {fields}"));
                    problems.push(format!("`{name}` is missing; expected {annotation}{fields}"));
                }
                Some(entry) if !fits(annotation, entry) => {
                    let found = describe(entry);
                    problems.push(format!("`{name}`: expected {annotation}, found {found}"));
                }
                Some(_) => {}
            }
        }
    }
    if !problems.is_empty() {
        return Err(format!(
            "{} does not have what the program asks for:\n  {}",
            weights.path().display(),
            problems.join("\n  ")
        ));
    }
    let names: Vec<String> = wanted.keys().map(ToString::to_string).collect();
    Ok(wanted.into_keys().zip(weights.tensors(&names)?).collect())
}

fn fits(annotation: &Annotation, entry: &Entry) -> bool {
    let Some(tensor) = annotation.as_tensor() else { return false };
    let dims = tensor.extents.dims().unwrap_or_default();
    let same = |(dim, &extent): (&Dim, &usize)| {
        dim.as_int().and_then(|dim| usize::try_from(dim).ok()) == Some(extent)
    };
    let shape = &entry.shape;
    tensor.dtype == entry.dtype && dims.len() == shape.len() && dims.iter().zip(shape).all(same)
}

fn describe(entry: &Entry) -> String {
    let unknown = "a dtype that is none of the language".to_owned();
    let dtype = entry.dtype.map_or(unknown, |dtype| dtype.to_string());
    format!("{dtype} {:?}", entry.shape)
}

type Found = BTreeMap<Name, Vec<Annotation>>;

fn of_body(body: &Body, found: &mut Found) {
    body.bindings().for_each(|binding| of_expr(&binding.expr, found));
    of_atom(&body.result, found);
}

fn of_expr(expr: &Expr, found: &mut Found) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => of_atom(atom, found),
        Expr::Call { args, attrs, .. } => {
            args.iter().for_each(|atom| of_atom(atom, found));
            attrs.iter().for_each(|(_, atom)| of_atom(atom, found));
        }
        Expr::If { condition, then, otherwise } => {
            of_atom(condition, found);
            of_body(then, found);
            of_body(otherwise, found);
        }
        Expr::Closure(lambda) => {
            if let Some(body) = &lambda.body {
                of_body(body, found);
            }
        }
    }
}

fn of_atom(atom: &Atom, found: &mut Found) {
    match atom {
        Atom::External(external) => {
            let annotations: &mut Vec<Annotation> = found.entry(external.name.clone()).or_default();
            if !annotations.contains(&external.annotation) {
                annotations.push(external.annotation.clone());
            }
        }
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| of_atom(item, found));
        }
        _ => {}
    }
}
