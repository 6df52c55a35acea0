use super::*;
use crate::Secret;
use crate::protocol::Quirk;
use crate::scripted::ScriptedProvider;
use weftwork_types::BoxFuture;
use weftwork_types::port::{EgressError, EgressRequest, EgressResponse};

/// A network client that must not be used.
#[derive(Debug)]
struct Offline;

impl Egress for Offline {
    fn send(&self, _: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        Box::pin(async { Err(EgressError::BadUrl { url: String::new(), reason: "offline" }) })
    }
}

fn no_env(_: &str) -> Option<String> {
    None
}

fn overrides(toml: &str) -> BTreeMap<String, ProviderOverride> {
    toml::from_str(toml).expect("a table")
}

fn table(env: &dyn Fn(&str) -> Option<String>, toml: &str) -> ProviderTable {
    ProviderTable::load(env, &overrides(toml)).expect("a table")
}

fn registry(env: &dyn Fn(&str) -> Option<String>) -> ModelRegistry {
    let egress: Arc<dyn Egress> = Arc::new(Offline);
    let mut registry = ModelRegistry::new(&table(env, ""), &egress);
    registry.register(Arc::new(ScriptedProvider));
    registry
}

#[test]
fn every_built_in_row_is_usable() {
    let table = table(&no_env, "");
    assert!(table.rows().count() >= 25);
    for row in table.rows() {
        assert!(!row.key_env.is_empty(), "{}", row.name);
        let source = row.source.as_deref().unwrap_or_default();
        assert!(source.starts_with("https://"), "{}", row.name);
        assert_eq!(row.ready().is_ok(), row.key_optional, "{}", row.name);
        assert_eq!(row.is_loopback(), row.key_optional, "{}", row.name);
        assert!(row.is_loopback() || row.url.starts_with("https://"), "{}", row.name);
    }
    assert!(table.row("openai").expect("a row").quirks.has(Quirk::MaxCompletionTokens));
    assert_eq!(table.row("ollama").expect("a row").host(), "localhost:11434");
}

#[test]
fn prices_hold_for_the_built_in_address_and_this_machine_is_free() {
    let toml = r#"
        [openai]
        url = "https://gateway.example/v1"
        [groq]
        url = "http://127.0.0.1:8080/v1"
        [vllm]
        url = "http://192.168.0.5:8000/v1"
        [lab]
        url = "http://[::1]:9/v1"
        [anthropic]
        url = "https://api.anthropic.com/v1/"
        [deepseek]
        url = "https://gateway.example/v1"
        prices = [{ name = "one", input = 1, output = 2 }]
        [ollama]
        prices = [{ name = "qwen3:8b", input = 0.5, output = 1.5, cached = 0.25 }]
    "#;
    let plain = table(&no_env, "");
    let changed = table(&no_env, toml);
    let price = |table: &ProviderTable, id: &str| {
        let (provider, model) = id.split_once(':').expect("an id");
        table.row(provider).expect("a row").price(model)
    };
    let free = Some(crate::Price::default());
    let known = price(&plain, "openai:gpt-4o");
    assert!(known.is_some() && known != free);
    assert_eq!(price(&changed, "openai:gpt-4o"), None, "a gateway has prices of its own");
    let haiku = "anthropic:claude-haiku-4-5";
    assert!(price(&plain, haiku).is_some());
    assert_eq!(price(&changed, haiku), price(&plain, haiku), "the same address");
    assert_eq!(price(&plain, "ollama:qwen3"), free);
    assert_eq!(price(&changed, "groq:any"), free);
    assert_eq!(price(&changed, "lab:any"), free);
    assert_eq!(price(&changed, "vllm:any"), None, "somebody pays for another machine");
    let one = crate::Price {
        input: 1_000_000,
        output: 2_000_000,
        cached: 1_000_000,
        cache_written: 1_000_000,
    };
    assert_eq!(price(&changed, "deepseek:one-2026-01-31"), Some(one));
    assert_eq!(price(&changed, "deepseek:two"), None);
    let own =
        crate::Price { input: 500_000, output: 1_500_000, cached: 250_000, cache_written: 500_000 };
    assert_eq!(price(&changed, "ollama:qwen3:8b"), Some(own));
    assert_eq!(price(&changed, "ollama:qwen3"), free);
    let opened = registry(&no_env).resolve("ollama:qwen3").expect("no key is needed");
    assert_eq!(opened.price(), free);
}

