//! The virtual machine, its files and what embeds it, on programs that are written by hand: one executable, which is linked once.

mod demands;
mod embedding;
mod file;
mod held;
mod kinds;
mod programs;
mod programs_run;
mod references;
mod steps;
mod stops;
mod watched;
