//! A pooler in transaction mode is refused by name: sessions have settings and prepared statements
//! of ours.

use crate::support::{Login, Schema, block_on};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weftwork_postgres::PostgresStore;
use weftwork_store::{ReadEvents as _, Store, StoreError};
use weftwork_store_conformance::{CASES, run_case};
use weftwork_types::run::RunRef;
use weftwork_types::{Principal, RunId, ThreadId};

/// A PgBouncer before the test database, which has so many sessions for all clients.
struct Pooler {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Pooler {
    fn start(mode: &str, sessions: usize) -> Self {
        let Login { user, password, port } = Login::read();
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = free.local_addr().expect("an address").port();
        drop(free);
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        write(&path("users"), &format!("\"{user}\" \"{password}\"\n"));
        let users = path("users");
        let file = path("pooler.ini");
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {own}\nunix_socket_dir =\nauth_type = scram-sha-256\n\
             auth_file = {users}\npool_mode = {mode}\ndefault_pool_size = {sessions}\n"
        );
        write(&file, &settings);
        let mut command = Command::new("/usr/sbin/pgbouncer");
        // It does not run as root.
        if owner(folder.path()) == 0 {
            readable(folder.path());
            command.args(["--user", "nobody"]);
        }
        let command = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("PgBouncer; run scripts/bootstrap.sh");
        let address = format!("postgres://{user}:{password}@127.0.0.1:{own}/postgres");
        let listens = || TcpStream::connect(("127.0.0.1", own)).is_ok();
        let pause = || std::thread::sleep(Duration::from_millis(20));
        let mut looks = std::iter::repeat_with(|| {
            listens() || {
                pause();
                false
            }
        })
        .take(3_000);
        assert!(looks.any(|listens| listens), "PgBouncer does not listen");
        Self { process, address, _folder: folder }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn write(path: &str, text: &str) {
    std::fs::write(path, text).expect("writes");
}

fn owner(folder: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(folder).expect("is there").uid()
}

fn readable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, all).expect("sets permissions");
}

fn missing() -> RunRef {
    let thread = ThreadId::new("missing").expect("an id");
    RunRef { thread, run: RunId::new("missing").expect("an id") }
}

#[test]
fn a_pooler_in_transaction_mode_is_refused_by_name() {
    let pooler = Pooler::start("transaction", 2);
    let schema = Schema::new("pooled");
    // The first client may have a session to itself.
    let first = PostgresStore::open(&pooler.address, &schema.options());
    for _ in 0..3 {
        let opened = PostgresStore::open(&pooler.address, &schema.options());
        let error = opened.expect_err("the session is that of another client");
        assert!(matches!(error, StoreError::Unavailable { retriable: false, .. }), "{error}");
        assert!(error.to_string().contains("PgBouncer does in transaction mode"), "{error}");
        // One that has a session to itself goes on or is refused, and is told of no damage.
        if let Ok(first) = &first
            && let Err(error) = block_on(first.events(&Principal::local(), &missing(), 0, 1))
        {
            assert!(
                matches!(error, StoreError::NotFound { .. } | StoreError::Unavailable { .. }),
                "{error}"
            );
        }
    }
    drop(first);
}

#[test]
fn a_pooler_in_session_mode_is_as_good_as_the_database() {
    let pooler = Pooler::start("session", 20);
    let is_full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    for case in CASES.iter().step_by(if is_full { 1 } else { 5 }) {
        let schema = Schema::new(&format!("pooled_{}", case.name));
        let store = PostgresStore::open(&pooler.address, &schema.options()).expect("opens");
        let store: Arc<dyn Store> = Arc::new(store);
        block_on(run_case(case.name, || async { Arc::clone(&store) }));
    }
}
