//! Agents that are defined in the folder of a configuration.

use crate::config::{McpTools, Origin, ToolRules};
use crate::{AgentDef, Config, Error};
use std::sync::Arc;
use weftwork_graph::{CompiledGraph, InvalidGraph};
use weftwork_models::ChatModel;
use weftwork_platform::{
    AGENTS, Agents, CheckedPeer, DefinitionFolder, Definitions, Services, check_peer,
    read_definitions, read_texts,
};
use weftwork_store::{MemoryStore, Store};
use weftwork_types::port::Clock;

impl Config {
    /// Reads the definitions of agents in the folder of the configuration; none without a folder. A
    /// definition with problems is left out, and does not affect the others.
    ///
    /// # Errors
    /// [`Error::ConfigUnreadable`] if the folder cannot be read.
    pub fn read_definitions(&self) -> Result<Definitions, Error> {
        let Some(folder) = &self.agents else { return Ok(Definitions::default()) };
        read_definitions(&folder.value).map_err(|problem| Error::ConfigUnreadable {
            path: folder.value.clone(),
            reason: problem.to_string(),
        })
    }

    /// Checks the server of an agent of the type `external`: its credentials and its health. `None` for
    /// agents of other types.
    ///
    /// # Cancel safety
    /// Dropping the future ends the request.
    pub async fn check_peer(
        &self,
        folder: &DefinitionFolder,
        clock: &dyn Clock,
    ) -> Option<CheckedPeer> {
        let egress = match folder.definition.organization {
            Some(_) => self.egress_on_demand(Self::egress_without_exceptions),
            None => self.egress_on_demand(Self::egress),
        };
        check_peer(folder, egress, Arc::new(secret_of), clock).await
    }

    /// Creates the agents of definitions, with a model, and the tools and rules of the operator.
    #[must_use]
    pub fn define_agents(
        &self,
        definitions: Definitions,
        model: Arc<dyn ChatModel>,
        store: Arc<dyn Store>,
    ) -> Agents {
        let (tools, of_their_tools) = self.mcp.as_ref().map(McpTools::parts).unwrap_or_default();
        let rules = self.rules.as_ref().map(ToolRules::policy).unwrap_or_default();
        let config = self.clone();
        // A flag is for all agents, as it is for those of the program.
        let flag = self.model.as_ref().filter(|of| matches!(of.origin, Origin::Flag(_)));
        let chosen = flag.map(|_| Arc::clone(&model));
        let services = Services {
            model,
            open_model: Arc::new(move |id| match &chosen {
                Some(chosen) => Ok(Arc::clone(chosen)),
                None => config.open_listed_model(id),
            }),
            tools,
            policy: rules.then(of_their_tools),
            store,
            sandbox: self.sandbox.clone(),
            egress: self.egress_on_demand(Config::egress),
            egress_of_organizations: self.egress_on_demand(Config::egress_without_exceptions),
            secrets: Arc::new(secret_of),
        };
        Agents::new(definitions, services)
    }
}

/// Returns a secret that a definition names: a variable of the environment. Those of an organisation have
/// its name in front, so that its definitions read no secret of the operator or of another one. The error
/// is the reason why there is none.
fn secret_of(organization: Option<&str>, name: &str) -> Result<String, String> {
    let variable = match organization {
        None => name.to_owned(),
        // Other names could be told apart only by characters that variables do not have.
        Some(org) if org.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit()) => {
            format!("ORG_{}_{name}", org.to_ascii_uppercase())
        }
        Some(org) => {
            return Err(format!(
                "the organisation {org} can have no secret: its name has other characters than small letters and digits"
            ));
        }
    };
    let secret = std::env::var(&variable).ok().filter(|secret| !secret.is_empty());
    secret.ok_or_else(|| format!("the variable `{variable}` has no secret; set it for the program"))
}

impl AgentDef {
    /// The agent of a definition that an app finds in its store. Without the app it reads states, which
    /// all defined agents have alike.
    #[must_use]
    pub fn of_row(slug: &str) -> Self {
        let name = slug.to_owned();
        let make = move |model| {
            let invalid =
                |text: String| InvalidGraph::new(weftwork_types::ErrorCode("W1035"), text);
            let files = [("agent.yaml".to_owned(), "type: context\n".to_owned())].into();
            let read = read_texts(Some(&name), None, &files);
            let read = read.map_err(|_| invalid(format!("there is no agent {name}")))?;
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let config = Config::in_memory();
            let agents = config.define_agents(vec![read.clone()].into(), model, store);
            agents.compile(&read).map_err(|problem| invalid(problem.to_string()))
        };
        Self::defined(&format!("{AGENTS}{slug}"), make)
    }

    /// The agents of definitions that are for all organisations or for this one, and those whose files
    /// have problems, which may go on with a version of the store. An app resolves them by itself.
    #[must_use]
    pub fn of_definitions(config: &Config, definitions: &Definitions) -> Vec<Self> {
        let all = Arc::new(definitions.clone());
        let is_local = |folder: &&DefinitionFolder| folder.definition.organization.is_none();
        let def = |folder: &DefinitionFolder| {
            let slug = folder.slug.clone();
            let config = config.clone();
            let all = Arc::clone(&all);
            let make = move |model| {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                let agents = config.define_agents(Definitions::clone(&all), model, store);
                let invalid =
                    |text: String| InvalidGraph::new(weftwork_types::ErrorCode("W1035"), text);
                let who = weftwork_types::Principal::local();
                let folder = agents.definition(&who, &slug);
                let folder = folder.ok_or_else(|| invalid(format!("there is no agent {slug}")))?;
                agents.compile(&folder).map_err(|problem| invalid(problem.to_string()))
            };
            let about = folder.definition.agent_card.description.clone().unwrap_or_default();
            Self::defined(&format!("{AGENTS}{}", folder.slug), make).about(about)
        };
        let sound = definitions.sound.iter().filter(is_local).map(def);
        let broken = |slug: &str| {
            let text = format!("the definition of agent {slug} has problems");
            let about = text.clone();
            let invalid =
                move || InvalidGraph::new(weftwork_types::ErrorCode("W1035"), text.clone());
            let make = move |_| -> Result<CompiledGraph, InvalidGraph> { Err(invalid()) };
            Self::defined(&format!("{AGENTS}{slug}"), make).about(about)
        };
        sound.chain(definitions.broken().into_iter().map(broken)).collect()
    }
}
