use collcost::Collective;
use collcost::fabric::Fabric;
use collcost::quantity::*;
use collcost::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, ring::Ring};
use collcost::simulate::{Mode, Setup, Simulator};
use std::time::Instant;
struct Rd(u32);
impl Schedule for Rd {
    fn frame(&self) -> Frame {
        Frame::new(Collective::AllReduce, self.0, 1, self.0.ilog2().into())
    }
    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(r) = from else { return };
        out.push(Endpoint::Rank(r ^ (1 << round)), Op::Reduce, [Run::one(0)]);
    }
}
fn time(name: &str, s: &dyn Schedule, skew: bool, mode: Mode, reps: u32) {
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e11));
    let mut setup = Setup::new(Volume(1e6)).in_mode(mode);
    if skew {
        let mut x = 12345u64;
        setup.trouble.starts = (0..s.ranks())
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                Seconds((x >> 40) as f64 * 1e-12)
            })
            .collect();
    }
    let mut sim = Simulator::default();
    let t = Instant::now();
    let mut m = 0;
    let mut mk = 0.0;
    for _ in 0..reps {
        let o = sim.run(s, &fabric, &setup, None).unwrap();
        m = o.messages;
        mk = o.makespan.0;
    }
    let e = t.elapsed().as_secs_f64() / f64::from(reps);
    println!(
        "{name}: {m} transfers, {:.2} ms, {:.1} M/s, makespan {mk}",
        e * 1e3,
        m as f64 / e / 1e6
    );
}
fn main() {
    for n in [256, 1024, 4096] {
        time(&format!("rd {n} skew flow"), &Rd(n), true, Mode::Flow, 400);
    }
    time("ring 1024 skew flow", &Ring::new(Collective::AllReduce, 1024), true, Mode::Flow, 3);
}
