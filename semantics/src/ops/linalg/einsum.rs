//! Einstein's summation, by its definition: for every index of the result, the sum over the other
//! labels of the products of the operands' elements.

use super::subscripts::{Subscripts, Term, parse};
use crate::ops::dims::tensor;
use crate::ops::sum::Sum;
use crate::ops::{Eval, Infer, Reject};
use crate::stop::Stop;
use crate::tensor::{Tensor, array, strided_positions, strides};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

pub(super) fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let text = infer.str("subscripts")?;
    let subscripts = parse(&text).map_err(|message| infer.reject("C2", message))?;
    let Some(operands) = infer.tensors("operands")? else {
        let rank = subscripts.result.after.is_none().then(|| subscripts.result.named());
        return Ok(tensor(rank.map_or(Extents::Unknown, Extents::Rank), None));
    };
    let dtype = operands_dtype(infer, &operands)?;
    if operands.len() != subscripts.operands.len() {
        let (terms, found) = (subscripts.operands.len(), operands.len());
        return Err(infer.reject("C3", format!("{terms} terms do not fit {found} operands")));
    }
    let extents = result_extents(infer, &subscripts, &operands)?;
    Ok(tensor(extents, dtype))
}

fn operands_dtype(infer: &Infer, operands: &[TensorType]) -> Result<Option<DType>, Reject> {
    if operands.is_empty() {
        return Err(infer.reject("C1", "there is no operand"));
    }
    let mut known = operands.iter().filter_map(|operand| operand.dtype);
    let Some(first) = known.next() else { return Ok(None) };
    if first == DType::Bool {
        return Err(infer.reject("C1", "bools have no sum of products"));
    }
    match known.find(|&dtype| dtype != first) {
        Some(other) => {
            let message = format!("operands must have the same dtype, found {first} and {other}");
            Err(infer.reject("C1", message))
        }
        None => Ok(Some(first)),
    }
}

/// The dims of labels and of `...`, as far as the operands' dims are known.
fn result_extents(
    infer: &mut Infer,
    subscripts: &Subscripts,
    operands: &[TensorType],
) -> Result<Extents, Reject> {
    let mut labels: BTreeMap<char, Dim> = BTreeMap::new();
    let mut dots = Extents::Known(Vec::new());
    for (index, (term, operand)) in subscripts.operands.iter().zip(operands).enumerate() {
        let own_dots = match operand.extents.rank() {
            Some(rank) => Some(dots_rank(infer, term, rank, index)?),
            None => None,
        };
        let own = match (&operand.extents, own_dots) {
            (Extents::Known(dims), Some(own_dots)) => {
                for (label, dim) in named_dims(term, dims, own_dots) {
                    require_label(infer, &mut labels, label, dim)?;
                }
                let start = term.before.len();
                Extents::Known(dims[start..start + own_dots].to_vec())
            }
            (_, Some(own_dots)) => Extents::Rank(own_dots),
            (_, None) if term.after.is_none() => Extents::Known(Vec::new()),
            _ => Extents::Unknown,
        };
        dots = infer.broadcast("C5", &dots, &own)?;
    }
    Ok(assemble(&subscripts.result, &labels, &dots))
}

/// How many dims of an operand `...` stands for.
fn dots_rank(infer: &Infer, term: &Term, rank: usize, index: usize) -> Result<usize, Reject> {
    let rest = rank.checked_sub(term.named());
    rest.filter(|&rest| rest == 0 || term.after.is_some()).ok_or_else(|| {
        let named = term.named();
        let message = format!("operand {index} of rank {rank} has a term of {named} labels");
        infer.reject("C3", message)
    })
}

/// Each label of a term with what stands at its place in `dims`.
fn named_dims<'a, T>(
    term: &'a Term,
    dims: &'a [T],
    dots: usize,
) -> impl Iterator<Item = (char, &'a T)> {
    let after = dims[term.before.len() + dots..].iter();
    term.labels().zip(dims[..term.before.len()].iter().chain(after))
}

fn require_label(
    infer: &mut Infer,
    labels: &mut BTreeMap<char, Dim>,
    label: char,
    dim: &Dim,
) -> Result<(), Reject> {
    let expected = labels.entry(label).or_insert_with(|| dim.clone());
    infer.require_equal("C4", expected, dim, || {
        format!("the dims of label `{label}` must be equal, found {expected} and {dim}")
    })
}

fn assemble(result: &Term, labels: &BTreeMap<char, Dim>, dots: &Extents) -> Extents {
    let pick = |side: &[char]| {
        side.iter().map(|label| labels.get(label).cloned()).collect::<Option<Vec<_>>>()
    };
    let after = result.after.as_deref();
    match (pick(&result.before), pick(after.unwrap_or_default()), dots) {
        (Some(mut dims), Some(last), Extents::Known(dots)) => {
            dims.extend(dots.iter().cloned().chain(last));
            Extents::Known(dims)
        }
        (_, _, dots) => {
            dots.rank().map_or(Extents::Unknown, |rank| Extents::Rank(rank + result.named()))
        }
    }
}

/// Walks: per operand, how far one step in each dim of the result, and of each summed label, leads.
struct Plan {
    /// The extents of the labels that are summed over.
    summed: Vec<usize>,
    /// Of each operand: its position for each element of the result.
    starts: Vec<Vec<usize>>,
    /// Of each operand: its steps along the summed labels.
    steps: Vec<Vec<usize>>,
}

