//! What every C file begins with: the calling convention, and the operations that C lacks.

/// The parts, in order.
pub(crate) const TEXT: &[&str] = &[
    include_str!("prelude/abi.h"),
    "\n",
    include_str!("prelude/integers.h"),
    "\n",
    include_str!("prelude/rounding.h"),
    "\n",
    include_str!("prelude/floats.h"),
];
