//! The pages as a site: the book names each of them, links and anchors resolve, each page leads to
//! its neighbours, and no file names a page that is not there.
//!
//! `TRYCMD=overwrite cargo test --test command pages` writes the last lines of the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

#[path = "../support/pages.rs"]
mod support;
use support::pages;
pub use support::root;

/// Begins the last line of a page, after which nothing else stands.
pub const END: &str = "\n---\n\n";

/// Whether pages are to be written instead of compared.
pub fn overwrite() -> bool {
    std::env::var_os("TRYCMD").is_some_and(|value| value == "overwrite")
}

pub fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The page without what stands in fences and between backticks.
fn prose(text: &str) -> String {
    let mut fence = false;
    let lines = text.lines().filter(|line| {
        let edge = line.trim_start().starts_with("```");
        fence ^= edge;
        !fence && !edge
    });
    let kept = lines.map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("``"));
    kept.collect::<Vec<_>>().join("\n")
}

/// Title and target of each link.
fn links(text: &str) -> Vec<(String, String)> {
    let text = prose(text);
    let ends = text.match_indices("](");
    let link = |(at, _): (usize, &str)| {
        let title = text[..at].rsplit_once('[')?.1;
        Some((title.to_owned(), text[at + 2..].split_once(')')?.0.to_owned()))
    };
    ends.filter_map(link).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::new();
    let mut fence = false;
    let headings = text.lines().filter(|line| {
        fence ^= line.starts_with("```");
        !fence && line.starts_with('#')
    });
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before: &mut usize = seen.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    };
    headings.map(anchor).collect()
}

/// Where `target` leads from `page`, without `..`.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in page.parent().expect("a page lies in a folder").join(target).components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

/// The relative path from one page to another.
fn relative(from: &str, to: &str) -> String {
    let shared = from.split_once('/').filter(|(folder, _)| to.starts_with(&format!("{folder}/")));
    match shared {
        Some((folder, _)) => to[folder.len() + 1..].to_owned(),
        None => "../".repeat(from.matches('/').count()) + to,
    }
}

/// Title and path of each page of the book, in its order.
fn book() -> Vec<(String, String)> {
    links(&read(&root().join("docs/SUMMARY.md")))
}

#[test]
fn the_book_names_every_page_once() {
    let mut named: Vec<String> = book().into_iter().map(|(_, path)| path).collect();
    named.sort();
    let docs = root().join("docs");
    let there = pages("docs").into_iter().map(|file| {
        file.strip_prefix(&docs).expect("it lies there").to_str().expect("a name").to_owned()
    });
    let mut there: Vec<String> = there.filter(|name| name != "SUMMARY.md").collect();
    there.sort();
    assert_eq!(named, there);
}

