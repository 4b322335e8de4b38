//! Enums whose variants have one word each, and texts that are one of some words.

use super::error::{Error, Result};

/// An enum with a word for each variant, the same in files, in reports and on the command line.
macro_rules! words {
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident { $($(#[$meta:meta])* $variant:ident = $word:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $vis enum $name {
            $($(#[$meta])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// Its word.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.id())
            }
        }
    };
}
pub(crate) use words;

/// What `text` says; words for the same thing are separated by `|`, and errors list the first of them.
pub(crate) fn one_of<T, const N: usize>(
    text: &str,
    what: &str,
    words: [(&str, T); N],
) -> Result<T> {
    let first = words.each_ref().map(|(names, _)| names.split('|').next().unwrap_or(names));
    let help = format!("write {}", either(&first));
    let said = words.into_iter().find(|(names, _)| names.split('|').any(|name| name == text));
    let refused = || Error::input(format!("`{text}` is not {what}")).help(help);
    said.map(|(_, value)| value).ok_or_else(refused)
}

/// `a, b or c`.
#[must_use]
pub fn either(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => words.concat(),
    }
}
