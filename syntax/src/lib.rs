//! Floor 0: everything that text and IR share, and nothing that knows an operator.
//!
//! A module's life on this floor: text → [`ast`] (a small Python-like syntax tree, no meaning yet) →
//! [`ir`] (graph functions in A-normal form and tensor programs). The way back, IR → AST → text, is
//! total: whatever an IR holds prints, and what prints parses back to the same IR.

pub mod annotation;
pub mod ast;
pub mod codes;
pub mod diagnostic;
pub mod dim;
pub mod dtype;
pub mod facts;
pub mod foreign;
pub mod format;
pub mod hash;
pub mod ir;
mod lexer;
mod operators;
pub mod parse;
pub mod places;
pub mod print;
pub mod raise;
pub mod resolve;
pub mod span;
pub mod suggest;

/// A name as written: short ones are stored in place, so that cloning is cheap.
pub type Name = smol_str::SmolStr;
