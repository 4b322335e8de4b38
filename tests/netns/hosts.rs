//! Hosts that are cut off.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use collcost::machine::sample;

use crate::joint::Folder;
use crate::network::{Cap, Network};

/// How long a run may go on after something happened to one of its hosts.
const LIMIT: Duration = Duration::from_secs(5);

/// A child that does not outlive the test.
struct Rank(Option<Child>);

impl Drop for Rank {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A link that is taken down while bytes move: all ranks end, on both its sides, and the one behind
/// it is named.
pub fn link_down() {
    let network = Network::new(3, Cap::Mbit(200)).unwrap_or_else(|e| panic!("{e}"));
    let folder = Folder::new();
    let (token, samples) = (folder.token(), folder.0.join("cut.jsonl"));
    let start = |(rank, name): (usize, &String)| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, env!("CARGO_BIN_EXE_collcost"), "calibrate"]);
        command.args(["--rank", &rank.to_string(), "-n", "3"]);
        command.args(["--rendezvous", &network.meeting(), "--token-file"]).arg(&token);
        command.args(["--ops", "shift,allreduce/ring", "--sizes", "256K..1M", "--force"]);
        command.args(["--time-budget", "300s", "--precision", "0.1%", "--progress", "none"]);
        command.arg("--out").arg(folder.0.join("cut.toml")).arg("--samples").arg(&samples);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Rank(Some(command.spawn().expect("it starts")))
    };
    let ranks: Vec<Rank> = network.ranks().iter().enumerate().map(start).collect();
    let until = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(&samples).unwrap_or_default().contains(r#""t":"blk""#) {
        assert!(Instant::now() < until, "no block was measured");
        thread::sleep(Duration::from_millis(10));
    }
    network.cut(2);
    let since = Instant::now();
    for (rank, mut child) in ranks.into_iter().enumerate() {
        let output =
            child.0.take().map(Child::wait_with_output).expect("a child").expect("it ends");
        assert!(since.elapsed() < LIMIT, "rank {rank} went on for {:?}", since.elapsed());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "rank {rank}: {said}");
        let part = match rank {
            0 => "rank 2 (",
            1 => "the run was given up: rank 2 (",
            _ => "rank 2 lost the coordinator",
        };
        assert!(said.contains(part), "rank {rank}: {said}");
    }
    let text = fs::read_to_string(&samples).expect("samples are kept");
    let (_, samples) = sample::read(&text, "cut.jsonl").unwrap_or_else(|e| panic!("{e}"));
    assert!(!samples.blocks.is_empty());
}
