//! MPICH's selection tree: nested objects, whose names are tests and whose order matters.
//!
//! MPICH stops with an assertion or a crash at most of what is refused here. It silently truncates
//! numbers of more than 32 bits.

use std::collections::HashMap;

use crate::base::error::advice;
use crate::base::refused::Refused;
use crate::library::mpich::rules::{
    Branch, COLLECTIVES, Hierarchy, Kind, Leaf, Limit, Node, Test, Tree,
};
use crate::library::tuning_file::Line;

/// Objects inside each other that are followed at most.
const DEEPEST: usize = 64;

pub(in crate::library) fn read(text: &str) -> Result<Tree, Refused> {
    let mut scanner = Scanner { text, at: 0, line: 1 };
    let root = scanner.object(0)?;
    if scanner.next().is_some() {
        return Err(scanner.fault("something comes after the last brace"));
    }
    let mut tree = Tree::default();
    for entry in root {
        let Some(name) = entry.name.strip_prefix("collective=") else {
            return Err(Refused::at(entry.line, format!("`{}` is not a collective", entry.name))
                .help("write tests inside each `collective=…`"));
        };
        if !COLLECTIVES.contains(&name) {
            return Err(Refused::at(entry.line, format!("MPICH has no collective `{name}`"))
                .help(advice(name, COLLECTIVES)));
        }
        let node = node(name, entry.inside, entry.line)?;
        tree.collectives.push((name.to_owned(), node, Line(entry.line)));
    }
    match tree.collectives.is_empty() {
        true => Err(Refused::at(1, "the file has no rules").help("write all 44 collectives")),
        false => Ok(tree),
    }
}

/// A name and the object after it.
struct Entry {
    name: String,
    line: usize,
    inside: Vec<Entry>,
}

/// Reads the part of JSON that such a file uses.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Scanner<'_> {
    fn fault(&self, what: &str) -> Refused {
        Refused::at(self.line, what).help(
            "write nested objects, such as {\"comm_type=intra\": {}}, with commas between them",
        )
    }

    /// The next character that is not white space.
    fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at).copied().filter(u8::is_ascii_whitespace) {
            self.line += usize::from(byte == b'\n');
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> Result<(), Refused> {
        match self.next() {
            Some(found) if found == wanted => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(self.fault(&format!("`{}` is expected here", char::from(wanted)))),
            None => {
                Err(self
                    .fault(&format!("the file ends where `{}` is expected", char::from(wanted))))
            }
        }
    }

    fn name(&mut self) -> Result<String, Refused> {
        self.take(b'"')?;
        let start = self.at - 1;
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.at += 1;
                    let quoted = &self.text[start..self.at];
                    return serde_json::from_str(quoted)
                        .map_err(|_| self.fault("the name is not a JSON string"));
                }
                b'\n' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        Err(self.fault("a name without its closing `\"`"))
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Entry>, Refused> {
        if depth > DEEPEST {
            return Err(Refused::at(self.line, format!("more than {DEEPEST} nested objects"))
                .help("no MPICH tree is that deep"));
        }
        self.take(b'{')?;
        let mut entries = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        if self.next() == Some(b'}') {
            self.at += 1;
            return Ok(entries);
        }
        loop {
            self.next();
            let line = self.line;
            // MPICH removes white space from names.
            let name: String = self.name()?.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            if let Some(before) = lines.insert(name.clone(), line) {
                return Err(Refused::at(line, format!("`{name}` is already in line {before}"))
                    .help("MPICH's reader keeps only one of two equal tests: leave one out"));
            }
            self.take(b':')?;
            let inside = self.object(depth + 1)?;
            entries.push(Entry { name, line, inside });
            match self.next() {
                Some(b',') => self.at += 1,
                _ => break,
            }
        }
        self.take(b'}')?;
        Ok(entries)
    }
}

fn node(collective: &str, entries: Vec<Entry>, line: usize) -> Result<Node, Refused> {
    let is_leaf = |e: &Entry| e.name.starts_with("algorithm=");
    if entries.iter().any(is_leaf) {
        return leaf(collective, entries).map(Node::Runs);
    }
    let mut branches = Vec::new();
    for entry in entries {
        let test = test(collective, &entry.name, entry.line)?;
        let then = node(collective, entry.inside, entry.line)?;
        branches.push(Branch { test, then, line: Line(entry.line) });
    }
    closed(&branches, line)?;
    Ok(Node::Tests(branches))
}

