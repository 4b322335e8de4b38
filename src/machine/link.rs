//! A link as it was measured: what a message takes on it, whatever its size and whatever shares
//! its port.
//!
//! ```text
//! t(m) = α + Σ (bytes of m before each knot, and behind the last)·β_j / (duplex · part)
//! ```
//!
//! α and the rate alone make an ideal link, t = α + m/BW, and closed forms are priced on that. The
//! rest says where a real one departs from it; what is absent departs by nothing. Whoever asks for
//! a time asks [`Times`], so that what a fit found is what predicts: there is no second formula.

use std::num::NonZeroU32;

use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};

/// Links of one kind, as far as they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// α: the time of an empty message; absent: unknown.
    pub alpha: Option<Seconds>,
    /// The rate of one port in one direction, of long messages; absent: unknown.
    pub bandwidth: Option<Bandwidth>,
    /// Where the first bytes of a message move at other rates, from the smallest on.
    pub knots: Vec<Knot>,
    /// The rate each way of an exchange over the rate one way.
    pub duplex: Ratio,
    /// What messages out of one port at once reach together, from the fewest on.
    pub sharing: Vec<Share>,
    /// A token bucket on the way.
    pub bucket: Option<Bucket>,
}

/// Up to which byte of a message the rate is another.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knot {
    /// The bytes of a message before this one …
    pub below: Bytes,
    /// … and behind the knot before it move at this rate; absent: they cost nothing measurable.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
}

/// How a port is shared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// So many messages at once …
    pub flows: NonZeroU32,
    /// … reach together this part of the rate of one.
    pub part: Ratio,
}

/// A token bucket: a port that rests saves up, and what it has saved leaves at once.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The long-run rate, at which it fills.
    pub rate: Bandwidth,
    /// Bytes that may leave at once.
    pub burst: Bytes,
}

impl Bucket {
    /// The message from which on the bucket is no more than a sixteenth of it.
    #[must_use]
    pub fn settled(&self) -> Bytes {
        Bytes(16 * self.burst.0)
    }

    /// What a full bucket takes off a message that is larger: it leaves at once.
    #[must_use]
    pub fn gain(&self) -> Seconds {
        Volume::from(self.burst) / self.rate
    }
}

impl Link {
    /// An ideal link.
    #[must_use]
    pub fn new(alpha: Seconds, bandwidth: Bandwidth) -> Self {
        Self { alpha: Some(alpha), bandwidth: Some(bandwidth), ..Self::unknown() }
    }

    /// An ideal link of which neither figure is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            alpha: None,
            bandwidth: None,
            knots: Vec::new(),
            duplex: Ratio(1.0),
            sharing: Vec::new(),
            bucket: None,
        }
    }

    /// The same with nothing but α and the rate: what prices take.
    #[must_use]
    pub fn ideal(&self) -> Self {
        Self { alpha: self.alpha, bandwidth: self.bandwidth, ..Self::unknown() }
    }

    /// Whether α and the rate are all that is known of it.
    #[must_use]
    pub fn is_ideal(&self) -> bool {
        let Self { alpha: _, bandwidth: _, knots, duplex, sharing, bucket } = self;
        knots.is_empty() && duplex.0 >= 1.0 && sharing.is_empty() && bucket.is_none()
    }

    /// Replaces the rate. All other rates are parts of it, and move with it.
    pub fn set_bandwidth(&mut self, rate: Bandwidth) {
        if let Some(old) = self.bandwidth {
            let factor = Ratio(rate.0 / old.0);
            for knot in &mut self.knots {
                knot.bandwidth = knot.bandwidth.map(|own| own * factor);
            }
            if let Some(bucket) = &mut self.bucket {
                bucket.rate = bucket.rate * factor;
            }
        }
        self.bandwidth = Some(rate);
    }

    /// The link ready for arithmetic; nothing where α or the rate is unknown.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        (self.alpha.is_some() && self.bandwidth.is_some()).then(|| self.times_or_zero())
    }

    /// The same, where what is unknown is not asked for.
    pub(crate) fn times_or_zero(&self) -> Times {
        let last = self.bandwidth.map_or(0.0, |rate| 1.0 / rate.0);
        let each = |knot: &Knot| knot.bandwidth.map_or(0.0, |rate| 1.0 / rate.0);
        let knots = self.knots.iter().map(|knot| (knot.below.0 as f64, each(knot)));
        Times {
            alpha: self.alpha.map_or(0.0, |alpha| alpha.0),
            slopes: Slopes::new(knots, last),
            // Exchanges that are no slower are as fast: a port never does more than its rate.
            slower: 1.0 / self.duplex.0.min(1.0),
            sharing: self.sharing.iter().map(|s| (f64::from(s.flows.get()), s.part.0)).collect(),
            saved: self.bucket.map_or(0.0, |bucket| bucket.gain().0),
        }
    }
}

