//! The printer of a line, and its message.
//!
//! NCCL begins lines with `host:pid:tid [device] NCCL INFO `; launchers and loggers add more in front
//! (`[1,0]<stdout>:`, `[0] `, a time). Users also paste lines without any of these.

/// What precedes a message.
const MARK: &str = "NCCL INFO ";

/// A line's printer and its message; the printer is empty if the line does not name it. `None` if
/// the line is from another program or a warning.
pub(super) fn split(text: &str) -> Option<(String, &str)> {
    if let Some(at) = text.find(MARK) {
        return Some((printer(&text[..at]), &text[at + MARK.len()..]));
    }
    if text.contains(" NCCL ") && text.contains("] NCCL WARN") {
        return None;
    }
    let bare = ["<stdout>:", "<stderr>:"]
        .into_iter()
        .find_map(|tag| text.split_once(tag).map(|(_, rest)| rest))
        .unwrap_or(text);
    Some((String::new(), bare))
}

/// Host, process and device: threads of one process belong to one rank.
fn printer(before: &str) -> String {
    let mut tokens = before.split_whitespace().rev();
    let device = tokens.next().unwrap_or("");
    let place = tokens.next().unwrap_or("");
    let place = place.rsplit_once('>').map_or(place, |(_, rest)| rest.trim_start_matches(':'));
    let process = place.rsplit_once(':').map_or(place, |(process, _)| process);
    format!("{process}{device}")
}

/// The number after `name` among the words of a message: `nRanks 16`.
pub(super) fn number_after(message: &str, name: &str) -> Option<u32> {
    let mut words = message.split([' ', ',']).filter(|w| !w.is_empty());
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        for (text, who) in [
            ("node0:1000:1001 [0] NCCL INFO x y", "node0:1000[0]"),
            (
                "[0] h100clust-worker-1:497888:497958 [0] NCCL INFO x y",
                "h100clust-worker-1:497888[0]",
            ),
            ("[1,0]<stdout>:n:12:13 [7] NCCL INFO x y", "n:12[7]"),
            (
                "2025-01-02T03:04:05.678 n122-230-208:1214:1263 [0] NCCL INFO x y",
                "n122-230-208:1214[0]",
            ),
            ("[2025-01-02 03:04:05] n:1:2 [3] NCCL INFO x y", "n:1[3]"),
            ("NCCL INFO x y", ""),
            ("x y", ""),
            ("[1,0]<stdout>:x y", ""),
        ] {
            assert_eq!(split(text), Some((who.to_owned(), "x y")), "{text}");
        }
        assert_eq!(split("n:1:2 [0] NCCL WARN x"), None);
    }
}
