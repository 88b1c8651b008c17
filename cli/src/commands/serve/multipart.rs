//! Bodies of `multipart/form-data`, as clients send files (RFC 7578), by the reader that axum uses. A body is in memory, within the limit of the
//! server.

use axum::body::Bytes;
use futures_util::stream::once;
use multer::Multipart;
use std::convert::Infallible;
use std::future::ready;

/// Parts of a body.
const MOST_PARTS: usize = 64;

/// A field of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

/// What separates the parts, by the content type of the body; `None` for another type.
pub(super) fn boundary(content_type: &str) -> Option<String> {
    // RFC 2046 has 70 characters at most.
    multer::parse_boundary(content_type).ok().filter(|it| (1..=70).contains(&it.len()))
}

/// Its parts in order.
pub(super) async fn parts(body: Vec<u8>, boundary: String) -> Result<Vec<Part>, String> {
    let body = once(ready(Ok::<_, Infallible>(Bytes::from(body))));
    let mut form = Multipart::new(body, boundary);
    let mut parts = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|why| why.to_string())? {
        if parts.len() == MOST_PARTS {
            return Err(format!("it has more than {MOST_PARTS} parts"));
        }
        let name = field.name().ok_or("a part has no name")?.to_owned();
        let bytes = field.bytes().await.map_err(|why| why.to_string())?;
        parts.push(Part { name, bytes });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Part, boundary, parts};

    #[tokio::test]
    async fn parts_are_read_by_name() {
        assert_eq!(boundary("multipart/form-data; boundary=ab"), Some("ab".to_owned()));
        let quoted = "Multipart/Form-Data; charset=x; Boundary=\"a;b\"";
        assert_eq!(boundary(quoted), Some("a;b".to_owned()));
        for other in [
            "application/json",
            "multipart/form-data",
            "multipart/mixed; boundary=a",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(boundary(other), None, "{other}");
        }
        let body = b"--ab\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a;name=b.wav\"\r\nContent-Type: audio/wav\r\n\r\n\r\n--a\0\r\n--ab\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n\r\n--ab--\r\n";
        let part = |name: &str, bytes| Part { name: name.to_owned(), bytes };
        let want = vec![
            part("file", Bytes::from_static(b"\r\n--a\0")),
            part("model", Bytes::from_static(b"")),
        ];
        assert_eq!(parts(body.to_vec(), "ab".to_owned()).await, Ok(want));
    }

    #[tokio::test]
    async fn bodies_that_are_no_forms_are_refused() {
        let form = |head: &str| format!("--ab\r\n{head}\r\n\r\nx\r\n--ab--");
        for body in [
            String::new(),
            "--a\r\n".to_owned(),
            "--abc\r\n".to_owned(),
            "--ab\r\na: b\r\n".to_owned(),
            "--ab\r\na: b\r\n\r\nx".to_owned(),
            form("a: b"),
            form("content-disposition: form-data; filename=\"name\""),
        ] {
            let said = parts(body.clone().into_bytes(), "ab".to_owned()).await;
            assert!(said.is_err(), "{body}: {said:?}");
        }
        let part = "\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx\r\n--ab";
        let many = async |count: usize| {
            parts(format!("--ab{}--", part.repeat(count)).into_bytes(), "ab".to_owned()).await
        };
        assert_eq!(many(64).await.map(|parts| parts.len()), Ok(64));
        assert!(many(65).await.expect_err("many").contains("64 parts"));
    }
}
