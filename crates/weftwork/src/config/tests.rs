//! Tests of sources of settings and their precedence.

use super::*;

struct Home {
    folder: tempfile::TempDir,
    variables: BTreeMap<&'static str, String>,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("home").display().to_string();
        Self { folder, variables: BTreeMap::from([("HOME", home)]) }
    }

    fn set(mut self, name: &'static str, value: &str) -> Self {
        self.variables.insert(name, value.to_owned());
        self
    }

    fn file(self, text: &str) -> Self {
        std::fs::write(self.folder.path().join("weft.toml"), text).expect("written");
        self
    }

    fn load(&self, flags: &Flags) -> Result<Config, Error> {
        let variable = |name: &str| self.variables.get(name).cloned();
        Config::load(&Surroundings { variable: &variable, folder: self.folder.path() }, flags)
    }

    fn refused(&self) -> (String, String) {
        let fault = self.load(&Flags::default()).expect_err("refused").fault();
        let folder = self.folder.path().display().to_string();
        (fault.code, fault.message.replace(&folder, "FOLDER"))
    }
}

#[test]
fn flags_win_over_environment_over_file() {
    let home = Home::new().file("model = \"ollama:a\"\nstore = \"memory\"\n");
    let model = |home: &Home, flags: &Flags| home.load(flags).expect("loads").model;
    let path = home.folder.path().join("weft.toml");
    assert_eq!(
        model(&home, &Flags::default()),
        Some(Setting { value: "ollama:a".to_owned(), origin: Origin::File(path) })
    );
    let home = home.set(MODEL_VARIABLE, "openai:b");
    let from_env = model(&home, &Flags::default()).expect("a model");
    assert_eq!(from_env.origin, Origin::Environment(MODEL_VARIABLE));
    let flags = Flags { model: Some("scripted".to_owned()), ..Flags::default() };
    let from_flag = model(&home, &flags).expect("a model");
    assert_eq!((from_flag.value.as_str(), from_flag.origin), ("scripted", Origin::Flag("--model")));
}

#[test]
fn the_default_store_is_in_the_users_data_folder() {
    let home = Home::new();
    let store = home.load(&Flags::default()).expect("loads").store;
    let expected = home.folder.path().join("home/.local/share/weftwork/weft.db");
    assert_eq!(store, Setting { value: StorePlace::Sqlite(expected), origin: Origin::Default });
    let home = home.set("XDG_DATA_HOME", "/data");
    let store = home.load(&Flags::default()).expect("loads").store.value;
    assert_eq!(store.to_string(), "sqlite:/data/weftwork/weft.db");
    let mut nowhere = Home::new();
    nowhere.variables.clear();
    assert_eq!(nowhere.refused().0, "W0705");
}

#[test]
fn paths_of_a_file_are_relative_to_it_and_the_home_directory_has_a_short_name() {
    let home = Home::new().set(CONFIG_VARIABLE, "conf/weft.toml");
    let folder = home.folder.path().to_owned();
    std::fs::create_dir(folder.join("conf")).expect("made");
    let text = "store = \"sqlite:shop.db\"\nmodel_file = \"weights\"\npolicy = \"rules.toml\"\n";
    std::fs::write(folder.join("conf/weft.toml"), text).expect("written");
    std::fs::write(folder.join("conf/rules.toml"), "version = 1\n").expect("written");
    let config = home.load(&Flags::default()).expect("loads");
    assert_eq!(config.store.value, StorePlace::Sqlite(folder.join("conf/shop.db")));
    let model_file = config.model_file.expect("a file").value;
    assert_eq!(model_file, folder.join("conf/weights"));
    assert_eq!(config.rules.expect("rules").file.value, folder.join("conf/rules.toml"));
    // What a person types is relative to the working directory.
    let home = home.set(STORE_VARIABLE, "sqlite:shop.db");
    let store = |home: &Home| home.load(&Flags::default()).map(|config| config.store.value);
    assert_eq!(store(&home).expect("loads"), StorePlace::Sqlite(PathBuf::from("shop.db")));
    let home = home.set(STORE_VARIABLE, "sqlite:~/shop.db");
    let expected = StorePlace::Sqlite(folder.join("home/shop.db"));
    assert_eq!(store(&home).expect("loads"), expected);
    let home = home.set(STORE_VARIABLE, "sqlite:~ada/shop.db");
    let refused = store(&home).expect_err("a folder of that name would be made").to_string();
    assert!(
        refused.contains("is `~ada/shop.db`, expected a path that begins with `~/`"),
        "{refused}"
    );
}

