//! Cotangents of variables, while a function is walked backwards.

use crate::adjoints::tape::{Made, Tape, may_be_float};
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::Atom;
use std::collections::BTreeMap;

/// What the uses of a value gave: of a tensor a list, the last use in the text first; of a tuple by field.
#[derive(Clone, Debug, Default)]
pub(super) struct Cotangent {
    own: Vec<Atom>,
    fields: BTreeMap<usize, Cotangent>,
}

impl Cotangent {
    /// Adds what one use gave of the part at `path`.
    pub(super) fn add(&mut self, path: &[usize], given: Atom) {
        match path.split_first() {
            None => self.own.push(given),
            Some((&first, rest)) => self.fields.entry(first).or_default().add(rest, given),
        }
    }

    /// Adds all that another value has, of the part at `path`.
    pub(super) fn add_all(&mut self, path: &[usize], other: &Cotangent) {
        match path.split_first() {
            Some((&first, rest)) => self.fields.entry(first).or_default().add_all(rest, other),
            None => {
                self.own.extend(other.own.iter().cloned());
                for (&at, field) in &other.fields {
                    self.fields.entry(at).or_default().add_all(&[], field);
                }
            }
        }
    }

    pub(super) fn field(&self, at: usize) -> Option<&Cotangent> {
        self.fields.get(&at)
    }

    /// The sum, in the order of the text; none where no use gave anything.
    pub(super) fn sum(&self, tape: &mut Tape) -> Made<Option<Atom>> {
        let mut given = self.own.iter().rev();
        let Some(mut sum) = given.next().cloned() else { return Ok(None) };
        for more in given {
            sum = tape.call("add", &[&sum, more])?;
        }
        Ok(Some(sum))
    }

    /// The same with the sums made, so that they are made once.
    pub(super) fn summed(&self, tape: &mut Tape) -> Made<Cotangent> {
        let own = self.sum(tape)?.into_iter().collect();
        let mut fields = BTreeMap::new();
        for (&at, field) in &self.fields {
            fields.insert(at, field.summed(tape)?);
        }
        Ok(Cotangent { own, fields })
    }

    /// That of the part at `path`.
    pub(super) fn at(&self, path: &[usize]) -> Option<&Cotangent> {
        path.iter().try_fold(self, |part, &at| part.field(at))
    }
}

/// The float tensors in a value of this annotation, as paths of fields. None where fields are not known.
pub(super) fn leaves(annotation: &Annotation) -> Option<Vec<(Vec<usize>, Annotation)>> {
    match annotation {
        Annotation::Tuple(fields) => {
            let mut all = Vec::new();
            for (at, field) in fields.iter().enumerate() {
                for (mut path, leaf) in leaves(field)? {
                    path.insert(0, at);
                    all.push((path, leaf));
                }
            }
            Some(all)
        }
        Annotation::Object => None,
        Annotation::DTensor(_) if may_be_float(annotation) => None,
        tensor if may_be_float(tensor) => Some(vec![(Vec::new(), tensor.clone())]),
        _ => Some(Vec::new()),
    }
}

/// The part of a value at a path.
fn part(tape: &mut Tape, value: &Atom, path: &[usize]) -> Atom {
    path.iter().fold(value.clone(), |value, &at| tape.field(&value, at))
}

/// The sum of what a part of a value was given; zeros where no use gave anything.
pub(super) fn sum_or_zeros(
    tape: &mut Tape,
    given: Option<&Cotangent>,
    value: &Atom,
    path: &[usize],
) -> Made<Atom> {
    let own = given.and_then(|own| own.at(path)).map(|own| own.sum(tape)).transpose()?.flatten();
    match own {
        Some(own) => Ok(own),
        None => {
            let value = part(tape, value, path);
            tape.call("zeros_like", &[&value])
        }
    }
}
