//! Lines of a log, read one by one in bounded memory, without the prefixes of launchers.
//!
//! ```text
//! [1,0]<stdout>:           8             2     float …      mpirun --tag-output
//! 0:            8             2     float …                 srun -l
//! 2026-11-20T06:00:00.123Z            8             2 …     kubectl logs --timestamps
//! >            8             2     float …                  a quotation in an issue
//! Thu Jul 18 10:00:00 2026[1,0]<stdout>:   8            2 …  mpirun --timestamp-output
//! {"log":"            8             2 …\n","stream":…}      the files of Docker's json-file driver
//! "           8             2     float …",                 stdout_lines of Ansible
//! [default0]:            8             2 …                  torchrun --tee 3: the role and the local rank
//! [0]      8      2     float     sum      -1[0]    19.28 …  a rank's tag before every piece that it writes
//! node1:            8             2     float …              pdsh, also where the table's head is missing
//! `            8             2     float …                   a quotation in Markdown
//! ```
//!
//! Entities of HTML, in text that was copied from a page, are replaced by their characters.
//!
//! Other prefixes, of loggers and of tools that join the logs of pods, are learned from a table's head:
//! what is in front of `# nThread 1 …` is in front of its rows too, with other digits.

use std::io::{self, BufRead, Read};

use crate::base::encoding;
use crate::base::error::{Error, Result};
use crate::machine::sample::DataType;

use super::field;

/// The longest line that is read; no log has longer ones.
pub const LONGEST: usize = 1 << 20;

/// A line as readers of formats see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// Without the launcher's prefix, colours, and blanks at both ends.
    pub text: &'a str,
    /// Whether it ends with a line feed: without one it may be cut off.
    pub whole: bool,
}

impl<'a> Line<'a> {
    /// The text after a `#` and blanks, which some quoters remove and others add.
    pub fn bare(&self) -> &'a str {
        self.text.trim_start_matches('#').trim_start()
    }

    /// Whether the text after a `#` begins with a digit, as rows do.
    pub fn is_numeric(&self) -> bool {
        let bare = self.bare();
        bare.strip_prefix('-').unwrap_or(bare).starts_with(|c: char| c.is_ascii_digit())
    }
}

/// Hands over each line of a log without what launchers, terminals and other programs put around it.
///
/// # Errors
/// A line is too long, the bytes are not text, or the text has another encoding; the errors of `each`.
pub fn plain_lines(
    input: impl BufRead,
    file: &str,
    mut each: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let mut lines = Lines::new(input, file);
    while let Some(line) = lines.next()? {
        each(line.text)?;
    }
    Ok(())
}

/// The lines of `input`.
pub(super) struct Lines<'f, R> {
    input: R,
    buffer: Vec<u8>,
    /// A line that had to be changed: it had invalid UTF-8 or colours, or was inside JSON.
    changed: String,
    /// A row that had tags inside.
    row: String,
    /// What was in front of the last head of a table, as [`shape`] says it.
    shared: String,
    number: usize,
    file: &'f str,
}

impl<'f, R: BufRead> Lines<'f, R> {
    pub fn new(input: R, file: &'f str) -> Self {
        let (changed, row, shared) = (String::new(), String::new(), String::new());
        Self { input, buffer: Vec::new(), changed, row, shared, number: 0, file }
    }

