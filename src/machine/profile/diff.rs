//! What changed between two profiles, against how sure each is of its figures.

use super::{Amount, Figure, Profile};
use crate::base::quantity::Ratio;

/// One figure in both.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The tier's name; absent for the machine's own figures.
    pub tier: Option<String>,
    /// The key in the file.
    pub key: String,
    /// The value before; absent where there was none.
    pub old: Option<Amount>,
    /// The value now; absent where there is none.
    pub new: Option<Amount>,
    /// New over old.
    pub ratio: Option<Ratio>,
    /// The difference over the deviation of both; absent where neither states an interval.
    pub z: Option<Ratio>,
}

/// A difference of so many deviations is no chance.
pub const SIGMAS: f64 = 3.0;

/// Half the width of a 95 % interval in deviations.
const HALF_WIDTH: f64 = 1.959_964;

impl Change {
    /// Whether the figure has changed for sure.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.z.is_some_and(|z| z.0.abs() > SIGMAS)
    }
}

/// The deviation that an interval stands for; none where there is no interval.
fn deviation(figure: &Figure<'_>) -> Option<f64> {
    let (low, high) = (figure.low?.number(), figure.high?.number());
    Some((high - low) / (2.0 * HALF_WIDTH))
}

/// Every figure of either profile; tiers are matched by name, then by place.
#[must_use]
pub fn diff(old: &Profile, new: &Profile) -> Vec<Change> {
    let place = |p: &Profile, own: &str, at: usize| {
        p.tiers.iter().position(|t| t.name == own).or((at < p.tiers.len()).then_some(at))
    };
    let of_new: Vec<Figure<'_>> = new.figures().collect();
    let of_old: Vec<Figure<'_>> = old.figures().collect();
    let mut changes = Vec::new();
    let mut met = vec![false; of_new.len()];
    let name = |p: &Profile, f: &Figure<'_>| f.tier.map(|i| p.tiers[i].name.clone());
    for a in &of_old {
        let tier = a.tier.map(|i| place(new, &old.tiers[i].name, i));
        let found = of_new.iter().position(|b| {
            b.key == a.key && b.tier == tier.flatten() && b.tier.is_some() == a.tier.is_some()
        });
        let b = found.map(|i| &of_new[i]);
        if let Some(i) = found {
            met[i] = true;
        }
        changes.push(change(name(old, a), Some(a), b));
    }
    for (b, _) in of_new.iter().zip(&met).filter(|(_, met)| !**met) {
        changes.push(change(name(new, b), None, Some(b)));
    }
    changes
}

fn change(tier: Option<String>, old: Option<&Figure<'_>>, new: Option<&Figure<'_>>) -> Change {
    let both = old.zip(new);
    let z = both.and_then(|(a, b)| {
        let spread = match (deviation(a), deviation(b)) {
            (None, None) => return None,
            (a, b) => a.unwrap_or(0.0).hypot(b.unwrap_or(0.0)),
        };
        let moved = b.value.number() - a.value.number();
        // Without any width every change is one.
        Some(Ratio(if moved == 0.0 { 0.0 } else { moved / spread }))
    });
    Change {
        tier,
        key: old.or(new).map_or(String::new(), |f| f.key.clone()),
        old: old.map(|f| f.value),
        new: new.map(|f| f.value),
        ratio: both.map(|(a, b)| Ratio(b.value.number() / a.value.number())),
        z,
    }
}
