//! Folders of definitions.

use super::file::Definition;
use super::openapi::{Operation, OperationFile, OperationProblems, read_operations};
use super::problem::{Location, Problem, ProblemKind};
use super::requests::{too_deep, unfit_requests};
use super::schema::path_of;
use super::transform::Transform;
use super::yaml::{FILE_BYTES_MAX, Node};
use super::{Beside, Read, Usual, read, read_members, sorted};
use crate::api::ApiTool;
use crate::context::tokens;
use crate::skills::Skill;
use crate::source::Name;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use weftwork_sandbox::{CodeKind, NoHost, Sandbox, SandboxError, Script};
use weftwork_types::canonical::{Hash, hash};
use weftwork_types::port::Clock;

/// Name of the file of a definition.
const AGENT: &str = "agent.yaml";
/// Keys that may be files of their own, with their names.
const BESIDE: [(&str, &str); 2] = [("context", "context.md"), ("function_code", "function.js")];
/// Maximum number of definitions in a folder, and of those in a store.
pub(crate) const DEFINITIONS_MAX: usize = 10_000;
/// Maximum size of all files of a definition that is given as texts, in bytes.
const TEXTS_BYTES_MAX: usize = 4 << 20;

/// A definition that was read from a folder.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DefinitionFolder {
    /// The folder.
    pub path: PathBuf,
    /// Slug: that of the definition, or the name of the folder.
    pub slug: String,
    /// The definition, with the contents of the files beside it.
    pub definition: Definition,
    /// Files that its sources and skills name.
    pub files: Vec<FileText>,
    /// Hash of the definition with the contents of the files beside it. Comments, the order of keys
    /// and the slug are no part of it.
    pub hash: Hash,
    /// Places of its keys; `None` if it was not read from a file.
    node: Option<Node>,
    file: String,
}

/// A file of the folder of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    /// Path, as the definition has it.
    pub path: String,
    /// Content.
    pub text: String,
}

/// A tool of an agent with the size of its declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSize {
    /// Name.
    pub name: String,
    /// Estimated number of tokens that models read; `None` if the server of the tool declares it.
    pub tokens: Option<usize>,
}

impl DefinitionFolder {
    /// Creates a definition that was read before, and stored.
    pub(crate) fn stored(
        slug: String,
        definition: Definition,
        files: Vec<FileText>,
        hash: Hash,
    ) -> Self {
        let path = PathBuf::new();
        Self { path, slug, definition, files, hash, node: None, file: String::new() }
    }

    /// Creates the definition that a plan would be a part of.
    pub(super) fn of_plan(slug: String, definition: Definition, node: Node) -> Self {
        let hash = hash(&json!(null));
        Self { node: Some(node), ..Self::stored(slug, definition, Vec::new(), hash) }
    }

    /// Returns the tools of the agent with their sizes.
    #[must_use]
    pub fn tool_sizes(&self) -> Vec<ToolSize> {
        let named = self.definition.tools.iter().flatten();
        let named = named.map(|name| ToolSize { name: name.clone(), tokens: None });
        // Reading the definition has read them before.
        let operations = self.operations().unwrap_or_default();
        let of_api = ApiTool::specs(self, &operations).into_iter().map(|spec| {
            let declared = json!([spec.name, spec.description, spec.parameters]).to_string();
            ToolSize { name: spec.name, tokens: Some(tokens(&declared)) }
        });
        named.chain(of_api).collect()
    }