/// What goes on at a port beside a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// Whether the rank receives while it sends.
    pub both_ways: bool,
    /// Messages that leave the port at once, this one among them.
    pub flows: Ratio,
}

impl Traffic {
    /// One message one way.
    pub const ALONE: Self = Self { both_ways: false, flows: Ratio(1.0) };
    /// One message each way.
    pub const EXCHANGE: Self = Self { both_ways: true, flows: Ratio(1.0) };
}

/// A link of which all figures are numbers: what a message takes on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    pub(crate) alpha: f64,
    pub(crate) slopes: Slopes,
    /// By how much bytes take longer where they go both ways.
    slower: f64,
    /// Messages at once, and the part that they reach.
    sharing: Vec<(f64, f64)>,
    /// Seconds that a port saves up while it rests, at most.
    pub(crate) saved: f64,
}

impl Times {
    /// A link of these coefficients: what a fit tries.
    pub(crate) fn of(alpha: f64, slopes: Slopes, slower: f64) -> Self {
        Self { alpha, slopes, slower, sharing: Vec::new(), saved: 0.0 }
    }

    /// What one message takes.
    #[must_use]
    pub fn message(&self, bytes: Volume, traffic: Traffic) -> Seconds {
        Seconds(self.alpha + self.moving(bytes.0, traffic))
    }

    /// The part of that in which its bytes move. Of several at one port each takes so long, one
    /// after the other.
    #[inline]
    pub(crate) fn moving(&self, bytes: f64, traffic: Traffic) -> f64 {
        let moving = self.slopes.of(bytes);
        let moving = if traffic.both_ways { moving * self.slower } else { moving };
        if self.sharing.is_empty() { moving } else { moving / self.part(traffic.flows.0) }
    }

    /// One of a message there and one back, one after the other. Behind a bucket each port rests
    /// while the other sends, and has saved up what it then need not wait.
    #[must_use]
    pub fn in_turns(&self, bytes: Volume) -> Seconds {
        let moving = self.slopes.of(bytes.0);
        let whole = self.alpha + moving;
        // It rests for as long as the other sends: all of its own time, or what a bucket holds.
        let rested = (whole / 2.0).max(whole - self.saved);
        Seconds(if self.saved > 0.0 { rested.max(self.alpha) } else { whole })
    }

    /// Whether messages at one port reach less together than one alone.
    pub(crate) fn is_shared(&self) -> bool {
        !self.sharing.is_empty()
    }

    /// The part of the rate that `flows` messages at one port reach together: what was measured,
    /// and between two such numbers what lies on their line.
    pub(crate) fn part(&self, flows: f64) -> f64 {
        let mut below = (1.0, 1.0);
        for &(k, part) in &self.sharing {
            if flows <= k {
                let along = if k > below.0 { (flows - below.0) / (k - below.0) } else { 1.0 };
                return below.1 + along.max(0.0) * (part - below.1);
            }
            below = (k, part);
        }
        below.1
    }
}

/// The time of a message's bytes by where they lie in it: a slope up to each knot, and a last one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slopes {
    /// Seconds a byte behind the last knot.
    last: f64,
    /// Where the last slope begins, and the time of what comes before; 0 without knots.
    from: f64,
    before: f64,
    /// Of each knot its byte, the time of all before its slope, and seconds per byte.
    knots: Box<[(f64, f64, f64)]>,
}

