//! Where should the parts of a sharded model lie? One step, priced for several sizes of its groups.
//!
//! Run it with `cargo run --example plan_a_training_step`. The command does the same:
//! `collcost plan --preset hsdp-70b --vary shard_size=8,16,32,64`.

use collcost::base::error::Error;
use collcost::model::algorithm::Registry;
use collcost::plan::table::{BuiltIn, Machines};
use collcost::plan::{Asked, Priced, Tweak, load, price};

/// The step of 70 billion parameters over 256 ranks, with parts over `shard` of them.
pub fn step(shard: u32) -> Result<Priced, Error> {
    let machines = Machines::new(&BuiltIn);
    let keys = [("shard_size".to_owned(), shard.to_string())];
    let steps = load(&machines, &Asked::Preset("hsdp-70b"), &keys);
    let steps = steps.map_err(|faults| faults[0].error())?;
    price(&Registry::builtin(), &steps[0], &Tweak::default())
}

pub fn main() -> Result<(), Error> {
    for shard in [8, 16, 32, 64, 256] {
        let priced = step(shard)?;
        println!("parts over {shard:3} ranks: {} a step", priced.time());
        for call in &priced.calls {
            let (name, collective, total) = (&call.call.name, call.call.collective, call.total);
            println!("  {collective:14} of {name}: {total}, exposed {}", call.exposed);
        }
    }
    Ok(())
}
