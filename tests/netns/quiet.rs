//! Whether the machine had other things to do while something was measured.

use std::fs;
use std::time::{Duration, Instant};

/// How often something is measured on a machine that has.
const TRIES: u32 = 4;
/// From which part of the processors' time on others had too much of it.
const MUCH: f64 = 0.003;
/// From which part on they had so much that what was measured says nothing.
const MOST: f64 = 0.02;
/// From which part on measuring again is a waste of time.
const HOPELESS: f64 = 0.2;

/// What was measured last, and the part of the processors' time that others had, if it is so large
/// that nothing follows from a limit that does not hold.
pub struct Measured<T> {
    /// What was seen.
    pub seen: T,
    /// What others had.
    pub disturbed: Option<f64>,
}

/// Measures; what does not hold while others had the processors is measured again, and the last is
/// what counts. On a quiet machine the first is.
pub fn measured<T>(mut measure: impl FnMut() -> T, holds: impl Fn(&T) -> bool) -> Measured<T> {
    let mut tries = 1;
    loop {
        let watch = Watch::start();
        let seen = measure();
        let others = watch.others();
        let again = (MUCH..=HOPELESS).contains(&others);
        if holds(&seen) || !again || tries == TRIES {
            return Measured { seen, disturbed: (others > MOST).then_some(others) };
        }
        tries += 1;
        eprintln!("measured again: others had {:.1} % of the processors' time", 100.0 * others);
    }
}

/// Since when, and what others had had until then.
struct Watch {
    began: Instant,
    /// Time of all processors that a hypervisor gave to others, in ticks, and all their time.
    stolen: (f64, f64),
    /// Time in which some process waited for a processor.
    waited: Duration,
}

impl Watch {
    fn start() -> Self {
        Self { began: Instant::now(), stolen: stolen(), waited: waited() }
    }

    /// The part of the time since that others had: stolen, or such that processes waited.
    fn others(&self) -> f64 {
        let (now, before) = (stolen(), self.stolen);
        let stolen = (now.0 - before.0) / (now.1 - before.1).max(1.0);
        let waited = waited().saturating_sub(self.waited).as_secs_f64();
        // What a test's own ranks wait for each other is some of it.
        stolen.max(waited / self.began.elapsed().as_secs_f64() - 0.02)
    }
}

fn stolen() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    (ticks.get(7).copied().unwrap_or(0.0), ticks.iter().take(8).sum())
}

fn waited() -> Duration {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = text.lines().find_map(|line| line.strip_prefix("some "));
    let total = some.and_then(|line| line.split("total=").nth(1)).and_then(|t| t.parse().ok());
    Duration::from_micros(total.unwrap_or(0))
}