#[test]
fn every_link_and_anchor_resolves() {
    let mut all = pages("docs");
    all.extend(
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|f| root().join(f)),
    );
    let docs = root().join("docs");
    let mut wrong = Vec::new();
    for page in &all {
        for (title, target) in links(&read(page)) {
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() { page.clone() } else { resolved(page, path) };
            let outside = page.starts_with(&docs) && !file.starts_with(&docs);
            let known = || anchor.is_empty() || anchors(&read(&file)).contains(anchor);
            if !file.exists() || outside || !known() {
                wrong.push(format!("{}: [{title}]({target})", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere, or out of the book:\n{}", wrong.join("\n"));
}

/// A command that is pasted into a shell is the command that the test runs.
#[test]
fn a_shell_reads_the_commands_as_they_stand() {
    let all = ["docs", "tests/cmd"].into_iter().flat_map(pages).chain([root().join("README.md")]);
    let mut wrong = Vec::new();
    for page in all {
        let text = read(&page);
        for line in text.lines().filter_map(|line| line.strip_prefix("$ collcost ")) {
            // What stands between quotes is one word for a shell, and `$` is read there, too.
            let quoted = |quote: char| line.split(quote).step_by(2).collect::<String>();
            let plain = if line.contains('\'') { quoted('\'') } else { quoted('"') };
            if plain.contains(|c| ";&|<>()*?[]{}`$#!~".contains(c)) {
                wrong.push(format!("{}: {line}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "put these between quotes:\n{}", wrong.join("\n"));
}

/// What the README says of NCCL's and PyTorch's estimates is what the page about errors measured.
#[test]
fn the_readme_states_the_errors_of_the_page() {
    let readme = read(&root().join("README.md"));
    let page = read(&root().join("docs/background/accuracy.md"));
    for (row, its) in [("NCCL's own", "the tuner's"), ("PyTorch's", "PyTorch's")] {
        let row = page.lines().find(|line| line.starts_with(&format!("| {row} estimate |")));
        let row: Vec<&str> = row.expect("its row").split('|').map(str::trim).collect();
        let [theirs, ours] = [row[3], row[5]].map(|cell| cell.split('/').next().expect("a median"));
        let said = format!(
            "{its} estimate is off by {theirs} % (median), collcost's by {ours} % on the same points"
        );
        assert!(readme.contains(&said), "{said}");
    }
}

/// The counts of the page about logs are those of its own table.
#[test]
fn the_page_of_logs_counts_its_table() {
    let page = read(&root().join("docs/background/logs.md"));
    let (_, table) = page.split_once("## 155 published logs").expect("the page lists them");
    let rows = table.lines().filter(|line| line.starts_with("| ") && line.contains(".txt |"));
    let others = table.lines().filter(|line| line.starts_with("| ") && line.contains(".csv |"));
    let cells = rows.chain(others).map(|line| line.split('|').nth(2).expect("a cell").trim());
    // Rows without flags, and with `--n` where that is another number.
    let counts: Vec<(u64, Option<u64>)> = cells
        .map(|cell| {
            let (plain, more) = cell.split_once(" (").unwrap_or((cell, ""));
            (plain.parse().expect("rows"), more.trim_end_matches(')').parse().ok())
        })
        .collect();
    let plain = counts.iter().map(|(plain, _)| *plain).filter(|rows| *rows > 0);
    let with = counts.iter().map(|(plain, more)| more.unwrap_or(*plain)).filter(|rows| *rows > 0);
    let sums = [plain.clone().sum::<u64>(), with.clone().sum()];
    let [first, second] = sums.map(|sum| format!("{},{:03} rows", sum / 1000, sum % 1000));
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("Without flags, {} files give {first}.", plain.count()),
        format!("{} files give {second}.", with.clone().count()),
        format!("The other {} are refused", counts.len() - with.count()),
    ] {
        assert!(words.contains(&said), "{said}");
    }
    assert_eq!(counts.len(), 155);
}

/// On GitHub nothing else leads from a page to the next.
#[test]
fn every_page_leads_to_its_neighbours() {
    let book = book();
    for (i, (_, path)) in book.iter().enumerate() {
        let file = root().join("docs").join(path);
        let text = read(&file);
        let own = text.split(END).next().expect("a page has a beginning").trim_end();
        let to = |(title, to): &(String, String), before: &str, after: &str| {
            format!("[{before}{title}{after}]({})", relative(path, to))
        };
        let mut ways = Vec::new();
        ways.extend(i.checked_sub(1).map(|k| to(&book[k], "← ", "")));
        ways.extend((i > 1).then(|| to(&book[0], "", "")));
        ways.extend(book.get(i + 1).map(|next| to(next, "", " →")));
        let whole = format!("{own}\n{END}{}\n", ways.join(" · "));
        if overwrite() {
            fs::write(&file, &whole).expect("it can be written");
        } else {
            assert!(text == whole, "the end of docs/{path} is not the one SUMMARY.md asks for");
        }
    }
}

#[test]
fn no_file_names_a_page_that_is_not_there() {
    let mut folders: Vec<PathBuf> =
        ["src", "tests", "docs", "examples", "benches", "profiles", "python", ".ci"]
            .map(|folder| root().join(folder))
            .into();
    let mut wrong = Vec::new();
    let mut look = |file: &Path| {
        let Ok(text) = fs::read_to_string(file) else { return };
        for (at, _) in text.match_indices("docs/") {
            let of_a_site = text[..at].ends_with(|c: char| c.is_alphanumeric() || "/.".contains(c));
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)));
            let name = &rest[..end.unwrap_or(rest.len())];
            // Other projects have such folders too: ours has these, and had pages in capitals.
            let ours = ["how-to/", "reference/", "background/", "dev/"];
            let page = &name["docs/".len()..];
            let ours = ours.iter().any(|folder| page.starts_with(folder))
                || page.starts_with(|c: char| c.is_ascii_uppercase());
            if !of_a_site && ours && name.ends_with(".md") && !root().join(name).exists() {
                wrong.push(format!("{}: {name}", file.display()));
            }
        }
    };
    for file in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml"] {
        look(&root().join(file));
    }
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("it is there") {
            let path = entry.expect("it can be read").path();
            let skip = ["logs", "node_modules", "target", "dist"];
            let skip = skip.iter().any(|name| path.ends_with(name));
            match path.is_dir() {
                true if !skip => folders.push(path),
                true => {}
                false => look(&path),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Two screens, of which the table takes one.
#[test]
fn the_readme_is_two_screens() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= 145, "README.md has {lines} lines");
}
