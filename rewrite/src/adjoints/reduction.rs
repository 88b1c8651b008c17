//! Reductions, scans, and losses.

use super::Adjoint::{Build, Formulas};
use super::movement::{inverse, volume};
use super::site::Site;
use super::tape::{Made, Tape, axes_atom, int};
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["sum"], Build(|site| reduce(site, "broadcast_to(g, shape_of(x))"))),
    (&["mean"], Build(|site| reduce(site, "broadcast_to(g / count, shape_of(x))"))),
    // Equally to all elements that are the extreme one, as PyTorch's `amax`.
    (
        &["max", "min"],
        Build(|site| {
            reduce(site, "where(x == y, g / sum(where(x == y, 1, 0), axis=axes, keepdims=True), 0)")
        }),
    ),
    (
        &["variance"],
        Build(|site| reduce(site, "g * (2 * (x - mean(x, axis=axes, keepdims=True)) / count)")),
    ),
    // 0 where all elements are equal, as in PyTorch.
    (
        &["std"],
        Build(|site| {
            reduce(
                site,
                "where(y == 0, 0, g / (y * count)) * (x - mean(x, axis=axes, keepdims=True))",
            )
        }),
    ),
    (&["prod"], Build(prod)),
    (&["cumsum"], Build(cumsum)),
    (&["cumprod"], Build(cumprod)),
    (&["nn.softmax"], Formulas("d_data = y * (g - sum(g * y, axis=axis, keepdims=True))")),
    (&["nn.log_softmax"], Formulas("d_data = g - exp(y) * sum(g, axis=axis, keepdims=True)")),
    (&["nn.cross_entropy_with_logits"], Build(cross_entropy)),
    (&["nn.nll_loss"], Build(nll_loss)),
];

/// A formula in which `g` and `y` have the reduced axes, and `count` is how many elements are reduced to one.
fn reduce(site: &mut Site, formula: &str) -> Made<()> {
    let (x, y, g) = (site.param("x"), site.y.clone(), site.g()?);
    let rank = site.tape.rank(&x)?;
    let axes = site.axes("axis", rank)?;
    let kept = site.bool("keepdims");
    let mut more = vec![("axes", axes_atom(&axes)), ("g", site.keep(&g, &axes, kept)?)];
    if formula.contains('y') {
        more.push(("y", site.keep(&y, &axes, kept)?));
    }
    if formula.contains("count") {
        more.push(("count", count(site, &x, &axes)?));
    }
    let given = site.value(formula, &more)?;
    site.give("x", &given)
}

/// How many elements of `x` are along some axes, in the dtype of the cotangent.
pub(super) fn count(site: &mut Site, x: &Atom, axes: &[usize]) -> Made<Atom> {
    let dims = site.tape.known_dims(x)?;
    let own: Vec<Dim> = axes.iter().map(|&axis| dims[axis].clone()).collect();
    let dtype = site.tape.dtype(x)?;
    site.tape.scalar(&volume(&own), dtype)
}

/// The products of all elements before, times those of all after, so that zeros need no division.
fn prod(site: &mut Site) -> Made<()> {
    let (x, g) = (site.param("x"), site.g()?);
    let dims = site.tape.known_dims(&x)?;
    let axes = site.axes("axis", dims.len())?;
    let g = site.keep(&g, &axes, site.bool("keepdims"))?;
    let order: Vec<usize> =
        (0..dims.len()).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect();
    let moved: Vec<Dim> = order.iter().map(|&axis| dims[axis].clone()).collect();
    let kept = dims.len() - axes.len();
    let flat = vec![volume(&moved[..kept]), volume(&moved[kept..])];
    let rows = site.tape.permute(&x, &order)?;
    let rows = site.tape.reshape(&rows, flat)?;
    let others = site.value(
        "cumprod(rows, axis=1, exclusive=True) * flip(cumprod(flip(rows, 1), axis=1, exclusive=True), 1)",
        &[("rows", rows)],
    )?;
    let others = site.tape.reshape(&others, moved)?;
    let others = site.tape.permute(&others, &inverse(&order))?;
    let given = site.tape.call("multiply", &[&g, &others])?;
    site.give("x", &given)
}

/// Both operands of a scan as tensors of the scanned axis, which is the flattened data where there is none.
fn scanned(site: &mut Site) -> Made<(Atom, Atom, usize)> {
    let (data, g) = (site.param("data"), site.g()?);
    let dtype = site.tape.dtype(&g)?;
    let data = site.tape.cast(&data, dtype)?;
    if site.is_none("axis") {
        let data = site.tape.call("flatten", &[&data])?;
        return Ok((data, g, 0));
    }
    let rank = site.tape.rank(&data)?;
    Ok((data, g, site.axis("axis", rank)?))
}

fn give_scanned(site: &mut Site, given: &Atom) -> Made<()> {
    let data = site.param("data");
    let shape = site.tape.shape(&data)?;
    let given = site.tape.call("reshape", &[given, &shape])?;
    site.give("data", &given)
}

fn cumsum(site: &mut Site) -> Made<()> {
    let (_, g, axis) = scanned(site)?;
    let more = [("g", g), ("at", int(axis)), ("exclusive", site.param("exclusive"))];
    let given = site.value("flip(cumsum(flip(g, at), axis=at, exclusive=exclusive), at)", &more)?;
    give_scanned(site, &given)
}

