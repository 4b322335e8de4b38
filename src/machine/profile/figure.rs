//! All parameters of a machine in one list, whatever they measure, and what it states besides.

use std::fmt;

use super::{Bucket, Date, Generation, How, Knot, LinkKind, Links, Measured, NetworkKind, Profile};
use super::{SwitchLinks, SwitchPoint};
use crate::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte};
use crate::machine::curve::{Component, Curve};
use crate::model::formula::Ports;

/// A value of any of the kinds that a machine has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A time.
    Time(Seconds),
    /// A rate, one way.
    Rate(Bandwidth),
    /// A part of a rate.
    Part(Ratio),
    /// A time per byte.
    PerByte(SecondsPerByte),
}

impl Amount {
    /// The number in base units.
    pub(crate) fn number(self) -> f64 {
        match self {
            Self::Time(x) => x.0,
            Self::Rate(x) => x.0,
            Self::Part(x) => x.0,
            Self::PerByte(x) => x.0,
        }
    }

    /// The base unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time(_) => "s",
            Self::Rate(_) => "B/s",
            Self::Part(_) => "1",
            Self::PerByte(_) => "s/B",
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(x) => x.fmt(f),
            Self::Rate(x) => x.fmt(f),
            // Unchanged: 0.8 and 0.565 keep the digits that were given.
            Self::Part(x) => write!(f, "{}", x.0),
            Self::PerByte(x) => x.fmt(f),
        }
    }
}

macro_rules! amounts {
    ($($quantity:ty => $kind:ident),*) => {$(
        impl From<$quantity> for Amount {
            fn from(quantity: $quantity) -> Self {
                Self::$kind(quantity)
            }
        }
    )*};
}

amounts!(Seconds => Time, Bandwidth => Rate, Ratio => Part, SecondsPerByte => PerByte);

/// One parameter of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure<'a> {
    /// The tier that it belongs to, from the innermost out; absent for the machine's own.
    pub tier: Option<usize>,
    /// Its key in the file: `alpha`, `switch.alpha`, `launch.any`, `gamma`.
    pub key: String,
    /// The value.
    pub value: Amount,
    /// The least that is likely.
    pub low: Option<Amount>,
    /// The most that is likely.
    pub high: Option<Amount>,
    /// How it was obtained.
    pub how: How,
    /// The source.
    pub source: &'a str,
    /// When.
    pub date: Option<Date>,
}

impl<'a> Figure<'a> {
    fn new<T: Copy + Into<Amount>>(
        tier: Option<usize>,
        key: impl Into<String>,
        measured: Option<&'a Measured<T>>,
    ) -> Option<Self> {
        measured.map(|m| Self {
            tier,
            key: key.into(),
            value: m.value.into(),
            low: m.low.map(Into::into),
            high: m.high.map(Into::into),
            how: m.how,
            source: &m.source,
            date: m.date,
        })
    }

    /// Its path in the file, such as `tier.0.alpha`.
    pub(super) fn path(&self) -> String {
        match self.tier {
            Some(tier) => format!("tier.{tier}.{}", self.key),
            None => self.key.clone(),
        }
    }

    /// Whether it is so far from its own interval as it is with another unit: eight times for bits, a thousand for
    /// µs. Who edits a value alone leaves an interval nearby.
    pub(super) fn is_of_another_unit(&self) -> bool {
        const LEAST: f64 = 7.5;
        let value = self.value.number();
        let far = |end: Option<Amount>, times: fn(f64, f64) -> f64| {
            end.is_some_and(|end| times(end.number(), value) >= LEAST)
        };
        far(self.low, |low, value| low / value) || far(self.high, |high, value| value / high)
    }

    /// The ends of its own interval beyond which its value is: the key of each, and what is wrong.
    pub(super) fn outside(&self) -> impl Iterator<Item = (&'static str, String)> {
        let value = self.value;
        let low = self.low.filter(|low| low.number() > value.number());
        let high = self.high.filter(|high| high.number() < value.number());
        let low = low.map(|low| ("low", format!("low {low} is above value {value}")));
        low.into_iter()
            .chain(high.map(|high| ("high", format!("value {value} is above high {high}"))))
    }
}

