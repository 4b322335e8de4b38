//! Open MPI's dynamic rules as text: one number per line, followed by its meaning.

use std::fmt::Write;

use crate::library::openmpi::rules::{Coll, MessageRule, Rules};

/// The comment for a rule, by its collective, the least ranks and the rule.
pub type Remark<'a> = &'a dyn Fn(Coll, u32, &MessageRule) -> Option<String>;

/// The text of a file with these rules, after comment lines.
///
/// Files with requests name version 2, which 5.0.7 and later read.
#[must_use]
pub fn openmpi_rules(rules: &Rules, head: &[String], remark: Remark<'_>) -> String {
    let comms = || rules.collectives.iter().flat_map(|c| &c.comms);
    let has_requests = comms().flat_map(|c| &c.rules).any(|rule| rule.requests.is_some());
    // The version must be the first text in the file.
    let mut text = String::from(if has_requests { "rule-file-version-2\n" } else { "" });
    for line in head {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", format!("# {line}").trim_end());
    }
    let _ = writeln!(text, "{} # collectives", rules.collectives.len());
    for one in &rules.collectives {
        let name = one.collective.name();
        let _ = writeln!(text, "\n{} # {name}", one.collective.number());
        let _ = writeln!(text, "{} # sizes of communicators", one.comms.len());
        for comm in &one.comms {
            let _ = writeln!(text, "{} # ranks and more", comm.from);
            let _ = writeln!(text, "{} # sizes of messages", comm.rules.len());
            for rule in &comm.rules {
                let MessageRule { from, algorithm, fan, segment, requests, .. } = rule;
                let _ = write!(text, "{} {algorithm} {fan} {}", from.0, segment.0);
                if let Some(requests) = requests {
                    let _ = write!(text, " {requests}");
                }
                let what = match algorithm {
                    0 => "Open MPI's own decision",
                    _ => one.collective.algorithm(*algorithm).unwrap_or("unknown"),
                };
                let more = remark(one.collective, comm.from, rule);
                let more = more.map_or(String::new(), |more| format!(", {more}"));
                let _ = writeln!(text, " # {what}{more}");
            }
        }
    }
    text
}