#[test]
fn a_named_configuration_file_must_exist() {
    let home = Home::new().set(CONFIG_VARIABLE, "other.toml");
    let (code, message) = home.refused();
    assert_eq!(code, "W0701");
    assert!(message.starts_with("configuration file `FOLDER/other.toml` cannot be read"));
}

#[test]
fn an_unknown_field_is_refused_with_its_line_and_a_suggestion() {
    for (text, expected) in [
        (
            "\nmodle = \"local\"\n",
            "configuration file `FOLDER/weft.toml`, line 2: unknown field `modle`, expected one of `model`, `store`, `model_file`, `policy`, `agents`, `thread_budget`, `egress`, `providers`, `models`, `remotes`, `limits`; did you mean `model`?",
        ),
        (
            "[egress]\nalow = []\n",
            "configuration file `FOLDER/weft.toml`, line 2: unknown field `alow`, expected `allow` or `proxy`; did you mean `allow`?",
        ),
        (
            "model = 3\n",
            "configuration file `FOLDER/weft.toml`, line 1: invalid type: integer `3`, expected a string",
        ),
    ] {
        assert_eq!(Home::new().file(text).refused(), ("W0702".to_owned(), expected.to_owned()));
    }
}

#[test]
fn a_store_of_an_unknown_kind_is_refused() {
    for (written, shown) in [
        ("mysql://x", "mysql://x"),
        ("postgres", "postgres"),
        ("pstgres://ada:secret@db/weft", "pstgres…"),
        ("host=db password=secret", "host…"),
    ] {
        let (code, message) = Home::new().set(STORE_VARIABLE, written).refused();
        assert_eq!(code, "W0703");
        let expected = format!(
            "the store (from WEFT_STORE) is `{shown}`, expected `memory`, `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`"
        );
        assert_eq!(message, expected);
    }
    assert_eq!(Home::new().file("[egress]\nallow = [\"http://x\"]\n").refused().0, "W0806");
}

#[cfg(feature = "postgres")]
#[test]
fn the_password_of_a_database_is_never_shown() {
    for written in [
        "postgres://ada:secret@db.example:5433/weft?connect_timeout=3",
        "postgresql://ada:secret@db.example:5433/weft",
        "postgres:host=db.example port=5433 user=ada password=secret dbname=weft",
    ] {
        let home = Home::new().set(STORE_VARIABLE, written);
        let config = home.load(&Flags::default()).expect("loads");
        assert_eq!(config.store.value.to_string(), "postgres://ada@db.example:5433/weft");
        assert!(!format!("{config:?}").contains("secret"));
        let StorePlace::Postgres(address) = &config.store.value else { panic!("{config:?}") };
        assert!(address.whole().contains("secret"), "needed to connect");
        let data = home.folder.path().join("home/.local/share/weftwork");
        assert_eq!(config.folder(), Some(data), "an agent's files are in the user's data folder");
    }
    let unreadable = Home::new().set(STORE_VARIABLE, "postgres://ada:secret@db:no-port/weft");
    let place = unreadable.load(&Flags::default()).expect("loads").store.value;
    let error = place.open().expect_err("refused");
    assert!(!format!("{place} {place:?} {error} {error:?}").contains("secret"), "{error}");
}

