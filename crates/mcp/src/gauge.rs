//! Limits on the bytes of a server that is a process.

use crate::McpError;
use crate::limits::Limits;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// The bytes that a server has sent since the last request to it, and the limit that it exceeded.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    received: AtomicUsize,
    exceeded: Mutex<Option<String>>,
}

impl Gauge {
    /// Begins to count anew, for a request.
    pub(crate) fn begin(&self) {
        self.received.store(0, Ordering::Relaxed);
    }

    /// The error for the limit that the server exceeded, if any.
    pub(crate) fn exceeded(&self, server: &str) -> Option<McpError> {
        let exceeded = self.exceeded.lock().unwrap_or_else(PoisonError::into_inner);
        let what = exceeded.clone()?;
        Some(McpError::Limit { server: server.to_owned(), what })
    }

    fn stop(&self, what: String) -> io::Error {
        let error = io::Error::other(what.clone());
        *self.exceeded.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        error
    }
}

/// A reader of lines that ends with an error when a line or all of them are too long.
#[derive(Debug)]
pub(crate) struct Measured<R> {
    inner: R,
    line: usize,
    limits: Limits,
    gauge: Arc<Gauge>,
}

impl<R> Measured<R> {
    pub(crate) fn new(inner: R, limits: Limits, gauge: Arc<Gauge>) -> Self {
        Self { inner, line: 0, limits, gauge }
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let received = self.gauge.received.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if received > self.limits.received_bytes {
            let max = self.limits.received_bytes;
            return Err(self.gauge.stop(format!("it sent more than {max} bytes for one request")));
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line += piece.len();
            if self.line > self.limits.message_bytes {
                let max = self.limits.message_bytes;
                return Err(self.gauge.stop(format!("it sent a message of more than {max} bytes")));
            }
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Measured<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.add_bytes(read))
    }
}
