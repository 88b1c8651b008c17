//! The checker against certificates: right ones for every rule of the specification, wrong
//! neighbours of each, random edits, forgeries, and bytes that are no certificates.

mod edits;
mod forgeries;
mod hostile;
mod reading;
mod rules;
mod samples;
mod steps;
