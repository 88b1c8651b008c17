//! Products: linear in each operand, so the adjoint is a product of the cotangent with the others.

use super::Adjoint::{Build, Formulas};
use super::site::Site;
use super::tape::{Made, dtype_atom};
use relax_semantics::ops::einsum::{Subscripts, Term, parse};
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["matmul"], Build(matmul)),
    (&["outer"], Formulas("d_x1 = matmul(g, x2)\nd_x2 = matmul(x1, g)")),
    (&["einsum"], Build(einsum)),
];

/// Vectors count as matrices of one row or column; batch dims broadcast.
fn matmul(site: &mut Site) -> Made<()> {
    let g = site.g()?;
    let dtype = site.tape.dtype(&g)?;
    let (x1, x2) = (site.param("x1"), site.param("x2"));
    let (rank1, rank2) = (site.tape.rank(&x1)?, site.tape.rank(&x2)?);
    let mut g = g;
    if rank1 == 1 {
        let at = if rank2 == 1 { 0 } else { -2 };
        g = site.tape.call("expand_dims", &[&g, &axis(at)])?;
    }
    if rank2 == 1 {
        g = site.tape.call("expand_dims", &[&g, &axis(-1)])?;
    }
    for (name, other, rank, other_rank) in [("x1", &x2, rank1, rank2), ("x2", &x1, rank2, rank1)] {
        if !site.wants(name) {
            continue;
        }
        let first = name == "x1";
        let mut other = site.tape.cast(other, dtype)?;
        // The transposed other operand.
        other = match (first, other_rank) {
            (true, 1) => site.tape.call("expand_dims", &[&other, &axis(0)])?,
            (false, 1) => site.tape.call("expand_dims", &[&other, &axis(-1)])?,
            (_, rank) => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(rank - 1, rank - 2);
                site.tape.permute(&other, &axes)?
            }
        };
        let mut given = if first {
            site.tape.call("matmul", &[&g, &other])?
        } else {
            site.tape.call("matmul", &[&other, &g])?
        };
        if rank == 1 {
            let at = if first { -2 } else { -1 };
            given = site.tape.call("squeeze", &[&given, &axis(at)])?;
        }
        site.give(name, &given)?;
    }
    Ok(())
}

fn axis(at: i64) -> Atom {
    Atom::List(vec![Atom::Dim(Dim::Int(at))])
}

/// One product of the cotangent with the other operands. A label of the operand that occurs nowhere else
/// is that of a vector of ones; the second of two equal labels gets a label of its own, and a unit matrix.
fn einsum(site: &mut Site) -> Made<()> {
    let g = site.g()?;
    let dtype = site.tape.dtype(&g)?;
    let parts = site.elements("operands")?;
    let subscripts = parse(&site.str("subscripts")?)?;
    for (at, part) in parts.iter().enumerate() {
        if !site.wants_element("operands", at) {
            continue;
        }
        let own = &subscripts.operands[at];
        let dims = site.tape.known_dims(part)?;
        let mut terms = vec![spelled(&subscripts.result)];
        let mut operands = vec![g.clone()];
        for (other, atom) in parts.iter().enumerate().filter(|(other, _)| *other != at) {
            terms.push(spelled(&subscripts.operands[other]));
            operands.push(atom.clone());
        }
        let mut free = ('a'..='z').chain('A'..='Z').filter(|label| !uses(&subscripts, *label));
        let (mut result, mut seen) = (own.clone(), Vec::new());
        let places = places(own, dims.len());
        for (place, label) in
            result.before.iter_mut().chain(result.after.iter_mut().flatten()).enumerate()
        {
            let dim = &dims[places[place]];
            if seen.contains(label) {
                let fresh = free.next().ok_or("it has too many labels")?;
                let matrix = unit(site, dim, dtype_atom(dtype))?;
                terms.push(format!("{label}{fresh}"));
                operands.push(matrix);
                *label = fresh;
                continue;
            }
            seen.push(*label);
            if !terms.iter().any(|term| term.contains(*label)) {
                let shape = Atom::Shape(vec![dim.clone()]);
                let ones = site.tape.call("ones", &[&shape, &dtype_atom(dtype)])?;
                terms.push(label.to_string());
                operands.push(ones);
            }
        }
        let text = format!(
            "{}->{}",
            terms.join(","),
            spelled_with(&result, subscripts.result.after.is_some())
        );
        let given = site.tape.call("einsum", &[&Atom::Tuple(operands), &Atom::Str(text.into())])?;
        let given = if own.after.is_none() && subscripts.result.after.is_some() {
            // Further dims that this operand does not have.
            let named = own.named();
            let rank = site.tape.rank(&given)?;
            let lead: Vec<usize> = (0..rank - named).collect();
            site.tape.call("sum", &[&given, &super::tape::axes_atom(&lead)])?
        } else {
            given
        };
        site.give_element("operands", at, part, &given)?;
    }
    Ok(())
}

fn unit(site: &mut Site, dim: &Dim, dtype: Atom) -> Made<Atom> {
    let (dim, zero) = (Atom::Dim(dim.clone()), Atom::Dim(Dim::Int(0)));
    site.tape.call("eye", &[&dim, &Atom::None, &zero, &dtype])
}

/// Which dims the labels of a term name.
fn places(term: &Term, rank: usize) -> Vec<usize> {
    let after = term.after.as_ref().map_or(0, Vec::len);
    (0..term.before.len()).chain(rank - after..rank).collect()
}

fn uses(subscripts: &Subscripts, label: char) -> bool {
    subscripts.operands.iter().any(|term| term.labels().any(|own| own == label))
}

fn spelled(term: &Term) -> String {
    spelled_with(term, false)
}

/// The text of a term, with `...` in front where it has none and is to have one.
fn spelled_with(term: &Term, dots: bool) -> String {
    let text = |labels: &[char]| labels.iter().collect::<String>();
    match &term.after {
        Some(after) => format!("{}...{}", text(&term.before), text(after)),
        None if dots => format!("...{}", text(&term.before)),
        None => text(&term.before),
    }
}
