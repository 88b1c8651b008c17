//! Activation functions of one operand: each is a function of one element.

use super::{DATA, FLOAT_DATA, like_float_data};
use crate::ops::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Reject, Traps,
};
use crate::ops::{Kind, constraint, optional};
use crate::scalar;
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor};
use crate::value::Value;
use relax_syntax::annotation::Annotation;

/// A row whose result at an element is a function of that element alone, rounded once.
macro_rules! of_each_float {
    ($name:literal, $function:expr, $doc:expr) => {
        Operator {
            name: $name,
            aliases: &[],
            family: Family::Nn,
            doc: $doc,
            params: &[DATA],
            constraints: &[FLOAT_DATA],
            effect: Effect::Pure,
            traps: Traps::Never,
            infer: like_float_data,
            eval: Evaluate::Values(|eval| map_floats(eval, $function)),
        }
    };
}

pub(super) const GELU: Operator = of_each_float!(
    "nn.gelu",
    scalar::gelu,
    "Gaussian error linear unit, `x * (1 + erf(x / sqrt(2))) / 2`; NaN at minus infinity, as the \
     product says."
);

pub(super) const GELU_TANH: Operator = of_each_float!(
    "nn.gelu_tanh",
    scalar::gelu_tanh,
    "The approximation of the Gaussian error linear unit by a tanh: \
     `x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x**3))) / 2`; NaN at minus infinity."
);

pub(super) const SILU: Operator = of_each_float!(
    "nn.silu",
    scalar::silu,
    "Sigmoid linear unit, `x * sigmoid(x)`; NaN at minus infinity, as the product says."
);

pub(super) const SELU: Operator = of_each_float!(
    "nn.selu",
    selu,
    "Scaled exponential linear unit: `scale * x` for `x > 0`, else `scale * alpha * (exp(x) - 1)`, \
     with scale = 1.0507009873554805 and alpha = 1.6732632423543772."
);

pub(super) const RELU: Operator = Operator {
    name: "nn.relu",
    aliases: &[],
    family: Family::Nn,
    doc: "Rectified linear unit, `max(x, 0)`, of any dtype; NaN stays NaN, as in NumPy, and -0.0 \
          becomes 0.0.",
    params: &[DATA],
    constraints: &[],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: |infer| Ok(Annotation::Tensor(infer.tensor("data")?)),
    eval: Evaluate::Values(relu),
};

pub(super) const LEAKY_RELU: Operator = Operator {
    name: "nn.leakyrelu",
    aliases: &[],
    family: Family::Nn,
    doc: "Leaky rectified linear unit: `x` for `x > 0`, else `alpha * x`, with alpha as an f64.",
    params: &[DATA, optional("alpha", Kind::Float, Literal::Float(0.01))],
    constraints: &[FLOAT_DATA],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: |infer| {
        infer.float("alpha")?;
        like_float_data(infer)
    },
    eval: Evaluate::Values(|eval| {
        let alpha = eval.float("alpha");
        map_floats(eval, |x| if x > 0.0 { x } else { alpha * x })
    }),
};

const POSITIVE_BETA: Constraint = constraint("C2", "beta is a positive finite number");

pub(super) const SOFTPLUS: Operator = Operator {
    name: "nn.softplus",
    aliases: &[],
    family: Family::Nn,
    doc: "`log(1 + exp(beta * x)) / beta`, computed without overflow; where `beta * x > threshold` \
          it is `x` itself.",
    params: &[
        DATA,
        optional("beta", Kind::Float, Literal::Float(1.0)),
        optional("threshold", Kind::Float, Literal::Float(20.0)),
    ],
    constraints: &[FLOAT_DATA, POSITIVE_BETA],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_softplus,
    eval: Evaluate::Values(|eval| {
        let (beta, threshold) = (eval.float("beta"), eval.float("threshold"));
        map_floats(eval, |x| {
            let scaled = beta * x;
            if scaled > threshold { x } else { scalar::softplus(scaled) / beta }
        })
    }),
};

fn infer_softplus(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.float("threshold")?;
    let beta = infer.float("beta")?;
    if !(beta > 0.0 && beta.is_finite()) {
        return Err(infer.reject("C2", format!("`beta` must be positive, found {beta:?}")));
    }
    like_float_data(infer)
}

fn map_floats(eval: &Eval, function: impl Fn(f64) -> f64) -> Result<Value, Stop> {
    let data = eval.tensor("data")?;
    eval.floats(data.dtype(), data.to_floats().mapv_into(function))
}

fn relu(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor("data")?;
    let result = match data.elements() {
        Elements::Float(values) => Elements::Float(values.mapv_into(|x| scalar::maximum(x, 0.0))),
        Elements::Int(values) => Elements::Int(values.mapv_into(|x| x.max(0))),
    };
    Ok(Value::Tensor(Tensor::from_elements(data.dtype(), result)))
}

/// The constants of Klambauer et al. 2017, rounded to f64.
fn selu(x: f64) -> f64 {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    if x > 0.0 { SCALE * x } else { SCALE * ALPHA * scalar::expm1(x) }
}
