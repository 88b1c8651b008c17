//! The table `[mixed]`: products in 16 bits, with a loss that is scaled so that small gradients are not rounded to 0.

use super::fields::{COUNT, ConfigError, Fields, Kind, Placed, Settings};
use relax_syntax::dtype::DType;
use toml_edit::Value;

/// Training in mixed precision (Micikevicius et al. 2018).
#[derive(Clone, Debug)]
pub struct MixedConfig {
    /// Of the operands of products: f16 or bf16.
    pub dtype: Placed<DType>,
    /// What the loss is multiplied by.
    pub scale: LossScale,
}

/// What the loss is multiplied by before gradients are formed, and gradients are divided by after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossScale {
    /// Always the same.
    Constant(f32),
    /// By the rules of `torch.amp.GradScaler`.
    Dynamic(DynamicScale),
}

/// A scale that shrinks when gradients overflow, and grows after enough steps in which they do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicScale {
    /// Of the first step.
    pub init: f32,
    /// By which it is multiplied after so many steps without overflow in a row.
    pub growth: f32,
    /// By which it is multiplied after an overflow.
    pub backoff: f32,
    /// Steps without overflow before it grows.
    pub interval: u64,
}

const DTYPE: Kind<DType> = Kind("`f16` or `bf16`", |value| match value.as_str()? {
    "f16" => Some(DType::F16),
    "bf16" => Some(DType::BF16),
    _ => None,
});

/// How `loss_scale` is written.
#[derive(Clone, Copy, Debug)]
enum Given {
    Dynamic,
    Constant(f32),
}

const SCALE: Kind<Given> =
    Kind("`dynamic`, or a number from 1.1754944e-38 to 3.4028235e38", |value| {
        match value.as_str() {
            Some(text) => (text == "dynamic").then_some(Given::Dynamic),
            None => single(value).map(Given::Constant),
        }
    });

const INIT: Kind<f32> = Kind("a number from 1.1754944e-38 to 3.4028235e38", single);

const GROWTH: Kind<f32> =
    Kind("a number above 1", |value| single(value).filter(|factor| *factor > 1.0));

const BACKOFF: Kind<f32> =
    Kind("a number between 0 and 1", |value| single(value).filter(|factor| *factor < 1.0));

/// A positive normal number of f32, rounded once.
#[allow(clippy::cast_possible_truncation)]
fn single(value: &Value) -> Option<f32> {
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64))?;
    Some(number as f32).filter(|single| single.is_normal() && *single > 0.0)
}

/// None without the table.
pub(super) fn mixed(
    fields: &mut Fields<'_>,
) -> Result<(Option<MixedConfig>, Settings), ConfigError> {
    let Some((table, span)) = fields.table("mixed")? else { return Ok((None, Settings::new())) };
    let mut fields = Fields::new(table, "mixed", span);
    let dtype = fields.required("dtype", &DTYPE)?;
    // bf16 has the exponents of f32: nothing that f32 holds is rounded to 0.
    let default = if dtype.value == DType::F16 { Given::Dynamic } else { Given::Constant(1.0) };
    let scale = match fields.or("loss_scale", &SCALE, default)? {
        Given::Dynamic => LossScale::Dynamic(DynamicScale {
            init: fields.or("init_scale", &INIT, 65536.0)?,
            growth: fields.or("growth_factor", &GROWTH, 2.0)?,
            backoff: fields.or("backoff_factor", &BACKOFF, 0.5)?,
            interval: fields.or("growth_interval", &COUNT, 2000)?,
        }),
        Given::Constant(scale) => {
            refuse_dynamic(&mut fields)?;
            LossScale::Constant(scale)
        }
    };
    Ok((Some(MixedConfig { dtype, scale }), fields.finish()?))
}

/// Keys of a dynamic scale beside a constant one.
fn refuse_dynamic(fields: &mut Fields<'_>) -> Result<(), ConfigError> {
    let spans = [
        ("init_scale", fields.optional("init_scale", &INIT)?.map(|found| found.span)),
        ("growth_factor", fields.optional("growth_factor", &GROWTH)?.map(|found| found.span)),
        ("backoff_factor", fields.optional("backoff_factor", &BACKOFF)?.map(|found| found.span)),
        ("growth_interval", fields.optional("growth_interval", &COUNT)?.map(|found| found.span)),
    ];
    match spans.into_iter().find_map(|(key, span)| span.map(|span| (key, span))) {
        None => Ok(()),
        Some((key, span)) => {
            let message = format!("`mixed.{key}` needs `loss_scale = \"dynamic\"`");
            Err(ConfigError::new(span, message))
        }
    }
}
