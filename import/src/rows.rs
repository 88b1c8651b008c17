//! Tables of what is imported: by family, a row for each name.

/// Rows by name, of one family.
pub(crate) type Table<R> = &'static [(&'static str, R)];

/// The row of a name.
pub(crate) fn find<R: Copy>(families: &[Table<R>], name: &str) -> Option<R> {
    let mut rows = families.iter().flat_map(|family| family.iter());
    rows.find(|(own, _)| *own == name).map(|(_, row)| *row)
}

/// All names, in order.
pub(crate) fn names<R>(families: &[Table<R>]) -> Vec<&'static str> {
    let names = families.iter().flat_map(|family| family.iter().map(|(name, _)| *name));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}
