//! Signatures over agent cards: JSON Web Signatures with a key of the operator.

use super::AgentCardSignature;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use weftwork_types::canonical;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// Error of a key for the signatures of cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is no PEM.
    #[error(
        "the key is no private key in PEM (PKCS #8); make one with `openssl genpkey -algorithm ed25519`"
    )]
    NoPem,
    /// The key is of another kind.
    #[error(
        "the key is neither of Ed25519 nor of the curve P-256; make one with `openssl genpkey \
         -algorithm ed25519`"
    )]
    Unsupported,
}

enum Secret {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

/// A key that signs agent cards.
#[derive(Clone)]
pub struct CardKey {
    secret: Arc<Secret>,
    id: String,
}

impl fmt::Debug for CardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl CardKey {
    /// Reads a private key of Ed25519 or P-256 from its PEM.
    ///
    /// # Errors
    /// [`KeyError`], which has no part of the key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let body = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
        let (body, _) = body.ok_or(KeyError::NoPem)?;
        let digits: String = body.split_whitespace().collect();
        let bytes = STANDARD.decode(digits).map_err(|_| KeyError::NoPem)?;
        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let secret = match Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes) {
            Ok(key) => Secret::Ed25519(key),
            Err(_) => EcdsaKeyPair::from_pkcs8(curve, &bytes, &SystemRandom::new())
                .map(Secret::P256)
                .map_err(|_| KeyError::Unsupported)?,
        };
        // RFC 7638: the thumbprint of the public key.
        let hash = canonical::hash(&public_key(&secret));
        let id = URL_SAFE_NO_PAD.encode(hash.0);
        Ok(Self { secret: Arc::new(secret), id })
    }

    /// Returns the set with the public key, by which clients verify cards (RFC 7517).
    #[must_use]
    pub fn key_set(&self) -> Value {
        let mut key = public_key(&self.secret);
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key["alg"] = json!(self.algorithm());
        json!({"keys": [key]})
    }

    fn algorithm(&self) -> &'static str {
        match &*self.secret {
            Secret::Ed25519(_) => "EdDSA",
            Secret::P256(_) => "ES256",
        }
    }

    /// Signs a card that has no signatures. `None` if the system has no random numbers.
    #[must_use]
    pub fn sign(&self, card: &Value) -> Option<AgentCardSignature> {
        let header = json!({"alg": self.algorithm(), "typ": "JOSE", "kid": self.id});
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let payload = URL_SAFE_NO_PAD.encode(canonical::to_string(card));
        let signed = format!("{protected}.{payload}");
        let signature = match &*self.secret {
            Secret::Ed25519(key) => URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())),
            Secret::P256(key) => {
                let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
                URL_SAFE_NO_PAD.encode(signature)
            }
        };
        Some(AgentCardSignature { protected, signature })
    }
}

/// The public key as a JSON Web Key with its required members alone.
fn public_key(secret: &Secret) -> Value {
    match secret {
        Secret::Ed25519(key) => {
            let x = URL_SAFE_NO_PAD.encode(key.public_key());
            json!({"crv": "Ed25519", "kty": "OKP", "x": x})
        }
        Secret::P256(key) => {
            // An uncompressed point: a byte, and the two coordinates.
            let point = key.public_key().as_ref();
            let (x, y) = point.split_at_checked(1).unwrap_or_default().1.split_at(32);
            let x = URL_SAFE_NO_PAD.encode(x);
            let y = URL_SAFE_NO_PAD.encode(y);
            json!({"crv": "P-256", "kty": "EC", "x": x, "y": y})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};

    fn pem(pkcs8: &[u8]) -> String {
        format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(pkcs8))
    }

    fn decode(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).expect("Base64url")
    }

    #[test]
    fn a_card_is_signed_over_its_canonical_form() {
        let random = SystemRandom::new();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).expect("is made");
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let p256 = p256.expect("is made");
        for pkcs8 in [ed25519.as_ref(), p256.as_ref()] {
            let key = CardKey::from_pem(&pem(pkcs8)).expect("is read");
            let signature = key.sign(&json!({"b": "1", "a": []})).expect("is signed");
            let header: Value =
                serde_json::from_slice(&decode(&signature.protected)).expect("JSON");
            let public = &key.key_set()["keys"][0];
            assert_eq!(header["kid"], public["kid"]);
            assert_eq!(header["alg"], public["alg"]);
            let payload = URL_SAFE_NO_PAD.encode(r#"{"a":[],"b":"1"}"#);
            let signed = format!("{}.{payload}", signature.protected);
            let x = decode(public["x"].as_str().expect("a text"));
            let verified = match public["kty"].as_str() {
                Some("OKP") => UnparsedPublicKey::new(&ED25519, x)
                    .verify(signed.as_bytes(), &decode(&signature.signature)),
                _ => {
                    let y = decode(public["y"].as_str().expect("a text"));
                    let point = [vec![4], x, y].concat();
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                        .verify(signed.as_bytes(), &decode(&signature.signature))
                }
            };
            assert!(verified.is_ok(), "{public}");
            assert!(!format!("{key:?}").contains(&STANDARD.encode(pkcs8)));
        }
    }

    #[test]
    fn other_texts_are_no_keys() {
        for text in ["", "x", &format!("{BEGIN}\n!\n{END}"), &format!("{BEGIN}\nAAAA")] {
            assert_eq!(CardKey::from_pem(text).expect_err(text), KeyError::NoPem, "{text}");
        }
        let other = pem(b"other");
        assert_eq!(CardKey::from_pem(&other).expect_err("no key"), KeyError::Unsupported);
    }
}
