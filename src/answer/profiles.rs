//! Machines: all of them, one with every parameter, and faults in a description.

use serde::Serialize;

use crate::base::quantity::{Bandwidth, Ratio};
use crate::base::text_pos::Place;
use crate::machine::profile::{
    Call, Change, Discipline, Figure, Finding, How, Kind, Links, Moved, Profile, Severity, diff,
};
use crate::model::formula::Ports;

/// The known machines.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profiles {
    /// `collcost/profiles/1`.
    pub schema: &'static str,
    /// One entry per machine.
    pub profiles: Vec<Entry>,
}

/// One machine in short.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// The name under which it is found.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// One line about it.
    pub title: String,
    /// The communication library commonly used on it.
    pub library: Option<String>,
    /// Its links, from the innermost tier out.
    pub tiers: Vec<String>,
    /// `built in`, or the file.
    pub origin: String,
}

impl Entry {
    /// A machine in short; `origin` is `built in` or its file.
    #[must_use]
    pub fn new(profile: &Profile, origin: &str) -> Self {
        Self {
            name: profile.name.clone(),
            aliases: profile.aliases.clone(),
            title: profile.title.clone(),
            library: profile.library.clone(),
            tiers: profile.tiers.iter().map(|t| t.name.clone()).collect(),
            origin: origin.to_owned(),
        }
    }
}

/// A list of machines.
#[must_use]
pub fn profiles(profiles: Vec<Entry>) -> Profiles {
    Profiles { schema: "collcost/profiles/1", profiles }
}

/// One machine with every parameter.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileView {
    /// `collcost/profile/1`.
    pub schema: &'static str,
    /// The machine in short.
    #[serde(flatten)]
    pub entry: Entry,
    /// A drawing of the links between its parts.
    pub picture: Option<String>,
    /// What to know before its parameters are used.
    pub notes: Vec<String>,
    /// Its links, from the innermost tier out.
    pub links: Vec<LinksView>,
    /// The cost of a call before its first message, and γ.
    pub figures: Vec<FigureView>,
    /// What a fit found besides: measured curves, a token bucket, switch points.
    pub fitted: Vec<StatementView>,
    /// The unknown parameters of the machine as a whole, with the consequences.
    pub unknown: Vec<String>,
    /// How the parameters were fitted, and how far prices can be trusted; empty if they were not.
    pub trust: Vec<String>,
}

/// Links of one kind.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinksView {
    /// Their name.
    pub name: String,
    /// Ranks in one domain; absent: no limit.
    pub span: Option<u32>,
    /// Whether each two ranks of a domain have a link of their own, all of them one port's rate.
    pub mesh: bool,
    /// How they are joined: `switch`, `mesh`, `cube mesh`, or `torus` with its sides.
    pub wires: String,
    /// Ports shared by the ranks of a domain of the tier below; absent: each rank has its own.
    pub nics: Option<u32>,
    /// The transfers that a rank can make at once.
    pub ports: String,
    /// How transfers share a port.
    pub discipline: Discipline,
    /// What a switch of this tier does besides forwarding.
    pub switch: Option<&'static str>,
    /// The parameters.
    pub figures: Vec<FigureView>,
    /// What a fit found besides: knots, and up to where an exchange is as fast.
    pub fitted: Vec<StatementView>,
    /// The rate as vendors, tools and people count it.
    pub rates: Vec<RateView>,
    /// The unknown parameters, with the consequences.
    pub unknown: Vec<String>,
}

/// One parameter with its source.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureView {
    /// Its key in the file.
    pub key: String,
    /// The value as text.
    pub text: String,
    /// The value, in the unit below.
    pub value: f64,
    /// `s`, `B/s`, `s/B`, or `1` for a fraction.
    pub unit: &'static str,
    /// The lowest likely value.
    pub low: Option<f64>,
    /// The highest likely value.
    pub high: Option<f64>,
    /// The two as text.
    pub range: Option<String>,
    /// How it was obtained.
    pub how: How,
    /// The source.
    pub source: String,
    /// The date.
    pub date: Option<String>,
}

