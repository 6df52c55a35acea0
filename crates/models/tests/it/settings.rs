//! Settings of models: fallbacks, limits and the response cache.

use crate::desk::{Desk, request};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_models::{
    ChatEvent, ChatModel, ChatRequest, ChatResponse, ChatStream, FinishReason, ModelCallError,
    ModelCaller, ModelError, ModelInfo, ModelProvider, ModelRegistry, ModelSettings, Recorder,
    RefusalKind, RetryPolicy, SettingsTable, ToolChoice,
};
use weftwork_testkit::ManualClock;
use weftwork_types::port::{CallContext, Clock};
use weftwork_types::usage::{Tokens, UsageStatus};
use weftwork_types::{OrgId, Principal};

/// A provider whose models answer with their name, or fail if their name begins with `bad`.
#[derive(Debug)]
struct Lab {
    clock: ManualClock,
    /// Names of the models that were called, in order, with the last word of the request.
    calls: Mutex<Vec<(String, String)>>,
    active: AtomicUsize,
    most_active: AtomicUsize,
}

impl Lab {
    fn new(clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            calls: Mutex::default(),
            active: AtomicUsize::new(0),
            most_active: AtomicUsize::new(0),
        })
    }

    fn calls(&self) -> Vec<(String, String)> {
        self.calls.lock().expect("a lock").clone()
    }

    fn called(&self) -> Vec<String> {
        self.calls().into_iter().map(|(model, _)| model).collect()
    }
}

#[derive(Debug)]
struct LabProvider(Arc<Lab>);

impl ModelProvider for LabProvider {
    fn name(&self) -> &str {
        "lab"
    }

    fn open(&self, model: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        let info = ModelInfo { provider: "lab".to_owned(), model: model.to_owned(), label: None };
        Ok(Arc::new(LabModel { info, lab: Arc::clone(&self.0) }))
    }

    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    fn ready(&self) -> Result<(), ModelError> {
        Ok(())
    }
}

#[derive(Debug)]
struct LabModel {
    info: ModelInfo,
    lab: Arc<Lab>,
}

impl ChatModel for LabModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let lab = Arc::clone(&self.lab);
        let model = self.info.model.clone();
        let asked = request.messages.last().expect("a message").joined_text();
        let answer = async move {
            lab.calls.lock().expect("a lock").push((model.clone(), asked));
            let active = lab.active.fetch_add(1, Ordering::SeqCst) + 1;
            lab.most_active.fetch_max(active, Ordering::SeqCst);
            tokio::task::yield_now().await;
            lab.clock.sleep(Duration::from_millis(10)).await;
            lab.active.fetch_sub(1, Ordering::SeqCst);
            let failed = |kind| ModelError::Provider {
                provider: "lab".to_owned(),
                status: 503,
                message: "down".to_owned(),
                retry_after: None,
                kind,
            };
            if model.starts_with("bad") {
                return vec![Err(failed(RefusalKind::Unavailable))];
            }
            if model.starts_with("strict") {
                let message = "no".to_owned();
                let kind = RefusalKind::InvalidRequest;
                let provider = "lab".to_owned();
                return vec![Err(ModelError::BadRequest { provider, status: 400, message, kind })];
            }
            let reason = FinishReason::Stop;
            vec![
                Ok(ChatEvent::TextDelta(format!("I am {model}"))),
                Ok(ChatEvent::Usage(Tokens::reported(10, 5))),
                Ok(ChatEvent::Finish { reason, provider_call_id: None }),
            ]
        };
        stream::once(answer).flat_map(stream::iter).boxed()
    }
}

fn registry(lab: &Arc<Lab>, settings: &str) -> ModelRegistry {
    let settings: BTreeMap<String, ModelSettings> = toml::from_str(settings).expect("settings");
    let clock: Arc<dyn Clock> = Arc::new(lab.clock.clone());
    let mut registry = ModelRegistry::default();
    registry.register(Arc::new(LabProvider(Arc::clone(lab))));
    let settings = SettingsTable::new(settings, &|_| None, &clock).expect("settings");
    registry.with_settings(settings)
}

