//! What a row's `infer` sees: its operands, typed access to them, and the questions it may ask.

use super::{Known, Operand, Operator};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, floor_mod};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};
use relax_syntax::ir::Module;

/// Deduction of one call.
pub struct Infer<'a> {
    /// The row.
    pub row: &'static Operator,
    /// One a parameter, then the rest.
    pub operands: &'a [Operand],
    /// Decides questions on dims.
    pub facts: &'a mut dyn Facts,
    /// What could not be decided, and is therefore checked at run time.
    pub obligations: Vec<Obligation>,
    /// The program around the call, for calls of functions.
    pub module: Option<&'a Module>,
}

/// A constraint that neither holds nor fails for all dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligation {
    /// `C1`
    pub constraint: &'static str,
    /// What must hold.
    pub claim: Claim,
}

/// A call that is wrong: for every dims (or, at run time, for these).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// `C1`, … of the row, or `kind` when an operand is no value of the kind that the row takes.
    pub constraint: &'static str,
    /// What was expected and found.
    pub message: String,
    /// The parameter it is about.
    pub param: Option<&'static str>,
    /// What never holds, with dims that show it.
    pub counterexample: Option<(Claim, Counterexample)>,
}

type Checked<T> = Result<T, Reject>;

impl<'a> Infer<'a> {
    /// A rejection under a constraint of the row.
    ///
    /// # Panics
    /// When the row has no such constraint: a mistake in the row.
    pub fn reject(&self, constraint: &'static str, message: impl Into<String>) -> Reject {
        let known = constraint == "kind" || self.row.constraints.iter().any(|c| c.id == constraint);
        assert!(
            known,
            "invariant: `{}` names its own constraints, not {constraint}",
            self.row.name
        );
        Reject { constraint, message: message.into(), param: None, counterexample: None }
    }

