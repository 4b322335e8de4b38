//! Open MPI's dynamic rules: whole numbers, `#` to the end of the line is a comment.
//!
//! Open MPI reads numbers with `%li`, silently skips whatever is not a number, and silently drops the
//! whole file at the first fault. Here each of these is an error.

use crate::base::quantity::Bytes;
use crate::base::refused::Refused;
use crate::library::openmpi::rules::{Coll, CollectiveRules, CommRules, MessageRule, Rules};
use crate::library::tuning_file::Line;

/// The text before the version number, in files for 5.0.7 and later.
pub(in crate::library) const VERSION: &str = "rule-file-version-";

/// Open MPI keeps segments and counts in an `int`.
const MOST: u64 = i32::MAX as u64;

pub(in crate::library) fn read(text: &str) -> Result<Rules, Refused> {
    let (has_requests, body) = version(text)?;
    let mut words = Words { rest: numbers(body)?.into_iter().peekable(), line: 1, has_requests };
    let count = words.number("number of collectives")?;
    let mut rules = Rules::default();
    for _ in 0..count {
        let one = words.collective()?;
        let name = one.collective.name();
        if let Some(before) = rules.collectives.iter().find(|c| c.collective == one.collective) {
            let what = format!("{name} already has rules, from line {} on", before.line.0);
            return Err(Refused::at(one.line.0, what)
                .help("Open MPI keeps only the last: put all communicator sizes together"));
        }
        rules.collectives.push(one);
    }
    match words.rest.next() {
        None => Ok(rules),
        Some((line, extra)) => {
            Err(Refused::at(line, format!("`{extra}` comes after the last rule"))
                .help("Open MPI reads no further: correct the counts before it"))
        }
    }
}

/// Whether rules may have a fifth number, and the text after the header.
fn version(text: &str) -> Result<(bool, &str), Refused> {
    let Some(behind) = text.strip_prefix(VERSION) else { return Ok((false, text)) };
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    match behind.split_at(end) {
        ("1", body) => Ok((false, body)),
        ("2", body) => Ok((true, body)),
        (other, _) => {
            Err(Refused::at(1, format!("rule files of version `{other}` are not supported"))
                .help("versions 1 and 2 are read, and the JSON of 6.0")
                .unsupported())
        }
    }
}

/// Every number with its line.
fn numbers(text: &str) -> Result<Vec<(usize, u64)>, Refused> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let plain = line.split('#').next().unwrap_or("");
        for word in plain.split_ascii_whitespace() {
            if word.starts_with('@') {
                return Err(Refused::at(
                    number,
                    format!("`{word}` after a number is not supported"),
                )
                .help(
                    "releases of Open MPI skip it: leave it out, and the rules that it limits \
                         if they are not yours",
                )
                .unsupported());
            }
            let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
            if digits && word.len() > 1 && word.starts_with('0') {
                return Err(Refused::at(number, format!("`{word}` begins with a zero"))
                    .help("Open MPI reads it in base 8: leave the zero out"));
            }
            let value: Option<i64> = if digits { word.parse().ok() } else { None };
            let Some(value) = value.and_then(|v| u64::try_from(v).ok()) else {
                return Err(Refused::at(
                    number,
                    format!("`{word}` is not a whole number from 0 on"),
                )
                .help("Open MPI silently skips it or drops the file; write # before comments"));
            };
            found.push((number, value));
        }
    }
    Ok(found)
}

/// The remaining numbers.
struct Words {
    rest: std::iter::Peekable<std::vec::IntoIter<(usize, u64)>>,
    /// The line of the last number that was taken.
    line: usize,
    has_requests: bool,
}

impl Words {
    fn number(&mut self, what: &str) -> Result<u64, Refused> {
        let (line, value) = self.rest.next().ok_or_else(|| {
            Refused::at(self.line, format!("the file ends where the {what} should be"))
                .help("Open MPI silently drops a file that is too short: correct the counts")
        })?;
        self.line = line;
        Ok(value)
    }

