//! A small HTTP server on 127.0.0.1 that sends exactly the bytes a test specifies.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The method, such as `POST`.
    pub method: String,
    /// The path, including the query.
    pub path: String,
    /// Headers with lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// The first header with the given lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// The server's actions after a request, in order. The connection is closed at the end.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    acts: Vec<Act>,
}

#[derive(Debug, Clone)]
enum Act {
    Write(Vec<u8>),
    Hang,
}

impl Reply {
    /// Creates an empty reply: the connection is closed without a response.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Creates a complete response with a `content-length`.
    #[must_use]
    pub fn full(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len().to_string();
        let mut head = head(status, headers, ("content-length", &length));
        head.extend_from_slice(body);
        Self { acts: vec![Act::Write(head)] }
    }

    /// Creates the head of a chunked response.
    #[must_use]
    pub fn pieces(status: u16, headers: &[(&str, &str)]) -> Self {
        Self { acts: vec![Act::Write(head(status, headers, ("transfer-encoding", "chunked")))] }
    }

    /// Adds a chunk to the body. Without a later [`Reply::end`] the body is truncated after it.
    #[must_use]
    pub fn piece(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        self.raw(framed)
    }

    /// Adds the end of a chunked body.
    #[must_use]
    pub fn end(self) -> Self {
        self.raw("0\r\n\r\n")
    }

    /// Adds raw bytes.
    #[must_use]
    pub fn raw(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.acts.push(Act::Write(bytes.as_ref().to_vec()));
        self
    }

    /// Keeps the connection open without writing until the client disconnects.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.acts.push(Act::Hang);
        self
    }
}

fn head(status: u16, headers: &[(&str, &str)], length: (&str, &str)) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
    for (name, value) in headers.iter().chain([&length]) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// The server. It handles one request per connection and stops when it is dropped.
#[derive(Debug)]
pub struct LoopbackServer {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

type Handler = dyn Fn(usize, &Received) -> Reply + Send + Sync;

impl LoopbackServer {
    /// Starts a server on a free port. The handler receives the number of the request, from 0, and
    /// the request.
    ///
    /// # Errors
    /// The system's error if no port is available.
    pub async fn start(
        handler: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        let handler: Arc<Handler> = Arc::new(handler);
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                let handler = Arc::clone(&handler);
                // A client may disconnect early; the server continues.
                tokio::spawn(async move { serve(connection, &log, &*handler).await.ok() });
            }
        });
        Ok(Self { address, received, task })
    }

    /// The address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of a path, which begins with `/`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far, in order of arrival.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut connection: TcpStream,
    log: &Mutex<Vec<Received>>,
    handler: &Handler,
) -> io::Result<()> {
    let Some(request) = read(&mut connection).await? else { return Ok(()) };
    let number = {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(request.clone());
        log.len() - 1
    };
    for act in handler(number, &request).acts {
        match act {
            Act::Write(bytes) => connection.write_all(&bytes).await?,
            Act::Hang => while connection.read(&mut [0u8; 64]).await? > 0 {},
        }
    }
    connection.shutdown().await
}

async fn read(connection: &mut TcpStream) -> io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if connection.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length && connection.read_buf(&mut body).await? > 0 {}
    Ok(Some(Received { method, path, headers, body }))
}
