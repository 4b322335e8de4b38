//! What a shell script runs, as far as its text says: comments left out, variables replaced, branches
//! followed whose conditions compare known values.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::arithmetic::arithmetic;
use crate::base::yaml::scalars;

/// A statement that runs, or may run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub text: String,
    /// The condition that decides it at run time.
    pub open: Option<String>,
}

/// The statements of a script, with its variables replaced. What is known only at run time (`$1`,
/// `$(…)`) is unchanged.
pub(super) fn statements(text: &str) -> Vec<Statement> {
    let Script { variables, mut ran, .. } = run(text);
    for statement in &mut ran {
        statement.text = expanded(&statement.text, &variables);
    }
    ran
}

/// What a script writes into the file at `path`: the lines of here-documents whose own line names the file. The script's
/// variables are replaced in that line, and in the lines below it unless the word that ends them is quoted.
pub(super) fn written(text: &str, path: &str) -> Option<String> {
    if !text.contains("<<") {
        return None;
    }
    // Each such line has a mark, by which it is known whether it runs.
    let mark = |at: usize| format!("here_{at}_document");
    let marked = |(at, line): (usize, &str)| match line.contains("<<") {
        true => format!("{line} {}", mark(at)),
        false => line.to_owned(),
    };
    let all: Vec<String> = text.lines().enumerate().map(marked).collect();
    let Script { variables, ran, .. } = run(&all.join("\n"));
    let mut found: Option<String> = None;
    let mut lines = text.lines().enumerate();
    let mut left = DOCUMENTS;
    while let Some((at, line)) = lines.next().filter(|_| left > 0) {
        let Some((_, end)) = line.split_once("<<") else { continue };
        let names = path.contains('$') || expanded(line, &variables).contains(path);
        if !names || found.is_some() && (path.contains('$') || !line.contains(">>")) {
            continue;
        }
        left -= 1;
        if !ran.iter().any(|one| one.text.contains(&mark(at))) {
            continue;
        }
        let Some(end) = end.trim_start_matches('-').trim_start().split([' ', '>', '|']).next()
        else {
            continue;
        };
        let is_quoted = end.starts_with(['"', '\'', '\\']);
        let end = end.trim_matches(['"', '\'', '\\']);
        let own: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != end).collect();
        let own = own.join("\n");
        let own = if is_quoted { own } else { expanded(&own, &variables) };
        // A file whose name only a run decides is one with options.
        let is_key =
            |key: &String| key.chars().all(|c| c.is_ascii_alphabetic() || "-_".contains(c));
        let has_options = |own: &str| {
            let first = scalars(own).into_iter().next();
            first.is_some_and(|one| one.path.first().is_some_and(is_key))
        };
        if path.contains('$') && !has_options(&own) {
            continue;
        }
        let whole = found.get_or_insert_default();
        whole.push_str(&own);
        whole.push('\n');
    }
    found
}

