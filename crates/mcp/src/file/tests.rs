use super::*;

fn read(text: &str) -> Result<McpFile, McpError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mcp.json");
    std::fs::write(&path, text).expect("written");
    let variable = |name: &str| match name {
        "PATH" => Some("/bin".to_owned()),
        "TOKEN" => Some("CANARY".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    McpFile::read(&path, &variable)
}

fn only(text: &str) -> ServerConfig {
    let file = read(text).expect("a valid file");
    let mut servers = file.servers.into_values();
    servers.next().expect("a server")
}

#[test]
fn a_file_of_other_clients_is_read_unchanged() {
    let text = r#"{"mcpServers": {"files": {
        "type": "stdio", "command": "npx", "args": ["-y", "server", "${DIR:-/tmp}", "${EMPTY:-x}"],
        "env": {"KEY": "${TOKEN}"}, "timeout": 1500, "alwaysAllow": ["read"], "autoApprove": []
    }}, "inputs": []}"#;
    let server = only(text);
    assert_eq!(server.timeouts.call, Duration::from_millis(1500));
    assert_eq!(server.reached.to_string(), "npx -y server /tmp x");
    let shown = format!("{server:?}");
    assert!(shown.contains("KEY") && !shown.contains("CANARY"), "{shown}");
    let Reached::Process { env, folder, .. } = server.reached else { panic!("a process") };
    let expected = [("KEY", "CANARY"), ("PATH", "/bin")];
    assert_eq!(env, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert!(folder.is_absolute());
}