    /// Reads the operations of its OpenAPI file.
    ///
    /// # Errors
    /// Problems of the file, and operations that it does not have.
    pub(crate) fn operations(&self) -> Result<Vec<Operation>, Vec<Problem>> {
        let Some(path) = &self.definition.openapi else { return Ok(Vec::new()) };
        let text = self.files.iter().find(|file| file.path == *path);
        let text = text.map(|file| file.text.as_str()).unwrap_or_default();
        let file = path_in_folder(Some(&self.slug), path);
        let of = OperationFile { file: &file, text };
        let ids = &self.definition.operations;
        read_operations(&of, ids).map_err(|problems| {
            let problem = |of| match of {
                OperationProblems::InFile(problems) => problems,
                OperationProblems::Unknown { position, known } => {
                    let id = ids.get(position).map(String::as_str).unwrap_or_default();
                    let problem =
                        self.problem(ProblemKind::UnknownWord, &format!("/operations/{position}"));
                    let problem = problem.found(id);
                    let problem = problem.expected(format!("an `operationId` of {path}"));
                    vec![problem.nearest_of(id, known.iter().map(String::as_str))]
                }
            };
            sorted(problems.into_iter().flat_map(problem).collect())
        })
    }

    /// Returns the version in ids: the beginning of the hash.
    #[must_use]
    pub fn version(&self) -> String {
        self.hash.to_string().chars().take(16).collect()
    }

    /// Reads the texts of the files of a definition that was read from a folder, by their names, for
    /// [`read_texts`].
    ///
    /// # Errors
    /// The problem of a file that can no longer be read.
    pub fn texts(&self) -> Result<BTreeMap<String, String>, Box<Problem>> {
        let names = [AGENT].into_iter().chain(BESIDE.iter().map(|(_, name)| *name));
        let names = names.chain(self.files.iter().map(|file| file.path.as_str()));
        let mut texts = BTreeMap::new();
        for name in names {
            let text = read_file(&self.path, name)?;
            texts.extend(text.map(|text| (name.to_owned(), text)));
        }
        Ok(texts)
    }

    /// Checks the programs of jq of the definition, without executing them: that needs a sandbox, in
    /// which they are read.
    ///
    /// # Errors
    /// The sandbox has no result, for another reason than the program.
    pub async fn check_programs(
        &self,
        sandbox: &Sandbox,
        clock: &dyn Clock,
    ) -> Result<Vec<Problem>, SandboxError> {
        let mut problems = Vec::new();
        for (pointer, transform) in self.definition.transforms() {
            let Ok(Transform::Jq(code)) = Transform::read(transform) else { continue };
            let script = Script { code_kind: CodeKind::JqCheck, code, ..Script::default() };
            let reason = match sandbox.run(&script, &NoHost, clock).await {
                Ok(_) => continue,
                Err(SandboxError::Invalid { reason }) => reason,
                Err(error @ SandboxError::Limit { .. }) => error.to_string(),
                Err(error) => return Err(error),
            };
            problems.push(self.bad_value(pointer, format!("a program of jq ({reason})")));
        }
        Ok(problems)
    }

    /// Creates a problem of a value.
    pub(crate) fn bad_value(&self, pointer: &str, expected: String) -> Problem {
        let node = self.node.as_ref().and_then(|node| node.at(pointer));
        let found = node.map(|node| node.to_json().to_string()).unwrap_or_default();
        self.problem(ProblemKind::BadValue, pointer).found(found).expected(expected)
    }

    /// Creates the problem of a definition that exceeds a limit of its organisation.
    pub(crate) fn too_large(&self, found: String, expected: String) -> Problem {
        self.problem(ProblemKind::TooLarge, "").found(found).expected(expected)
    }

    /// Creates the problem of a definition whose organisation and slug another one has, too.
    pub(crate) fn taken(&self, other: String) -> Problem {
        let problem = self.problem(ProblemKind::Twice, "/slug").found(&self.slug);
        let problem = problem.expected("a slug that no other agent of the organisation has");
        Problem { other: Some(other), ..problem }
    }

    /// Returns the path of its `agent.yaml`.
    pub(crate) fn file_path(&self) -> PathBuf {
        self.path.join(AGENT)
    }

    fn location(&self, pointer: &str) -> Location {
        let node = self.node.as_ref().and_then(|node| node.at(pointer));
        node.map_or(Location::START, |node| node.location)
    }

