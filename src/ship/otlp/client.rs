//! Requests to a receiver of OTLP over HTTP.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use url::Url;

use crate::error::{Error, ErrorKind, Result};
use crate::otlp::send::{ExportResponse, RpcStatus};
use crate::ship::{Backoff, remote};

/// The variable with headers: `key=value,key2=value2`, percent-encoded.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// The paths of requests.
pub(super) const TRACES: &str = "v1/traces";
pub(super) const LOGS: &str = "v1/logs";
/// The port of OTLP over HTTP.
const PORT: u16 = 4318;
/// The port of HTTPS.
const PORT_TLS: u16 = 443;
/// Number of attempts of a request.
const TRIES_MAX: u32 = 5;
/// Maximum time that a receiver may ask to wait.
const WAIT_MAX: Duration = Duration::from_secs(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a body that is shown in an error.
const SHOWN_MAX: usize = 300;

/// Where a receiver is.
#[derive(Debug, Clone)]
pub(in crate::ship) struct Endpoint {
    /// `http` or `https`, with a path that ends with a slash.
    url: Url,
}

impl Endpoint {
    /// From a URL `otlp://HOST[:PORT][/PATH]`, or `otlps://` for TLS.
    pub(in crate::ship) fn parse(text: &str) -> Result<Endpoint> {
        let bad = |why: &str| Error::invalid(format!("this URL of OTLP is not valid: {why}"));
        let (scheme, rest, port) = match text.split_once("://") {
            Some(("otlps", rest)) => ("https", rest, PORT_TLS),
            Some((_, rest)) => ("http", rest, PORT),
            None => return Err(bad("write it as otlp://HOST:PORT")),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(bad(&format!("give credentials in {HEADERS}")));
        }
        if path.contains(['?', '#']) {
            return Err(bad("it has a query or a fragment"));
        }
        let path = path.trim_matches('/');
        let path = if path.is_empty() {
            "/".to_owned()
        } else {
            format!("/{path}/")
        };
        let url = Url::parse(&format!("{scheme}://{authority}{path}"));
        let mut url = url.map_err(|e| bad(&e.to_string()))?;
        // A port that is the default of the scheme is not kept by the type.
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !has_port && url.set_port(Some(port)).is_err() {
            return Err(bad("it has no host"));
        }
        Ok(Endpoint { url })
    }

    /// The same name for each spelling.
    pub(in crate::ship) fn name(&self) -> String {
        let rest = self.url.as_str().trim_end_matches('/');
        let rest = rest.trim_start_matches("http");
        format!("otlp{rest}")
    }
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Sent {
    /// It was acknowledged. The receiver did not take `rejected` of its items.
    Taken { rejected: u64, reason: String },
    /// The receiver takes smaller requests only.
    TooLarge(String),
    /// The receiver takes no log records, as Jaeger and Langfuse.
    NoLogs(String),
}

/// Sends requests to one receiver.
#[derive(Debug)]
pub(super) struct Client {
    client: reqwest::Client,
    url: Url,
}

/// What an attempt came to, if the request was not answered.
enum Failed {
    /// It may succeed later, perhaps not before this time.
    Later(Error, Option<Duration>),
    Never(Error),
}

impl Client {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Client> {
        let given = std::env::var(HEADERS).unwrap_or_default();
        let client = reqwest::Client::builder()
            .default_headers(headers(&given)?)
            .user_agent(concat!("decklog/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build();
        let url = endpoint.url.clone();
        let client = client.map_err(|e| remote("set up a connection to", url.as_str(), e))?;
        Ok(Client { client, url })
    }

    /// Sends a request until it is answered.
    ///
    /// # Errors
    /// [`Remote`](ErrorKind::Remote) after several attempts;
    /// [`InvalidInput`](ErrorKind::InvalidInput) if the receiver refuses it.
    pub(super) async fn post(&self, path: &str, body: &[u8]) -> Result<Sent> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let body = gzip.write_all(body).and_then(|()| gzip.finish());
        let body = body.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        let mut backoff = Backoff::default();
        let mut tries = 1;
        loop {
            let (error, wait) = match self.try_post(path, body.clone()).await {
                Ok(sent) => return Ok(sent),
                Err(Failed::Never(error)) => return Err(error),
                Err(Failed::Later(error, wait)) => (error, wait),
            };
            let wait = wait.unwrap_or_else(|| backoff.next_wait());
            if tries == TRIES_MAX || wait > WAIT_MAX {
                return Err(error);
            }
            tries += 1;
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_post(&self, path: &str, body: Vec<u8>) -> std::result::Result<Sent, Failed> {
        let url = self.url.join(path);
        let url = url.map_err(|e| Failed::Never(Error::invalid(e.to_string())))?;
        let later = |e: &reqwest::Error| {
            Failed::Later(remote("send to", url.as_str(), with_causes(e)), None)
        };
        let answer = self
            .client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(CONTENT_ENCODING, "gzip")
            .body(body)
            .send()
            .await
            .map_err(|e| later(&e))?;
        let status = answer.status();
        if status.is_success() {
            let bytes = answer.bytes().await.map_err(|e| later(&e))?;
            // Some receivers answer with JSON or nothing.
            let response = ExportResponse::decode(bytes).unwrap_or_default();
            let partial = response.partial_success.unwrap_or_default();
            return Ok(Sent::Taken {
                rejected: u64::try_from(partial.rejected).unwrap_or(0),
                reason: partial.error_message,
            });
        }
        let wait = retry_after(&answer);
        let reason = reason(answer).await;
        let message = format!("{url} answered {status}{reason}");
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => Ok(Sent::TooLarge(message)),
            StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_IMPLEMENTED
                if path == LOGS =>
            {
                Ok(Sent::NoLogs(message))
            }
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                Err(Failed::Later(Error::new(ErrorKind::Remote, message), wait))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Failed::Never(Error::invalid(
                format!("{message}: give credentials in {HEADERS}"),
            ))),
            _ => Err(Failed::Never(Error::invalid(message))),
        }
    }
}

/// The time after which the receiver wants the request again.
fn retry_after(answer: &Response) -> Option<Duration> {
    let value = answer.headers().get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = chrono::DateTime::parse_from_rfc2822(value).ok()?;
    let wait_ms = at.timestamp_millis().saturating_sub(crate::record::now());
    Some(Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0)))
}

/// The message in the body of an error.
async fn reason(answer: Response) -> String {
    let bytes = answer.bytes().await.unwrap_or_default();
    let text = match RpcStatus::decode(&*bytes) {
        Ok(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    };
    let shown: String = text.trim().chars().take(SHOWN_MAX).collect();
    if shown.is_empty() {
        return shown;
    }
    format!(": {shown}")
}

/// The causes of an error: the error itself only repeats the URL.
fn with_causes(e: &reqwest::Error) -> String {
    let mut text = if e.is_timeout() {
        "no answer in time".to_owned()
    } else {
        "no answer".to_owned()
    };
    let mut cause = std::error::Error::source(e);
    while let Some(e) = cause {
        text.push_str(": ");
        text.push_str(&e.to_string());
        cause = e.source();
    }
    text
}

/// The headers of the variable. Their values may be secret.
fn headers(given: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in given.split(',').filter(|pair| !pair.trim().is_empty()) {
        let bad = || {
            Error::invalid(format!(
                "{HEADERS} is not valid: write it as key=value,key2=value2, with commas and spaces percent-encoded"
            ))
        };
        let (key, value) = pair.split_once('=').ok_or_else(bad)?;
        let name = HeaderName::try_from(key.trim()).map_err(|_| bad())?;
        let value = HeaderValue::try_from(decoded(value.trim())).map_err(|_| bad())?;
        let mut value = value;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// A percent-encoded text. What is not an escape stays as it is.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    while let [first, after @ ..] = rest {
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            out.push((high * 16 + low) as u8);
            rest = after;
        } else {
            out.push(*first);
            rest = after;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_endpoint_has_a_port_and_a_path() {
        for (given, url, name) in [
            ("otlp://here", "http://here:4318/", "otlp://here:4318"),
            ("otlp://here:80/a/", "http://here/a/", "otlp://here/a"),
            (
                "otlps://cloud.example/api/otel",
                "https://cloud.example/api/otel/",
                "otlps://cloud.example/api/otel",
            ),
            ("otlp://[::1]", "http://[::1]:4318/", "otlp://[::1]:4318"),
        ] {
            let endpoint = Endpoint::parse(given).unwrap();
            assert_eq!((endpoint.url.as_str(), &*endpoint.name()), (url, name));
        }
        for given in ["otlp://", "otlp://me:secret@here", "otlp://here/?a"] {
            let error = Endpoint::parse(given).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn headers_are_percent_decoded() {
        let found = headers("Authorization=Basic%20YTpi,x-tenant=1%2C2, ").unwrap();
        assert_eq!(found["authorization"], "Basic YTpi");
        assert_eq!(found["x-tenant"], "1,2");
        assert!(headers("").unwrap().is_empty());
        let error = headers("no-value").unwrap_err();
        assert!(!error.to_string().contains("no-value"));
    }
}
