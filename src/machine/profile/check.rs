//! What is wrong with a machine's description: missing, contradictory, suspicious, unsourced.
//!
//! Every fault is reported at its line. A text that cannot be parsed stops the reader and is the
//! only finding.

use std::str::FromStr;

use toml::Spanned;
use toml::de::DeValue;

use super::{Amount, BUILTIN, Call, Date, Figure, LinkKind, Links, Profile, Quality, TierKind};
use super::{builtin, letters, same};
use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Bandwidth, Ratio, Seconds};
use crate::base::text_pos::{Document, Place, Refused};
use crate::base::words::words;
use crate::machine::wires::CUBE_MESH;
use crate::model::algorithm::Library;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The profile is wrong.
    Error,
    /// It may be right, but should be checked.
    Warning,
}

words! {
    /// The kind of fault.
    pub enum Kind {
        /// It is not a profile.
        Unreadable = "unreadable",
        /// A missing parameter.
        Missing = "missing",
        /// Two statements that cannot both hold.
        Contradictory = "contradictory",
        /// No known machine has such a value.
        Suspicious = "suspicious",
        /// A parameter without a source.
        Unsourced = "unsourced",
    }
}

/// One fault with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind.
    pub kind: Kind,
    /// What is wrong.
    pub what: String,
    /// What would be accepted.
    pub help: Option<String>,
    /// Where.
    pub place: Place,
}

/// A parameter that a question needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// α of every tier.
    Alpha,
    /// The part of the rate that transfers reach, on every tier.
    Efficiency,
    /// The time of a call before its first message.
    Launch,
    /// γ.
    Gamma,
}

const NEEDS: &[(&str, Need)] = &[
    ("alpha", Need::Alpha),
    ("efficiency", Need::Efficiency),
    ("launch", Need::Launch),
    ("gamma", Need::Gamma),
];

impl FromStr for Need {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        NEEDS.iter().find(|(name, _)| *name == text).map(|&(_, need)| need).ok_or_else(|| {
            let known: Vec<&str> = NEEDS.iter().map(|&(name, _)| name).collect();
            Error::input(format!("`{text}` is not a parameter of a profile"))
                .help(advice(text, &known))
        })
    }
}

/// The input of a check besides the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// Today: no source may have a later date.
    pub today: Option<Date>,
    /// Parameters that must be present.
    pub need: &'a [Need],
}

/// All faults of a profile.
#[must_use]
pub fn check(text: &str, asked: &Asked<'_>) -> Vec<Finding> {
    // One after the other: each keeps the whole text as a tree, which is large.
    let profile = Profile::read(text);
    let read = Document::parse(text).and_then(|document| Ok((document, profile?)));
    let (document, profile) = match read {
        Ok(both) => both,
        Err(Refused { what, place, help }) => {
            let place = place.unwrap_or_else(|| Place::at(text, 0));
            let (severity, kind) = (Severity::Error, Kind::Unreadable);
            return vec![Finding { severity, kind, what, help, place }];
        }
    };
    let stated = stated(&document);
    let mut check = Check { document, profile: &profile, stated, found: Vec::new() };
    check.names();
    check.structure();
    for figure in profile.figures() {
        check.figure(&figure, asked.today);
    }
    for tier in 0..profile.tiers.len() {
        check.tier(tier);
        check.knots(tier);
    }
    check.fit();
    check.missing(asked.need);
    let mut found = check.found;
    found.sort_by_key(|f| (f.place.line, f.place.column));
    found
}

struct Check<'a> {
    document: Document<'a>,
    profile: &'a Profile,
    /// The names of the file's own tiers, if the machine is made of parts, whose tiers come first.
    stated: Option<Vec<String>>,
    found: Vec<Finding>,
}

/// The smallest and largest values of known machines.
const ALPHA: (Seconds, Seconds) = (Seconds(50e-9), Seconds(1e-3));
const HOP: (Seconds, Seconds) = (Seconds(10e-9), Seconds(10e-6));
const LAUNCH: (Seconds, Seconds) = (Seconds(10e-9), Seconds(1e-3));
const RATE: (Bandwidth, Bandwidth) = (Bandwidth(1e6), Bandwidth(4e12));
const GAMMA: (f64, f64) = (1e-14, 1e-9);