    /// The next line, if there is one.
    ///
    /// # Errors
    /// A line is too long, the bytes are not text, or the text has another encoding.
    pub fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.buffer.clear();
        self.number += 1;
        let whole = until_line_feed(&mut self.input, &mut self.buffer).map_err(|e| {
            Error::input(format!("the log cannot be read: {e}"))
                .at(self.file)
                .help("name a readable file")
        })?;
        let Some(whole) = whole else { return Ok(None) };
        if self.number == 1 {
            if self.buffer.starts_with(b"\xff\xfe") || self.buffer.starts_with(b"\xfe\xff") {
                return Err(self.encoding());
            }
            if self.buffer.starts_with(encoding::MARK.as_bytes()) {
                self.buffer.drain(..encoding::MARK.len());
            }
        }
        if self.buffer.contains(&0) {
            return Err(self.no_text());
        }
        if self.buffer.len() > LONGEST {
            let what = format!("the line is longer than {} KiB: this is not a log", LONGEST >> 10);
            return Err(Error::input(what)
                .at(self.place())
                .help("give the benchmark's own output, line by line"));
        }
        while self.buffer.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            self.buffer.pop();
        }
        // On a terminal, the text after the last carriage return overwrites what is before it.
        // A blank that does not break begins with the last one in UTF-8.
        let odd = [b'\x1b', b'\r', b'&', b'\xc2'].iter().any(|byte| self.buffer.contains(byte));
        let line = match (docker(&self.buffer), std::str::from_utf8(&self.buffer)) {
            (None, Ok(text)) if !odd => text,
            (inside, _) => {
                let text = inside.unwrap_or_else(|| String::from_utf8_lossy(&self.buffer).into());
                self.changed = decoded(plain(&text));
                &self.changed
            }
        };
        let mut text = strip(line);
        if let Some(row) = untagged(line, text) {
            self.row = row;
            text = &self.row;
        }
        if let Some(before) = before_head(text) {
            self.shared = shape(before.trim_end());
        }
        let text = behind(text, &self.shared).map_or(text, strip);
        Ok(Some(Line { number: self.number, text, whole }))
    }

    fn place(&self) -> String {
        format!("{}:{}", self.file, self.number)
    }

    fn encoding(&self) -> Error {
        Error::input(encoding::UTF16).at(self.place()).help(encoding::CONVERT)
    }

    /// Zero bytes: every other byte in UTF-16 without a byte order mark, anywhere in a binary file.
    fn no_text(&self) -> Error {
        if encoding::is_utf16(&self.buffer) {
            return self.encoding();
        }
        let help = match self.buffer.starts_with(b"PAR1") {
            true => {
                "it is a table in Parquet: write it as CSV, for instance with pandas' read_parquet and to_csv"
            }
            false => "give the text that the benchmark printed",
        };
        Error::input("the file is binary, not text").at(self.place()).help(help)
    }
}

/// Reads up to and including a line feed, and at most one byte more than the longest line. `None` at the
/// end, otherwise whether there was a line feed.
fn until_line_feed(input: &mut impl BufRead, into: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let read = input.take(LONGEST as u64 + 1).read_until(b'\n', into)?;
    Ok((read > 0).then(|| into.last() == Some(&b'\n')))
}

/// Removes colours and text that a carriage return overwrote.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match after.strip_prefix('[') {
            Some(sequence) => {
                let end = sequence.find(|c: char| ('@'..='~').contains(&c));
                end.map_or("", |end| &sequence[end + 1..])
            }
            None => after,
        };
    }
    out.push_str(rest);
    match out.rsplit('\r').find(|part| !part.trim().is_empty()) {
        Some(last) if last.len() < out.len() => last.to_owned(),
        _ => out,
    }
}

/// A blank as browsers and chats copy it.
const NO_BREAK: &str = "\u{a0}";

/// The text with the entities that editors of pages write for characters of a log: blanks, `#`, `<` and `>`.
fn decoded(text: String) -> String {
    const ENTITIES: [(&str, &str); 9] = [
        (NO_BREAK, " "),
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&#35;", "#"),
        ("&num;", "#"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        // The last one, so that nothing is replaced twice.
        ("&amp;", "&"),
    ];
    match text.contains('&') || text.contains(NO_BREAK) {
        true => ENTITIES.iter().fold(text, |text, (entity, c)| text.replace(entity, c)),
        false => text,
    }
}

/// The text of a line of Docker's json-file driver.
fn docker(line: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Entry {
        log: String,
    }
    let entry = line.starts_with(b"{\"log\":").then(|| serde_json::from_slice(line).ok())?;
    entry.map(|Entry { log }| log.trim_end_matches(['\n', '\r']).to_owned())
}

/// How lines at the head of a table begin, after `#`.
const HEADS: [&str; 10] = [
    "nThread ",
    "nccl-tests version ",
    "Collective test starting: ",
    "out-of-place ",
    "in-place ",
    "size ",
    "OSU ",
    "Size ",
    "Benchmarking ",
    "bytes ",
];

/// What is in front of such a line; nothing, if it has no prefix.
fn before_head(text: &str) -> Option<&str> {
    let (before, after) = text.split_once('#')?;
    let after = after.trim_start_matches(['#', ' ']);
    // The first column of IMB's tables with -multi 1.
    let before = before.trim_end().strip_suffix("Group").unwrap_or(before);
    HEADS.iter().any(|head| after.starts_with(head)).then_some(before)
}

/// A prefix with one `0` for each run of digits.
fn shape(prefix: &str) -> String {
    let mut shape = String::new();
    for c in prefix.chars() {
        let c = if c.is_ascii_digit() { '0' } else { c };
        if c != '0' || !shape.ends_with('0') {
            shape.push(c);
        }
    }
    shape
}

/// The text after a prefix of this shape.
fn behind<'a>(text: &'a str, shape: &str) -> Option<&'a str> {
    let digit = |c: char| c.is_ascii_digit();
    let rest = shape.chars().try_fold(text, |rest, c| match c {
        '0' => Some(rest.trim_start_matches(digit)).filter(|after| after.len() < rest.len()),
        c => rest.strip_prefix(c),
    })?;
    (!shape.is_empty()).then_some(rest)
}

