//! Pools. An average is linear and separable: along each spatial axis it is a matrix, which the operator
//! itself gives for a unit matrix, so that counts at the borders are its own. A maximum reads one element of
//! its window: the first of the greatest, as in PyTorch.

use super::Adjoint::Build;
use super::convolution::{from_canonical, list, to_canonical};
use super::movement::{slice, volume};
use super::selection::scatter_add;
use super::site::Site;
use super::tape::{Made, Tape, dtype_atom, int, plus, times};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["nn.avg_pool1d", "nn.avg_pool2d"], Build(average)),
    (&["nn.adaptive_avg_pool2d"], Build(adaptive)),
    (&["nn.max_pool1d", "nn.max_pool2d"], Build(maximum)),
];

/// A pool with data and cotangent in the canonical layout.
struct Pool {
    data: Atom,
    g: Atom,
    /// Of data, and of the cotangent.
    dims: Vec<Dim>,
    out: Vec<Dim>,
    dtype: DType,
    letters: &'static str,
}

impl Pool {
    fn of(site: &mut Site) -> Made<Self> {
        let (data, g) = (site.param("data"), site.g()?);
        let dtype = site.tape.dtype(&data)?;
        let letters = if site.tape.rank(&data)? == 3 { "NCW" } else { "NCHW" };
        let layout = site.str("layout")?;
        let out = match site.param("out_layout") {
            Atom::Str(out) => out,
            _ => layout.clone(),
        };
        let data = to_canonical(site, &data, &layout, letters)?;
        let g = to_canonical(site, &g, &out, letters)?;
        let (dims, out) = (site.tape.known_dims(&data)?, site.tape.known_dims(&g)?);
        Ok(Self { data, g, dims, out, dtype, letters })
    }

    /// `A_h^T g A_w`, with the matrices of both axes.
    fn give_separable(&self, site: &mut Site, matrices: &[Atom]) -> Made<()> {
        let width = &matrices[matrices.len() - 1];
        let mut given = site.tape.call("matmul", &[&self.g, width])?;
        if let [height, _] = matrices {
            let height = site.tape.permute(height, &[1, 0])?;
            given = site.tape.call("matmul", &[&height, &given])?;
        }
        give_data(site, &given, self.letters)
    }
}

fn give_data(site: &mut Site, given: &Atom, letters: &str) -> Made<()> {
    let layout = site.str("layout")?;
    let given = from_canonical(site, given, &layout, letters)?;
    site.give("data", &given)
}

/// One entry a spatial dim.
pub(super) fn each(site: &Site, name: &str, spatial: usize) -> Made<Vec<i64>> {
    let own = site.ints(name)?;
    Ok(if own.len() == 1 { vec![own[0]; spatial] } else { own })
}

/// Before and after each spatial dim.
pub(super) fn pads(site: &Site, spatial: usize) -> Made<Vec<(i64, i64)>> {
    let own = site.ints("padding")?;
    Ok(match own.len() {
        1 => vec![(own[0], own[0]); spatial],
        len if len == spatial => own.iter().map(|&both| (both, both)).collect(),
        _ => (0..spatial).map(|axis| (own[axis], own[axis + spatial])).collect(),
    })
}

fn unit(site: &mut Site, extent: &Dim, dtype: DType, dims: Vec<Dim>) -> Made<Atom> {
    let extent = Atom::Dim(extent.clone());
    let unit = site.tape.call("eye", &[&extent, &Atom::None, &int(0), &dtype_atom(dtype)])?;
    site.tape.reshape(&unit, dims)
}

fn average(site: &mut Site) -> Made<()> {
    let own = Pool::of(site)?;
    let spatial = own.dims.len() - 2;
    let pads = pads(site, spatial)?;
    let [pool, strides, dilation] =
        ["pool_size", "strides", "dilation"].map(|name| each(site, name, spatial));
    let (pool, strides, dilation) = (pool?, strides?, dilation?);
    let (ceil, count) = (site.param("ceil_mode"), site.param("count_include_pad"));
    let mut matrices = Vec::new();
    for axis in 0..spatial {
        let extent = own.dims[axis + 2].clone();
        // The unit matrix as a batch of one-dimensional signals: row i is the signal that is 1 at i.
        let signals = vec![extent.clone(), Dim::Int(1), extent.clone()];
        let signals = unit(site, &extent, own.dtype, signals)?;
        let padding = list([pads[axis].0, pads[axis].1]);
        let args = [
            &signals,
            &list([pool[axis]]),
            &list([strides[axis]]),
            &padding,
            &list([dilation[axis]]),
            &ceil,
            &count,
        ];
        let pooled = site.tape.call("nn.avg_pool1d", &args)?;
        let pooled = site.tape.reshape(&pooled, vec![extent, own.out[axis + 2].clone()])?;
        matrices.push(site.tape.permute(&pooled, &[1, 0])?);
    }
    own.give_separable(site, &matrices)
}

