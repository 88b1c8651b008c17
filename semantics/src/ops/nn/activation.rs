//! Activation functions of one operand: each is a function of one element.

use super::{DATA, FLOAT_DATA, like_float_data};
use crate::formula::{Scalar, extremum, select};
use crate::ops::Programs;
use crate::ops::elementwise::{Element, Elementwise, Formula};
use crate::ops::{Constraint, Effect, Evaluate, Family, Infer, Kind, Literal, Operator, Param};
use crate::ops::{Reject, Traps, constraint, optional};
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// A function of floats that is computed in f64 and rounded once.
const fn floats(
    name: &'static str,
    params: &'static [Param],
    formula: Formula,
    doc: &'static str,
) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Nn,
        doc,
        params,
        constraints: &[FLOAT_DATA],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: like_float_data,
        program: Programs::Formula,
        eval: Evaluate::Elementwise(Elementwise::of(formula)),
    }
}

pub(super) const GELU: Operator = floats(
    "nn.gelu",
    &[DATA],
    // For negative `x` by `erfc`: the sum would cancel.
    |e| {
        e.wide(|x| {
            let tail = (-x.clone() * FRAC_1_SQRT_2).call(Intrinsic::Erfc);
            x.clone() * (Scalar::from(0.5) * tail)
        })
    },
    "Gaussian error linear unit, `x * (1 + erf(x / sqrt(2))) / 2`; NaN at minus infinity, as the \
     product says.",
);

pub(super) const GELU_TANH: Operator = floats(
    "nn.gelu_tanh",
    &[DATA],
    // As `(1 + tanh(z)) / 2` is `sigmoid(2z)`, nothing cancels.
    |e| {
        e.wide(|x| {
            let cubic = Scalar::from(0.044715) * x * x * x;
            let inner = Scalar::from(FRAC_2_PI.sqrt()) * (x.clone() + cubic);
            x.clone() * (Scalar::from(2.0) * inner).call(Intrinsic::Sigmoid)
        })
    },
    "The approximation of the Gaussian error linear unit by a tanh: \
     `x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x**3))) / 2`; NaN at minus infinity.",
);

pub(super) const SILU: Operator = floats(
    "nn.silu",
    &[DATA],
    |e| e.wide(|x| x.clone() * x.clone().call(Intrinsic::Sigmoid)),
    "Sigmoid linear unit, `x * sigmoid(x)`; NaN at minus infinity, as the product says.",
);

pub(super) const SELU: Operator = floats(
    "nn.selu",
    &[DATA],
    |e| e.wide(selu),
    "Scaled exponential linear unit: `scale * x` for `x > 0`, else `scale * alpha * (exp(x) - 1)`, \
     with scale = 1.0507009873554805 and alpha = 1.6732632423543772.",
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
    program: Programs::Formula,
    eval: Evaluate::Elementwise(Elementwise::of(relu)),
};

pub(super) const LEAKY_RELU: Operator = Operator {
    infer: |infer| {
        infer.float("alpha")?;
        like_float_data(infer)
    },
    ..floats(
        "nn.leakyrelu",
        &[DATA, optional("alpha", Kind::Float, Literal::Float(0.01))],
        |e| {
            let slope = Scalar::from(e.float("alpha")?);
            e.wide(|x| select(x.greater(0.0), x, slope * x))
        },
        "Leaky rectified linear unit: `x` for `x > 0`, else `alpha * x`, with alpha as an f64.",
    )
};

const POSITIVE_BETA: Constraint = constraint("C2", "beta is a positive finite number");

pub(super) const SOFTPLUS: Operator = Operator {
    constraints: &[FLOAT_DATA, POSITIVE_BETA],
    infer: infer_softplus,
    ..floats(
        "nn.softplus",
        &[
            DATA,
            optional("beta", Kind::Float, Literal::Float(1.0)),
            optional("threshold", Kind::Float, Literal::Float(20.0)),
        ],
        |e| {
            let (beta, threshold) = (e.float("beta")?, e.float("threshold")?);
            e.wide(|x| {
                let scaled = Scalar::from(beta) * x;
                let beyond = (-scaled.clone().abs()).exp().call(Intrinsic::Log1p);
                let soft = extremum(BinOp::Max, DType::F64, &scaled, &0.0.into()) + beyond;
                select(scaled.greater(threshold), x, soft / beta)
            })
        },
        "`log(1 + exp(beta * x)) / beta`, computed without overflow; where `beta * x > threshold` \
         it is `x` itself.",
    )
};

fn infer_softplus(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.float("threshold")?;
    let beta = infer.float("beta")?;
    if !(beta > 0.0 && beta.is_finite()) {
        return Err(infer.reject("C2", format!("`beta` must be positive, found {beta:?}")));
    }
    like_float_data(infer)
}

/// The first of equals is the greatest: so -0.0 becomes 0.0.
fn relu(e: &Element) -> Option<Scalar> {
    Some(if e.dtype == DType::Bool { e.x() } else { e.zero().max(e.x()) })
}

/// The constants of Klambauer et al. 2017, rounded to f64.
fn selu(x: &Scalar) -> Scalar {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    let negative = Scalar::from(SCALE * ALPHA) * x.clone().call(Intrinsic::Expm1);
    select(x.greater(0.0), Scalar::from(SCALE) * x, negative)
}
