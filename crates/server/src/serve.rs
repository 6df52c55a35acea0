//! Connections of a server, and their limits.

use crate::guard::HEADERS_BYTES_MAX;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
/// Maximum time for the headers of a request to arrive.
const HEADERS_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of requests at once on a connection of HTTP/2, of which each stream of events is
/// one.
const STREAMS_MAX: u32 = 100;
/// Interval of pings on a connection of HTTP/2, and maximum time for their answers.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(20));
/// The first bytes of a connection of HTTP/2.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Pause before the first bytes of a connection are looked at again.
const PEEK_PAUSE: Duration = Duration::from_millis(5);
/// Pause after a connection that could not be accepted, such as without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until `stop` completes, and then the requests that were accepted.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let connections = Arc::new(Semaphore::new(connections_max));
    let versions = Arc::new(Versions::new());
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            // The semaphore is not closed.
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Events are sent one by one.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection has delays");
        }
        let versions = Arc::clone(&versions);
        let router = router.clone();
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            if let Err(error) = versions.serve(socket, router, watcher).await {
                tracing::debug!(error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

/// The versions of HTTP. HTTP/2 begins without an upgrade ("prior knowledge").
struct Versions {
    http1: Builder<TokioExecutor>,
    http2: Builder<TokioExecutor>,
}

impl Versions {
    fn new() -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_TIME_MAX)
            .max_buf_size(HEADERS_BYTES_MAX)
            .max_headers(HEADERS_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(HEADERS_BYTES_MAX as u32)
            .max_concurrent_streams(STREAMS_MAX)
            .keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1);
        Self { http1: builder.clone().http1_only(), http2: builder.http2_only() }
    }

    /// Serves a connection in its version of HTTP.
    async fn serve(
        &self,
        socket: TcpStream,
        router: Router,
        watcher: Watcher,
    ) -> Result<(), String> {
        let begins = tokio::time::timeout(HEADERS_TIME_MAX, is_http2(&socket)).await;
        let is_http2 = begins.map_err(|_| "it sent nothing".to_owned())?;
        let is_http2 = is_http2.map_err(|error| error.to_string())?;
        let service = TowerToHyperService::new(router);
        let io = TokioIo::new(socket);
        let version = if is_http2 { &self.http2 } else { &self.http1 };
        let connection = version.serve_connection_with_upgrades(io, service);
        watcher.watch(connection).await.map_err(|error| error.to_string())
    }
}

/// Reads the version of HTTP from the first bytes, which stay to be read.
async fn is_http2(socket: &TcpStream) -> io::Result<bool> {
    let mut begin = [0; HTTP2.len()];
    loop {
        let length = socket.peek(&mut begin).await?;
        let begin = begin.get(..length).unwrap_or_default();
        if begin.is_empty() || !HTTP2.starts_with(begin) {
            return Ok(false);
        }
        if begin == HTTP2 {
            return Ok(true);
        }
        tokio::time::sleep(PEEK_PAUSE).await;
    }
}