    pub(super) fn problem(&self, kind: ProblemKind, pointer: &str) -> Problem {
        Problem::new(kind, self.location(pointer)).in_file(&self.file).path(path_of(pointer))
    }
}

/// The files of a definition, by their names: on the disk, or as texts.
#[derive(Clone, Copy)]
enum Files<'a> {
    Folder(&'a Path),
    Texts(&'a BTreeMap<String, String>),
}

impl Files<'_> {
    /// Returns the text of a file; `None` if it does not exist.
    fn read(self, name: &str) -> Result<Option<String>, Box<Problem>> {
        match self {
            Self::Folder(path) => read_file(path, name),
            Self::Texts(texts) => match texts.get(name) {
                Some(text) if text.len() > FILE_BYTES_MAX => Err(too_large()),
                text => Ok(text.cloned()),
            },
        }
    }
}

/// The definitions of a folder of folders.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Definitions {
    /// Sound definitions, by the names of their folders.
    pub sound: Vec<DefinitionFolder>,
    /// Problems, by file and location.
    pub problems: Vec<Problem>,
    /// Organisations and slugs of the agents of folders with problems, where they are known.
    names: BTreeMap<String, Name>,
}

impl Definitions {
    /// Returns the names of the folders without a sound definition.
    #[must_use]
    pub fn broken(&self) -> BTreeSet<&str> {
        let name_of = |folder: &DefinitionFolder| {
            folder.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let sound: BTreeSet<String> = self.sound.iter().map(name_of).collect();
        let names = self.problems.iter().filter_map(|problem| problem.file.split('/').next());
        names.filter(|name| !sound.contains(*name)).collect()
    }

    /// Returns the names of the folders without a sound definition, with those of their agents where
    /// they are known.
    pub(crate) fn broken_names(&self) -> BTreeMap<String, Option<Name>> {
        let known = |folder: &str| (folder.to_owned(), self.names.get(folder).cloned());
        self.broken().into_iter().map(known).collect()
    }
}

impl From<Vec<DefinitionFolder>> for Definitions {
    fn from(sound: Vec<DefinitionFolder>) -> Self {
        Self { sound, ..Self::default() }
    }
}

impl From<Result<DefinitionFolder, Vec<Problem>>> for Definitions {
    fn from(read: Result<DefinitionFolder, Vec<Problem>>) -> Self {
        match read {
            Ok(folder) => vec![folder].into(),
            Err(problems) => Self { problems, ..Self::default() },
        }
    }
}

/// Reads all definitions of a folder: each of its folders that has an `agent.yaml`. A definition
/// with problems does not affect the others, except those that name its agent.
///
/// # Errors
/// The folder cannot be read.
pub fn read_definitions(root: &Path) -> Result<Definitions, Box<Problem>> {
    let mut folders = Vec::new();
    let entries = std::fs::read_dir(root).map_err(|error| Box::new(unreadable(root, &error)))?;
    for entry in entries {
        let path = entry.map_err(|error| Box::new(unreadable(root, &error)))?.path();
        if path.join(AGENT).symlink_metadata().is_ok() {
            folders.push(path);
        }
    }
    folders.sort();
    if folders.len() > DEFINITIONS_MAX {
        let problem = Problem::new(ProblemKind::TooLarge, Location::START);
        let problem = problem.in_file(&root.display().to_string());
        let problem = problem.found(format!("{} definitions", folders.len()));
        return Err(Box::new(problem.expected(format!("at most {DEFINITIONS_MAX}"))));
    }
    let mut read = Definitions::default();
    for path in folders {
        match read_folder(&path) {
            Ok(folder) => read.sound.push(folder),
            Err(problems) => {
                read.names.extend(read_name(&path));
                read.problems.extend(problems);
            }
        }
    }
    let problems = check_together(&read.sound.iter().collect::<Vec<_>>());
    // A definition that reaches itself, or has the name of another one, is not sound either.
    let is_sound = |folder: &DefinitionFolder| problems.iter().all(|of| of.file != folder.file);
    for folder in read.sound.extract_if(.., |folder| !is_sound(folder)) {
        let name = folder.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        read.names.insert(name, (folder.definition.organization, folder.slug));
    }
    read.problems.extend(problems);
    read.problems = sorted(read.problems);
    Ok(read)
}

/// Reads the name of a folder, and the organisation and the slug of its definition, which has problems.
/// `None` if they cannot be read.
fn read_name(path: &Path) -> Option<(String, Name)> {
    let folder = path.file_name()?.to_string_lossy().into_owned();
    let members = read_members(&read_file(path, AGENT).ok()??).ok()?;
    let text = |key: &str| match members.get(key) {
        None => Some(None),
        Some(value) => value.as_str().map(|text| Some(text.to_owned())),
    };
    let slug = text("slug")?.unwrap_or_else(|| folder.clone());
    Some((folder, (text("organization")?, slug)))
}

/// Reads the definition of one folder. The files of problems are relative to the parent of the
/// folder.
///
/// # Errors
/// All problems of the definition.
pub fn read_folder(path: &Path) -> Result<DefinitionFolder, Vec<Problem>> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let folder = read_definition_files(
        Files::Folder(path),
        Usual { slug: Some(&name), organization: None },
    )?;
    Ok(DefinitionFolder { path: path.to_owned(), ..folder })
}

