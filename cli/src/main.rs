//! The `relax` command.

fn main() {}