impl Profile {
    /// Every known parameter, in the order of the file format.
    pub fn figures(&self) -> impl Iterator<Item = Figure<'_>> {
        let of_tiers = self.tiers.iter().enumerate().flat_map(|(i, tier)| {
            let switch = tier.switch.as_ref();
            [
                Figure::new(Some(i), "alpha", tier.alpha.as_ref()),
                Figure::new(Some(i), "bandwidth", tier.bandwidth.as_ref()),
                Figure::new(Some(i), "efficiency", tier.efficiency.as_ref()),
                Figure::new(Some(i), "duplex_factor", tier.duplex_factor.as_ref()),
                Figure::new(Some(i), "switch.alpha", switch.and_then(|s| s.alpha.as_ref())),
                Figure::new(
                    Some(i),
                    "switch.efficiency",
                    switch.and_then(|s| s.efficiency.as_ref()),
                ),
            ]
            .into_iter()
            .chain(tier.sharing.iter().map(move |(flows, share)| {
                Figure::new(Some(i), format!("sharing.{flows}"), Some(share))
            }))
        });
        let launch = self
            .launch
            .iter()
            .map(|(call, launch)| Figure::new(None, format!("launch.{}", call.id()), Some(launch)));
        let own = [
            Figure::new(None, "gamma", self.gamma.as_ref()),
            Figure::new(None, "c_real", self.c_real.as_ref()),
        ];
        of_tiers.chain(launch).chain(own).flatten()
    }
}

/// What a machine states that is no parameter with a source: how links are wired and shared, of which kinds its
/// parts are, and what a fit found without an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The tier that it is about; absent for the machine as a whole.
    pub tier: Option<usize>,
    /// The key in the file.
    pub key: String,
    /// It in words.
    pub text: String,
    /// All of it in words, if `text` is short.
    pub whole: Option<String>,
    /// Whether it was fitted to times: chance may make two differ.
    pub fitted: bool,
}

impl Statement {
    fn stated(tier: Option<usize>, key: &str, text: impl Into<String>) -> Self {
        Self { tier, key: key.to_owned(), text: text.into(), whole: None, fitted: false }
    }

    fn fitted(tier: Option<usize>, key: impl Into<String>, text: String) -> Self {
        Self { tier, key: key.into(), text, whole: None, fitted: true }
    }
}

impl Profile {
    /// Every statement, those of the tiers first.
    pub(crate) fn statements(&self) -> Vec<Statement> {
        let mut all: Vec<Statement> =
            self.tiers.iter().enumerate().flat_map(|(i, tier)| self.of_tier(i, tier)).collect();
        all.extend(self.kinds());
        if let Some(Bucket { rate, burst }) = self.fit.as_ref().and_then(|fit| fit.bucket) {
            let text = format!("{burst} at once, then {rate}");
            all.push(Statement::fitted(None, "fit.bucket", text));
        }
        if !self.curves.is_empty() {
            let of: Vec<String> = self.curves.iter().map(call).collect();
            all.push(Statement::stated(None, "measured", of.join(", ")));
        }
        all.extend(self.curves.iter().map(curve));
        let switches = self.nccl.as_ref().map_or(&[][..], |nccl| &nccl.switches);
        if !switches.is_empty() {
            let each: Vec<String> = switches.iter().map(switch_point).collect();
            let text = format!("{} switch points", switches.len());
            let whole = Some(each.join("; "));
            all.push(Statement { whole, ..Statement::fitted(None, "nccl.switch", text) });
        }
        all
    }

    fn of_tier(&self, i: usize, tier: &Links) -> Vec<Statement> {
        let stated = |key, text: String| Statement::stated(Some(i), key, text);
        let span = tier.span.map_or("any number of ranks".to_owned(), |n| format!("{n} ranks"));
        let nics = tier.nics.map_or("one for each rank".to_owned(), |n| n.to_string());
        let does = tier.switch.as_ref().and_then(SwitchLinks::does).unwrap_or("forwards");
        let mut all = vec![
            stated("span", span),
            stated("nics", nics),
            stated("ports", tier.ports.unwrap_or(Ports::ONE).to_string()),
            stated("wires", tier.wires().words()),
            stated("kind", self.tier_kind(i).id().to_owned()),
            stated("discipline", tier.discipline.id().to_owned()),
            stated("switch", does.to_owned()),
        ];
        let knots: Vec<String> = tier.knots.iter().map(knot).collect();
        if !knots.is_empty() {
            all.push(Statement::fitted(Some(i), "knots", knots.join(", ")));
        }
        if let Some(above) = tier.duplex_above {
            let text = format!("{above} are as fast both ways");
            all.push(Statement::fitted(Some(i), "duplex_above", text));
        }
        all
    }

