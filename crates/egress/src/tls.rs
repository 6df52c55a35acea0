//! TLS: rustls with ring and the system's trusted certificates.

use crate::ConfigError;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use std::sync::Arc;

/// The TLS configuration of every connection. The crypto provider is set here and not for the whole
/// process, which belongs to the program that uses this library.
pub(crate) fn config() -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::Tls { reason: error.to_string() })?
        .with_root_certificates(roots()?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The system's certificates, including `SSL_CERT_FILE` and `SSL_CERT_DIR`. Mozilla's certificates
/// are used if the system has none, for example without the `ca-certificates` package.
fn roots() -> Result<RootCertStore, ConfigError> {
    let named = std::env::var_os("SSL_CERT_FILE").is_some_and(|file| !file.is_empty());
    choose(rustls_native_certs::load_native_certs(), named)
}

/// Uses the found certificates, or Mozilla's if there are none. Mozilla's never replace a file that
/// was configured explicitly.
fn choose(found: CertificateResult, named: bool) -> Result<RootCertStore, ConfigError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() && named {
        let why = found.errors.first().map(ToString::to_string);
        let why = why.unwrap_or_else(|| "it contains no certificate".to_owned());
        return Err(ConfigError::Tls { reason: format!("`SSL_CERT_FILE`: {why}") });
    }
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_found_and_no_provider_is_installed() {
        let config = config().expect("a configuration");
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }

    #[test]
    fn a_machine_without_certificates_gets_mozillas_but_a_named_file_is_not_replaced() {
        let store = choose(CertificateResult::default(), false).expect("certificates");
        assert_eq!(store.len(), webpki_roots::TLS_SERVER_ROOTS.len());
        let error = choose(CertificateResult::default(), true).expect_err("an empty file");
        assert_eq!(error.code().0, "W0808");
        assert!(
            error.to_string().ends_with("`SSL_CERT_FILE`: it contains no certificate"),
            "{error}"
        );
    }
}
