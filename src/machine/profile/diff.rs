//! The changes between two profiles, judged by their confidence intervals.
//!
//! Where both sides state 95 % intervals, a parameter has changed if its difference is significant, by
//! Holm's step-down procedure over all such parameters. It is unchanged if the
//! interval of the difference is within 5 % (two one-sided tests). In addition, one test of all
//! parameters together finds many small changes of which no single one is significant; it assumes
//! that the parameters are independent. Both tests together have one false alarm in a hundred.
//! A value without interval may be a guess, so nothing is said about its difference. What is stated
//! without a value (ports, spans, kinds of parts) differs or does not; what a fit found without an
//! interval (knots, curves) may differ by chance.
//!
//! Sources: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 1979;
//! Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987.

use super::figure::Statement;
use super::{Amount, Figure, Profile};
use crate::base::order::rising;
use crate::base::quantity::Ratio;
use crate::base::stats::{HALF_WIDTH, as_far, as_large};

/// One parameter in both profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The tier's name; absent for the machine's own parameters.
    pub tier: Option<String>,
    /// The key in the file.
    pub key: String,
    /// The value before; absent if there was none.
    pub old: Option<Amount>,
    /// The value now; absent if there is none.
    pub new: Option<Amount>,
    /// New over old.
    pub ratio: Option<Ratio>,
    /// The difference over the combined deviation; absent unless both state an interval.
    pub z: Option<Ratio>,
    /// The p-value: how often chance alone makes such a difference.
    pub p: Option<Ratio>,
    /// The verdict.
    pub moved: Moved,
}

/// The verdict on a parameter's difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is significant.
    Changed,
    /// It is at most [`SAME`].
    Unchanged,
    /// The intervals are too wide, or there are none.
    Unknown,
}

/// A statement that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Restated {
    /// The tier's name; absent for the machine as a whole.
    pub tier: Option<String>,
    /// The key in the file.
    pub key: String,
    /// What was stated; absent if nothing was.
    pub old: Option<String>,
    /// What is stated now.
    pub new: Option<String>,
    /// Changed, or unknown for what a fit found.
    pub moved: Moved,
}

/// All parameters of two machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// One by one.
    pub changes: Vec<Change>,
    /// The other statements that differ.
    pub restated: Vec<Restated>,
    /// How many parameters have an interval on both sides.
    pub judged: usize,
    /// How often chance alone makes all their differences together; absent if none has an interval.
    pub p: Option<Ratio>,
}

/// False alarms of either test, for machines that have not changed.
const FALSE_ALARMS: f64 = 0.005;

/// A relative difference up to this is negligible.
pub const SAME: Ratio = Ratio(0.05);

impl Diff {
    /// Whether the machine has changed significantly.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        let together = self.p.is_some_and(|p| p.0 < FALSE_ALARMS);
        together
            || self.changes.iter().any(|c| c.moved == Moved::Changed)
            || self.restated.iter().any(|r| r.moved == Moved::Changed)
    }
}

/// The standard deviation of a parameter on the side of `other`, at least that of its whole interval; `None`
/// if there is no interval.
fn deviation(figure: &Figure<'_>, other: f64) -> Option<f64> {
    let (low, high) = (figure.low?.number(), figure.high?.number());
    let value = figure.value.number();
    let side = if other > value { high - value } else { value - low };
    Some(side.max((high - low) / 2.0) / HALF_WIDTH)
}

/// Where the tier `own`, the one at `at`, is in `other`.
fn place(other: &Profile, own: &str, at: usize) -> Option<usize> {
    other.tiers.iter().position(|t| t.name == own).or((at < other.tiers.len()).then_some(at))
}

/// The statements that differ. Of a tier that only one of the two has, the span represents all.
fn restated(old: &Profile, new: &Profile) -> Vec<Restated> {
    let places: Vec<Option<usize>> =
        old.tiers.iter().enumerate().map(|(i, tier)| place(new, &tier.name, i)).collect();
    let mut of_new: Vec<Option<Statement>> = new.statements().into_iter().map(Some).collect();
    let mut all = Vec::new();
    for a in old.statements() {
        let tier = a.tier.map(|i| places[i]);
        let same = |b: &Option<Statement>| {
            b.as_ref().is_some_and(|b| b.key == a.key && Some(b.tier) == tier.or(Some(None)))
        };
        let lost = tier == Some(None);
        let b = of_new.iter_mut().find(|b| !lost && same(b)).and_then(Option::take);
        let is_same = b.as_ref().is_some_and(|b| (&b.text, &b.whole) == (&a.text, &a.whole));
        if !is_same && (!lost || a.key == "span") {
            let name = a.tier.map(|i| old.tiers[i].name.clone());
            all.push(Restated::of(name, Some(a), b));
        }
    }
    for b in of_new.into_iter().flatten() {
        let gained = b.tier.is_some() && !places.contains(&b.tier);
        if !gained || b.key == "span" {
            let name = b.tier.map(|i| new.tiers[i].name.clone());
            all.push(Restated::of(name, None, Some(b)));
        }
    }
    all
}

