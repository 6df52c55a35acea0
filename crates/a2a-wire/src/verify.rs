//! Verification of the signatures of agent cards by keys that the client has.

use super::AgentCardSignature;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fmt;
use weftwork_types::canonical;

/// Maximum number of signatures of a card that are verified.
const SIGNATURES_MAX: usize = 8;
/// Length of a coordinate of P-256, and of a key of Ed25519, in bytes.
const COORDINATE_BYTES: usize = 32;
/// Members of a card. Servers add others, for clients of earlier versions, which no signature covers.
const MEMBERS: [&str; 13] = [
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "description",
    "documentationUrl",
    "iconUrl",
    "name",
    "provider",
    "securityRequirements",
    "securitySchemes",
    "skills",
    "supportedInterfaces",
    "version",
];

/// Error of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key is no JSON Web Key of Ed25519 (`kty`, `crv`, `x`) or of the curve P-256 (`kty`, `crv`, `x`, `y`)"
)]
pub struct BadPublicKey;

/// Public keys of which one has to have signed a card.
#[derive(Clone)]
pub struct CardVerifier(Vec<PublicKey>);

#[derive(Clone)]
struct PublicKey {
    /// Name of the algorithm in headers.
    name: &'static str,
    algorithm: &'static dyn VerificationAlgorithm,
    bytes: Vec<u8>,
}

/// The protected header of a signature. `jku` and `jwk`, by which it could bring its own key, are not read.
#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    crit: Option<Value>,
}

impl fmt::Debug for CardVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CardVerifier").field(&self.0.len()).finish()
    }
}

impl PublicKey {
    fn read(key: &Value) -> Result<Self, BadPublicKey> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let part = |name: &str| {
            let bytes = text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
            bytes.filter(|bytes| bytes.len() == COORDINATE_BYTES).ok_or(BadPublicKey)
        };
        match [text("kty"), text("crv")] {
            [Some("OKP"), Some("Ed25519")] => {
                Ok(Self { name: "EdDSA", algorithm: &ED25519, bytes: part("x")? })
            }
            [Some("EC"), Some("P-256")] => {
                // An uncompressed point.
                let bytes = [vec![4], part("x")?, part("y")?].concat();
                Ok(Self { name: "ES256", algorithm: &ECDSA_P256_SHA256_FIXED, bytes })
            }
            _ => Err(BadPublicKey),
        }
    }

    fn verifies(&self, signature: &AgentCardSignature, payload: &str) -> bool {
        let header = URL_SAFE_NO_PAD.decode(&signature.protected).ok();
        let header = header.and_then(|bytes| serde_json::from_slice::<Header>(&bytes).ok());
        // What a critical member means is not known here.
        let fits = header.is_some_and(|of| of.alg == self.name && of.crit.is_none());
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(&signature.signature) else { return false };
        let signed = format!("{}.{}", signature.protected, URL_SAFE_NO_PAD.encode(payload));
        let key = UnparsedPublicKey::new(self.algorithm, &self.bytes);
        fits && key.verify(signed.as_bytes(), &bytes).is_ok()
    }
}

impl CardVerifier {
    /// Reads public keys, as JSON Web Keys (RFC 7517).
    ///
    /// # Errors
    /// [`BadPublicKey`] for another form, or another kind of key.
    pub fn new(keys: &[Value]) -> Result<Self, BadPublicKey> {
        Ok(Self(keys.iter().map(PublicKey::read).collect::<Result<_, _>>()?))
    }

