//! Reads and writes at places that the data tells. A read becomes an addition at the same places, in
//! row-major order of the indices; a write passes on what is still there in the end.

use super::Adjoint::{Build, Formulas};
use super::movement::inverse;
use super::selection::{by_places, numbers};
use super::site::Site;
use super::tape::{Made, int, plus};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["take"], Build(take)),
    (
        &["gather_elements"],
        Formulas(
            "d_data = scatter_elements(zeros_like(data), indices, g, axis, reduction=\"add\")",
        ),
    ),
    (&["gather_nd"], Build(gather_nd)),
    (
        &["index_tensor"],
        Formulas("d_data = index_put(zeros_like(data), indices, g, accumulate=True)"),
    ),
    (&["index_put"], Build(index_put)),
    (&["scatter_elements"], Build(scatter_elements)),
    (&["scatter_nd"], Build(scatter_nd)),
    (&["slice_scatter"], Build(slice_scatter)),
    (&["one_hot"], Build(one_hot)),
];

/// Rows are added where they were read. An index that the mode moved is moved here too; with "nan" those
/// out of range add to a row after the last one, which is dropped.
fn take(site: &mut Site) -> Made<()> {
    let (x, indices, g) = (site.param("x"), site.param("indices"), site.g()?);
    let dims = site.tape.known_dims(&x)?;
    let axis = if site.is_none("axis") { 0 } else { site.axis("axis", dims.len())? };
    let read = site.tape.rank(&indices)?;
    let dtype = site.tape.dtype(&x)?;
    let mut indices = indices;
    let extent = dims[axis].clone();
    let mut rows = extent.clone();
    let mode = site.str("mode")?;
    match mode.as_str() {
        "clip" | "wrap" => {
            let all = site.tape.iota(&extent)?;
            indices = site.tape.call("take", &[&all, &indices, &int(0), &Atom::Str(mode)])?;
        }
        "nan" => {
            rows = plus(&extent, &Dim::Int(1));
            let zeros = site.tape.zeros(vec![extent.clone()], dtype)?;
            let read = site.tape.call("take", &[&zeros, &indices, &int(0), &Atom::Str(mode)])?;
            let outside = site.tape.call("isnan", &[&read])?;
            let last = site.tape.scalar(&extent, DType::I64)?;
            let own = site.tape.cast(&indices, DType::I64)?;
            indices = site.tape.call("where", &[&outside, &last, &own])?;
        }
        _ => {}
    }
    // The axes of the indices first, then what surrounds the axis that is read.
    let around: Vec<usize> = (0..axis).chain(axis + read..dims.len() - 1 + read).collect();
    let axes: Vec<usize> = (axis..axis + read).chain(around).collect();
    let g = site.tape.permute(&g, &axes)?;
    let to_front: Vec<usize> =
        std::iter::once(axis).chain((0..dims.len()).filter(|at| *at != axis)).collect();
    let mut front: Vec<Dim> = to_front.iter().map(|&at| dims[at].clone()).collect();
    front[0] = rows;
    let zeros = site.tape.zeros(front, dtype)?;
    let list = Atom::Tuple(vec![indices]);
    let mut given = site.tape.call("index_put", &[&zeros, &list, &g, &Atom::Bool(true)])?;
    if site.str("mode")? == "nan" {
        given = super::movement::slice(site, &given, 0, &Dim::Int(0), &extent)?;
    }
    let given = site.tape.permute(&given, &inverse(&to_front))?;
    site.give("x", &given)
}

fn gather_nd(site: &mut Site) -> Made<()> {
    if site.ints("batch_dims")? != [0] {
        return by_places(site, "data");
    }
    site.formulas("d_data = scatter_nd(zeros_like(data), indices, g, reduction=\"add\")", &[])
}

fn index_put(site: &mut Site) -> Made<()> {
    if site.bool("accumulate") {
        return site.formulas("d_data = g\nd_values = index_tensor(g, indices)", &[]);
    }
    site.formulas("d_data = index_put(g, indices, 0)", &[])?;
    if !site.wants("values") {
        return Ok(());
    }
    let read = site.value("index_tensor(g, indices)", &[])?;
    let (own, data, indices) = (numbers(site, &read)?, site.param("data"), site.param("indices"));
    let dims = site.tape.known_dims(&data)?;
    let none = site.tape.zeros(dims, DType::I64)?;
    let written = site.tape.call("index_put", &[&none, &indices, &own])?;
    let written = site.tape.call("index_tensor", &[&written, &indices])?;
    let given = still_there(site, &written, &own, &read)?;
    site.give("values", &given)
}