    /// A number that Open MPI keeps in an `int`.
    fn int(&mut self, what: &str) -> Result<u32, Refused> {
        let value = self.number(what)?;
        match u32::try_from(value) {
            Ok(short) if value <= MOST => Ok(short),
            _ => Err(Refused::at(self.line, format!("{value} is too large as the {what}"))
                .help(format!("Open MPI keeps it in 32 bits: write at most {MOST}"))),
        }
    }

    fn collective(&mut self) -> Result<CollectiveRules, Refused> {
        let number = self.number("number of a collective")?;
        let line = Line(self.line);
        let collective = Coll::numbered(number).filter(|c| !c.algorithms().is_empty());
        let Some(collective) = collective else {
            let ruled = Coll::all().filter(|c| !c.algorithms().is_empty());
            let known: Vec<_> = ruled.map(|c| format!("{} {}", c.number(), c.name())).collect();
            return Err(Refused::at(
                line.0,
                format!("rules have no effect on collective {number}"),
            )
            .help(format!("known: {}", known.join(", "))));
        };
        let count = self.number("number of communicator sizes")?;
        if count == 0 {
            return Err(Refused::at(self.line, format!("no rules for {}", collective.name()))
                .help("leave the collective out"));
        }
        let mut comms: Vec<CommRules> = Vec::new();
        for _ in 0..count {
            let one = self.comm(collective)?;
            if let Some(before) = comms.last().filter(|before| before.from >= one.from) {
                let what = format!("{} ranks after {}", one.from, before.from);
                return Err(Refused::at(one.line.0, what)
                    .help("Open MPI never reaches it: write communicator sizes ascending"));
            }
            comms.push(one);
        }
        Ok(CollectiveRules { collective, comms, line })
    }

    fn comm(&mut self, collective: Coll) -> Result<CommRules, Refused> {
        let from = self.int("size of a communicator")?;
        let line = Line(self.line);
        let count = self.number("number of message sizes")?;
        if count == 0 {
            return Err(Refused::at(self.line, format!("no rule for {from} ranks"))
                .help("write the rule `0 0 0 0`: Open MPI's own decision from 0 bytes on"));
        }
        let mut rules: Vec<MessageRule> = Vec::new();
        for _ in 0..count {
            let rule = self.rule(collective)?;
            match rules.last() {
                None if rule.from.0 > 0 => {
                    let what = format!("the first rule begins at {} bytes", rule.from.0);
                    return Err(Refused::at(rule.line.0, what)
                        .help("Open MPI silently drops such a file: begin with `0 0 0 0`"));
                }
                Some(before) if before.from >= rule.from => {
                    let what = format!("{} bytes after {}", rule.from.0, before.from.0);
                    return Err(Refused::at(rule.line.0, what)
                        .help("Open MPI never reaches it: write sizes ascending"));
                }
                _ => rules.push(rule),
            }
        }
        Ok(CommRules { from, rules, line })
    }

