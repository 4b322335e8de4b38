//! Single parameters of a machine by name: to set them, to vary them, to see their effect.
//!
//! `intra.alpha` is α inside a node, `inter.bw` the rate of one port between nodes; a tier's own
//! name works too, `NVLink4.bw`. `switch.alpha`, `switch.bw`, `launch` and `gamma` have no tier. A
//! separate rate of the switch is scaled with that of its links, and can be set after it.

use std::fmt;

use crate::base::error::{Error, Result, advice};
use crate::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte};
use crate::machine::fabric::{Fabric, Links, Tier};

/// One parameter of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// α of a tier.
    Alpha(usize),
    /// The rate of one port of a tier.
    Bandwidth(usize),
    /// α_sw of the innermost tier's switch.
    SwitchAlpha,
    /// α_sw of the switches between nodes.
    FarSwitchAlpha,
    /// The rate of a port through the innermost tier's switch, if it is not the tier's.
    SwitchBandwidth,
    /// The time of a call before its first message.
    Launch,
    /// γ.
    Gamma,
}

/// A value of a parameter, in its own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// α, α_sw, launch.
    Time(Seconds),
    /// A rate.
    Rate(Bandwidth),
    /// γ.
    Inverse(SecondsPerByte),
}

impl Figure {
    /// The parameter that `name` means on `fabric`.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn named(name: &str, fabric: &Fabric) -> Result<Self> {
        let all = Self::all(fabric);
        let lower = name.to_ascii_lowercase();
        let found = all.iter().find(|f| f.names(fabric).contains(&lower));
        found.copied().ok_or_else(|| {
            let known = all.iter().flat_map(|f| f.names(fabric));
            Error::input(format!("`{name}` is not a parameter of this machine"))
                .help(advice(&lower, known))
        })
    }

    /// Every parameter of a machine.
    #[must_use]
    pub fn all(fabric: &Fabric) -> Vec<Self> {
        let tiers = 0..fabric.tiers.len();
        let mut all: Vec<Self> = tiers.flat_map(|t| [Self::Alpha(t), Self::Bandwidth(t)]).collect();
        if let Some(switch) = fabric.tiers[0].switch {
            all.push(Self::SwitchAlpha);
            all.extend(switch.bandwidth.map(|_| Self::SwitchBandwidth));
        }
        if fabric.tiers.iter().skip(1).next_back().is_some_and(|tier| tier.switch.is_some()) {
            all.push(Self::FarSwitchAlpha);
        }
        all.extend([Self::Launch, Self::Gamma]);
        all
    }

    /// The names that it is found by; the first is the one for people.
    fn names(self, fabric: &Fabric) -> Vec<String> {
        let of_tier = |t: usize, figure: &str| {
            let last = fabric.tiers.len() - 1;
            let own = fabric.tiers[t].name.to_ascii_lowercase();
            let mut names = Vec::new();
            if t == 0 && last > 0 {
                names.push(format!("intra.{figure}"));
            }
            if t == last && last > 0 {
                names.push(format!("inter.{figure}"));
            }
            if last == 0 {
                names.push(figure.to_owned());
                names.push(format!("intra.{figure}"));
            }
            let own = format!("{own}.{figure}");
            // Tiers that are given by flags are called so.
            if !names.contains(&own) {
                names.push(own);
            }
            names
        };
        match self {
            Self::Alpha(t) => of_tier(t, "alpha"),
            Self::Bandwidth(t) => of_tier(t, "bw"),
            Self::SwitchAlpha => vec!["switch.alpha".to_owned()],
            Self::FarSwitchAlpha => vec!["inter.switch.alpha".to_owned()],
            Self::SwitchBandwidth => vec!["switch.bw".to_owned()],
            Self::Launch => vec!["launch".to_owned()],
            Self::Gamma => vec!["gamma".to_owned()],
        }
    }

    /// The name for people.
    #[must_use]
    pub fn name(self, fabric: &Fabric) -> String {
        self.names(fabric).swap_remove(0)
    }

    /// The links that it belongs to, if it belongs to links and the machine has nodes.
    #[must_use]
    pub fn links(self, fabric: &Fabric) -> Option<Links> {
        let (Self::Alpha(tier) | Self::Bandwidth(tier)) = self else { return None };
        Some(if tier > fabric.node? { Links::Between } else { Links::Inside })
    }

    /// Its value; absent if it is unknown.
    #[must_use]
    pub fn get(self, fabric: &Fabric) -> Option<Value> {
        let tier = |t: usize| -> &Tier { &fabric.tiers[t] };
        match self {
            Self::Alpha(t) => tier(t).link.alpha.map(Value::Time),
            Self::Bandwidth(t) => tier(t).link.bandwidth.map(Value::Rate),
            Self::SwitchAlpha => tier(0).switch.and_then(|s| s.alpha).map(Value::Time),
            Self::FarSwitchAlpha => {
                fabric.tiers.last().and_then(|t| t.switch?.alpha).map(Value::Time)
            }
            Self::SwitchBandwidth => tier(0).switch.and_then(|s| s.bandwidth).map(Value::Rate),
            Self::Launch => Some(Value::Time(fabric.launch)),
            Self::Gamma => fabric.gamma.map(Value::Inverse),
        }
    }

    /// Reads a value of this parameter's kind.
    ///
    /// # Errors
    /// An invalid value or one of another kind.
    pub fn parse(self, text: &str) -> Result<Value> {
        match self {
            Self::Bandwidth(_) | Self::SwitchBandwidth => text.parse().map(Value::Rate),
            Self::Gamma => text.parse().map(Value::Inverse),
            _ => text.parse().map(Value::Time),
        }
    }

    /// Sets a value; one of another kind changes nothing.
    pub fn set(self, fabric: &mut Fabric, value: Value) {
        match (self, value) {
            (Self::Alpha(t), Value::Time(v)) => fabric.tiers[t].link.alpha = Some(v),
            (Self::Bandwidth(t), Value::Rate(v)) => fabric.tiers[t].set_bandwidth(v),
            (Self::SwitchAlpha, Value::Time(v)) => {
                if let Some(switch) = &mut fabric.tiers[0].switch {
                    switch.alpha = Some(v);
                }
            }
            (Self::FarSwitchAlpha, Value::Time(v)) => {
                if let Some(switch) = fabric.tiers.last_mut().and_then(|t| t.switch.as_mut()) {
                    switch.alpha = Some(v);
                }
            }
            (Self::SwitchBandwidth, Value::Rate(v)) => {
                if let Some(switch) = &mut fabric.tiers[0].switch {
                    switch.bandwidth = Some(v);
                }
            }
            (Self::Launch, Value::Time(v)) => fabric.launch = v,
            (Self::Gamma, Value::Inverse(v)) => fabric.gamma = Some(v),
            _ => {}
        }
    }
}

