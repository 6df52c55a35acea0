//! The port of this machine that a browser is redirected to.

use super::browser::query_parameters;
use super::error::OauthError;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const PATH: &str = "/callback";
/// Maximum length of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 32 << 10;
/// Maximum time of a connection. Browsers open some ahead that they do not use.
const CONNECTION: Duration = Duration::from_secs(60);
const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Weftwork</title>\
                    <p>The answer has arrived. Close this page and go back to the terminal.</p>";

/// A listener for one redirect.
#[derive(Debug)]
pub(crate) struct Callback {
    listener: TcpListener,
    address: String,
}

impl Callback {
    /// Listens on a port of the loopback device: one that is free, unless the client was registered
    /// with another.
    pub(crate) async fn listen(port: Option<u16>) -> Result<Self, OauthError> {
        let bad = |error: std::io::Error| {
            let port = port.map_or("a free port".to_owned(), |port| format!("port {port}"));
            OauthError::failed(format!(
                "cannot listen for the browser on {port} of 127.0.0.1: {error}"
            ))
        };
        let place = (Ipv4Addr::LOCALHOST, port.unwrap_or(0));
        let listener = TcpListener::bind(place).await.map_err(bad)?;
        let address = match port {
            // People register the name, as other clients with this setting ask them to.
            Some(port) => format!("http://localhost:{port}{PATH}"),
            None => format!("http://{}{PATH}", listener.local_addr().map_err(bad)?),
        };
        Ok(Self { listener, address })
    }

    /// The address of the redirect.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the redirect and returns its parameters. Requests for other pages, such as an icon,
    /// are refused.
    pub(crate) async fn receive(&self) -> Result<BTreeMap<String, String>, OauthError> {
        let (send, mut answers) = mpsc::channel(1);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let Ok((connection, _)) = accepted else { continue };
                    let send = send.clone();
                    tokio::spawn(tokio::time::timeout(CONNECTION, async move {
                        if let Some(answer) = serve_callback(connection).await {
                            // Only the first answer counts.
                            send.try_send(answer).unwrap_or_default();
                        }
                    }));
                }
                Some(answer) = answers.recv() => return Ok(answer),
            }
        }
    }
}

/// Answers a request; returns the parameters of the redirect.
async fn serve_callback(mut connection: TcpStream) -> Option<BTreeMap<String, String>> {
    let mut text = Vec::new();
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 2048];
        let read = connection.read(&mut piece).await.ok()?;
        text.extend_from_slice(piece.get(..read).unwrap_or_default());
        if read == 0 || text.len() > REQUEST_BYTES_MAX {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&text);
    let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let answer =
        target.filter(|target| target.split('?').next() == Some(PATH)).map(query_parameters);
    let (status, page) = match answer {
        Some(_) => ("200 OK", PAGE),
        None => ("404 Not Found", ""),
    };
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    // A browser that has gone has made its request.
    connection.write_all(response.as_bytes()).await.unwrap_or_default();
    connection.shutdown().await.unwrap_or_default();
    answer
}
