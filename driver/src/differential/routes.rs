//! The two routes of a comparison, and what becomes of a case on them.

use super::{INTS, Known, MAX_BYTES, MAX_STEPS, Tally, called};
use relax_program::compare::{Relation, compare};
use relax_program::frontend::{RunOptions, run};
use relax_program::reals::{Results, agree, largest_magnitude, widened_value, widened_values};
use relax_program::rounding::{Rounding, Verdict, compare_rounded, perturbed_value};
use relax_program::signature::{Dims, bind, dim_of_size, random_dims, random_value};
use relax_runtime as machine;
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Runs that look for smaller dims.
const MAX_TRIES: u32 = 64;
/// Of two texts that shall be equal one case in so many has special values: NaN, infinities, -0.0, denormals, the ends of integers.
const SPECIAL: u32 = 3;
/// Sizes of one dim that are tried: those that are drawn are not much larger.
const SIZES: i64 = 10;

/// Two programs that shall mean the same.
pub struct Routes {
    /// What the interpreter runs.
    pub left: Module,
    /// What it is compared with.
    pub other: Other,
    /// Of random dims and data.
    pub seed: u64,
    /// How many are drawn for each function.
    pub cases: u32,
    /// Values of `param(…)`.
    pub externals: Arc<BTreeMap<Name, Tensor>>,
    /// Values of parameters out of files.
    pub known: Known,
    /// Which integers are drawn.
    pub inputs: Integers,
    /// Whether some constants are random, so that no file has them.
    pub random_constants: bool,
    /// Where both come from.
    pub files: Files,
}

/// Where the programs come from.
#[derive(Clone)]
pub struct Files {
    /// The one that is interpreted.
    pub left: PathBuf,
    /// The other one, which may be the same.
    pub other: PathBuf,
    /// Whether the other one is a module file.
    pub built: Option<Built>,
}

/// What a module file was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// From what is interpreted.
    /// From what is interpreted.
    OfThisText,
    /// From a text that is not interpreted.
    OfAnotherText,
}

/// Which integers are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// Of either sign.
    Signed,
    /// In every second case only such as are indices of most tables: models look up what they are given.
    OftenIndices,
}

impl Integers {
    fn range(self, number: u32) -> std::ops::RangeInclusive<i64> {
        if self == Self::OftenIndices && number % 2 == 1 { 0..=1 } else { INTS }
    }
}

/// The second program.
pub enum Other {
    /// Run by the interpreter.
    Text {
        /// What the interpreter runs second.
        module: Module,
        /// How near results must be.
        relation: Relation,
        /// Both in f64, where they may round in different places.
        wide: Option<(Module, Module)>,
        /// Constants, where it does not have those of the first program.
        externals: Option<Arc<BTreeMap<Name, Tensor>>>,
    },
    /// The first one, compiled.
    Compiled {
        /// The compiled functions and kernels.
        module: Box<machine::Module>,
        /// What it may round.
        rounding: Rounding,
        /// The constants, each off by a rounding error.
        perturbed: Arc<BTreeMap<Name, Tensor>>,
    },
}

/// Two programs in f64, and the constants of the second one where it has its own.
type Wide<'w> = (&'w (Module, Module), Option<&'w BTreeMap<Name, Tensor>>);

/// The arguments of a call, and how they were drawn.
#[derive(Clone)]
pub struct Case {
    /// Counted from 0 for each function.
    pub number: u32,
    /// Dims as they were drawn, before any were made smaller.
    pub drawn: Dims,
    /// Dims of the call.
    pub dims: Dims,
    /// Of all parameters of the text.
    pub arguments: Vec<Value>,
}

/// A case in which the routes differ.
pub struct Difference {
    /// The function that differs.
    pub function: Name,
    /// The arguments at which it differs.
    pub case: Case,
    /// How the results differ.
    pub why: String,
    /// What the interpreter gives.
    pub expected: Result<Value, Stop>,
    /// What the other route gives.
    pub found: Result<Value, Stop>,
}

/// Dims that are smaller in one variable each, the least first.
fn smaller(function: &Function, dims: &Dims) -> Vec<Dims> {
    let mut candidates = Vec::new();
    for (name, &value) in dims {
        let Some(variable) = function.dim(name) else { continue };
        let mut values: Vec<i64> = (0..SIZES).map(|size| dim_of_size(variable, size)).collect();
        values.retain(|&smaller| smaller < value);
        values.dedup();
        candidates.extend(values.into_iter().map(|smaller| {
            let mut dims = dims.clone();
            dims.insert(name.clone(), smaller);
            dims
        }));
    }
    candidates
}