impl Value {
    /// The value in seconds, bytes per second, or seconds per byte.
    #[must_use]
    pub fn number(self) -> Ratio {
        Ratio(match self {
            Self::Time(v) => v.0,
            Self::Rate(v) => v.0,
            Self::Inverse(v) => v.0,
        })
    }

    /// The same kind of value times `factor`.
    #[must_use]
    pub fn scaled(self, factor: Ratio) -> Self {
        self.with(self.number().0 * factor.0)
    }

    /// Values from this one to `last` in equal ratios, or in equal steps from 0: both ends and the
    /// means between them, over `halvings` halvings.
    #[must_use]
    pub fn up_to(self, last: Self, halvings: u32) -> Vec<Self> {
        let mut values = vec![self.number().0, last.number().0];
        let steps = values[0] <= 0.0;
        for _ in 0..halvings {
            let mean =
                |w: &[f64]| if steps { f64::midpoint(w[0], w[1]) } else { (w[0] * w[1]).sqrt() };
            let means: Vec<f64> = values.windows(2).map(mean).collect();
            let between = means.into_iter().map(Some).chain([None]);
            values =
                values.iter().zip(between).flat_map(|(v, m)| [Some(*v), m]).flatten().collect();
        }
        values.into_iter().map(|value| self.with(value)).collect()
    }

    /// The same kind of value.
    fn with(self, value: f64) -> Self {
        match self {
            Self::Time(_) => Self::Time(Seconds(value)),
            Self::Rate(_) => Self::Rate(Bandwidth(value)),
            Self::Inverse(_) => Self::Inverse(SecondsPerByte(value)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(v) => v.fmt(f),
            Self::Rate(v) => v.fmt(f),
            Self::Inverse(v) => v.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fabric::Switch;

    fn two_tiers() -> Fabric {
        let mut inner = Tier::new("NVLink4", Seconds(1e-6), Bandwidth(4e11));
        inner.span = std::num::NonZeroU32::new(8);
        Fabric::new(vec![inner, Tier::new("NDR", Seconds(3e-6), Bandwidth(5e10))])
    }

    #[test]
    fn figures_have_names() {
        let fabric = two_tiers();
        for (name, figure) in [
            ("intra.alpha", Figure::Alpha(0)),
            ("inter.bw", Figure::Bandwidth(1)),
            ("NDR.alpha", Figure::Alpha(1)),
            ("launch", Figure::Launch),
        ] {
            assert_eq!(Figure::named(name, &fabric).unwrap(), figure);
        }
        let wrong = Figure::named("inter.bq", &fabric).unwrap_err();
        assert!(wrong.to_string().contains("`inter.bw`"), "{wrong}");
        assert_eq!(
            Figure::named("bw", &Fabric::flat(Seconds(0.0), Bandwidth(1.0))).unwrap(),
            Figure::Bandwidth(0)
        );
    }

    #[test]
    fn what_is_set_is_got() {
        let mut fabric = two_tiers();
        fabric.tiers[0].switch = Some(Switch {
            alpha: None,
            bandwidth: Some(Bandwidth(3e11)),
            multicast: true,
            alu: true,
        });
        for figure in Figure::all(&fabric) {
            let text = match figure {
                Figure::Bandwidth(_) | Figure::SwitchBandwidth => "100Gb/s",
                Figure::Gamma => "20ps/B",
                _ => "7us",
            };
            let value = figure.parse(text).unwrap();
            figure.set(&mut fabric, value);
            assert_eq!(figure.get(&fabric), Some(value), "{figure:?}");
        }
    }

    #[test]
    fn a_switch_follows_its_links() {
        let mut fabric = two_tiers();
        let own = Some(Bandwidth(3e11));
        fabric.tiers[0].switch =
            Some(Switch { alpha: None, bandwidth: own, multicast: true, alu: true });
        Figure::Bandwidth(0).set(&mut fabric, Value::Rate(Bandwidth(8e11)));
        assert_eq!(Figure::SwitchBandwidth.get(&fabric), Some(Value::Rate(Bandwidth(6e11))));
        assert_eq!(Figure::named("switch.bw", &fabric).unwrap(), Figure::SwitchBandwidth);
    }

    #[test]
    fn values_are_spaced_by_ratio() {
        let ends = Value::Time(Seconds(1e-6)).up_to(Value::Time(Seconds(16e-6)), 2);
        let micro: Vec<f64> = ends.iter().map(|v| (v.number().0 * 1e6).round()).collect();
        assert_eq!(micro, [1.0, 2.0, 4.0, 8.0, 16.0]);
    }
}
