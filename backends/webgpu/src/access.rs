//! Elements of buffers: where they lie, checks of their indices, and what stops a kernel.

use crate::dtypes::{self, loaded, to_store};
use crate::printer::{Place, Printer};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BufferId, TExpr};
use relax_tir::index_bounds::is_within;

impl Printer<'_, '_> {
    /// Notes that the kernel stops where a condition holds. It goes on: the host gives its results up.
    pub(crate) fn stop_if(&mut self, condition: &str) {
        self.sites += 1;
        let site = self.sites;
        self.line(&format!("if {condition} {{ rx_stop({site}u); }}"));
    }

    /// Checks the indices of an access, already evaluated, and gives the element's offset, 0 where there is none.
    pub(crate) fn element(
        &mut self,
        buffer: BufferId,
        indices: &[TExpr],
        mut values: Vec<String>,
    ) -> String {
        let shape = self.program.buffer(buffer).shape.clone();
        let extents: Vec<String> = shape.iter().map(|dim| self.extent(dim)).collect();
        let mut inside = Vec::new();
        for (axis, (index, extent)) in indices.iter().zip(&shape).enumerate() {
            if is_within(&self.ranges, self.facts, index, extent) {
                continue;
            }
            if !is_plain(&values[axis]) {
                values[axis] = self.temporary(&values[axis]);
            }
            let value = &values[axis];
            inside.push(format!("{value} >= 0i && {value} < {}", extents[axis]));
        }
        let at = offset(&values, &extents);
        if inside.is_empty() {
            return at;
        }
        let inside = self.temporary(&inside.join(" && "));
        self.stop_if(&format!("!{inside}"));
        self.temporary(&format!("select(0i, {at}, {inside})"))
    }

    /// The element at an offset, as a value.
    pub(crate) fn load(&mut self, buffer: BufferId, at: &str) -> String {
        if let Some(place) = self.written.get(&buffer).cloned() {
            let written = self.word_at(&place, at, DType::U32);
            self.stop_if(&format!("{written} == 0u"));
        }
        let dtype = self.program.buffer(buffer).dtype;
        let place = self.places[&buffer].clone();
        let element = self.word_at(&place, at, dtype);
        loaded(dtype, element, self.formats)
    }

    /// Writes a value to the element at an offset.
    pub(crate) fn write(&mut self, buffer: BufferId, at: &str, value: String) {
        let dtype = self.program.buffer(buffer).dtype;
        let value = to_store(dtype, value, self.formats);
        let place = self.places[&buffer].clone();
        self.write_at(&place, at, dtype, &value);
        if let Some(place) = self.written.get(&buffer).cloned() {
            self.write_at(&place, at, DType::U32, "1u");
        }
    }

    pub(crate) fn write_at(&mut self, place: &Place, at: &str, dtype: DType, value: &str) {
        match place {
            Place::Own(name) => self.line(&format!("{name}[{at}] = {value};")),
            Place::SharedElements(all, base) => {
                self.line(&format!("{all}[{base} + {at}] = {value};"));
            }
            Place::Shared(base) if dtypes::is_wide(dtype) => {
                let at = self.temporary(&format!("{base} + 2i * ({at})"));
                let value = self.temporary(value);
                self.line(&format!("shared_words[{at}] = {value}.x;"));
                self.line(&format!("shared_words[{at} + 1i] = {value}.y;"));
            }
            Place::Shared(base) => {
                let word = match dtypes::stored(dtype, self.formats) {
                    "u32" => value.to_owned(),
                    _ => format!("bitcast<u32>({value})"),
                };
                self.line(&format!("shared_words[{base} + {at}] = {word};"));
            }
        }
    }

    fn word_at(&mut self, place: &Place, at: &str, dtype: DType) -> String {
        match place {
            Place::Own(name) => format!("{name}[{at}]"),
            Place::SharedElements(all, base) => format!("{all}[{base} + {at}]"),
            Place::Shared(base) if dtypes::is_wide(dtype) => {
                let at = self.temporary(&format!("{base} + 2i * ({at})"));
                format!("vec2<u32>(shared_words[{at}], shared_words[{at} + 1i])")
            }
            Place::Shared(base) => match dtypes::stored(dtype, self.formats) {
                "u32" => format!("shared_words[{base} + {at}]"),
                of => format!("bitcast<{of}>(shared_words[{base} + {at}])"),
            },
        }
    }
}

/// How many elements a buffer has, where that is known.
pub(crate) fn constant_count(shape: &[Dim]) -> Option<i64> {
    shape.iter().try_fold(1_i64, |count, dim| {
        count.checked_mul(dim.as_int().filter(|extent| *extent >= 0)?)
    })
}

/// Whether an expression is one name or number.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// `(i * 4 + j) * n + k`, without what is 0.
fn offset(values: &[String], extents: &[String]) -> String {
    let mut text = "0i".to_owned();
    for (value, extent) in values.iter().zip(extents) {
        let before = match text.as_str() {
            "0i" => None,
            plain if is_plain(plain) => Some(format!("{text} * {extent}")),
            _ => Some(format!("({text}) * {extent}")),
        };
        text = match before {
            None => value.clone(),
            Some(before) if value == "0i" => before,
            Some(before) => format!("{before} + {value}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::offset;

    #[test]
    fn offsets_are_those_of_rows() {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let text = |values: &[&str], extents: &[&str]| offset(&owned(values), &owned(extents));
        assert_eq!(text(&["i", "j", "k"], &["m", "4i", "n"]), "(i * 4i + j) * n + k");
        assert_eq!(text(&["0i", "j", "0i"], &["m", "4i", "n"]), "j * n");
        assert_eq!(text(&[], &[]), "0i");
    }
}