/// A value with arithmetic that is open as a script has it.
pub(super) fn as_written(value: &str) -> String {
    let mut parts = value.split("$[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| format!("{shown}$(({}", part.replacen(']', "))", 1)))
}

/// Follows a script.
fn run(text: &str) -> Script {
    let slurm = directives(text);
    let plain = joined(&uncommented(text));
    let all: Vec<&str> = plain.lines().flat_map(parts).map(str::trim).collect();
    let count = |word: &str| all.iter().filter(|part| first(inner(part)).0 == word).count();
    // A page with a command line in it may have sentences that begin with "if".
    let branches = count("if") == count("fi") && count("case") == count("esac");
    let mut script = Script::default();
    script.variables.values.extend(slurm);
    for part in all {
        let part = if branches { script.enter(part) } else { part };
        script.run(part);
    }
    script
}

/// Here-documents of one file that are read.
const DOCUMENTS: usize = 64;

/// Counts of the `#SBATCH` lines of a script (slurm.schedmd.com/sbatch.html): nodes, their GPUs and tasks, all tasks.
fn counts(text: &str) -> BTreeMap<&'static str, u32> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("#SBATCH"));
    let lines = lines.map(|line| line.split(" #").next().unwrap_or(""));
    let words: Vec<&str> = lines.flat_map(|line| line.split(['=', ' ', '\t'])).collect();
    let mut words = words.into_iter().filter(|word| !word.is_empty()).peekable();
    let mut found = BTreeMap::new();
    while let Some(word) = words.next() {
        let next = words.peek().copied();
        let (key, value) = match word {
            "--nodes" | "-N" => ("nodes", next),
            // `gpu:h100:8(S:0-1),nvme:1`
            "--gres" => {
                let gpus = |value: &&str| *value == "gpu" || value.starts_with("gpu:");
                ("gpus", next.and_then(|value| value.split(',').find(gpus)))
            }
            "--gpus-per-node" => ("gpus", next),
            "--ntasks-per-node" => ("tasks", next),
            "--ntasks" | "-n" => ("all", next),
            _ => match word.strip_prefix("-N") {
                Some(nodes) => ("nodes", Some(nodes)),
                None => continue,
            },
        };
        let value = value.and_then(|value| value.split('(').next()?.rsplit(':').next());
        if let Some(count) = value.and_then(|value| value.parse().ok()) {
            found.insert(key, count);
        }
    }
    found
}

/// Nodes, and the GPUs and tasks of a node that a script asks Slurm for.
pub(super) fn slurm(text: &str) -> [Option<u32>; 3] {
    let found = counts(text);
    let of = |key: &str| found.get(key).copied();
    let nodes = of("nodes").or_else(|| of("all")?.checked_div(of("tasks")?));
    [nodes, of("gpus"), of("tasks")]
}

/// The variables that Slurm sets by them.
fn directives(text: &str) -> Vec<(String, String)> {
    let found = counts(text);
    let of = |key: &str| found.get(key).copied();
    let tasks = of("all").or_else(|| of("nodes")?.checked_mul(of("tasks")?));
    let set = [
        ("SLURM_NNODES", of("nodes")),
        ("SLURM_JOB_NUM_NODES", of("nodes")),
        ("SLURM_GPUS_ON_NODE", of("gpus")),
        ("SLURM_GPUS_PER_NODE", of("gpus")),
        ("SLURM_NTASKS_PER_NODE", of("tasks")),
        ("SLURM_NTASKS", tasks),
    ];
    let set = set.into_iter().filter_map(|(name, value)| Some((name, value?)));
    set.map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

/// An `if` or a `case` that is being read.
#[derive(Debug)]
struct Branch {
    condition: String,
    /// Whether the branch that is read runs, if that is known.
    runs: Option<bool>,
    /// Whether a branch before it ran for sure, and whether one may have run.
    ran: bool,
    may: bool,
    /// Whether it is a `case`, whose statements may begin with a pattern.
    case: bool,
}

impl Branch {
    /// A statement without the pattern before it: `a|b) statement`.
    fn statement<'a>(&self, part: &'a str) -> &'a str {
        match part.split_once(')') {
            Some((pattern, rest)) if self.case && !pattern.contains(['(', '=', ' ']) => rest.trim(),
            _ => part,
        }
    }
}

/// The values of variables, until so much text was replaced: a value that names itself twice doubles with
/// every line.
#[derive(Debug)]
struct Known {
    values: BTreeMap<String, String>,
    /// Those that have their value only in a branch of which it is not known whether it runs.
    perhaps: BTreeSet<String>,
    left: Cell<usize>,
}

/// Bytes of values in all places of a script.
const MOST_REPLACED: usize = 1 << 24;

impl Default for Known {
    fn default() -> Self {
        let (values, perhaps) = Default::default();
        Self { values, perhaps, left: Cell::new(MOST_REPLACED) }
    }
}

impl Known {
    /// A variable's value, if it is known and may still be inserted.
    fn take(&self, name: &str) -> Option<&str> {
        let value = self.values.get(name)?;
        self.left.set(self.left.get().checked_sub(value.len())?);
        Some(value)
    }
}

