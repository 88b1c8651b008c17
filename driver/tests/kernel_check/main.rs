//! The kernel check: no false alarms on the corpus, a known miscompilation, and planted mistakes.

mod corpus;
mod generated;
mod known_pad;
mod planted;
mod processors;
#[path = "../../../backends/cpu/tests/kernels/programs.rs"]
mod programs;
mod schedules;
