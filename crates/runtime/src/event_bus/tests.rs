use super::*;
use serde_json::json;
use weftwork_graph::SystemClock;
use weftwork_types::{TaskId, Timestamp};

fn delta(text: &str) -> AiEvent {
    AiEvent::TextDelta { delta: text.to_owned() }
}

fn custom(n: u32) -> AiEvent {
    AiEvent::custom(json!(n))
}

fn by(task: u128, step: i64) -> EventSource {
    let ns = "".into();
    let node = format!("n{task}").into();
    EventSource { node, task: TaskId(task), step, ns, graph_step: step, message: None }
}

fn bus() -> EventBus {
    EventBus::new(Arc::new(SystemClock::new()), 1)
}

/// Drains a watcher: durable events by their number, text by its position.
fn heard(watcher: &mut LiveReceiver) -> Vec<String> {
    received(watcher)
        .map(|told| match (told.event.delta(), told.position()) {
            (Some(delta), Some(at)) => format!("{}+{} {}", at.seq, at.bytes, delta.text),
            (None, Some(at)) => at.seq.to_string(),
            (_, None) => "placeless".to_owned(),
        })
        .collect()
}

/// Returns the events that a watcher can receive now.
fn received(watcher: &mut LiveReceiver) -> impl Iterator<Item = RunEvent> {
    std::iter::from_fn(|| match watcher.try_recv() {
        Some(Live::Event(event)) => Some(Arc::unwrap_or_clone(event)),
        _ => None,
    })
}

fn texts(carried: &Carried) -> Vec<String> {
    let pieces = carried.pieces.iter();
    let shown = pieces.map(|p| format!("{}+{} {}", p.at.end.seq, p.at.end.bytes, p.text));
    shown.collect()
}

#[test]
fn order_is_kept_and_only_durable_events_wait_for_the_log() {
    let bus = bus();
    let one = by(1, 1);
    let mut watcher = bus.watch();
    bus.emit(&one, delta("a"));
    assert_eq!(heard(&mut watcher), ["0+1 a"], "at once");
    bus.emit(&one, custom(1));
    bus.emit(&one, delta("bc"));
    bus.emit(&one, custom(2));
    assert_eq!(watcher.try_recv(), None, "nothing overtakes what is not yet on disk");
    let carried = bus.begin(&[]);
    assert_eq!(carried.events, [custom(1), custom(2)]);
    assert_eq!(texts(&carried), ["0+1 a", "1+2 bc"]);
    bus.emit(&one, delta("d"));
    bus.committed(1, Timestamp(9), Vec::new());
    assert_eq!(heard(&mut watcher), ["1", "1+2 bc", "2", "2+1 d"]);
    let done = AiEvent::Done { outcome: weftwork_types::run::RunStatus::Failed };
    assert_eq!(bus.begin(std::slice::from_ref(&done)).void, Some(Position::END));
    bus.committed(3, Timestamp(9), vec![done.clone()]);
    assert_eq!(
        received(&mut watcher).next(),
        Some(RunEvent::durable(3, Timestamp(9), done)),
        "of the commit"
    );
    bus.emit(&one, delta("late"));
    assert_eq!(watcher.try_recv(), Some(Live::Ended));
}

#[test]
fn text_that_comes_during_a_commit_stands_where_it_was_told() {
    let bus = bus();
    let one = by(1, 2);
    let mut watcher = bus.watch();
    bus.emit(&one, delta("a"));
    assert_eq!(texts(&bus.begin(&[])), ["0+1 a"]);
    bus.emit(&one, delta("b"));
    assert_eq!(heard(&mut watcher), ["0+1 a", "0+2 b"], "a slow commit of text holds nothing up");
    bus.committed(1, Timestamp(9), Vec::new());
    let step = AiEvent::Step { step: 1, nodes: Vec::new() };
    let carried = bus.begin(std::slice::from_ref(&step));
    assert_eq!(texts(&carried), ["0+2 b"], "of the step after it");
    assert_eq!(carried.void, None);
    bus.emit(&one, delta("c"));
    assert_eq!(heard(&mut watcher), [""; 0], "its place is after the step");
    bus.failed();
    assert_eq!(heard(&mut watcher), ["0+3 c"], "and nothing is held while the run waits");
    assert_eq!(texts(&bus.begin(std::slice::from_ref(&step))), ["0+3 bc"]);
    bus.emit(&one, delta("d"));
    bus.committed(1, Timestamp(9), vec![step]);
    assert_eq!(heard(&mut watcher), ["1", "1+1 d"]);
    assert_eq!(texts(&bus.begin(&[])), ["1+1 d"]);
}