#[test]
fn a_provider_of_the_file_is_in_the_table_with_its_key() {
    let text = "[providers.mine]\nurl = \"http://127.0.0.1:9/v1\"\nkey_env = \"MINE_KEY\"\n";
    let home = Home::new().file(text).set("MINE_KEY", "secret");
    let config = home.load(&Flags::default()).expect("loads");
    let row = config.providers.row("mine").expect("a row");
    assert!(row.is_loopback() && row.ready().is_ok());
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn prices_of_the_file_are_used_and_bad_ones_are_named() {
    let file = |price: &str| {
        let text = "[providers.openai]\nurl = \"https://gateway.example/v1\"\n";
        Home::new().file(&format!("{text}prices = [\n    {price},\n]\n"))
    };
    let home = file(r#"{ name = "gpt-4o", input = 3, output = 12.5 }"#);
    let config = home.set("OPENAI_API_KEY", "secret").load(&Flags::default()).expect("loads");
    let model = config.models().expect("a registry").resolve("openai:gpt-4o").expect("a model");
    let price = model.price().expect("a price");
    assert_eq!((price.input, price.output, price.cached), (3_000_000, 12_500_000, 3_000_000));
    let place = "configuration file `FOLDER/weft.toml`, line";
    for (price, reason) in [
        (
            r#"{ name = "gpt-4o", input = "3", output = 1 }"#,
            "3: `input` of the price of model `gpt-4o` is `\"3\"`, expected US dollars per million tokens, a number from 0 to 1000000",
        ),
        (
            r#"{ name = "gpt-4o", imput = 1, output = 1 }"#,
            "4: unknown field `imput`, expected one of `name`, `input`, `output`, `cached`, `cache_written`; did you mean `input`?",
        ),
        (r#"{ name = "gpt-4o", input = 1 }"#, "4: missing field `output`"),
    ] {
        let expected = ("W0702".to_owned(), format!("{place} {reason}"));
        assert_eq!(file(price).refused(), expected);
    }
}

#[cfg(not(feature = "mcp"))]
#[test]
fn servers_need_the_feature() {
    let flags = Flags { mcp: Some("mcp.json".to_owned()), ..Flags::default() };
    let error = Config::with_flags(&flags).expect_err("not built in");
    assert_eq!(error.fault().code, "W0913");
}

#[cfg(feature = "remote")]
#[test]
fn remotes_of_the_file_are_agents() {
    let text = "[remotes.helper]\nurl = \"http://127.0.0.1:9\"\nassistant = \"support\"\n";
    let with_key = format!("{text}key_env = \"HELPER_KEY\"\nchannels = [\"topic\"]\n");
    let home = Home::new().file(&with_key).set("HELPER_KEY", "secret");
    let config = home.load(&Flags::default()).expect("loads");
    assert!(!format!("{config:?}").contains("secret"));
    let agents = config.remotes.agents();
    let [agent] = &agents[..] else { panic!("{agents:?}") };
    assert_eq!((agent.id(), agent.name()), ("remote:helper", "helper"));
    assert_eq!(agent.description(), "assistant `support` at http://127.0.0.1:9");
    let unknown = Home::new().file(&format!("{text}asistant = 1\n"));
    assert_eq!(unknown.refused().0, "W0702");
    let password = Home::new().file(&text.replace("127", "ada:secret@127")).refused();
    assert_eq!(password.0, "W0650");
    assert!(!password.1.contains("secret"), "{}", password.1);
}

#[cfg(not(feature = "remote"))]
#[test]
fn remotes_need_the_feature() {
    let text = "[remotes.helper]\nurl = \"http://127.0.0.1:9\"\nassistant = \"support\"\n";
    assert_eq!(Home::new().file(text).refused().0, "W0913");
}

#[test]
fn the_budget_of_a_thread_is_read_from_each_source() {
    let home = Home::new().file("thread_budget = \"tokens=1000,usd=2\"\n");
    let budget = |home: &Home, flags: &Flags| {
        home.load(flags).expect("loads").thread_budget.expect("a budget").value
    };
    let limits = budget(&home, &Flags::default());
    let expected =
        Limits { tokens: Some(1_000), cost_micro_usd: Some(2_000_000), ..Limits::default() };
    assert_eq!(limits, expected);
    let home = home.set(THREAD_BUDGET_VARIABLE, "tools=5");
    assert_eq!(budget(&home, &Flags::default()).tool_calls, Some(5));
    let flags = Flags { thread_budget: Some("calls=3".to_owned()), ..Flags::default() };
    assert_eq!(budget(&home, &flags).model_calls, Some(3));
    let home = Home::new().file("thread_budget = \"token=5\"\n");
    let (code, message) = home.refused();
    assert_eq!(code, "W0703", "{message}");
    assert!(message.contains("`token` is no limit"), "{message}");
}

#[test]
fn the_weights_come_from_the_address_of_the_environment_if_there_is_one() {
    assert_eq!(Home::new().load(&Flags::default()).expect("loads").model_url, None);
    let home = Home::new().set(WEIGHTS_URL_VARIABLE, "http://127.0.0.1:80/weights");
    let config = home.load(&Flags::default()).expect("loads");
    assert_eq!(config.model_url.as_deref(), Some("http://127.0.0.1:80/weights"));
}

#[test]
fn the_version_of_graphs_is_plain_text_and_not_zero() {
    let home = Home::new().set(GRAPH_VERSION_VARIABLE, "1.4.0-rc_2+build");
    let config = home.load(&Flags::default()).expect("loads");
    assert_eq!(config.graph_version.as_deref(), Some("1.4.0-rc_2+build"));
    for wrong in ["0", "=cmd|x", "a\nb", &"x".repeat(101)] {
        let (code, message) = Home::new().set(GRAPH_VERSION_VARIABLE, wrong).refused();
        assert_eq!(code, "W0703", "{message}");
        assert!(message.contains("WEFT_GRAPH_VERSION"), "{message}");
    }
}
