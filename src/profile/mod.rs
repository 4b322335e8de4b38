//! Machines as data: tiers of links, each figure with how it was obtained and from where.
//!
//! A profile is a TOML file. A figure that is not there is unknown; it is never zero.

mod measured;

pub use measured::{How, Measured};

use std::num::NonZeroU32;

use serde::Deserialize;

use crate::error::{Error, Result, nearest};
use crate::fabric::{Fabric, Switch, Tier};
use crate::formula::Ports;
use crate::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte};

/// The machine that is asked when none is named.
pub const DEFAULT: &str = "dgx-h100";

/// The built-in machines: names under which each is found, the first its own, and its text.
///
/// Names stand here beside the text so that one answer parses one profile.
static BUILTIN: &[(&[&str], &str)] = &[(
    &["dgx-h100", "h100", "h100-ndr", "hgx-h100"],
    include_str!("../../profiles/dgx-h100.toml"),
)];

/// A machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The version of this format: 1.
    pub schema: u32,
    /// The name under which it is found.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// The communication library that people run on it.
    #[serde(default)]
    pub library: Option<String>,
    /// Its links, from the innermost out.
    #[serde(rename = "tier")]
    pub tiers: Vec<Links>,
    /// What a call costs before its first message.
    #[serde(default)]
    pub launch: Option<Measured<Seconds>>,
    /// γ: the time to reduce one byte.
    #[serde(default)]
    pub gamma: Option<Measured<SecondsPerByte>>,
}

/// Links of one kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// The name in reports.
    pub name: String,
    /// Ranks in one domain; absent: no limit.
    #[serde(default)]
    pub span: Option<NonZeroU32>,
    /// Ports that the ranks of a domain of the tier below share; absent: each has its own.
    #[serde(default)]
    pub nics: Option<NonZeroU32>,
    /// Transfers a rank can make at once; absent: one each way.
    #[serde(default)]
    pub ports: Option<Ports>,
    /// α.
    #[serde(default)]
    pub alpha: Option<Measured<Seconds>>,
    /// The rate of one port, one way.
    #[serde(default)]
    pub bandwidth: Option<Measured<Bandwidth>>,
    /// The part of that rate which transfers reach; absent: the rate is what they reach.
    #[serde(default)]
    pub efficiency: Option<Measured<Ratio>>,
    /// A switch that computes or multicasts.
    #[serde(default)]
    pub switch: Option<SwitchLinks>,
}

/// What the switch of a tier can do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchLinks {
    /// It can send one message on to many.
    pub multicast: bool,
    /// It can add.
    pub alu: bool,
    /// α_sw.
    #[serde(default)]
    pub alpha: Option<Measured<Seconds>>,
    /// The part of the tier's rate that in-network collectives reach; absent: the tier's own.
    #[serde(default)]
    pub efficiency: Option<Measured<Ratio>>,
}

impl Profile {
    /// The built-in machine called `name`.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn builtin(name: &str) -> Result<Self> {
        let found = BUILTIN.iter().find(|(names, _)| names.contains(&name));
        let (names, text) = found.ok_or_else(|| {
            let near = nearest(name, BUILTIN.iter().flat_map(|(names, _)| names.iter().copied()));
            Error::input(format!("`{name}` is no machine")).mend(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", Self::names().collect::<Vec<_>>().join(", ")),
            })
        })?;
        Self::parse(text, names[0])
    }

    /// The names of the built-in machines.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(names, _)| names[0])
    }

    /// Reads a profile; `origin` is the file name that errors repeat.
    ///
    /// # Errors
    /// No TOML, an unknown key, a figure without unit, no tier: with file, line and column.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let profile: Self = toml::from_str(text).map_err(|e| located(&e, text, origin))?;
        profile.checked(origin)
    }

    fn checked(self, origin: &str) -> Result<Self> {
        let refuse = |what: String| Err(Error::profile(what).at(origin.to_owned()));
        if self.schema != 1 {
            return refuse(format!("schema {} is not known, 1 is", self.schema));
        }
        let Some((_, inner)) = self.tiers.split_last() else {
            return refuse("the profile has no tier".to_owned());
        };
        if let Some(open) = inner.iter().find(|t| t.span.is_none()) {
            return refuse(format!("`{}` has no span, and another tier lies outside", open.name));
        }
        if self.tiers.windows(2).any(|w| w[1].span.is_some_and(|s| Some(s) <= w[0].span)) {
            return refuse("a tier does not span more ranks than the one inside it".to_owned());
        }
        Ok(self)
    }

    /// The machine as the engine sees it.
    #[must_use]
    pub fn fabric(&self) -> Fabric {
        let mut fabric = Fabric::new(self.tiers.iter().map(Links::tier).collect());
        fabric.gamma = self.gamma.as_ref().map(|g| g.value);
        fabric.launch = self.launch.as_ref().map_or(Seconds(0.0), |o| o.value);
        fabric
    }
}

