//! Errors of the HTTP interface, in OpenAI's form: a status, a message, and the field that is wrong.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Why a request gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    kind: &'static str,
    pub(super) message: String,
    /// The field of the request.
    param: Option<String>,
    /// Seconds after which to try again.
    retry: Option<u32>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        Self { status, kind, message: message.into(), param: None, retry: None }
    }

    /// Status 400, for a field of the request.
    pub(super) fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = Some(param.into());
        Self { param, ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn full() -> Self {
        let words = "the queue is full: try again later";
        Self { retry: Some(1), ..Self::new(StatusCode::TOO_MANY_REQUESTS, words) }
    }

    pub(super) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")
    }

    pub(super) fn late(seconds: u64) -> Self {
        let words = format!("the answer took more than {seconds} s");
        Self::new(StatusCode::GATEWAY_TIMEOUT, words)
    }

    pub(super) fn internal(why: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    }

    pub(super) fn json(&self) -> Value {
        json!({ "error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status.as_u16(),
        } })
    }
}

/// A response with a JSON object.
pub(super) fn object(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = object(self.status, &self.json());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
