//! Floor 2: tensor programs as values. Analyses answer one question each ([`analysis`], [`kernel_kind`],
//! [`launches`], [`products`]); rewrites take a program to one of the same meaning ([`barrier_fission`],
//! [`renumber`], [`named_blocks`]). Passes and printers share them; nothing here knows a pass, a printer or a
//! device, and dims are asked of the port `Facts`.
//!
//! Walks over statements, index ranges and the traps of expressions are in `relax_semantics::tir`, where the
//! checker of compilations reaches them too.

pub mod analysis;
pub mod barrier_fission;
pub mod barriers;
pub mod dims;
pub mod guards;
pub mod index_bounds;
pub mod kernel_kind;
pub mod launches;
pub mod named_blocks;
pub mod products;
pub mod quantized;
pub mod renumber;
pub mod store_forwarding;
#[cfg(test)]
mod test_program;
pub mod unique_bindings;
pub mod warps;
pub mod work;
pub mod workspaces;

mod live_across_barriers;
mod mixed_radix;