/// With P_k the product before k, and M(k, i) that of the elements after k up to i, the cotangent of
/// element k is P_k times the sum over i >= k of g_i M(k, i). It takes n² elements, and no division.
fn cumprod(site: &mut Site) -> Made<()> {
    let (data, g, axis) = scanned(site)?;
    let dims = site.tape.known_dims(&data)?;
    let order: Vec<usize> =
        (0..dims.len()).filter(|at| *at != axis).chain(std::iter::once(axis)).collect();
    let rows = site.tape.permute(&data, &order)?;
    let g = site.tape.permute(&g, &order)?;
    let last = dims.len() - 1;
    let mut wide: Vec<Dim> = order.iter().map(|&at| dims[at].clone()).collect();
    wide.push(dims[axis].clone());
    let between = site.tape.call("expand_dims", &[&rows, &int(last)])?;
    let between = site.tape.call("broadcast_to", &[&between, &Atom::Shape(wide)])?;
    let exclusive = site.bool("exclusive");
    let more = [
        ("rows", rows),
        ("g", g),
        ("between", between),
        ("last", int(last)),
        ("wide", int(last + 1)),
        ("first", Atom::Dim(Dim::Int(i64::from(exclusive)))),
    ];
    // Row k of `after` has 1 up to k, and the elements after k.
    let text = "tri = triu(ones_like(between), 1)
         after = cumprod(where(tri > 0, between, 1), axis=wide, exclusive=HOW)
         seen = triu(after, first)
         sums = sum(expand_dims(g, last) * seen, axis=wide)
         value = cumprod(rows, axis=last, exclusive=True) * sums"
        .replace("HOW", if exclusive { "True" } else { "False" });
    let given = site.lines(&text, &more)?;
    let given = site.tape.permute(&given, &inverse(&order))?;
    give_scanned(site, &given)
}

/// `-sum(predictions * labels)`, over the first dim where there are two or more.
fn cross_entropy(site: &mut Site) -> Made<()> {
    let x = site.param("predictions");
    let mut g = site.g()?;
    if site.tape.rank(&x)? >= 2 {
        let count = count(site, &x, &[0])?;
        g = site.tape.call("divide", &[&g, &count])?;
    }
    site.formulas("d_predictions = -g * labels\nd_labels = -g * predictions", &[("g", g)])
}

/// The loss is linear in the predictions: with `hot` the targets one-hot, 0 where ignored, it is
/// `-sum(hot * weights * predictions)` over the classes.
fn nll_loss(site: &mut Site) -> Made<()> {
    let (predictions, targets) = (site.param("predictions"), site.param("targets"));
    let dims = site.tape.known_dims(&predictions)?;
    let dtype = site.tape.dtype(&predictions)?;
    let class = usize::from(dims.len() > 1);
    let (one, zero) = (Tape::number(1.0, dtype), Tape::number(0.0, dtype));
    let depth = Atom::Dim(dims[class].clone());
    let hot = site.tape.call("one_hot", &[&targets, &one, &zero, &depth, &int(class)])?;
    let hot = without_ignored(site, &hot, class)?;
    let mut wide = vec![Dim::Int(1); dims.len()];
    wide[class] = dims[class].clone();
    let weights = match site.param("weights") {
        Atom::None => one,
        weights => site.tape.reshape(&weights, wide.clone())?,
    };
    let mut more = vec![("hot", hot), ("w", weights)];
    let reduction = site.str("reduction")?;
    let mut loss = "predictions";
    match reduction.as_str() {
        "none" => {
            let g = site.g()?;
            more.push(("g", site.keep(&g, &[class], false)?));
        }
        "mean" => {
            let given = site.value("g / sum(hot * w)", &more)?;
            more.push(("g", given));
            // The weights are in the divisor as well.
            loss = "(predictions + y)";
        }
        _ => {}
    }
    site.formulas("d_predictions = -g * (hot * w)", &more)?;
    if site.wants("weights") {
        let given = site.value(&format!("-g * (hot * {loss})"), &more)?;
        let given = site.tape.call("collapse_sum_to", &[&given, &Atom::Shape(wide)])?;
        let given = site.tape.reshape(&given, vec![dims[class].clone()])?;
        site.give("weights", &given)?;
    }
    Ok(())
}

/// Zeros for targets that are `ignore_index`, where the dtype of targets has it.
fn without_ignored(site: &mut Site, hot: &Atom, class: usize) -> Made<Atom> {
    let targets = site.param("targets");
    let dtype = site.tape.dtype(&targets)?;
    let Dim::Int(ignored) = site.dim("ignore_index")? else {
        return Err("`ignore_index` is not spelled".to_owned());
    };
    let ignored = Tape::whole(ignored, dtype);
    let Some(ignored) = ignored else { return Ok(hot.clone()) };
    let same = site.tape.call("equal", &[&targets, &ignored])?;
    let same = site.keep(&same, &[class], false)?;
    site.value("where(same, 0, hot)", &[("same", same), ("hot", hot.clone())])
}
