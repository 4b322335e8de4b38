//! A run that is slowed by 1.5 is never called healthy: every built-in machine, each collective, one node
//! and several, single sizes and whole curves. A part of them here; all in `.ci/full`.

use std::num::NonZeroU32;

use collcost::Collective;
use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::measure::expect::Expecting;
use collcost::measure::verdict::{Facts, Ruling, judge};
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

#[test]
fn a_run_slowed_by_one_and_a_half_is_nowhere_healthy() {
    let registry = Registry::builtin();
    let all: Vec<_> = questions().into_iter().step_by(one_in(167)).collect();
    let said = cores::spread(&all, |(name, collective, nodes)| {
        let mut said = Said::default();
        let Some(query) = query(name, *collective, *nodes) else { return said };
        let Ok(expecting) = Expecting::new(&registry, &query) else { return said };
        let curve = (3..=33).step_by(2).map(|k| Bytes(1 << k)).collect();
        let runs = SINGLE.map(|size| vec![Bytes(size)]).into_iter().chain([curve]);
        for sizes in runs {
            let slowed = |&size: &Bytes| (size, Seconds(SLOWER * expecting.time(size).0));
            let times: Vec<(Bytes, Seconds)> = sizes.iter().map(slowed).collect();
            let verdict = judge(&registry, &query, None, false, &times, &Facts::default()).unwrap();
            let what = format!(
                "{collective} on {nodes} nodes of {name}, {} sizes to {}",
                sizes.len(),
                sizes[sizes.len() - 1]
            );
            match verdict.ruling {
                Ruling::Healthy => panic!("{what} is called healthy"),
                Ruling::Ill => said.ill += 1,
                Ruling::CannotTell => {
                    // Only where healthy machines are known to lie as far apart.
                    let wide = |p: &collcost::measure::verdict::Point| {
                        p.limit().0 / p.expected.time.0 > SLOWER
                    };
                    assert!(verdict.points.iter().any(wide), "{what}: the band is narrow");
                    said.cannot_tell += 1;
                }
            }
        }
        said
    });
    let sum = |of: fn(&Said) -> u32| said.iter().map(of).sum::<u32>();
    let (ill, cannot_tell) = (sum(|s| s.ill), sum(|s| s.cannot_tell));
    println!("ill {ill}, cannot tell {cannot_tell}");
    assert!(ill > 0 && ill + cannot_tell > 15, "ill {ill}, cannot tell {cannot_tell}");
}