/// What a fit found that has no source of its own.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatementView {
    /// Its key in the file.
    pub key: String,
    /// It in words.
    pub text: String,
}

/// One way to count the rate of a tier.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateView {
    /// `raw, one way`, `raw, both ways`, `payload, one way`, `payload, both ways`.
    pub counted: &'static str,
    /// The rate of one port; absent if it is unknown.
    #[serde(rename = "port_Bps")]
    pub port: Option<f64>,
    /// The rate of one rank: its share of the ports that it shares with others.
    #[serde(rename = "rank_Bps")]
    pub rank: Option<f64>,
    /// The rate of one node.
    #[serde(rename = "node_Bps")]
    pub node: Option<f64>,
}

/// Everything about one machine; `origin` is `built in` or its file.
#[must_use]
pub fn profile(profile: &Profile, origin: &str) -> ProfileView {
    let figures: Vec<Figure<'_>> = profile.figures().collect();
    let of =
        |tier: Option<usize>| figures.iter().filter(move |f| f.tier == tier).map(view).collect();
    let statements = profile.statements();
    let fitted = |tier: Option<usize>| {
        let of = statements.iter().filter(move |s| s.fitted && s.tier == tier);
        let view = of.map(|s| StatementView {
            key: s.key.clone(),
            text: s.whole.as_ref().unwrap_or(&s.text).clone(),
        });
        view.collect()
    };
    let node = profile.node().and_then(|i| profile.tiers[i].span).map(|n| n.get());
    let links = profile.tiers.iter().enumerate().map(|(i, tier)| LinksView {
        name: tier.name.clone(),
        span: tier.span.map(|n| n.get()),
        mesh: tier.is_mesh(),
        wires: tier.wires().words(),
        nics: tier.nics.map(|n| n.get()),
        ports: tier.ports.unwrap_or(Ports::ONE).to_string(),
        discipline: tier.discipline,
        switch: tier.switch.as_ref().and_then(|s| s.does()),
        figures: of(Some(i)),
        fitted: fitted(Some(i)),
        rates: rates(profile, i, node),
        unknown: unknown(tier),
    });
    let mut gaps = Vec::new();
    if profile.launch.is_empty() {
        gaps.push("launch: calls are priced without it; give --launch".to_owned());
    } else if !profile.launch.contains_key(&Call::Any) {
        gaps.push("launch of other collectives: priced without it; give --launch".to_owned());
    }
    if profile.gamma.is_none() {
        gaps.push("gamma: the time to add is not priced; give --gamma".to_owned());
    }
    ProfileView {
        schema: "collcost/profile/1",
        entry: Entry::new(profile, origin),
        picture: profile.picture.clone(),
        notes: profile.notes.clone(),
        links: links.collect(),
        figures: of(None),
        fitted: fitted(None),
        unknown: gaps,
        trust: profile.fit.as_ref().map_or(Vec::new(), |fit| fit.trust(None)),
    }
}

fn view(figure: &Figure<'_>) -> FigureView {
    let range = match (figure.low, figure.high) {
        (None, None) => None,
        (low, high) => {
            let text = |end: Option<_>| end.unwrap_or(figure.value);
            Some(format!("{} to {}", text(low), text(high)))
        }
    };
    FigureView {
        key: figure.key.clone(),
        text: figure.value.to_string(),
        value: figure.value.number(),
        unit: figure.value.unit(),
        low: figure.low.map(|x| x.number()),
        high: figure.high.map(|x| x.number()),
        range,
        how: figure.how,
        source: figure.source.to_owned(),
        date: figure.date.map(|d| d.to_string()),
    }
}

