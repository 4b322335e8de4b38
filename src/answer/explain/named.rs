//! Machines, libraries and engines that screens name.

use super::topic::{Block, TopicView};
use super::{Explanation, Subject};
use crate::library::{self, POLICIES, engines};
use crate::machine::profile::Profile;

/// What the machine, library or engine called `name` is, and the commands that show more.
pub(super) fn named(name: &str) -> Option<Explanation> {
    if let Ok(machine) = Profile::builtin(name) {
        let id = machine.name;
        let text = format!("A machine whose parameters are known; `--on {id}` selects it.");
        let commands = [format!("profiles show {id}"), format!("allreduce 16MiB --on {id}")];
        return Some(page(id, machine.title, text, commands));
    }
    if let Some(engine) = engines::ENGINES.iter().find(|e| e.id.eq_ignore_ascii_case(name)) {
        let text = format!("Releases whose rules are known: {}.", engine.releases.join(", "));
        let commands = [format!("choose {} allreduce -n 8", engine.id), "list policies".to_owned()];
        return Some(page(engine.id.to_owned(), engine.title.to_owned(), text, commands));
    }
    let entry = library::entry(name).ok()?;
    let of = |id: &'static str| id.split('@').next().unwrap_or(id);
    let releases = POLICIES.iter().map(|e| e.id).filter(|id| of(id) == of(entry.id));
    let releases: Vec<&str> = releases.collect();
    let text = format!("Rules that are known, newest first: {}.", releases.join(", "));
    let commands = [format!("choose {} allreduce -n 64", entry.id), "list policies".to_owned()];
    Some(page(entry.id.to_owned(), entry.title().into_owned(), text, commands))
}

fn page(id: String, title: String, text: String, commands: [String; 2]) -> Explanation {
    let commands = commands.map(|command| Block::Command(format!("collcost {command}")));
    let blocks = std::iter::once(Block::Text(text)).chain(commands).collect();
    Explanation::of(Subject::Topic(TopicView { id, title, blocks, next: &[] }))
}
