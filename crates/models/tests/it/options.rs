//! Options of requests: the form of each in the protocols that have it, refusals by the others, and
//! values that no call can have.

use crate::desk::{Desk, request};
use crate::protocols::{
    Cell, ENOUGH_MS, PROTOCOLS, Said, answer, answered, ask, body, playing, with_tools,
};
use crate::server::configured;
use serde_json::{Value, json};
use weftwork_models::{ChatRequest, ModelCaller, ToolChoice};
use weftwork_testkit::ManualClock;

/// Sends a request, and returns its body; `Err` if it is refused by the name of an option, before the
/// call.
async fn sent_or_refused(
    protocol: &str,
    name: &str,
    request: ChatRequest,
) -> Result<Value, String> {
    let server = playing(answer(protocol, &[Said::Text("ok")], true)).await;
    match ask(protocol, &server, request, &Desk::new(), ENOUGH_MS).await {
        Ok(_) => Ok(body(&server.received()[0])),
        Err(error) => {
            assert_eq!((error.code().0, error.attempts), ("W0310", 0), "{protocol}: {error}");
            assert!(error.to_string().contains(&format!("`{name}`")), "{protocol}: {error}");
            assert!(server.received().is_empty(), "refused before the call");
            Err("refused by name".to_owned())
        }
    }
}

pub(crate) async fn parallel_off(protocol: &str) -> Cell {
    let request = ChatRequest { parallel_tool_calls: Some(false), ..with_tools(ToolChoice::Auto) };
    let body = sent_or_refused(protocol, "parallel_tool_calls = false", request).await?.to_string();
    assert!(body.contains("parallel_tool"), "{protocol}: {body}");
    Ok(())
}

/// An option of the sampling is one member of the body, and nothing else changes.
pub(crate) async fn sampling(protocol: &str, name: &str) -> Cell {
    let plain = request("hi");
    let stop = vec!["END".to_owned()];
    let (request, value, in_gemini) = match name {
        "top_p" => (ChatRequest { top_p: Some(0.9), ..request("hi") }, json!(0.9), "topP"),
        "stop" => (ChatRequest { stop, ..request("hi") }, json!(["END"]), "stopSequences"),
        _ => (ChatRequest { seed: Some(7), ..request("hi") }, json!(7), "seed"),
    };
    let found = sent_or_refused(protocol, name, request).await?;
    let mut expected = sent_or_refused(protocol, name, plain).await?;
    match (protocol, name) {
        ("gemini", _) => expected["generationConfig"] = json!({ in_gemini: value }),
        ("anthropic", "stop") => expected["stop_sequences"] = value,
        _ => expected[name] = value,
    }
    assert_eq!(found, expected, "{protocol}");
    Ok(())
}

/// A tool that is not there cannot be chosen, and without tools none can be required.
pub(crate) async fn missing_tools(protocol: &str) -> Cell {
    let named = with_tools(ToolChoice::Named("get_time".to_owned()));
    let none = ChatRequest { tool_choice: ToolChoice::Required, ..request("hi") };
    for (request, name) in [(named, "get_time"), (none, "required")] {
        let refused = sent_or_refused(protocol, name, request).await;
        assert_eq!(refused, Err("refused by name".to_owned()), "{protocol}: {name}");
    }
    Ok(())
}

#[tokio::test]
async fn values_that_no_call_can_have_are_refused_with_the_expected_ones() {
    let all = PROTOCOLS;
    let plain = || request("hi");
    let temperature = |value| ChatRequest { temperature: Some(value), ..plain() };
    let top_p = |value| ChatRequest { top_p: Some(value), ..plain() };
    let stop = |texts: &[&str]| {
        let stop = texts.iter().map(|text| (*text).to_owned()).collect();
        ChatRequest { stop, ..plain() }
    };
    let seed = |value| ChatRequest { seed: Some(value), ..plain() };
    let share = "expected a number above 0 and at most 1; correct it or leave it out";
    let warm = "expected a number of at least 0; correct it or leave it out";
    let with_stop = ["openai", "anthropic", "gemini"];
    let cases: Vec<(&[&str], ChatRequest, String)> = vec![
        (&all, top_p(0.0), format!("`top_p` is 0, {share}")),
        (&all, top_p(-0.1), format!("`top_p` is -0.1, {share}")),
        (&all, top_p(1.01), format!("`top_p` is 1.01, {share}")),
        (&all, top_p(f32::NAN), format!("`top_p` is NaN, {share}")),
        (&all, temperature(-0.5), format!("`temperature` is -0.5, {warm}")),
        (&all, temperature(f32::NAN), format!("`temperature` is NaN, {warm}")),
        (&all, temperature(f32::INFINITY), format!("`temperature` is inf, {warm}")),
        (
            &with_stop,
            stop(&["END", ""]),
            "text 2 of `stop` is empty, expected one character or more; leave the text out"
                .to_owned(),
        ),
        (
            &["openai"],
            stop(&["1", "2", "3", "4", "5", "6"]),
            "`stop` has 6 texts, expected at most 4 in the protocol `openai`; leave 2 of them out"
                .to_owned(),
        ),
        (
            &["gemini"],
            stop(&["1", "2", "3", "4", "5", "6"]),
            "`stop` has 6 texts, expected at most 5 in the protocol `gemini`; leave 1 of them out"
                .to_owned(),
        ),
        (
            &["anthropic"],
            stop(&["END", "\n"]),
            "`stop` has the text \"\\n\", expected a character other than white space in the \
             protocol `anthropic`; leave the text out"
                .to_owned(),
        ),
        (
            &["gemini"],
            seed(1 << 31),
            "`seed` is 2147483648, expected a number from -2147483648 to 2147483647 in the \
             protocol `gemini`; choose another one"
                .to_owned(),
        ),
    ];
    for (protocols, request, expected) in cases {
        for protocol in protocols {
            let server = playing(answer(protocol, &[Said::Text("ok")], true)).await;
            let error = ask(protocol, &server, request.clone(), &Desk::new(), ENOUGH_MS).await;
            let error = error.expect_err(&expected);
            assert_eq!((error.code().0, error.attempts), ("W0310", 0), "{protocol}: {error}");
            let said = error.to_string();
            assert_eq!(said, format!("model `lab:tiny` cannot do this: {expected}"), "{protocol}");
            assert!(server.received().is_empty(), "{protocol}: refused before the call");
        }
    }
    // The limits themselves are taken.
    for (protocol, request) in [
        ("openai", stop(&["1", "2", "3", "\n"])),
        ("openai", seed(i64::MAX)),
        ("anthropic", stop(&["1", "2", "3", "4", "5", "6"])),
        ("gemini", stop(&["1", "2", "3", "4", "\n"])),
        ("gemini", seed(i64::from(i32::MIN))),
        ("gemini", top_p(1.0)),
    ] {
        answered(protocol, &[Said::Text("ok")], request).await;
    }
}

#[tokio::test]
async fn a_server_without_tools_takes_no_stop_text_which_would_cut_its_choice() {
    let server = playing(answer("openai", &[Said::Text("ok")], true)).await;
    let model = configured(&server, "quirks = [\"tools_as_schema\"]", ENOUGH_MS);
    let request = ChatRequest { stop: vec!["}".to_owned()], ..with_tools(ToolChoice::Auto) };
    let clock = ManualClock::moved_by_sleeps();
    let error = ModelCaller::default().call(&*model, request, &Desk::new().context(&clock)).await;
    let error = error.expect_err("refused");
    assert_eq!((error.code().0, error.attempts, server.received().len()), ("W0310", 0, 0));
    assert!(error.to_string().contains("`stop`"), "{error}");
}
