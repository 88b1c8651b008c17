//! The lists of rows agree with the operator table.

use super::BY_ELEMENTS;
use relax_semantics::ops::{PARTIAL_ON_INTEGERS, all, lookup};

#[test]
fn rows_that_are_named_exist() {
    for name in BY_ELEMENTS.iter().chain(PARTIAL_ON_INTEGERS) {
        let row = lookup(name).unwrap_or_else(|| panic!("there is no `{name}`"));
        assert_eq!(row.name, *name);
        assert!(row.is_of_total_family(), "`{name}` need not be named");
    }
}

/// A constraint that speaks of elements is decided by them.
#[test]
fn rows_with_constraints_on_elements_are_named() {
    for row in all().filter(|row| row.is_of_total_family()) {
        let on_elements = row.constraints.iter().any(|constraint| {
            ["element of", "no element", "every element", "every index", "a target is"]
                .iter()
                .any(|words| constraint.text.contains(words))
        });
        let named = BY_ELEMENTS.contains(&row.name) || row.is_partial_on_integers();
        assert!(!on_elements || named, "`{}` decides by elements: name it", row.name);
    }
}
