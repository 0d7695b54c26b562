//! The server: it listens, enforces limits, and shuts down gracefully.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt;

use super::access::Gatekeeper;
use super::app::{Answers, App};
use super::doubt::Doubt;
use super::impatient::Impatient;
#[cfg(feature = "mcp")]
use super::mcp::{self, Mcp};
use super::memory::Memory;
use super::metrics::{Counted, Metrics};
use super::rejected::Rejected;
#[cfg(feature = "otlp")]
use super::routes::only;
use super::routes::router;
use super::syncer::Syncer;
use super::tls::Certificate;
use crate::error::{Error, ErrorKind, Result};
use crate::store::Store;
use crate::wire::feed::Feed;

/// Delay after a failed accept, such as when no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Interval of the check that the store still writes.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of updates of the reports.
const REPORTS_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of writes of the last uses of tokens.
const USES_INTERVAL: Duration = Duration::from_secs(60);
/// Read-ahead of a connection, and maximum size of its headers.
const CONNECTION_BYTES: usize = 64 << 10;
/// Number of threads for writes and long reads.
const BLOCKING_THREADS_MAX: usize = 128;
/// Minimum number of threads for short reads; one for each core, if there are more.
const READERS_MIN: usize = 2;

/// Options of the server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The files of a certificate and its key, for TLS; without them there is no encryption.
    /// Default: none.
    pub tls: Option<Tls>,
    /// Accepted host names, besides `localhost` and the address it listens on: names or addresses,
    /// without a port. Default: none.
    pub allow_hosts: Vec<String>,
    /// Allowed origins of pages of other sites, such as `https://app.example`. If a token is required,
    /// they need a bearer token: their cookies are ignored. Default: none.
    pub allow_origins: Vec<String>,
    /// Maximum number of connections; others wait to be accepted. Default: 4096.
    pub connections_max: usize,
    /// Maximum size of a request's body, in bytes after decompression. Default: 16 MiB.
    pub body_bytes_max: usize,
    /// Maximum memory for the bodies of all unanswered requests, in bytes after decompression, and
    /// the same again for answers that clients have not read. An eighth is only for bodies of up to
    /// 64 KiB. Requests beyond it are answered 503 with `Retry-After`. Default: 128 MiB, and at
    /// least twice `body_bytes_max`.
    pub bodies_bytes_max: usize,
    /// Timeout of a request's headers, also on an idle connection. Default: 10 s.
    pub header_timeout: Duration,
    /// Timeout of a request's body. Default: 30 s.
    pub body_timeout: Duration,
    /// Timeout of the acknowledgement of a record, after which the client gets 503.
    /// Default: 30 s.
    pub write_timeout: Duration,
    /// Write-idle timeout: a connection ends if the client reads nothing of its answer. Default: 30 s.
    pub take_timeout: Duration,
    /// Another address to listen on, which receives only OTLP. The main address receives it too.
    /// Default: none.
    #[cfg(feature = "otlp")]
    pub otlp: Option<SocketAddr>,
    /// The tools offered at `/mcp`. Default: the group `default`.
    #[cfg(feature = "mcp")]
    pub mcp_tools: crate::mcp::Tools,
    /// Maximum number of concurrent streams; others get 503. Default: 64.
    pub streams_max: usize,
    /// Maximum number of records that wait to be written. Default: 10,000.
    pub queue_records_max: usize,
    /// Timeout of running requests at shutdown. Default: 10 s.
    pub shutdown_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tls: None,
            allow_hosts: Vec::new(),
            allow_origins: Vec::new(),
            connections_max: 4_096,
            body_bytes_max: 16 << 20,
            bodies_bytes_max: 128 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            take_timeout: Duration::from_secs(30),
            #[cfg(feature = "otlp")]
            otlp: None,
            #[cfg(feature = "mcp")]
            mcp_tools: crate::mcp::Tools::default(),
            streams_max: 64,
            queue_records_max: 10_000,
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}

/// The files of a certificate.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The file with the certificate chain, in PEM.
    pub certificates: PathBuf,
    /// The file with its key, in PEM.
    pub key: PathBuf,
}

/// A listening server; [`run`](Server::run) serves.
pub struct Server {
    runtime: Runtime,
    readers: Runtime,
    listener: TcpListener,
    addr: SocketAddr,
    certificate: Option<Arc<Certificate>>,
    app: Arc<App>,
    stop: watch::Sender<bool>,
    #[cfg(feature = "otlp")]
    otlp: Option<TcpListener>,
    #[cfg(feature = "mcp")]
    mcp: Mcp,
}

