use super::*;
use serde_json::json;
use weftwork_types::ToolCallId;
use weftwork_types::message::ToolResult;

fn ground(args: Value, value: Value, request: &str) -> Ground {
    let tool_call_id = ToolCallId::new("c").expect("an id");
    let result =
        ToolResult { tool_call_id, name: "t".to_owned(), value, shown: None, is_error: false };
    Ground::new(facts::of(&result), None, Some(&args), request, false)
}

fn weather() -> Ground {
    let result = json!({"city": "Paris", "sky": "cloudy", "celsius": 16, "source": "sample data"});
    ground(json!({"city": "Paris"}), result, "Is it raining in Paris?")
}

#[test]
fn an_answer_about_another_sky_is_not_writable() {
    let words = weather().vocabulary();
    let has = |word: &str| words.split([' ', ':', ';']).any(|known| known == word);
    assert!(has("cloudy") && has("Paris") && has("sky") && has("16"), "{words}");
    assert!(!has("raining") && !has("yes") && !has("not"), "{words}");
}

#[test]
fn a_sentence_is_supported_if_it_names_a_value_and_denies_nothing_else() {
    let order = || {
        let result = json!({"order_id": "A1", "item": "lamp", "status": "shipped", "paid": false});
        ground(json!({"order_id": "A1"}), result, "What is the status of order A1?")
    };
    let refused = || {
        let result = json!({"order_id": "A1", "status": "not yet shipped"});
        ground(json!({"order_id": "A1"}), result, "Where is A1?")
    };
    let sum = || ground(json!({"a": 6, "b": 7}), json!(42), "What is 6 times 7?");
    let queued = || ground(json!({"to": "Ada"}), json!({"status": "queued"}), "Write to Ada.");
    let opened = || ground(json!({"door": 3}), json!({"open": true}), "Is door 3 open?");
    for (ground, sentence, supported) in [
        (weather(), "The sky in Paris is cloudy, with 16 degrees.", true),
        (weather(), "It is 16.0 degrees in Paris.", true),
        (weather(), "It is in Paris.", false),
        (weather(), "It is sample data.", false),
        (weather(), "The celsius in Paris is cloudy.", false),
        (weather(), "It is not cloudy in Paris.", false),
        (weather(), "Yes, it is cloudy.", false),
        (weather(), "Is it cloudy?", false),
        (order(), "Order A1 is shipped.", true),
        (order(), "The status of order A1?", false),
        (order(), "Order A1 has a lamp.", false),
        (order(), "Order A1 is shipped and paid.", false),
        (order(), "Order A1 is shipped and not paid.", true),
        (order(), "Order A1 is not shipped.", false),
        (refused(), "A1 is shipped.", false),
        (refused(), "A1 is not yet shipped.", true),
        (sum(), "It is 42.", true),
        (sum(), "It is 6 and 7.", false),
        (sum(), "It is 142.", false),
        // Verbs are not checked. The vocabulary of a tool that only reads does not have them.
        (queued(), "I sent it, it is queued.", true),
        (queued(), "I sent it.", false),
        (queued(), "It is not queued.", false),
        (opened(), "Door 3 is open.", true),
        (opened(), "Door 3 is open: yes.", true),
        (opened(), "Door 3 is not open: yes.", false),
    ] {
        assert_eq!(ground.supports(sentence), supported, "{sentence}");
    }
}

#[test]
fn a_statement_has_every_value_and_begins_with_those_of_the_call() {
    let order = json!({"order_id": "A1", "item": "lamp", "paid": false});
    for (ground, statement) in [
        (
            weather(),
            "For city Paris: the sky is cloudy, the celsius is 16, the source is sample data.",
        ),
        (
            ground(json!({"order_id": "A1"}), order, "?"),
            "For order id A1: the item is lamp, paid: no.",
        ),
        (ground(json!({"a": 6}), json!(42), "?"), "The result is 42."),
        (ground(json!({}), json!("It rains."), "?"), "The result is It rains."),
        (ground(json!({"n": 4}), json!({"n": 4}), "?"), "The n is 4."),
        (ground(json!({}), json!({}), "?"), "The result has no values."),
        (ground(json!({}), json!(null), "?"), "The result has no values."),
    ] {
        assert_eq!(ground.statement(), statement);
        let is_empty = ground.facts.is_empty();
        assert!(is_empty || ground.supports(statement), "{statement}");
    }
}

#[test]
fn declared_members_come_first_in_their_order() {
    let output = json!({"type": "object", "properties": {"sky": {}, "celsius": {}}});
    let tool = json!({
        "name": "t", "description": "", "parameters": {}, "output": output,
        "effect": "read_only", "on_unknown": "idempotent",
    });
    let tool: ToolSpec = serde_json::from_value(tool).expect("a tool");
    let facts = ["celsius", "city", "sky"].map(|name| Fact {
        name: name.to_owned(),
        text: name.to_owned(),
        flag: None,
    });
    let ground = Ground::new(facts.to_vec(), Some(&tool), None, "?", false);
    let names: Vec<&str> = ground.facts.iter().map(|fact| fact.name.as_str()).collect();
    assert_eq!(names, ["sky", "celsius", "city"]);
}

#[test]
fn an_answer_of_several_says_which_call_it_is_about() {
    let fact =
        |name: &str, text: &str| Fact { name: name.to_owned(), text: text.to_owned(), flag: None };
    let args = json!({"a": 6, "b": 7});
    let ground = Ground::new(vec![fact("result", "42")], None, Some(&args), "?", true);
    assert!(!ground.supports("It is 42.") && ground.supports("6 and 7 is 42."));
    assert_eq!(ground.statement(), "For a 6, b 7: the result is 42.");
    let args = json!({"city": "Oslo"});
    let facts = vec![fact("city", "Oslo"), fact("sky", "snow")];
    let ground = Ground::new(facts, None, Some(&args), "?", true);
    assert!(!ground.supports("It is snow.") && ground.supports("It is snow in Oslo."));
    assert_eq!(ground.statement(), "For city Oslo: the sky is snow.");
}
