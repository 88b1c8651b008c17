//! Inputs for a function: a value for every dim, whether it has a name in the signature or not.

use relax_program::signature::{Dims, dim_of_size, random_value};
use relax_program::spec::{Typing, literal};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Body, Expr, Function};
use std::collections::{BTreeMap, BTreeSet};

/// Sizes that find bugs; the first few are also tried for all variables at once.
const SIZES: [i64; 9] = [0, 1, 2, 3, 4, 5, 7, 8, 9];
/// How many cases give all variables the same size.
const ALIKE: u32 = 4;
/// Begins the name of a dim that the signature does not name.
const UNNAMED: char = '?';
/// The highest rank of a tensor whose rank is not known.
const MAX_RANK: i64 = 3;

/// A function with every dim of its parameters given a name, and values for these names.
pub(super) struct Instance<'f> {
    function: &'f Function,
    params: Vec<Annotation>,
    /// Values of parameters that are not drawn.
    given: BTreeMap<Name, Tensor>,
    /// The dims that these tell.
    fixed: BTreeSet<Name>,
    /// The values that were drawn.
    pub(super) dims: Dims,
}

/// Draws what a signature leaves open.
struct Filler<'a> {
    random: &'a mut Random,
    choices: Vec<i64>,
    ranks: Vec<i64>,
    dims: Dims,
}

/// What the annotations and casts of a function mention: inputs that are like it pass.
#[derive(Debug, Default)]
pub(super) struct Interesting {
    literals: BTreeSet<i64>,
    ranks: BTreeSet<i64>,
}

/// Looks through a function.
pub(super) fn interesting(function: &Function) -> Interesting {
    let mut found = Interesting::default();
    let mut visit = |annotation: &Annotation| {
        let rank = annotation.as_tensor().and_then(|tensor| tensor.extents.rank());
        found.ranks.extend(rank.and_then(|rank| i64::try_from(rank).ok()));
        annotation.visit_dims(&mut |dim| {
            if let Dim::Int(value @ 0..=64) = dim {
                found.literals.insert(*value);
            }
        });
    };
    function.vars.iter().filter_map(|info| info.annotation.as_ref()).for_each(&mut visit);
    if let Some(body) = &function.lambda.body {
        casts(body, &mut visit);
    }
    found
}

fn casts(body: &Body, visit: &mut dyn FnMut(&Annotation)) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::MatchCast(_, annotation) => visit(annotation),
            Expr::If { then, otherwise, .. } => {
                casts(then, visit);
                casts(otherwise, visit);
            }
            Expr::Closure(lambda) => {
                if let Some(body) = &lambda.body {
                    casts(body, visit);
                }
            }
            _ => {}
        }
    }
}

impl<'f> Instance<'f> {
    /// Draws the dims of a case.
    pub(super) fn draw(
        function: &'f Function,
        case: u32,
        interesting: &Interesting,
        random: &mut Random,
    ) -> Self {
        let mut dims = Dims::new();
        for variable in function.dims.iter().filter(|dim| dim.in_signature) {
            let size = if case < ALIKE { SIZES[case as usize] } else { pick(random, &SIZES) };
            dims.insert(variable.name.clone(), dim_of_size(variable, size));
        }
        // One size for dims that shall be equal, and now and then any.
        let mut choices: Vec<i64> = interesting.literals.iter().copied().collect();
        choices.push(pick(random, &SIZES));
        choices.extend(dims.values().filter(|&&value| value <= 64));
        let mut ranks: Vec<i64> = interesting.ranks.iter().copied().collect();
        if ranks.is_empty() || case % 4 == 3 {
            choices.extend(SIZES);
            ranks.extend(0..=MAX_RANK);
        }
        let mut filler = Filler { random, choices, ranks, dims };
        let params = function.lambda.params.iter();
        let params = params.map(|&id| filler.annotation(function.param_annotation(id))).collect();
        Self { function, params, given: BTreeMap::new(), fixed: BTreeSet::new(), dims: filler.dims }
    }