/// Stops a server.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Stops the server: it accepts nothing more, finishes running requests, writes queued records,
    /// and returns.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

fn serving_threads() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("decklog-http")
        .build()
}

/// A runtime for blocking threads. Their number is limited, so that reads leave room for other
/// work.
fn reading_threads() -> io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(cores.max(READERS_MIN))
        .thread_name("decklog-read")
        .build()
}

/// decklog's own handler of MCP.
#[cfg(feature = "mcp")]
fn own_mcp(app: &App, options: &Options, runtime: &Runtime) -> Mcp {
    let (store, analytics) = (app.store.clone(), app.analytics.clone());
    // Idle sessions keep their slots. These must not count against the limit of streams.
    let feed = Feed::new(store.clone(), options.streams_max + mcp::SESSIONS_MAX);
    let (feed, tools) = (Arc::new(feed), options.mcp_tools.clone());
    let server = crate::mcp::Server::sharing(store, analytics, feed, tools);
    let stopped = app.stopped.clone();
    Mcp::new(move || server.clone(), options, stopped, runtime.handle())
}

impl Server {
    /// Listens on an address; port 0 means any free port.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the address is in use or does not belong to this machine;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for files without a certificate or key, and
    /// for an address that other machines can reach while
    /// [`require_auth`](crate::privacy::PrivacySettings::require_auth) is false;
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) for a read-only store.
    pub fn bind(store: Store, addr: SocketAddr, options: &Options) -> Result<Server> {
        let gatekeeper = Gatekeeper::new(store.clone(), addr, options)?;
        let certificate = options.tls.as_ref().map(Certificate::read).transpose()?;
        let cannot = |doing: &'static str| {
            let path = store.path().to_path_buf();
            move |e| Error::io(doing, &path, e)
        };
        let runtime = serving_threads().map_err(cannot("start the threads that serve"))?;
        let readers = reading_threads().map_err(cannot("start the threads that read"))?;
        let listener = runtime.block_on(TcpListener::bind(addr));
        let listener = listener.map_err(|e| not_bound(addr, &e))?;
        let addr = listener.local_addr().map_err(|e| not_bound(addr, &e))?;
        #[cfg(feature = "otlp")]
        let otlp = match options.otlp {
            Some(addr) => {
                let listener = runtime.block_on(TcpListener::bind(addr));
                Some(listener.map_err(|e| not_bound(addr, &e))?)
            }
            None => None,
        };
        let doubt = Arc::new(Doubt::of(&store));
        let rejected = Rejected::default();
        let capture = store
            .capture_options()
            .queue_records_max(options.queue_records_max)
            .on_error({
                let (doubt, rejected) = (Arc::clone(&doubt), rejected.clone());
                move |error, record| {
                    doubt.note_error(error);
                    rejected.note(error, record);
                }
            })
            .start()?;
        let stop = watch::Sender::new(false);
        let (answers, told) = Answers::new();
        let memory = || Memory::new(options.bodies_bytes_max, options.body_bytes_max);
        let answers_held = memory();
        runtime.spawn(Answers::hand_on(told));
        let analytics = store.analytics();
        let metrics = Metrics::new(&analytics, &capture, &rejected);
        #[cfg(feature = "otlp")]
        let otlp_items = super::otlp::Otlp::new(store.clone());
        #[cfg(feature = "otlp")]
        let metrics = metrics.with(|registry| otlp_items.register(registry));
        let app = App {
            answers,
            metrics,
            capture,
            rejected,
            doubt,
            analytics,
            readers: readers.handle().clone(),
            syncer: Syncer::new(store.clone()),
            gatekeeper,
            feed: Arc::new(Feed::new(store.clone(), options.streams_max)),
            stopped: stop.subscribe(),
            #[cfg(feature = "otlp")]
            otlp: otlp_items,
            bodies: memory(),
            long_reads: App::long_reads(&answers_held),
            answers_held,
            options: options.clone(),
            store,
        };
        #[cfg(feature = "mcp")]
        let mcp = own_mcp(&app, options, &runtime);
        Ok(Server {
            runtime,
            readers,
            listener,
            addr,
            certificate: certificate.map(Arc::new),
            app: Arc::new(app),
            stop,
            #[cfg(feature = "otlp")]
            otlp,
            #[cfg(feature = "mcp")]
            mcp,
        })
    }

    /// Replaces decklog's own handler of MCP at `/mcp`. A new handler is created for each session, and
    /// for each request of a client without a session. Only clients that pass the access checks
    /// reach it; the handler checks permissions by their [`role`](crate::mcp::role).
    ///
    /// ```no_run
    /// use decklog::mcp::{self, Tools};
    /// use decklog::{Store, http::Server};
    /// let store = Store::open("/var/lib/agent/log")?;
    /// let reads = mcp::Server::new(store.clone(), Tools::all().read_only());
    /// let server = Server::bind(store, "127.0.0.1:8084".parse().unwrap(), &Default::default())?;
    /// server.with_mcp(move || reads.clone()).run()?;
    /// # Ok::<(), decklog::Error>(())
    /// ```
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn with_mcp<S: crate::mcp::rmcp::ServerHandler>(
        mut self,
        made: impl Fn() -> S + Send + Sync + 'static,
    ) -> Server {
        let stopped = self.app.stopped.clone();
        self.mcp = Mcp::new(made, &self.app.options, stopped, self.runtime.handle());
        self
    }

    /// The address it listens on as a URL, such as `http://127.0.0.1:8084`.
    pub fn url(&self) -> String {
        let scheme = self.certificate.as_ref().map_or("http", |_| "https");
        format!("{scheme}://{}", self.addr)
    }

    /// The address that receives only OTLP, if there is one.
    #[cfg(feature = "otlp")]
    pub fn otlp_addr(&self) -> Option<SocketAddr> {
        self.otlp.as_ref().and_then(|it| it.local_addr().ok())
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// A handle to stop it.
    pub fn stop_handle(&self) -> Stop {
        Stop(self.stop.clone())
    }

    /// Handles the signals of the process. SIGINT and SIGTERM, or Ctrl-C, stop the server. SIGHUP
    /// reads the certificate's files and the store's settings again; if they cannot be used, the
    /// ones in use stay and the reason is logged.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the handlers cannot be installed.
    pub fn handle_signals(&self) -> Result<()> {
        let stop = self.stop_handle();
        let path = self.app.store.path();
        let _in_runtime = self.runtime.enter();
        let cannot = |e| Error::io("install signal handlers for", path, e);
        let asked = signals().map_err(cannot)?;
        self.runtime.spawn(async move {
            asked.await;
            stop.stop();
        });
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let mut hangup = signal(SignalKind::hangup()).map_err(cannot)?;
            let (certificate, store) = (self.certificate.clone(), self.app.store.clone());
            self.runtime.spawn(async move {
                while hangup.recv().await.is_some() {
                    let (certificate, store) = (certificate.clone(), store.clone());
                    let reload = move || reload(certificate.as_deref(), &store);
                    let _ = tokio::task::spawn_blocking(reload).await;
                }
            });
        }
        Ok(())
    }

    /// Serves until it is stopped. When this returns, all accepted records are on disk.
    ///
    /// Memory of requests is returned to the system: with glibc, the allocator of the whole process
    /// is set to keep no long blocks (`mallopt`), and trimmed at intervals.
    ///
    /// # Errors
    /// [`Poisoned`](crate::ErrorKind::Poisoned) if the store failed to write or sync, which ends the
    /// server: the store can be opened, and served, again. [`Io`](crate::ErrorKind::Io) if the last
    /// sync failed.
    pub fn run(self) -> Result<()> {
        let url = self.url();
        let (runtime, app) = (self.runtime, self.app);
        let more = Router::new();
        #[cfg(feature = "mcp")]
        let more = more.merge(self.mcp.routes());
        #[cfg(feature = "page")]
        let more = more.merge(super::page::routes());
        #[cfg(feature = "otlp")]
        let more = more.merge(super::otlp::routes());
        let (store, rejected) = (app.store.clone(), app.rejected.clone());
        let analytics = app.analytics.clone();
        // No report then has to read many messages.
        runtime.spawn(at_intervals(REPORTS_INTERVAL, move || {
            if let Err(error) = analytics.catch_up() {
                tracing::warn!(%error, "the reports are not up to date");
            }
        }));
        let (app_of_uses, at) = (Arc::clone(&app), url.clone());
        runtime.spawn(at_intervals(USES_INTERVAL, move || {
            app_of_uses.gatekeeper.write_uses(&at, true);
        }));
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        runtime.spawn(super::trim::keep_trimmed([
            Arc::clone(&app.bodies),
            Arc::clone(&app.answers_held),
        ]));
        runtime.spawn(stop_if_poisoned(store.clone(), self.stop.clone()));
        #[cfg(feature = "otlp")]
        if let Some(listener) = self.otlp {
            let router = only(Arc::clone(&app), super::otlp::routes());
            let (certificate, app) = (self.certificate.clone(), Arc::clone(&app));
            runtime.spawn(async move { serve(listener, certificate, router, &app).await });
        }
        let router = router(Arc::clone(&app), more);
        runtime.block_on(serve(self.listener, self.certificate, router, &app));
        // Remaining reads and background writes may continue until the process exits.
        runtime.shutdown_timeout(app.options.shutdown_timeout);
        self.readers.shutdown_background();
        let _ = app.capture.flush();
        app.gatekeeper.write_uses(&url, false);
        // Dropping the queue's last handle retries once to write records that wait for a lock. Lost
        // records are logged below.
        drop(app);
        rejected.log_total();
        if is_poisoned(&store) {
            let message = "a write or fsync failed, or the store's directory was replaced, and the server stopped: check the disk space, and open the store again";
            return Err(Error::new(ErrorKind::Poisoned, message).with_path(store.path()));
        }
        store.sync()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addr", &self.addr)
            .field("options", &self.app.options)
            .finish_non_exhaustive()
    }
}

