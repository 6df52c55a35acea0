//! Conversations and tasks.

use super::records::{edit, markdown, new, principal};
use serde_json::json;
use weftwork_platform::records::{
    Conversation, ConversationQuery, NewConversation, RecordError, RecordId, RecordRef, Records,
    conversation_thread, conversations, erase_conversation, export_conversation, open_conversation,
    read_conversation,
};
use weftwork_store::sequence::{PLANS, RECORD_CONTENTS};
use weftwork_store::{MemoryStore, ReadThreads, SequenceQuery, SequenceTable, Store, StoreError};
use weftwork_types::{OrgId, Principal, Timestamp};

fn conversation(id: &str, agent: &str) -> NewConversation {
    let agent = Some(agent.to_owned());
    NewConversation { id: id.to_owned(), agent, ..NewConversation::default() }
}

#[test]
fn an_id_is_any_text_and_no_two_subjects_share_a_thread() {
    let ada = principal("ada");
    let same = conversation_thread(&ada, "7").expect("a thread");
    assert_eq!(conversation_thread(&ada, "7"), Ok(same.clone()));
    let org = |name: &str, subject: &str| Principal::new(OrgId::new(name).expect("an id"), subject);
    let others =
        [(org("us", "bob"), "7"), (org("them", "ada"), "7"), (ada.clone(), "8"), (ada.clone(), "")];
    for (who, id) in others {
        assert_ne!(conversation_thread(&who, id), Ok(same.clone()));
    }
    assert_ne!(
        conversation_thread(&org("us", "a/b"), "c"),
        conversation_thread(&org("us", "a"), "b/c")
    );
    for id in ["/../x", "ü\u{0}\u{202e}", &"x".repeat(512)] {
        let thread = conversation_thread(&ada, id).expect("a thread");
        assert_eq!(thread.as_str().len(), 36);
    }
    let long = conversation_thread(&ada, &"x".repeat(513));
    assert!(matches!(long, Err(RecordError::Limit { found: 513, max: 512, .. })), "{long:?}");
}

async fn list(store: &dyn Store, who: &Principal, agent: Option<&str>) -> Vec<String> {
    let mut query = ConversationQuery { agent: agent.map(str::to_owned), after: None, limit: 2 };
    let mut ids = Vec::new();
    loop {
        let page = conversations(store, who, query.clone()).await.expect("reads");
        ids.extend(page.conversations.into_iter().map(|found| found.id));
        let Some(next) = page.next else { return ids };
        query.after = Some(next);
    }
}

#[tokio::test]
async fn conversations_are_listed_for_their_subject() {
    let store = MemoryStore::new();
    let ada = principal("ada");
    let bob = principal("bob");
    for (who, id, agent, at) in [
        (&ada, "a", "golf", 1),
        (&bob, "b", "golf", 2),
        (&ada, "c", "sql", 3),
        (&ada, "d", "golf", 4),
    ] {
        open_conversation(&store, who, conversation(id, agent), Timestamp(at))
            .await
            .expect("opens");
    }
    assert_eq!(list(&store, &ada, None).await, ["d", "c", "a"]);
    assert_eq!(list(&store, &ada, Some("golf")).await, ["d", "a"]);
    assert_eq!(list(&store, &bob, None).await, ["b"]);
    // Opening again changes nothing.
    let again = open_conversation(&store, &ada, conversation("a", "other"), Timestamp(9)).await;
    let again = again.expect("opens");
    assert_eq!((again.agent.as_deref(), again.created_at), (Some("golf"), Timestamp(1)));
    let row = store.thread(&ada, &again.thread).await.expect("reads");
    assert_eq!(Conversation::of(&ada, &row), Some(again));
    assert_eq!(Conversation::of(&bob, &row), None);
    let records = Records::new(&store, &bob, Timestamp(9));
    let found = read_conversation(&records, "a").await;
    assert!(matches!(found, Err(RecordError::Store(StoreError::NotFound { .. }))), "{found:?}");
}

#[tokio::test]
async fn a_conversation_is_exported_and_erased_with_all_it_has() {
    let store = MemoryStore::new();
    let ada = principal("ada");
    let opened = open_conversation(&store, &ada, conversation("7", "golf"), Timestamp(1)).await;
    let thread = opened.expect("opens").thread;
    let records = Records::new(&store, &ada, Timestamp(5));
    let id = |text: &str| RecordId::new(text).expect("an id");
    let plan = RecordRef::plan(&thread, id("p"));
    records.create(&plan, &new("# Plan\n"), &markdown()).await.expect("creates");
    records.edit(&plan, &edit(None, "# New plan\n"), &markdown()).await.expect("edits");
    let deliverable = RecordRef::deliverable(&thread, id("p"));
    records.create(&deliverable, &new("# Text\n"), &markdown()).await.expect("creates");
    let value = export_conversation(&records, "7").await.expect("exports");
    assert_eq!(value["conversation"]["id"], json!("7"));
    assert_eq!(value["plans"][0]["current"], json!(2));
    assert_eq!(value["plans"][0]["versions"][1]["content"], json!("# New plan\n"));
    assert_eq!(value["deliverables"][0]["versions"][0]["content"], json!("# Text\n"));
    let bob = principal("bob");
    let erased = erase_conversation(&Records::new(&store, &bob, Timestamp(6)), "7").await;
    assert!(matches!(erased, Err(RecordError::Store(StoreError::NotFound { .. }))));
    erase_conversation(&records, "7").await.expect("erases");
    for kind in [PLANS, RECORD_CONTENTS] {
        let rows = store.sequence_rows(&ada, SequenceQuery::all(kind)).await;
        assert_eq!(rows, Ok(Vec::new()), "{kind}");
    }
    assert_eq!(list(&store, &ada, None).await, Vec::<String>::new());
}
