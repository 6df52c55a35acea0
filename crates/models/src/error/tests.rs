use super::*;
use weftwork_types::port::BudgetExceeded;

fn text(text: &str) -> String {
    text.to_owned()
}

fn fault() -> Fault {
    Fault::new(ErrorCode("W0501"), "the weights are missing")
}

/// An error, its code, whether it is retriable, and its message.
type Row = (ModelError, &'static str, bool, &'static str);

fn check(rows: Vec<Row>) {
    for (error, code, retriable, shown) in rows {
        assert_eq!((error.code().0, error.to_string().as_str()), (code, shown));
        assert_eq!(error.is_retriable(), retriable, "{code}");
    }
}

#[test]
fn what_providers_say_has_a_code_and_tells_what_to_do() {
    let provider = text("p");
    let message = text("words");
    check(vec![
        (
            ModelError::Unknown { found: text("x:y"), known: vec![text("a:b"), text("c:d")] },
            "W0301",
            false,
            "unknown model `x:y`; a model is PROVIDER:MODEL, known are: a:b, c:d",
        ),
        (
            ModelError::KeyMissing { provider: provider.clone(), variable: text("P_KEY") },
            "W0302",
            false,
            "provider `p` needs a key: set the environment variable `P_KEY`",
        ),
        (
            ModelError::KeyRefused {
                provider: provider.clone(),
                status: 401,
                message: message.clone(),
                variable: text("P_KEY"),
            },
            "W0303",
            false,
            "provider `p` refused the key (status 401): words; check `P_KEY`",
        ),
        (
            ModelError::Throttled {
                provider: provider.clone(),
                message: message.clone(),
                retry_after: None,
                kind: RefusalKind::RateLimit,
            },
            "W0304",
            true,
            "provider `p` limits requests: words",
        ),
        (
            ModelError::Throttled {
                provider: provider.clone(),
                message: message.clone(),
                retry_after: Some(Duration::from_secs(3600)),
                kind: RefusalKind::RateLimit,
            },
            "W0304",
            true,
            "provider `p` limits requests: words; it asks to wait 3600 s, which is too long for a call",
        ),
        (
            ModelError::Provider {
                provider: provider.clone(),
                status: 500,
                message: message.clone(),
                retry_after: None,
                kind: RefusalKind::Unavailable,
            },
            "W0305",
            true,
            "provider `p` failed with status 500: words",
        ),
        (
            ModelError::BadRequest {
                provider: provider.clone(),
                status: 404,
                message,
                kind: RefusalKind::NotFound,
            },
            "W0306",
            false,
            "provider `p` refused the request (status 404): words",
        ),
        (
            ModelError::Truncated {
                provider: provider.clone(),
                events: 3,
                reason: text("it fell"),
            },
            "W0307",
            true,
            "the answer of `p` was cut off after 3 events: it fell",
        ),
        (
            ModelError::Malformed {
                provider: provider.clone(),
                reason: text("it is too large"),
                retriable: false,
            },
            "W0308",
            false,
            "the answer of `p` cannot be read: it is too large",
        ),
        (
            ModelError::Malformed { provider, reason: text("a web page"), retriable: true },
            "W0308",
            true,
            "the answer of `p` cannot be read: a web page",
        ),
    ]);
}

#[test]
fn answers_that_are_none_have_a_code_and_tell_what_to_do() {
    let provider = text("p");
    check(vec![
        (
            ModelError::Empty {
                provider: provider.clone(),
                finish: FinishReason::Stop,
                tokens: Tokens::reported(11, 0),
                limit: None,
            },
            "W0317",
            true,
            "the answer of `p` is empty: it ended without a text or a call",
        ),
        (
            ModelError::Empty {
                provider: provider.clone(),
                finish: FinishReason::Length,
                tokens: Tokens::reported(11, 50).reasoning(48),
                limit: Some(50),
            },
            "W0317",
            false,
            "the answer of `p` reached the token limit of 50 before any text or call, with 50 tokens, 48 of them for reasoning; raise `max_tokens`",
        ),
        (
            ModelError::Empty {
                provider: provider.clone(),
                finish: FinishReason::Length,
                tokens: Tokens::estimated(11, 0),
                limit: None,
            },
            "W0317",
            false,
            "the answer of `p` reached the token limit of the model or of the provider before any text or call; raise `max_tokens`",
        ),
        (
            ModelError::Paused { provider: provider.clone(), continued: 0 },
            "W0318",
            false,
            "the answer of `p` is not complete: the provider paused it (`pause_turn`) and this protocol cannot continue it",
        ),
        (
            ModelError::Paused { provider, continued: 5 },
            "W0318",
            false,
            "the answer of `p` is not complete: the provider paused it (`pause_turn`) again after it was continued 5 times, which is the limit",
        ),
    ]);
}

#[test]
fn what_goes_wrong_on_our_side_has_a_code_and_tells_what_to_do() {
    let provider = text("p");
    check(vec![
        (
            ModelError::Transport {
                provider: provider.clone(),
                source: EgressError::Connect { host: text("h:1"), reason: text("refused") },
            },
            "W0309",
            true,
            "provider `p` is out of reach: cannot connect to `h:1`: refused",
        ),
        (
            ModelError::Unsupported { model: text("p:m"), what: text("sound") },
            "W0310",
            false,
            "model `p:m` cannot do this: sound",
        ),
        (
            ModelError::NotRecorded { file: text("f"), index: 2, reason: text("it differs") },
            "W0311",
            false,
            "the recording `f` holds no answer for request 2: it differs",
        ),
        (
            ModelError::Engine { source: fault() },
            "W0312",
            false,
            "the embedded model failed: the weights are missing",
        ),
        (
            ModelError::Deadline { provider: provider.clone() },
            "W0124",
            false,
            "the deadline leaves no time for an answer of `p`",
        ),
        (
            ModelError::Journal(JournalError { name: text("p:m"), source: fault() }),
            "W0314",
            false,
            "call of `p:m` cannot be recorded: the weights are missing",
        ),
        (
            ModelError::CutByLimit { provider: provider.clone(), tool: String::new() },
            "W0315",
            false,
            "the answer of `p` reached the token limit inside the arguments of a call whose tool has no name yet; raise `max_tokens`",
        ),
        (
            ModelError::CutByLimit { provider: provider.clone(), tool: text("refund") },
            "W0315",
            false,
            "the answer of `p` reached the token limit inside the arguments of `refund`; raise `max_tokens`",
        ),
        (
            ModelError::BadProvider { provider, reason: text("it has no `url`") },
            "W0316",
            false,
            "provider `p` is not set up right: it has no `url`",
        ),
        (
            ModelError::Budget(
                BudgetExceeded {
                    budget: "budget",
                    unit: "model calls",
                    used: 3,
                    needed: 1,
                    limit: 3,
                }
                .into(),
            ),
            "W0601",
            false,
            "budget is used up: 3 of 3 model calls; raise the limit to go on",
        ),
    ]);
}

#[test]
fn a_fault_of_the_embedded_engine_keeps_its_own_code() {
    let error = ModelError::Engine { source: fault() };
    assert_eq!(error.fault(), fault());
    let late = ModelError::Deadline { provider: text("p") };
    assert_eq!((late.fault().code.as_str(), late.fault().retriable), ("W0124", false));
}
