//! Encrypted connections: rustls on ring, which checks the server's certificate and name.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use weftwork_types::BoxFuture;

/// What an address demands. Both check the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Require,
    VerifyFull,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// Who is trusted to vouch for servers.
#[derive(Debug)]
pub(crate) enum Roots {
    /// Those whom the system trusts.
    System,
    /// Those in a file, and nobody else.
    File(PathBuf),
}

/// What connections are encrypted with.
#[derive(Clone)]
pub(crate) struct Tls {
    mode: Mode,
    connector: TlsConnector,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Tls {
    /// Or why there is none.
    pub(crate) fn new(mode: Mode, roots: &Roots) -> Result<Self, String> {
        let roots = match roots {
            Roots::System => system()?,
            Roots::File(file) => in_file(file)?,
        };
        // Passed along and never installed for the whole process, which is the program's.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // What Postgres is called here; it insists where TLS begins at once (sslnegotiation=direct).
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { mode, connector: TlsConnector::from(Arc::new(config)) })
    }
}

/// Those whom the system trusts, `SSL_CERT_FILE` and `SSL_CERT_DIR` included.
fn system() -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match store.is_empty() {
        false => Ok(store),
        true => Err("the system has no certificates to check the server's with; install those of \
                     the system (ca-certificates), or name a file of them with sslrootcert"
            .to_owned()),
    }
}

fn in_file(file: &Path) -> Result<RootCertStore, String> {
    let bad = |what: String| {
        format!(
            "its certificates (sslrootcert={}) cannot be used: {what}; expected a file of PEM certificates",
            file.display()
        )
    };
    let found = CertificateDer::pem_file_iter(file).map_err(|error| bad(error.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in found {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        store.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if store.is_empty() { Err(bad("there are none in it".to_owned())) } else { Ok(store) }
}

/// Why the server is not spoken to. This does not pass by itself.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server's certificate does not pass sslmode={mode}: {reason}; name the certificate of its \
     issuer with sslrootcert=FILE, and the server as its certificate does, or have it certified anew"
)]
pub(crate) struct Distrusted {
    mode: &'static str,
    reason: String,
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, InvalidDnsNameError> {
        let name = ServerName::try_from(domain.to_owned())?;
        Ok(Handshake { tls: self.clone(), name })
    }
}

/// What is about to be done on a connection.
#[derive(Debug)]
pub(crate) struct Handshake {
    tls: Tls,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Encrypted, Self::Error>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let Self { tls: Tls { mode, connector }, name } = self;
        Box::pin(async move {
            match connector.connect(name, socket).await {
                Ok(stream) => Ok(Encrypted(Box::new(stream))),
                Err(error) => Err(match error.get_ref().and_then(|it| it.downcast_ref()) {
                    Some(rustls::Error::InvalidCertificate(_)) => {
                        Distrusted { mode: mode.name(), reason: error.to_string() }.into()
                    }
                    _ => error.into(),
                }),
            }
        })
    }
}

/// A connection that is encrypted.
#[derive(Debug)]
pub(crate) struct Encrypted(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Encrypted {
    /// The certificate was checked, so that nobody is in between.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}