impl Links {
    fn tier(&self) -> Tier {
        let efficiency = self.efficiency.as_ref().map_or(Ratio(1.0), |e| e.value);
        Tier {
            name: self.name.clone(),
            span: self.span,
            alpha: self.alpha.as_ref().map(|a| a.value),
            bandwidth: self.bandwidth.as_ref().map(|b| b.value * efficiency),
            ports: self.ports.unwrap_or(Ports::ONE),
            nics: self.nics,
            oversubscription: Ratio(1.0),
            switch: self.switch.as_ref().map(|s| Switch {
                alpha: s.alpha.as_ref().map(|a| a.value),
                bandwidth: self
                    .bandwidth
                    .as_ref()
                    .zip(s.efficiency.as_ref())
                    .map(|(b, e)| b.value * e.value),
                multicast: s.multicast,
                alu: s.alu,
            }),
        }
    }
}

/// A TOML error with file, line, column and the line itself.
fn located(error: &toml::de::Error, text: &str, origin: &str) -> Error {
    let what = error.message().lines().next().unwrap_or("cannot be read").to_owned();
    let Some(span) = error.span() else { return Error::profile(what).at(origin.to_owned()) };
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let shown = text.lines().nth(line).unwrap_or("").trim();
    Error::profile(what).at(format!("{origin}:{}:{column}: {shown}", line + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_machine_parses_under_all_its_names() {
        for (names, _) in BUILTIN {
            for name in *names {
                assert_eq!(Profile::builtin(name).unwrap().name, names[0]);
            }
        }
        assert!(Profile::builtin("dgx-h1000").unwrap_err().to_string().contains("`dgx-h100`"));
    }

    #[test]
    fn every_figure_has_a_source() {
        for name in Profile::names() {
            let profile = Profile::builtin(name).unwrap();
            let sources = profile.tiers.iter().flat_map(|t| {
                [
                    t.alpha.as_ref().map(|m| &m.source),
                    t.bandwidth.as_ref().map(|m| &m.source),
                    t.efficiency.as_ref().map(|m| &m.source),
                    t.switch.as_ref().and_then(|s| s.alpha.as_ref()).map(|m| &m.source),
                    t.switch.as_ref().and_then(|s| s.efficiency.as_ref()).map(|m| &m.source),
                ]
            });
            let own = [profile.launch.as_ref().map(|m| &m.source)];
            for source in sources.chain(own).flatten() {
                assert!(source.len() > 10, "{name}: {source}");
            }
        }
    }

    #[test]
    fn faults_name_their_place() {
        let text = "schema = 1\nname = \"x\"\ntitle = \"x\"\n[[tier]]\nname = \"a\"\n\
                    [tier.alpha]\nvalue = \"5\"\nhow = \"assumed\"\nsource = \"nobody\"\n";
        let e = Profile::parse(text, "x.toml").unwrap_err();
        assert!(e.is_profile());
        assert!(e.to_string().contains("x.toml:7:9: value = \"5\""), "{e}");
        assert!(e.to_string().contains("without unit"), "{e}");
    }
}