/// Removes prefixes until there is none.
fn strip(text: &str) -> &str {
    let mut rest = text.trim();
    loop {
        let next = match rest.as_bytes().first() {
            Some(b'[') => bracket(rest),
            Some(b'0'..=b'9') => numbered(rest),
            Some(b'>') => Some(&rest[1..]),
            Some(b'"') => element(rest),
            Some(b'`') => Some(rest.trim_matches('`')),
            Some(b'M' | b'T' | b'W' | b'F' | b'S') => day(rest),
            _ => None,
        };
        let Some(next) = next.or_else(|| host(rest)) else { return rest };
        rest = next.trim_start();
    }
}

/// `node1: ` of pdsh before a row, which begins with a size, a count and a type. Before a table's head any prefix is
/// learned.
fn host(text: &str) -> Option<&str> {
    let (host, row) = text.split_once([' ', '\t'])?;
    let host = host.strip_suffix(':').filter(|host| !host.is_empty())?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let mut words = row.split_ascii_whitespace();
    let mut number = || words.next().and_then(field::whole).is_some();
    let is_row = host.bytes().all(is_name) && number() && number();
    (is_row && DataType::named(words.next()?).is_some()).then_some(row)
}

/// A row without its rank's tag, where that is inside, too: the last one that was in front of it.
fn untagged(line: &str, row: &str) -> Option<String> {
    // Most lines are none, and cost little.
    let is_row = row.starts_with(|c: char| c.is_ascii_digit()) && line.contains('[');
    let (before, _) = is_row.then(|| line.split_once(row))??;
    let tag = before[before.rfind('[')?..].trim_end();
    let begins = row.split_ascii_whitespace().next().and_then(field::number).is_some();
    (begins && row.contains(tag)).then(|| row.replace(tag, " "))
}

/// `"text",`: an element of a list in JSON, as Ansible shows the lines of an output.
fn element(text: &str) -> Option<&str> {
    let inside = text[1..].trim_end_matches(',').strip_suffix('"')?;
    (!inside.contains('"')).then_some(inside)
}

/// `[1,0]<stdout>:`, `[0] `, `[pod/name/launcher] `, `[2026-11-20 06:00:00] `, `[default0]:`, `[node1:0]:`.
fn bracket(text: &str) -> Option<&str> {
    let (inside, rest) = text[1..].split_once(']')?;
    if let Some(rest) = stream(rest) {
        return Some(rest);
    }
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    if let Some(rest) = rest.strip_prefix(':')
        && inside.ends_with(|c: char| c.is_ascii_digit())
        && inside.bytes().all(is_word)
    {
        return Some(rest);
    }
    let is_rank = !inside.is_empty() && inside.bytes().all(|b| b.is_ascii_digit() || b == b',');
    let is_time = inside.len() > 7 && date(inside).is_some();
    (is_rank || is_time || inside.starts_with("pod/")).then_some(rest)
}

/// `<stdout>:` of mpirun.
fn stream(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("<stdout>").or_else(|| text.strip_prefix("<stderr>"))?;
    Some(rest.strip_prefix(':').unwrap_or(rest))
}