fn unknown(tier: &Links) -> Vec<String> {
    let mut gaps = Vec::new();
    let mut gap = |missing: bool, what: &str| {
        if missing {
            gaps.push(what.to_owned());
        }
    };
    gap(tier.alpha.is_none(), "alpha: no message over it is priced until it is given");
    gap(tier.bandwidth.is_none(), "bandwidth: no data over it is priced until it is given");
    gap(is_raw(tier) && tier.efficiency.is_none(), "efficiency: all of the raw rate is assumed");
    gap(
        tier.duplex_factor.is_none(),
        "duplex_factor: both ways at once are assumed to be twice one way",
    );
    let hop = tier.switch.as_ref().is_some_and(|s| s.alpha.is_none());
    gap(hop, "switch.alpha: collectives in the switch are not priced until it is given");
    gaps
}

/// Whether the rate is that of the wire rather than what transfers reach.
fn is_raw(tier: &Links) -> bool {
    let datasheet = tier.bandwidth.as_ref().is_some_and(|b| b.how == How::Datasheet);
    tier.efficiency.is_some() || datasheet
}

/// The four quantities that people call the bandwidth, each for a port, a rank and a node.
fn rates(profile: &Profile, i: usize, node: Option<u32>) -> Vec<RateView> {
    let tier = &profile.tiers[i];
    let Some(rate) = tier.bandwidth.as_ref().map(|b| b.value) else { return Vec::new() };
    let efficiency = tier.efficiency.as_ref().map(|e| e.value);
    let raw = is_raw(tier).then_some(rate);
    let payload = match (raw, efficiency) {
        (Some(raw), Some(part)) => Some(raw * part),
        (Some(_), None) => None,
        (None, _) => Some(rate),
    };
    let duplex = tier.duplex_factor.as_ref().map(|d| Ratio(2.0 * d.value.0));
    let both = payload.zip(duplex).map(|(rate, both)| rate * both);
    let ports = tier.ports.unwrap_or(Ports::ONE).sends(u32::MAX);
    let line = |counted: &'static str, rate: Option<Bandwidth>| {
        let rate = rate.map(|r| r.0);
        let (rank, whole) = match (tier.nics, node) {
            // A node's NICs are shared by its ranks.
            (Some(nics), Some(node)) => {
                let whole = rate.map(|r| r * f64::from(nics.get()));
                (whole.map(|w| w / f64::from(node)), whole)
            }
            _ => {
                let rank = rate.filter(|_| ports < u32::MAX).map(|r| r * f64::from(ports));
                (rank, rank.zip(node).map(|(r, n)| r * f64::from(n)))
            }
        };
        RateView { counted, port: rate, rank, node: whole }
    };
    vec![
        line("raw, one way", raw),
        line("raw, both ways", raw.map(|r| r * Ratio(2.0))),
        line("payload, one way", payload),
        line("payload, both ways", both),
    ]
}

/// The changes from one machine to another.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilesDiff {
    /// `collcost/profiles-diff/2`.
    pub schema: &'static str,
    /// The machine before.
    pub old: String,
    /// The machine now.
    pub new: String,
    /// Every parameter of either machine, and what else they state differently: spans, ports, kinds of parts,
    /// knots, curves.
    pub figures: Vec<ChangeView>,
    /// The number of parameters that changed beyond chance.
    pub significant: usize,
    /// The number of parameters with an interval on both sides, for which chance can be judged.
    pub judged: usize,
    /// The probability that chance alone makes all differences together; absent if none is judged.
    pub p: Option<f64>,
    /// Whether the machine changed, judged by one parameter or by all together.
    pub changed: bool,
}

