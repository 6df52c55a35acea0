//! The chain over a state with a hundred additional keys.

use crate::graphs::chain_over;
use peers_harness::{Failure, Found, wide};
use serde_json::Value;
use weftwork_graph::run_loop::Start;
use weftwork_graph::{CompiledGraph, RuntimeError, State};

macro_rules! wide_state {
    ($($key:ident)*) => {
        #[derive(State)]
        pub(super) struct Wide {
            #[channel(default)]
            n: u64,
            $($key: Option<String>,)*
        }

        fn filled() -> WideUpdate {
            let mut values = wide().map(|(_, value)| match value {
                Value::String(text) => Some(text),
                _ => None,
            });
            WideUpdate::new()$(.$key(values.next().flatten()))*
        }

        /// Returns the content of the state at the end.
        pub(crate) fn found(state: &State<Wide>) -> Found {
            let keys = [$(state.$key().is_some()),*].into_iter().filter(|there| *there).count();
            Found { n: *state.n(), keys, ..Found::default() }
        }
    };
}

wide_state! {
    k000 k001 k002 k003 k004 k005 k006 k007 k008 k009 k010 k011 k012 k013 k014 k015
    k016 k017 k018 k019 k020 k021 k022 k023 k024 k025 k026 k027 k028 k029 k030 k031
    k032 k033 k034 k035 k036 k037 k038 k039 k040 k041 k042 k043 k044 k045 k046 k047
    k048 k049 k050 k051 k052 k053 k054 k055 k056 k057 k058 k059 k060 k061 k062 k063
    k064 k065 k066 k067 k068 k069 k070 k071 k072 k073 k074 k075 k076 k077 k078 k079
    k080 k081 k082 k083 k084 k085 k086 k087 k088 k089 k090 k091 k092 k093 k094 k095
    k096 k097 k098 k099
}

pub(crate) fn chain() -> Result<CompiledGraph, Failure> {
    chain_over::<Wide, _>(async |state: State<Wide>| WideUpdate::new().n(state.n() + 1))
}

/// Creates the input of a run.
pub(crate) fn start() -> Result<Start, RuntimeError> {
    Start::typed(filled())
}