/// `Thu Jul 18 10:00:00 2026`, perhaps with `<stdout>:`.
fn day(text: &str) -> Option<&str> {
    const PATTERN: &[u8; 24] = b"Aaa Aaa 00 00:00:00 0000";
    let (head, rest) = text.split_at_checked(PATTERN.len())?;
    let fits = head.bytes().zip(PATTERN).all(|(b, p)| match p {
        b'A' => b.is_ascii_uppercase(),
        b'a' => b.is_ascii_lowercase(),
        // A day of one digit is behind two blanks.
        b'0' => b.is_ascii_digit() || b == b' ',
        p => b == *p,
    });
    fits.then(|| stream(rest).unwrap_or(rest))
}

/// `0: ` of srun, `2026-11-20T06:00:00.1Z ` and similar.
fn numbered(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let after = &text[digits..];
    if digits <= 7
        && let Some(rest) = after.strip_prefix(':')
        && (rest.is_empty() || rest.starts_with([' ', '\t', '#']))
    {
        return Some(rest);
    }
    if digits != 4 || !after.starts_with(['-', '/']) {
        return None;
    }
    date(text)
}

/// The text after a date with a time.
fn date(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let shape = |at: usize, pattern: &str| {
        bytes.get(at..at + pattern.len()).is_some_and(|part| {
            part.iter().zip(pattern.bytes()).all(|(b, p)| match p {
                b'0' => b.is_ascii_digit(),
                b'-' => matches!(b, b'-' | b'/'),
                b'T' => matches!(b, b'T' | b' '),
                p => *b == p,
            })
        })
    };
    if !shape(0, "0000-00-00T00:00:00") {
        return None;
    }
    let rest = &text[19..];
    let part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | 'Z' | '+' | ':');
    Some(rest.trim_start_matches(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Result<Vec<String>> {
        let mut lines = Lines::new(text, "x.log");
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.text.to_owned());
        }
        Ok(all)
    }

    #[test]
    fn prefixes_are_taken_away_also_several() {
        for text in [
            "   8  2 float",
            "[1,0]<stdout>:   8  2 float",
            "[1,0]<stderr>:[0] 8  2 float",
            "0: 8  2 float",
            "12:   8  2 float",
            "> >  8  2 float",
            "2026-11-20T06:00:00.123456Z   8  2 float",
            "2026-11-20 06:00:00,283 8  2 float",
            "[2026-11-20 06:00:00] [1,0]<stdout>: 8  2 float",
            "[pod/nccl-launcher/main] 8  2 float",
            "Thu Jul 18 23:59:59 2026<stdout>:   8  2 float",
            "Fri Jul  9 00:00:01 2026[1,0]<stdout>:   8  2 float",
            "[default0]:   8  2 float",
            "[node-1.rack:0]:8  2 float",
            "node-1.rack:    8  2 float",
            "10.0.0.1: 8  2 float",
            "`8  2 float",
            "```8  2 float```",
            "&nbsp;&nbsp;8&nbsp;&nbsp;2 float",
            "\u{1b}[32m8  2 float\u{1b}[0m",
            "working 1 %\rworking 2 %\r8  2 float",
        ] {
            assert_eq!(all(text.as_bytes()).unwrap(), ["8  2 float"], "{text}");
        }
        for same in [
            "8 2 float",
            "[0x3d] Tesla",
            "[root@cn3 ~]# ib_read_bw",
            "1:2:3",
            "2026-11 x",
            "ranks: 8 2 nodes",
            "ranks: 8 2",
        ] {
            assert_eq!(all(same.as_bytes()).unwrap(), [same]);
        }
    }

    /// A rank that writes a row in pieces has a tag in front of each; the devices of other lines remain.
    #[test]
    fn tags_inside_a_row_are_taken_away() {
        for (text, row) in [
            (
                "[0]  8  2 float sum -1[0] 19.2  0.0[0] 17.1  0.0",
                "8  2 float sum -1  19.2  0.0  17.1  0.0",
            ),
            ("[1,0]<stdout>:  8  2 float[1,0]<stdout>: 19.2", "8  2 float  19.2"),
            ("[1,0]<stdout>:[0] 8 2 float[0] 19.2", "8 2 float  19.2"),
            (
                "[0] n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1]",
                "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1]",
            ),
            ("[0] 7f3a:1:2 [0] NCCL INFO x", "7f3a:1:2 [0] NCCL INFO x"),
        ] {
            assert_eq!(all(text.as_bytes()).unwrap(), [row]);
        }
    }

    /// Each prefix in front of a table's head is taken from its rows too, which have other digits; a head
    /// without a prefix ends that.
    #[test]
    fn prefixes_are_learned_from_a_head() {
        for prefix in [
            "[2026-11-20 10:11:0D,123] INFO - ",
            "2026-11-20 10:11:01,12D - bench - INFO - ",
            "2026-11-20T06:00:0D.5Z stdout F ",
            "nccl-worker-0 main 2026-11-20T06:00:00.12D4Z ",
            "worker-1  | ",
            "INFO:root:",
        ] {
            let row = |digit: &str, text: &str| format!("{}{text}\n", prefix.replace('D', digit));
            let log = [
                row("1", "# nThread 1 nGpus 8"),
                row("27", "#       size"),
                row("3", "   8  2 float"),
                row("9", ""),
                "# nThread 1\nworker-1  | 8 2\n".to_owned(),
            ];
            let read = all(log.concat().as_bytes()).unwrap();
            let (head, rest) = read.split_at(3);
            assert_eq!(head, ["# nThread 1 nGpus 8", "#       size", "8  2 float"], "{prefix}");
            assert_eq!(rest[1..], ["# nThread 1", "worker-1  | 8 2"], "{prefix}");
        }
        // A comment behind a command is no head.
        let same = "mpirun -np 8 ./all_reduce_perf # both nodes";
        assert_eq!(all(same.as_bytes()).unwrap(), [same]);
    }

    /// What a page shows as `#` and `<` begins tables and prefixes too.
    #[test]
    fn entities_of_html_are_decoded() {
        let log = "&#35; nThread 1 nGpus 8\n[1,0]&lt;stdout&gt;:&nbsp;8&#160;2 a &amp;&amp; b\n";
        assert_eq!(all(log.as_bytes()).unwrap(), ["# nThread 1 nGpus 8", "8 2 a && b"]);
    }

    /// Text around lines goes, the numbers of lines stay.
    #[test]
    fn lines_of_a_log_are_plain() {
        let log = b"\x1b[1mn1:1:2 [0] NCCL INFO a\x1b[0m\n\n[1,0]<stdout>:n1:1:2 [0] NCCL INFO b";
        let mut lines = Vec::new();
        let keep = |line: &str| {
            lines.push(line.to_owned());
            Ok(())
        };
        plain_lines(&log[..], "x.log", keep).unwrap();
        assert_eq!(lines, ["n1:1:2 [0] NCCL INFO a", "", "n1:1:2 [0] NCCL INFO b"]);
    }

    #[test]
    fn lines_of_docker_are_read_from_their_json() {
        let log =
            "{\"log\":\"   8  2\\u001b[0m float\\r\\n\",\"stream\":\"stdout\"}\n{\"log\":\"cut\n";
        assert_eq!(all(log.as_bytes()).unwrap(), ["8  2 float", "{\"log\":\"cut"]);
    }

    #[test]
    fn no_text_is_refused_with_its_line() {
        let utf16: Vec<u8> = "8 2 float\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked: Vec<u8> = [b"\xff\xfe".as_slice(), &utf16].concat();
        for (bytes, what, place) in [
            (b"ab\n\0\x01\x02ELF\n".to_vec(), "binary", "x.log:2"),
            (b"PAR1\x15\0\n".to_vec(), "a table in Parquet", "x.log:1"),
            (utf16, "UTF-16", "x.log:1"),
            (marked, "UTF-16", "x.log:1"),
            ([b"a\n".as_slice(), &vec![b'x'; LONGEST + 9]].concat(), "longer than", "x.log:2"),
        ] {
            let error = all(&bytes).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(place), "{error}");
        }
    }

    #[test]
    fn a_line_that_never_ends_takes_little_memory() {
        let mut endless = io::BufReader::new(io::repeat(b'7'));
        let mut lines = Lines::new(&mut endless, "x.log");
        assert!(lines.next().is_err());
        assert!(lines.buffer.capacity() < 4 * LONGEST);
    }

    #[test]
    fn other_bytes_spoil_one_word_only() {
        let lines = all(b"\xef\xbb\xbfa\n8 2 caf\xe9\r\n").unwrap();
        assert_eq!(lines, ["a", "8 2 caf\u{fffd}"]);
    }
}
