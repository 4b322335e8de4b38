//! Gloo's all-reduces: two rings, halving-doubling over binary blocks, bcube.
//!
//! ```text
//!   ring, chunked    0 ─► 1 ─► 2 ─► … ─► 0      whole vectors, or pairs of chunks of M/2N
//!
//!   halving-doubling, N = 13 = 8 + 4 + 1
//!     blocks          [ 8 ranks ] [ 4 ] [1]     each halves by itself
//!     hand over            ◄──── ◄────          its share goes to the next larger block
//!     hand back            ────► ────►          the sums come back, and each block doubles
//!
//!   bcube, B = 3      digit s of the rank       exchange with the B − 1 ranks that differ there
//! ```
//!
//! `gloo-ring`: the whole vector goes around the ring, (N − 1)(α + M/BW). 001 counts P·S bytes
//! instead of (P − 1)·S. `gloo-ring-chunked`: a ring of 2N chunks, each chunk of a pair in its own
//! round, 4(N − 1)(α + M/(2N·BW)), twice the latency of the plain ring; 001 counts 4P steps and 2S
//! bytes (K10). Exact on full-duplex ports. On one half-duplex port an even ring takes ×2, an odd
//! one ×3 at most.
//!
//! `gloo-halving-doubling`: at N = 2^m Rabenseifner's 2·⌊lg N⌋·α + 2(N − 1)/N·M/BW. Otherwise,
//! round by round on one port with p = 2^⌊lg N⌋, the size of the largest block:
//! (2·⌊lg N⌋ + 2·messages(N))·α + (exchanged(N) + 2·handed(N))/p·M/BW, where
//! - messages(N) = Σ s/s′ over neighbouring blocks of sizes s > s′: a rank of the smaller block
//!   sends its share to s/s′ ranks, one after another;
//! - handed(N) = Σ p/s′, the chunks of M/p that it sends;
//! - exchanged(N): the chunks exchanged inside blocks, the maximum over all blocks in each round. All
//!   blocks halve alike, but they double from different shares.
//!
//! An upper bound without a barrier after each round, since blocks run ahead of each other.
//!
//! `bcube` with base B = `radix` (2): m = log(B, N) steps each way, (B − 1) messages in each. On k
//! ports w = ⌈(B − 1)/k⌉ of them one after another: 2·w·m·α + 2·w/(B − 1)·(N − 1)/N·M/BW.

mod binary_blocks;

use super::rounds::{
    back, digit_guarantee, digit_steps, digit_waves, digits, exchange_turns, gather_cost,
    gather_sent, gather_steps, levels, log, on, repeat, ring_turns,
};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::AllReduce;
use crate::model::formula::{At, Cost, Field, Function, Named, Shape, floor_lg};
use crate::model::schedule::digits::{Order, Shares};
use crate::model::schedule::{Endpoint, Frame, Layout, Op, Run, Schedule, Sends, modulo};

/// Gloo's all-reduces.
pub static FAMILY: &[&dyn Algorithm] = &[&Ring, &Chunked, &HalvingDoubling, &Bcube];

/// Whole vectors around the ring.
struct Ring;

impl ClosedForm for Ring {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "gloo-ring",
            title: "Gloo ring",
            collectives: &[AllReduce],
            aliases: &["gloo_ring", "gloo_ring_ar"],
            known_as: &[(Library::Gloo, &[AllReduce], "allreduce_ring")],
            summary: "every rank forwards the vector it received last and adds it to its own",
            source: "Gloo (facebookincubator/gloo), allreduce_ring.h",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = F::int(ring_turns(&v.shape).into()) * v.others();
        Cost::new(messages.clone(), messages).reducing(v.others())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let step = Step::new(shape.ranks - 1, Share::ALL, Route::Offset(1));
        repeat(step.reducing(), ring_turns(shape), emit);
    }

    /// 001 lists P − 1 steps and P·S bytes.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        Some(Cost::new(v.others(), v.n.clone()))
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(WholeVectors { ranks: shape.ranks }))
    }
}

/// In round t rank i forwards the vector of rank i − t unchanged, and adds it to its own sum.
#[derive(Debug, Clone, Copy)]
struct WholeVectors {
    ranks: u32,
}