#[tokio::test]
async fn a_failing_model_gives_way_to_its_fallbacks_and_every_attempt_is_counted() {
    let clock = ManualClock::moved_by_sleeps();
    let lab = Lab::new(&clock);
    let registry = registry(&lab, "[\"lab:bad\"]\nfallback = [\"lab:bad2\", \"lab:good\"]");
    let model = registry.resolve("lab:bad").expect("a model");
    let desk = Desk::new();
    let caller = ModelCaller::default();
    let context = desk.context(&clock);
    let answer = caller.call(&*model, request("hi"), &context).await.expect("an answer");
    assert_eq!(
        (answer.model.as_str(), answer.message.joined_text()),
        ("lab:good", "I am good".into())
    );
    assert_eq!(lab.called(), ["bad", "bad", "bad", "bad2", "bad2", "bad2", "good"]);
    let facts = desk.facts();
    let told: Vec<_> =
        facts.iter().map(|fact| (fact.attempt, fact.model.as_str(), fact.status)).collect();
    let failed = UsageStatus::Error;
    assert_eq!(
        told,
        [
            (1, "bad", failed),
            (2, "bad", failed),
            (3, "bad", failed),
            (4, "bad2", failed),
            (5, "bad2", failed),
            (6, "bad2", failed),
            (7, "good", UsageStatus::Ok),
        ]
    );
    assert_eq!(desk.booked(), facts);
    assert_eq!(desk.settled.lock().expect("a lock").len(), 1, "one journal record");
    // The next process pays nothing, and its answer names the same model.
    let again = caller.call(&*model, request("hi"), &context).await.expect("recorded");
    assert_eq!(again, answer);
    assert_eq!(lab.called().len(), 7);
}

#[tokio::test]
async fn a_fallback_is_for_the_failures_that_are_named() {
    let clock = ManualClock::moved_by_sleeps();
    let lab = Lab::new(&clock);
    let settings = "[\"lab:strict\"]\nfallback = [\"lab:good\"]\n\
         [\"lab:bad\"]\nfallback = [\"lab:good\"]\nfallback_on = [\"rate_limit\"]";
    let registry = registry(&lab, settings);
    for (id, code) in [("lab:strict", "W0306"), ("lab:bad", "W0305")] {
        let model = registry.resolve(id).expect("a model");
        let desk = Desk::new();
        let caller = ModelCaller::new(RetryPolicy::once());
        let found = caller.call(&*model, request("hi"), &desk.context(&clock)).await;
        assert_eq!(found.expect_err("no fallback").code().0, code, "{id}");
    }
    assert_eq!(lab.called(), ["strict", "bad"]);
    let unknown = registry.resolve("lab:good").expect("a model without settings");
    assert!(unknown.cache().is_none());
}

