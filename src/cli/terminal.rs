//! What the terminal can show: its width, colour, characters beyond ASCII.

use std::io::{self, IsTerminal, Write};

use collcost::view::Look;

/// The width and colour that suit standard output.
///
/// `COLUMNS` overrides the terminal's own width; without either, nothing is cut.
pub(super) fn look() -> Look {
    let terminal = io::stdout().is_terminal();
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let own = || terminal.then(terminal_size::terminal_size).flatten();
    let width = columns.or_else(|| own().map(|(width, _)| usize::from(width.0)));
    Look { width, color: is_coloured(terminal, |name| std::env::var(name).ok()), whole: false }
}

/// Colour follows `NO_COLOR` (<https://no-color.org>: whatever its value, if it has one) and `CLICOLOR_FORCE`, and is off
/// in pipes and on terminals that call themselves dumb.
fn is_coloured(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let of = |name: &str| variable(name).unwrap_or_default();
    let able = terminal && of("TERM") != "dumb";
    of("NO_COLOR").is_empty() && (able || !["", "0"].contains(&&*of("CLICOLOR_FORCE")))
}

/// Whether the locale allows only ASCII; a locale without a character set allows everything.
pub(super) fn is_ascii_only() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    locale.is_some_and(|l| {
        let lower = l.to_ascii_lowercase();
        !lower.contains("utf-8") && !lower.contains("utf8")
    })
}

/// Writes texts in ASCII. Documents for programs and pages for browsers, which start with a bracket, are left unchanged.
pub(super) struct Ascii<W> {
    inner: W,
    /// Whether this is a document for programs; unknown before the first byte.
    document: Option<bool>,
    /// The first bytes of a character whose rest is still to come.
    pending: Vec<u8>,
}

impl<W: Write> Ascii<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, document: None, pending: Vec::new() }
    }
}

/// The ASCII text for a character; a single character in tables, so that columns stay aligned.
fn spelled(c: char) -> &'static str {
    match c {
        'α' | 'ä' => "a",
        'Σ' => "S",
        'β' => "b",
        'γ' => "g",
        'δ' => "d",
        'η' => "n",
        'µ' | 'μ' => "u",
        '∂' => "d",
        '·' => "*",
        '−' | '–' => "-",
        '≤' => "<",
        '→' => ">",
        '…' => "~",
        '²' | '₂' => "2",
        '₁' => "1",
        'ᵢ' => "i",
        '₊' => "+",
        '⌈' => "ceil(",
        '⌊' => "floor(",
        '⌉' | '⌋' => ")",
        '√' => "sqrt",
        '½' => "1/2",
        '§' => "section ",
        '×' => "x",
        '±' => "~",
        '│' => "|",
        '─' => "-",
        '┤' | '└' | '┬' => "+",
        '█' => "#",
        '▓' => "%",
        '▒' => "=",
        '░' => ".",
        _ => "?",
    }
}

impl<W: Write> Write for Ascii<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let document =
            *self.document.get_or_insert_with(|| matches!(bytes.first(), Some(b'{' | b'[' | b'<')));
        if document {
            return self.inner.write(bytes);
        }
        self.pending.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.pending) {
            Ok(text) => text.len(),
            Err(e) => e.valid_up_to(),
        };
        let rest = self.pending.split_off(whole);
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending = rest;
        for c in text.chars() {
            let mut buffer = [0; 4];
            let spelled = if c.is_ascii() { c.encode_utf8(&mut buffer) } else { spelled(c) };
            self.inner.write_all(spelled.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut ascii = Ascii::new(&mut out);
        parts.iter().for_each(|p| ascii.write_all(p).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_spelled_and_documents_are_not() {
        assert_eq!(written(&["α 5 µs ≤ …".as_bytes()]), "a 5 us < ~");
        assert_eq!(written(&["{\"x\":\"α\"}".as_bytes()]), "{\"x\":\"α\"}");
        assert_eq!(written(&["<p>α</p>".as_bytes()]), "<p>α</p>");
    }

    #[test]
    fn colour_needs_a_terminal_that_can_show_it() {
        let coloured = |terminal, set: &[(&str, &str)]| {
            let value =
                |name: &str| set.iter().find(|(known, _)| *known == name).map(|v| v.1.into());
            is_coloured(terminal, value)
        };
        assert!(coloured(true, &[]) && coloured(true, &[("TERM", "xterm")]));
        assert!(!coloured(true, &[("TERM", "dumb")]) && !coloured(false, &[]));
        assert!(coloured(false, &[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")]));
        assert!(!coloured(true, &[("NO_COLOR", "1")]) && coloured(true, &[("NO_COLOR", "")]));
        assert!(
            !coloured(true, &[("NO_COLOR", "0")]) && !coloured(false, &[("CLICOLOR_FORCE", "0")])
        );
    }

    #[test]
    fn a_character_may_come_in_two_parts() {
        let [first, second] = "µ".as_bytes() else { panic!("two bytes") };
        assert_eq!(written(&[b"5 ", &[*first], &[*second], b"s"]), "5 us");
    }
}
