//! Bodies of `multipart/form-data`, as clients send files (RFC 7578). A body is in memory, within the limit of the server.

/// Parts of a body, and bytes of the headers of one.
const MOST_PARTS: usize = 64;
const LONGEST_HEADERS: usize = 4096;

/// A field of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'b> {
    pub(super) name: String,
    pub(super) bytes: &'b [u8],
}

/// What separates the parts, by the content type of the body; `None` for another type.
pub(super) fn boundary(content_type: &str) -> Option<String> {
    let mut parameters = parameters(content_type);
    let (kind, _) = parameters.next()?;
    let boundary = parameters.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?.1;
    let fits =
        kind.eq_ignore_ascii_case("multipart/form-data") && (1..=70).contains(&boundary.len());
    fits.then_some(boundary)
}

/// Its parts in order.
pub(super) fn parts<'b>(body: &'b [u8], boundary: &str) -> Result<Vec<Part<'b>>, String> {
    let delimiter = format!("\r\n--{boundary}");
    let first = &delimiter.as_bytes()[2..];
    let mut rest = match body.strip_prefix(first) {
        Some(rest) => rest,
        None => split(body, delimiter.as_bytes()).ok_or("it has no boundary")?.1,
    };
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        if parts.len() == MOST_PARTS {
            return Err(format!("it has more than {MOST_PARTS} parts"));
        }
        let begun = rest.strip_prefix(b"\r\n").ok_or("a line of a boundary goes on")?;
        let head = &begun[..begun.len().min(LONGEST_HEADERS)];
        let (head, _) = split(head, b"\r\n\r\n").ok_or("the headers of a part do not end")?;
        let content = &begun[head.len() + 4..];
        let (bytes, after) = split(content, delimiter.as_bytes()).ok_or("it ends within a part")?;
        let head = std::str::from_utf8(head).map_err(|_| "the headers of a part are not UTF-8")?;
        let name = name(head).ok_or("a part has no name")?;
        parts.push(Part { name, bytes });
        rest = after;
    }
}

/// The name in `content-disposition`.
fn name(head: &str) -> Option<String> {
    let values = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let mut values =
        values.filter(|(header, _)| header.eq_ignore_ascii_case("content-disposition"));
    let mut parameters = parameters(values.next()?.1);
    let is_field = parameters.next()?.0.eq_ignore_ascii_case("form-data");
    let name = parameters.find(|(name, _)| name.eq_ignore_ascii_case("name"))?.1;
    is_field.then_some(name)
}

/// The value of a header, and its parameters, quoted or not.
fn parameters(value: &str) -> impl Iterator<Item = (&str, String)> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let parts = value.split(move |letter| {
        let ends = letter == ';' && !is_quoted;
        if letter == '"' && !is_escaped {
            is_quoted = !is_quoted;
        }
        is_escaped = letter == '\\' && is_quoted && !is_escaped;
        ends
    });
    parts.map(|part| {
        let (name, value) = part.trim().split_once('=').unwrap_or((part.trim(), ""));
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        (name.trim(), quoted.unwrap_or(value).replace("\\\"", "\""))
    })
}

/// What is before and behind the first such bytes.
fn split<'b>(bytes: &'b [u8], at: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let start = bytes.windows(at.len()).position(|window| window == at)?;
    Some((&bytes[..start], &bytes[start + at.len()..]))
}

#[cfg(test)]
mod tests {
    use super::{Part, boundary, parts};

    #[test]
    fn parts_are_read_by_name() {
        assert_eq!(boundary("multipart/form-data; boundary=ab"), Some("ab".to_owned()));
        assert_eq!(
            boundary("Multipart/Form-Data; charset=x; Boundary=\"a;b\""),
            Some("a;b".to_owned())
        );
        for other in [
            "application/json",
            "multipart/form-data",
            "multipart/mixed; boundary=a",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(boundary(other), None, "{other}");
        }
        let body = b"--ab\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a;name=b.wav\"\r\nContent-Type: audio/wav\r\n\r\n\r\n--a\0\r\n--ab\r\ncontent-disposition: form-data; name=model\r\n\r\n\r\n--ab--\r\n";
        let part = |name: &str, bytes| Part { name: name.to_owned(), bytes };
        let want = vec![part("file", b"\r\n--a\0".as_slice()), part("model", b"")];
        assert_eq!(parts(body, "ab"), Ok(want));
        assert_eq!(parts(b"preamble\r\n--ab--", "ab"), Ok(Vec::new()));
    }

    #[test]
    fn bodies_that_are_no_forms_are_refused() {
        let form = |head: &str| format!("--ab\r\n{head}\r\n\r\nx\r\n--ab--");
        for (body, words) in [
            (String::new(), "no boundary"),
            ("--a\r\n".to_owned(), "no boundary"),
            ("--abc\r\n".to_owned(), "goes on"),
            ("--ab\r\na: b\r\n".to_owned(), "headers of a part do not end"),
            ("--ab\r\na: b\r\n\r\nx".to_owned(), "within a part"),
            (form("a: b"), "no name"),
            (form("content-disposition: form-data; filename=\"name\""), "no name"),
            (form(&format!("a: {}", "b".repeat(5000))), "do not end"),
        ] {
            let said = parts(body.as_bytes(), "ab").expect_err(&body);
            assert!(said.contains(words), "{body}: {said}");
        }
        let part = "\r\ncontent-disposition: form-data; name=a\r\n\r\nx\r\n--ab";
        let many = |count: usize| format!("--ab{}--", part.repeat(count));
        assert_eq!(parts(many(64).as_bytes(), "ab").map(|parts| parts.len()), Ok(64));
        assert!(parts(many(65).as_bytes(), "ab").expect_err("many").contains("64 parts"));
    }
}
