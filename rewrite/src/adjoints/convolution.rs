//! Convolutions: linear in data and in kernel. That of the data of a convolution is a transposed
//! convolution, and the other way round; that of the kernel is a convolution of the data, whose channels are
//! then the batch, with the cotangent as kernel, strides and dilation exchanged.

use super::Adjoint::Build;
use super::movement::{slice, with_zeros};
use super::pooling::{each, pads};
use super::site::Site;
use super::tape::{Made, minus, plus, times};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::Atom;

pub(super) static ROWS: super::Rows = &[
    (&["nn.conv1d", "nn.conv2d"], Build(forward)),
    (&["nn.conv1d_transpose", "nn.conv2d_transpose"], Build(transposed)),
];

/// From the order of letters `layout` to that of `letters`.
pub(super) fn to_canonical(site: &mut Site, of: &Atom, layout: &str, letters: &str) -> Made<Atom> {
    let axes = places(layout, letters)?;
    site.tape.permute(of, &axes)
}

pub(super) fn from_canonical(
    site: &mut Site,
    of: &Atom,
    layout: &str,
    letters: &str,
) -> Made<Atom> {
    let axes = places(letters, layout)?;
    site.tape.permute(of, &axes)
}

fn places(from: &str, to: &str) -> Made<Vec<usize>> {
    let places = to.chars().map(|letter| from.find(letter));
    places.collect::<Option<_>>().ok_or_else(|| format!("{from} is no order of {to}"))
}

/// A convolution, or the transposed one, with all in canonical layouts.
struct Windows {
    data: Atom,
    kernel: Atom,
    g: Atom,
    strides: Vec<i64>,
    dilation: Vec<i64>,
    pads: Vec<(i64, i64)>,
    groups: i64,
    spatial: usize,
}

const DATA: [&str; 3] = ["", "NCW", "NCHW"];
const KERNEL: [&str; 3] = ["", "OIW", "OIHW"];
const TRANSPOSED_KERNEL: [&str; 3] = ["", "IOW", "IOHW"];
/// Channels first, the batch last.
const BATCH_LAST: [&str; 3] = ["", "CWN", "CHWN"];

impl Windows {
    fn of(site: &mut Site, kernels: [&str; 3]) -> Made<Self> {
        let (data, kernel, g) = (site.param("data"), site.param("weight"), site.g()?);
        let spatial = site.tape.rank(&data)? - 2;
        let (layout, kernel_layout) = (site.str("data_layout")?, site.str("kernel_layout")?);
        let out = match site.param("out_layout") {
            Atom::Str(out) => out,
            _ => layout.clone(),
        };
        let dtype = site.tape.dtype(&data)?;
        let g = site.tape.cast(&g, dtype)?;
        let (strides, dilation) =
            (each(site, "strides", spatial)?, each(site, "dilation", spatial)?);
        let groups = site.ints("groups")?[0];
        let pads = pads(site, spatial)?;
        Ok(Self {
            data: to_canonical(site, &data, &layout, DATA[spatial])?,
            kernel: to_canonical(site, &kernel, &kernel_layout, kernels[spatial])?,
            g: to_canonical(site, &g, &out, DATA[spatial])?,
            strides,
            dilation,
            pads,
            groups,
            spatial,
        })
    }

    fn padding(&self) -> Atom {
        list(self.pads.iter().map(|pad| pad.0).chain(self.pads.iter().map(|pad| pad.1)))
    }

    /// The gradient of the data of a convolution: the transposed one of the cotangent. Its kernel has the rows of the result
    /// first, so that the terms of each lie side by side, as products take it. Of two spatial axes with strides the cotangent is spread
    /// before: a transposed convolution with strides asks for each term whether it is one. (Of one axis that is proved, and stays.)
    fn data(&self, site: &mut Site) -> Made<Atom> {
        let mut swapped = vec![1, 0];
        swapped.extend(2..2 + self.spatial);
        let turned = site.tape.permute(&self.kernel, &swapped)?;
        if self.spatial == 1 || self.strides.iter().all(|&stride| stride == 1) {
            return self.data_of_strides(site, &turned);
        }
        let g = self.spread(site)?;
        let padding = list(self.pads.iter().map(|pad| pad.0).chain(vec![0; self.spatial]));
        let given =
            self.transposed(site, (&g, &turned), &list(vec![1; self.spatial]), &padding, &[])?;
        self.as_data(site, given)
    }