    /// The same with the values of some parameters, and the dims that they tell.
    pub(super) fn with(mut self, given: &BTreeMap<Name, Tensor>) -> Self {
        for (&id, annotation) in self.function.lambda.params.iter().zip(&self.params) {
            let Some(value) = given.get(&self.function.var(id).name) else { continue };
            let dims = annotation.dims();
            for (dim, &extent) in dims.unwrap_or_default().iter().zip(value.shape()) {
                if let (Dim::Var(name), Ok(extent)) = (dim, i64::try_from(extent)) {
                    self.dims.insert(name.clone(), extent);
                    self.fixed.insert(name.clone());
                }
            }
        }
        self.given = given.clone();
        self
    }

    /// Random values in these dims.
    pub(super) fn arguments(&self, dims: &Dims, seed: u64) -> Result<Vec<Value>, String> {
        let named = self.function.lambda.params.iter().zip(&self.params);
        named
            .map(|(&id, annotation)| {
                if let Some(value) = self.given.get(&self.function.var(id).name) {
                    return Ok(Value::Tensor(value.clone()));
                }
                let mut random = Random::new(seed, &self.function.var(id).name);
                if seed % 2 == 1 {
                    random = random.with_edges();
                }
                random_value(annotation, dims, &mut random, &super::INTS, super::MAX_BYTES)
            })
            .collect()
    }

    /// Values to try in the place of one.
    pub(super) fn smaller(&self, name: &Name, value: i64) -> Vec<i64> {
        if self.fixed.contains(name) {
            return Vec::new();
        }
        let declared = self.function.dim(name);
        let sizes = [0, 1, 2, 3, value / 2, value - 1].into_iter();
        let values = sizes.map(|size| match declared {
            Some(variable) if variable.has_facts() => dim_of_size(variable, size),
            _ => size,
        });
        let smaller: BTreeSet<i64> = values.filter(|&size| 0 <= size && size < value).collect();
        smaller.into_iter().collect()
    }
}

fn pick(random: &mut Random, from: &[i64]) -> i64 {
    let last = i64::try_from(from.len()).unwrap_or(i64::MAX) - 1;
    from[usize::try_from(random.int(&(0..=last))).unwrap_or(0)]
}

impl Filler<'_> {
    /// The annotation with a variable for each dim that it leaves open.
    fn annotation(&mut self, annotation: &Annotation) -> Annotation {
        match annotation {
            Annotation::Tensor(tensor) => Annotation::Tensor(TensorType {
                extents: self.extents(&tensor.extents),
                dtype: tensor.dtype.or(Some(DType::F32)),
            }),
            Annotation::Shape(extents) => Annotation::Shape(self.extents(extents)),
            Annotation::Tuple(items) => {
                Annotation::Tuple(items.iter().map(|item| self.annotation(item)).collect())
            }
            Annotation::Object => Annotation::Tensor(TensorType {
                extents: self.extents(&Extents::Unknown),
                dtype: Some(DType::F32),
            }),
            other => other.clone(),
        }
    }

    fn extents(&mut self, extents: &Extents) -> Extents {
        let rank = match extents {
            Extents::Known(_) => return extents.clone(),
            Extents::Rank(rank) => *rank,
            Extents::Unknown => {
                let rank = pick(self.random, &self.ranks);
                usize::try_from(rank).expect("invariant: ranks are at least 0")
            }
        };
        Extents::Known((0..rank).map(|_| self.dim()).collect())
    }

    fn dim(&mut self) -> Dim {
        let name = Name::new(format!("{UNNAMED}{}", self.dims.len()));
        let value = pick(self.random, &self.choices);
        self.dims.insert(name.clone(), value);
        Dim::Var(name)
    }
}

/// The name of a dim, for people.
pub(super) fn shown(name: &Name) -> String {
    match name.strip_prefix(UNNAMED) {
        Some(number) => format!("(unnamed dim {number})"),
        None => name.to_string(),
    }
}

/// A value as `--input` takes it, where it is short.
pub(super) fn text(value: &Value) -> String {
    const LONGEST: usize = 2000;
    let text = literal(value, Typing::Written).unwrap_or_else(|| value.kind().to_owned());
    if text.len() > LONGEST { value.annotation().to_string() } else { text }
}
