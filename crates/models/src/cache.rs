//! A cache of answers, for requests that are sent again.

use crate::call::ChatResponse;
use crate::{ChatRequest, fingerprint};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weftwork_types::Principal;
use weftwork_types::canonical::{self, Hash};

/// The maximum number of answers that are kept.
const ANSWERS_MAX: usize = 1_000;
/// The maximum size of all kept answers, in bytes of JSON.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Answers of one model in the memory of this process, for a limited time. The oldest ones give way
/// at 1,000 answers or 64 MiB.
#[derive(Debug)]
pub struct ResponseCache {
    lifetime: Duration,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    answers: HashMap<Hash, CachedAnswer>,
    /// Keys and times of storing, oldest first. A key that was stored again is in it twice.
    order: VecDeque<(Hash, Duration)>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedAnswer {
    response: ChatResponse,
    stored: Duration,
    bytes: usize,
}

impl ResponseCache {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self { lifetime, kept: Mutex::default() }
    }

    /// The key of a request: everything that can change the answer, and the principal. The prompt
    /// hash is no key: it leaves out the choice of tools and the schema of the answer.
    pub(crate) fn key(principal: &Principal, model: &str, request: &ChatRequest) -> Hash {
        canonical::hash(&json!({
            "org": principal.org, "subject": principal.subject, "model": model,
            "request": fingerprint::request(request),
        }))
    }

    /// Returns the answer for a key, unless it is too old at the given time.
    pub(crate) fn get(&self, key: &Hash, now: Duration) -> Option<ChatResponse> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = kept.answers.get(key)?;
        let age = now.saturating_sub(answer.stored);
        (age < self.lifetime).then(|| answer.response.clone())
    }

    /// Keeps an answer.
    pub(crate) fn insert(&self, key: Hash, response: &ChatResponse, now: Duration) {
        let bytes = serde_json::to_vec(response).map_or(usize::MAX, |json| json.len());
        if bytes > BYTES_MAX {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = CachedAnswer { response: response.clone(), stored: now, bytes };
        kept.bytes += bytes;
        if let Some(replaced) = kept.answers.insert(key, answer) {
            kept.bytes -= replaced.bytes;
        }
        kept.order.push_back((key, now));
        while kept.order.len() > ANSWERS_MAX || kept.bytes > BYTES_MAX {
            let Some((oldest, stored)) = kept.order.pop_front() else { break };
            if kept.answers.get(&oldest).is_some_and(|answer| answer.stored == stored) {
                let bytes = kept.answers.remove(&oldest).map_or(0, |answer| answer.bytes);
                kept.bytes -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FinishReason;
    use weftwork_types::MessageId;
    use weftwork_types::message::{Message, Role};
    use weftwork_types::usage::Tokens;

    fn answer(text: &str) -> ChatResponse {
        let id = MessageId::new("m").expect("an id");
        ChatResponse {
            message: Message::text(id, Role::Assistant, text),
            finish: FinishReason::Stop,
            tokens: Tokens::reported(1, 1),
            model: "lab:tiny".to_owned(),
            provider_call_id: None,
        }
    }

    fn key(number: usize) -> Hash {
        canonical::hash(&json!(number))
    }

    #[test]
    fn answers_grow_old_and_the_oldest_give_way() {
        let cache = ResponseCache::new(Duration::from_secs(10));
        let at = Duration::from_secs;
        cache.insert(key(0), &answer("first"), at(0));
        assert_eq!(cache.get(&key(0), at(9)), Some(answer("first")));
        assert_eq!(cache.get(&key(0), at(10)), None);
        for number in 1..=ANSWERS_MAX {
            cache.insert(key(number), &answer("later"), at(1));
        }
        assert_eq!(cache.get(&key(0), at(2)), None);
        assert!(cache.get(&key(1), at(2)).is_some());
        let large = "x".repeat(40 * 1024 * 1024);
        cache.insert(key(5_000), &answer(&large), at(3));
        assert!(cache.get(&key(ANSWERS_MAX), at(4)).is_some(), "there is room for both");
        cache.insert(key(5_001), &answer(&large), at(3));
        assert_eq!(cache.get(&key(5_000), at(4)), None);
        assert!(cache.get(&key(5_001), at(4)).is_some());
        cache.insert(key(5_002), &answer(&large.repeat(2)), at(3));
        assert_eq!(cache.get(&key(5_002), at(4)), None, "it is larger than the cache");
    }
}
