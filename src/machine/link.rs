//! A measured link: the time of a message on it, for any size and any sharing of its port.
//!
//! ```text
//! t(m) = α + Σ (bytes of m before each knot, and after the last)·β_j / (duplex · part)
//! ```
//!
//! The duplex factor counts for an exchange's bytes above a size: in shared memory the two ranks copy
//! what is shorter one after the other, whichever way it goes.
//!
//! α and the rate define an ideal link, t = α + m/BW, and closed forms are priced with it. The
//! other parameters say how a real link differs from the ideal one; an absent parameter is no
//! difference. All times come from [`Times`], so predictions use exactly what a fit found: there is
//! no second formula.

use std::num::NonZeroU32;

use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};

/// Links of one kind, as far as they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// α: the time of an empty message; absent: unknown.
    pub alpha: Option<Seconds>,
    /// The rate of one port in one direction, of long messages; absent: unknown.
    pub bandwidth: Option<Bandwidth>,
    /// The knots up to which a message's bytes move at other rates, smallest first.
    pub knots: Vec<Knot>,
    /// The rate each way of an exchange over the rate one way …
    pub duplex: Ratio,
    /// … for a message's bytes after this many; those before are as fast in an exchange.
    pub duplex_above: Bytes,
    /// The rate that concurrent messages of one port reach together, fewest first.
    pub sharing: Vec<Share>,
    /// A token bucket on the path.
    pub bucket: Option<Bucket>,
}

/// A byte of a message up to which another rate holds.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knot {
    /// The bytes of a message before this one …
    pub below: Bytes,
    /// … and after the knot before it move at this rate; absent: they cost nothing measurable.
    pub bandwidth: Option<Bandwidth>,
}

/// How a port is shared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// This many messages at once …
    pub flows: NonZeroU32,
    /// … reach together this part of the rate of one.
    pub part: Ratio,
}

/// A token bucket: an idle port accumulates credit, and that many bytes leave at once.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The long-run rate, at which the bucket fills.
    pub rate: Bandwidth,
    /// Bytes that may leave at once.
    pub burst: Bytes,
}

impl Bucket {
    /// Messages of so many bursts show the rate.
    pub const LEAST: u64 = 16;

    /// A stream of data may miss a bucket of up to so many bytes: where ranks share CPUs, it empties while
    /// they wait for one.
    pub const UNSEEN: Bytes = Bytes(256 << 10);

    /// The smallest message that shows the rate.
    #[must_use]
    pub fn settled(&self) -> Bytes {
        Bytes(Self::LEAST * self.burst.0)
    }

    /// The time that a full bucket saves for a larger message: its bytes leave at once.
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

    /// An ideal link with neither parameter known.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            alpha: None,
            bandwidth: None,
            knots: Vec::new(),
            duplex: Ratio(1.0),
            duplex_above: Bytes(0),
            sharing: Vec::new(),
            bucket: None,
        }
    }

    /// The same with only α and the rate, as prices use it.
    #[must_use]
    pub fn ideal(&self) -> Self {
        Self { alpha: self.alpha, bandwidth: self.bandwidth, ..Self::unknown() }
    }

    /// The byte of a message after which the duplex factor holds, unless it holds from the first.
    #[must_use]
    pub fn duplex_after(&self) -> Option<Bytes> {
        Some(self.duplex_above).filter(|above| above.0 > 0)
    }

    /// Whether only α and the rate are known.
    #[must_use]
    pub fn is_ideal(&self) -> bool {
        let Self { alpha: _, bandwidth: _, knots, duplex, duplex_above: _, sharing, bucket } = self;
        knots.is_empty() && duplex.0 >= 1.0 && sharing.is_empty() && bucket.is_none()
    }

    /// Replaces the rate. All other rates are parts of it and scale with it.
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

    /// The link ready for arithmetic; `None` if α or the rate is unknown.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        (self.alpha.is_some() && self.bandwidth.is_some()).then(|| self.times_or_zero())
    }

    /// The same, if the unknown parameters are not used.
    pub(crate) fn times_or_zero(&self) -> Times {
        let last = self.bandwidth.map_or(0.0, |rate| 1.0 / rate.0);
        let each = |knot: &Knot| knot.bandwidth.map_or(0.0, |rate| 1.0 / rate.0);
        let knots = self.knots.iter().map(|knot| (knot.below.0 as f64, each(knot)));
        Times {
            alpha: self.alpha.map_or(0.0, |alpha| alpha.0),
            slopes: Slopes::new(knots, last),
            // An exchange is never faster than one way: a port does not exceed its rate.
            exchange: Exchange {
                slower: 1.0 / self.duplex.0.min(1.0),
                above: self.duplex_above.0 as f64,
            },
            sharing: self.sharing.iter().map(|s| (f64::from(s.flows.get()), s.part.0)).collect(),
            saved: self.bucket.map_or(0.0, |bucket| bucket.gain().0),
        }
    }
}

/// What happens at a port besides a message.
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
}

/// How much longer the bytes of a message take that go both ways.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exchange {
    /// The factor on the time of the bytes …
    pub slower: f64,
    /// … after this many.
    pub above: f64,
}

impl Exchange {
    /// As long as one way.
    pub const AS_ONE_WAY: Self = Self { slower: 1.0, above: 0.0 };
}