/// Returns `true` for a path that a folder may have below it, written as it is stored.
#[must_use]
pub fn is_within(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    let is_plain = |char: char| !char.is_control() && char != '\\' && char != ':';
    path.split('/').all(is_name) && path.chars().all(is_plain)
}

/// Reads a definition from the texts of its files, by their names: `agent.yaml`, and those that it
/// names. They are checked as the files of a folder are. A definition without the key has this
/// organisation.
///
/// # Errors
/// All problems of the definition. A text that the definition does not name is one.
pub fn read_texts(
    slug: Option<&str>,
    organization: Option<&str>,
    texts: &BTreeMap<String, String>,
) -> Result<DefinitionFolder, Vec<Problem>> {
    let path_of_file = |name: &str| path_in_folder(slug, name);
    let bytes: usize = texts.values().map(String::len).sum();
    if bytes > TEXTS_BYTES_MAX {
        let problem = Problem::new(ProblemKind::TooLarge, Location::START);
        let problem = problem.in_file(&path_of_file(AGENT));
        let problem = problem.found(format!("{bytes} bytes in all files"));
        return Err(vec![problem.expected(format!("at most {TEXTS_BYTES_MAX} bytes"))]);
    }
    let outside = texts.keys().filter(|name| !is_within(name));
    let problems: Vec<_> = outside
        .map(|name| {
            let problem = Problem::new(ProblemKind::Unreadable, Location::START);
            let problem = problem.in_file(&path_of_file(AGENT)).found(name);
            problem.expected("a path within the folder, such as `texts/style.md`")
        })
        .collect();
    if !problems.is_empty() {
        return Err(sorted(problems));
    }
    let folder = read_definition_files(Files::Texts(texts), Usual { slug, organization })?;
    let named = |name: &str| {
        name == AGENT
            || BESIDE.iter().any(|(_, beside)| *beside == name)
            || folder.files.iter().any(|file| file.path == name)
    };
    let others = texts.keys().filter(|name| !named(name));
    let problem = |name: &String| {
        let problem = Problem::new(ProblemKind::UnknownKey, Location::START).path(name);
        let problem = problem.in_file(&path_of_file(name));
        problem.expected("a file that the definition names")
    };
    let problems: Vec<_> = others.map(problem).collect();
    if problems.is_empty() { Ok(folder) } else { Err(sorted(problems)) }
}

/// Returns the path of a file of a definition, as problems have it.
fn path_in_folder(slug: Option<&str>, name: &str) -> String {
    match slug {
        Some(slug) => format!("{slug}/{name}"),
        None => name.to_owned(),
    }
}