fn not_bound(addr: SocketAddr, error: &io::Error) -> Error {
    let message = format!("cannot listen on {addr}: {error}; use another address or port");
    Error::new(ErrorKind::Io, message)
}

#[cfg(unix)]
fn signals() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn signals() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// Reads the certificate and the settings again.
#[cfg(unix)]
fn reload(certificate: Option<&Certificate>, store: &Store) {
    let certificate = certificate.map_or(Ok(()), Certificate::reload);
    if let Err(error) = certificate {
        tracing::error!(%error, "the certificate was not reloaded: the one in use stays");
    }
    match store.reload_settings() {
        Ok(_) => tracing::info!("reloaded"),
        Err(error) => tracing::error!(%error, "the settings were not reloaded: those in use stay"),
    }
}

/// Stops the server if its store no longer acknowledges records.
async fn stop_if_poisoned(store: Store, stop: watch::Sender<bool>) {
    loop {
        tokio::time::sleep(HEALTH_INTERVAL).await;
        let store = store.clone();
        let asked = tokio::task::spawn_blocking(move || is_poisoned(&store)).await;
        if asked.is_ok_and(|is_poisoned| is_poisoned) {
            tracing::error!("the store failed to write or sync: the server stops");
            stop.send_replace(true);
            return;
        }
    }
}

