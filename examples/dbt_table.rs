//! Prints the table of `src/model/algorithm/double_binary_tree/lengths.rs`.
//!
//! About eight minutes on one core in release; arguments narrow it down to single sizes, as in
//! `cargo run --release --example dbt_table -- 64 512`. With the argument `colours`, writes the
//! colourings that reach the lengths, as in
//! `cargo run --release --example dbt_table -- colours > src/model/algorithm/double_binary_tree/colours.bin`.

use std::io::Write;

use collcost::model::algorithm::double_binary_tree::flow::unsegmented_flow;
use collcost::model::algorithm::double_binary_tree::known::searched;
use collcost::model::algorithm::double_binary_tree::lengths::effort;
use collcost::model::algorithm::double_binary_tree::search::search;

const LAST: u32 = 1024;
const LAST_COLOURED: u32 = 256;
const PER_LINE: usize = 24;

fn length(ranks: u32) -> u32 {
    let (seeds, flips) = effort(ranks);
    let lengths = (0..seeds).map(|seed| search(ranks, seed, flips).length());
    lengths.min().unwrap_or(0)
}

fn print() {
    println!("#[rustfmt::skip]\nstatic LENGTH: [u8; {}] = [", LAST + 1);
    for line in (0..=LAST).collect::<Vec<u32>>().chunks(PER_LINE) {
        let cells: Vec<String> = line.iter().map(|&n| format!("{},", length(n))).collect();
        println!("    {}", cells.join(" "));
    }
    println!("];");
}

/// Two bits for each transfer of a pair, lowest first.
fn write_colours() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for ranks in 2..=LAST_COLOURED {
        let colouring = searched(ranks);
        let colours: Vec<u32> =
            colouring.transfers().map(|t| t.slot % colouring.period()).collect();
        let byte = |four: &[u32]| four.iter().rev().fold(0, |byte, c| byte << 2 | *c as u8);
        out.write_all(&colours.chunks(4).map(byte).collect::<Vec<u8>>())?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    if std::env::args().nth(1).is_some_and(|first| first == "colours") {
        return write_colours();
    }
    let sizes: Vec<u32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        print();
    }
    for ranks in sizes {
        println!("{ranks}: {} {}", length(ranks), unsegmented_flow(ranks));
    }
    Ok(())
}