#[test]
fn values_of_variables_are_not_in_the_way_to_a_server() {
    for (entry, expected) in [
        (r#"{"command": "x", "args": ["--key", "${TOKEN}"]}"#, "x --key ***"),
        (r#"{"command": "${TOKEN}", "args": ["y"]}"#, "CANARY y"),
        (r#"{"url": "http://127.0.0.1/${TOKEN}/mcp?key=${TOKEN}"}"#, "http://127.0.0.1/***/mcp"),
        (r#"{"url": "http://${TOKEN}/mcp"}"#, "http://CANARY/mcp"),
    ] {
        let server = only(&format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#));
        assert_eq!(server.to_string(), expected, "{entry}");
    }
}

#[test]
fn servers_is_another_name_and_disabled_entries_are_left_out() {
    let text = r#"{"servers": {
        "web": {"url": "http://me:CANARY@127.0.0.1:1/mcp?key=CANARY", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "off": {"command": "x", "disabled": true}
    }}"#;
    let server = only(text);
    assert_eq!(server.reached.to_string(), "http://127.0.0.1:1/mcp");
    assert!(!format!("{server:?}").contains("CANARY"), "{server:?}");
    let Reached::Http { headers, .. } = server.reached else { panic!("an address") };
    assert_eq!(headers.get("Authorization").map(String::as_str), Some("Bearer CANARY"));
}

#[test]
fn settings_of_logins_are_read_in_the_forms_of_other_clients() {
    let settings = |oauth: &str| {
        let server = only(&format!(
            r#"{{"mcpServers": {{"a": {{"url": "https://a.example/mcp"{oauth}}}}}}}"#
        ));
        assert!(!format!("{server:?}").contains("CANARY"), "{server:?}");
        let Reached::Http { oauth, .. } = server.reached else { panic!("an address") };
        oauth
    };
    let own =
        |id: &str| Some(OauthSettings { client_id: Some(id.to_owned()), ..Default::default() });
    assert_eq!(settings(""), Some(OauthSettings::default()));
    assert_eq!(settings(r#", "oauth": true"#), Some(OauthSettings::default()));
    assert_eq!(settings(r#", "oauth": {"enabled": true}"#), Some(OauthSettings::default()));
    assert_eq!(settings(r#", "oauth": false"#), None);
    assert_eq!(settings(r#", "oauth": {"clientId": "x"}"#), own("x"));
    assert_eq!(settings(r#", "oauth": {"client_id": "x"}"#), own("x"));
    let all = r#", "oauth": {"clientId": "x", "clientSecret": "${TOKEN}", "scopes": ["a", "b"],
        "callbackPort": 8123, "issuer": "https://i.example"}"#;
    let found = settings(all).expect("settings");
    assert_eq!(found.client_secret.as_deref(), Some("CANARY"));
    assert_eq!(found.scopes.as_deref(), Some("a b"));
    assert_eq!(found.callback_port, Some(8123));
    assert_eq!(found.issuer.as_deref(), Some("https://i.example"));
    assert_eq!(
        settings(r#", "oauth": {"scope": "a b"}"#).and_then(|found| found.scopes).as_deref(),
        Some("a b")
    );
}

#[test]
fn invalid_entries_are_refused_with_their_place() {
    for (text, code, message) in [
        ("[]", "W0901", "expected a map"),
        ("{}", "W0901", "expected an object `mcpServers`"),
        (r#"{"mcpServers": {"a/b": {"command": "x"}}}"#, "W0901", "server name `a/b`"),
        (r#"{"mcpServers": {"a": {}}}"#, "W0901", "server `a`: expected either"),
        (r#"{"mcpServers": {"a": {"command": "x", "url": "y"}}}"#, "W0901", "expected either"),
        (r#"{"mcpServers": {"a": {"command": " "}}}"#, "W0901", "`command` is empty"),
        (
            r#"{"mcpServers": {"a": {"url": "y", "oauth": {"clientSecret": "s"}}}}"#,
            "W0901",
            "`clientSecret` without a `clientId`",
        ),
        (r#"{"mcpServers": {"a": {"type": "sse", "url": "x"}}}"#, "W0901", "type `sse`"),
        (r#"{"mcpServers": {"a": {"type": "ws", "url": "x"}}}"#, "W0901", "type `ws`"),
        (r#"{"mcpServers": {"a": {"command": "x", "args": [[]]}}}"#, "W0901", "expected a text"),
        (r#"{"mcpServers": {"a": {"command": "x", "timeout": 0}}}"#, "W0901", "`timeout` is 0"),
        (r#"{"mcpServers": {"a": {"command": "${NO}"}}}"#, "W0902", "`NO` is not set"),
        (r#"{"mcpServers": {"a": {"command": "${NO"}}}"#, "W0901", "has no `}`"),
    ] {
        let error = read(text).expect_err(text);
        assert_eq!(error.code().0, code, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn comments_commas_and_numbers_are_read_as_editors_write_them() {
    let text = r#"// The servers.
    {
        /* of this
           project */
        "mcpServers": {
            "a": {
                "command": "x", // "quoted"
                "args": ["--port", 8080, "http://127.0.0.1/*x*/", "a,]", true,],
                "env": {"PORT": 8080, "RATE": 0.5, "DEBUG": false,},
            },
        },
    }
    "#;
    let Reached::Process { args, env, .. } = only(text).reached else { panic!("a process") };
    assert_eq!(args, ["--port", "8080", "http://127.0.0.1/*x*/", "a,]", "true"]);
    let value = |name: &str| env.get(name).map(String::as_str);
    assert_eq!(
        (value("PORT"), value("RATE"), value("DEBUG")),
        (Some("8080"), Some("0.5"), Some("false"))
    );
    for (bad, words) in [
        (
            r#"{"mcpServers": {"a": {"command": "x", "env": {"A": null}}}}"#,
            "expected a text or a number",
        ),
        ("// a\n/* b\n */ {\"mcpServers\": x}", "line 3"),
        ("{} /* not closed", "expected an object `mcpServers`"),
    ] {
        let error = read(bad).expect_err("refused").to_string();
        assert!(error.contains(words), "{bad}: {error}");
    }
}

#[test]
fn the_limits_of_calls_are_those_of_the_file() {
    let minute = Duration::from_secs(60);
    for (members, expected) in [
        ("", Ok((minute, 10 * minute))),
        (r#", "timeout": 1000"#, Ok((Duration::from_secs(1), 10 * minute))),
        (r#", "timeout": 1200000"#, Ok((20 * minute, 20 * minute))),
        (r#", "maxTimeout": 1000"#, Ok((Duration::from_secs(1), Duration::from_secs(1)))),
        (r#", "timeout": 1000, "maxTimeout": 60000"#, Ok((Duration::from_secs(1), minute))),
        (r#", "timeout": 2000, "maxTimeout": 1000"#, Err("expected at least the `timeout`")),
        (r#", "maxTimeout": 0"#, Err("`maxTimeout` is 0")),
    ] {
        let read = read(&format!(r#"{{"mcpServers": {{"a": {{"command": "x"{members}}}}}}}"#));
        match (read, expected) {
            (Ok(file), Ok((call, call_with_progress))) => {
                assert_eq!(file.servers["a"].timeouts, Timeouts { call, call_with_progress });
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (read, _) => panic!("{members}: {read:?}"),
        }
    }
}