impl Routes {
    /// The first difference.
    pub fn function(
        &self,
        name: &Name,
        tally: &mut Tally,
        watch: &mut dyn FnMut(u32),
    ) -> Option<Difference> {
        let function = self.left.function(name)?;
        (0..self.cases).find_map(|number| {
            watch(number);
            let mut random = self.random(name, number);
            let dims = random_dims(function, &mut random);
            let Ok(case) = self.drawn(function, number, dims, &mut random) else {
                tally.rejected += 1;
                return None;
            };
            let difference = self.difference(function, case, tally)?;
            Some(self.shrunk(function, difference))
        })
    }

    /// The same difference at smaller dims, as far as some tries lead.
    fn shrunk(&self, function: &Function, difference: Difference) -> Difference {
        let mut smallest = difference;
        let mut tries = MAX_TRIES;
        loop {
            let candidates = smaller(function, &smallest.case.dims);
            let found = candidates.into_iter().find_map(|dims| {
                tries = tries.checked_sub(1)?;
                self.again(function, &smallest.case, dims)
            });
            match found {
                Some(found) => smallest = found,
                None => return smallest,
            }
        }
    }

    /// The difference of a case at other dims, if there is one.
    fn again(&self, function: &Function, case: &Case, dims: Dims) -> Option<Difference> {
        let mut random = self.random(&function.name, case.number);
        let _ = random_dims(function, &mut random);
        let tried = self.drawn(function, case.number, dims.clone(), &mut random).ok()?;
        // The values of a file decide some dims.
        if tried.dims != dims {
            return None;
        }
        let tried = Case { drawn: case.drawn.clone(), ..tried };
        self.difference(function, tried, &mut Tally::default())
    }

    /// Whether every bit counts. What rounds may make an infinity of a great number, or a NaN.
    fn is_exact(&self) -> bool {
        matches!(self.other, Other::Text { relation: Relation::Equal, .. })
    }

    /// The source of the data of a case.
    fn random(&self, name: &Name, number: u32) -> Random {
        Random::new(self.seed, &format!("{name}/{number}"))
    }