    /// Returns `true` if one of the keys has signed the card: as it is, or, as some servers sign it, without
    /// empty members and members of other versions.
    #[must_use]
    pub fn verifies(&self, card: &Value) -> bool {
        let signatures = card.get("signatures").and_then(Value::as_array);
        let signatures = signatures.into_iter().flatten().take(SIGNATURES_MAX);
        let signatures: Vec<AgentCardSignature> =
            signatures.filter_map(|of| AgentCardSignature::deserialize(of).ok()).collect();
        let Value::Object(members) = card else { return false };
        let mut whole = members.clone();
        whole.remove("signatures");
        let known = whole.iter().filter(|(name, _)| MEMBERS.contains(&name.as_str()));
        let known: Map<_, _> = known.map(|(name, of)| (name.clone(), of.clone())).collect();
        let forms = [Value::Object(whole), without_empty(Value::Object(known))];
        let payloads = forms.map(|form| canonical::to_string(&form));
        signatures.iter().any(|signature| {
            payloads.iter().any(|payload| self.0.iter().any(|key| key.verifies(signature, payload)))
        })
    }
}

/// Returns a value without empty texts, lists and objects.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            items.into_iter().map(without_empty).filter(|item| !is_empty(item)).collect()
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, without_empty(member)))
            .filter(|(_, member)| !is_empty(member))
            .collect(),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CardKey;
    use base64::engine::general_purpose::STANDARD;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
    use serde_json::json;

    fn keys() -> [CardKey; 2] {
        let random = SystemRandom::new();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).expect("is made");
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        [ed25519, p256.expect("is made")].map(|pkcs8| {
            let body = STANDARD.encode(pkcs8.as_ref());
            let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
            CardKey::from_pem(&pem).expect("is read")
        })
    }

    fn verifier(key: &CardKey) -> CardVerifier {
        CardVerifier::new(key.key_set()["keys"].as_array().expect("a list")).expect("is read")
    }

    fn signed(key: &CardKey, mut card: Value) -> Value {
        let signature = key.sign(&card).expect("is signed");
        card["signatures"] = json!([signature]);
        card
    }

    #[test]
    fn a_card_is_verified_by_a_pinned_key_alone() {
        let [ed25519, p256] = keys();
        for (key, other) in [(&ed25519, &p256), (&p256, &ed25519)] {
            let card = signed(key, json!({"name": "golf", "skills": []}));
            assert!(verifier(key).verifies(&card));
            assert!(!verifier(other).verifies(&card), "another key");
            let mut changed = card.clone();
            changed["name"] = json!("gulf");
            assert!(!verifier(key).verifies(&changed), "another name");
            assert!(!verifier(key).verifies(&json!({"name": "golf"})), "no signature");
            assert!(!verifier(key).verifies(&json!("golf")));
            // A signature whose header names another algorithm, or asks for more.
            for header in
                [json!({"alg": "none"}), json!({"alg": "HS256"}), json!({"crit": ["b64"]})]
            {
                let mut forged = card.clone();
                forged["signatures"][0]["protected"] =
                    json!(URL_SAFE_NO_PAD.encode(header.to_string()));
                assert!(!verifier(key).verifies(&forged), "{header}");
            }
        }
        let both = [ed25519.key_set()["keys"][0].clone(), p256.key_set()["keys"][0].clone()];
        let both = CardVerifier::new(&both).expect("are read");
        assert!(both.verifies(&signed(&p256, json!({"name": "golf"}))));
    }

    #[test]
    fn members_of_other_versions_and_empty_ones_are_not_signed() {
        let [key, _] = keys();
        let mut card =
            signed(&key, json!({"name": "golf", "provider": {"url": "https://a.example"}}));
        card["url"] = json!("https://elsewhere.example");
        card["description"] = json!("");
        card["provider"]["organization"] = json!("");
        assert!(verifier(&key).verifies(&card));
        card["description"] = json!("forged");
        assert!(!verifier(&key).verifies(&card));
    }

    #[test]
    fn other_values_are_no_keys() {
        let [key, _] = keys();
        let mut short = key.key_set()["keys"][0].clone();
        short["x"] = json!("AAAA");
        for wrong in [json!({}), json!("key"), json!({"kty": "RSA", "n": "AQAB"}), short] {
            assert_eq!(
                CardVerifier::new(std::slice::from_ref(&wrong)).expect_err("no key"),
                BadPublicKey,
                "{wrong}"
            );
        }
    }
}
