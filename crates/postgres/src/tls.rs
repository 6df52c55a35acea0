//! Encrypted connections with rustls and ring, which verify the server's certificate and name.

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

/// The TLS mode of an address. Both modes verify the same.
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

/// The source of trusted root certificates.
#[derive(Debug)]
pub(crate) enum Roots {
    /// Certificates that the system trusts.
    System,
    /// Only the certificates in a file.
    File(PathBuf),
}

/// The TLS configuration of connections.
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
    /// Creates the configuration, or returns the reason why this is not possible.
    pub(crate) fn new(mode: Mode, roots: &Roots) -> Result<Self, String> {
        let roots = match roots {
            Roots::System => system()?,
            Roots::File(file) => in_file(file)?,
        };
        // The provider is passed explicitly. The process-wide default belongs to the program.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Protocol name of Postgres, which the server requires for direct TLS
        // (`sslnegotiation=direct`).
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { mode, connector: TlsConnector::from(Arc::new(config)) })
    }
}

/// Loads the certificates that the system trusts, including `SSL_CERT_FILE` and `SSL_CERT_DIR`.
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

/// An error for a rejected certificate. It is permanent.
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

/// A TLS handshake to be performed on a connection.
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

/// An encrypted connection.
#[derive(Debug)]
pub(crate) struct Encrypted(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Encrypted {
    /// Not needed: the certificate is verified, which excludes a man in the middle.
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
