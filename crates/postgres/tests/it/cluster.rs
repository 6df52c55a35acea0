use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres.sh");

/// Maximum number of starts of a server that ends by itself.
const STARTS_MAX: usize = 50;

/// The way in which a server is ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// All processes are killed at once, as in a crash.
    Kill,
    /// Clients are not notified.
    Immediate,
    /// Transactions are rolled back and connections closed.
    Fast,
}

/// A Postgres server that can be ended and restarted with the same folder and port.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: TempDir,
    port: u16,
    server: Option<Child>,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self::on(tempfile::tempdir().expect("a folder"))
    }

    /// Creates a server in a temporary folder.
    pub(crate) fn on(folder: TempDir) -> Self {
        // The server's user needs access to the parent folders.
        let way = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(folder.path(), way).expect("opens the way");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its number").port();
        drop(free);
        let mut cluster = Self { folder, port, server: None };
        cluster.start();
        cluster
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Restarts the server if it has ended by itself.
    pub(crate) fn revive(&mut self) {
        let ended = self
            .server
            .as_mut()
            .is_some_and(|server| server.try_wait().expect("it is ours").is_some());
        if ended {
            self.server = None;
            self.start();
        }
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn address(&self) -> String {
        let password = std::fs::read_to_string(Path::new(&self.data()).with_extension("password"));
        format!("postgres://weft:{}@127.0.0.1:{}/postgres", password.expect("there"), self.port)
    }

    /// Starts the server and returns once it accepts connections.
    pub(crate) fn start(&mut self) {
        let port = self.port.to_string();
        for _ in 0..STARTS_MAX {
            let mut server = self.serve(&port);
            let mut up = Command::new(SCRIPT).args(["await", &port]).spawn().expect("waits");
            loop {
                if let Some(status) = up.try_wait().expect("it is ours") {
                    assert!(status.success(), "the server does not start:\n{}", self.log_text());
                    self.server = Some(server);
                    return;
                }
                // A process that was started while the others were killed may live a little longer,
                // and blocks shared resources of the next server.
                if server.try_wait().expect("it is ours").is_some() {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(20));
            }
            up.kill().expect("it waits");
            up.wait().expect("ends");
        }
        panic!("the server does not start:\n{}", self.log_text());
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn serve(&self, port: &str) -> Child {
        let log = self.folder.path().join("log");
        let log = std::fs::File::options().append(true).create(true).open(log).expect("a log");
        Command::new(SCRIPT)
            .args(["serve", self.data().to_str().expect("a name"), port])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("starts")
    }

    /// Ends the server and waits for it.
    pub(crate) fn end(&mut self, how: End) {
        let Some(mut server) = self.server.take() else { return };
        let signal = match how {
            End::Kill => "-KILL",
            End::Immediate => "-QUIT",
            End::Fast => "-INT",
        };
        let id = server.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let mut doomed = vec![id.to_string()];
        if matches!(how, End::Kill) {
            doomed.extend(children.split_whitespace().map(str::to_owned));
        }
        // Some processes may have ended by themselves in between.
        let ended = Command::new("kill").arg(signal).args(doomed).stderr(Stdio::null()).status();
        ended.expect("there is kill");
        server.wait().expect("ends");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end(End::Immediate);
    }
}