fn leaf(collective: &str, mut entries: Vec<Entry>) -> Result<Leaf, Refused> {
    let line = entries.first().map_or(1, |e| e.line);
    let (Some(entry), true) = (entries.pop(), entries.is_empty()) else {
        return Err(Refused::at(line, "something else beside an algorithm")
            .help("MPICH reads only the first algorithm: leave the rest out"));
    };
    let name = entry.name.trim_start_matches("algorithm=");
    let mut stem = collective.to_owned();
    stem[..1].make_ascii_uppercase();
    let kinds = ["intra_", "inter_", "allcomm_"];
    let rest = name
        .strip_prefix("MPIR_")
        .and_then(|n| n.strip_prefix(&stem))
        .and_then(|n| n.strip_prefix('_'));
    if !rest.is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind))) {
        return Err(Refused::at(line, format!("`{name}` is not an algorithm of {collective}"))
            .help(format!(
                "MPICH stops at such a name: write MPIR_{stem}_intra_…, _inter_… or _allcomm_…"
            )));
    }
    let parameters = entry.inside.into_iter().map(|parameter| match parameter.inside.is_empty() {
        true => Ok(parameter.name),
        false => Err(Refused::at(parameter.line, "something inside a parameter").help("write {}")),
    });
    let parameters = parameters.collect::<Result<_, _>>()?;
    Ok(Leaf { algorithm: name.to_owned(), parameters, line: Line(line) })
}

/// Whether one of the tests holds for any call, as MPICH wants it.
fn closed(branches: &[Branch], line: usize) -> Result<(), Refused> {
    let Some(last) = branches.last() else {
        return Err(
            Refused::at(line, "an empty object").help("write tests or an algorithm into it")
        );
    };
    let any = |b: &Branch| matches!(b.test, Test::Any(_));
    if let Some(early) = branches.iter().rev().skip(1).find(|b| any(b)) {
        return Err(Refused::at(early.line.0, "tests follow one that is always true")
            .help("MPICH stops at such a list: put `=any` last"));
    }
    // A test for yes or no is complete with both.
    let both = branches.iter().any(|b| are_opposite(b.test, last.test));
    // A file may leave out inter-communicators.
    let intra = last.test == Test::Inter(false);
    if any(last) || both || intra {
        return Ok(());
    }
    Err(Refused::at(last.line.0, "no test is true for all remaining cases")
        .help("MPICH stops there: end with `=any`, or with both `=yes` and `=no`"))
}

/// Whether 5.0 takes one of the two for any call; before, MPICH does not look for more tests of the hierarchy.
fn are_opposite(one: Test, other: Test) -> bool {
    match (one, other) {
        (Test::Hierarchy(a), Test::Hierarchy(b)) => {
            (a == Hierarchy::Parent) != (b == Hierarchy::Parent)
        }
        _ => opposite(one) == Some(other),
    }
}

fn opposite(test: Test) -> Option<Test> {
    Some(match test {
        Test::Inter(is) => Test::Inter(!is),
        Test::Consecutive(is) => Test::Consecutive(!is),
        Test::Commutative(is) => Test::Commutative(!is),
        Test::BuiltIn(is) => Test::BuiltIn(!is),
        Test::InPlace(is) => Test::InPlace(!is),
        Test::Regular(is) => Test::Regular(!is),
        Test::Threads(is) => Test::Threads(!is),
        _ => return None,
    })
}

/// Tests by the text before their sign.
const NAMES: &[&str] = &[
    "comm_type=intra",
    "comm_type=inter",
    "comm_size<=…",
    "comm_size=pow2",
    "comm_size=node_comm_size",
    "comm_hierarchy=parent",
    "comm_avg_ppn<=…",
    "is_node_consecutive=yes",
    "avg_msg_size<=…",
    "total_msg_size<=…",
    "count<=…",
    "count<pow2",
    "is_commutative=yes",
    "is_op_built_in=yes",
    "is_sendbuf_inplace=yes",
    "is_block_regular=yes",
    "is_multi_threaded=yes",
    "…=any",
];

