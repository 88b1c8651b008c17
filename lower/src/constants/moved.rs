//! Tensor programs that only move the elements of a matrix, or write zeros: weights are millions of elements, which the
//! interpreter takes seconds for.

use relax_semantics::tensor::{Data, Number, Tensor};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Loop, Param, ScalarId, Stmt, StmtKind, TExpr};

/// `constant + factors * loop variables`
struct Affine {
    constant: i64,
    factors: Vec<i64>,
}

impl Affine {
    fn of(expr: &TExpr, vars: &[ScalarId]) -> Option<Self> {
        let zero = Self { constant: 0, factors: vec![0; vars.len()] };
        match expr {
            TExpr::Int(constant) => Some(Self { constant: *constant, ..zero }),
            TExpr::Scalar(var) => {
                let at = vars.iter().position(|own| own == var)?;
                let mut own = zero;
                own.factors[at] = 1;
                Some(own)
            }
            TExpr::Binary(BinOp::Add, both) => {
                let (a, b) = (Self::of(&both.0, vars)?, Self::of(&both.1, vars)?);
                let factors = a.factors.iter().zip(&b.factors).map(|(a, b)| a.checked_add(*b));
                let constant = a.constant.checked_add(b.constant)?;
                Some(Self { constant, factors: factors.collect::<Option<_>>()? })
            }
            TExpr::Binary(BinOp::Mul, both) => {
                let ((TExpr::Int(by), of) | (of, TExpr::Int(by))) = (&both.0, &both.1) else {
                    return None;
                };
                let of = Self::of(of, vars)?;
                let factors = of.factors.iter().map(|factor| factor.checked_mul(*by));
                let constant = of.constant.checked_mul(*by)?;
                Some(Self { constant, factors: factors.collect::<Option<_>>()? })
            }
            _ => None,
        }
    }

    /// `None` beyond i64.
    fn at(&self, values: &[i64]) -> Option<i64> {
        let mut terms = self.factors.iter().zip(values);
        terms.try_fold(self.constant, |sum, (factor, value)| {
            sum.checked_add(factor.checked_mul(*value)?)
        })
    }
}

/// A nest that stores each element once.
struct Moves {
    extents: Vec<i64>,
    from: Vec<Affine>,
    /// Where there is an element: what is less than what.
    there: Option<(Affine, i64)>,
}

impl Moves {
    fn of(program: &TensorProgram) -> Option<Self> {
        let [Stmt { kind: StmtKind::For { loops, kind, body }, .. }] = program.body.as_deref()?
        else {
            return None;
        };
        let [Stmt { kind: StmtKind::Store { buffer, indices, update: None, value }, .. }] =
            body.as_slice()
        else {
            return None;
        };
        let [Param::Buffer(source), Param::Buffer(result)] = program.params.as_slice() else {
            return None;
        };
        let vars: Vec<ScalarId> = loops.iter().map(|item| item.var).collect();
        let own = indices.iter().eq(vars
            .iter()
            .map(|var| TExpr::Scalar(*var))
            .collect::<Vec<_>>()
            .iter());
        let (there, element) = match value {
            TExpr::Select(parts) if parts.2 == TExpr::Float(0.0) => {
                (Some(condition(&parts.0, &vars)?), &parts.1)
            }
            other => (None, other),
        };
        let TExpr::Load { buffer: read, indices } = element else { return None };
        let from = indices.iter().map(|index| Affine::of(index, &vars)).collect::<Option<_>>()?;
        let f32s = [source, result].iter().all(|&&id| program.buffer(id).dtype == DType::F32);
        let plain = kind.is_sequential();
        let fits = own && plain && f32s && buffer == result && read == source && source != result;
        let extents = loops.iter().map(extent).collect::<Option<_>>()?;
        fits.then_some(Self { extents, from, there })
    }

