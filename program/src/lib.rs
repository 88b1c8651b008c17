//! Floor 2: programs and their values. The front end in one call, external constants, tensor files, values as text
//! and at random, and comparison of results.

pub mod compare;
pub mod externals;
pub mod frontend;
pub mod mlir;
pub mod printed;
pub mod reals;
pub mod replay;
pub mod rounding;
pub mod signature;
pub mod spec;
pub mod tensor_files;
pub mod well_formed_part;
