//! Connections of a server, and their limits.

use crate::guard::HEADERS_BYTES_MAX;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
/// Maximum time for the headers of a request to arrive.
const HEADERS_TIME_MAX: Duration = Duration::from_secs(10);
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
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIME_MAX)
        .max_buf_size(HEADERS_BYTES_MAX)
        .max_headers(HEADERS_MAX);
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
        let service = TowerToHyperService::new(router.clone());
        let connection = builder.serve_connection(TokioIo::new(socket), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}