/// Whether the store must be reopened.
fn is_poisoned(store: &Store) -> bool {
    match store.counts() {
        Ok(counts) => counts.is_poisoned,
        // Another directory took the place of the store.
        Err(error) => error.kind() == ErrorKind::Poisoned,
    }
}

/// Calls a function now and after each interval, on a blocking thread.
async fn at_intervals(interval: Duration, work: impl Fn() + Clone + Send + 'static) {
    loop {
        let _ = tokio::task::spawn_blocking(work.clone()).await;
        tokio::time::sleep(interval).await;
    }
}

async fn serve(
    listener: TcpListener,
    certificate: Option<Arc<Certificate>>,
    router: Router,
    app: &App,
) {
    let (options, mut stopped) = (&app.options, app.stopped.clone());
    let places = Arc::new(Semaphore::new(options.connections_max.max(1)));
    let graceful = GracefulShutdown::new();
    let is_stopped = stopped.wait_for(|stopped| *stopped);
    tokio::pin!(is_stopped);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut is_stopped => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!(error = %e, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are written in one piece, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let header_timeout = options.header_timeout;
        let watcher = graceful.watcher();
        let acceptor = certificate.as_ref().map(|it| it.acceptor());
        let counted = Counted::new(&app.metrics.connections);
        let stream = Impatient::new(stream, options.take_timeout);
        tokio::spawn(async move {
            let _place = (place, counted);
            let Some(acceptor) = acceptor else {
                return answer(stream, router, header_timeout, watcher).await;
            };
            let handshake = tokio::time::timeout(header_timeout, acceptor.accept(stream)).await;
            if let Ok(Ok(stream)) = handshake {
                answer(stream, router, header_timeout, watcher).await;
            }
        });
    }
    drop(listener);
    drop(router);
    let ended = tokio::time::timeout(options.shutdown_timeout, graceful.shutdown()).await;
    if ended.is_err() {
        tracing::warn!("some requests were cut short: they took too long to end");
    }
}

/// The next connection, when a slot is free.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await;
    let place = place.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Answers the requests of a connection.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    header_timeout: Duration,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = router.map_request(|request: Request<Incoming>| request.map(Body::new));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(CONNECTION_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // Connection errors are caused by the client.
    let _ = watcher.watch(connection).await;
}
