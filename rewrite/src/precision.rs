//! No pass forgets what is known: of each variable and result that it keeps, the annotation says at
//! least as much as before.

use relax_semantics::check::{Phase, check};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::facts::Facts;
use relax_syntax::ir::layouts::has_layouts;
use relax_syntax::ir::{Function, Module};

/// The first variable or result of which less is known after a pass. Signatures of functions as
/// values are left out: of a partial application none is known. Layouts may go from all of a module, for one device, and not from
/// a part of it.
#[must_use]
pub fn coarsened(before: &Module, after: &Module, facts: &mut dyn Facts) -> Option<String> {
    let layouts = if has_layouts(after) { Layouts::Stay } else { Layouts::Gone };
    for function in before.functions() {
        let Some(kept) = after.function(&function.name) else { continue };
        if let Some(what) = variable(function, kept, layouts) {
            return Some(what);
        }
    }
    let mut results = |module| check(module, facts, Phase::Surface).results;
    let (known, now) = (results(before), results(after));
    known.iter().find_map(|(name, known)| {
        let now = now.get(name)?;
        (!says_as_much(now, &layouts.of(known)))
            .then(|| format!("the result of `{name}` was `{known}`, and is `{now}`"))
    })
}

#[derive(Clone, Copy)]
enum Layouts {
    Stay,
    Gone,
}

impl Layouts {
    /// What is to be known after the pass.
    fn of(self, known: &Annotation) -> Annotation {
        match self {
            Layouts::Stay => known.clone(),
            Layouts::Gone => known.without_layouts(),
        }
    }
}

/// Variables that both have under one name, where it is unique.
fn variable(function: &Function, kept: &Function, layouts: Layouts) -> Option<String> {
    let named = |function: &Function, name: &str| {
        let mut found = function.vars.iter().filter(|info| info.name == name).cloned();
        found.next().filter(|_| found.next().is_none())
    };
    function.vars.iter().find_map(|info| {
        let known = named(function, &info.name)?.annotation?;
        let now = named(kept, &info.name)?.annotation;
        let wanted = layouts.of(&known);
        let coarser = now.as_ref().is_none_or(|now| !says_as_much(now, &wanted));
        coarser.then(|| {
            let now = now.map_or("nothing".to_owned(), |now| now.to_string());
            format!("`{}` in `{}` was `{known}`, and is {now}", info.name, function.name)
        })
    })
}

fn says_as_much(now: &Annotation, known: &Annotation) -> bool {
    match (now, known) {
        (_, Annotation::Object) | (Annotation::Callable(_), Annotation::Callable(_)) => true,
        (Annotation::Tensor(now), Annotation::Tensor(known)) => tensor(now, known),
        (Annotation::DTensor(now), Annotation::DTensor(known)) => {
            tensor(&now.tensor, &known.tensor)
        }
        (Annotation::Shape(now), Annotation::Shape(known)) => extents(now, known),
        (Annotation::Tuple(now), Annotation::Tuple(known)) => {
            now.len() == known.len()
                && now.iter().zip(known).all(|(now, known)| says_as_much(now, known))
        }
        (now, known) => now == known,
    }
}

fn tensor(now: &TensorType, known: &TensorType) -> bool {
    extents(&now.extents, &known.extents) && (known.dtype.is_none() || now.dtype == known.dtype)
}

/// Dims may be written in another way; that they are equal is for the check and for runs to say.
fn extents(now: &Extents, known: &Extents) -> bool {
    match (now, known) {
        (_, Extents::Unknown) | (Extents::Known(_), Extents::Known(_)) => true,
        (now, Extents::Rank(rank)) => now.rank() == Some(*rank),
        _ => false,
    }
}