#[test]
fn configuration_goes_before_environment_before_the_built_in_table() {
    let env = |name: &str| match name {
        "OPENAI_BASE_URL" => Some("https://gateway.example/v1/".to_owned()),
        "OPENAI_API_KEY" => Some(" sk-1\n".to_owned()),
        "MY_KEY" => Some("sk-2".to_owned()),
        _ => None,
    };
    let plain = table(&env, "");
    let row = plain.row("openai").expect("a row");
    assert_eq!(row.url, "https://gateway.example/v1");
    assert_eq!(row.key, Secret::new("sk-1"));
    assert!(!format!("{row:?}").contains("sk-1"));

    let changed = table(
        &env,
        r#"
        [openai]
        url = "https://own.example"
        key_env = "MY_KEY"
        head_timeout_ms = 5
        [lab]
        url = "http://[::1]:9000/v1"
        quirks = ["tools_as_schema"]
        "#,
    );
    let row = changed.row("openai").expect("a row");
    assert_eq!(
        (row.url.as_str(), row.key.clone()),
        ("https://own.example/v1", Secret::new("sk-2"))
    );
    assert_eq!(row.head_timeout, std::time::Duration::from_millis(5));
    let lab = changed.row("lab").expect("a row");
    assert!(lab.ready().is_ok() && lab.is_loopback() && lab.quirks.has(Quirk::ToolsAsSchema));
}

#[test]
fn a_row_that_cannot_be_used_is_named() {
    for toml in [
        "[lab]\nkey_env = \"K\"",
        "[lab]\nurl = \"localhost:1\"",
        "[lab]\nurl = \"http://h/#x\"",
        "[lab]\nurl = \"http://h\"\nheaders = { host = \"x\" }",
        "[\"La b\"]\nurl = \"http://h\"",
        "[lab]\nurl = \"http://user:hunter2@h/v1\"",
        "[lab]\nurl = \"http://h\"\nkey_header = \"x y\"",
        "[lab]\nurl = \"http://h\"\nkey_header = \"\"",
        "[lab]\nurl = \"http://h\"\nkey_header = \"Host\"",
    ] {
        let error = ProviderTable::load(&no_env, &overrides(toml)).expect_err(toml);
        assert_eq!(error.code().0, "W0316", "{toml}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert!(toml::from_str::<ProviderOverride>("urll = \"x\"").is_err());
}

#[test]
fn names_are_resolved_at_the_first_colon() {
    let registry = registry(&|name| (name == "OPENROUTER_API_KEY").then(|| "k".to_owned()));
    let model = registry.resolve("openrouter:meta/llama:free").expect("a model");
    assert_eq!(
        (model.info().provider.as_str(), model.info().model.as_str()),
        ("openrouter", "meta/llama:free")
    );
    assert_eq!(registry.resolve("scripted").expect("a model").info().id(), "scripted:rules");
    assert_eq!(registry.resolve("ollama:qwen3").expect("a model").info().id(), "ollama:qwen3");
}

#[test]
fn what_cannot_be_resolved_says_what_would_be() {
    let registry = registry(&no_env);
    let error = registry.resolve("opnai:gpt").expect_err("unknown");
    let ModelError::Unknown { found, known } = &error else { panic!("{error}") };
    assert_eq!((found.as_str(), known[0].as_str()), ("opnai:gpt", "openai:MODEL"));
    assert!(known.contains(&"scripted:rules".to_owned()));
    let error = registry.resolve("ollama").expect_err("no model");
    assert_eq!(
        error.to_string(),
        "unknown model `ollama`; a model is PROVIDER:MODEL, known are: ollama:MODEL"
    );
    let error = registry.resolve("openai:gpt").expect_err("no key");
    assert_eq!(
        error.to_string(),
        "provider `openai` needs a key: set the environment variable `OPENAI_API_KEY`"
    );
}
