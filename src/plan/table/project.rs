//! A project's file with its includes.
//!
//! ```toml
//! include = ["budgets/training.toml", "plans/llama.toml"]
//! ```

use std::cell::RefCell;

use toml::de::DeValue;

use super::{Fault, Faults, Files, Layer, joined};
use crate::base::text_pos::{Document, Place};
use crate::plan::config;

/// A file's name and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The name, relative to the working directory.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// More files than this are a mistake.
const MOST: usize = 1000;

/// The file called `name` and all that it includes, each once; a loop, and a file that cannot be read,
/// is a fault at its include.
///
/// # Errors
/// The first file cannot be read.
pub fn texts(
    files: &dyn Files,
    name: &str,
    faults: &Faults,
) -> crate::base::error::Result<Vec<Text>> {
    let first = Text { name: name.to_owned(), text: files.text(name)? };
    let found = RefCell::new(Vec::new());
    include(files, first, &mut Vec::new(), &found, faults);
    Ok(found.into_inner())
}

fn include(
    files: &dyn Files,
    text: Text,
    open: &mut Vec<String>,
    found: &RefCell<Vec<Text>>,
    faults: &Faults,
) {
    let named = if text.text.contains("include") { includes(&text, faults) } else { Vec::new() };
    let file = text.name.clone();
    open.push(plain(&file));
    found.borrow_mut().push(text);
    for (path, place) in named {
        let name = joined(&file, &path);
        let keep = |what: String, help: &str| {
            let fault = Fault::new(&file, place.clone(), what, Some(help.to_owned()));
            faults.borrow_mut().push(fault);
        };
        if let Some(at) = open.iter().position(|o| *o == plain(&name)) {
            let mut ring: Vec<&str> = open[at..].iter().map(String::as_str).collect();
            ring.push(&open[at]);
            keep(format!("includes loop: {}", ring.join(" > ")), "leave this include out");
            continue;
        }
        if found.borrow().iter().any(|t| plain(&t.name) == plain(&name)) {
            continue;
        }
        if found.borrow().len() >= MOST {
            keep(format!("more than {MOST} files are included"), "leave some of them out");
            return;
        }
        match files.text(&name) {
            Ok(text) => include(files, Text { name, text }, open, found, faults),
            Err(error) => {
                keep(error.what().to_owned(), error.mending().unwrap_or("name an existing file"));
            }
        }
    }
    open.pop();
}

/// A path without `.`, and without folders that a `..` leaves again.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "." => {}
            "" if !parts.is_empty() => {}
            ".." if parts.last().is_some_and(|last| !matches!(*last, ".." | "")) => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The paths that a file includes, with their positions; invalid TOML is reported later.
fn includes(text: &Text, faults: &Faults) -> Vec<(String, Place)> {
    let Ok(document) = Document::parse(&text.text) else { return Vec::new() };
    let Some(value) = document.root().get("include") else { return Vec::new() };
    let refuse = |place: Place| {
        let help = Some("write include = [\"budgets.toml\"] above all tables".to_owned());
        let what = "`include` is a list of files".to_owned();
        faults.borrow_mut().push(Fault::new(&text.name, place, what, help));
    };
    let mut found = Vec::new();
    match value.get_ref() {
        DeValue::String(path) => found.push((path.to_string(), document.place(&value.span()))),
        DeValue::Array(list) => {
            for item in list {
                let place = document.place(&item.span());
                match item.get_ref() {
                    DeValue::String(path) => found.push((path.to_string(), place)),
                    _ => refuse(place),
                }
            }
        }
        _ => refuse(document.place(&value.span())),
    }
    found
}

/// The texts as documents; invalid TOML is a fault.
#[must_use]
pub fn documents<'t>(texts: &'t [Text], faults: &Faults) -> Vec<(&'t str, Document<'t>)> {
    let mut documents = Vec::with_capacity(texts.len());
    for Text { name, text } in texts {
        match Document::parse(text) {
            Ok(document) => documents.push((name.as_str(), document)),
            Err(refused) => faults.borrow_mut().push(Fault::refused(name, refused)),
        }
    }
    documents
}

/// The whole of a document as a layer.
#[must_use]
pub fn layer<'a>(file: &'a str, document: &'a Document<'a>) -> Layer<'a> {
    Layer { file, document, table: document.root(), start: 0 }
}

/// The sections of settings in the first of these documents: entries that name no machine use theirs, in the files that
/// it includes as well. Those have none of their own, or a budget would mean another machine where its file is read
/// alone.
#[must_use]
pub fn settings<'a>(files: &[Layer<'a>], faults: &Faults) -> Vec<Layer<'a>> {
    const SECTIONS: [&str; 2] = ["defaults", "machine"];
    let Some((first, included)) = files.split_first() else { return Vec::new() };
    config::settings(first.document, first.file, faults);
    for file in included {
        for (key, _) in
            file.table.iter().filter(|(key, _)| SECTIONS.contains(&key.get_ref().as_ref()))
        {
            let what = format!("[{}] of an included file applies to nothing", key.get_ref());
            let help = format!("write it in {}, or `profile` in what is listed here", first.file);
            let place = file.document.place(&key.span());
            faults.borrow_mut().push(Fault::new(file.file, place, what, Some(help)));
        }
    }
    let section = |name: &str| {
        let value = first.table.get(name)?;
        Some(Layer { table: value.get_ref().as_table()?, start: value.span().start, ..*first })
    };
    SECTIONS.into_iter().filter_map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_plainly() {
        assert_eq!(plain("a/./b/../c.toml"), "a/c.toml");
        assert_eq!(plain("../x"), "../x");
        assert_eq!(plain("/a//b"), "/a/b");
    }
}