#[derive(Debug, Default)]
struct Script {
    variables: Known,
    /// Variables with several values in branches of which it is not known whether they run.
    torn: BTreeSet<String>,
    branches: Vec<Branch>,
    ran: Vec<Statement>,
}

impl Script {
    /// Follows the words of an `if`, and returns the statement behind them.
    fn enter<'a>(&mut self, part: &'a str) -> &'a str {
        let mut rest = part;
        loop {
            let (word, after) = first(rest);
            match word {
                "then" => {}
                "if" => {
                    let runs = holds(after, &self.variables);
                    let (ran, may) = (runs == Some(true), runs.is_none());
                    let condition = after.to_owned();
                    self.branches.push(Branch { condition, runs, ran, may, case: false });
                    return "";
                }
                "elif" | "else" => {
                    let holds =
                        if word == "elif" { holds(after, &self.variables) } else { Some(true) };
                    if let Some(branch) = self.branches.last_mut() {
                        branch.runs = match holds {
                            _ if branch.ran => Some(false),
                            Some(true) if branch.may => None,
                            known => known,
                        };
                        branch.ran |= holds == Some(true);
                        branch.may |= holds.is_none();
                    }
                    if word == "elif" {
                        return "";
                    }
                }
                // Which of its patterns fits is not known.
                "case" => {
                    let condition = after.trim_end_matches(" in").to_owned();
                    let open = Branch { condition, runs: None, ran: false, may: true, case: true };
                    self.branches.push(open);
                    return "";
                }
                "fi" | "esac" => {
                    self.branches.pop();
                }
                _ => return self.branches.last().map_or(rest, |branch| branch.statement(rest)),
            }
            rest = after;
        }
    }

    fn run(&mut self, part: &str) {
        if part.is_empty() || self.branches.iter().any(|b| b.runs == Some(false)) {
            return;
        }
        let open = self.branches.iter().find(|b| b.runs.is_none()).map(|b| b.condition.clone());
        self.assign(part, open.is_some());
        self.ran.push(Statement { text: part.to_owned(), open });
    }

    /// `NAME=value`, `NAME+=value` and `NAME=(a b c)`, also several, and `: "${NAME:=value}"`, which sets what is
    /// not set.
    fn assign(&mut self, part: &str, open: bool) {
        if let Some(inner) = part.strip_prefix(": ") {
            for word in inner.split_whitespace() {
                let word = word.trim_matches(['"', '\'']).strip_prefix("${");
                let set = word.and_then(|word| word.strip_suffix('}')?.split_once(":="));
                if let Some((name, value)) = set {
                    self.set_absent(name, value, open);
                }
            }
            return;
        }
        let mut part = part;
        while let (word, rest) = first(part)
            && SETTING.contains(&word)
        {
            part = rest;
            while part.starts_with('-') {
                part = first(part).1;
            }
        }
        while let Some((name, behind)) = part.split_once('=') {
            let (value, others) = value(behind);
            if !self.set(name, value, open) {
                return;
            }
            part = others;
        }
    }

    /// Sets what is not set; of what may be set, another value leaves it open.
    fn set_absent(&mut self, name: &str, value: &str, open: bool) {
        let Some(before) = self.variables.values.get(name) else {
            self.set(name, value, open);
            return;
        };
        if self.variables.perhaps.contains(name) && before != value {
            self.variables.values.remove(name);
            self.torn.insert(name.to_owned());
        }
    }

    /// Whether `name` is one of a variable.
    fn set(&mut self, name: &str, value: &str, open: bool) -> bool {
        let (name, more) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return false;
        }
        let value = expanded(value.trim(), &self.variables);
        let value = value.trim_start_matches('(').trim_end_matches(')').trim_matches(['"', '\'']);
        let before = self.variables.values.get(name);
        let value = match before {
            Some(_) if more => match self.variables.take(name) {
                Some(before) => format!("{before} {value}"),
                None => return true,
            },
            _ => value.to_owned(),
        };
        if !open {
            self.torn.remove(name);
            self.variables.perhaps.remove(name);
        } else if before.is_none() {
            self.variables.perhaps.insert(name.to_owned());
        } else if before.is_some_and(|before| !value.starts_with(before.as_str())) {
            self.variables.values.remove(name);
            self.variables.perhaps.insert(name.to_owned());
            self.torn.insert(name.to_owned());
        }
        if !self.torn.contains(name) {
            self.variables.values.insert(name.to_owned(), value);
        }
        true
    }
}