impl Restated {
    fn of(tier: Option<String>, old: Option<Statement>, new: Option<Statement>) -> Self {
        let either = old.as_ref().or(new.as_ref());
        let fitted = either.is_some_and(|one| one.fitted);
        let key = either.map_or(String::new(), |one| one.key.clone());
        let old = old.map(|a| a.text);
        let new = new.map(|b| b.text);
        // The short words may be the same.
        let new = if old == new { new.map(|text| text + ", other values") } else { new };
        let moved = if fitted { Moved::Unknown } else { Moved::Changed };
        Self { tier, key, old, new, moved }
    }
}

/// Every parameter of either profile; tiers are matched by name, then by position.
#[must_use]
pub fn diff(old: &Profile, new: &Profile) -> Diff {
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
    let z: Vec<f64> = changes.iter().filter_map(|c| c.z).map(|z| z.0).collect();
    let sum: f64 = z.iter().map(|z| z * z).sum();
    step_down(&mut changes, z.len());
    let p = (!z.is_empty()).then(|| Ratio(as_large(sum, z.len())));
    Diff { changes, restated: restated(old, new), judged: z.len(), p }
}

/// Holm's procedure: the least likely of k differences at 1/k of the level, the next at 1/(k − 1)
/// of it, up to the first that is not significant.
fn step_down(changes: &mut [Change], judged: usize) {
    let mut by_p: Vec<&mut Change> = changes.iter_mut().filter(|c| c.p.is_some()).collect();
    rising(&mut by_p, |change| change.p.map_or(0.0, |p| p.0));
    for (i, change) in by_p.into_iter().enumerate() {
        let level = FALSE_ALARMS / (judged - i) as f64;
        if change.p.is_none_or(|p| p.0 >= level) {
            break;
        }
        change.moved = Moved::Changed;
    }
}