/// Reads a definition from its files. One without the keys has this slug and this organisation.
fn read_definition_files(
    files: Files<'_>,
    usual: Usual<'_>,
) -> Result<DefinitionFolder, Vec<Problem>> {
    let path_of_file = |name: &str| path_in_folder(usual.slug, name);
    let file = path_of_file(AGENT);
    let in_file = |mut problems: Vec<Problem>| {
        for problem in &mut problems {
            problem.file.clone_from(&file);
        }
        problems
    };
    let text = match files.read(AGENT) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let problem = Problem::new(ProblemKind::Unreadable, Location::START);
            return Err(in_file(vec![problem.found("no such file").expected("a file")]));
        }
        Err(problem) => return Err(in_file(vec![*problem])),
    };
    let mut beside = Vec::new();
    for (key, name_of_file) in BESIDE {
        match files.read(name_of_file) {
            Ok(None) => {}
            Ok(Some(text)) => beside.push(Beside { key, file: name_of_file, text }),
            Err(problem) => return Err(vec![problem.in_file(&path_of_file(name_of_file))]),
        }
    }
    let Read { definition, node } = read(&text, beside, usual).map_err(in_file)?;
    // The slug is the name of the definition, and not a part of what it says.
    let content = Definition { slug: None, ..definition.clone() };
    let texts = read_files(files, &definition, &node).map_err(in_file)?;
    let named: Vec<_> = texts.iter().map(|file| json!([file.path, file.text])).collect();
    let content = serde_json::to_value(&content).unwrap_or_default();
    let hash = hash(&if named.is_empty() { content } else { json!([content, named]) });
    let Some(slug) = definition.slug.clone() else {
        let problem = Problem::new(ProblemKind::MissingKey, node.location);
        return Err(in_file(vec![problem.expected("the key `slug`")]));
    };
    let path = PathBuf::new();
    let folder =
        DefinitionFolder { path, slug, definition, files: texts, hash, node: Some(node), file };
    folder.operations()?;
    Ok(folder)
}

