//! Messages of traps in kernels: words with `{}` for each value, and the values as C expressions.

/// Values of a message at most: `RX_NOTES`.
const MOST: usize = 8;

/// Words of a trap.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    words: String,
    /// Of `int64_t`, without effects.
    values: Vec<String>,
}

impl Message {
    /// Words with `{}` for each of these values.
    pub(crate) fn with(words: impl Into<String>, values: Vec<String>) -> Self {
        let words = words.into();
        debug_assert_eq!(words.matches("{}").count(), values.len(), "{words}");
        Self { words, values }
    }

    /// The words where values are not known when the kernel stops.
    pub(crate) fn without_values(&self) -> String {
        self.words.replace("{}", "…")
    }

    /// The words and how many values they have; and C that notes these.
    pub(crate) fn noted(&self) -> (String, u32, String) {
        let Self { words, values } = self;
        if values.is_empty() || values.len() > MOST {
            return (self.without_values(), 0, String::new());
        }
        let count = values.len();
        let list: Vec<String> = values.iter().map(|value| format!("(int64_t)({value})")).collect();
        let list = list.join(", ");
        let note = format!("rx_note({count}, {list}); ");
        (words.clone(), u32::try_from(count).unwrap_or(0), note)
    }
}

impl From<String> for Message {
    fn from(words: String) -> Self {
        Self { words, values: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_noted() {
        let values = vec!["n".to_owned(), "i + 1".to_owned()];
        let message = Message::with("less than {}, found {}", values);
        assert_eq!(message.without_values(), "less than …, found …");
        let (words, count, note) = message.noted();
        assert_eq!((words.as_str(), count), ("less than {}, found {}", 2));
        assert_eq!(note, "rx_note(2, (int64_t)(n), (int64_t)(i + 1)); ");
    }

    #[test]
    fn too_many_values_are_left_out() {
        let message = Message::with("{}".repeat(9), vec!["n".to_owned(); 9]);
        assert_eq!(message.noted(), ("…".repeat(9), 0, String::new()));
    }
}
