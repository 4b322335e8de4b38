//! Learns expectations of the measured clusters in `evidence/`, and writes them into the source:
//! `cargo run --release --example learn`. With `smooth TABLE…` it prints the curves of measured times
//! instead, as an entry of a file there holds them.

#![allow(clippy::disallowed_methods, reason = "an example writes as it likes")]

use std::{env, fs};

use collcost::measure::accuracy::cells;
use collcost::measure::expect::{Clusters, Study, smooth};
use collcost::measure::logs::{Asked, read};

const LEARNED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/measure/expect/transfer/learned.rs");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.split_first() {
        Some((verb, files)) if verb == "smooth" && !files.is_empty() => curves(files),
        None => learn(),
        _ => Err("write `learn`, or `learn smooth TABLE…`".into()),
    }
}

fn learn() -> Result<(), Box<dyn std::error::Error>> {
    let study = Study::new(&Clusters::built_in()?)?;
    fs::write(LEARNED, study.learned().to_rust()).map_err(|e| format!("{LEARNED}: {e}"))?;
    println!("wrote {LEARNED}");
    for line in study.words() {
        println!("{line}");
    }
    Ok(())
}

fn curves(files: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    for file in files {
        let bytes = fs::read(file).map_err(|e| format!("{file}: {e}"))?;
        for cell in cells(&[read(&bytes[..], file, &Asked::default())?]) {
            for placed in cell.placed() {
                let own = cell.rows.iter().filter(|row| row.placed == placed);
                let own: Vec<_> = own.map(|row| (row.size, row.time)).collect();
                let Some(smooth) = smooth(&own) else { continue };
                let octaves = smooth.knots.iter().map(|k| (k.0.0 as f64).log2());
                let octaves: Vec<String> = octaves.map(|k| format!("{k:.4}")).collect();
                let us = smooth.knots.iter().map(|k| format!("{:.4}", 1e6 * k.1.0));
                println!(
                    "    [\"{}\", {}, {}, {:.4}, [{}], [{}]],",
                    cell.collective.id(),
                    placed.ranks,
                    placed.nodes,
                    smooth.scatter.0,
                    octaves.join(", "),
                    us.collect::<Vec<_>>().join(", ")
                );
            }
        }
    }
    Ok(())
}
