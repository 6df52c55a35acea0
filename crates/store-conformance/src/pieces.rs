use super::fixture::{
    at, begin, commit, completed, custom_event, finish, principal, register, thread, us, write,
};
use std::sync::Arc;
use weftwork_store::ImportThreads;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::memory::MemoryStore;
use weftwork_store::{Claim, Commit};
use weftwork_store::{ReadEvents, Store};
use weftwork_types::event::{Piece, PieceAt, PieceKind, Position};
use weftwork_types::{TaskId, Timestamp};

fn position(seq: u64, bytes: u64) -> Position {
    Position::in_text(seq, bytes)
}

/// A piece of text that ends at a position.
fn piece(seq: u64, bytes: u64, text: &str) -> Piece {
    let kind = if text.contains('?') { PieceKind::Reasoning } else { PieceKind::Text };
    let at = PieceAt::new(position(seq, bytes), "writer", TaskId(7));
    Piece { at, told_at: Timestamp(1), kind, text: text.to_owned() }
}

async fn all(store: &dyn Store, run: &str) -> Vec<Piece> {
    let read = store.pieces(&us(), &at("t", run), Position::START, usize::MAX).await;
    read.expect("reads")
}

async fn tell(store: &dyn Store, claim: &Claim, pieces: &[Piece]) {
    write(store, claim, Commit { pieces: pieces.to_vec(), ..commit(1_100) }).await;
}

pub(super) async fn pieces_are_read_in_order_from_any_position(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let pieces = [
        piece(0, 4, "hm? "),
        piece(0, 7, "so\u{0}"),
        piece(2, 3, "ünd"),
        piece(2, 9, "weiter"),
        piece(10, 100_000, &"x".repeat(100_000)),
    ];
    tell(&*store, &claim, &pieces[..1]).await;
    let events = vec![custom_event(1), custom_event(2)];
    let both = Commit { events, pieces: pieces[1..3].to_vec(), ..commit(1_100) };
    assert_eq!(store.commit(&us(), &claim, both).await.expect("commits").first_seq, 1);
    tell(&*store, &claim, &pieces[3..]).await;
    let next = Commit { events: vec![custom_event(3)], ..commit(1_200) };
    let next = store.commit(&us(), &claim, next).await.expect("commits");
    assert_eq!(next.first_seq, 3, "pieces take no numbers");
    assert_eq!(all(&*store, "r").await, pieces);
    for (seq, bytes, skipped) in
        [(0, 0, 0), (0, 3, 0), (0, 4, 1), (0, 5, 1), (1, 0, 2), (2, 3, 3), (2, 8, 3), (3, 0, 4)]
    {
        for limit in [0, 1, 2, 9] {
            let read = store.pieces(&us(), &claim.at, position(seq, bytes), limit).await;
            let expected: Vec<_> = pieces.iter().skip(skipped).take(limit).cloned().collect();
            assert_eq!(read.expect("reads"), expected, "after {seq}, {bytes}, at most {limit}");
        }
    }
    let read = store.pieces(&us(), &claim.at, Position::END, 9).await;
    assert_eq!(read, Ok(Vec::new()));
    for (who, run) in [(us(), "r9"), (principal("them"), "r")] {
        let read = store.pieces(&who, &at("t", run), Position::START, 9).await;
        assert_eq!(read, Err(invariants::missing("run", run)));
    }
}

pub(super) async fn void_pieces_go_with_the_commit_that_says_so(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r").await;
    let pieces = [piece(0, 1, "a"), piece(0, 2, "b"), piece(3, 1, "c"), piece(3, 2, "d")];
    tell(&*store, &claim, &pieces[..2]).await;
    tell(&*store, &claim, &pieces[2..]).await;
    // Only the first of two pieces in one commit is void.
    write(&*store, &claim, Commit { void: Some(position(0, 1)), ..commit(1_200) }).await;
    assert_eq!(all(&*store, "r").await, pieces);
    let newer = piece(4, 1, "e");
    let next = Commit { void: Some(position(3, 1)), pieces: vec![newer.clone()], ..commit(1_300) };
    write(&*store, &claim, next).await;
    let left = [pieces[2].clone(), pieces[3].clone(), newer];
    assert_eq!(all(&*store, "r").await, left);

    let w2 = register(&*store, "w2", 50_000).await;
    let new = store.claim(&us(), &claim.at, &w2, Timestamp(50_000)).await.expect("takes over").0;
    assert_eq!(all(&*store, "r").await, left, "they outlive their worker");
    let late =
        Commit { void: Some(Position::END), pieces: vec![piece(9, 1, "z")], ..commit(50_100) };
    let fenced = StoreError::Fenced { run: "r".to_owned(), newest: 2, ours: 1 };
    assert_eq!(store.commit(&us(), &claim, late.clone()).await, Err(fenced));
    assert_eq!(all(&*store, "r").await, left);
    write(&*store, &new, late).await;
    assert_eq!(all(&*store, "r").await, [piece(9, 1, "z")], "void are those before it");
    let end = Commit { void: Some(Position::END), finish: completed(), ..commit(50_200) };
    write(&*store, &new, end).await;
    assert_eq!(all(&*store, "r").await, []);
}

pub(super) async fn pieces_go_with_their_thread_and_to_no_other_store(store: Arc<dyn Store>) {
    let claim = begin(&*store, "t", "r1").await;
    tell(&*store, &claim, &[piece(0, 1, "a")]).await;
    let whole = store.export_thread(&us(), &thread("t")).await.expect("reads");
    let other = MemoryStore::new();
    other.import_thread(&us(), whole).await.expect("writes");
    let read = other.pieces(&us(), &claim.at, Position::START, 9).await;
    assert_eq!(read, Ok(Vec::new()));
    finish(&*store, &claim, 1_200).await;
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    let claim = begin(&*store, "t", "r1").await;
    assert_eq!(all(&*store, "r1").await, [], "a new run of the same name");
    tell(&*store, &claim, &[piece(0, 2, "bc")]).await;
    assert_eq!(all(&*store, "r1").await, [piece(0, 2, "bc")]);
}
