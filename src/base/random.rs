//! Random numbers that are the same on every machine: the seed decides.

/// The step of `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014) from one state to the next.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What `SplitMix64` makes of a state.
pub(crate) fn mixed(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Marsaglia's xorshift64*, with Vigna's multiplier.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A separate sequence for each seed, 0 included.
    pub(crate) fn new(seed: u64) -> Self {
        // So that seeds 1 and 2 do not begin alike.
        Self(mixed(seed.wrapping_add(STEP)).max(1))
    }

    /// The sequence for one of several things that are drawn from the same seed.
    pub(crate) fn of(seed: u64, thing: u64) -> Self {
        Self::new(Self::new(seed).next() ^ thing)
    }

    /// Approximately normal, with mean 0 and standard deviation 1: the sum of twelve uniform draws.
    /// It uses no function that machines round differently.
    pub(crate) fn normal(&mut self) -> f64 {
        let even = |_| (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(even).sum::<f64>() - 6.0
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A whole number below `end`, which is above 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Shuffles `things`; every order is equally likely (Fisher, Yates).
    #[cfg(all(feature = "exec", target_os = "linux"))]
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for end in (1..things.len()).rev() {
            things.swap(end, self.below(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_drawn_about_as_often() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|_| counts[random.below(10)] += 1);
        assert!(counts.iter().all(|c| (850..1150).contains(c)), "{counts:?}");
        assert_ne!(Random::new(1).next(), Random::new(2).next());
    }

    #[test]
    fn normal_draws_have_mean_0_and_deviation_1() {
        let mut random = Random::of(3, 7);
        let draws: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let square = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.03, "{mean} {square}");
        assert_ne!(Random::of(1, 2).next(), Random::of(2, 1).next());
    }
}