/// Words before an assignment.
pub(super) const SETTING: [&str; 5] = ["export", "local", "declare", "readonly", "typeset"];

/// A value at the begin of a text, and what follows it.
pub(super) fn value(text: &str) -> (&str, &str) {
    let end = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text[1..].find(quote).map(|at| at + 2),
        Some('(') => None,
        _ => {
            // Of `${NAME:?what is missing}` the words belong together.
            let mut depth = 0_usize;
            let end = text.char_indices().find(|&(at, c)| match c {
                '{' if text[..at].ends_with('$') => {
                    depth += 1;
                    false
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    false
                }
                c => depth == 0 && c.is_whitespace(),
            });
            end.map(|(at, _)| at).filter(|at| !text[..*at].contains(['(', '`', '"']))
        }
    };
    match end {
        Some(end) if text[end..].is_empty() || text[end..].starts_with(char::is_whitespace) => {
            (&text[..end], text[end..].trim_start())
        }
        _ => (text, ""),
    }
}

/// The first word of a statement, and the rest.
fn first(part: &str) -> (&str, &str) {
    let (word, rest) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
    (word, rest.trim_start())
}

/// A statement without `then` and `else` before it.
fn inner(part: &str) -> &str {
    let mut part = part;
    while let ("then" | "else", rest) = first(part) {
        part = rest;
    }
    part
}

/// The characters of a text outside its quotes, with their places. A quote that is not closed is none: an apostrophe.
pub(super) fn bare(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut behind = 0;
    text.char_indices().filter(move |&(at, c)| {
        if at < behind {
            return false;
        }
        if matches!(c, '"' | '\'')
            && let Some(length) = text[at + 1..].find(c)
        {
            behind = at + length + 2;
            return false;
        }
        true
    })
}

/// Without comments: from a `#` that begins a word outside quotes to the end of its line.
fn uncommented(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let begins = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
        match bare(line).find(|&(at, c)| c == '#' && begins(at)) {
            Some((at, _)) => {
                out.push_str(&line[..at]);
                out.push('\n');
            }
            None => out.push_str(line),
        }
    }
    out
}

/// Joins lines that end in a backslash; a value in quotes and text between parentheses, but for those of quotes in a
/// line, are one line.
fn joined(text: &str) -> String {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut out = String::with_capacity(text.len());
    let mut depth = 0_usize;
    let mut unclosed: Option<char> = None;
    let mut left = text.as_str();
    while !left.is_empty() {
        let (line, behind) = left.split_once('\n').unwrap_or((left, ""));
        left = behind;
        match unclosed {
            Some(quote) if line.contains(quote) => unclosed = None,
            Some(_) => {}
            None => {
                unclosed = opened(line).filter(|quote| behind.contains(*quote));
                for (_, c) in bare(line) {
                    match c {
                        '(' => depth += 1,
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                }
            }
        }
        out.push_str(line);
        out.push(if depth > 0 || unclosed.is_some() { ' ' } else { '\n' });
    }
    out
}

/// The quote that a value begins with, if the line does not close it: `NAME="…`.
fn opened(line: &str) -> Option<char> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_start().trim_end_matches('+');
    let name = match first(name) {
        (word, rest) if SETTING.contains(&word) => rest.rsplit(' ').next().unwrap_or(rest),
        _ => name,
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    (!name.is_empty() && name.chars().all(is_name) && !value[1..].contains(quote)).then_some(quote)
}

/// Statements of a line: cut at `;` outside quotes and parentheses.
fn parts(line: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0_i32, 0);
    let mut parts = Vec::new();
    for (at, c) in bare(line) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ';' if depth <= 0 => {
                parts.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    parts
}

/// Replaces `$NAME`, `${NAME}`, `${NAME[@]}`, `${NAME:-absent}`, `${NAME:=absent}`, `${NAME:+present}` and `$((a * b))` by
/// their values.
fn expanded(line: &str, known: &Known) -> String {
    replaced(line, known, DEEPEST)
}

/// How deep values may be inside each other: `${A:-${B:-8}}`.
const DEEPEST: usize = 4;

/// The place of the brace that closes an open one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let found = text.char_indices().find(|(_, c)| match c {
        '}' if depth == 0 => true,
        '}' => {
            depth -= 1;
            false
        }
        '{' => {
            depth += 1;
            false
        }
        _ => false,
    });
    found.map(|(at, _)| at)
}