fn change(tier: Option<String>, old: Option<&Figure<'_>>, new: Option<&Figure<'_>>) -> Change {
    let both = old.zip(new);
    let moved = both.map_or(0.0, |(a, b)| b.value.number() - a.value.number());
    let spread = both.and_then(|(a, b)| {
        let (x, y) = (a.value.number(), b.value.number());
        Some(deviation(a, y)?.hypot(deviation(b, x)?))
    });
    // With intervals of zero width, every change is significant.
    let z = spread.map(|spread| if moved == 0.0 { 0.0 } else { moved / spread });
    let is_same = both.zip(spread).is_some_and(|((a, _), spread)| {
        moved.abs() + HALF_WIDTH * spread <= SAME.0 * a.value.number().abs()
    });
    Change {
        tier,
        key: old.or(new).map_or(String::new(), |f| f.key.clone()),
        old: old.map(|f| f.value),
        new: new.map(|f| f.value),
        ratio: both.map(|(a, b)| Ratio(b.value.number() / a.value.number())),
        z: z.map(Ratio),
        p: z.map(|z| Ratio(as_far(z))),
        moved: if is_same { Moved::Unchanged } else { Moved::Unknown },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::{Bandwidth, Seconds};
    use crate::base::random::Random;

    /// A machine of α and BW, each off by the given number of deviations of 2 %.
    fn measured(alpha: f64, rate: f64, off: [f64; 2]) -> Profile {
        let mut one = Profile::builtin("tcp-25g").unwrap();
        let tier = &mut one.tiers[0];
        let ends = |x: f64| (x * (1.0 - 0.02 * HALF_WIDTH), x * (1.0 + 0.02 * HALF_WIDTH));
        let a = tier.alpha.as_mut().unwrap();
        a.value = Seconds(alpha * (1.0 + 0.02 * off[0]));
        (a.low, a.high) = (Some(Seconds(ends(a.value.0).0)), Some(Seconds(ends(a.value.0).1)));
        let b = tier.bandwidth.as_mut().unwrap();
        b.value = Bandwidth(rate * (1.0 + 0.02 * off[1]));
        let (low, high) = ends(b.value.0);
        (b.low, b.high) = (Some(Bandwidth(low)), Some(Bandwidth(high)));
        one
    }

    #[test]
    fn an_unchanged_machine_is_called_changed_once_in_a_hundred_times() {
        let mut random = Random::new(1);
        let mut drawn = || measured(1e-5, 1e9, [random.normal(), random.normal()]);
        let alarms = (0..4000).filter(|_| diff(&drawn(), &drawn()).is_significant()).count();
        assert!((8..=48).contains(&alarms), "{alarms} of 4000");
    }

    #[test]
    fn what_moved_is_named_and_what_did_not_is_said_to_be_the_same() {
        let before = measured(1e-5, 1e9, [0.0, 0.0]);
        let found = diff(&before, &measured(1.2e-5, 1e9, [0.0, 0.0]));
        let moved: Vec<Moved> = found.changes.iter().map(|c| c.moved).collect();
        assert_eq!(moved, [Moved::Changed, Moved::Unknown], "{found:?}");
        assert!(found.is_significant() && found.judged == 2);
        let mut sure = before.clone();
        for tier in &mut sure.tiers {
            let b = tier.bandwidth.as_mut().unwrap();
            (b.low, b.high) = (Some(b.value * Ratio(0.99)), Some(b.value * Ratio(1.01)));
        }
        let found = diff(&sure, &sure);
        assert_eq!(found.changes[1].moved, Moved::Unchanged);
        assert!(!found.is_significant());
    }

    /// What has no interval may be a guess, and an interval counts on the side of the other value.
    #[test]
    fn a_value_without_interval_is_not_exact() {
        let launch = |value: f64, ends: Option<(f64, f64)>| {
            let mut one = measured(1e-5, 1e9, [0.0, 0.0]);
            let alpha = one.tiers[0].alpha.as_mut().unwrap();
            alpha.value = Seconds(value * 1e-6);
            (alpha.low, alpha.high) = ends.map_or((None, None), |(low, high)| {
                (Some(Seconds(low * 1e-6)), Some(Seconds(high * 1e-6)))
            });
            one
        };
        let guess = launch(5.0, None);
        let found = diff(&guess, &launch(4.3, Some((4.3, 4.8))));
        assert_eq!((found.changes[0].z, found.judged), (None, 1));
        assert!(!found.is_significant(), "{found:?}");
        let exact = launch(5.0, Some((5.0, 5.0)));
        let z = diff(&exact, &launch(4.3, Some((4.3, 4.8)))).changes[0].z.unwrap();
        assert!((z.0 + 0.7 / 0.5 * HALF_WIDTH).abs() < 1e-9, "{z:?}");
        // An interval that ends at its value is not exact on that side.
        let z = diff(&launch(4.0, Some((4.0, 4.0))), &launch(4.3, Some((4.3, 4.8)))).changes[0].z;
        assert!((z.unwrap().0 - 0.3 / 0.25 * HALF_WIDTH).abs() < 1e-9, "{z:?}");
    }

    #[test]
    fn what_has_no_value_differs_or_does_not() {
        let one = Profile::builtin("dgx-h100").unwrap();
        assert_eq!(diff(&one, &one).restated, []);
        let mut other = one.clone();
        other.tiers[1].nics = std::num::NonZeroU32::new(4);
        let found = diff(&one, &other);
        assert!(found.is_significant(), "{found:?}");
        let [nics] = &found.restated[..] else { panic!("{found:?}") };
        assert_eq!((nics.tier.as_deref(), nics.key.as_str()), (Some("NDR 400G"), "nics"));
        assert_eq!((nics.old.as_deref(), nics.new.as_deref()), (Some("8"), Some("4")));
        // What a fit found without an interval is named, and nothing is said of chance.
        let mut other = one.clone();
        let (below, bandwidth) = (crate::base::quantity::Bytes(64 << 10), Some(Bandwidth(5e9)));
        other.tiers[1].knots = vec![crate::machine::link::Knot { below, bandwidth }];
        let found = diff(&one, &other);
        assert!(!found.is_significant(), "{found:?}");
        let [knots] = &found.restated[..] else { panic!("{found:?}") };
        assert_eq!(knots.new.as_deref(), Some("5 GB/s below 64 KiB"));
        assert_eq!(knots.moved, Moved::Unknown);
        // A tier that is gone is told once.
        let mut other = one.clone();
        other.tiers.truncate(1);
        let gone: Vec<_> = diff(&one, &other).restated;
        assert!(gone.iter().all(|r| r.key == "span" && r.new.is_none()), "{gone:?}");
        assert_eq!(gone.len(), 1);
    }

    /// Two moves of 2.6 deviations: neither alone is significant, both together are.
    #[test]
    fn small_moves_add_up() {
        let far = 2.65 * f64::sqrt(2.0);
        let found = diff(&measured(1e-5, 1e9, [0.0, 0.0]), &measured(1e-5, 1e9, [far, far]));
        assert!(found.changes.iter().all(|c| c.moved != Moved::Changed), "{found:?}");
        assert!(found.is_significant(), "{found:?}");
    }
}
