//! Layouts that people run, by name: steps in the format of files, each with its source.

/// The presets' text.
pub const PRESETS: &str = include_str!("presets.toml");

/// The names, in the order of the text.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.lines().filter_map(|line| line.strip_prefix("[step.")?.strip_suffix(']'))
}