/// A sum's value, or as a word that is none.
fn computed(sum: &str, known: &Known) -> String {
    let inside = expanded(sum, known);
    if let Some(value) = arithmetic(&inside, &known.values) {
        return value.to_string();
    }
    // One word, so that it stays one argument.
    let shut = |c: &char| !c.is_whitespace() && !matches!(c, '(' | ')');
    let inside: String = inside.chars().filter(shut).collect();
    format!("$[{inside}]")
}

fn replaced(line: &str, known: &Known, deep: usize) -> String {
    let inner_value = |text: &str| match deep {
        0 => text.to_owned(),
        _ => replaced(text, known, deep - 1),
    };
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut has_sums = true;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let sum = after.strip_prefix("((").filter(|_| has_sums).and_then(|sum| {
            let found = sum.split_once("))");
            has_sums = found.is_some();
            found
        });
        if let Some((inside, behind)) = sum {
            // The end of an inner pair may touch it.
            let inner = inside.matches('(').count() > inside.matches(')').count();
            let (inside, behind) = match behind.strip_prefix(')') {
                Some(behind) if inner => (format!("{inside})"), behind),
                _ => (inside.to_owned(), behind),
            };
            out.push_str(&computed(&inside, known));
            rest = behind;
            continue;
        }
        // The program that counted before shells did, in which a product's sign is escaped.
        if let Some((inside, behind)) = after.strip_prefix("(expr ").and_then(|e| e.split_once(')'))
        {
            out.push_str(&computed(&inside.replace('\\', ""), known));
            rest = behind;
            continue;
        }
        let (inner, end) = match after.strip_prefix('{') {
            Some(braced) => match closing(braced) {
                Some(close) => (&braced[..close], close + 2),
                None => (after, after.len()),
            },
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let end = end.unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        let sign = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, behind) = inner.split_at(sign.unwrap_or(inner.len()));
        let signs = [":-", ":=", "-", "="];
        let absent = signs.iter().find_map(|sign| behind.strip_prefix(sign));
        let present = [":+", "+"].iter().find_map(|sign| behind.strip_prefix(sign));
        if let Some(present) = present.filter(|_| !known.perhaps.contains(name)) {
            // What is not set here is usually not set at all.
            if known.values.get(name).is_some_and(|value| !value.is_empty()) {
                out.push_str(&inner_value(present));
            }
            rest = &after[end.min(after.len())..];
            continue;
        }
        let cased = match behind {
            ",," => known.take(name).map(str::to_lowercase),
            "^^" => known.take(name).map(str::to_uppercase),
            _ => None,
        };
        if let Some(value) = cased {
            out.push_str(&value);
            rest = &after[end.min(after.len())..];
            continue;
        }
        // Other expansions are not followed, but what must be set.
        let must = [":?", "?"].iter().any(|sign| behind.starts_with(sign));
        let name = if absent.is_some() || must { name } else { inner };
        let absent = absent.unwrap_or("");
        // Of a default and a value that it may have neither is known.
        let is_open = known.perhaps.contains(name) && !absent.is_empty();
        let name = name.trim_end_matches("[@]").trim_end_matches("[*]");
        match known.take(name).filter(|value| !is_open || *value == absent) {
            Some(value) => out.push_str(value),
            None if is_open => {
                out.push('$');
                out.push_str(&after[..end.min(after.len())]);
            }
            None if !absent.is_empty() => out.push_str(&inner_value(absent)),
            None if must => {
                out.push('$');
                out.push_str(name);
            }
            None => {
                out.push('$');
                out.push_str(&after[..end.min(after.len())]);
            }
        }
        rest = &after[end.min(after.len())..];
    }
    out.push_str(rest);
    out
}