    fn data_of_strides(&self, site: &mut Site, turned: &Atom) -> Made<Atom> {
        let (dims, kernel) =
            (site.tape.known_dims(&self.data)?, site.tape.known_dims(&self.kernel)?);
        // What the strides left over at the end.
        let over = (0..self.spatial).map(|axis| {
            let (before, after) = self.pads[axis];
            let reach =
                times(&Dim::Int(self.dilation[axis]), &minus(&kernel[axis + 2], &Dim::Int(1)));
            let room = minus(
                &plus(&dims[axis + 2], &Dim::Int(before + after)),
                &plus(&reach, &Dim::Int(1)),
            );
            Dim::op(DimOp::FloorMod, room, Dim::Int(self.strides[axis]))
        });
        let over: Vec<Dim> = over.collect();
        let over: Vec<Dim> = over.iter().map(|dim| site.tape.facts.simplify(dim)).collect();
        let literal = over.iter().all(|dim| dim.as_int().is_some());
        // The operator takes a literal `output_padding`. Else nothing is cut off at the end, zeros are joined on for what
        // the strides left over, and the extents of data are kept of it.
        let extra = if literal { over.as_slice() } else { &[] };
        let before = self.pads.iter().map(|pad| pad.0);
        let after = self.pads.iter().map(|pad| if literal { pad.1 } else { 0 });
        let (strides, padding) = (list(self.strides.iter().copied()), list(before.chain(after)));
        let given = self.transposed(site, (&self.g, turned), &strides, &padding, extra)?;
        if literal {
            return Ok(given);
        }
        let none = Dim::Int(0);
        let mut widths = vec![(none.clone(), none.clone()); 2];
        widths.extend(over.into_iter().map(|over| (none.clone(), over)));
        let given = with_zeros(site, &given, &widths)?;
        self.as_data(site, given)
    }

    /// The first elements, as many as the data have.
    fn as_data(&self, site: &mut Site, mut given: Atom) -> Made<Atom> {
        for (axis, extent) in site.tape.known_dims(&self.data)?.iter().enumerate().skip(2) {
            given = slice(site, &given, axis, &Dim::Int(0), extent)?;
        }
        Ok(given)
    }

    fn transposed(
        &self,
        site: &mut Site,
        (g, turned): (&Atom, &Atom),
        strides: &Atom,
        padding: &Atom,
        extra: &[Dim],
    ) -> Made<Atom> {
        let more = (0..self.spatial).map(|axis| extra.get(axis).cloned().unwrap_or(Dim::Int(0)));
        let extra = Atom::List(more.map(Atom::Dim).collect());
        let dilation = list(self.dilation.iter().copied());
        let groups = Atom::Dim(Dim::Int(self.groups));
        let operator = ["", "nn.conv1d_transpose", "nn.conv2d_transpose"][self.spatial];
        let args = [g, turned, strides, padding, &extra, &dilation, &groups];
        let layout = vec![("kernel_layout", Atom::Str(KERNEL[self.spatial].into()))];
        site.tape.call_with(operator, &args, layout)
    }

    /// The cotangent with zeros after each element, so many that windows with strides are windows without.
    fn spread(&self, site: &mut Site) -> Made<Atom> {
        let dims = site.tape.known_dims(&self.g)?;
        let none = Dim::Int(0);
        let mut apart = dims[..2].to_vec();
        let mut joined = apart.clone();
        let mut widths = vec![(none.clone(), none.clone()); 2];
        for (extent, &stride) in dims[2..].iter().zip(&self.strides) {
            apart.extend([extent.clone(), Dim::Int(1)]);
            widths.extend([(none.clone(), none.clone()), (none.clone(), Dim::Int(stride - 1))]);
            joined.push(times(extent, &Dim::Int(stride)));
        }
        let g = site.tape.reshape(&self.g, apart)?;
        let g = with_zeros(site, &g, &widths)?;
        site.tape.reshape(&g, joined)
    }

