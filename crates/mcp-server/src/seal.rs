//! Signatures of what clients send back: the state of a request, and the ids of requests to them.
//!
//! A signature binds the principal, the run that asked, and the request. Its key is a value that is stored
//! with the first run of the call, so that the state needs no other record, and is the same in every
//! process. It is no secret from the principal of the call, who may answer its questions by other routes
//! too: nobody else finds the run.

use crate::message::Params;
use ring::hmac;
use serde_json::json;
use uuid::Uuid;
use weftwork_types::{InterruptId, Principal, RunId, canonical};

/// Length of a signature in hex digits.
const SIGNATURE_DIGITS: usize = 64;

/// A run that asked, and the request to which its questions belong.
#[derive(Debug, Clone)]
pub(crate) struct Sealed<'a> {
    pub(crate) who: &'a Principal,
    pub(crate) run: &'a RunId,
    pub(crate) of: Of<'a>,
}

/// The subject of a signature.
#[derive(Debug, Clone)]
pub(crate) enum Of<'a> {
    /// A call of a tool, which is sent again with these arguments.
    Call { tool: &'a str, arguments: &'a Params },
    /// A request for input.
    Question(InterruptId),
}

impl Sealed<'_> {
    fn content(&self) -> String {
        let of = match &self.of {
            Of::Call { tool, arguments } => {
                json!(["call", tool, canonical::hash(&json!(arguments))])
            }
            Of::Question(id) => json!(["question", id]),
        };
        let Self { who, run, .. } = self;
        canonical::to_string(&json!([who.org, who.subject, run, of]))
    }

    /// Returns the text for the client.
    pub(crate) fn sign(&self, seal: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, seal.as_bytes());
        let signature = hmac::sign(&key, self.content().as_bytes());
        let digits: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{digits}", self.run)
    }

    /// Returns `true` if a text is the one for the client.
    pub(crate) fn is_signed_by(&self, text: &str, seal: &str) -> bool {
        let signature = text.rsplit_once('.').map(|(_, digits)| digits).and_then(bytes_of);
        let key = hmac::Key::new(hmac::HMAC_SHA256, seal.as_bytes());
        !seal.is_empty()
            && signature.is_some_and(|signature| {
                hmac::verify(&key, self.content().as_bytes(), &signature).is_ok()
            })
    }
}

/// Returns the run that a text of a client names, signed or not.
pub(crate) fn run_of(text: &str) -> Option<RunId> {
    let (run, _) = text.split_once('.')?;
    let uuid = Uuid::try_parse(run).ok()?;
    let run_id = RunId::from_uuid(uuid);
    (run_id.as_str() == run).then_some(run_id)
}

/// Returns the id of a request for input.
pub(crate) fn question_id(sealed: &str, question: InterruptId) -> String {
    format!("{question}/{sealed}")
}

/// Returns the question and the signed text of the id of a request for input.
pub(crate) fn read_question_id(id: &str) -> Option<(InterruptId, &str)> {
    let (question, sealed) = id.split_once('/')?;
    Some((question.parse().ok()?, sealed))
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    if digits.len() != SIGNATURE_DIGITS || !digits.is_ascii() {
        return None;
    }
    let pairs = (0..SIGNATURE_DIGITS).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::OrgId;

    #[test]
    fn a_signature_binds_the_principal_the_run_the_request_and_the_key() {
        let of =
            |org: &str, subject: &str| Principal::new(OrgId::new(org).expect("valid"), subject);
        let ada = of("one", "ada");
        let run = RunId::from_uuid(Uuid::from_u128(7));
        let arguments = |text: &str| Params::from_iter([("message".to_owned(), json!(text))]);
        let [same, other_text] = ["a", "b"].map(arguments);
        let call = Of::Call { tool: "golf", arguments: &same };
        let sealed = Sealed { who: &ada, run: &run, of: call };
        let text = sealed.sign("key");
        assert_eq!(run_of(&text), Some(run.clone()));
        assert!(sealed.is_signed_by(&text, "key"));
        assert!(!sealed.is_signed_by(&text, "other"));
        assert!(!sealed.is_signed_by(&text, ""));
        for who in [of("two", "ada"), of("one", "eve")] {
            assert!(!Sealed { who: &who, ..sealed.clone() }.is_signed_by(&text, "key"));
        }
        let other = RunId::from_uuid(Uuid::from_u128(8));
        assert!(!Sealed { run: &other, ..sealed.clone() }.is_signed_by(&text, "key"));
        for of in [
            Of::Call { tool: "golf", arguments: &other_text },
            Of::Call { tool: "clerk", arguments: &same },
            Of::Question(InterruptId(1)),
        ] {
            assert!(!Sealed { of, ..sealed.clone() }.is_signed_by(&text, "key"));
        }
        for wrong in ["", ".", "x", "x.y", &text[..text.len() - 1], &format!("{text}0")] {
            assert!(!sealed.is_signed_by(wrong, "key"), "{wrong}");
        }
    }

    #[test]
    fn the_id_of_a_request_for_input_names_its_question() {
        let id = question_id("run.digits", InterruptId(3));
        assert_eq!(read_question_id(&id), Some((InterruptId(3), "run.digits")));
        for wrong in ["", "/", "x/y", "1"] {
            assert_eq!(read_question_id(wrong), None, "{wrong}");
        }
    }
}