fn adaptive(site: &mut Site) -> Made<()> {
    let own = Pool::of(site)?;
    let mut matrices = Vec::new();
    for axis in 2..4 {
        let extent = own.dims[axis].clone();
        let one = Dim::Int(1);
        let signals = vec![extent.clone(), one.clone(), one.clone(), extent.clone()];
        let signals = unit(site, &extent, own.dtype, signals)?;
        let size = Atom::List(vec![Atom::Dim(one), Atom::Dim(own.out[axis].clone())]);
        let pooled = site.tape.call("nn.adaptive_avg_pool2d", &[&signals, &size])?;
        let pooled = site.tape.reshape(&pooled, vec![extent, own.out[axis].clone()])?;
        matrices.push(site.tape.permute(&pooled, &[1, 0])?);
    }
    own.give_separable(site, &matrices)
}

/// The windows as rows: their elements are read through a table of places, `where` tells those outside.
fn maximum(site: &mut Site) -> Made<()> {
    let Pool { data, g, dims, out, dtype, letters } = Pool::of(site)?;
    let (places, inside) = windows(site, &dims[2..], &out[2..])?;
    let windows = site.tape.known_dims(&places)?[0].clone();
    let plane = volume(&dims[2..]);
    let mut planes = vec![dims[0].clone(), dims[1].clone(), plane.clone()];
    let flat = site.tape.reshape(&data, planes.clone())?;
    let read = site.tape.call("take", &[&flat, &places, &int(2), &Atom::Str("nan".into())])?;
    let least = Tape::number(f64::NEG_INFINITY, dtype);
    let read = site.tape.call("where", &[&inside, &read, &least])?;
    let best = site.tape.call("argmax", &[&read, &int(3), &Atom::Bool(true)])?;
    let wide = site.tape.known_dims(&read)?;
    let places = site.tape.call("broadcast_to", &[&places, &Atom::Shape(wide)])?;
    let chosen = site.tape.call("gather_elements", &[&places, &best, &int(3)])?;
    let rows = vec![dims[0].clone(), dims[1].clone(), windows];
    let chosen = site.tape.call("reshape", &[&chosen, &Atom::Shape(rows.clone())])?;
    let g = site.tape.call("reshape", &[&g, &Atom::Shape(rows)])?;
    planes[2] = plus(&plane, &Dim::Int(1));
    let zeros = site.tape.zeros(planes, dtype)?;
    let given = scatter_add(site, &zeros, &chosen, &g, 2)?;
    let given = slice(site, &given, 2, &Dim::Int(0), &plane)?;
    let given = site.tape.call("reshape", &[&given, &Atom::Shape(dims)])?;
    give_data(site, &given, letters)
}

/// For each window and each element of it: the place in the flattened plane, that after its end for one outside,
/// and whether it is inside.
fn windows(site: &mut Site, dims: &[Dim], out: &[Dim]) -> Made<(Atom, Atom)> {
    let spatial = dims.len();
    let pads = pads(site, spatial)?;
    let [pool, strides, dilation] =
        ["pool_size", "strides", "dilation"].map(|name| each(site, name, spatial));
    let (pool, strides, dilation) = (pool?, strides?, dilation?);
    let mut joined: Option<(Atom, Atom)> = None;
    for axis in 0..spatial {
        // Dims: a window along each axis, then an element along each axis.
        let mut begins = vec![Dim::Int(1); 2 * spatial];
        begins[axis] = out[axis].clone();
        let mut elements = vec![Dim::Int(1); 2 * spatial];
        elements[spatial + axis] = Dim::Int(pool[axis]);
        let begin = site.tape.iota(&out[axis])?;
        let begin = site.tape.reshape(&begin, begins)?;
        let element = site.tape.iota(&Dim::Int(pool[axis]))?;
        let element = site.tape.reshape(&element, elements)?;
        let whole = |value: i64| Tape::whole(value, DType::I64).expect("invariant: an i64");
        let extent = site.tape.scalar(&dims[axis], DType::I64)?;
        let begin = site.tape.call("multiply", &[&begin, &whole(strides[axis])])?;
        let element = site.tape.call("multiply", &[&element, &whole(dilation[axis])])?;
        let place = site.tape.call("add", &[&begin, &element])?;
        let place = site.tape.call("subtract", &[&place, &whole(pads[axis].0)])?;
        let not_before = site.tape.call("greater_equal", &[&place, &whole(0)])?;
        let not_after = site.tape.call("less", &[&place, &extent])?;
        let inside = site.tape.call("logical_and", &[&not_before, &not_after])?;
        joined = Some(match joined {
            None => (place, inside),
            Some((outer, both)) => {
                let outer = site.tape.call("multiply", &[&outer, &extent])?;
                let place = site.tape.call("add", &[&outer, &place])?;
                (place, site.tape.call("logical_and", &[&both, &inside])?)
            }
        });
    }
    let (places, inside) = joined.expect("invariant: there is a spatial dim");
    let end = site.tape.scalar(&volume(dims), DType::I64)?;
    let places = site.tape.call("where", &[&inside, &places, &end])?;
    let rows = volume(out);
    let columns = pool.iter().fold(Dim::Int(1), |product, &own| times(&product, &Dim::Int(own)));
    let table = vec![rows, columns];
    Ok((site.tape.reshape(&places, table.clone())?, site.tape.reshape(&inside, table)?))
}