    /// The operand of a parameter.
    #[must_use]
    pub fn operand(&self, param: &str) -> &'a Operand {
        &self.operands[self.row.param(param)]
    }

    /// The operands beyond the named parameters.
    #[must_use]
    pub fn rest(&self) -> &'a [Operand] {
        &self.operands[self.row.params.len() - 1..]
    }

    fn wrong_kind(&self, param: &str, expected: &str) -> Reject {
        let operand = self.operand(param);
        let found = match &operand.known {
            Some(Known::None) => "None".to_owned(),
            Some(Known::Dim(dim)) => format!("the integer `{dim}`"),
            Some(Known::Float(value)) => format!("the float {value:?}"),
            Some(Known::Bool(value)) => format!("`{}`", if *value { "True" } else { "False" }),
            Some(Known::Str(text)) => format!("the string {text:?}"),
            _ => format!("`{}`", operand.annotation),
        };
        let mut message = format!("`{param}` must be {expected}, found {found}");
        if expected == "a tensor" && matches!(&operand.known, Some(Known::Dim(_) | Known::Float(_)))
        {
            message += "; write `const(value, dtype)` for a scalar tensor";
        }
        let row = self.row;
        Reject {
            constraint: "kind",
            message,
            param: Some(row.params[row.param(param)].name),
            counterexample: None,
        }
    }

    /// The type of a tensor operand; nothing is known of one annotated `Object`.
    ///
    /// # Errors
    /// When the operand is known to be no tensor.
    pub fn tensor(&self, param: &str) -> Checked<TensorType> {
        tensor_type(&self.operand(param).annotation, &self.operand(param).known)
            .ok_or_else(|| self.wrong_kind(param, "a tensor"))
    }

    /// As [`Infer::tensor`], or `None` when the operand is `None`.
    ///
    /// # Errors
    /// When the operand is neither.
    pub fn optional_tensor(&self, param: &str) -> Checked<Option<TensorType>> {
        if self.is_none(param) { Ok(None) } else { self.tensor(param).map(Some) }
    }

    /// The types of a tuple of tensors; `None` when not even their number is known.
    ///
    /// # Errors
    /// When the operand is no tuple of tensors.
    pub fn tensors(&self, param: &str) -> Checked<Option<Vec<TensorType>>> {
        match &self.operand(param).annotation {
            Annotation::Object => Ok(None),
            Annotation::Tuple(items) => items
                .iter()
                .map(|item| tensor_type(item, &None))
                .collect::<Option<Vec<_>>>()
                .map(Some)
                .ok_or_else(|| self.wrong_kind(param, "a tuple of tensors")),
            _ => Err(self.wrong_kind(param, "a tuple of tensors")),
        }
    }

    /// What is known of a shape operand.
    ///
    /// # Errors
    /// When the operand is no shape.
    pub fn shape(&self, param: &str) -> Checked<Extents> {
        let operand = self.operand(param);
        match operand.extents() {
            Some(extents) => Ok(extents),
            None if operand.annotation == Annotation::Object && operand.known.is_none() => {
                Ok(Extents::Unknown)
            }
            None => Err(self.wrong_kind(param, "a shape")),
        }
    }

    /// True when the operand is `None`.
    #[must_use]
    pub fn is_none(&self, param: &str) -> bool {
        self.operand(param).known == Some(Known::None)
    }

    /// A list of dims (one dim stands for a list of it).
    ///
    /// # Errors
    /// When the operand is not written as such in the text.
    pub fn dims(&self, param: &str) -> Checked<Vec<Dim>> {
        let known = self.operand(param).known.as_ref();
        let dims = known.and_then(Known::dims).or_else(|| {
            // A shape value whose dims are known serves as a list too.
            self.operand(param).extents().and_then(|e| e.dims().map(<[Dim]>::to_vec))
        });
        dims.ok_or_else(|| self.wrong_kind(param, "a list of integers"))
    }

    /// A list of literal integers (one integer stands for a list of it).
    ///
    /// # Errors
    /// When the operand is not written as such in the text.
    pub fn ints(&self, param: &str) -> Checked<Vec<i64>> {
        self.dims(param)?
            .iter()
            .map(Dim::as_int)
            .collect::<Option<_>>()
            .ok_or_else(|| self.wrong_kind(param, "a list of literal integers"))
    }

    /// An integer, possibly symbolic.
    ///
    /// # Errors
    /// When the operand is not written as such in the text.
    pub fn dim(&self, param: &str) -> Checked<Dim> {
        match &self.operand(param).known {
            Some(Known::Dim(dim)) => Ok(dim.clone()),
            _ => Err(self.wrong_kind(param, "an integer")),
        }
    }

    /// A literal integer.
    ///
    /// # Errors
    /// When the operand is not written as such in the text.
    pub fn int(&self, param: &str) -> Checked<i64> {
        let value = self.dim(param).ok().and_then(|dim| dim.as_int());
        value.ok_or_else(|| self.wrong_kind(param, "a literal integer"))
    }

    /// A float; an integer is taken for one.
    ///
    /// # Errors
    /// When the operand is not written as such in the text.
    pub fn float(&self, param: &str) -> Checked<f64> {
        match &self.operand(param).known {
            Some(Known::Float(value)) => Ok(*value),
            Some(Known::Dim(Dim::Int(value))) => Ok(*value as f64),
            _ => Err(self.wrong_kind(param, "a float")),
        }
    }

    /// `True` or `False`.
    ///
    /// # Errors
    /// When the operand is not written as such in the text.
    pub fn bool(&self, param: &str) -> Checked<bool> {
        match &self.operand(param).known {
            Some(Known::Bool(value)) => Ok(*value),
            _ => Err(self.wrong_kind(param, "`True` or `False`")),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// When the operand is not written as such in the text.
    pub fn str(&self, param: &str) -> Checked<Name> {
        match &self.operand(param).known {
            Some(Known::Str(text)) => Ok(text.clone()),
            _ => Err(self.wrong_kind(param, "a string")),
        }
    }

    /// A dtype.
    ///
    /// # Errors
    /// When the operand is no name of a dtype.
    pub fn dtype(&self, param: &str) -> Checked<DType> {
        match &self.operand(param).known {
            Some(Known::Str(text)) => DType::parse(text),
            _ => None,
        }
        .ok_or_else(|| self.wrong_kind(param, "the name of a dtype such as \"f32\""))
    }

    /// A dtype, or `None`.
    ///
    /// # Errors
    /// When the operand is neither.
    pub fn optional_dtype(&self, param: &str) -> Checked<Option<DType>> {
        if self.is_none(param) { Ok(None) } else { self.dtype(param).map(Some) }
    }

    /// Demands that a tensor operand's dtype, where known, satisfies `accepts`.
    ///
    /// # Errors
    /// A rejection under `constraint` that says what is accepted.
    pub fn require_dtype(
        &self,
        constraint: &'static str,
        param: &'static str,
        accepts: fn(DType) -> bool,
    ) -> Checked<()> {
        let found = self.tensor(param)?.dtype;
        let Some(found) = found.filter(|&dtype| !accepts(dtype)) else { return Ok(()) };
        let accepted: Vec<_> =
            DType::ALL.into_iter().filter(|&d| accepts(d)).map(DType::name).collect();
        let message =
            format!("`{param}` must have one of the dtypes {}, found {found}", accepted.join(" "));
        Err(Reject { param: Some(param), ..self.reject(constraint, message) })
    }

    /// The one dtype of several tensor operands, as far as known.
    ///
    /// # Errors
    /// A rejection under `constraint` when two differ.
    pub fn same_dtype(
        &self,
        constraint: &'static str,
        params: &[&'static str],
    ) -> Checked<Option<DType>> {
        let mut first: Option<(&str, DType)> = None;
        for &param in params {
            let Some(dtype) = self.tensor(param)?.dtype else { continue };
            match first {
                Some((other, expected)) if expected != dtype => {
                    let message = format!(
                        "`{other}` and `{param}` must have the same dtype, found {expected} and \
                         {dtype}; convert one with `astype`"
                    );
                    return Err(Reject { param: Some(param), ..self.reject(constraint, message) });
                }
                Some(_) => {}
                None => first = Some((param, dtype)),
            }
        }
        Ok(first.map(|(_, dtype)| dtype))
    }

    /// Demands a relation: proved right costs nothing, proved wrong is a rejection, undecided is
    /// noted as an obligation of run time (and assumed from here on, for it is checked before).
    ///
    /// `Refuted` alone means only that *some* dims fail; the call is wrong when *all* do.
    ///
    /// # Errors
    /// When the claim holds for no dims.
    pub fn require(
        &mut self,
        constraint: &'static str,
        claim: Claim,
        message: impl FnOnce() -> String,
    ) -> Checked<()> {
        let answer = self.facts.decide(&claim);
        if answer == Answer::Proved {
            return Ok(());
        }
        if self.never_holds(&claim) {
            let counterexample = match answer {
                Answer::Refuted(values) => Some((claim, values)),
                Answer::Proved | Answer::Unknown => None,
            };
            return Err(Reject { counterexample, ..self.reject(constraint, message()) });
        }
        self.facts.assume(claim.clone());
        self.obligations.push(Obligation { constraint, claim });
        Ok(())
    }

    /// True when no dims satisfy the claim.
    fn never_holds(&mut self, claim: &Claim) -> bool {
        if let (Relation::Divides, Some(a), Some(b)) =
            (claim.relation, claim.left.as_int(), claim.right.as_int())
        {
            return floor_mod(b, a) != Some(0);
        }
        self.facts.decide(&claim.opposite()) == Answer::Proved
    }

    /// Demands `a == b`; see [`Infer::require`].
    ///
    /// # Errors
    /// When they are equal for no dims.
    pub fn require_equal(
        &mut self,
        constraint: &'static str,
        a: &Dim,
        b: &Dim,
        message: impl FnOnce() -> String,
    ) -> Checked<()> {
        self.require(constraint, Claim::new(a.clone(), Relation::Equal, b.clone()), message)
    }

    /// True when `a == b` for all dims.
    pub fn proves_equal(&mut self, a: &Dim, b: &Dim) -> bool {
        self.facts.equal(a, b) == Answer::Proved
    }

    /// True when the claim holds for all dims.
    pub fn proves(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }

    /// Demands that two shapes, where known, are the same, dim by dim, and gives the more precise.
    ///
    /// # Errors
    /// When ranks differ or a pair of dims is never equal.
    pub fn require_same_shape(
        &mut self,
        constraint: &'static str,
        a: &Extents,
        b: &Extents,
        what: &str,
    ) -> Checked<Extents> {
        if let (Some(x), Some(y)) = (a.rank(), b.rank())
            && x != y
        {
            let message = format!("{what} must have the same rank, found {x} and {y}");
            return Err(self.reject(constraint, message));
        }
        match (a, b) {
            (Extents::Known(x), Extents::Known(y)) => {
                for (axis, (x, y)) in x.iter().zip(y).enumerate() {
                    self.require_equal(constraint, x, y, || {
                        format!("{what} must have the same shape, found {x} and {y} in dim {axis}")
                    })?;
                }
                Ok(a.clone())
            }
            (Extents::Known(_), _) | (Extents::Rank(_), Extents::Unknown) => Ok(a.clone()),
            _ => Ok(b.clone()),
        }
    }

    /// An axis attribute as a position in `0..rank`; negative ones count from the end.
    ///
    /// # Errors
    /// A rejection under `constraint` when it is out of range.
    pub fn axis(&self, constraint: &'static str, axis: i64, rank: usize) -> Checked<usize> {
        normalize_axis(axis, rank).ok_or_else(|| {
            let message = format!("axis {axis} is out of range for a tensor of rank {rank}");
            self.reject(constraint, message)
        })
    }

    /// Axes as sorted positions; see [`Infer::axis`].
    ///
    /// # Errors
    /// A rejection under `constraint` when one is out of range or occurs twice.
    pub fn axes(&self, constraint: &'static str, axes: &[i64], rank: usize) -> Checked<Vec<usize>> {
        let mut positions = Vec::with_capacity(axes.len());
        for &axis in axes {
            let position = self.axis(constraint, axis, rank)?;
            if positions.contains(&position) {
                return Err(self.reject(constraint, format!("axis {axis} occurs twice")));
            }
            positions.push(position);
        }
        positions.sort_unstable();
        Ok(positions)
    }
}

/// `axis` counted from the front, if it is in `-rank..rank`.
#[must_use]
pub fn normalize_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let position = if axis < 0 { axis.checked_add(rank)? } else { axis };
    (0..rank).contains(&position).then(|| usize::try_from(position).ok()).flatten()
}

fn tensor_type(annotation: &Annotation, known: &Option<Known>) -> Option<TensorType> {
    match annotation {
        Annotation::Object if known.is_none() => {
            Some(TensorType { extents: Extents::Unknown, dtype: None })
        }
        other => other.as_tensor().cloned(),
    }
}