/// Of writes to one place only the last one stays: each writes its number, and reads which one is there.
fn still_there(site: &mut Site, written: &Atom, own: &Atom, read: &Atom) -> Made<Atom> {
    let more = [("written", written.clone()), ("own", own.clone()), ("read", read.clone())];
    site.value("where(written == own, read, 0)", &more)
}

fn scatter_elements(site: &mut Site) -> Made<()> {
    scatter(
        site,
        "gather_elements(from, indices, axis)",
        "scatter_elements(into, indices, written, axis, reduction=how)",
    )
}

fn scatter_nd(site: &mut Site) -> Made<()> {
    scatter(site, "gather_nd(from, indices)", "scatter_nd(into, indices, written, reduction=how)")
}

fn scatter(site: &mut Site, read: &str, write: &str) -> Made<()> {
    let (g, data, updates) = (site.g()?, site.param("data"), site.param("updates"));
    let how = |text: &str| Atom::Str(text.into());
    let reduction = site.str("reduction")?;
    match reduction.as_str() {
        "add" => {
            site.formulas("d_data = g", &[])?;
            if site.wants("updates") {
                let given = site.value(read, &[("from", g)])?;
                site.give("updates", &given)?;
            }
            Ok(())
        }
        "update" => {
            if site.wants("data") {
                let zeros = site.tape.call("zeros_like", &[&updates])?;
                let more = [("into", g.clone()), ("written", zeros), ("how", how("update"))];
                let given = site.value(write, &more)?;
                site.give("data", &given)?;
            }
            if site.wants("updates") {
                let own = numbers(site, &updates)?;
                let dims = site.tape.known_dims(&data)?;
                let none = site.tape.zeros(dims, DType::I64)?;
                let more = [("into", none), ("written", own.clone()), ("how", how("update"))];
                let written = site.value(write, &more)?;
                let written = site.value(read, &[("from", written)])?;
                let g = site.value(read, &[("from", g)])?;
                let given = still_there(site, &written, &own, &g)?;
                site.give("updates", &given)?;
            }
            Ok(())
        }
        // Equally to all that are the extreme one, as PyTorch's `amax`.
        "max" | "min" => {
            let y = site.y.clone();
            let there = site.value(read, &[("from", y)])?;
            let dtype = site.tape.dtype(&g)?;
            let more = [("there", there.clone())];
            let won = site.value("updates == there", &more)?;
            let won = site.tape.cast(&won, dtype)?;
            let kept = site.value("data == y", &[])?;
            let kept = site.tape.cast(&kept, dtype)?;
            let more = [("into", kept.clone()), ("written", won.clone()), ("how", how("add"))];
            let count = site.value(write, &more)?;
            let share = site.value("g / count", &[("count", count)])?;
            if site.wants("data") {
                let given = site.value(
                    "where(kept > 0, share, 0)",
                    &[("kept", kept), ("share", share.clone())],
                )?;
                site.give("data", &given)?;
            }
            if site.wants("updates") {
                let share = site.value(read, &[("from", share)])?;
                let given =
                    site.value("where(won > 0, share, 0)", &[("won", won), ("share", share)])?;
                site.give("updates", &given)?;
            }
            Ok(())
        }
        other => {
            Err(format!("with the reduction `{other}` a result depends on the order of its writes"))
        }
    }
}

fn slice_scatter(site: &mut Site) -> Made<()> {
    if site.wants("input_tensor") {
        let given = site.value("slice_scatter(g, zeros_like(src), start, end, step, axis)", &[])?;
        site.give("input_tensor", &given)?;
    }
    if site.wants("src") {
        let g = site.g()?;
        let list = |atom: Atom| Atom::List(vec![atom]);
        let rank = site.tape.rank(&g)?;
        let axis = int(site.axis("axis", rank)?);
        let [start, end, step] = ["start", "end", "step"].map(|name| list(site.param(name)));
        let given = site.tape.call("strided_slice", &[&g, &list(axis), &start, &end, &step])?;
        site.give("src", &given)?;
    }
    Ok(())
}

fn one_hot(site: &mut Site) -> Made<()> {
    let dtype = site.tape.dtype(&site.g()?)?;
    let (indices, depth, axis) = (site.param("indices"), site.param("depth"), site.param("axis"));
    let (one, zero) =
        (super::tape::Tape::number(1.0, dtype), super::tape::Tape::number(0.0, dtype));
    let hot = site.tape.call("one_hot", &[&indices, &one, &zero, &depth, &axis])?;
    site.formulas("d_on_value = sum(g * hot)\nd_off_value = sum(g * (1 - hot))", &[("hot", hot)])
}