impl Schedule for WholeVectors {
    fn frame(&self) -> Frame {
        let rounds = u64::from(self.ranks).saturating_sub(1);
        let frame = Frame::new(AllReduce, self.ranks, 1, rounds).turning();
        Frame { layout: Layout::Owned, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let vector = back(rank, modulo(round, self.ranks), self.ranks);
        out.push(Endpoint::Rank(on(rank, 1, self.ranks)), Op::Copy, [Run::one(vector)]);
    }
}

/// Pairs of chunks around the ring.
struct Chunked;

impl ClosedForm for Chunked {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "gloo-ring-chunked",
            title: "Gloo chunked ring",
            collectives: &[AllReduce],
            aliases: &["gloo_ring_chunked", "gloo_ring_chunked_ar"],
            known_as: &[(Library::Gloo, &[AllReduce], "allreduce_ring_chunked")],
            summary: "a ring reduce-scatter and all-gather of 2N chunks, two per rank",
            source: "Gloo (facebookincubator/gloo), allreduce_ring_chunked.h",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = F::int((4 * ring_turns(&v.shape)).into()) * v.others();
        let beta = F::int((2 * ring_turns(&v.shape)).into()) * v.others() / v.n.clone();
        Cost::new(messages, beta).reducing(v.others_share())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let share = Share::new(1_u32, 2 * u64::from(shape.ranks));
        let step = Step::new(2 * (shape.ranks - 1), share, Route::Offset(1));
        gather_steps(shape, &[step], ring_turns(shape), emit);
    }

    /// 001 lists 4P steps and 2S bytes.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        Some(Cost::new(F::int(4) * v.n.clone(), F::int(2)))
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let chunks = shape.ranks.checked_mul(2)?;
        Some(Box::new(ChunkPairs { ranks: shape.ranks, chunks }))
    }
}

/// The ring of pairs 2c and 2c + 1: in rounds 2t and 2t + 1 rank i sends the chunks of pair i − t.
#[derive(Debug, Clone, Copy)]
struct ChunkPairs {
    ranks: u32,
    chunks: u32,
}

impl Schedule for ChunkPairs {
    fn frame(&self) -> Frame {
        let rounds = 4 * u64::from(self.ranks).saturating_sub(1);
        Frame::new(AllReduce, self.ranks, self.chunks, rounds).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let step = round / 2;
        let op = if step + 1 < n.into() { Op::Reduce } else { Op::Copy };
        let chunk = 2 * back(rank, modulo(step, n), n) + modulo(round, 2);
        out.push(Endpoint::Rank(on(rank, 1, n)), op, [Run::one(chunk)]);
    }
}

/// Halving and doubling inside blocks of 2^k ranks.
struct HalvingDoubling;

