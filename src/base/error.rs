//! The one error type of the library.

use std::fmt;

use super::text_pos::Place;

/// What went wrong, where, and what would be accepted.
///
/// It displays as up to three lines; the first is not indented:
///
/// ```text
/// `16 Mb` is 16 megabits, not bytes
///   --size 16 Mb
///   write 16MB (10^6 bytes) or 16MiB (2^20 bytes)
/// ```
///
/// The kinds are private; query them with the `is_` predicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: Kind,
    what: String,
    place: Option<String>,
    /// The place in a file that a person wrote, if it is known to the character.
    spot: Option<(String, Place)>,
    help: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Input,
    Unsupported,
    Unknown,
    Profile,
    Environment,
    Scarce,
    Lost,
    Interrupted,
}

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self::made(kind, what.into())
    }

    // Errors are rare: what makes them stays out of line.
    #[cold]
    #[inline(never)]
    fn made(kind: Kind, what: String) -> Self {
        Self(Box::new(Inner { kind, what: brief(what), place: None, spot: None, help: None }))
    }

    #[cold]
    #[inline(never)]
    fn placed(mut self, place: String) -> Self {
        self.0.place.get_or_insert_with(|| brief(place));
        self
    }

    #[cold]
    #[inline(never)]
    fn helped(mut self, help: String) -> Self {
        self.0.help = Some(brief(help));
        self
    }

    /// A value that has no meaning in its place.
    pub fn input(what: impl Into<String>) -> Self {
        Self::new(Kind::Input, what)
    }

    /// An algorithm that cannot run with the requested ranks, ports or machine.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, what)
    }

    /// A parameter that the question needs and that was not given.
    pub fn unknown(what: impl Into<String>) -> Self {
        Self::new(Kind::Unknown, what)
    }

    /// A machine description that cannot be used.
    pub fn profile(what: impl Into<String>) -> Self {
        Self::new(Kind::Profile, what)
    }

    /// The machine, or its present state, does not allow a run.
    pub fn environment(what: impl Into<String>) -> Self {
        Self::new(Kind::Environment, what)
    }

    /// Measurements that do not suffice for what is computed from them.
    pub fn scarce(what: impl Into<String>) -> Self {
        Self::new(Kind::Scarce, what)
    }

    /// A run that ended early: a process died or stopped responding.
    pub fn lost(what: impl Into<String>) -> Self {
        Self::new(Kind::Lost, what)
    }

    /// A run that was stopped by the user.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self::new(Kind::Interrupted, what)
    }

    /// Says where: an option with its value, a file with its line. The innermost place wins.
    #[must_use]
    pub fn at(self, place: impl Into<String>) -> Self {
        self.placed(place.into())
    }

    /// Says where in the text of `file`. The innermost place wins.
    #[must_use]
    pub(crate) fn at_spot(mut self, file: &str, place: Place) -> Self {
        if self.0.place.is_none() {
            self.0.place = Some(brief(format!("{file}:{place}")));
            self.0.spot = Some((file.to_owned(), place));
        }
        self
    }

    /// The file and the place in it, if they are known.
    pub(crate) fn spot(&self) -> Option<(&str, &Place)> {
        self.0.spot.as_ref().map(|(file, place)| (file.as_str(), place))
    }

    /// Puts the file before the place in it: `rules.csv, line 3`.
    #[must_use]
    pub fn within(mut self, file: &str) -> Self {
        self.0.place = Some(brief(match self.0.place {
            Some(place) => format!("{file}, {place}"),
            None => file.to_owned(),
        }));
        self
    }

    /// Says what would be accepted.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        self.helped(help.into())
    }

    /// Says what would be accepted, unless the error already says it.
    #[must_use]
    pub fn or_help(self, help: impl Into<String>) -> Self {
        if self.0.help.is_some() { self } else { self.helped(help.into()) }
    }

    /// Whether a value given by the user has no meaning.
    #[must_use]
    pub fn is_input(&self) -> bool {
        self.0.kind == Kind::Input
    }

    /// Whether an algorithm does not apply to the question.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == Kind::Unsupported
    }

    /// Whether a needed parameter is unknown.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.0.kind == Kind::Unknown
    }

    /// Whether a machine description cannot be used.
    #[must_use]
    pub fn is_profile(&self) -> bool {
        self.0.kind == Kind::Profile
    }

    /// Whether something cannot be run on this machine in its present state.
    #[must_use]
    pub fn is_environment(&self) -> bool {
        self.0.kind == Kind::Environment
    }

    /// Whether measurements do not suffice.
    #[must_use]
    pub fn is_scarce(&self) -> bool {
        self.0.kind == Kind::Scarce
    }

    /// Whether a run ended early.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.kind == Kind::Lost
    }

    /// Whether the user stopped a run.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.kind == Kind::Interrupted
    }

    /// What would be accepted, if the error says it.
    #[must_use]
    pub fn mending(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Only the first line: what went wrong.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        for line in [&self.0.place, &self.0.help].into_iter().flatten() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// A line of an error is no longer than this, in bytes.
const LONGEST: usize = 2000;

/// The text of a line; if it repeats something very long, its middle is cut out. A word of a file
/// may have a megabyte.
#[must_use]
pub fn brief(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let (head, tail) = (text.floor_char_boundary(300), text.ceil_char_boundary(text.len() - 100));
    format!("{} … {} bytes … {}", &text[..head], tail - head, &text[tail..])
}

/// The name among `known` that is nearest to `typed`, if it is near enough for a typo: a third of
/// its letters may differ, and two swapped letters count as one.
#[must_use]
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = typed.chars().count();
    let slips = ((1 + letters) / 3).max(1);
    known
        .into_iter()
        // Each letter more or less is a slip; a long text would take long to compare.
        .filter(|name| name.chars().count().abs_diff(letters) <= slips)
        .map(|name| (strsim::osa_distance(typed, name), name))
        .filter(|&(slipped, _)| slipped <= slips)
        .min_by_key(|&(slipped, _)| slipped)
        .map(|(_, name)| name)
}

