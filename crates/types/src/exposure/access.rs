//! The access to an agent by a protocol, as commands and the page show it.

use super::AgentProtocol;
use serde::Serialize;
use serde_json::json;

/// The access to an agent by a protocol, for people who point a program at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentAccess {
    /// Values for the settings of a program, the address first.
    pub settings: Vec<AccessText>,
    /// Commands and programs that reach the agent. `TOKEN` stands for a token of the server.
    pub examples: Vec<AccessText>,
    /// Path of the card by which the agent describes itself to programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
}

/// A text that people copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessText {
    /// Name of the setting, or language of the example.
    pub name: &'static str,
    /// The text.
    pub text: String,
}

impl AccessText {
    fn new(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into() }
    }
}

impl AgentAccess {
    /// Returns the access to an agent by a protocol, at the address of a server.
    #[must_use]
    pub fn new(protocol: AgentProtocol, slug: &str, server: &str) -> Self {
        let server = server.trim_end_matches('/');
        match protocol {
            AgentProtocol::OpenAi => openai(slug, server),
            AgentProtocol::A2a => a2a(slug, server),
            AgentProtocol::AgUi => agui(slug, server),
            AgentProtocol::Mcp => mcp(slug, server),
        }
    }
}

fn openai(slug: &str, server: &str) -> AgentAccess {
    let base = format!("{server}{}", AgentProtocol::OpenAi.prefix());
    let curl = format!(
        r#"curl {base}/chat/completions -H "authorization: Bearer $TOKEN" \
  -H "content-type: application/json" \
  -d '{{"model": "{slug}", "messages": [{{"role": "user", "content": "Hello"}}]}}'"#
    );
    let python = format!(
        r#"from openai import OpenAI
client = OpenAI(base_url="{base}", api_key=TOKEN)
print(client.responses.create(model="{slug}", input="Hello").output_text)"#
    );
    AgentAccess {
        settings: vec![AccessText::new("Base URL", base), AccessText::new("Model", slug)],
        examples: vec![AccessText::new("curl", curl), AccessText::new("Python", python)],
        card: None,
    }
}

fn a2a(slug: &str, server: &str) -> AgentAccess {
    let path = format!("{}/{slug}", AgentProtocol::A2a.prefix());
    let address = format!("{server}{path}");
    let card = format!("{path}/.well-known/agent-card.json");
    // A message that is sent again with its id has the task of the first one.
    let curl = format!(
        r#"curl {address}/message:send -H "authorization: Bearer $TOKEN" \
  -H "A2A-Version: 1.0" -H "content-type: application/a2a+json" \
  -d '{{"message": {{"messageId": "'$(date +%s%N)'", "role": "ROLE_USER", "parts": [{{"text": "Hello"}}]}}}}'"#
    );
    let python = format!(
        r#"import asyncio, uuid
import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import Message, Part, Role, SendMessageRequest

async def main():
    http = httpx.AsyncClient(headers={{"authorization": f"Bearer {{TOKEN}}"}})
    client = await create_client("{address}", ClientConfig(httpx_client=http))
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text="Hello")])
    async for event in client.send_message(SendMessageRequest(message=message)):
        print(event)

asyncio.run(main())"#
    );
    AgentAccess {
        settings: vec![
            AccessText::new("Address", address),
            AccessText::new("Card", format!("{server}{card}")),
        ],
        examples: vec![AccessText::new("curl", curl), AccessText::new("Python", python)],
        card: Some(card),
    }
}

fn agui(slug: &str, server: &str) -> AgentAccess {
    let address = format!("{server}{}/{slug}", AgentProtocol::AgUi.prefix());
    // A run that is sent again with its id is followed.
    let curl = format!(
        r#"curl -N {address} -H "authorization: Bearer $TOKEN" \
  -H "content-type: application/json" \
  -d '{{"threadId": "t1", "runId": "'$(date +%s%N)'", "messages": [{{"id": "'$(date +%s%N)'", "role": "user", "content": "Hello"}}]}}'"#
    );
    let javascript = format!(
        r#"import {{ HttpAgent }} from "@ag-ui/client";
const headers = {{ authorization: `Bearer ${{TOKEN}}` }};
const agent = new HttpAgent({{ url: "{address}", headers }});
agent.addMessage({{ id: crypto.randomUUID(), role: "user", content: "Hello" }});
await agent.runAgent();"#
    );
    AgentAccess {
        settings: vec![AccessText::new("Address", address)],
        examples: vec![AccessText::new("curl", curl), AccessText::new("JavaScript", javascript)],
        card: None,
    }
}

fn mcp(slug: &str, server: &str) -> AgentAccess {
    let address = format!("{server}{}", AgentProtocol::Mcp.prefix());
    let hosts = json!({"mcpServers": {"weft": {
        "type": "http",
        "url": address,
        "headers": {"Authorization": "Bearer ${TOKEN}"},
    }}});
    AgentAccess {
        settings: vec![AccessText::new("URL", address), AccessText::new("Tool", slug)],
        examples: vec![AccessText::new("mcpServers", format!("{hosts:#}"))],
        card: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_texts_are_those_of_the_server_and_of_the_agent() {
        for protocol in AgentProtocol::ALL {
            let access = AgentAccess::new(protocol, "golf", "https://agents.example/");
            let texts: Vec<_> = access.settings.iter().chain(&access.examples).collect();
            let start = format!("https://agents.example{}", protocol.prefix());
            let first = access.settings.first().map(|setting| setting.text.as_str());
            assert!(first.is_some_and(|address| address.starts_with(&start)), "{first:?}");
            for AccessText { name, text } in &texts {
                assert!(text.contains("golf") || text.contains(&start), "{name}: {text}");
                assert!(!text.contains("example//"), "{name}: {text}");
            }
            assert!(access.examples.iter().any(|example| example.text.contains(&start)));
            let card = access.card.map(|path| format!("https://agents.example{path}"));
            let settings = access.settings.iter().map(|setting| setting.text.clone());
            assert!(card.is_none_or(|card| settings.into_iter().any(|text| text == card)));
        }
    }

    #[test]
    fn an_example_of_a2a_has_another_message_each_time() {
        let access = AgentAccess::new(AgentProtocol::A2a, "golf", "http://127.0.0.1:8123");
        let curl = access.examples.first().map(|example| example.text.clone()).unwrap_or_default();
        assert!(curl.contains(r#""messageId": "'$(date +%s%N)'""#), "{curl}");
    }
}
