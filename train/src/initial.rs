//! Initial values of weights: SPECs of inputs such as `zeros`, random numbers of the seed and the name of the weight, or tensors
//! of a file.

use crate::tensors::TensorFile;
use ndarray::{ArrayD, IxDyn};
use relax_program::spec::Context;
use relax_semantics::random::Random;
use relax_semantics::show::shown_shape;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::path::Path;

/// How a weight begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Initial {
    /// What a SPEC says for a tensor of these extents: `zeros`, `ones`, `[0.5, 1]`.
    Spec(String),
    /// Normal numbers of mean 0 with this standard deviation.
    Normal(f64),
    /// Uniform numbers between two.
    Uniform(f64, f64),
    /// A tensor of a file: of this name, or of that of the weight.
    File(String, Option<String>),
}

impl Initial {
    /// `normal(STD)`, `uniform(LOW, HIGH)`, `@FILE`, `@FILE:NAME`, or a SPEC.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(file) = text.strip_prefix('@') {
            let (path, name) = match file.rsplit_once(':') {
                Some((path, name)) => (path, Some(name.to_owned())),
                None => (file, None),
            };
            return (!path.is_empty()).then(|| Self::File(path.to_owned(), name));
        }
        let function = text.split('(').next().unwrap_or_default().trim();
        if !matches!(function, "normal" | "uniform") {
            return (!text.is_empty()).then(|| Self::Spec(text.to_owned()));
        }
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        let (_, arguments) = text.split_once('(')?;
        let numbers: Option<Vec<f64>> =
            arguments.strip_suffix(')')?.split(',').map(number).collect();
        match (function, numbers?.as_slice()) {
            ("normal", [deviation]) if *deviation >= 0.0 => Some(Self::Normal(*deviation)),
            ("uniform", [low, high]) if low <= high => Some(Self::Uniform(*low, *high)),
            _ => None,
        }
    }

    /// The value of a weight. `folder` is that of the configuration. An error is a sentence.
    pub(crate) fn tensor(
        &self,
        name: &Name,
        (dtype, shape): (DType, &[usize]),
        seed: u64,
        (folder, max_bytes): (&Path, u64),
    ) -> Result<Tensor, String> {
        let mut random = Random::new(seed, &format!("weights/{name}"));
        let drawn = |element: &mut dyn FnMut() -> f64| {
            Tensor::from_floats(dtype, ArrayD::from_shape_simple_fn(IxDyn(shape), element))
        };
        let tensor = match self {
            Self::Normal(deviation) => drawn(&mut || random.normal() * deviation),
            Self::Uniform(low, high) => drawn(&mut || {
                let unit = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
                low + (high - low) * unit
            }),
            Self::Spec(text) => filled(text, name, (dtype, shape), (seed, max_bytes))?,
            Self::File(path, stored) => {
                let file = TensorFile::open(&folder.join(path), max_bytes);
                let tensor = file.and_then(|file| file.tensor(stored.as_deref().unwrap_or(name)));
                tensor.map_err(|error| error.to_string())?
            }
        };
        if (tensor.dtype(), tensor.shape()) == (dtype, shape) {
            return Ok(tensor);
        }
        Err(format!(
            "the weight `{name}` is {dtype} of shape {}, found {} of shape {}; nothing is cast silently",
            shown_shape(shape),
            tensor.dtype(),
            shown_shape(tensor.shape()),
        ))
    }
}

fn filled(
    text: &str,
    name: &Name,
    (dtype, shape): (DType, &[usize]),
    (seed, max_bytes): (u64, u64),
) -> Result<Tensor, String> {
    let dims = shape.iter().map(|&extent| Dim::Int(i64::try_from(extent).unwrap_or(i64::MAX)));
    let target = Annotation::tensor(dims.collect(), dtype);
    let context = Context { seed, max_bytes, ..Context::default() };
    match context.read(name, text, Some(&target)).map_err(|why| why.to_string())? {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(format!("{} is no tensor", other.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_initial_values() {
        assert_eq!(Initial::parse("normal(0.5)"), Some(Initial::Normal(0.5)));
        assert_eq!(Initial::parse("uniform(-1, 2)"), Some(Initial::Uniform(-1.0, 2.0)));
        let named = Initial::File("a/b.npz".to_owned(), Some("w".to_owned()));
        assert_eq!(Initial::parse("@a/b.npz:w"), Some(named));
        for wrong in ["", "@", "normal", "normal()", "normal(-1)", "normal(inf)", "uniform(2, 1)"] {
            assert_eq!(Initial::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn random_values_depend_on_seed_and_name() {
        let made = |text: &str, name: &str, seed| {
            let initial = Initial::parse(text).expect("it is one");
            let to = (DType::F64, &[40][..]);
            let made = initial.tensor(&Name::new(name), to, seed, (Path::new("."), 0));
            made.expect("it fits").to_floats()
        };
        let uniform = made("uniform(-1, 3)", "a", 1);
        assert_eq!(uniform, made("uniform(-1, 3)", "a", 1));
        assert_ne!(uniform, made("uniform(-1, 3)", "a", 2));
        assert_ne!(uniform, made("uniform(-1, 3)", "b", 1));
        assert!(uniform.iter().all(|element| (-1.0..3.0).contains(element)));
        assert!(
            uniform.iter().any(|element| *element > 2.0)
                && uniform.iter().any(|element| *element < 0.0)
        );
        let normal = made("normal(2)", "a", 1);
        assert_eq!(normal, made("normal(1)", "a", 1) * 2.0);
    }
}
