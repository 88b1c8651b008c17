//! Values for the message of a check that failed in a kernel: the kernel notes them in an array of its thread before it
//! stops, `relax_notes` of the shared object.
#![allow(unsafe_code)]

/// `RX_NOTES`: values of a thread.
pub(crate) const MOST: usize = 8;

/// What a thread noted last; what was not noted is anything.
pub(crate) type Noted = [i64; MOST];

/// `relax_notes`: the array of the calling thread.
type Array = unsafe extern "C" fn() -> *mut i64;

/// The notes of the kernels of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes(Option<Array>);

impl Notes {
    /// Of kernels that note nothing.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self(None);

    /// Of kernels whose threads note in these arrays.
    #[cfg(test)]
    pub(crate) const fn in_arrays(array: unsafe extern "C" fn() -> *mut i64) -> Self {
        Self(Some(array))
    }

    /// Of a loaded object.
    pub(crate) fn of(library: &libloading::Library) -> Self {
        // SAFETY: the symbol has this type in every object that `relax build` makes; the function is called only while
        // the library is loaded, as kernels are.
        let found = unsafe { library.get::<Array>(b"relax_notes") };
        Self(found.ok().map(|array| *array))
    }

    /// What the calling thread noted; `None` of kernels that note nothing.
    pub(crate) fn of_thread(self) -> Option<Noted> {
        let array = self.0?;
        // SAFETY: the array has `MOST` elements, which this thread alone uses, and the library is loaded.
        Some(unsafe { array().cast::<Noted>().read() })
    }

    /// As if the calling thread had noted it.
    pub(crate) fn set(self, noted: Noted) {
        if let Some(array) = self.0 {
            // SAFETY: as above.
            unsafe { array().cast::<Noted>().write(noted) }
        }
    }
}

/// The words with these values, one for each `{}`; `…` for values that are not known.
#[cold]
pub(crate) fn filled(words: &str, values: Option<&[i64]>) -> String {
    let mut values = values.unwrap_or_default().iter();
    let mut parts = words.split("{}");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match values.next() {
            Some(value) => text.push_str(&value.to_string()),
            None => text.push('…'),
        }
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn words_have_values() {
        assert_eq!(filled("less than {}, found {}", Some(&[4, -7])), "less than 4, found -7");
        assert_eq!(filled("less than {}, found {}", Some(&[4])), "less than 4, found …");
        assert_eq!(filled("{} is {}", None), "… is …");
        assert_eq!(filled("no value", Some(&[4])), "no value");
    }
}