    /// The number of the element that is read; `None` outside of the source.
    fn source(&self, values: &[i64], shape: &[usize]) -> Option<i64> {
        let mut offset: i64 = 0;
        for (index, &extent) in self.from.iter().zip(shape) {
            let extent = i64::try_from(extent).ok()?;
            let index = index.at(values).filter(|index| (0..extent).contains(index))?;
            offset = offset.checked_mul(extent)?.checked_add(index)?;
        }
        Some(offset)
    }

    /// How many iterations of the innermost loop read an element: the first ones. `None` where it may be others.
    fn there(&self, values: &[i64]) -> Option<i64> {
        let (innermost, extent) = (values.len().checked_sub(1)?, *self.extents.last()?);
        let Some((left, right)) = &self.there else { return Some(extent) };
        let room = right.checked_sub(left.at(values)?)?;
        match left.factors[innermost] {
            0 => Some(if room > 0 { extent } else { 0 }),
            1 => Some(room.clamp(0, extent)),
            _ => None,
        }
    }

    /// Writes the elements of one pass of the innermost loop, which begins at `values`. Indices are affine, so that those of the first and the
    /// last iteration bound the others.
    fn pass(&self, values: &mut [i64], source: &Source<'_>, to: &mut [f32]) -> Option<()> {
        let there = self.there(values)?;
        if there == 0 {
            return Some(());
        }
        let innermost = values.len() - 1;
        let first = self.source(values, source.shape)?;
        values[innermost] = there - 1;
        let last = self.source(values, source.shape)?;
        values[innermost] = 0;
        let step = if there == 1 { 0 } else { (last - first) / (there - 1) };
        let (first, there) = (usize::try_from(first).ok()?, usize::try_from(there).ok()?);
        let to = &mut to[..there];
        match usize::try_from(step) {
            Ok(1) => to.copy_from_slice(&source.elements[first..first + there]),
            Ok(step @ 2..) => {
                let from = source.elements[first..].iter().step_by(step);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
            _ => {
                for (to, at) in to.iter_mut().zip(0_i64..) {
                    let at = i64::try_from(first).ok()? + at * step;
                    *to = source.elements[usize::try_from(at).ok()?];
                }
            }
        }
        Some(())
    }
}

/// A row-major tensor.
struct Source<'t> {
    elements: &'t [f32],
    shape: &'t [usize],
}

/// `a < 7`
fn condition(expr: &TExpr, vars: &[ScalarId]) -> Option<(Affine, i64)> {
    match expr {
        TExpr::Binary(BinOp::Less, both) => match both.1 {
            TExpr::Int(right) => Some((Affine::of(&both.0, vars)?, right)),
            _ => None,
        },
        _ => None,
    }
}

fn extent(item: &Loop) -> Option<i64> {
    match (&item.start, &item.stop) {
        (TExpr::Int(0), TExpr::Int(extent @ 0..)) => Some(*extent),
        _ => None,
    }
}

/// What a program makes of a tensor, if it is one that only moves elements; `None` also where it would stop.
pub(super) fn moved(program: &TensorProgram, source: &Tensor, dims: &[usize]) -> Option<Tensor> {
    let moves = Moves::of(program)?;
    let same = moves.extents.iter().map(|&extent| usize::try_from(extent).ok());
    let [Param::Buffer(input), Param::Buffer(output)] = program.params.as_slice() else {
        return None;
    };
    let declared = |id| program.buffer(id).shape.iter().map(|dim| dim.as_int());
    let fits = same.eq(dims.iter().map(|&dim| Some(dim)))
        && declared(*input).eq(source.shape().iter().map(|&dim| i64::try_from(dim).ok()))
        && declared(*output).eq(moves.extents.iter().map(|&extent| Some(extent)))
        && source.undefined_elements().is_none();
    let Data::F32(elements) = source.data() else { return None };
    let elements = elements.as_slice().filter(|_| fits)?;
    let Data::F32(mut result) = Tensor::full(DType::F32, dims, Number::Float(0.0)).data().clone()
    else {
        return None;
    };
    let source = Source { elements, shape: source.shape() };
    let mut values = vec![0; dims.len()];
    let (&innermost, outer) = moves.extents.split_last()?;
    for to in result.as_slice_mut()?.chunks_mut(usize::try_from(innermost).ok()?.max(1)) {
        moves.pass(&mut values, &source, to)?;
        advance(&mut values[..outer.len()], outer);
    }
    Some(Tensor::from_data(Data::F32(result)))
}