fn test(collective: &str, name: &str, line: usize) -> Result<Test, Refused> {
    let unknown = || {
        Refused::at(line, format!("`{name}` is not a test"))
            .help(format!("MPICH stops there; known: {}", NAMES.join(", ")))
    };
    if name.starts_with("composition=") {
        let what = format!("`{name}` is of a file that chooses compositions, which is not read");
        let help = "that file is for MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE: give the one for \
                    MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE, which chooses algorithms";
        return Err(Refused::at(line, what).help(help).unsupported());
    }
    let end = name.find(['<', '=']).unwrap_or(name.len());
    let (subject, rest) = name.split_at(end);
    let yes = match rest {
        "=yes" => Some(true),
        "=no" => Some(false),
        _ => None,
    };
    let test = match (subject, rest) {
        ("any", "") => Test::Any(Kind::Plain),
        ("comm_type", "=intra") => Test::Inter(false),
        ("comm_type", "=inter") => Test::Inter(true),
        ("comm_size", "=pow2") => Test::PowerOfTwo,
        ("comm_size", "=node_comm_size") => Test::OneNode,
        ("comm_size", "=any") => Test::Any(Kind::Ranks),
        ("comm_hierarchy", "=any") => Test::Any(Kind::Parent),
        ("comm_hierarchy", _) => {
            let is = |kind: &Hierarchy| rest.strip_prefix('=') == Some(kind.word());
            Test::Hierarchy(Hierarchy::ALL.into_iter().find(is).ok_or_else(unknown)?)
        }
        ("comm_avg_ppn", "=any") => Test::Any(Kind::PerNode),
        ("avg_msg_size", "=any") => Test::Any(Kind::Average),
        ("total_msg_size", "=any") => Test::Any(Kind::Total),
        ("count", "=any") => Test::Any(Kind::Count),
        ("count", "<pow2") => Test::CountBelowPower,
        ("comm_size", _) => Test::Ranks(limit(rest, line)?.ok_or_else(unknown)?),
        ("comm_avg_ppn", _) => Test::PerNode(limit(rest, line)?.ok_or_else(unknown)?),
        ("avg_msg_size", _) => Test::Average(limit(rest, line)?.ok_or_else(unknown)?),
        ("total_msg_size", _) => Test::Total(limit(rest, line)?.ok_or_else(unknown)?),
        ("count", _) => match limit(rest, line)? {
            Some(Limit::AtMost(most)) => Test::Count(most),
            _ => return Err(unknown()),
        },
        ("is_node_consecutive", _) => Test::Consecutive(yes.ok_or_else(unknown)?),
        ("is_commutative", _) => Test::Commutative(yes.ok_or_else(unknown)?),
        ("is_op_built_in", _) => Test::BuiltIn(yes.ok_or_else(unknown)?),
        ("is_sendbuf_inplace", _) => Test::InPlace(yes.ok_or_else(unknown)?),
        ("is_block_regular", _) => Test::Regular(yes.ok_or_else(unknown)?),
        ("is_multi_threaded", _) => Test::Threads(yes.ok_or_else(unknown)?),
        _ => return Err(unknown()),
    };
    match asked(test, collective) {
        true => Ok(test),
        false => Err(Refused::at(line, format!("MPICH cannot evaluate `{name}` for {collective}"))
            .help("its first call would abort: use another test")),
    }
}