/// Reads the files that the sources and the skills of a definition name.
fn read_files(
    all: Files<'_>,
    definition: &Definition,
    node: &Node,
) -> Result<Vec<FileText>, Vec<Problem>> {
    let mut files: Vec<FileText> = Vec::new();
    let mut problems = Vec::new();
    for (source, paths) in definition.sources.iter().flatten().map(|of| &of.paths).enumerate() {
        for (place, path) in paths.iter().enumerate() {
            let pointer = format!("/sources/{source}/paths/{place}");
            let location = node.at(&pointer).map_or(Location::START, |node| node.location);
            match all.read(path) {
                Ok(Some(text)) => files.push(FileText { path: path.clone(), text }),
                Ok(None) => {
                    let problem = Problem::new(ProblemKind::Unreadable, location);
                    let problem = problem.path(path_of(&pointer)).found(path);
                    problems.push(problem.expected("a file of the folder"));
                }
                Err(problem) => {
                    problems.push(Problem { location, path: path_of(&pointer), ..*problem });
                }
            }
        }
    }
    if let Some(path) = &definition.openapi {
        let location = node.at("/openapi").map_or(Location::START, |node| node.location);
        match all.read(path) {
            Ok(Some(text)) => files.push(FileText { path: path.clone(), text }),
            Ok(None) => {
                let problem = Problem::new(ProblemKind::Unreadable, location);
                problems.push(problem.path("openapi").found(path).expected("a file of the folder"));
            }
            Err(problem) => {
                problems.push(Problem { location, path: "openapi".to_owned(), ..*problem })
            }
        }
    }
    let mut names = BTreeSet::new();
    for (place, folder) in definition.skills.iter().enumerate() {
        let pointer = format!("/skills/{place}");
        let location = node.at(&pointer).map_or(Location::START, |node| node.location);
        let path = Skill::file(folder);
        let new = |kind| Problem::new(kind, location).path(path_of(&pointer));
        let text = match all.read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => {
                let problem = new(ProblemKind::Unreadable).found(&path);
                problems.push(problem.expected("a folder with a `SKILL.md`"));
                continue;
            }
            Err(problem) => {
                problems.push(Problem { location, path: path_of(&pointer), ..*problem });
                continue;
            }
        };
        match Skill::read(&text) {
            None => problems.push(new(ProblemKind::MissingKey).found(&path).expected(
                "`name` and `description` as texts in the front matter, between two lines `---`",
            )),
            Some(skill) if !names.insert(skill.name.clone()) => problems.push(
                new(ProblemKind::Twice)
                    .found(&skill.name)
                    .expected("a name that no other skill has"),
            ),
            Some(_) => files.push(FileText { path, text }),
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

fn is_regular(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Returns the text of a file of a folder; `None` if it does not exist. A link may lead to a file
/// below the folder, as those of mounted configurations do, and to no other: the text of a file
/// is quoted in problems.
fn read_file(folder: &Path, name: &str) -> Result<Option<String>, Box<Problem>> {
    let path = &folder.join(name);
    let found = path.canonicalize().and_then(|file| Ok((folder.canonicalize()?, file)));
    let file = match found {
        // Opening a pipe would wait for its writer.
        Ok((folder, file)) if file.starts_with(&folder) && !is_regular(&file) => {
            let problem = Problem::new(ProblemKind::Unreadable, Location::START);
            return Err(Box::new(problem.found("no regular file").expected("a file")));
        }
        Ok((folder, file)) if file.starts_with(&folder) => File::open(file),
        Ok(_) => {
            let problem = Problem::new(ProblemKind::Unreadable, Location::START);
            let problem = problem.found("a link to a file outside of the folder");
            return Err(Box::new(problem.expected("a file of the folder")));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error),
    };
    let file = file.map_err(|error| Box::new(unreadable(path, &error)))?;
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    let read = file.take(limit).read_to_end(&mut bytes);
    read.map_err(|error| Box::new(unreadable(path, &error)))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(too_large());
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let sound = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let text = String::from_utf8_lossy(sound);
        let line = text.split('\n').count() as u64;
        let column = text.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        let problem = Problem::new(ProblemKind::Unreadable, Location { line, column });
        Box::new(problem.found("bytes that are no UTF-8").expected("UTF-8"))
    })
}

fn too_large() -> Box<Problem> {
    let problem = Problem::new(ProblemKind::TooLarge, Location::START).found("more bytes");
    Box::new(problem.expected(format!("at most {FILE_BYTES_MAX} bytes")))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(ProblemKind::Unreadable, Location::START)
        .in_file(&path.display().to_string())
        .found(error.to_string())
}

/// Returns the problems between definitions: two of one name, agents that do not exist, and agents
/// that reach themselves.
fn check_together(folders: &[&DefinitionFolder]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut by_name = ByName::new();
    for folder in folders.iter().copied() {
        let name = name_of(folder);
        let Some(first) = by_name.insert(name, folder) else { continue };
        // The folder that has the slug as its name keeps it.
        let is_named =
            |of: &DefinitionFolder| of.path.file_name().is_some_and(|own| *own == *of.slug);
        let (first, folder) = match is_named(folder) {
            true => (folder, first),
            false => (first, folder),
        };
        by_name.insert(name, first);
        let other = first.location("/slug");
        let problem = folder.problem(ProblemKind::Twice, "/slug").found(&folder.slug);
        let problem = problem.expected("a slug that no other agent of the organisation has");
        problems.push(problem.other(&first.file, other));
    }
    for folder in folders.iter().copied() {
        problems.extend(unknown_agents(folder, &by_name));
        problems.extend(unfit_requests(folder, &by_name));
        problems.extend(too_deep(folder, 0, &by_name));
    }
    problems.extend(circles(folders, &by_name));
    problems
}

/// Returns the problems that a definition has among others: it asks an agent that does not exist, or
/// that asks it.
pub(crate) fn check_among(folder: &DefinitionFolder, others: &[&DefinitionFolder]) -> Vec<Problem> {
    check_at_depth(folder, 0, others)
}

/// As [`check_among`], for a definition whose orchestration begins at a depth.
pub(super) fn check_at_depth(
    folder: &DefinitionFolder,
    depth: u64,
    others: &[&DefinitionFolder],
) -> Vec<Problem> {
    let all = others.iter().copied().chain([folder]);
    let by_name: ByName<'_> = all.map(|of| (name_of(of), of)).collect();
    let mut problems = unknown_agents(folder, &by_name);
    problems.extend(unfit_requests(folder, &by_name));
    problems.extend(too_deep(folder, depth, &by_name));
    let closing = circles(&[folder], &by_name).into_iter().map(|problem| {
        // The other definitions are sound, also if one of them closes the circle.
        let pointer = folder.definition.asks().next().map(|(pointer, _)| pointer);
        let own = folder.problem(ProblemKind::Cycle, &pointer.unwrap_or_default());
        Problem { found: problem.found, expected: problem.expected, ..own }
    });
    problems.extend(closing);
    sorted(problems)
}

/// Definitions by organisation and slug.
pub(super) type ByName<'a> = BTreeMap<(Option<&'a str>, &'a str), &'a DefinitionFolder>;

fn name_of(folder: &DefinitionFolder) -> (Option<&str>, &str) {
    (folder.definition.organization.as_deref(), &folder.slug)
}

/// Returns the agent that a definition gets for a slug: that of its organisation, or that for all.
pub(super) fn find<'a>(
    by_name: &ByName<'a>,
    of: &DefinitionFolder,
    slug: &str,
) -> Option<&'a DefinitionFolder> {
    let own = of.definition.organization.as_deref();
    by_name.get(&(own, slug)).or_else(|| by_name.get(&(None, slug))).copied()
}

