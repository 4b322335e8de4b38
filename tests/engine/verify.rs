//! A wrong schedule and a wrong closed form are found, and named.

use collcost::answer::verify::{verify, verify_telling};
use collcost::base::collective::Collective;
use collcost::model::algorithm::Route;
use collcost::model::algorithm::{ClosedForm, Guarantee, Meta, Registry, Share, Step};
use collcost::model::formula::{At, Cost, Field, Shape};
use collcost::model::schedule::{Endpoint, Frame, List, Op, Run, Schedule};

/// A flat broadcast, whole or with a fault.
struct Flat {
    meta: Meta,
    /// The rank that is left out.
    forgets: Option<u32>,
    /// What the closed form says, in messages, more than there are.
    more: i64,
    guarantee: Guarantee,
}

const fn flat(id: &'static str, forgets: Option<u32>, more: i64, guarantee: Guarantee) -> Flat {
    let meta = Meta {
        id,
        title: id,
        collectives: &[Collective::Broadcast],
        aliases: &[],
        known_as: &[],
        summary: "the root tells everybody",
        source: "this test",
    };
    Flat { meta, forgets, more, guarantee }
}

impl ClosedForm for Flat {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = v.n.clone() - F::int(1 - self.more);
        Cost::new(messages.clone(), messages)
    }

    fn guarantee(&self, _: &Shape) -> Guarantee {
        self.guarantee
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.n.clone() - F::int(1)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        emit(Step::new(u64::from(shape.ranks - 1), Share::new(1_u32, 1_u32), Route::Root));
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let mut list = List::new(Frame::new(Collective::Broadcast, shape.ranks, 1, 0));
        for rank in (1..shape.ranks).filter(|&rank| self.forgets != Some(rank)) {
            let (root, rank) = (Endpoint::Rank(0), Endpoint::Rank(rank));
            list.push(0, root, rank, Op::Copy, &[Run::one(0)]);
        }
        Some(Box::new(list))
    }
}

static FORGETFUL: Flat = flat("forgetful", Some(3), 0, Guarantee::Asymptotic);
static WRONG: Flat = flat("wrong", None, 1, Guarantee::Equal);
static LOW: Flat = flat("low", None, -1, Guarantee::UpperBound);

#[test]
fn faults_are_found_and_named() {
    let registry = Registry::builtin().with(&FORGETFUL).with(&WRONG).with(&LOW);
    let try_out = |name| {
        let ranks: Vec<u32> = (1..=6).collect();
        let report = verify(&registry, &[Collective::Broadcast], Some(name), &ranks, &[1]);
        let mut report = report.unwrap();
        assert_eq!((report.failed, report.lines.len()), (1, 1), "{report:?}");
        report.lines.remove(0)
    };
    let fault = try_out("forgetful").fault.unwrap();
    assert_eq!(fault.what, "at the end rank 3 does not hold chunk 0");
    assert_eq!((fault.place.as_str(), fault.rank, fault.chunk), ("4 ranks", Some(3), Some(0)));

    let broken = try_out("wrong").broken.unwrap();
    assert_eq!((broken.guarantee, broken.form_s, broken.makespan_s), (Guarantee::Equal, 3.0, 1.5));
    let broken = try_out("low").broken.unwrap();
    assert_eq!(
        (broken.guarantee, broken.form_s, broken.makespan_s),
        (Guarantee::UpperBound, 0.0, 1.5)
    );
}

#[test]
fn each_algorithm_is_told_before_it_is_verified() {
    let (registry, mut told) = (Registry::builtin(), Vec::new());
    let collectives = [Collective::Gather, Collective::Scatter];
    verify_telling(&registry, &collectives, None, (&[4], &[1]), |next| told.push(next)).unwrap();
    let all = || collectives.iter().flat_map(|&of| registry.of(of).map(move |a| (of, a.meta().id)));
    let names = told.iter().map(|next| (next.collective, next.algorithm));
    assert!(names.eq(all()));
    assert!(
        told.iter().map(|next| (next.done, next.of)).eq((0..told.len()).map(|i| (i, told.len())))
    );
}

#[test]
fn the_registry_is_sound() {
    let ranks: Vec<u32> = (1..=9).collect();
    let report = verify(&Registry::builtin(), Collective::ALL, None, &ranks, &[1, 3]).unwrap();
    let faults: Vec<_> = report.lines.iter().filter(|line| line.fault.is_some()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(report.lines.iter().map(|line| line.compared).sum::<u64>() > 100);
}

/// Too much for the memory that verifying may take is no fault of a schedule.
#[test]
fn what_is_too_large_is_not_at_fault() {
    let registry = Registry::builtin();
    let found = verify(&registry, &[Collective::AllToAll], Some("pairwise"), &[8, 512], &[1]);
    let found = found.unwrap();
    assert_eq!((found.failed, found.unverified), (0, 1));
    let [line] = &found.lines[..] else { panic!("{} lines", found.lines.len()) };
    assert!(!line.ok && line.too_large && line.fault.is_some());
}
