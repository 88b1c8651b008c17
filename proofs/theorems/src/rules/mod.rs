//! Rewrite rules: theorems on tensors of all shapes, as text in `proofs/theorems/rules/`.
//!
//! A family is a file of [`rule`]s. Loading resolves every operator and attribute by the table;
//! [`proof`] proves that both sides have the same annotation, stop alike and have equal elements;
//! [`numeric`] evaluates them; [`mutants`] are false neighbours that must have no proof. `rules.lock`
//! keeps what was proved of which text; only what is proved may be used without being asked for.

mod annotate;
mod counterexample;
mod expression;
pub(crate) mod instance;
mod judge;
mod lock;
mod mutants;
mod numeric;
mod proof;
pub mod rule;
mod text;
pub mod yardstick;

pub use counterexample::Counterexample;
pub use judge::{Refusal, Verdict, judge};
pub use lock::{Entry as LockEntry, lock_text, locked, status_of};
pub use mutants::mutants;
pub use numeric::{Comparison, evaluate};
pub use proof::{Status, prove, prove_within};
pub use rule::{Direction, Kind, Rule};
pub use text::read_rules;

/// The family of rules about products of matrices.
pub const PRODUCTS: &str = "matmul";

/// The text of every family, by name.
pub static FAMILIES: &[(&str, &str)] = &[
    ("elementwise", include_str!("../../rules/elementwise.rx")),
    ("integers", include_str!("../../rules/integers.rx")),
    ("reals", include_str!("../../rules/reals.rx")),
    ("logic", include_str!("../../rules/logic.rx")),
    ("cast", include_str!("../../rules/cast.rx")),
    ("movement", include_str!("../../rules/movement.rx")),
    ("lift", include_str!("../../rules/lift.rx")),
    ("pieces", include_str!("../../rules/pieces.rx")),
    (PRODUCTS, include_str!("../../rules/matmul.rx")),
    ("reduction", include_str!("../../rules/reduction.rx")),
    ("normalization", include_str!("../../rules/normalization.rx")),
    ("indexing", include_str!("../../rules/indexing.rx")),
    ("convolution", include_str!("../../rules/convolution.rx")),
    ("dynamic", include_str!("../../rules/dynamic.rx")),
    ("classic", include_str!("../../rules/classic.rx")),
];

/// Every rule, in the order of the files.
///
/// # Panics
/// When a rule file that is part of this program is wrong; a test reads them all.
#[must_use]
pub fn all() -> Vec<Rule> {
    let read = FAMILIES.iter().flat_map(|(family, text)| match read_rules(family, text) {
        Ok(rules) => rules,
        Err(wrong) => panic!("invariant: the rules are well-formed: {}", wrong.join("\n")),
    });
    read.collect()
}