impl ClosedForm for HalvingDoubling {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "gloo-halving-doubling",
            title: "Gloo halving-doubling",
            collectives: &[AllReduce],
            aliases: &["gloo_hd", "gloo_hd_ar"],
            known_as: &[(Library::Gloo, &[AllReduce], "allreduce_halving_doubling")],
            summary: "blocks of 2^k ranks halve, pass their sums to the largest block, then double",
            source: "Gloo (facebookincubator/gloo), allreduce_halving_doubling.h",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        if v.shape.is_power_of_two() {
            return gather_cost(v, v.floor_lg(), exchange_turns(&v.shape));
        }
        let n = [u64::from(v.shape.ranks)];
        let call =
            |named: &'static Named| F::call(Function::Named(named), &[&v.n], (named.rule)(&n));
        let two = || F::int(2);
        let alpha = turns.clone() * two() * v.floor_lg() + two() * call(&MESSAGES);
        let chunks = turns * call(&EXCHANGED) + two() * call(&HANDED);
        let gamma = (v.power_below() - F::int(1) + call(&ADDED)) / v.power_below();
        Cost::new(alpha, chunks / v.power_below()).reducing(gamma)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match shape.is_power_of_two() {
            true => Guarantee::in_pairs(shape),
            false => Guarantee::UpperBound,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let sizes: Vec<u64> = blocks(v.shape.ranks.into()).collect();
        match sizes.len() {
            1 => gather_sent(v),
            // A rank of the largest block also hands one chunk back.
            2 => F::int(2) - F::int(1) / v.power_below(),
            // A rank of a middle block sends its share on, and one chunk back.
            _ => F::int(2),
        }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let sizes: Vec<u64> = blocks(shape.ranks.into()).collect();
        let (p, turns) = (1_u64 << floor_lg(shape.ranks), exchange_turns(shape));
        let levels = floor_lg(shape.ranks);
        for k in 0..levels {
            let step = Step::new(1_u32, Share::new(p >> (k + 1), p), Route::Xor(1 << k));
            repeat(step.reducing(), turns, emit);
        }
        let overs = sizes.windows(2).rev().map(|pair| {
            let distance = u32::try_from(pair[0]).unwrap_or(u32::MAX);
            Step::new(pair[0] / pair[1], Share::new(p / pair[0], p), Route::Offset(distance))
        });
        for over in overs.clone() {
            // A rank sends its share in s/s′ messages; each of its receivers adds one.
            emit(Step { count: 1, ..over }.reducing());
            emit(Step { count: over.count - 1, ..over });
        }
        overs.rev().for_each(&mut *emit);
        for j in 0..levels {
            let chunks = doubled(&sizes, p, j);
            let step = Step::new(1_u32, Share::new(chunks, p), Route::Xor(1 << (levels - 1 - j)));
            repeat(step, turns, emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(binary_blocks::Blocks::new(shape.ranks)))
    }
}

/// The powers of two that add up to n, largest first.
fn blocks(n: u64) -> impl Iterator<Item = u64> + Clone {
    (0..u64::BITS).rev().map(|b| 1_u64 << b).filter(move |size| n & size != 0)
}

/// The chunks of M/p exchanged in round j of the all-gather by the block with the most.
fn doubled(sizes: &[u64], p: u64, j: u32) -> u64 {
    sizes.iter().filter(|&&s| s > 1 << j).map(|s| (p / s) << j).max().unwrap_or(0)
}

fn of(arguments: &[u64]) -> (Vec<u64>, u64) {
    let sizes: Vec<u64> = blocks(arguments.first().copied().unwrap_or(0)).collect();
    let p = sizes.first().copied().unwrap_or(1);
    (sizes, p)
}

static MESSAGES: Named = Named {
    name: "messages",
    means: "messages(N) = Σ sᵢ/sᵢ₊₁, where N = s₁ + s₂ + … in powers of two, the largest first",
    rule: messages,
};

fn messages(arguments: &[u64]) -> u64 {
    of(arguments).0.windows(2).map(|pair| pair[0] / pair[1]).sum()
}

static HANDED: Named = Named {
    name: "handed",
    means: "handed(N) = Σ s₁/sᵢ over i > 1, where N = s₁ + s₂ + … in powers of two, the largest first",
    rule: handed,
};

fn handed(arguments: &[u64]) -> u64 {
    let (sizes, p) = of(arguments);
    sizes.iter().skip(1).map(|s| p / s).sum()
}

static EXCHANGED: Named = Named {
    name: "exchanged",
    means: "exchanged(N) = s₁ − 1 + Σ max(2^j·s₁/sᵢ over sᵢ > 2^j) over j < lg s₁, where \
            N = s₁ + s₂ + … in powers of two, the largest first",
    rule: exchanged,
};

fn exchanged(arguments: &[u64]) -> u64 {
    let (sizes, p) = of(arguments);
    p - 1 + (0..p.ilog2()).map(|j| doubled(&sizes, p, j)).sum::<u64>()
}

/// The chunks of M/p that the receivers of the shares add.
static ADDED: Named = Named {
    name: "added",
    means: "added(N) = Σ s₁/sᵢ without the last, where N = s₁ + s₂ + … in powers of two, the largest \
            first",
    rule: added,
};

fn added(arguments: &[u64]) -> u64 {
    let (sizes, p) = of(arguments);
    sizes.windows(2).map(|pair| p / pair[0]).sum()
}

/// Digits of base B.
struct Bcube;

impl ClosedForm for Bcube {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "bcube",
            title: "bcube",
            collectives: &[AllReduce],
            aliases: &["bcube_ar"],
            known_as: &[(Library::Gloo, &[AllReduce], "allreduce_bcube")],
            summary: "in step s ranks that differ in digit s reduce-scatter, then all-gather in reverse",
            source: "Gloo (facebookincubator/gloo), allreduce_bcube.h",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        match digits(shape.ranks.into(), base(shape).into()) {
            Some(_) => Ok(()),
            None => {
                let (n, b) = (shape.ranks, base(shape));
                Err(Reason::from(format!("{n} ranks are not a power of the base {b}")))
            }
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let b = base(&v.shape);
        let known = levels(&v.shape, b).into();
        let levels = F::call(Function::Named(&LOG), &[&F::int(b.into()), &v.n], known);
        let repeats = F::int((2 * digit_waves(&v.shape, b)).into());
        let beta = repeats.clone() * v.others() / v.n.clone() / F::int((b - 1).into());
        Cost::new(repeats * levels, beta).reducing(v.others_share())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        digit_guarantee(shape, base(shape))
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (b, n) = (base(shape), u64::from(shape.ranks));
        let mut step = |s: u32, adds: bool| {
            let place = b.pow(s);
            let each = Share::new(n / u64::from(place * b), n);
            digit_steps(shape, b, place, each, adds, emit);
        };
        (0..levels(shape, b)).for_each(|s| step(s, true));
        (0..levels(shape, b)).rev().for_each(|s| step(s, false));
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        base(shape) - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Shares::new(AllReduce, shape.ranks, base(shape), Order::Near)))
    }
}

/// B.
fn base(shape: &Shape) -> u32 {
    shape.params.radix.unwrap_or(2)
}

static LOG: Named =
    Named { name: "log", means: "log(B, N) = lg N/lg B, a whole number", rule: log };
