//! Resizing.

use crate::node::Importer;

pub(super) const OPERATORS: &[(&str, Importer)] = &[];
