//! What a shell script runs, as far as its text says: comments left out, variables replaced, branches
//! followed whose conditions compare known values.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::arithmetic::arithmetic;

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
    let plain = joined(&uncommented(text));
    let all: Vec<&str> = plain.lines().flat_map(parts).map(str::trim).collect();
    let count = |word: &str| all.iter().filter(|part| first(inner(part)).0 == word).count();
    // A page with a command line in it may have sentences that begin with "if".
    let branches = count("if") == count("fi") && count("case") == count("esac");
    let mut script = Script::default();
    for part in all {
        let part = if branches { script.enter(part) } else { part };
        script.run(part);
    }
    let Script { variables, mut ran, .. } = script;
    for statement in &mut ran {
        statement.text = expanded(&statement.text, &variables);
    }
    ran
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
    left: Cell<usize>,
}

/// Bytes of values in all places of a script.
const MOST_REPLACED: usize = 1 << 24;

impl Default for Known {
    fn default() -> Self {
        Self { values: BTreeMap::new(), left: Cell::new(MOST_REPLACED) }
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
                if let Some((name, value)) = set
                    && !self.variables.values.contains_key(name)
                {
                    self.set(name, value, open);
                }
            }
            return;
        }
        let mut part = part;
        while let ("export" | "local" | "declare" | "readonly" | "typeset", rest) = first(part) {
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
        } else if before.is_some_and(|before| !value.starts_with(before.as_str())) {
            self.variables.values.remove(name);
            self.torn.insert(name.to_owned());
        }
        if !self.torn.contains(name) {
            self.variables.values.insert(name.to_owned(), value);
        }
        true
    }
}

/// A value at the begin of a text, and what follows it.
pub(super) fn value(text: &str) -> (&str, &str) {
    let end = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text[1..].find(quote).map(|at| at + 2),
        Some('(') => None,
        _ => text.find(char::is_whitespace).filter(|at| !text[..*at].contains(['(', '`', '"'])),
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

/// Without comments: from a `#` that begins a word outside quotes to the end of its line.
fn uncommented(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (mut quote, mut before) = (None, ' ');
        let at = line.char_indices().find_map(|(i, c)| {
            match (quote, c) {
                (Some(open), _) if open == c => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quote = Some(c),
                (None, '#') if before.is_whitespace() => return Some(i),
                (None, _) => {}
            }
            before = c;
            None
        });
        match at {
            Some(at) => {
                out.push_str(&line[..at]);
                out.push('\n');
            }
            None => out.push_str(line),
        }
    }
    out
}

/// Joins lines that end in a backslash; text between parentheses is one line, but for those of quotes in a line.
fn joined(text: &str) -> String {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut quote) = (0_i32, None);
    for (at, c) in text.char_indices() {
        let is_closed = || text[at + 1..].chars().take_while(|x| *x != '\n').any(|x| x == c);
        match (quote, c) {
            (_, '\n') => quote = None,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if is_closed() => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = (depth - 1).max(0),
            _ => {}
        }
        out.push(if c == '\n' && depth > 0 { ' ' } else { c });
    }
    out
}

/// Statements of a line: cut at `;` outside quotes and parentheses.
fn parts(line: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start) = (0_i32, None, 0);
    let mut parts = Vec::new();
    for (i, c) in line.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ';') if depth <= 0 => {
                parts.push(&line[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    parts
}

/// Replaces `$NAME`, `${NAME}`, `${NAME[@]}`, `${NAME:-absent}`, `${NAME:=absent}` and `$((a * b))` by their values.
fn expanded(line: &str, known: &Known) -> String {
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
            let inside = expanded(&inside, known);
            match arithmetic(&inside, &known.values) {
                Some(value) => out.push_str(&value.to_string()),
                None => {
                    // One word, so that it stays one argument.
                    let shut = |c: &char| !c.is_whitespace() && !matches!(c, '(' | ')');
                    let inside: String = inside.chars().filter(shut).collect();
                    out.push_str(&format!("$[{inside}]"));
                }
            }
            rest = behind;
            continue;
        }
        let (inner, end) = match after.strip_prefix('{') {
            Some(braced) => match braced.find('}') {
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
        // Other expansions are not followed.
        let name = if absent.is_some() { name } else { inner };
        let absent = absent.unwrap_or("");
        let name = name.trim_end_matches("[@]").trim_end_matches("[*]");
        match known.take(name) {
            Some(value) => out.push_str(value),
            None if !absent.is_empty() => out.push_str(absent),
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
        let grown = "A=(--x); A+=(--y); B=\"$A --z\"\nrun $B";
        assert_eq!(texts(grown).last().unwrap(), "run --x --y --z");
    }
}
