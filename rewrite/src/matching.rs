//! Patterns of operators, written as text, with the library functions that compute what they match
//! (paper §4.6): the language ([`text`]), where a pattern matches ([`find`]), and which patterns there
//! are ([`registry`]).
//!
//! ```text
//! cublas.matmul_bias = add(matmul(x, w), b) where rank(x) == 2, dim(x, 0) >= 2, dtype(x) is f16 or f32
//! ```

pub(crate) mod find;
pub(crate) mod registry;
pub(crate) mod text;
