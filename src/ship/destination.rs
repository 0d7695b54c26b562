//! Destinations, as URLs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreScheme};
use tokio::runtime::{Builder, Runtime};
use url::Url;
use uuid::Uuid;

use super::Progress;
use super::objects::{self, Objects, Pulled, RemoteVerification};
#[cfg(feature = "otlp")]
use super::otlp::Endpoint;
use super::postgres::Config;
use crate::error::{Error, ErrorKind, Result};

/// A place to copy logs to.
#[derive(Debug, Clone)]
pub struct Destination {
    name: String,
    /// As it was given, without secrets.
    given: String,
    place: Place,
    runtime: Arc<Runtime>,
}

impl fmt::Display for Destination {
    /// As it was given, without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

#[derive(Debug, Clone)]
pub(super) enum Place {
    Objects(Objects),
    Postgres(Box<Config>),
    #[cfg(feature = "otlp")]
    Otlp(Box<Endpoint>),
}

impl Destination {
    /// A directory, or a URL:
    ///
    /// | form | place |
    /// |---|---|
    /// | `DIR`, `file:///DIR` | a directory |
    /// | `s3://BUCKET/PREFIX` | Amazon S3 and what speaks its protocol |
    /// | `gs://BUCKET/PREFIX` | Google Cloud Storage |
    /// | `az://CONTAINER/PREFIX` | Azure Blob Storage |
    /// | `postgres://USER@HOST/DATABASE` | PostgreSQL |
    /// | `otlp://HOST:PORT/PATH`, `otlps://HOST/PATH` | a receiver of OTLP over HTTP, or with TLS (feature `otlp`) |
    ///
    /// Credentials, regions and endpoints come from the environment, as for the tools of these
    /// services: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`,
    /// `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME`,
    /// `AZURE_STORAGE_ACCOUNT_KEY` and so on. A password of PostgreSQL can be in the URL or in
    /// `PGPASSWORD`; connections to other machines use TLS, unless the URL has `sslmode=disable`,
    /// and trust the certificates of the system or those in `PGSSLROOTCERT`.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for any other form, or if a setting is missing;
    /// [`NotFound`](ErrorKind::NotFound) if the directory does not exist.
    pub fn parse(text: &str) -> Result<Destination> {
        Destination::open(text, false)
    }

    /// As [`parse`](Self::parse), but a directory that does not exist is created.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); [`Io`](ErrorKind::Io).
    pub fn create(text: &str) -> Result<Destination> {
        Destination::open(text, true)
    }

    fn open(text: &str, creates: bool) -> Result<Destination> {
        // For TLS. If a program has chosen another provider, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let text = text.trim();
        let (place, name, given) = if ["postgres://", "postgresql://"]
            .iter()
            .any(|it| text.starts_with(it))
        {
            let name = Config::name(text);
            let config = Box::new(Config::parse(text)?);
            (Place::Postgres(config), name.clone(), name)
        } else if ["otlp://", "otlps://"]
            .iter()
            .any(|it| text.starts_with(it))
        {
            otlp(text)?
        } else {
            let objects = match Url::parse(text) {
                // A drive letter is no scheme.
                Ok(url) if url.scheme().len() > 1 => objects_at(&url, creates)?,
                _ => directory(Path::new(text), creates)?,
            };
            let name = name_of(text);
            let place = Place::Objects(Objects::new(objects, name.clone()));
            (place, name, text.to_owned())
        };
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|e| Error::io("start threads for", Path::new(text), e))?;
        Ok(Destination {
            place,
            given: given.trim_end_matches('/').to_owned(),
            name,
            runtime: Arc::new(runtime),
        })
    }

    /// An object store of a test. Names exclude each other.
    #[cfg(test)]
    pub(super) fn of_test(name: &str, store: Arc<dyn ObjectStore>) -> Destination {
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        Destination {
            name: name.to_owned(),
            given: name.to_owned(),
            place: Place::Objects(Objects::new(store, name.to_owned())),
            runtime: Arc::new(runtime),
        }
    }