/// To the next iteration of a nest.
fn advance(values: &mut [i64], extents: &[i64]) {
    for (value, extent) in values.iter_mut().zip(extents).rev() {
        *value += 1;
        if *value < *extent {
            return;
        }
        *value = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{Moves, moved};
    use ndarray::{ArrayD, IxDyn};
    use relax_program::frontend::Program;
    use relax_semantics::tensor::Tensor;
    use relax_semantics::tir::{Options, run};
    use relax_syntax::dtype::DType;
    use relax_syntax::span::Source;

    fn is_a_move(kind: &str) -> bool {
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((8,), \"f32\"), Y: Buffer((4,), \"f32\")):\n    \
                 for i in {kind}(4):\n        Y[i] = X[i * 2]\n"
        );
        let module = Program::load(Source::new("moves", text)).module;
        Moves::of(module.tensor_program("f").expect("the text has it")).is_some()
    }

    /// What a program makes of 0, 1, 2, ... is what the interpreter makes of them.
    fn agrees(shape: &[usize], extents: &[usize], value: &str) {
        let listed = |dims: &[usize]| dims.iter().map(|dim| format!("{dim},")).collect::<String>();
        let vars = &"i, j, k"[..3 * extents.len() - 2];
        let (from, to) = (listed(shape), listed(extents));
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer(({from}), \"f32\"), Y: Buffer(({to}), \"f32\")):\n    \
                 for {vars} in grid({to}):\n        Y[{vars}] = {value}\n"
        );
        let module = Program::load(Source::new("moves", text.as_str())).module;
        let program = module.tensor_program("f").expect("the text has it");
        let numbers = (0..shape.iter().product::<usize>()).map(|number| number as f64).collect();
        let numbers = ArrayD::from_shape_vec(IxDyn(shape), numbers).expect("they fit");
        let source = Tensor::from_floats(DType::F32, numbers);
        let result = Tensor::undefined(DType::F32, extents);
        let ran = run(program, vec![source.clone(), result], &[], &Options::default());
        let made = moved(program, &source, extents);
        match ran {
            Ok(tensors) => assert!(made.is_some_and(|made| made.same_as(&tensors[1])), "{text}"),
            Err(_) => assert!(made.is_none(), "{text}"),
        }
    }

    #[test]
    fn moves_are_those_of_the_interpreter() {
        agrees(&[6, 7], &[7, 6], "X[j, i]");
        agrees(&[6, 7], &[6, 7], "X[5 + i * -1, 6 + j * -1]");
        agrees(&[5, 11], &[3, 5, 4], "select(i * 4 + k < 11, X[j, i * 4 + k], 0.0)");
        agrees(&[5, 11], &[3, 5, 4], "select(i < 2, X[k + 1, j], 0.0)");
        agrees(&[5, 5], &[5], "X[i, i]");
        agrees(&[9], &[4, 1], "X[i * 2 + 1]");
        agrees(&[0, 3], &[3, 0], "X[j, i]");
        agrees(&[4], &[4], "select(i < 0, X[i], 0.0)");
        // Beyond the source, in the last or the first iteration: the interpreter traps.
        agrees(&[4, 4], &[4, 5], "X[i, j]");
        agrees(&[4, 4], &[4, 4], "X[i, 2 + j * -1]");
        agrees(&[5, 11], &[3, 5, 4], "select(i * 4 + k < 12, X[j, i * 4 + k], 0.0)");
    }

    #[test]
    fn parallel_moves_are_made_when_a_program_is_built() {
        assert!(is_a_move("serial"));
        assert!(is_a_move("parallel"));
        assert!(!is_a_move("vectorized"));
    }
}
