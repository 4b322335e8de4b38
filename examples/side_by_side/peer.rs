//! A program of a peer: started by its launcher, told what to run through named pipes.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use collcost::run::launch::usable;

use super::cells::{Cell, Forced, Library, Site};
use super::network::Network;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Where programs and pipes lie; gone in the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("side-by-side-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Compiles the peers' program for each library.
    pub fn compile(&self) -> Result<()> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/side_by_side/mpi.c");
        for library in Library::ALL {
            let compiler = format!("mpicc.{}", library.suffix());
            let mut command = Command::new(&compiler);
            command.args(["-O2", "-o"]).arg(self.program(*library)).arg(&source);
            let status = command.status().map_err(|e| format!("{compiler}: {e}"))?;
            if !status.success() {
                return Err(format!("{compiler} does not compile {}", source.display()).into());
            }
        }
        Ok(())
    }

    fn program(&self, library: Library) -> PathBuf {
        self.0.join(library.suffix())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
    /// One a rank.
    orders: Vec<File>,
    spins: bool,
}

impl Peer {
    /// Starts its ranks, on the CPUs on which ours are, with buffers of `most` bytes.
    pub fn start(
        forced: &Forced,
        site: Site,
        network: Option<&Network>,
        folder: &Folder,
        most: u64,
    ) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let pipes = folder.0.join(format!("orders-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut orders = Vec::new();
        for rank in 0..site.ranks() {
            let path = PathBuf::from(format!("{}.{rank}", pipes.display()));
            if !Command::new("mkfifo").arg(&path).status()?.success() {
                return Err(format!("no pipe at {}", path.display()).into());
            }
            // Both ways, so that opening waits for nobody.
            orders.push(OpenOptions::new().read(true).write(true).open(path)?);
        }
        let cpus: Vec<String> = usable()?.cpus.iter().map(ToString::to_string).collect();
        let words = [
            folder.program(forced.library).display().to_string(),
            pipes.display().to_string(),
            most.max(1).to_string(),
            cpus.join(","),
        ];
        let environment = forced.environment(site);
        let mut command = match network {
            Some(network) => network.launcher(forced.library, &environment),
            None => launcher(forced.library, site.ranks()),
        };
        command.args(words).envs(environment).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut peer = Self { child, answers, orders, spins: site.spins() };
        if peer.line()?.trim() != "ready" {
            return Err(format!("{} did not start", forced.library.name()).into());
        }
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a peer has ended".into());
        }
        Ok(line)
    }

    /// One block: its spans, in seconds.
    pub fn time(&mut self, cell: &Cell, (warm, reps): (u32, u32)) -> Result<Vec<f64>> {
        let start = if self.spins { "window" } else { "barrier" };
        for order in &mut self.orders {
            writeln!(order, "{} {} {warm} {reps} {start}", cell.order(), cell.size)?;
        }
        let line = self.line()?;
        let spans = line.split_whitespace().map(|ns| ns.parse::<f64>().map(|ns| ns * 1e-9));
        Ok(spans.collect::<std::result::Result<_, _>>()?)
    }

    /// Lets it end by itself.
    pub fn end(mut self) {
        for order in &mut self.orders {
            // One that does not hear it is killed below.
            let _ = writeln!(order, "end");
        }
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launcher(library: Library, ranks: u32) -> Command {
    let mut command = Command::new(format!("mpirun.{}", library.suffix()));
    // The program pins itself.
    match library {
        Library::OpenMpi => command.args(["--bind-to", "none", "--oversubscribe"]),
        Library::Mpich => command.args(["-bind-to", "none"]),
    };
    command.args(["-n", &ranks.to_string()]);
    command
}