    /// Its URL without secrets, or its absolute path.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    fn objects(&self) -> Result<&Objects> {
        match &self.place {
            Place::Objects(objects) => Ok(objects),
            #[cfg(feature = "otlp")]
            Place::Otlp(_) => {
                let message = format!(
                    "{} receives OTLP: lines can only be read from object storage or a directory",
                    self.name
                );
                Err(Error::invalid(message))
            }
            Place::Postgres(_) => {
                let message = format!(
                    "{} is a database: lines can only be read from object storage or a directory",
                    self.name
                );
                Err(Error::invalid(message))
            }
        }
    }

    pub(super) fn runtime(&self) -> Arc<Runtime> {
        Arc::clone(&self.runtime)
    }

    /// The ids of the stores that were shipped there, in order.
    ///
    /// # Errors
    /// [`Remote`](ErrorKind::Remote).
    pub fn stores(&self) -> Result<Vec<Uuid>> {
        self.runtime.block_on(self.objects()?.stores())
    }

    /// Checks what was shipped: every byte of every object, and the chain of seals. Of one store,
    /// or of all that are there.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if nothing is there; [`Remote`](ErrorKind::Remote). Damage
    /// is no error.
    pub fn verify(&self, store_id: Option<Uuid>) -> Result<Vec<RemoteVerification>> {
        let objects = self.objects()?;
        self.runtime.block_on(async {
            let mut found = Vec::new();
            for state in objects.states(store_id).await? {
                found.push(objects.verify_store(&state).await?);
            }
            Ok(found)
        })
    }

    /// Makes a store again, in a directory that does not exist or is empty. Its lines are equal to
    /// those of the store that was shipped, and it is verified. A call that was interrupted is
    /// continued by the next one.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if the store is not there;
    /// [`InvalidInput`](ErrorKind::InvalidInput) if several are there and none was given, or the
    /// directory is not empty; [`Damaged`](ErrorKind::Damaged) if an object was changed;
    /// [`Remote`](ErrorKind::Remote), [`Io`](ErrorKind::Io).
    pub fn pull(&self, store_id: Option<Uuid>, dir: &Path, progress: &Progress) -> Result<Pulled> {
        let objects = self.objects()?;
        self.runtime.block_on(async {
            let states = objects.states(store_id).await?;
            let [state] = &*states else {
                let ids = states.iter().map(|state| state.store_id.to_string());
                let ids: Vec<String> = ids.collect();
                let message = format!(
                    "{} stores were shipped to {}: give one of their ids: {}",
                    states.len(),
                    self.name,
                    ids.join(", ")
                );
                return Err(Error::invalid(message));
            };
            objects.pull_store(state, dir, progress).await
        })
    }
}

/// A receiver of OTLP, its name, and how it is shown.
#[cfg(feature = "otlp")]
fn otlp(text: &str) -> Result<(Place, String, String)> {
    let endpoint = Endpoint::parse(text)?;
    let name = endpoint.name();
    Ok((Place::Otlp(Box::new(endpoint)), name.clone(), name))
}

#[cfg(not(feature = "otlp"))]
fn otlp(_: &str) -> Result<(Place, String, String)> {
    Err(Error::invalid(
        "this decklog was built without OpenTelemetry: install it with --features otlp",
    ))
}

fn objects_at(url: &Url, creates: bool) -> Result<Arc<dyn ObjectStore>> {
    let parsed = ObjectStoreScheme::parse(url);
    if matches!(parsed, Ok((ObjectStoreScheme::Local, _))) {
        let dir = url.to_file_path();
        let dir = dir.map_err(|()| Error::invalid(format!("{url} names no directory")))?;
        return directory(&dir, creates);
    }
    let invalid = |e: object_store::Error| Error::invalid(format!("{url}: {e}"));
    let opened = match &parsed {
        Ok((scheme, _)) => objects::open(scheme, url).map_err(invalid)?,
        Err(_) => None,
    };
    let (Some(store), Ok((_, prefix))) = (opened, parsed) else {
        let message = format!(
            "{:?} is no place that a log can be copied to: give a directory, s3://, gs://, az://, file://, postgres:// or otlp://",
            url.scheme()
        );
        return Err(Error::invalid(message));
    };
    Ok(if prefix.as_ref().is_empty() {
        store
    } else {
        Arc::new(PrefixStore::new(store, prefix))
    })
}

/// The same name for each spelling of a directory: it excludes others that ship there.
fn name_of(text: &str) -> String {
    let of_url = Url::parse(text).ok().filter(|url| url.scheme() == "file");
    let of_url = of_url.and_then(|url| url.to_file_path().ok());
    let dir = of_url.or_else(|| Path::new(text).exists().then(|| text.into()));
    let dir = dir.and_then(|dir| dir.canonicalize().ok());
    match dir.as_deref().and_then(Path::to_str) {
        Some(dir) => dir.to_owned(),
        None => text.trim_end_matches('/').to_owned(),
    }
}

fn directory(dir: &Path, creates: bool) -> Result<Arc<dyn ObjectStore>> {
    if creates {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        // Like the store's: only its owner gets in, whatever the modes of the files in it.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let made = builder.create(dir);
        made.map_err(|e| Error::io("create the directory", dir, e))?;
    } else if !dir.is_dir() {
        let message = "there is no such directory";
        return Err(Error::new(ErrorKind::NotFound, message).with_path(dir));
    }
    let store = LocalFileSystem::new_with_prefix(dir);
    let store = store.map_err(|e| Error::invalid(format!("{}: {e}", dir.display())))?;
    Ok(Arc::new(store.with_fsync(true)))
}
