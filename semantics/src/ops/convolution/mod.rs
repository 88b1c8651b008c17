//! Convolution and pooling, in one and two spatial dims.
//!
//! All of them look at the data through windows. `layout` says where batch, channels and space lie,
//! `window` how windows move and how many there are, `taps` which element a window sees where.

mod adaptive;
mod conv;
mod layout;
mod pool;
mod taps;
mod window;

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[
    conv::CONV1D,
    conv::CONV2D,
    conv::CONV1D_TRANSPOSE,
    conv::CONV2D_TRANSPOSE,
    pool::MAX_POOL1D,
    pool::MAX_POOL2D,
    pool::AVG_POOL1D,
    pool::AVG_POOL2D,
    adaptive::ADAPTIVE_AVG_POOL2D,
];