/// A link with all parameters known: the time of a message on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    pub(crate) alpha: f64,
    pub(crate) slopes: Slopes,
    exchange: Exchange,
    /// Messages at once, and the part of the rate that they reach.
    sharing: Vec<(f64, f64)>,
    /// The most seconds of transfer that an idle port can save up.
    pub(crate) saved: f64,
}

impl Times {
    /// A link with these coefficients, as a fit tries it.
    pub(crate) fn of(alpha: f64, slopes: Slopes, exchange: Exchange) -> Self {
        Self { alpha, slopes, exchange, sharing: Vec::new(), saved: 0.0 }
    }

    /// The time of one message.
    #[must_use]
    pub fn message(&self, bytes: Volume, traffic: Traffic) -> Seconds {
        Seconds(self.alpha + self.moving(bytes.0, traffic))
    }

    /// The part of that in which its bytes move. With several messages at one port, each takes this
    /// long, one after the other.
    #[inline]
    pub(crate) fn moving(&self, bytes: f64, traffic: Traffic) -> f64 {
        let moving = self.slopes.of(bytes);
        let moving = if traffic.both_ways {
            let quick = self.quick(bytes);
            quick + (moving - quick) * self.exchange.slower
        } else {
            moving
        };
        if self.sharing.is_empty() { moving } else { moving / self.part(traffic.flows.0) }
    }

    /// The part of the time of a message's bytes that is the same in an exchange.
    #[inline]
    pub(crate) fn quick(&self, bytes: f64) -> f64 {
        match self.exchange.above > 0.0 {
            true => self.slopes.of(bytes.min(self.exchange.above)),
            false => 0.0,
        }
    }

    /// Half of a round trip: a message there and one back, one after the other. Behind a token
    /// bucket, each port is idle while the other sends; the credit that it saves shortens its own
    /// transfer.
    #[must_use]
    pub fn in_turns(&self, bytes: Volume) -> Seconds {
        let moving = self.slopes.of(bytes.0);
        let whole = self.alpha + moving;
        // A port is idle for as long as the other sends; it saves up all of its own time, or as
        // much as the bucket holds.
        let rested = (whole / 2.0).max(whole - self.saved);
        Seconds(if self.saved > 0.0 { rested.max(self.alpha) } else { whole })
    }

    /// Whether concurrent messages at one port reach less together than one alone.
    pub(crate) fn is_shared(&self) -> bool {
        !self.sharing.is_empty()
    }

    /// The part of the rate that `flows` messages at one port reach together: the measured part,
    /// linearly interpolated between measured numbers of messages.
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

/// The time of a message's bytes by their position in it: a slope up to each knot, and a last one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slopes {
    /// Seconds per byte after the last knot.
    last: f64,
    /// Where the last slope begins, and the time of the bytes before it; 0 without knots.
    from: f64,
    before: f64,
    /// For each knot: its byte, the time of all bytes before its slope, and seconds per byte.
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

    /// The time of this many bytes.
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

    const EACH_WAY: Traffic = Traffic { both_ways: true, ..Traffic::ALONE };

    #[test]
    fn bytes_cost_what_their_place_in_the_message_says() {
        let times = link().times().unwrap();
        for (bytes, moving) in [(0.0, 0.0), (10.0, 0.0), (15.0, 10.0), (20.0, 20.0), (50.0, 50.0)] {
            let message = times.message(Volume(bytes), Traffic::ALONE);
            assert!((message.0 - 5.0 - moving).abs() < 1e-12, "{bytes}: {message:?}");
        }
        // Both ways a byte takes twice as long, or those after the first do; α is unchanged.
        assert_eq!(times.message(Volume(20.0), EACH_WAY), Seconds(45.0));
        let later = Link { duplex_above: Bytes(15), ..link() }.times().unwrap();
        for (bytes, moving) in [(10.0, 0.0), (15.0, 10.0), (20.0, 30.0), (50.0, 90.0)] {
            let message = later.message(Volume(bytes), EACH_WAY);
            assert!((message.0 - 5.0 - moving).abs() < 1e-12, "{bytes}: {message:?}");
        }
        let three = Traffic { flows: Ratio(3.0), ..Traffic::ALONE };
        assert!((times.message(Volume(20.0), three).0 - 5.0 - 20.0 / 0.6).abs() < 1e-12);
        let many = Traffic { flows: Ratio(9.0), ..Traffic::ALONE };
        assert!((times.message(Volume(20.0), many).0 - 5.0 - 20.0 / 0.4).abs() < 1e-12);
    }

    #[test]
    fn an_ideal_link_is_a_line_to_the_bit() {
        let times = link().ideal().times().unwrap();
        for bytes in [0.1, 3.0, 1e9 / 7.0] {
            assert_eq!(times.moving(bytes, EACH_WAY), bytes * (1.0 / 1.0));
            assert_eq!(times.in_turns(Volume(bytes)), times.message(Volume(bytes), Traffic::ALONE));
        }
        assert!(link().ideal().is_ideal() && !link().is_ideal());
    }

    #[test]
    fn a_port_that_rests_saves_up_to_its_bucket() {
        let times = link().times().unwrap();
        // Half of the time is idle, until the bucket is full; α is unchanged.
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