    /// The kinds of its parts, and the files that describe them.
    fn kinds(&self) -> impl Iterator<Item = Statement> {
        let whether = |yes: Option<bool>| yes.map(|yes| yes.to_string());
        let fit = self.fit.as_ref();
        let all = [
            ("board", self.board.clone()),
            ("generation", self.generation.map(|kind| Generation::id(kind).to_owned())),
            ("link", self.link.map(|kind| LinkKind::id(kind).to_owned())),
            ("network", self.network.map(|kind| NetworkKind::id(kind).to_owned())),
            ("gpu_direct", whether(self.gpu_direct)),
            ("p2p", whether(self.p2p)),
            ("library", self.library.clone()),
            ("nccl_graphs", self.nccl_graphs.clone()),
            ("nccl_inside", self.nccl_inside.clone()),
            ("nccl_tuner", self.nccl_tuner.map(|tuner| tuner.id().to_owned())),
            ("nccl_topology", self.nccl_topology.clone()),
            ("fabric", self.fabric_file.clone()),
            ("fit.transport", fit.and_then(|fit| fit.transport.clone())),
            ("fit.wait", fit.and_then(|fit| fit.wait.clone())),
        ];
        all.into_iter().filter_map(|(key, text)| Some(Statement::stated(None, key, text?)))
    }
}

impl SwitchLinks {
    /// What the switch does besides forwarding.
    pub(crate) fn does(&self) -> Option<&'static str> {
        match (self.multicast, self.alu) {
            (true, true) => Some("adds and multicasts"),
            (true, false) => Some("multicasts"),
            (false, true) => Some("adds"),
            (false, false) => None,
        }
    }
}

/// `5 GB/s below 64 KiB`.
fn knot(knot: &Knot) -> String {
    let rate = knot.bandwidth.map_or("no time".to_owned(), |rate| rate.to_string());
    format!("{rate} below {}", knot.below)
}

/// `allreduce f16`.
fn call(curve: &Curve) -> String {
    let dtype = curve.dtype.map_or(String::new(), |dtype| format!(" {}", dtype.id()));
    format!("{}{dtype}", curve.collective.id())
}

fn curve(curve: &Curve) -> Statement {
    let ranks: Vec<String> = curve.placed.iter().map(|at| at.ranks.to_string()).collect();
    let text = format!("{} times of {} ranks", curve.rows, ranks.join(", "));
    let components: Vec<String> = curve.components.iter().map(component).collect();
    let whole = format!(
        "{text}, {} to {}; {}; δ {}, c {}",
        curve.from,
        curve.to,
        components.join("; "),
        curve.delta.0,
        curve.shape.0
    );
    let key = format!("measured {}", call(curve));
    Statement { whole: Some(whole), ..Statement::fitted(None, key, text) }
}

/// `ring: launch 8 µs, α 1.9 µs, 15.9 GB/s`.
fn component(of: &Component) -> String {
    let between = |text: String| format!(", {text} between nodes");
    let alpha = of.alpha_between.map_or(String::new(), |a| between(a.to_string()));
    let inside = of.bandwidth.map_or(String::new(), |b| format!(", {b}"));
    let far = of.bandwidth_between.map_or(String::new(), |b| between(b.to_string()));
    let Component { steps, launch, alpha: inner, .. } = of;
    format!("{}: launch {launch}, α {inner}{alpha}{inside}{far}", steps.id())
}

/// `allreduce of 8 ranks from 1 MiB Ring/Simple`.
fn switch_point(at: &SwitchPoint) -> String {
    let SwitchPoint { collective, ranks, from, algorithm, protocol } = at;
    format!("{collective} of {ranks} ranks from {from} {algorithm}/{protocol}")
}
