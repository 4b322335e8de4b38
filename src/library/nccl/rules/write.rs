//! The table of NCCL's example tuner plugin as text.

use std::fmt::Write;

use crate::library::nccl::rules::{Channels, Rule, Rules};

/// The text of a file with these rules, after comment lines.
#[must_use]
pub fn nccl_tuner_csv(rules: &Rules, head: &[String]) -> String {
    let mut text = String::new();
    // The plugin cuts lines after 254 bytes and reads the rest as a rule.
    for line in head.iter().flat_map(|line| cut(line)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", format!("# {line}").trim_end());
    }
    for rule in &rules.rules {
        let Rule { collective, from, to, algorithm, protocol, .. } = rule;
        let any = |count: Option<u32>| count.map_or("-1".to_owned(), |count| count.to_string());
        let channels = match rule.channels {
            Channels::One => "-1".to_owned(),
            Channels::Own => "0".to_owned(),
            Channels::AtMost(most) => most.to_string(),
        };
        let (collective, algorithm, protocol) =
            (collective.id(), algorithm.lower(), protocol.lower());
        let (nodes, ranks) = (any(rule.nodes), any(rule.ranks));
        let (pipe_ops, registered) = (any(rule.pipe_ops), any(rule.registered));
        let _ = writeln!(
            text,
            "{collective},{},{},{algorithm},{protocol},{channels},{nodes},{ranks},{pipe_ops},{registered}",
            from.0, to.0
        );
    }
    text
}

/// A comment line in pieces that the plugin reads as one line each.
fn cut(line: &str) -> Vec<String> {
    // Blanks may be those of a file's name.
    if line.len() < 200 && !line.contains(char::is_control) {
        return vec![line.trim().to_owned()];
    }
    let mut pieces = vec![String::new()];
    for word in line.split_whitespace() {
        match pieces.last_mut() {
            Some(piece) if piece.is_empty() => piece.push_str(word),
            Some(piece) if piece.len() + word.len() < 200 => {
                piece.push(' ');
                piece.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}