fn unknown_agents(folder: &DefinitionFolder, by_name: &ByName<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let own = folder.definition.organization.as_deref();
    for (pointer, slug) in folder.definition.asks() {
        if find(by_name, folder, slug).is_none() {
            let problem = folder.problem(ProblemKind::UnknownAgent, &pointer).found(slug);
            let problem = problem.expected("the slug of an agent beside it");
            // Agents of other organisations are none that it may ask, and not named.
            let names = by_name.keys().filter(|(org, _)| org.is_none() || *org == own);
            problems.push(problem.nearest_of(slug, names.map(|(_, slug)| *slug)));
        }
    }
    problems
}

/// Returns a problem for each request that closes a circle, with the circle by slugs.
fn circles<'a>(folders: &[&'a DefinitionFolder], by_name: &ByName<'a>) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Definitions of a store have no folders: each is known by its place in memory.
    let mut done: BTreeSet<*const DefinitionFolder> = BTreeSet::new();
    for first in folders.iter().copied() {
        // The way to the folder that is visited, each with the number of the request to follow next.
        let mut way: Vec<(&DefinitionFolder, usize)> = Vec::new();
        if done.insert(first) {
            way.push((first, 0));
        }
        while let Some((folder, next)) = way.last_mut() {
            let folder: &DefinitionFolder = folder;
            let Some((pointer, slug)) = folder.definition.asks().nth(*next) else {
                way.pop();
                continue;
            };
            *next += 1;
            let Some(other) = find(by_name, folder, slug) else { continue };
            if let Some(start) = way.iter().position(|(on_way, _)| std::ptr::eq(*on_way, other)) {
                let names = way.iter().skip(start).map(|(on_way, _)| on_way.slug.as_str());
                let names: Vec<_> = names.chain([slug]).collect();
                let problem = folder.problem(ProblemKind::Cycle, &pointer);
                let problem = problem.found(names.join(" → "));
                problems.push(problem.expected("no agent that asks the one that asks it"));
            } else if done.insert(other) {
                way.push((other, 0));
            }
        }
    }
    problems
}