/// One parameter of two machines.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeView {
    /// Its tier and key, such as `tcp alpha`.
    pub figure: String,
    /// The value before, as text.
    pub old: Option<String>,
    /// The value now, as text.
    pub new: Option<String>,
    /// The value before, in the unit below.
    pub old_value: Option<f64>,
    /// The value now.
    pub new_value: Option<f64>,
    /// `s`, `B/s`, `s/B`, or `1`; absent for what is stated without a value.
    pub unit: Option<&'static str>,
    /// The new value divided by the old.
    pub ratio: Option<f64>,
    /// The difference divided by the deviation of both; absent unless both intervals are known, or if
    /// they are points.
    pub z: Option<f64>,
    /// The probability that chance alone makes such a difference; absent unless both intervals are known.
    pub p: Option<f64>,
    /// `changed`, `unchanged` within 5 %, or `unknown`.
    pub moved: &'static str,
}

/// Compares two machines.
#[must_use]
pub fn profiles_diff(old: &Profile, new: &Profile) -> ProfilesDiff {
    let found = diff(old, new);
    let moved = |moved: Moved| match moved {
        Moved::Changed => "changed",
        Moved::Unchanged => "unchanged",
        Moved::Unknown => "unknown",
    };
    let named = |tier: Option<String>, key: String| match tier {
        Some(tier) => format!("{tier} {key}"),
        None => key,
    };
    let (changed, restated) = (found.is_significant(), found.restated);
    let restated = restated.into_iter().map(|r| ChangeView {
        figure: named(r.tier, r.key),
        old: r.old,
        new: r.new,
        moved: moved(r.moved),
        old_value: None,
        new_value: None,
        unit: None,
        ratio: None,
        z: None,
        p: None,
    });
    let view = |c: Change| ChangeView {
        p: c.p.map(|p| p.0),
        moved: moved(c.moved),
        figure: named(c.tier, c.key),
        old: c.old.map(|a| a.to_string()),
        new: c.new.map(|a| a.to_string()),
        old_value: c.old.map(|a| a.number()),
        new_value: c.new.map(|a| a.number()),
        unit: c.old.or(c.new).map(|a| a.unit()),
        ratio: c.ratio.map(|r| r.0),
        z: c.z.map(|z| z.0).filter(|z| z.is_finite()),
    };
    ProfilesDiff {
        schema: "collcost/profiles-diff/2",
        old: old.name.clone(),
        new: new.name.clone(),
        significant: found.changes.iter().filter(|c| c.moved == Moved::Changed).count(),
        judged: found.judged,
        p: found.p.map(|p| p.0),
        changed,
        figures: found.changes.into_iter().map(view).chain(restated).collect(),
    }
}

/// Faults in some descriptions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilesCheck {
    /// `collcost/profiles-check/1`.
    pub schema: &'static str,
    /// The number of descriptions checked.
    pub profiles: usize,
    /// The number of their parameters.
    pub figures: usize,
    /// The number of findings that are errors.
    pub errors: usize,
    /// The number of findings that are warnings.
    pub warnings: usize,
    /// The findings, file by file and line by line.
    pub findings: Vec<FindingView>,
}

/// One finding.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingView {
    /// The severity.
    pub severity: Severity,
    /// The kind of finding.
    pub kind: Kind,
    /// The fault.
    pub what: String,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
    /// The line itself.
    pub text: String,
    /// What would be accepted.
    pub help: Option<String>,
}

/// Collects findings: for each file its name, the number of its parameters, and its findings.
#[must_use]
pub fn profiles_check(files: Vec<(String, usize, Vec<Finding>)>) -> ProfilesCheck {
    let (profiles, figures) = (files.len(), files.iter().map(|f| f.1).sum());
    let findings: Vec<FindingView> = files
        .into_iter()
        .flat_map(|(file, _, found)| found.into_iter().map(move |f| (file.clone(), f)))
        .map(|(file, Finding { severity, kind, what, help, place })| {
            let Place { line, column, text } = place;
            FindingView { severity, kind, what, file, line, column, text, help }
        })
        .collect();
    let errors = findings.iter().filter(|f| f.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    let schema = "collcost/profiles-check/1";
    ProfilesCheck { schema, profiles, figures, errors, warnings, findings }
}