    fn rule(&mut self, collective: Coll) -> Result<MessageRule, Refused> {
        let from = Bytes(self.number("size of a message")?);
        let line = Line(self.line);
        let algorithm = self.int("number of an algorithm")?;
        if algorithm as usize > collective.in_numbers().len() {
            let names = (1..).zip(collective.in_numbers());
            let known: Vec<_> = names.map(|(number, name)| format!("{number} {name}")).collect();
            let what = format!("{} has no algorithm {algorithm}", collective.name());
            return Err(Refused::at(self.line, what)
                .help(format!("its first call fails; known: 0 default, {}", known.join(", "))));
        }
        let fan = self.int("fan in and out")?;
        let segment = Bytes(self.int("size of segments")?.into());
        let more = self.rest.peek().is_some_and(|(line, _)| *line == self.line);
        let requests = match self.has_requests && more {
            true => Some(self.int("number of requests")?),
            false => None,
        };
        Ok(MessageRule { from, algorithm, fan, segment, requests, line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
2 # collectives
2 2 # allreduce, by ranks
2 1
0 0 0 0
4 3
0 3 0 0 4096 6 0 0 262144 5 0 16384
7 1 2 1 0 0 0 0
";

    #[test]
    fn numbers_may_stand_anyhow() {
        let rules = read(GOOD).unwrap();
        let allreduce = Coll::named("allreduce").unwrap();
        let rule = rules.rule(allreduce, 8, Bytes(300_000)).unwrap();
        assert_eq!((rule.algorithm, rule.segment, rule.line.0), (5, Bytes(16384), 6));
        assert_eq!(rules.rule(allreduce, 2, Bytes(300_000)).unwrap().algorithm, 0);
        assert!(read(&GOOD.replace(['\n', ' '], "\n")).is_err(), "comments lose their end");
    }

    #[test]
    fn a_fifth_number_is_for_version_two() {
        let text = "rule-file-version-2\n1\n3 1\n2 1\n0 4 0 0 8\n";
        let rules = read(text).unwrap();
        assert_eq!(rules.collectives[0].comms[0].rules[0].requests, Some(8));
        let bare = read("rule-file-version-2\n1\n3 1\n2 1\n0 4 0 0\n").unwrap();
        assert_eq!(bare.collectives[0].comms[0].rules[0].requests, None);
        assert!(read("1\n3 1\n2 1\n0 4 0 0 8\n").is_err());
    }

    /// Open MPI 4.1.4 silently drops each of these, skips it or never reaches it.
    #[test]
    fn what_open_mpi_passes_over_is_refused_with_its_line() {
        for (text, line, what) in [
            ("1\n7 1\n4 1\n100 3 0 0\n", 4, "the first rule begins at 100 bytes"),
            ("1\n7 1\n4 2\n0 3 0 0\n0 4 0 0\n", 5, "0 bytes after 0"),
            ("1\n7 2\n8 1\n0 3 0 0\n4 1\n0 1 0 0\n", 5, "4 ranks after 8"),
            ("1\n7 1\n4 2\n0 3 0 0\n", 4, "the file ends where"),
            ("1\n7 1\n4 1\n0 3 0 0\n9\n", 5, "`9` comes after the last rule"),
            ("1\n7 1\n4 1\n0 three 0 0\n", 4, "`three` is not a whole number"),
            ("1\n7 1\n4 1\n0 -1 0 0\n", 4, "`-1` is not a whole number"),
            ("1\n7 1\n010 1\n0 3 0 0\n", 3, "`010` begins with a zero"),
            ("1\n7 1\n4 1\n0 99 0 0\n", 4, "bcast has no algorithm 99"),
            ("1\n2 1\n4 1\n0 7 0 0\n", 4, "allreduce has no algorithm 7"),
            ("1\n0 1\n4 1\n0 8 0 0\n", 4, "allgather has no algorithm 8"),
            ("rule-file-version-1\n1\n11 1\n4 1\n0 8 0 0\n", 5, "reduce has no algorithm 8"),
            ("1\n5 1\n4 1\n0 1 0 0\n", 2, "rules have no effect on collective 5"),
            ("2\n7 1\n4 1\n0 1 0 0\n7 1\n4 1\n0 1 0 0\n", 5, "bcast already has rules"),
            (
                "1\n7 1\n4 1\n0 3 0 4294967296\n",
                4,
                "4294967296 is too large as the size of segments",
            ),
            ("rule-file-version-3\n1\n", 1, "rule files of version `3`"),
            ("1\n7 1\n4 @intra_node 1\n0 3 0 0\n", 3, "`@intra_node` after a number"),
            ("", 1, "the file ends where the number of collectives"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.what.starts_with(what), "{}", refused.what);
            assert_eq!(refused.line, Some(line), "{what}");
            assert!(refused.help.is_some(), "{what}");
        }
    }
}
