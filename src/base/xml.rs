//! The events of an XML text, each with the line on which it begins.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::refused::Refused;

/// The rest of a text.
pub(crate) struct Events<'t> {
    text: &'t str,
    reader: Reader<&'t [u8]>,
    line: usize,
    read: usize,
}

impl<'t> Events<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, reader: Reader::from_str(text), line: 1, read: 0 }
    }

    /// The next event and its line; at the end [`Event::Eof`].
    pub fn next(&mut self) -> Result<(usize, Event<'t>), Refused> {
        let event = self.reader.read_event();
        let here = self.line;
        let end = usize::try_from(self.reader.buffer_position()).unwrap_or(self.text.len());
        let end = self.text.floor_char_boundary(end.min(self.text.len())).max(self.read);
        self.line += self.text[self.read..end].matches('\n').count();
        self.read = end;
        let event = event
            .map_err(|e| Refused::at(here, format!("the text is not XML from here on: {e}")))?;
        Ok((here, event))
    }
}
