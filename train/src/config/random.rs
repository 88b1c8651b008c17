//! The table `[random]`: which parameter gets the state of random bits.

use super::fields::{ConfigError, Fields, Placed, Settings, TEXT};
use super::name;
use relax_syntax::Name;

/// Which parameter gets the state of random bits.
#[derive(Clone, Debug)]
pub struct RandomConfig {
    /// Its name in the program.
    pub parameter: Placed<Name>,
}

/// None without the table.
pub(super) fn random(
    fields: &mut Fields<'_>,
) -> Result<(Option<RandomConfig>, Settings), ConfigError> {
    let Some((table, span)) = fields.table("random")? else { return Ok((None, Settings::new())) };
    let mut fields = Fields::new(table, "random", span);
    let parameter = name(fields.required("parameter", &TEXT)?);
    Ok((Some(RandomConfig { parameter }), fields.finish()?))
}
