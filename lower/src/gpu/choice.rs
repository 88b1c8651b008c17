//! Which versions of a product are in the text, and how the host chooses: by one extent, between two at most.
//!
//! One of the two is used from some extent on and the other one below it, so whatever the extents are, one is. That is the form of
//! which printers can tell that both together store everything; and with more choices every index is a sum of more cases, so that what
//! is proved of a kernel takes many times as long.

use super::Choices;
use super::expressions::{extent, multiply, opposite, reaches};
use super::tiles::Product;
use super::warps::{self, Warps};
use super::{register_tiles, split_terms};
use crate::writer::Writer;
use relax_rewrite::classes::{Class, Sizes, Tree};
use relax_rewrite::pass::Exactness;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Loop, TExpr};

/// A version of a product.
pub(super) struct Version {
    pub(super) class: Class,
    /// 1 where it is used, else 0.
    pub(super) times: TExpr,
}

impl Version {
    fn always(class: Class) -> Vec<Self> {
        vec![Self { class, times: TExpr::Int(1) }]
    }

    /// One where a number is 1, and another one where it is 0.
    fn either(class: Class, times: TExpr, other: Class) -> Vec<Self> {
        let rest = opposite(&times);
        let both = [Self { class, times }, Self { class: other, times: rest }];
        both.into_iter().filter(|version| version.times != TExpr::Int(0)).collect()
    }
}

/// The versions of a product, of which one is used whatever the extents are.
pub(super) fn versions(
    writer: &Writer,
    product: &Product,
    size: i64,
    choices: &Choices<'_>,
) -> Vec<Version> {
    let has_cores = choices.exactness == Exactness::Rounded(DType::F32)
        && Warps::of(choices.limits).is_some()
        && warps::is_possible(writer, product);
    let has_squares = register_tiles::is_possible(writer, product, size);
    let has_split = split_terms::is_possible(writer, product, choices);
    if let Some(tree) = choices.products {
        let nearest = |class| match class {
            Class::Cores if has_cores => Class::Cores,
            Class::Cores | Class::Squares if has_squares => Class::Squares,
            Class::Cores | Class::Squares => Class::Tiles,
            Class::Split if !has_split => Class::Tiles,
            class => class,
        };
        return learned(product, tree, &nearest);
    }
    let cores = if has_cores { warps::chosen(product) } else { None };
    if let Some(times) = cores {
        return Version::either(Class::Cores, times, Class::Tiles);
    }
    if has_split {
        let width = register_tiles::width(writer, product, size);
        let squares = match has_squares {
            true => split_terms::larger(product, width, choices.limits),
            false => TExpr::Int(0),
        };
        return Version::either(Class::Squares, squares, Class::Split);
    }
    let squares = if has_squares { register_tiles::chosen(writer, product, size) } else { None };
    match squares {
        Some(times) => Version::either(Class::Squares, times, Class::Tiles),
        None => Version::always(Class::Tiles),
    }
}

/// Elements of the result.
pub(super) fn elements(product: &Product) -> TExpr {
    let loops = product.batch.iter().chain([&product.i, &product.j]);
    loops.map(extent).reduce(multiply).expect("invariant: there are two loops")
}

/// What a tree says of the extents that are known, and of the first one that is not, of which the others are taken to be as much.
/// Where it would have more than two versions, the last two are there: the largest products take the time.
fn learned(product: &Product, tree: &Tree, nearest: &dyn Fn(Class) -> Class) -> Vec<Version> {
    let known = |item: &Loop| match extent(item) {
        TExpr::Int(count) => Some(count),
        _ => None,
    };
    let [rows, columns, terms] = [&product.i, &product.j, &product.k].map(known);
    let bytes = product.factors.iter().map(|factor| factor.dtype.size()).max();
    let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(i64::MAX);
    let sizes = |number: i64| {
        let [rows, columns, terms] = [rows, columns, terms].map(|count| count.unwrap_or(number));
        Sizes { rows, terms, columns, bytes }
    };
    let mut found: Vec<(i64, Class)> = Vec::new();
    for (start, class) in tree.along(&sizes) {
        let class = nearest(class);
        if found.last().is_none_or(|(_, last)| *last != class) {
            found.push((start, class));
        }
    }
    let open = [&product.i, &product.j, &product.k].into_iter().find(|item| known(item).is_none());
    match (found.as_slice(), open) {
        ([.., (_, below), (start, class)], Some(item)) => {
            Version::either(*class, reaches(extent(item), *start), *below)
        }
        ([.., (_, class)], _) => Version::always(*class),
        ([], _) => Version::always(Class::Tiles),
    }
}
