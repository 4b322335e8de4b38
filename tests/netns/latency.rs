//! α: a latency that was put in is found again, and what is there is the same in every launch.

use std::time::Duration;

use collcost::machine::sample::Samples;
use collcost::measure::fit::{Asked, Fitted, Statistic, fit};
use collcost::model::algorithm::Registry;
use collcost::run::launch::usable;
use collcost::run::transport::{Delay, Wait};

use crate::measure::{measured, setup};
use crate::network::{Cap, Network};
use crate::table::{Table, percent};

/// Few messages and many, and none that adds much.
const OPS: &[&str] = &[
    "one-way",
    "shift",
    "broadcast/binomial",
    "reducescatter/ring",
    "alltoall/pairwise",
    "allreduce/ring",
];
const INJECTED: Duration = Duration::from_micros(500);

/// Latency below, and enough bytes above for β to be its own.
const SIZES: &[u64] = &[8, 16, 32, 64, 512 << 10, 768 << 10, 1 << 20];
/// For the blocks of a launch.
const LAUNCH: Duration = Duration::from_secs(8);

fn fitted(samples: &Samples, statistic: Statistic) -> Fitted {
    let asked = Asked { statistic: Some(statistic), draws: 100, ..Asked::default() };
    fit(&Registry::builtin(), samples, &asked).unwrap_or_else(|e| panic!("{e}"))
}

/// α grows by what every message is held up.
pub fn injected(table: &mut Table) {
    let cpus = usable().map_or(1, |usable| usable.at_once);
    for (n, how) in [(2, Wait::Spin), (2, Wait::Poll), (4, Wait::Poll)] {
        if how == Wait::Spin && cpus < n as usize {
            continue;
        }
        let network = Network::new(n, Cap::Mbit(200)).unwrap_or_else(|e| panic!("{e}"));
        let delay = Delay { time: INJECTED, how };
        let n = u32::from(n);
        let wait = if cpus < n as usize { Wait::Poll } else { Wait::Spin };
        let measured =
            |delay| measured(setup(&network, n, wait, delay), (OPS, SIZES), 2, 2 * LAUNCH);
        let (plain, _) = measured(None);
        let (held_up, held) = measured(Some(delay));
        let held = held.expect("messages were held up").0;
        let way = if how == Wait::Spin { "spun" } else { "slept" };
        // Asleep each message has a time of its own, of which the median is recorded.
        let spun = [Statistic::Typical, Statistic::Floor];
        let statistics = if how == Wait::Spin { &spun[..] } else { &spun[..1] };
        for &statistic in statistics {
            let alpha = |samples| fitted(samples, statistic).alpha().0;
            let (without, with) = (alpha(&plain), alpha(&held_up));
            let error = (with - without) / held - 1.0;
            let seen = format!(
                "{}: α {:.1} → {:.1} µs, held up {:.1} µs",
                percent(error),
                1e6 * without,
                1e6 * with,
                1e6 * held
            );
            let name = statistic.id();
            let quantity = format!("injected α, 500 µs {way}, N = {n}, {name}");
            let aim = if how == Wait::Spin { 0.03 } else { 0.05 };
            table.within(quantity, (0.10, aim), error, seen);
        }
    }
}

/// α of each of several launches against their median.
pub fn launches(table: &mut Table) {
    let cpus = usable().map_or(1, |usable| usable.at_once);
    let network = Network::new(2, Cap::Mbit(200)).unwrap_or_else(|e| panic!("{e}"));
    if cpus >= 2 {
        let alphas = alphas(&network, Wait::Spin, Statistic::Typical);
        let (worst, seen) = spread(&alphas);
        let quantity = "α launch to launch, spinning, windows, pinned, N = 2";
        table.within(quantity, (0.15, 0.05), worst, seen);
    }
    let alphas = alphas(&network, Wait::Poll, Statistic::Floor);
    let (worst, seen) = spread(&alphas);
    table.within("floor of α launch to launch, polling, N = 2", (0.30, 0.10), worst, seen);
}

fn alphas(network: &Network, wait: Wait, statistic: Statistic) -> Vec<f64> {
    let one = |_| {
        let (samples, _) = measured(setup(network, 2, wait, None), (OPS, SIZES), 1, LAUNCH);
        1e6 * fitted(&samples, statistic).alpha().0
    };
    let mut alphas: Vec<f64> = (0..5).map(one).collect();
    alphas.sort_by(f64::total_cmp);
    alphas
}

/// The largest distance from the median, and all in words.
fn spread(sorted: &[f64]) -> (f64, String) {
    let middle = sorted[sorted.len() / 2];
    let worst = sorted.iter().map(|a| a / middle - 1.0).max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let worst = worst.unwrap_or(0.0);
    let all: Vec<String> = sorted.iter().map(|a| format!("{a:.1}")).collect();
    (worst, format!("{}: {} µs", percent(worst), all.join(", ")))
}