#[tokio::test]
async fn settings_that_cannot_be_read_are_named() {
    for (text, said) in [
        ("[\"lab:x\"]\nfallbacks = []", "unknown field `fallbacks`"),
        ("[\"lab:x\"]\nfallback_on = [\"tired\"]", "unknown variant `tired`"),
        ("[\"lab:x\"]\nconcurrent = -1", "invalid value"),
    ] {
        let read: Result<BTreeMap<String, ModelSettings>, _> = toml::from_str(text);
        let error = read.expect_err("not settings").to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[tokio::test]
async fn callers_wait_for_the_limits_in_their_order() {
    let clock = ManualClock::moved_by_sleeps();
    let lab = Lab::new(&clock);
    let registry = registry(&lab, "[\"lab:m\"]\nconcurrent = 5\nrequests_per_minute = 60");
    let begun = clock.elapsed();
    let calls = (0..200).map(|number| {
        // Every caller resolves the model anew: the limits are the model's, not the caller's.
        let model = registry.resolve("lab:m").expect("a model");
        let clock = clock.clone();
        async move {
            let desk = Desk::new();
            let request = request(&number.to_string());
            let call = ModelCaller::default().call(&*model, request, &desk.context(&clock)).await;
            call.expect("an answer");
        }
    });
    futures_util::future::join_all(calls).await;
    let order: Vec<String> = lab.calls().into_iter().map(|(_, asked)| asked).collect();
    assert_eq!(order, (0..200).map(|number| number.to_string()).collect::<Vec<_>>());
    let most = lab.most_active.load(Ordering::SeqCst);
    assert!((2..=5).contains(&most), "{most} at once");
    let took = clock.elapsed().saturating_sub(begun);
    // 200 calls at 60 a minute need the beginning of the fourth minute.
    assert!(took >= Duration::from_secs(180) && took < Duration::from_secs(240), "{took:?}");
}

#[tokio::test]
async fn tokens_are_limited_and_a_caller_that_gives_up_takes_no_turn() {
    let clock = ManualClock::new();
    let lab = Lab::new(&clock);
    let registry = registry(&lab, "[\"lab:m\"]\ntokens_per_minute = 1000");
    let model = registry.resolve("lab:m").expect("a model");
    let large = || ChatRequest { max_tokens: Some(900), ..request("hi") };
    let desk = Desk::new();
    let ask = |request: ChatRequest| {
        let model = Arc::clone(&model);
        let context = desk.context(&clock);
        async move { ModelCaller::default().call(&*model, request, &context).await }
    };
    assert!(
        Recorder::new(Arc::clone(&model), "unused").limiter().is_some(),
        "a recording waits too"
    );
    let first = tokio::spawn(ask(large()));
    finish(first, &clock).await;
    // The second has to wait, and gives up.
    assert!(ask(ChatRequest { temperature: Some(0.5), ..large() }).now_or_never().is_none());
    assert_eq!(desk.facts().len(), 1, "a call that was not sent uses nothing");
    let mut late = desk.context(&clock);
    late.deadline = Some(clock.now().plus(Duration::from_secs(1)));
    let waits = async {
        let request = ChatRequest { temperature: Some(0.4), ..large() };
        ModelCaller::default().call(&*model, request, &late).await
    };
    let passes = async { clock.advance(Duration::from_secs(1)) };
    let (ended, ()) = futures_util::future::join(waits, passes).await;
    assert_eq!(ended.expect_err("the deadline passes").fault().code, "W0124");
    assert_eq!(desk.facts().len(), 1, "nor does one whose deadline passes");
    let third = tokio::spawn(ask(ChatRequest { temperature: Some(0.6), ..large() }));
    clock.advance(Duration::from_secs(49));
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(lab.called().len(), 1, "a minute has not passed");
    clock.advance(Duration::from_secs(10));
    finish(third, &clock).await;
    assert_eq!(lab.called().len(), 2);
}

/// Moves the clock until a call has its answer.
async fn finish(
    call: tokio::task::JoinHandle<Result<ChatResponse, ModelCallError>>,
    clock: &ManualClock,
) {
    for _ in 0..100 {
        if call.is_finished() {
            break;
        }
        clock.advance(Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    assert!(call.is_finished(), "the call does not end");
    call.await.expect("no panic").expect("an answer");
}

#[tokio::test]
async fn the_cache_gives_an_answer_to_the_same_request_of_the_same_principal() {
    let clock = ManualClock::moved_by_sleeps();
    let lab = Lab::new(&clock);
    let registry = registry(&lab, "[\"lab:m\"]\ncache_seconds = 60");
    let model = registry.resolve("lab:m").expect("a model");
    let other = Principal::new(OrgId::new("other").expect("an id"), "ada");
    let schema = ChatRequest { response_schema: Some(json!({})), ..request("hi") };
    let choice = ChatRequest { tool_choice: ToolChoice::None, ..request("hi") };
    let asks = [
        (request("hi"), None, 1),
        (request("hi"), None, 1),
        (request("hi"), Some(other), 2),
        (schema, None, 3),
        (choice, None, 4),
        (request("hi"), None, 4),
    ];
    for (number, (request, principal, calls)) in asks.into_iter().enumerate() {
        // Each has a journal of its own: nothing is reused from there.
        let desk = Desk::new();
        let mut context = desk.context(&clock);
        context.principal = principal.unwrap_or(context.principal);
        let answer = ModelCaller::default().call(&*model, request, &context).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.message.joined_text(), "I am m");
        assert_eq!(lab.called().len(), calls, "request {number}");
        let fact = desk.facts().pop().expect("a fact");
        assert_eq!(desk.booked(), std::slice::from_ref(&fact));
        assert_eq!(desk.shown(), "I am m");
        let is_cached = number == 1 || number == 5;
        let expected = if is_cached { (0, 0) } else { (1, 15) };
        assert_eq!((fact.attempt, fact.tokens.total()), expected, "request {number}");
        assert_eq!(desk.settled.lock().expect("a lock").len(), 1, "recorded as any answer");
    }
    clock.advance(Duration::from_secs(60));
    let desk = Desk::new();
    let context = desk.context(&clock);
    ModelCaller::default().call(&*model, request("hi"), &context).await.expect("an answer");
    assert_eq!(lab.called().len(), 5, "the answer was too old");
    let late = CallContext { deadline: Some(clock.now()), ..Desk::new().context(&clock) };
    let refused = ModelCaller::default().call(&*model, request("hi"), &late).await;
    assert_eq!(refused.expect_err("the deadline has passed").code().0, "W0124");
}
