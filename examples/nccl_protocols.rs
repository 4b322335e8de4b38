//! What NCCL's protocols cost on a machine, from a table of NCCL's own times, and how well that
//! predicts an algorithm that was left out.
//!
//! Where nobody forced NCCL, its tuner says by which algorithm and protocol each size was done:
//! this program asks the tuner's model, and takes the machine's name for its graphs.
//!
//! ```sh
//! cargo run --example nccl_protocols -- measured.csv dgx_a100_8x200g 2.27.3
//! ```

use std::fs::File;
use std::io::BufReader;

use collcost::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::library::nccl::{
    Call, Chooser, Function, Place, Reduction, Settings, Table, Version,
};
use collcost::machine::sample::{Block, Chosen, DataType, Library, Op, Samples};
use collcost::measure::fit::{Errors, protocols};
use collcost::measure::logs;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, machine, version] = words.as_slice() else {
        return Err(Error::input("three words are needed: a table, a machine, NCCL's version")
            .help("nccl_protocols measured.csv dgx_a100_8x200g 2.27.3"));
    };
    let input = File::open(file).map_err(|e| Error::input(e.to_string()).at(file.clone()))?;
    let asked = logs::Asked::default();
    let mut samples = logs::read(BufReader::new(input), file, &asked)?.samples();
    let version = Version::ALL.into_iter().find(|known| known.id() == version);
    let version = version.ok_or_else(|| Error::input("a version whose tuner is not known"))?;
    label(&mut samples, machine, version)?;
    let found = protocols(&samples, 400, 1)?;
    println!("protocol           o µs   α µs   BW GB/s  points  fit: median  nine of ten");
    for p in &found.protocols {
        let name = p.algos.iter().map(|a| a.name()).chain([p.proto.name()]);
        let name = name.collect::<Vec<_>>().join(" ");
        let (o, rate) = (1e6 * p.launch.value.0, 1e-9 * p.beta.bandwidth().value.0);
        let alpha = p.alpha.map_or("–".to_owned(), |a| format!("{:.2}", 1e6 * a.value.0));
        let errors = shown(&p.errors);
        println!("{name:16} {o:6.1} {alpha:>6} {rate:9.1} {:7}  {errors}", p.points);
    }
    println!(
        "\nleft out         stated by the others       found        points within nine of ten"
    );
    let mut collectives: Vec<_> = samples.blocks.iter().filter_map(of).collect();
    collectives.sort_unstable();
    collectives.dedup();
    for left_out in collectives {
        held_out(&samples, left_out)?;
    }
    Ok(())
}

/// The collective of a block out of place.
fn of(block: &Block) -> Option<Collective> {
    match block.op {
        Op::Library(Library { collective, in_place: false, .. }) => Some(collective),
        _ => None,
    }
}

/// Fits what is not of `left_out`, states its error, and predicts `left_out`.
fn held_out(samples: &Samples, left_out: Collective) -> Result<()> {
    let (own, others): (Vec<Block>, Vec<Block>) =
        samples.blocks.iter().cloned().partition(|block| of(block) == Some(left_out));
    let found = protocols(&Samples { blocks: others, ..samples.clone() }, 100, 1)?;
    let Some(stated) = found.stated else { return Ok(()) };
    let error = |block: &Block| {
        let placed = (block.ranks, block.nodes.unwrap_or(1));
        let time = found.time(left_out, block.chose?, placed, block.size)?;
        Some(time.0 / block.spans().first()?.0 - 1.0)
    };
    let errors: Vec<f64> = own.iter().filter_map(error).collect();
    let Some(all) = Errors::of(errors.iter().copied()) else { return Ok(()) };
    let within = errors.iter().filter(|e| e.abs() <= stated.p90.0).count();
    let share = 100.0 * within as f64 / errors.len() as f64;
    println!(
        "{:14} {} {} {:6} {share:8.0} %",
        left_out.id(),
        shown(&stated),
        shown(&all),
        errors.len()
    );
    Ok(())
}

fn shown(errors: &Errors) -> String {
    format!("{:6.1} % {:6.1} %", 100.0 * errors.median.0, 100.0 * errors.p90.0)
}

/// Says of each block how NCCL's tuner has it done on `machine`.
fn label(samples: &mut Samples, machine: &str, version: Version) -> Result<()> {
    for block in &mut samples.blocks {
        let Op::Library(Library { collective, dtype, .. }) = block.op else { continue };
        let Some(function) = Function::of(collective) else { continue };
        let nodes = block.nodes.unwrap_or(1);
        let place = Place { machine, per_node: block.ranks / nodes, nodes, search: Some(version) };
        let communicator = place.communicator()?;
        let table = Table::new(&communicator, version, &Settings::default())?;
        let element = dtype.unwrap_or(DataType::F32);
        let reduction = Reduction { element, ..Reduction::default() };
        let chooser = Chooser::new(&communicator, version, &table, reduction);
        let call = Call { function, size: Bytes(block.size.0), pipelined: 1 };
        block.chose = chooser.decide(&call).map(|d| Chosen { algo: d.algo, proto: d.proto });
    }
    Ok(())
}