/// Reads `<=4096` and `<4096`.
fn limit(rest: &str, line: usize) -> Result<Option<Limit>, Refused> {
    let (digits, limit): (_, fn(u32) -> Limit) = match rest.strip_prefix("<=") {
        Some(digits) => (digits, Limit::AtMost),
        None => match rest.strip_prefix('<') {
            Some(digits) => (digits, Limit::Below),
            None => return Ok(None),
        },
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    match digits.parse::<i32>() {
        Ok(number) => Ok(Some(limit(number.unsigned_abs()))),
        Err(_) => Err(Refused::at(line, format!("`{digits}` has more than 32 bits"))
            .help(format!("MPICH silently truncates it: write at most {}", i32::MAX))),
    }
}

/// Whether MPICH can evaluate `test` for this collective; otherwise it stops at the first call.
fn asked(test: Test, collective: &str) -> bool {
    let plain = collective.strip_prefix('i').filter(|c| COLLECTIVES.contains(c));
    let plain = plain.unwrap_or(collective);
    let reduces = matches!(plain, "allreduce" | "reduce");
    let scatters = matches!(plain, "reduce_scatter" | "reduce_scatter_block");
    match test {
        Test::Average(_) => reduces || matches!(plain, "bcast" | "alltoall"),
        Test::Total(_) => {
            reduces
                || scatters
                || matches!(plain, "bcast" | "allgather" | "allgatherv" | "gather" | "scatter")
                || plain.starts_with("alltoall")
        }
        Test::Count(_) | Test::CountBelowPower => {
            reduces
                || scatters
                || matches!(plain, "allgather" | "allgatherv")
                || collective == "bcast"
        }
        Test::Commutative(_) => reduces || scatters,
        Test::BuiltIn(_) => reduces,
        Test::InPlace(_) => plain.starts_with("alltoall"),
        Test::Regular(_) => plain == "reduce_scatter",
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::Bytes;
    use crate::library::mpich::rules::Call;

    const GOOD: &str = r#"{
  "collective=allreduce": {
    "comm_type=intra": {
      "comm_size <= 2": { "algorithm=MPIR_Allreduce_intra_recursive_doubling": {} },
      "avg_msg_size<=131072": { "algorithm=MPIR_Allreduce_intra_recursive_doubling": {} },
      "avg_msg_size=any": {
        "is_op_built_in=yes": { "algorithm=MPIR_Allreduce_intra_reduce_scatter_allgather": {} },
        "is_op_built_in=no": { "algorithm=MPIR_Allreduce_intra_recursive_doubling": {} }
      }
    },
    "comm_type=inter": { "algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {} }
  },
  "collective=barrier": { "algorithm=MPIR_Barrier_intra_k_dissemination": { "k=2": {} } }
}"#;

    fn call(ranks: u32, size: u64, builtin_op: bool) -> Call {
        let (average, total) = (Bytes(size), Bytes(size * u64::from(ranks)));
        Call {
            inter: false,
            ranks,
            nodes: 1,
            hierarchy: Hierarchy::Flat,
            consecutive: true,
            average,
            total,
            count: size / 4,
            commutative: true,
            builtin_op,
            in_place: false,
            regular: true,
            threads: false,
            since_5: false,
        }
    }

    #[test]
    fn the_first_test_that_holds_is_entered() {
        let tree = read(GOOD).unwrap();
        let line = |call| tree.leaf("allreduce", &call).unwrap().0.line.0;
        assert_eq!(line(call(2, 1 << 20, true)), 4);
        assert_eq!(line(call(4, 131_072, true)), 5);
        assert_eq!(line(call(4, 131_073, true)), 7);
        assert_eq!(line(call(4, 131_073, false)), 8);
        assert_eq!(line(Call { inter: true, ..call(4, 8, true) }), 11);
        assert!(tree.leaf("bcast", &call(4, 8, true)).is_err());
        assert_eq!(tree.missing().len(), 42);
        assert_eq!(tree.leaf("barrier", &call(4, 0, true)).unwrap().0.parameters, ["k=2"]);
    }

    #[test]
    fn what_stops_mpich_is_refused_with_its_line() {
        let leaf = |coll: &str| format!("{{\"algorithm=MPIR_{coll}_intra_x\": {{}}}}");
        let bcast = |inside: &str| format!("{{\n\"collective=bcast\":\n{inside}}}");
        let x = leaf("Bcast");
        for (text, line, what) in [
            (bcast(&format!("{{\"avg_msg_size<=4\": {x}}}")), 3, "no test is true for all"),
            (bcast(&format!("{{\"any\": {x}, \"comm_size=any\": {x}}}")), 3, "tests follow one"),
            (
                bcast(
                    "{\"comm_size=any\": {\"composition=MPIDI_Bcast_intra_composition_alpha\": {}}}",
                ),
                3,
                "`composition=MPIDI_Bcast_intra_composition_alpha` is of a file that chooses compositions",
            ),
            (bcast(&format!("{{\"comm_sizes=any\": {x}}}")), 3, "`comm_sizes=any` is not a test"),
            (
                bcast(&format!("{{\"avg_msg_size<=4294967296\": {x}, \"any\": {x}}}")),
                3,
                "`4294967296` has more",
            ),
            (
                bcast(&format!("{{\"avg_msg_size<=-1\": {x}, \"any\": {x}}}")),
                3,
                "`avg_msg_size<=-1` is not a test",
            ),
            (
                bcast(&format!("{{\"is_op_built_in=yes\": {x}, \"any\": {x}}}")),
                3,
                "MPICH cannot evaluate",
            ),
            (bcast(&format!("{{\"any\": {x}, \"any\": {x}}}")), 3, "`any` is already in line 3"),
            (bcast(&leaf("Reduce")), 3, "`MPIR_Reduce_intra_x` is not an algorithm of bcast"),
            (bcast("{}"), 2, "an empty object"),
            (bcast("{\"any\": 3}"), 3, "`{` is expected here"),
            (bcast("{\"any"), 3, "a name without its closing"),
            ("{\n\"collective=brodcast\": {}}".to_owned(), 2, "MPICH has no collective `brodcast`"),
            ("{\n\"comm_type=intra\": {}}".to_owned(), 2, "`comm_type=intra` is not a collective"),
            ("{}".to_owned(), 1, "the file has no rules"),
            (format!("{} 1", bcast(&x)), 3, "something comes after"),
            ("{\"collective=bcast\": ".to_owned(), 1, "the file ends where `{`"),
            ("{\"a\":".repeat(1000), 1, "more than 64 nested"),
        ] {
            let refused = read(&text).unwrap_err();
            assert!(refused.what.starts_with(what), "{}: {text}", refused.what);
            assert_eq!(refused.line, Some(line), "{what}");
            assert!(refused.help.is_some(), "{what}");
        }
    }
}
