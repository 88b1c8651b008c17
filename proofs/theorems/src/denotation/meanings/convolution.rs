//! Convolutions and transposed ones, of one or two spatial axes.

use super::{Meaning, add, meaning, mul, sub};
use crate::denotation::denoter::{Denoter, extent, tensor};
use crate::denotation::names::MULTIPLY;
use crate::denotation::term::{Binder, Domain, FoldOp, Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call, Entry};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};
use std::collections::BTreeMap;

pub(super) static MEANINGS: &[Meaning] = &[
    meaning(
        "nn.conv1d",
        |d, c| shape(d, c, Way::Forward),
        |d, c, at| element(d, c, at, Way::Forward),
    ),
    meaning(
        "nn.conv2d",
        |d, c| shape(d, c, Way::Forward),
        |d, c, at| element(d, c, at, Way::Forward),
    ),
    meaning(
        "nn.conv1d_transpose",
        |d, c| shape(d, c, Way::Transposed),
        |d, c, at| element(d, c, at, Way::Transposed),
    ),
    meaning(
        "nn.conv2d_transpose",
        |d, c| shape(d, c, Way::Transposed),
        |d, c, at| element(d, c, at, Way::Transposed),
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Forward,
    Transposed,
}

/// One spatial axis.
pub(super) struct Spatial {
    pub(super) letter: char,
    pub(super) stride: Dim,
    pub(super) dilation: Dim,
    pub(super) before: Dim,
    pub(super) after: Dim,
    /// What `output_padding` adds at the end.
    more: Dim,
}

/// A call: the extents of data and kernel by the letters of their axes.
struct Windows {
    data: BTreeMap<char, Dim>,
    kernel: BTreeMap<char, Dim>,
    layouts: [Vec<char>; 3],
    axes: Vec<Spatial>,
    groups: Dim,
}

pub(super) fn layout(call: &Call, param: &str) -> Known<Vec<char>> {
    match call.arg(param) {
        Arg::Str(text) => Ok(text.chars().collect()),
        _ => unknown("a layout that is not written out"),
    }
}

/// The layout of the result, that of data if it is not given.
pub(super) fn out_layout(call: &Call, data: &[char]) -> Known<Vec<char>> {
    match call.arg("out_layout") {
        Arg::None => Ok(data.to_vec()),
        _ => layout(call, "out_layout"),
    }
}

/// The extents of an operand by the letters of its axes.
pub(super) fn lettered(
    denoter: &mut Denoter,
    call: &Call,
    param: &str,
    letters: &[char],
) -> Known<BTreeMap<char, Dim>> {
    let shape = denoter.shape(tensor(call, param)?)?;
    if shape.len() != letters.len() || shape.iter().any(|axis| matches!(axis, Axis::Group(_))) {
        return unknown("not one letter an axis");
    }
    Ok(letters.iter().copied().zip(shape.iter().map(extent)).collect())
}

/// A number for each spatial axis, or so many for each.
pub(super) fn numbers(call: &Call, param: &str, spatial: usize) -> Known<Vec<Dim>> {
    let one = match call.arg(param) {
        Arg::Integer(dim) => return Ok(vec![dim.clone(); spatial]),
        Arg::List(entries) => entries.iter().map(|entry| match entry {
            Entry::One(dim) => Ok(dim.clone()),
            _ => unknown("dims where numbers are expected"),
        }),
        _ => return unknown(format!("`{param}` is not written out")),
    };
    let given = one.collect::<Known<Vec<Dim>>>()?;
    match given.as_slice() {
        [one] => Ok(vec![one.clone(); spatial]),
        _ => Ok(given),
    }
}

fn windows(denoter: &mut Denoter, call: &Call, way: Way) -> Known<Windows> {
    if *call.arg("out_dtype") != Arg::None {
        return unknown("a convolution in another dtype");
    }
    let Arg::Integer(groups) = call.arg("groups") else {
        return unknown("groups that are not written out");
    };
    let (data, kernel) = (layout(call, "data_layout")?, layout(call, "kernel_layout")?);
    let out = out_layout(call, &data)?;
    let own = lettered(denoter, call, "data", &data)?;
    let weights = lettered(denoter, call, "weight", &kernel)?;
    let axes = spatial(call, data.len(), way)?;
    let layouts = [data, kernel, out];
    Ok(Windows { data: own, kernel: weights, layouts, axes, groups: groups.clone() })
}

/// The spatial axes of data of so many axes.
pub(super) fn spatial(call: &Call, rank: usize, way: Way) -> Known<Vec<Spatial>> {
    let letters: &[char] = if rank == 3 { &['W'] } else { &['H', 'W'] };
    let spatial = letters.len();
    let (strides, dilation) =
        (numbers(call, "strides", spatial)?, numbers(call, "dilation", spatial)?);
    let mut padding = numbers(call, "padding", spatial)?;
    if padding.len() == spatial {
        padding.extend(padding.clone());
    }
    let more = match way {
        Way::Forward => vec![Dim::Int(0); spatial],
        Way::Transposed => numbers(call, "output_padding", spatial)?,
    };
    let known = [strides.len(), dilation.len(), more.len(), padding.len() - spatial];
    if known.iter().any(|count| *count != spatial) {
        return unknown("not one number a spatial axis");
    }
    let axis = |(at, letter): (usize, &char)| Spatial {
        letter: *letter,
        stride: strides[at].clone(),
        dilation: dilation[at].clone(),
        before: padding[at].clone(),
        after: padding[spatial + at].clone(),
        more: more[at].clone(),
    };
    Ok(letters.iter().enumerate().map(axis).collect())
}

impl Windows {
    /// How many channels the result has. A kernel has those of one group in the one axis and those of all in the other.
    fn channels(&self, way: Way) -> Dim {
        let own = self.kernel[&'O'].clone();
        match way {
            Way::Forward => own,
            Way::Transposed => mul(own, self.groups.clone()),
        }
    }

    /// The channels of data and the index of the kernel that give a channel of the result, with one of the channels of its group.
    fn in_group(&self, way: Way, out: &Dim, channel: &Dim, facts: &mut dyn Facts) -> InGroup {
        let groups = self.groups.clone();
        if groups == Dim::Int(1) {
            let (data, input) = (channel.clone(), channel.clone());
            return InGroup { data, input, output: out.clone() };
        }
        let own = match way {
            Way::Forward => Dim::op(DimOp::FloorDiv, self.kernel[&'O'].clone(), groups),
            Way::Transposed => self.kernel[&'O'].clone(),
        };
        let own = facts.simplify(&own);
        let group = Dim::op(DimOp::FloorDiv, out.clone(), own.clone());
        let data = add(mul(group, self.inputs(way, facts)), channel.clone());
        match way {
            Way::Forward => InGroup { data, input: channel.clone(), output: out.clone() },
            Way::Transposed => {
                let output = Dim::op(DimOp::FloorMod, out.clone(), own);
                InGroup { data: data.clone(), input: data, output }
            }
        }
    }

    /// How many channels of data a group has.
    fn inputs(&self, way: Way, facts: &mut dyn Facts) -> Dim {
        let all = self.kernel[&'I'].clone();
        match way {
            Way::Forward => all,
            Way::Transposed => facts.simplify(&Dim::op(DimOp::FloorDiv, all, self.groups.clone())),
        }
    }
}

/// Where a group of channels reads.
struct InGroup {
    data: Dim,
    input: Dim,
    output: Dim,
}

impl Spatial {
    /// The place in the greater tensor of an index of the smaller one and one of the window.
    pub(super) fn place(&self, index: &Dim, window: &Dim) -> Dim {
        let reached = mul(window.clone(), self.dilation.clone());
        sub(add(mul(index.clone(), self.stride.clone()), reached), self.before.clone())
    }

    pub(super) fn extent(&self, data: &Dim, window: &Dim, way: Way) -> Dim {
        let one = Dim::Int(1);
        let reach = mul(self.dilation.clone(), sub(window.clone(), one.clone()));
        let pads = add(self.before.clone(), self.after.clone());
        match way {
            Way::Forward => {
                let room = sub(sub(add(data.clone(), pads), reach), one.clone());
                add(Dim::op(DimOp::FloorDiv, room, self.stride.clone()), one)
            }
            Way::Transposed => {
                let spread = mul(sub(data.clone(), one.clone()), self.stride.clone());
                add(add(add(sub(spread, pads), reach), self.more.clone()), one)
            }
        }
    }
}

fn shape(denoter: &mut Denoter, call: &Call, way: Way) -> Known<Vec<Axis>> {
    let own = windows(denoter, call, way)?;
    let axis = |letter: &char| {
        let spatial = own.axes.iter().find(|axis| axis.letter == *letter);
        let dim = match (letter, spatial) {
            ('N', _) => own.data[letter].clone(),
            ('C', _) => own.channels(way),
            (_, Some(axis)) => axis.extent(&own.data[letter], &own.kernel[letter], way),
            _ => return unknown("a letter of no axis"),
        };
        Ok(Axis::Dim(denoter.facts.simplify(&dim)))
    };
    own.layouts[2].iter().map(axis).collect()
}

/// The sum over input channels and windows. Of a transposed convolution also over the data: where an index of it and one of the
/// window meet at the element.
fn element(denoter: &mut Denoter, call: &Call, at: &[Dim], way: Way) -> Known<Term> {
    let own = windows(denoter, call, way)?;
    let domain = denoter.domain(tensor(call, "data")?)?;
    if domain == Domain::Bits {
        return unknown("in which order floats are summed is not known of a convolution");
    }
    if domain == Domain::Ring && way == Way::Transposed && own.axes.len() > 1 {
        return unknown("five sums, which take more steps than proofs of passes have");
    }
    let out: BTreeMap<char, Dim> = own.layouts[2].iter().copied().zip(at.iter().cloned()).collect();
    let mut binders: Vec<Binder> = Vec::new();
    let mut summed = |denoter: &mut Denoter, extent: &Dim| {
        let name = denoter.fresh("k");
        binders.push((name.clone(), extent.clone()));
        Dim::Var(name)
    };
    let inputs = own.inputs(way, &mut *denoter.facts);
    let channel = summed(denoter, &inputs);
    let of_group = own.in_group(way, &out[&'C'], &channel, &mut *denoter.facts);
    let mut data = BTreeMap::from([('N', out[&'N'].clone()), ('C', of_group.data)]);
    let mut kernel = BTreeMap::from([('O', of_group.output), ('I', of_group.input)]);
    let mut tests = Vec::new();
    for axis in &own.axes {
        let window = summed(denoter, &own.kernel[&axis.letter]);
        let index = match way {
            Way::Forward => axis.place(&out[&axis.letter], &window),
            Way::Transposed => summed(denoter, &own.data[&axis.letter]),
        };
        match way {
            Way::Forward => {
                tests.push(Claim::new(0, Relation::AtMost, index.clone()));
                let end = own.data[&axis.letter].clone();
                tests.push(Claim::new(index.clone(), Relation::Less, end));
            }
            Way::Transposed => {
                let place = axis.place(&index, &window);
                tests.push(Claim::new(place, Relation::Equal, out[&axis.letter].clone()));
            }
        }
        data.insert(axis.letter, index);
        kernel.insert(axis.letter, window);
    }
    let read = |denoter: &mut Denoter, param: &str, letters: &[char], at: &BTreeMap<char, Dim>| {
        let at: Vec<Dim> = letters.iter().map(|letter| at[letter].clone()).collect();
        denoter.element(tensor(call, param)?, &at)
    };
    let x = read(denoter, "data", &own.layouts[0], &data)?;
    let w = read(denoter, "weight", &own.layouts[1], &kernel)?;
    let product = Term::apply(domain, MULTIPLY, vec![x, w]);
    let body = product.where_all(tests.into_iter(), domain);
    Ok(Term::Fold(domain, FoldOp::Add, binders, Box::new(body)))
}