#[test]
fn a_commit_that_is_tried_again_takes_what_it_took_at_first() {
    let bus = bus();
    let one = by(1, 1);
    let two = by(2, 2);
    let mut watcher = bus.watch();
    let step = [AiEvent::Step { step: 1, nodes: Vec::new() }];
    bus.emit(&one, custom(1));
    bus.emit(&one, delta("a"));
    assert_eq!(bus.begin(&step).events, [custom(1)]);
    bus.emit(&two, delta("b"));
    bus.emit(&two, custom(2));
    for _ in 0..2 {
        bus.failed();
        bus.emit(&two, custom(3));
        bus.tries_again();
        let carried = bus.begin(&step);
        assert_eq!(carried.events, [custom(1)]);
        assert_eq!(texts(&carried), [""; 0], "void with its step");
    }
    bus.committed(1, Timestamp(9), step.to_vec());
    assert_eq!(heard(&mut watcher), ["1", "1+1 a", "2", "2+1 b"]);
    let carried = bus.begin(&[]);
    assert_eq!(carried.events, [custom(2), custom(3), custom(3)]);
    assert_eq!(texts(&carried), ["2+1 b"]);
    bus.failed();
    bus.emit(&two, custom(4));
    bus.tries_again();
    let done = [AiEvent::Done { outcome: weftwork_types::run::RunStatus::Completed }];
    assert_eq!(bus.begin(&done).events.len(), 4, "nothing comes after the end");
    bus.failed();
    bus.emit(&two, custom(5));
    assert_eq!(bus.begin(&[]).events.len(), 5, "another commit takes all there is");
}

#[test]
fn text_is_void_with_its_step_or_its_attempt() {
    let bus = bus();
    let one = by(1, 1);
    let two = by(2, 1);
    let save = |expected: &[&str], void: Option<(u64, u64)>, own: Vec<AiEvent>, seq: u64| {
        let carried = bus.begin(&own);
        assert_eq!(texts(&carried), expected);
        assert_eq!(carried.void.map(|void| (void.seq, void.bytes)), void);
        bus.committed(seq, Timestamp(9), own);
    };
    bus.emit(&one, delta("a"));
    bus.emit(&two, delta("b"));
    bus.emit(&one, delta("c"));
    save(&["0+1 a", "0+2 b", "0+3 c"], None, Vec::new(), 1);
    bus.emit(&two, delta("d"));
    bus.emit(&two, AiEvent::AttemptReset(two.reset()));
    bus.emit(&two, delta("e"));
    save(&["1+1 e"], None, Vec::new(), 1);
    // Stored text of the other task precedes it.
    bus.emit(&one, AiEvent::AttemptReset(one.reset()));
    save(&[], Some((0, 3)), Vec::new(), 2);
    assert_eq!(bus.speaking(), [two.reset()].into());
    let later = by(3, 2);
    bus.emit(&later, delta("f"));
    bus.emit(&two, delta("g"));
    save(&["2+1 f"], Some((1, 1)), vec![AiEvent::Step { step: 1, nodes: Vec::new() }], 3);
    assert_eq!(bus.speaking(), [later.reset()].into());
    save(&[], Some((2, 1)), vec![AiEvent::Step { step: 2, nodes: Vec::new() }], 4);
    save(&[], None, vec![AiEvent::Step { step: 3, nodes: Vec::new() }], 5);
    let done = AiEvent::Done { outcome: weftwork_types::run::RunStatus::Completed };
    save(&[], None, vec![done], 6);
}