    /// The gradient of a kernel (o, i / groups, …) of a convolution that takes `read`, of i channels, to
    /// `made`, of o. With the channels of `read` as (groups, i / groups), the latter is the batch, and the
    /// groups times the batch are the channels. That batch is the last dim of the operand and of the result, so
    /// that all of them are columns of one product, and an element of a window is read beside that of the next channel.
    fn kernel(&self, site: &mut Site, read: &Atom, made: &Atom, kernel: &[Dim]) -> Made<Atom> {
        let read = self.batch_last(site, read, &kernel[1])?;
        let mut swapped = vec![1, 0];
        swapped.extend(2..2 + self.spatial);
        let made = site.tape.permute(made, &swapped)?;
        let (strides, dilation) =
            (list(self.strides.iter().copied()), list(self.dilation.iter().copied()));
        let groups = Atom::Dim(Dim::Int(self.groups));
        let operator = ["", "nn.conv1d", "nn.conv2d"][self.spatial];
        let args = [&read, &made, &dilation, &self.padding(), &strides, &groups];
        let layout = Atom::Str(BATCH_LAST[self.spatial].into());
        let layouts = vec![("data_layout", layout.clone()), ("out_layout", layout)];
        let mut given = site.tape.call_with(operator, &args, layouts)?;
        // Elements that strides skip at the end of the data make windows beyond the kernel.
        for axis in 0..self.spatial {
            given = slice(site, &given, axis + 1, &Dim::Int(0), &kernel[axis + 2])?;
        }
        let mut axes = vec![0, 1 + self.spatial];
        axes.extend(1..1 + self.spatial);
        site.tape.permute(&given, &axes)
    }

    /// From (b, groups * own, …) to (groups * b, …, own).
    fn batch_last(&self, site: &mut Site, read: &Atom, own: &Dim) -> Made<Atom> {
        if self.groups == 1 {
            let mut axes = vec![0];
            axes.extend(2..2 + self.spatial);
            axes.push(1);
            return site.tape.permute(read, &axes);
        }
        let (groups, from) = (Dim::Int(self.groups), site.tape.known_dims(read)?);
        let mut split = vec![from[0].clone(), groups.clone(), own.clone()];
        split.extend_from_slice(&from[2..]);
        let read = site.tape.reshape(read, split)?;
        let mut axes = vec![1, 0];
        axes.extend(3..3 + self.spatial);
        axes.push(2);
        let read = site.tape.permute(&read, &axes)?;
        let mut joined = vec![times(&groups, &from[0])];
        joined.extend_from_slice(&from[2..]);
        joined.push(own.clone());
        site.tape.reshape(&read, joined)
    }
}

pub(super) fn list(values: impl IntoIterator<Item = i64>) -> Atom {
    Atom::List(values.into_iter().map(|value| Atom::Dim(Dim::Int(value))).collect())
}

fn forward(site: &mut Site) -> Made<()> {
    let windows = Windows::of(site, KERNEL)?;
    let spatial = windows.spatial;
    let kernel = site.tape.known_dims(&windows.kernel)?;
    if site.wants("data") {
        let given = windows.data(site)?;
        let given = from_canonical(site, &given, &site.str("data_layout")?, DATA[spatial])?;
        site.give("data", &given)?;
    }
    if site.wants("weight") {
        let given = windows.kernel(site, &windows.data, &windows.g, &kernel)?;
        let given = from_canonical(site, &given, &site.str("kernel_layout")?, KERNEL[spatial])?;
        site.give("weight", &given)?;
    }
    Ok(())
}

fn transposed(site: &mut Site) -> Made<()> {
    let windows = Windows::of(site, TRANSPOSED_KERNEL)?;
    let spatial = windows.spatial;
    let kernel = site.tape.known_dims(&windows.kernel)?;
    let (strides, dilation) =
        (list(windows.strides.iter().copied()), list(windows.dilation.iter().copied()));
    if site.wants("data") {
        let operator = ["", "nn.conv1d", "nn.conv2d"][spatial];
        let groups = Atom::Dim(Dim::Int(windows.groups));
        let args = [&windows.g, &windows.kernel, &strides, &windows.padding(), &dilation, &groups];
        let given = site.tape.call(operator, &args)?;
        let given = from_canonical(site, &given, &site.str("data_layout")?, DATA[spatial])?;
        site.give("data", &given)?;
    }
    if site.wants("weight") {
        let given = windows.kernel(site, &windows.g, &windows.data, &kernel)?;
        let given =
            from_canonical(site, &given, &site.str("kernel_layout")?, TRANSPOSED_KERNEL[spatial])?;
        site.give("weight", &given)?;
    }
    Ok(())
}
