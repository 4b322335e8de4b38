//! A run that is slowed by 1.5 is never called healthy, and one that takes what is expected never ill:
//! every built-in machine, each collective, one node and several, single sizes and whole curves. A part of
//! them here; all in `.ci/full`.

use std::num::NonZeroU32;
use std::sync::Mutex;

use collcost::Collective;
use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::measure::expect::Expecting;
use collcost::measure::verdict::{Facts, Point, Ruling, Verdict, judge};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Params;

use crate::cores;
use crate::full::one_in;

const SLOWER: f64 = 1.5;
const NODES: [u32; 3] = [1, 2, 4];
/// Single sizes; then those of a curve.
const SINGLE: [u64; 5] = [8 << 10, 1 << 20, 64 << 20, 1 << 30, 8 << 30];

/// How often what was said.
#[derive(Default, Debug, Clone, Copy)]
struct Said {
    healthy: u32,
    ill: u32,
    cannot_tell: u32,
}

fn questions() -> Vec<(String, Collective, u32)> {
    use Collective::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter};
    let names: Vec<String> = Profile::names().map(str::to_owned).collect();
    let each = |name: String| {
        let of = move |collective| {
            let name = name.clone();
            NODES.into_iter().map(move |nodes| (name.clone(), collective, nodes))
        };
        [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast].into_iter().flat_map(of)
    };
    names.into_iter().flat_map(each).collect()
}

/// The question on a machine; none where it has no such layout, or no expectation.
fn query(name: &str, collective: Collective, nodes: u32) -> Option<Query> {
    let profile = Profile::builtin(name).ok()?;
    let machine = Machine::on(&profile, "profile", &Given::default(), collective).ok()?;
    let each = machine.hardware.as_ref().map_or(1, |h| h.span.clamp(1, 8));
    let ranks = NonZeroU32::new(each * nodes).filter(|n| n.get() > 1);
    let layout = Layout { ranks, nodes: NonZeroU32::new(nodes), per_node: None };
    let query = Query::new(machine, collective, Bytes(1), layout, Params::default()).ok()?;
    Some(query).filter(|_| ranks.is_some())
}

/// Judges runs that take `factor` times what is expected: single sizes, and a curve.
fn said(factor: f64, check: impl Fn(&str, &Verdict) + Sync) -> Vec<Said> {
    let registry = Registry::builtin();
    let all: Vec<_> = questions().into_iter().step_by(one_in(300)).collect();
    cores::spread(&all, |(name, collective, nodes)| {
        let mut said = Said::default();
        let Some(query) = query(name, *collective, *nodes) else { return said };
        let Ok(expecting) = Expecting::new(&registry, &query) else { return said };
        let curve = (3..=33).step_by(2).map(|k| Bytes(1 << k)).collect();
        let runs = SINGLE.map(|size| vec![Bytes(size)]).into_iter().chain([curve]);
        for sizes in runs {
            let taken = |&size: &Bytes| (size, Seconds(factor * expecting.time(size).0));
            let times: Vec<(Bytes, Seconds)> = sizes.iter().map(taken).collect();
            let verdict = judge(&registry, &query, None, false, &times, &Facts::default()).unwrap();
            let what = format!(
                "{collective} on {nodes} nodes of {name}, {} sizes to {}",
                sizes.len(),
                sizes[sizes.len() - 1]
            );
            check(&what, &verdict);
            match verdict.ruling {
                Ruling::Healthy => said.healthy += 1,
                Ruling::Ill => said.ill += 1,
                Ruling::CannotTell => said.cannot_tell += 1,
            }
        }
        said
    })
}

/// Whether a time is within what healthy machines are known to take.
fn is_usual(point: &Point, factor: f64) -> bool {
    point.limit().0 / point.expected.time.0 > factor
}

#[test]
fn a_run_slowed_by_one_and_a_half_is_nowhere_healthy() {
    let said = said(SLOWER, |what, verdict| match verdict.ruling {
        Ruling::Healthy => panic!("{what} is called healthy"),
        Ruling::Ill => {}
        // Only where healthy machines are known to lie as far apart.
        Ruling::CannotTell => {
            let wide = verdict.points.iter().any(|p| is_usual(p, SLOWER));
            assert!(wide, "{what}: the band is narrow");
        }
    });
    let sum = |of: fn(&Said) -> u32| said.iter().map(of).sum::<u32>();
    let (ill, cannot_tell) = (sum(|s| s.ill), sum(|s| s.cannot_tell));
    println!("ill {ill}, cannot tell {cannot_tell}");
    assert!(ill > 0 && ill + cannot_tell > 15, "ill {ill}, cannot tell {cannot_tell}");
}

#[test]
fn a_run_that_takes_what_is_expected_is_nowhere_ill() {
    for factor in [1.05, 1.0].into_iter().step_by(one_in(2)) {
        let ill = Mutex::new(Vec::new());
        let said = said(factor, |what, verdict| {
            let usual = verdict.points.iter().all(|p| is_usual(p, factor));
            if usual && verdict.ruling == Ruling::Ill {
                ill.lock().unwrap().push(what.to_owned());
            }
        });
        let ill = ill.into_inner().unwrap();
        assert!(ill.is_empty(), "{factor} times as long: {ill:#?}");
        let healthy: u32 = said.iter().map(|s| s.healthy).sum();
        assert!(healthy > 15, "{factor} times as long: {healthy} healthy");
    }
}