    /// Values for a signature: those of the file where it has some, random ones elsewhere.
    fn drawn(
        &self,
        function: &Function,
        number: u32,
        drawn: Dims,
        random: &mut Random,
    ) -> Result<Case, String> {
        let params = || function.lambda.params.iter();
        let known = |id| self.known.of(&function.name, &function.var(id).name);
        let mut dims = Dims::new();
        for &id in params() {
            if let Some(tensor) = known(id) {
                let value = Value::Tensor(tensor.clone());
                bind(function.param_annotation(id), &value, &mut dims);
            }
        }
        for (name, value) in drawn {
            dims.entry(name).or_insert(value);
        }
        if self.is_exact() && number % SPECIAL == SPECIAL - 1 {
            *random = random.clone().with_edges();
        }
        let ints = self.inputs.range(number);
        let arguments = params()
            .map(|&id| match known(id) {
                Some(tensor) => Ok(Value::Tensor(tensor.clone())),
                None => {
                    random_value(function.param_annotation(id), &dims, random, &ints, MAX_BYTES)
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Case { number, drawn: dims.clone(), dims, arguments })
    }

    /// Runs a case on both routes.
    fn difference(&self, function: &Function, case: Case, tally: &mut Tally) -> Option<Difference> {
        let (expected, found) = self.results(function, &case.arguments);
        let why = self.verdict(function, &case.arguments, (&expected, &found), tally).err()?;
        let function = function.name.clone();
        Some(Difference { function, case, why, expected, found })
    }

    /// What both routes give.
    pub fn results(
        &self,
        function: &Function,
        arguments: &[Value],
    ) -> (Result<Value, Stop>, Result<Value, Stop>) {
        let options = RunOptions {
            externals: self.externals.clone(),
            steps: Some(MAX_STEPS),
            ..RunOptions::default()
        };
        let name = &function.name;
        let left = run(&self.left, name, arguments.to_vec(), &options).result;
        let right = match &self.other {
            Other::Compiled { module, .. } => {
                let params = function.lambda.params.iter().map(|&id| &function.var(id).name);
                let passed = params.zip(arguments);
                let passed = passed.filter(|(param, _)| self.known.is_passed(name, param));
                let passed: Vec<Value> = passed.map(|(_, value)| value.clone()).collect();
                called(module, name, &passed)
            }
            Other::Text { module, externals, .. } => {
                let own = externals.clone().map(|externals| RunOptions {
                    externals,
                    steps: Some(MAX_STEPS),
                    ..RunOptions::default()
                });
                run(module, name, arguments.to_vec(), own.as_ref().unwrap_or(&options)).result
            }
        };
        (left, right)
    }

    /// Compares what both routes give, and counts it.
    ///
    /// # Errors
    /// How they differ.
    pub fn verdict(
        &self,
        function: &Function,
        arguments: &[Value],
        results: (&Result<Value, Stop>, &Result<Value, Stop>),
        tally: &mut Tally,
    ) -> Result<(), String> {
        match results {
            (Err(Stop::Exhausted { .. }), _) | (_, Err(Stop::Exhausted { .. })) => {
                tally.exhausted += 1;
            }
            (Err(Stop::Unsupported(_)), _) | (_, Err(Stop::Unsupported(_))) => {
                tally.unsupported += 1;
            }
            (Ok(left), Ok(right)) => {
                self.values(&function.name, arguments, (left, right), tally)?;
            }
            (Err(Stop::Trap(left)), Err(Stop::Trap(right))) => {
                tally.trapped += 1;
                if left.id != right.id {
                    return Err(format!("one stops with {}, the other with {}", left.id, right.id));
                }
            }
            (Ok(_), Err(stop)) => return Err(format!("only the second stops: {stop}")),
            (Err(stop), Ok(_)) => return Err(format!("only the first stops: {stop}")),
        }
        Ok(())
    }

    /// Compares two results.
    fn values(
        &self,
        name: &Name,
        arguments: &[Value],
        (left, right): (&Value, &Value),
        tally: &mut Tally,
    ) -> Result<(), String> {
        match &self.other {
            Other::Text { relation, wide, externals, .. } => {
                tally.compared += 1;
                let Err(why) = compare(*relation, left, right) else { return Ok(()) };
                let wide = wide.as_ref().map(|wide| (wide, externals.as_deref()));
                self.as_reals(name, arguments, (left, right), wide).map_err(|more| match more {
                    Some(more) => format!("{why}; {more}"),
                    None => why,
                })?;
                tally.as_reals += 1;
            }
            Other::Compiled { rounding, perturbed, .. } => {
                let options = RunOptions {
                    externals: Arc::clone(perturbed),
                    steps: Some(MAX_STEPS),
                    ..RunOptions::default()
                };
                let inputs = largest_magnitude(arguments);
                let perturbed = || {
                    let arguments = arguments.iter().map(perturbed_value).collect();
                    run(&self.left, name, arguments, &options).result.ok()
                };
                match compare_rounded(*rounding, (left, right), inputs, perturbed)? {
                    Verdict::Near => tally.compared += 1,
                    Verdict::IllConditioned => tally.ill_conditioned += 1,
                }
            }
        }
        Ok(())
    }

    /// Whether results are the same real numbers, each rounded on its way; if not, what more is to be said.
    fn as_reals(
        &self,
        name: &Name,
        arguments: &[Value],
        rounded: (&Value, &Value),
        wide: Option<Wide<'_>>,
    ) -> Result<(), Option<String>> {
        compare(Relation::Shaped, rounded.0, rounded.1).map_err(|_| None)?;
        let ((left, right), own) = wide.ok_or(None)?;
        let with = |externals: &BTreeMap<Name, Tensor>| RunOptions {
            externals: Arc::new(widened_values(externals)),
            steps: Some(MAX_STEPS),
            ..RunOptions::default()
        };
        let options = with(&self.externals);
        let of_right = own.map_or_else(|| options.clone(), with);
        let inputs = largest_magnitude(arguments);
        let arguments: Vec<Value> = arguments.iter().map(widened_value).collect();
        let left = run(left, name, arguments.clone(), &options).result.map_err(|_| None)?;
        let right = run(right, name, arguments, &of_right).result.map_err(|_| None)?;
        agree(Results { rounded, wide: (&left, &right), inputs }).map_err(Some)
    }
}
