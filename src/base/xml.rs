//! The events of an XML text, each with the line on which it begins, and the attributes of its elements.

use std::borrow::Cow;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

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

/// The attributes of an element, with `&amp;` and its like resolved.
pub(crate) struct Attributes<'s> {
    pub line: usize,
    element: &'s str,
    all: Vec<(&'s str, Cow<'s, str>)>,
}

impl<'s> Attributes<'s> {
    pub fn of(start: &'s BytesStart<'_>, line: usize) -> Result<Self, Refused> {
        let wrong = |e: quick_xml::Error| Refused::at(line, format!("the text is not XML: {e}"));
        let mut all = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|e| wrong(e.into()))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(wrong)?;
            all.push((attribute.key.into_inner(), value));
        }
        Ok(Self { line, element: start.name().into_inner(), all })
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.all.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| &**value)
    }

    /// The value of an attribute that must be there.
    pub fn text(&self, name: &str) -> Result<&str, Refused> {
        let missing = || Refused::at(self.line, format!("<{}> has no `{name}`", self.element));
        self.get(name).ok_or_else(missing)
    }

    pub fn into_owned(self) -> Vec<(String, String)> {
        self.all.into_iter().map(|(key, value)| (key.to_owned(), value.into_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_what_was_meant() {
        let mut events = Events::new("\n<gpu name='A &amp; B &lt;&quot;&#65;' id=\"1\"/>");
        let start = loop {
            if let (line, Event::Empty(start)) = events.next().unwrap() {
                break (start, line);
            }
        };
        let gpu = Attributes::of(&start.0, start.1).unwrap();
        assert_eq!((gpu.line, gpu.get("name"), gpu.get("x")), (2, Some("A & B <\"A"), None));
        assert_eq!(gpu.text("bus").unwrap_err().what, "<gpu> has no `bus`");
        let wrong = BytesStart::from_content("gpu name='&nbsp;'", 3);
        assert!(Attributes::of(&wrong, 7).is_err_and(|e| e.line == Some(7)));
    }
}
