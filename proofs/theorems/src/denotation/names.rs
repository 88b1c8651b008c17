//! Names of functions that terms apply and several places know.

pub(crate) const ADD: &str = "add";
pub(crate) const SUBTRACT: &str = "subtract";
pub(crate) const NEGATIVE: &str = "negative";
pub(crate) const MULTIPLY: &str = "multiply";
pub(crate) const DIVIDE: &str = "divide";
pub(crate) const MAXIMUM: &str = "maximum";
pub(crate) const MINIMUM: &str = "minimum";
