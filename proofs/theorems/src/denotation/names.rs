//! Names of functions that terms apply and several places know.

pub(crate) const ADD: &str = "add";
pub(crate) const SUBTRACT: &str = "subtract";
pub(crate) const NEGATIVE: &str = "negative";
pub(crate) const MULTIPLY: &str = "multiply";
pub(crate) const DIVIDE: &str = "divide";
pub(crate) const MAXIMUM: &str = "maximum";
pub(crate) const MINIMUM: &str = "minimum";
pub(crate) const ABS: &str = "abs";
pub(crate) const LOG: &str = "log";
pub(crate) const EXP: &str = "exp";
pub(crate) const LESS: &str = "less";
pub(crate) const LESS_EQUAL: &str = "less_equal";
pub(crate) const GREATER: &str = "greater";
pub(crate) const GREATER_EQUAL: &str = "greater_equal";
pub(crate) const EQUAL: &str = "equal";
pub(crate) const NOT_EQUAL: &str = "not_equal";
pub(crate) const LOGICAL_AND: &str = "logical_and";
pub(crate) const MOD: &str = "mod";
pub(crate) const FLOOR_MOD: &str = "floor_mod";
pub(crate) const FLOOR_DIVIDE: &str = "floor_divide";
pub(crate) const RIGHT_SHIFT: &str = "right_shift";
pub(crate) const BITWISE_AND: &str = "bitwise_and";
