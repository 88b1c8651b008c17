//! Tests of the interpreter on programs made by hand.