#[test]
fn no_more_text_is_kept_than_its_limit() {
    let bus = bus();
    let one = by(1, 1);
    let most = "x".repeat(text_buffer::KEPT_BYTES_MAX);
    bus.emit(&one, delta(&most));
    bus.emit(&one, delta("y"));
    bus.emit(&one, AiEvent::AttemptReset(one.reset()));
    bus.emit(&one, delta("z"));
    assert_eq!(texts(&bus.begin(&[])), ["1+1 z"]);
    bus.committed(1, Timestamp(9), Vec::new());
    let step = AiEvent::Step { step: 1, nodes: Vec::new() };
    bus.begin(std::slice::from_ref(&step));
    bus.committed(2, Timestamp(9), vec![step]);
    bus.emit(&one, delta(&most));
    bus.emit(&one, delta("y"));
    assert_eq!(bus.begin(&[]).pieces.len(), 1);
    bus.committed(3, Timestamp(9), Vec::new());
    let mut watcher = bus.attach().expect("the run goes on").live;
    bus.emit(&one, delta("z"));
    let pieces = received(&mut watcher).filter_map(|told| told.piece).map(|at| at.end.bytes);
    assert_eq!(pieces.collect::<Vec<_>>(), [most.len() as u64 + 2], "it is live all the same");
}

#[test]
fn who_comes_later_gets_the_rest() {
    let bus = bus();
    let one = by(1, 1);
    let attached = |bus: &EventBus| {
        let attached = bus.attach().expect("the run goes on");
        let unsaved: Vec<_> = attached.unsaved.iter().map(|piece| piece.text.clone()).collect();
        (attached.from, unsaved.concat(), attached.live)
    };
    assert_eq!(attached(&bus).0, Position::START);
    bus.emit(&one, delta("ab"));
    bus.begin(&[]);
    bus.committed(1, Timestamp(9), Vec::new());
    bus.emit(&one, delta("cd"));
    let (from, unsaved, mut live) = attached(&bus);
    assert_eq!((from, unsaved.as_str()), (Position::in_text(0, 2), "cd"));
    bus.emit(&one, delta("e"));
    assert_eq!(heard(&mut live), ["0+5 e"]);
    bus.end();
    assert!(bus.attach().is_none());
    let taken = EventBus::new(Arc::new(SystemClock::new()), 2).attach().expect("it begins");
    assert_eq!(taken.from, Position::END, "everything before it is stored");
}

/// Text whose event has a third of the size that may wait for a watcher.
fn third() -> AiEvent {
    delta(&"x".repeat(live::LAG_BYTES_MAX / 3 - size_of::<RunEvent>()))
}

#[test]
fn a_watcher_that_lags_is_detached_and_the_others_are_not() {
    let bus = bus();
    let one = by(1, 1);
    let mut slow = bus.watch();
    let mut fast = bus.watch();
    for _ in 0..3 {
        bus.emit(&one, third());
        assert_eq!(received(&mut fast).count(), 1);
    }
    let mut later = bus.watch();
    bus.emit(&one, third());
    assert_eq!(slow.try_recv(), Some(Live::Lagged));
    assert_eq!(slow.try_recv(), Some(Live::Lagged));
    assert_eq!(received(&mut fast).count(), 1);
    assert_eq!(received(&mut later).count(), 1);
    drop((slow, fast));
    for _ in 0..3 {
        bus.emit(&one, third());
    }
    assert_eq!(received(&mut later).count(), 3);
    bus.end();
    assert_eq!(later.try_recv(), Some(Live::Ended));
}

#[test]
fn an_event_beyond_the_limit_is_read_from_the_store() {
    let bus = bus();
    let one = by(1, 1);
    let mut watcher = bus.watch();
    bus.emit(&one, delta(&"x".repeat(live::LAG_BYTES_MAX)));
    assert_eq!(watcher.try_recv(), Some(Live::Lagged));
    assert!(bus.attach().is_none(), "the text is not stored yet");
    bus.begin(&[]);
    bus.committed(1, Timestamp(9), Vec::new());
    assert!(bus.attach().is_some());
}