/// A source shorter than this identifies nothing.
const SHORTEST_SOURCE: usize = 11;

/// The rate of one port, one way, of links by the beginning of their names.
const KNOWN: &[(&str, Bandwidth)] = &[
    ("NVLink2", Bandwidth(150e9)),
    ("NVLink3", Bandwidth(300e9)),
    ("NVLink4", Bandwidth(450e9)),
    ("NVLink5", Bandwidth(900e9)),
    ("EDR", Bandwidth(12.5e9)),
    ("HDR 100G", Bandwidth(12.5e9)),
    ("HDR", Bandwidth(25e9)),
    ("NDR 200G", Bandwidth(25e9)),
    ("NDR", Bandwidth(50e9)),
    ("XDR", Bandwidth(100e9)),
    ("RoCE 400G", Bandwidth(50e9)),
    ("PCIe 4.0", Bandwidth(31e9)),
    ("PCIe 5.0", Bandwidth(63e9)),
];

impl Check<'_> {
    fn say(&mut self, kind: Kind, path: &str, what: impl Into<String>, help: &str) {
        let severity = match kind {
            Kind::Suspicious => Severity::Warning,
            _ => Severity::Error,
        };
        let (what, place) = (what.into(), self.document.value(&self.in_file(path)));
        let help = (!help.is_empty()).then(|| help.to_owned());
        self.found.push(Finding { severity, kind, what, help, place });
    }

    /// The path in the file of a path in the whole machine.
    fn in_file(&self, path: &str) -> String {
        let tier = path.strip_prefix("tier.").and_then(|rest| rest.split_once('.'));
        let (Some(stated), Some((tier, key))) = (&self.stated, tier) else {
            return path.to_owned();
        };
        let tier = tier.parse().ok().and_then(|i: usize| self.profile.tiers.get(i));
        match tier.map(|t| (t.kind, stated.iter().position(|own| *own == t.name))) {
            Some((_, Some(own))) => format!("tier.{own}.{key}"),
            Some((Some(TierKind::Network), None)) => "nics".to_owned(),
            _ => "node".to_owned(),
        }
    }

    /// Every name must identify one machine.
    fn names(&mut self) {
        let own = &self.profile.name;
        let paths = (0..self.profile.aliases.len()).map(|i| format!("aliases.{i}"));
        let aliases = self.profile.aliases.iter().zip(paths);
        for (name, path) in std::iter::once((own, "name".to_owned())).chain(aliases) {
            if letters(name).next().is_none() || name.contains(['/', '\\', ' ']) {
                let what = format!("`{name}` cannot be given as a name");
                self.say(Kind::Contradictory, &path, what, "use letters, digits, - and .");
            }
            let other = BUILTIN.iter().find(|b| b.names.iter().any(|known| same(known, name)));
            if let Some(other) = other.filter(|b| !same(b.names[0], own) && path != "name") {
                let what = format!("`{name}` already names {}", other.names[0]);
                self.say(Kind::Contradictory, &path, what, "");
            }
        }
        for (i, alias) in self.profile.aliases.iter().enumerate() {
            if alias == own || self.profile.aliases[..i].contains(alias) {
                let what = format!("`{alias}` is given twice");
                self.say(Kind::Contradictory, &format!("aliases.{i}"), what, "");
            }
        }
        self.library();
    }

    /// A library that no machine here has may be a slip of the pen, or one of which nothing is known.
    fn library(&mut self) {
        let Some(library) = &self.profile.library else { return };
        let mut known = builtin::libraries();
        known.extend(Library::ALL.iter().map(|l| l.id().to_owned()));
        if !known.contains(library) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let what = format!("nothing is known of a library called `{library}`");
            let help = match Library::printed(library) {
                Some(_) => String::new(),
                None => advice(library, &known),
            };
            self.say(Kind::Suspicious, "library", what, &help);
            self.last_is_a_warning();
        }
    }

    fn structure(&mut self) {
        if let Some((path, what)) = self.profile.contradiction() {
            self.say(Kind::Contradictory, &path, what, "");
        }
        for (i, tier) in self.profile.tiers.iter().enumerate() {
            let before = &self.profile.tiers[..i];
            if let Some(first) = before.iter().position(|t| t.name == tier.name) {
                let first = self.document.value(&format!("tier.{first}.name")).line;
                let what =
                    format!("two tiers are called `{}`: the first on line {first}", tier.name);
                self.say(Kind::Contradictory, &format!("tier.{i}.name"), what, "");
            }
        }
    }

    /// Checks for every parameter: a source, the order of low, value and high, a past date.
    fn figure(&mut self, figure: &Figure<'_>, today: Option<Date>) {
        let path = figure.path();
        let at = |key: &str| format!("{path}.{key}");
        match figure.source.trim() {
            "" => {
                let what = format!("{path} has no source");
                self.say(
                    Kind::Unsourced,
                    &at("source"),
                    what,
                    "add source = \"who, where, of what\"",
                );
            }
            short if short.len() < SHORTEST_SOURCE => {
                let what = format!("source `{short}` is too short");
                self.say(Kind::Unsourced, &at("source"), what, "write who, where, and of what");
            }
            _ => {}
        }
        let value = figure.value;
        for (key, what) in figure.outside() {
            self.say(Kind::Contradictory, &at(key), what, "");
        }
        if let (Some(date), Some(today)) = (figure.date, today)
            && date > today
        {
            let what = format!("date {date} is in the future");
            self.say(Kind::Suspicious, &at("date"), what, "");
        }
        if value.number() == 0.0 {
            let what = format!("{path} is 0, which is not possible");
            self.say(Kind::Contradictory, &at("value"), what, "leave it out if it is unknown");
            return;
        }
        self.plausible(figure, &at("value"));
    }

    /// Whether a parameter is within the range of known machines.
    fn plausible(&mut self, figure: &Figure<'_>, path: &str) {
        let of = figure.tier.map_or("a call", |i| self.profile.tiers[i].name.as_str());
        let last = figure.key.rsplit('.').next().unwrap_or("");
        match figure.value {
            Amount::Time(time) => {
                let (what, (least, most)) = match (figure.tier, figure.key.as_str()) {
                    (None, _) => ("launch", LAUNCH),
                    (_, "switch.alpha") => ("alpha of the switch", HOP),
                    _ => ("alpha", ALPHA),
                };
                if time < least || time > most {
                    let what =
                        format!("{what} of {of} is {time}: known values are {least} to {most}");
                    let micro = Seconds(time.0 * if time > most { 1e-6 } else { 1e3 });
                    let slip = micro >= least && micro <= most;
                    let help = if slip { format!("is {micro} meant?") } else { String::new() };
                    self.say(Kind::Suspicious, path, what, &help);
                }
            }
            Amount::Rate(rate) => {
                let (least, most) = RATE;
                if rate < least || rate > most {
                    let what = format!("{of} has {rate}: known values are {least} to {most}");
                    self.say(Kind::Suspicious, path, what, "a rate is of one port, one way");
                }
            }
            Amount::PerByte(time) => {
                if time.0 < GAMMA.0 || time.0 > GAMMA.1 {
                    let what = format!("gamma is {time}: known values are 0.01 to 1000 ps/B");
                    self.say(Kind::Suspicious, path, what, "");
                }
            }
            Amount::Part(n) if figure.key == "c_real" => {
                // Two trees reach 1 in theory, and 2 with one port.
                if !(0.5..=4.0).contains(&n.0) {
                    let what = format!("c_real is {}: known values are 1 to 2.3", n.0);
                    self.say(Kind::Suspicious, path, what, "it counts vectors through one port");
                }
            }
            Amount::Part(part) => self.part(last, part, figure.tier, path),
        }
    }

    fn part(&mut self, key: &str, part: Ratio, tier: Option<usize>, path: &str) {
        if part.0 > 1.0 {
            let what = format!("{key} {}: more than the link carries", part.0);
            let help =
                "busbw with in-network reduction is not a wire rate: divide algbw by the link's";
            self.say(Kind::Contradictory, path, what, help);
        } else if part.0 < 0.01 {
            let what = format!("{key} {}: hardly anything is left", part.0);
            self.say(Kind::Suspicious, path, what, "write 0.8 for 80 %");
        } else if key == "efficiency" && (0.07..=0.135).contains(&part.0) {
            let left = tier.and_then(|i| self.profile.tiers[i].bandwidth.as_ref()).map(|b| b.value);
            let left = left.map_or(String::new(), |rate| format!(", {} of {rate}", rate * part));
            let what = format!("{key} {}{left}: about an eighth", part.0);
            self.say(Kind::Suspicious, path, what, "were bits mistaken for bytes?");
        }
    }

    /// Checks the parameters of one tier against each other and against the tier inside.
    fn tier(&mut self, i: usize) {
        let tier = &self.profile.tiers[i];
        let at = |key: &str| format!("tier.{i}.{key}");
        let Some(bandwidth) = &tier.bandwidth else {
            let what = format!("`{}` has no bandwidth: no data can be priced", tier.name);
            self.say(Kind::Missing, &at("name"), what, "");
            return;
        };
        self.known_link(tier, bandwidth.value, &at("bandwidth.value"));
        let hop = tier.switch.as_ref().and_then(|s| s.alpha.as_ref());
        if let (Some(hop), Some(alpha)) = (hop, &tier.alpha)
            && hop.value > alpha.value
        {
            let (hop, alpha) = (hop.value, alpha.value);
            let what =
                format!("alpha of the switch, {hop}, is above alpha of {}, {alpha}", tier.name);
            self.say(Kind::Contradictory, &at("switch.alpha.value"), what, "");
        }
        let joins = tier.span.map_or(0, |s| s.get());
        if tier.is_mesh() && (i > 0 || joins < 2) {
            let what = format!("mesh changes nothing on `{}`", tier.name);
            let help = "write it on the innermost links, with a span of 2 ranks or more";
            self.say(Kind::Contradictory, &at("mesh"), what, help);
        }
        let is_cube = tier.cube_mesh == Some(true);
        if is_cube && (i > 0 || tier.is_mesh() || joins != CUBE_MESH) {
            let what = format!("`{}` is no hybrid cube mesh", tier.name);
            let help = "write it on the innermost links, with a span of 8 ranks and without mesh";
            self.say(Kind::Contradictory, &at("cube_mesh"), what, help);
        }
        if let Some(torus) = tier.torus
            && (i > 0 || tier.is_mesh() || is_cube || torus.sides.ranks() < u64::from(joins))
        {
            let what = format!("`{}` is no torus of {}", tier.name, torus.sides);
            let help = "write it on the innermost links, with as many ranks as the span or more";
            self.say(Kind::Contradictory, &at("torus"), what, help);
        }
        let Some(inner) = i.checked_sub(1).map(|i| &self.profile.tiers[i]) else { return };
        if let (Some(own), Some(inside)) = (reached(tier), self.feeding(inner))
            && own > inside
        {
            let (a, b) = (&tier.name, &inner.name);
            let what = format!("`{a}` is faster than `{b}` inside it: {own} against {inside}");
            self.say(Kind::Contradictory, &at("bandwidth.value"), what, "");
        }
        if let (Some(nics), Some(span)) = (tier.nics, inner.span)
            && nics > span
        {
            let what = format!("{nics} ports for a domain of {span} ranks");
            let help = "leave nics out if each rank has its own";
            self.say(Kind::Suspicious, &at("nics"), what, help);
        }
    }

    /// The rate at which a tier can feed the one outside it. Between GPUs PCIe reaches less than a slot
    /// carries, because the data pass through the host; those of a NIC go through its own slot.
    fn feeding(&self, inner: &Links) -> Option<Bandwidth> {
        let pcie = self.profile.link == Some(LinkKind::Pcie) || inner.name.starts_with("PCIe");
        if pcie { inner.bandwidth.as_ref().map(|b| b.value) } else { reached(inner) }
    }

    /// Knots must be in order.
    fn knots(&mut self, i: usize) {
        if let Some(what) = self.profile.tiers[i].knots_out_of_order() {
            self.say(Kind::Contradictory, &format!("tier.{i}.knots"), what, super::ASCENDING);
        }
    }

    /// Checks what a fit states.
    fn fit(&mut self) {
        let Some(fit) = &self.profile.fit else { return };
        if fit.from > fit.to {
            let what = format!("fitted from {} to {}", fit.from, fit.to);
            self.say(Kind::Contradictory, "fit.from", what, "write the smaller size first");
        }
        match fit.quality {
            Quality::Good if !fit.marks.is_empty() => {
                let what = "the fit is good but has marks";
                self.say(Kind::Contradictory, "fit.quality", what, "write marked or rejected");
            }
            Quality::Rejected => {
                let what = format!("the fit was rejected: {}", fit.marks.join("; "));
                let help = "measure again, or treat its parameters as guesses";
                self.say(Kind::Suspicious, "fit.quality", what, help);
            }
            _ => {}
        }
    }

    /// A well-known link must have its well-known rate.
    fn known_link(&mut self, tier: &Links, rate: Bandwidth, path: &str) {
        let known = KNOWN.iter().find(|(name, _)| tier.name.starts_with(name));
        let Some(&(name, mut usual)) = known else { return };
        if tier.name.contains(" x8") {
            usual = usual * Ratio(0.5);
        }
        let of = rate.0 / usual.0;
        let (said, help) = match of {
            x if (0.5..=1.1).contains(&x) => return,
            x if (0.1..0.13).contains(&x) => ("an eighth of", "were bits written for bytes?"),
            x if (7.5..8.5).contains(&x) => ("eight times", "were bytes written for bits?"),
            x if (1.9..2.1).contains(&x) => ("twice", "a rate is one way, not both together"),
            _ => ("far from", ""),
        };
        let what = format!("{rate} is {said} the {usual} of {name}");
        self.say(Kind::Suspicious, path, what, help);
    }

    /// Parameters that questions need and that are missing.
    fn missing(&mut self, need: &[Need]) {
        let asked = |n: Need| need.contains(&n);
        for (i, tier) in self.profile.tiers.iter().enumerate() {
            let path = format!("tier.{i}.name");
            if tier.alpha.is_none() {
                let what = format!("alpha of `{}` is unknown: no message can be priced", tier.name);
                self.say(Kind::Missing, &path, what, "add [tier.alpha], or give --alpha-inter");
                // It may be unknown; then leaving it out is right.
                if !asked(Need::Alpha) {
                    self.last_is_a_warning();
                }
            }
            if asked(Need::Efficiency) && tier.efficiency.is_none() {
                let what = format!("efficiency of `{}` is missing, but required", tier.name);
                self.say(Kind::Missing, &path, what, "add [tier.efficiency]");
            }
        }
        let launch = &self.profile.launch;
        if launch.is_empty() && asked(Need::Launch) {
            let what = "launch is missing, but required: calls start at once";
            self.say(Kind::Missing, "name", what, "add [launch.any]");
        } else if !launch.is_empty() && !launch.contains_key(&Call::Any) {
            let what = "launch has no `any`: other collectives start at once";
            self.say(Kind::Missing, "launch", what, "add [launch.any]");
            self.last_is_a_warning();
        }
        if self.profile.gamma.is_none() && asked(Need::Gamma) {
            let what = "gamma is missing, but required: the time to add is not priced";
            self.say(Kind::Missing, "name", what, "add [gamma]");
        }
    }

    fn last_is_a_warning(&mut self) {
        if let Some(last) = self.found.last_mut() {
            last.severity = Severity::Warning;
        }
    }
}

/// The names of a file's own tiers, if it names a part.
fn stated(document: &Document<'_>) -> Option<Vec<String>> {
    let root = document.root();
    if root.get("node").is_none() && root.get("nics").is_none() {
        return None;
    }
    let tiers = root.get("tier").and_then(|tiers| tiers.get_ref().as_array());
    let name = |tier: &Spanned<DeValue<'_>>| {
        let name = tier.get_ref().as_table().and_then(|tier| tier.get("name"));
        name.and_then(|name| name.get_ref().as_str()).unwrap_or("").to_owned()
    };
    Some(tiers.map_or(Vec::new(), |tiers| tiers.iter().map(name).collect()))
}

/// The rate that transfers reach on a tier.
fn reached(tier: &Links) -> Option<Bandwidth> {
    let part = tier.efficiency.as_ref().map_or(Ratio(1.0), |e| e.value);
    tier.bandwidth.as_ref().map(|b| b.value * part)
}