impl Slopes {
    /// Slopes up to each knot, in order, and the last one.
    pub fn new(knots: impl IntoIterator<Item = (f64, f64)>, last: f64) -> Self {
        let (mut from, mut before) = (0.0, 0.0);
        let knots = knots.into_iter().map(|(to, each)| {
            let knot = (to, before - from * each, each);
            before += (to - from) * each;
            from = to;
            knot
        });
        let knots = knots.collect();
        Self { last, from, before, knots }
    }

    /// The same, each slope `factor` times as steep.
    pub fn scaled(mut self, factor: f64) -> Self {
        self.last *= factor;
        self.before *= factor;
        for (_, start, each) in &mut self.knots {
            *start *= factor;
            *each *= factor;
        }
        self
    }

    /// The time of so many bytes.
    #[inline]
    pub fn of(&self, bytes: f64) -> f64 {
        for &(to, start, each) in &self.knots {
            if bytes <= to {
                return start + bytes * each;
            }
        }
        self.before + (bytes - self.from) * self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        let knot = |below, rate| Knot { below: Bytes(below), bandwidth: rate };
        let share = |flows, part| Share { flows: NonZeroU32::new(flows).unwrap(), part };
        Link {
            knots: vec![knot(10, None), knot(20, Some(Bandwidth(0.5)))],
            duplex: Ratio(0.5),
            sharing: vec![share(2, Ratio(0.8)), share(4, Ratio(0.4))],
            bucket: Some(Bucket { rate: Bandwidth(1.0), burst: Bytes(30) }),
            ..Link::new(Seconds(5.0), Bandwidth(1.0))
        }
    }

    #[test]
    fn bytes_cost_what_their_place_in_the_message_says() {
        let times = link().times().unwrap();
        for (bytes, moving) in [(0.0, 0.0), (10.0, 0.0), (15.0, 10.0), (20.0, 20.0), (50.0, 50.0)] {
            let message = times.message(Volume(bytes), Traffic::ALONE);
            assert!((message.0 - 5.0 - moving).abs() < 1e-12, "{bytes}: {message:?}");
        }
        // Both ways a byte takes twice as long; α is what it is.
        assert_eq!(times.message(Volume(20.0), Traffic::EXCHANGE), Seconds(45.0));
        let three = Traffic { flows: Ratio(3.0), ..Traffic::ALONE };
        assert!((times.message(Volume(20.0), three).0 - 5.0 - 20.0 / 0.6).abs() < 1e-12);
        let many = Traffic { flows: Ratio(9.0), ..Traffic::ALONE };
        assert!((times.message(Volume(20.0), many).0 - 5.0 - 20.0 / 0.4).abs() < 1e-12);
    }

    #[test]
    fn an_ideal_link_is_a_line_to_the_bit() {
        let times = link().ideal().times().unwrap();
        for bytes in [0.1, 3.0, 1e9 / 7.0] {
            assert_eq!(times.moving(bytes, Traffic::EXCHANGE), bytes * (1.0 / 1.0));
            assert_eq!(times.in_turns(Volume(bytes)), times.message(Volume(bytes), Traffic::ALONE));
        }
        assert!(link().ideal().is_ideal() && !link().is_ideal());
    }

    #[test]
    fn a_port_that_rests_saves_up_to_its_bucket() {
        let times = link().times().unwrap();
        // Half of the time is rest, until the bucket is full; α stays.
        for (bytes, time) in [(1.0, 5.0), (20.0, 12.5), (55.0, 30.0), (100.0, 75.0)] {
            assert_eq!(times.in_turns(Volume(bytes)), Seconds(time), "{bytes}");
        }
    }

    #[test]
    fn all_rates_move_with_the_link() {
        let mut link = link();
        link.set_bandwidth(Bandwidth(2.0));
        let times = link.times().unwrap();
        assert_eq!(times.message(Volume(50.0), Traffic::ALONE), Seconds(30.0));
        assert_eq!(link.bucket.unwrap().gain(), Seconds(15.0));
    }
}