pub(super) fn eval(eval: &Eval) -> Result<Value, Stop> {
    let operands = operands(eval)?;
    let (dtype, shape) = eval.out_tensor()?;
    let subscripts = parse(&eval.str("subscripts")).expect("invariant: infer parses subscripts");
    let plan = plan(&subscripts, &operands, &shape);
    let size: usize = shape.iter().product();
    Ok(Value::Tensor(if dtype.is_float() {
        let values: Vec<_> = operands.iter().map(|operand| operand.to_floats()).collect();
        let values: Vec<&[f64]> = values.iter().filter_map(|array| array.as_slice()).collect();
        let sum = |element| {
            let mut sum = Sum::default();
            plan.each(element, |at| sum.add(product(&values, at, |a, b| a * b)));
            sum.value()
        };
        Tensor::from_floats(dtype, array(&shape, (0..size).map(sum).collect()))
    } else {
        let values: Vec<_> = operands.iter().map(|operand| operand.to_ints()).collect();
        let values: Vec<&[i128]> = values.iter().filter_map(|array| array.as_slice()).collect();
        let sum = |element| {
            let mut sum = 0i128;
            plan.each(element, |at| {
                sum = sum.wrapping_add(product(&values, at, i128::wrapping_mul));
            });
            sum
        };
        Tensor::from_ints(dtype, array(&shape, (0..size).map(sum).collect()))
    }))
}

fn product<T: Copy>(values: &[&[T]], at: &[usize], times: impl Fn(T, T) -> T) -> T {
    let mut factors = values.iter().zip(at).map(|(values, &at)| values[at]);
    let first = factors.next().expect("invariant: there is at least one operand");
    factors.fold(first, times)
}

/// The operands, every element of which is defined.
fn operands<'a>(eval: &'a Eval) -> Result<Vec<&'a Tensor>, Stop> {
    let all_tensors = match eval.value("operands") {
        Value::Tuple(items) => items.iter().all(|item| matches!(item, Value::Tensor(_))),
        _ => false,
    };
    if all_tensors {
        return eval.tensors("operands");
    }
    Err(Stop::trap("einsum/kind", "`operands` must be a tuple of tensors"))
}

fn plan(subscripts: &Subscripts, operands: &[&Tensor], shape: &[usize]) -> Plan {
    let mut extents: BTreeMap<char, usize> = BTreeMap::new();
    let mut walks = Vec::with_capacity(operands.len());
    for (term, operand) in subscripts.operands.iter().zip(operands) {
        let (dims, steps) = (operand.shape(), strides(operand.shape()));
        let dots = dims.len() - term.named();
        let mut by_label: BTreeMap<char, usize> = BTreeMap::new();
        for (label, &step) in named_dims(term, &steps, dots) {
            *by_label.entry(label).or_default() += step;
        }
        extents.extend(named_dims(term, dims, dots).map(|(label, &extent)| (label, extent)));
        let own = term.before.len()..term.before.len() + dots;
        let stretched = dims[own.clone()].iter().zip(&steps[own]);
        let dots: Vec<usize> =
            stretched.map(|(&dim, &step)| if dim == 1 { 0 } else { step }).collect();
        walks.push((by_label, dots));
    }
    let result = &subscripts.result;
    let result_dots = shape.len() - result.named();
    let is_summed = |label: &char| !result.labels().any(|other| other == *label);
    let summed: Vec<char> = extents.keys().copied().filter(is_summed).collect();
    let along = |walk: &BTreeMap<char, usize>, labels: &[char]| -> Vec<usize> {
        labels.iter().map(|label| walk.get(label).copied().unwrap_or(0)).collect()
    };
    let start = |(by_label, dots): &(BTreeMap<char, usize>, Vec<usize>)| {
        let after = result.after.as_deref().unwrap_or_default();
        let lead = vec![0; result_dots - dots.len()];
        let steps = [along(by_label, &result.before), lead, dots.clone(), along(by_label, after)];
        strided_positions(shape, &steps.concat())
    };
    Plan {
        starts: walks.iter().map(start).collect(),
        steps: walks.iter().map(|(by_label, _)| along(by_label, &summed)).collect(),
        summed: summed.iter().map(|label| extents[label]).collect(),
    }
}

impl Plan {
    /// Visits the operands' positions of every product that the result's element sums. Counts up
    /// the summed labels in place: there may be far more of them than fit into memory.
    fn each(&self, element: usize, mut visit: impl FnMut(&[usize])) {
        if self.summed.contains(&0) {
            return;
        }
        let mut at: Vec<usize> = self.starts.iter().map(|starts| starts[element]).collect();
        let Some((&inner, outer)) = self.summed.split_last() else { return visit(&at) };
        let inner_steps: Vec<usize> = self.steps.iter().map(|steps| steps[outer.len()]).collect();
        let mut index = vec![0; outer.len()];
        loop {
            let mut inside = at.clone();
            for _ in 0..inner {
                visit(&inside);
                inside.iter_mut().zip(&inner_steps).for_each(|(at, step)| *at += step);
            }
            let Some(axis) = (0..outer.len()).rev().find(|&axis| index[axis] + 1 < outer[axis])
            else {
                return;
            };
            index[axis] += 1;
            for (at, steps) in at.iter_mut().zip(&self.steps) {
                *at += steps[axis];
                for later in axis + 1..outer.len() {
                    *at -= steps[later] * index[later];
                }
            }
            index[axis + 1..].fill(0);
        }
    }
}
