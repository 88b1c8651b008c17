//! From the syntax tree to the IR: names get their meaning, nested calls are flattened into A-normal
//! form, `param`, `const` and annotations become what they are.
//!
//! The way back is `raise`: IR → syntax tree, total, and the inverse of this on normal forms.

pub mod annotation;
pub mod codes;
pub mod dim;