/// The help of an error about an unknown name: the nearest known one, or what `otherwise` says.
pub fn did_you_mean<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(typed, known).map_or_else(otherwise, |near| format!("did you mean `{near}`?"))
}

/// Words of which each may be another's name for the same thing: flags, keys of files and of questions, and what other
/// tools call them.
const SAME: [&[&str]; 9] = [
    &["n", "ranks", "gpus", "np", "nranks", "nprocs", "world_size", "processes"],
    &["on", "profile", "machine", "preset", "cluster", "hardware"],
    &["gpus_per_node", "ranks_per_node", "ppn", "per_node", "procs_per_node", "ntasks_per_node"],
    &["nodes", "hosts", "nnodes"],
    &["size", "size_bytes", "bytes", "message_size"],
    &["collective", "op", "operation", "coll"],
    &["alpha", "alpha_s", "latency"],
    &["bw", "bandwidth", "bandwidth_Bps", "bw_Bps"],
    &["max_time", "time", "limit", "max_latency"],
];

/// The first of the known names that means the same as `typed`, of which a flag has dashes.
pub fn synonym<'a>(typed: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let plain = typed.replace('-', "_").to_ascii_lowercase();
    let all = SAME.iter().find(|all| all.contains(&&*plain))?;
    all.iter().find_map(|word| known.clone().find(|name| name.replace('-', "_") == *word))
}

/// The same with all known names, if none is near or means the same.
pub(crate) fn advice<N: AsRef<str>>(typed: &str, known: impl IntoIterator<Item = N>) -> String {
    let known: Vec<N> = known.into_iter().collect();
    let names = || known.iter().map(AsRef::as_ref);
    if let Some(same) = synonym(typed, names()) {
        return format!("did you mean `{same}`?");
    }
    did_you_mean(typed, names(), || format!("known: {}", names().collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_lines() {
        let e = Error::input("bad").at("--size x").help("write 16MiB");
        assert_eq!(e.to_string(), "bad\n  --size x\n  write 16MiB");
        assert!(e.is_input() && !e.is_unsupported());
    }

    #[test]
    fn what_is_very_long_is_cut_in_its_middle() {
        let long = format!("`{}é` is not a size", "x".repeat(1 << 20));
        let e = Error::input(long.clone()).at(long.clone()).help(long.clone()).within(&long);
        let text = e.to_string();
        assert!(text.len() < 3 * LONGEST, "{} bytes", text.len());
        assert!(text.starts_with("`xxx") && text.ends_with("xé` is not a size"), "{text}");
        assert!(text.contains(" bytes … "), "{text}");
        assert_eq!(brief("é".repeat(LONGEST / 2)).len(), LONGEST);
        assert_eq!(nearest(&long, ["ring"]), None);
    }

    #[test]
    fn the_innermost_place_wins() {
        assert_eq!(Error::input("a").at("inner").at("outer").to_string(), "a\n  inner");
    }

    #[test]
    fn nearest_finds_slips_and_nothing_else() {
        let known = ["ring", "rabenseifner", "bruck"];
        assert_eq!(nearest("rabenseifer", known), Some("rabenseifner"));
        assert_eq!(nearest("rign", known), Some("ring"));
        assert_eq!(nearest("zzzzzzzz", known), None);
    }

    /// A word that means the same is a better guess than one that looks alike.
    #[test]
    fn words_for_the_same_are_known() {
        let known = ["launch", "ports", "n", "profile", "gpus-per-node"];
        for (typed, meant) in [
            ("ranks", "n"),
            ("machine", "profile"),
            ("ppn", "gpus-per-node"),
            ("Preset", "profile"),
        ] {
            assert_eq!(synonym(typed, known.into_iter()), Some(meant));
            assert_eq!(advice(typed, known), format!("did you mean `{meant}`?"));
        }
        for typed in ["latency", "hosts", "other"] {
            assert_eq!(synonym(typed, known.into_iter()), None);
        }
    }
}
