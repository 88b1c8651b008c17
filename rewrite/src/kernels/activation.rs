//! Activation functions: of one element, computed in f64 and rounded once, as operators do.

use super::Request;
use super::builder::Builder;
use super::elementwise::map;
use super::movement::stretched;
use super::scalar::{Scalar, extremum, select};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// Functions of one element.
pub(super) static NAMES: &[&str] =
    &["nn.relu", "nn.leakyrelu", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.selu", "nn.softplus"];

/// A function of [`NAMES`].
pub(super) fn activation(request: &Request) -> Option<Builder> {
    let dtype = request.data()?.dtype;
    if request.row.name == "nn.relu" {
        return map(request, |x| Some(relu(dtype, &x[0])));
    }
    map(request, |x| {
        let x = x[0].clone().cast(dtype, DType::F64);
        Some(of_wide(request, x)?.cast(DType::F64, dtype))
    })
}

fn relu(dtype: DType, x: &Scalar) -> Scalar {
    match dtype {
        DType::Bool => x.clone(),
        // The first of equals: so -0.0 becomes 0.0.
        _ if dtype.is_float() => Scalar::from(0.0).max(x),
        _ => Scalar::from(0).max(x),
    }
}

fn of_wide(request: &Request, x: Scalar) -> Option<Scalar> {
    Some(match request.row.name {
        "nn.leakyrelu" => leaky(&x, request.float("alpha")?.into()),
        "nn.gelu" => {
            let tail = (-x.clone() * FRAC_1_SQRT_2).call(Intrinsic::Erfc);
            x * (Scalar::from(0.5) * tail)
        }
        "nn.gelu_tanh" => {
            let cubic = Scalar::from(0.044715) * &x * &x * &x;
            let inner = Scalar::from(FRAC_2_PI.sqrt()) * (x.clone() + cubic);
            x * (Scalar::from(2.0) * inner).call(Intrinsic::Sigmoid)
        }
        "nn.silu" => x.clone() * x.call(Intrinsic::Sigmoid),
        "nn.selu" => selu(&x),
        "nn.softplus" => softplus(&x, request.float("beta")?, request.float("threshold")?),
        _ => return None,
    })
}

fn leaky(x: &Scalar, slope: Scalar) -> Scalar {
    select(x.greater(0.0), x, slope * x)
}

/// The constants of Klambauer et al. 2017, rounded to f64.
fn selu(x: &Scalar) -> Scalar {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    let negative = Scalar::from(SCALE * ALPHA) * x.clone().call(Intrinsic::Expm1);
    select(x.greater(0.0), Scalar::from(SCALE) * x, negative)
}

fn softplus(x: &Scalar, beta: f64, threshold: f64) -> Scalar {
    let scaled = Scalar::from(beta) * x;
    let beyond = (-scaled.clone().abs()).exp().call(Intrinsic::Log1p);
    let zero = Scalar::from(0.0);
    let soft = extremum(BinOp::Max, DType::F64, &scaled, &zero) + beyond;
    select(scaled.greater(threshold), x, soft / beta)
}

/// `prelu(data, alpha, axis)`
pub(super) fn prelu(request: &Request) -> Option<Builder> {
    let axis = request.axis("axis", request.data()?.rank())?;
    let mut builder = Builder::new(request);
    let (data, alpha) = (builder.input("data")?, builder.input("alpha")?);
    let output = builder.output();
    let channels = &data.dims[axis];
    builder.fill(&output, |at| {
        let slope = alpha.wide(&[stretched(&alpha.dims[0], channels, &at[axis])]);
        leaky(&data.wide(at), slope).cast(DType::F64, data.dtype)
    });
    Some(builder)
}
