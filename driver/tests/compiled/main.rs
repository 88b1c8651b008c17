//! Programs that other passes make, as machine code: gradients, and the local programs of distributed ones.

mod by_hand;
mod gradients;
mod ranks;
