//! Connections to object storage: how long a request may take, and how long it is tried again.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreScheme, Result, RetryConfig,
};
use url::Url;

/// How long a server may be silent: before its answer, or between two pieces of an object.
const SILENCE: Duration = Duration::from_secs(60);

/// The slowest upload that is waited for, in bytes a second. As several share a line, this is one
/// of about 0.5 Mbit/s.
const UPLOAD_BYTES_PER_SECOND: usize = 16 << 10;

/// How long a request is tried again.
const PERSISTENCE: Duration = Duration::from_secs(180);

/// The same before the first answer of a server: its address may be wrong.
const FIRST_PERSISTENCE: Duration = Duration::from_secs(5);

/// Opens a bucket or a container, with the settings of the environment. `None` if the scheme is
/// another one.
pub(in crate::ship) fn open(
    scheme: &ObjectStoreScheme,
    url: &Url,
) -> Result<Option<Arc<dyn ObjectStore>>> {
    macro_rules! open {
        ($builder:expr) => {{
            let builder = $builder.with_url(url.as_str()).with_retry(retries());
            Arc::new(builder.with_http_connector(Connector).build()?)
        }};
    }
    Ok(Some(match scheme {
        ObjectStoreScheme::AmazonS3 => {
            // An endpoint that says `http://` is meant so.
            let is_plain = std::env::vars().any(|(name, value)| {
                name.starts_with("AWS_ENDPOINT") && value.starts_with("http:")
            });
            let builder = AmazonS3Builder::from_env();
            let builder = if is_plain {
                builder.with_allow_http(true)
            } else {
                builder
            };
            open!(builder)
        }
        ObjectStoreScheme::GoogleCloudStorage => open!(GoogleCloudStorageBuilder::from_env()),
        ObjectStoreScheme::MicrosoftAzure => open!(MicrosoftAzureBuilder::from_env()),
        _ => return Ok(None),
    }))
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            base: 3.,
            max_backoff: Duration::from_secs(10),
            ..BackoffConfig::default()
        },
        max_retries: 1000,
        retry_timeout: PERSISTENCE,
    }
}

#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let options = options.clone().with_timeout_disabled();
        let reqwest = ReqwestConnector::default();
        Ok(HttpClient::new(Patient {
            reads: reqwest.connect(&options.clone().with_read_timeout(SILENCE))?,
            others: reqwest.connect(&options)?,
            since: Instant::now(),
            has_answered: AtomicBool::new(false),
        }))
    }
}

/// A client that gives a request the time that it needs, and lets each that failed be repeated:
/// those of this crate can be, as the next run of a shipper repeats them too.
#[derive(Debug)]
struct Patient {
    /// For objects, whose bytes come one after another.
    reads: HttpClient,
    others: HttpClient,
    since: Instant,
    has_answered: AtomicBool,
}

impl HttpService for Patient {
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'f, Result<HttpResponse, HttpError>>
    where
        'a: 'f,
        Self: 'f,
    {
        let upload = request.body().content_length() / UPLOAD_BYTES_PER_SECOND;
        let time = SILENCE + Duration::from_secs(upload as u64);
        let answer = tokio::time::timeout(time, self.answer(request));
        let answer = answer.map(move |answer| match answer {
            Ok(Ok(answer)) => {
                self.has_answered.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(e)) => Err(self.failed(cause(&e))),
            Err(_) => Err(self.failed(format!("no answer in {} seconds", time.as_secs()))),
        });
        answer.boxed()
    }
}

impl Patient {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let is_list = query.contains("list-type=") || query.contains("comp=list");
        let is_read = request.method().as_str() == "GET" && !is_list;
        let client = if is_read { &self.reads } else { &self.others };
        let answer = client.execute(request).await?;
        if is_read && answer.status().is_success() {
            return Ok(answer);
        }
        // An answer that ends in the middle is none. An object is continued by its reader.
        let (parts, body) = answer.into_parts();
        Ok(HttpResponse::from_parts(parts, body.bytes().await?.into()))
    }

    fn failed(&self, why: String) -> HttpError {
        let has_answered = self.has_answered.load(Ordering::Relaxed);
        // The first is repeated, whatever the request is; the other is not.
        let kind = if has_answered || self.since.elapsed() < FIRST_PERSISTENCE {
            HttpErrorKind::Request
        } else {
            HttpErrorKind::Unknown
        };
        HttpError::new(kind, std::io::Error::other(why))
    }
}

/// The last cause of an error, as those above it say only that there is one.
fn cause(error: &dyn StdError) -> String {
    match error.source() {
        Some(source) => cause(source),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
