//! Our executor beside Open MPI and MPICH: the same algorithms on the same CPUs, in turns.
//!
//! ```sh
//! cargo run --release --example side_by_side -- shm tcp netns --rounds 5 --out side-by-side
//! ```
//!
//! A round starts all ranks of all programs anew, ours and the peers', one peer program for each
//! set of algorithms that its library is forced to. Whoever is not measured sleeps. For each cell
//! (an algorithm, a size) ours and theirs then run a block each, in an order that changes from
//! round to round. A time is the global span, the last end minus the first start over all ranks on
//! `CLOCK_MONOTONIC`, and a cell's is the median of all spans of all rounds. The ratio is that of
//! the two medians of a round, whose blocks are neighbours in time, and of those the median over
//! the rounds: where the two CPUs are far apart for a while both are slow. All start alike: at a
//! time that rank 0 sets and for which all ranks spin, or after a barrier where there are more
//! ranks than CPUs. All work in place and have their results checked once a block, untimed.

#![allow(clippy::disallowed_methods, reason = "an example writes as it likes")]

#[cfg(target_os = "linux")]
mod cells;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod peer;
#[cfg(target_os = "linux")]
mod table;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("error: ranks run on Linux only");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::os::fd::AsFd;

    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == [measure::RANK] {
        let control = std::io::stdin().as_fd().try_clone_to_owned();
        let served =
            control.map_err(|_| ()).and_then(|c| collcost::run::launch::serve(c).map_err(drop));
        return std::process::ExitCode::from(u8::from(served.is_err()));
    }
    match measure::all(&words) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
mod measure {
    use std::fs;
    use std::path::PathBuf;

    use collcost::base::quantity::Bytes;
    use collcost::model::algorithm::Registry;
    use collcost::run::execute::{Block, Check, Runner, Start};
    use collcost::run::launch::{Executor, Group, Pin, Setup};
    use collcost::run::transport::Wait;

    use super::cells::{Cell, PEERS, Site, reps};
    use super::network::Network;
    use super::peer::{Folder, Peer};
    use super::table::{Row, write};

    /// The word that makes this program a rank of ours.
    pub const RANK: &str = "run-rank";

    type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

    struct Asked {
        sites: Vec<Site>,
        rounds: usize,
        most: Option<u64>,
        only: String,
        out: Option<PathBuf>,
    }

    fn asked(words: &[String]) -> Result<Asked> {
        let usage = "side_by_side [shm] [tcp] [netns] [--rounds R] [--most BYTES] [--only TEXT] \
                     [--out FOLDER]";
        let (sites, only) = (Vec::new(), String::new());
        let mut asked = Asked { sites, rounds: 5, most: None, only, out: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(site) = Site::ALL.iter().find(|site| site.name() == word) {
                asked.sites.push(*site);
                continue;
            }
            let value = words.next().ok_or(usage)?;
            match word.as_str() {
                "--rounds" => asked.rounds = value.parse()?,
                "--most" => asked.most = Some(value.parse()?),
                "--only" => asked.only.clone_from(value),
                "--out" => asked.out = Some(value.into()),
                _ => return Err(usage.into()),
            }
        }
        if asked.sites.is_empty() {
            asked.sites = Site::ALL.to_vec();
        }
        Ok(asked)
    }

    /// Measures all sites that are asked for, and writes one table.
    pub fn all(words: &[String]) -> Result<()> {
        let asked = asked(words)?;
        let folder = Folder::new()?;
        folder.compile()?;
        let mut rows: Vec<Row> = Vec::new();
        for &site in &asked.sites {
            let network = match site {
                Site::Netns => Some(Network::new(site.ranks(), &folder)?),
                Site::Shm | Site::Tcp => None,
            };
            let cells: Vec<Cell> = site
                .cells()
                .into_iter()
                .filter(|cell| cell.size <= asked.most.unwrap_or(u64::MAX))
                .filter(|cell| cell.op.contains(&asked.only))
                .collect();
            let most = cells.iter().map(|cell| cell.size).max().unwrap_or(0);
            let first = rows.len();
            rows.extend(cells.iter().flat_map(|cell| Row::of(site, cell)));
            for round in 0..asked.rounds {
                eprintln!("{}: round {} of {}", site.name(), round + 1, asked.rounds);
                let mut ours = Executor::new(Registry::builtin(), ours(site, network.as_ref())?);
                let mut theirs = Vec::new();
                for forced in PEERS {
                    let start = || Peer::start(forced, site, network.as_ref(), &folder, most);
                    theirs.push(forced.fits(site).then(start).transpose()?);
                }
                // Neighbours in time are of one size, so that no cell meets a machine that another
                // has heated up; sizes and turns change their order.
                let turn = |i: usize| (i * 7 + round * 3) % cells.len().max(1);
                let mut order: Vec<usize> = (0..cells.len()).collect();
                order.sort_by_key(|&i| turn(i));
                for i in order {
                    let cell = &cells[i];
                    let mine: Vec<usize> =
                        (first..rows.len()).filter(|&r| rows[r].is_of(cell)).collect();
                    // Ours has its turn before, between or after theirs.
                    let ours_at = (round + i) % (mine.len() + 1);
                    let mut spans: Vec<f64> = Vec::new();
                    for (k, slot) in (0..=mine.len()).enumerate() {
                        if k == ours_at {
                            spans = time(&mut ours, site, cell)?;
                        } else {
                            let row = mine[if slot > ours_at { slot - 1 } else { slot }];
                            let peer = theirs[rows[row].peer].as_mut().ok_or("it runs")?;
                            let warm_reps = (2, reps(site, cell.size));
                            rows[row].theirs.push(peer.time(cell, warm_reps)?);
                        }
                    }
                    for row in mine {
                        rows[row].ours.push(spans.clone());
                    }
                }
                for peer in theirs.into_iter().flatten() {
                    peer.end();
                }
                ours.end();
            }
        }
        write(&rows, asked.out.as_deref())?;
        fs::remove_dir_all(folder.path())?;
        Ok(())
    }

    fn ours(site: Site, network: Option<&Network>) -> Result<Group> {
        let setup = Setup {
            program: (std::env::current_exe()?, vec![RANK.to_owned()]),
            ranks: site.ranks(),
            transport: site.transport(),
            wait: Some(if site.spins() { Wait::Spin } else { Wait::Poll }),
            pin: Pin::InOrder,
            places: network.map(Network::places).unwrap_or_default(),
            delay: None,
            interrupt: None,
        };
        Ok(Group::start(setup)?)
    }

    /// One block of ours: its spans, in seconds.
    fn time(ours: &mut Executor, site: Site, cell: &Cell) -> Result<Vec<f64>> {
        let start = if site.spins() { Start::Window } else { Start::Barrier };
        let block = Block {
            warm: 2,
            reps: reps(site, cell.size),
            start,
            check: Check::Once,
            ..Block::default()
        };
        let timed = ours.time(&cell.op.parse()?, Bytes(cell.size), &block)?;
        Ok(timed.samples.iter().map(|sample| sample.span.0).collect())
    }
}
