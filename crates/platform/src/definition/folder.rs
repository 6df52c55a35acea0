//! Folders of definitions.

use super::file::Definition;
use super::problem::{Location, Problem, ProblemKind};
use super::schema::path_of;
use super::yaml::{FILE_BYTES_MAX, Node};
use super::{Beside, Read, read, sorted};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use weftwork_types::canonical::{Hash, hash};

/// Name of the file of a definition.
const AGENT: &str = "agent.yaml";
/// Keys that may be files of their own, with their names.
const BESIDE: [(&str, &str); 2] = [("context", "context.md"), ("function_code", "function.js")];
/// Maximum number of definitions in a folder.
const DEFINITIONS_MAX: usize = 10_000;

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
    /// Files that its sources name.
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

    /// Returns the version in ids: the beginning of the hash.
    #[must_use]
    pub fn version(&self) -> String {
        self.hash.to_string().chars().take(16).collect()
    }

    fn location(&self, pointer: &str) -> Location {
        let node = self.node.as_ref().and_then(|node| node.at(pointer));
        node.map_or(Location::START, |node| node.location)
    }

    fn problem(&self, kind: ProblemKind, pointer: &str) -> Problem {
        Problem::new(kind, self.location(pointer)).in_file(&self.file).path(path_of(pointer))
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
}

impl From<Vec<DefinitionFolder>> for Definitions {
    fn from(sound: Vec<DefinitionFolder>) -> Self {
        Self { sound, problems: Vec::new() }
    }
}

impl From<Result<DefinitionFolder, Vec<Problem>>> for Definitions {
    fn from(read: Result<DefinitionFolder, Vec<Problem>>) -> Self {
        match read {
            Ok(folder) => Self { sound: vec![folder], problems: Vec::new() },
            Err(problems) => Self { sound: Vec::new(), problems },
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
            Err(problems) => read.problems.extend(problems),
        }
    }
    let problems = check_together(&read.sound);
    // A definition that reaches itself, or has the name of another one, is not sound either.
    read.sound.retain(|folder| problems.iter().all(|problem| problem.file != folder.file));
    read.problems.extend(problems);
    read.problems = sorted(read.problems);
    Ok(read)
}

/// Reads the definition of one folder. The files of problems are relative to the parent of the
/// folder.
///
/// # Errors
/// All problems of the definition.
pub fn read_folder(path: &Path) -> Result<DefinitionFolder, Vec<Problem>> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let file = format!("{name}/{AGENT}");
    let in_file = |mut problems: Vec<Problem>| {
        for problem in &mut problems {
            problem.file.clone_from(&file);
        }
        problems
    };
    let text = match read_file(path, AGENT) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let problem = Problem::new(ProblemKind::Unreadable, Location::START);
            return Err(in_file(vec![problem.found("no such file").expected("a file")]));
        }
        Err(problem) => return Err(in_file(vec![*problem])),
    };
    let mut beside = Vec::new();
    for (key, name_of_file) in BESIDE {
        match read_file(path, name_of_file) {
            Ok(None) => {}
            Ok(Some(text)) => beside.push(Beside { key, file: name_of_file, text }),
            Err(problem) => return Err(vec![problem.in_file(&format!("{name}/{name_of_file}"))]),
        }
    }
    let read = read(&text, beside, Some(name.clone())).map_err(in_file)?;
    let Read { definition, node } = read;
    // The slug is the name of the definition, and not a part of what it says.
    let content = Definition { slug: None, ..definition.clone() };
    let files = read_files(path, &definition, &node).map_err(in_file)?;
    let texts: Vec<_> = files.iter().map(|file| json!([file.path, file.text])).collect();
    let content = serde_json::to_value(&content).unwrap_or_default();
    let hash = hash(&if texts.is_empty() { content } else { json!([content, texts]) });
    let slug = definition.slug.clone().unwrap_or(name);
    Ok(DefinitionFolder {
        path: path.to_owned(),
        slug,
        definition,
        files,
        hash,
        node: Some(node),
        file,
    })
}

/// Reads the files that the sources of a definition name.
fn read_files(
    folder: &Path,
    definition: &Definition,
    node: &Node,
) -> Result<Vec<FileText>, Vec<Problem>> {
    let mut files: Vec<FileText> = Vec::new();
    let mut problems = Vec::new();
    for (source, paths) in definition.sources.iter().flatten().map(|of| &of.paths).enumerate() {
        for (place, path) in paths.iter().enumerate() {
            let pointer = format!("/sources/{source}/paths/{place}");
            let location = node.at(&pointer).map_or(Location::START, |node| node.location);
            match read_file(folder, path) {
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
        let problem = Problem::new(ProblemKind::TooLarge, Location::START).found("more bytes");
        return Err(Box::new(problem.expected(format!("at most {FILE_BYTES_MAX} bytes"))));
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

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(ProblemKind::Unreadable, Location::START)
        .in_file(&path.display().to_string())
        .found(error.to_string())
}

/// Returns the problems between definitions: two of one name, agents that do not exist, and agents
/// that reach themselves.
fn check_together(folders: &[DefinitionFolder]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut by_name: BTreeMap<(Option<&str>, &str), &DefinitionFolder> = BTreeMap::new();
    for folder in folders {
        let name = (folder.definition.organization.as_deref(), folder.slug.as_str());
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
    let find = |of: &DefinitionFolder, slug: &str| {
        let own = of.definition.organization.as_deref();
        by_name.get(&(own, slug)).or_else(|| by_name.get(&(None, slug))).copied()
    };
    for folder in folders {
        for (pointer, slug) in folder.definition.asks() {
            if find(folder, slug).is_none() {
                let problem = folder.problem(ProblemKind::UnknownAgent, &pointer).found(slug);
                let problem = problem.expected("the slug of an agent beside it");
                problems.push(problem.nearest_of(slug, by_name.keys().map(|(_, slug)| *slug)));
            }
        }
    }
    problems.extend(circles(folders, &find));
    problems
}

/// Returns a problem for each request that closes a circle, with the circle by slugs.
fn circles<'a>(
    folders: &'a [DefinitionFolder],
    find: &impl Fn(&DefinitionFolder, &str) -> Option<&'a DefinitionFolder>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut done: BTreeSet<&Path> = BTreeSet::new();
    for first in folders {
        // The way to the folder that is visited, each with the number of the request to follow next.
        let mut way: Vec<(&DefinitionFolder, usize)> = Vec::new();
        if done.insert(&first.path) {
            way.push((first, 0));
        }
        while let Some((folder, next)) = way.last_mut() {
            let folder: &DefinitionFolder = folder;
            let Some((pointer, slug)) = folder.definition.asks().nth(*next) else {
                way.pop();
                continue;
            };
            *next += 1;
            let Some(other) = find(folder, slug) else { continue };
            if let Some(start) = way.iter().position(|(on_way, _)| on_way.path == other.path) {
                let names = way.iter().skip(start).map(|(on_way, _)| on_way.slug.as_str());
                let names: Vec<_> = names.chain([slug]).collect();
                let problem = folder.problem(ProblemKind::Cycle, &pointer);
                let problem = problem.found(names.join(" → "));
                problems.push(problem.expected("no agent that asks the one that asks it"));
            } else if done.insert(&other.path) {
                way.push((other, 0));
            }
        }
    }
    problems
}