/// Whether a condition holds: `[ $A = b ]`, `[[ "$A" == b && $N -gt 1 ]]`, `[ -z "$A" ]`; `None` if that
/// is known only at run time.
fn holds(condition: &str, known: &Known) -> Option<bool> {
    let words = words(&expanded(condition, known));
    let joins = |word: &String| matches!(word.as_str(), "&&" | "||" | "-a" | "-o");
    let mut terms = words.split(joins).map(term);
    let first = terms.next()?;
    terms.zip(words.iter().filter(|w| joins(w))).fold(first, |found, (next, sign)| {
        // What either side alone decides.
        let enough = matches!(sign.as_str(), "||" | "-o");
        match (found, next) {
            (Some(one), _) | (_, Some(one)) if one == enough => Some(enough),
            (Some(_), Some(_)) => Some(!enough),
            _ => None,
        }
    })
}

/// One comparison.
fn term(words: &[String]) -> Option<bool> {
    let bare = words.iter().position(|word| word != "!").unwrap_or(words.len());
    if bare > 0 {
        return term(&words[bare..]).map(|holds| holds != (bare % 2 == 1));
    }
    let bracket = |w: &&str| !matches!(*w, "[" | "]" | "[[" | "]]" | "test");
    let words: Vec<&str> = words.iter().map(String::as_str).filter(bracket).collect();
    let open = |word: &str| word.contains(['$', '`', '*', '?']);
    let number = |word: &str| word.parse::<i64>().ok();
    match words.as_slice() {
        // Inside brackets.
        ["!", ..] => term(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()),
        ["-z"] => Some(true),
        ["-n"] => Some(false),
        // A variable that the script does not set is usually not set at all.
        ["-z" | "-n", word] if word.is_empty() || named(word) => Some(words[0] == "-z"),
        ["-z" | "-n", word] if !open(word) => Some(words[0] == "-n"),
        [a, _, b] if open(a) || open(b) => None,
        [a, "=" | "==", b] => Some(a == b),
        [a, "!=", b] => Some(a != b),
        [a, sign, b] => {
            let (a, b) = (number(a)?, number(b)?);
            match *sign {
                "-eq" => Some(a == b),
                "-ne" => Some(a != b),
                "-gt" => Some(a > b),
                "-ge" => Some(a >= b),
                "-lt" => Some(a < b),
                "-le" => Some(a <= b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a word is a variable by name, which is not an argument of the script such as `$1`.
fn named(word: &str) -> bool {
    let name = word.strip_prefix('$').map(|name| name.strip_prefix('{').unwrap_or(name));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// The words of a condition, without quotes: a quoted one may be empty.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        statements(text).into_iter().map(|s| s.text).collect()
    }

    #[test]
    fn comments_end_with_their_line() {
        let text = "A=(\n --tp 2 # two\n # --sp\n --pp 1)\necho '# no' a#b ${#A[@]}";
        let found = texts(text).join("\n");
        let words: Vec<&str> = found.split_whitespace().collect();
        assert_eq!(words.join(" "), "A=( --tp 2 --pp 1) echo '# no' a#b ${#A[@]}");
    }

    #[test]
    fn branches_run_where_their_conditions_hold() {
        let of = |condition: &str| {
            let text =
                format!("A=fp8; N=4; E=''\nif {condition}; then\n  x yes\nelse\n  x no\nfi\n");
            let ran: Vec<_> =
                statements(&text).into_iter().filter(|s| s.text.starts_with("x ")).collect();
            match ran.as_slice() {
                [one] if one.open.is_none() => Some(one.text == "x yes"),
                [_, _] => {
                    assert!(ran.iter().all(|s| s.open.as_deref() == Some(condition)), "{ran:?}");
                    None
                }
                _ => panic!("{ran:?}"),
            }
        };
        for (condition, expected) in [
            ("[ $A = fp8 ]", Some(true)),
            ("[[ \"$A\" == \"bf16\" ]]", Some(false)),
            ("[ $A != bf16 ] && [ $N -gt 4 ]", Some(false)),
            ("[[ $N -ge 4 && $A == fp8 ]]", Some(true)),
            ("[ $N -eq 3 ] || test $N -eq 4", Some(true)),
            ("[ -z $E ]", Some(true)),
            ("[ -n \"$A\" ]", Some(true)),
            ("! [ -z ${NOWHERE} ]", Some(false)),
            ("[ $1 = a ]", None),
            ("[ $A = bf16 ] && [ $1 = a ]", Some(false)),
            ("[ -z $1 ]", None),
            ("[ -f file ]", None),
            ("[[ $A == *8 ]]", None),
            ("(( N > 3 ))", None),
        ] {
            assert_eq!(of(condition), expected, "{condition}");
        }
    }

    #[test]
    fn what_only_a_run_decides_is_left_open() {
        let text = "S=$1\nif [ $S = 7B ]; then\n L=32\nelif [ $S = 70B ]; then\n L=80\nfi\nx $L";
        assert_eq!(texts(text).last().unwrap(), "x $L");
        let known = text.replace("S=$1", "S=${1:-70B}");
        assert_eq!(texts(&known).last().unwrap(), "x 80");
        let nested = "A=1\nif [ $A = 2 ]; then if [ $A = 1 ]; then x; fi; else y; fi\nz";
        assert_eq!(texts(nested), ["A=1", "y", "z"]);
        // A sentence is no branch.
        assert_eq!(texts("if you like:\nrun --tp 2"), ["if you like:", "run --tp 2"]);
    }

    #[test]
    fn a_value_that_doubles_with_every_line_stops_growing() {
        let text = format!("A=0123456789\n{}x $A", "A=$A$A\nA+=$A\n".repeat(60));
        let size: usize = texts(&text).iter().map(String::len).sum();
        assert!(size < 4 * MOST_REPLACED, "{size}");
    }

    #[test]
    fn values_are_computed() {
        let text = "H=64; K=8; G=$(( ${H} / ${K} ))\nx $((H / $G)) $(( ($K - 1) * 2 )) $((K / Z)) $(($1 + 1))";
        assert_eq!(texts(text).last().unwrap(), "x 8 14 $[K/Z] $[$1+1]");
        let must =
            "G=8\nG=${G:?G is a variable that is needed} H=4\nI=${J:?J is needed}\nx $G $H $I";
        assert_eq!(texts(must).last().unwrap(), "x 8 4 $J");
        let cased = "G=GB300; H=${G,,}\nx $H ${H^^} ${Z,,}";
        assert_eq!(texts(cased).last().unwrap(), "x gb300 GB300 ${Z,,}");
        let counted =
            "N=8\nx --a $(expr 32 / $N / 2) --b $(expr $N \\* 3) --c $(expr 16 / $1) $(date)";
        assert_eq!(texts(counted).last().unwrap(), "x --a 2 --b 24 --c $[16/$1] $(date)");
        let grown = "A=(--x); A+=(--y); B=\"$A --z\"\nrun $B";
        assert_eq!(texts(grown).last().unwrap(), "run --x --y --z");
    }
}
