//! How products of matrices are cut (Vortex, sections 4 and 5): tiles of registers, blocks of caches, parts for cores.
//! What a processor has and what was measured on it come in as data ([`Table`]); candidates are filtered by it,
//! and a cost model chooses. The C text gets the numbers of the plan, and computes the last choice for each extent.

mod candidates;
mod hardware;
mod model;
mod table;
mod text;

pub use candidates::{Blocks, Tile, filter_by_isa, filter_by_multiples};
pub use hardware::{Hardware, Isa};
pub use model::{Choice, Plan, Right};
pub use table::{Measured, Table, Times};
pub use text::level0_text;
pub(crate) use text::plan_text;
