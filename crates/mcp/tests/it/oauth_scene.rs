//! A person who logs in at a server, and calls of its tool.

use crate::oauth_server::{Behaviour, OauthServer, members};
use crate::rig::{Rig, reads, run};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use weftwork_mcp::{LoginRequest, LoginScreen, LoginStep, McpError, McpServers};
use weftwork_types::BoxFuture;
use weftwork_types::port::{Egress, EgressRequest, Method, Redirects};

/// A person with a browser, which follows the address.
pub(crate) struct Person {
    egress: Arc<dyn Egress>,
    steps: Mutex<Vec<LoginStep>>,
    /// Copies the address at which the browser ends, as over SSH.
    pub(crate) pastes: bool,
    pasted: mpsc::UnboundedSender<String>,
    paste: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Person {
    pub(crate) fn new(server: &OauthServer) -> Self {
        let (pasted, paste) = mpsc::unbounded_channel();
        let paste = tokio::sync::Mutex::new(paste);
        Self { egress: server.egress(), steps: Mutex::default(), pastes: false, pasted, paste }
    }

    pub(crate) fn steps(&self) -> Vec<LoginStep> {
        self.steps.lock().expect("not poisoned").clone()
    }

    /// The parameters of the address that was shown.
    pub(crate) fn asked(&self) -> std::collections::BTreeMap<String, String> {
        let steps = self.steps();
        let Some(LoginStep::Open { url }) = steps.last() else { panic!("no address: {steps:?}") };
        members(url.split_once('?').expect("a query").1)
    }
}

impl LoginScreen for Person {
    fn show(&self, step: &LoginStep) {
        self.steps.lock().expect("not poisoned").push(step.clone());
        let LoginStep::Open { url } = step else { return };
        let request = EgressRequest {
            redirects: Redirects::Return,
            ..EgressRequest::new(Method::Get, url.clone())
        };
        let egress = Arc::clone(&self.egress);
        let pasted = self.pastes.then(|| self.pasted.clone());
        tokio::spawn(async move {
            let response = egress.send(request).await.expect("an answer");
            let target = response.header("location").expect("a redirect").to_owned();
            match pasted {
                Some(pasted) => pasted.send(target).expect("somebody waits"),
                None => visit(&target).await,
            }
        });
    }

    fn pasted(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            match self.paste.lock().await.recv().await {
                Some(address) => address,
                None => std::future::pending().await,
            }
        })
    }
}

/// Opens the redirect as a browser does: first its icon, beside a connection that it does not use.
pub(crate) async fn visit(target: &str) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let rest = target.strip_prefix("http://").expect("a loopback address");
    let (host, path) = rest.split_once('/').expect("a path");
    let _unused = tokio::net::TcpStream::connect(host).await.expect("connects");
    for (path, expected) in [("favicon.ico", "404"), (path, "200")] {
        let mut connection = tokio::net::TcpStream::connect(host).await.expect("connects");
        let head = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        connection.write_all(head.as_bytes()).await.expect("sent");
        let mut page = String::new();
        connection.read_to_string(&mut page).await.expect("an answer");
        assert!(page.starts_with(&format!("HTTP/1.1 {expected}")), "{page}");
        assert!(!page.contains("secret"), "{page}");
    }
}

/// A server, and the files of its client.
pub(crate) struct Scene {
    pub(crate) server: OauthServer,
    pub(crate) rig: Rig,
}

impl Scene {
    pub(crate) async fn new(behaviour: Behaviour) -> Self {
        Self::with(behaviour, json!({})).await
    }

    /// With this `oauth` in the file.
    pub(crate) async fn with(behaviour: Behaviour, oauth: Value) -> Self {
        let server = OauthServer::start(behaviour).await;
        let entry = json!({"url": server.url("/mcp"), "oauth": oauth});
        let mut rig = Rig::new().entry("web", entry);
        rig.egress.insert("web".to_owned(), server.egress());
        Self { server, rig }
    }

    pub(crate) async fn log_in(&self, servers: &McpServers) -> Result<Person, McpError> {
        let person = Person::new(&self.server);
        servers.log_in("web", &LoginRequest::default(), &person).await?;
        Ok(person)
    }

    /// Logs in, and allows the tool.
    pub(crate) async fn ready(&self) -> McpServers {
        self.log_in(&self.rig.servers()).await.expect("a login");
        self.rig.allowing(&["web/pay"], &reads()).await
    }

    pub(crate) fn file(&self) -> PathBuf {
        let folder = std::fs::read_dir(self.rig.path("logins")).expect("a folder");
        let files = folder.map(|entry| entry.expect("an entry").path());
        let mut files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        files.next().expect("a file")
    }
}

/// Calls the tool; returns what the model reads.
pub(crate) async fn pay(servers: &McpServers) -> String {
    format!("{:?}", run(servers, &[("web__pay", json!({}))]).await[0])
}

pub(crate) fn with(change: impl FnOnce(&mut Behaviour)) -> Behaviour {
    let mut behaviour = Behaviour::default();
    change(&mut behaviour);
    behaviour
}
