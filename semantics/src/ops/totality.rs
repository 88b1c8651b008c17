//! Which rows may stop a program for what elements are. Rows count as partial until they are listed.

use super::{Family, Operator};

/// Families whose rows give a value for any elements, once their constraints hold; but for rows that passes name.
pub const TOTAL_FAMILIES: &[Family] = &[
    Family::Unary,
    Family::Binary,
    Family::Ternary,
    Family::Creation,
    Family::DType,
    Family::Movement,
    Family::LinearAlgebra,
    Family::Reduction,
    Family::Nn,
    Family::Convolution,
    Family::Attention,
    Family::Shapes,
];

/// Rows of these families that look at elements to decide whether they have a value, of integers only.
pub const PARTIAL_ON_INTEGERS: &[&str] =
    &["divide", "floor_divide", "floor_mod", "mod", "power", "left_shift", "right_shift"];

impl Operator {
    /// Whether its family gives a value for any elements.
    #[must_use]
    pub fn is_of_total_family(&self) -> bool {
        TOTAL_FAMILIES.contains(&self.family)
    }

    /// Whether it may stop for what integers are, though not for floats.
    #[must_use]
    pub fn is_partial_on_integers(&self) -> bool {
        PARTIAL_ON_INTEGERS.contains(&self.name)
    }
}
