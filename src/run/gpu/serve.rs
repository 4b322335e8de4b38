//! The side of a process with GPUs: it does what it is told, one block after another.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::driver::{Buffer, Driver, Gpu};
use super::nccl::{Communicator, Nccl, UniqueId};
use super::pace::{Clocks, ramp};
use super::survey::Survey;
use super::talk::{Answer, Facts, Job, Order, Task, Timing};
use crate::base::error::{Error, Result};
use crate::library::nccl::Function;
use crate::machine::sample::{Forced, Library, Op};
use crate::run::launch::{read, write};

/// The most repetitions of one block, and the most runs between two readings of the clock.
const MOST: u32 = 10_000;

/// Serves until the other end of `control` hangs up.
///
/// # Errors
/// A channel that is none. What else goes wrong is told to the other end.
pub fn serve(control: OwnedFd) -> Result<()> {
    let mut stream = UnixStream::from(control);
    let gone = |e: std::io::Error| {
        Error::input(format!("nobody speaks to this process: {e}"))
            .help("it is started by `collcost calibrate`")
    };
    let Order::Hello { parent, task } = read(&mut stream).map_err(gone)? else {
        return Err(Error::lost("nobody said what this process is for"));
    };
    // The kernel ends it with the process that started it.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| Error::environment(format!("it cannot end with its parent: {e}")))?;
    if getppid() != Pid::from_raw(parent) {
        return Err(Error::lost("the measuring process has ended"));
    }
    let done = work(&mut stream, task);
    if let Err(error) = done {
        // Whoever is gone does not hear it.
        let _ = write(&mut stream, &Answer::Refused(error.to_string()));
    }
    Ok(())
}

fn work(stream: &mut UnixStream, Task { library, job }: Task) -> Result<()> {
    let driver = Driver::load()?;
    match job {
        Job::Look => {
            let nccl = match library.is_empty() {
                true => None,
                false => Some(load(library)?.version()),
            };
            let facts = Facts { nccl, ..facts(driver)? };
            tell(stream, &Answer::Ready(facts))?;
            blocks(stream, 0, |_, op| Err(Error::input(format!("{op} is nothing to look at"))))
        }
        Job::Survey { largest } => {
            let mut survey = Survey::open(driver, largest)?;
            tell(stream, &Answer::Ready(facts(driver)?))?;
            blocks(stream, largest, |timing, op| survey.time(timing, op))
        }
        Job::Nccl { gpus, ranks, first, largest } => {
            let nccl = load(library)?;
            let own = (first == 0).then(|| nccl.unique_id()).transpose()?;
            tell(stream, &Answer::Id(own.map(|id| id.bytes().to_vec())))?;
            let Ok(Order::Id(id)) = read(stream) else {
                return Err(Error::lost("nobody said the communicator's id"));
            };
            let id = UniqueId::of(&id).ok_or_else(|| Error::lost("that is no id of NCCL"))?;
            let mut world = World::join(driver, &nccl, id, (ranks, first), &gpus, largest)?;
            let lacks = Function::ALL.into_iter().filter(|f| !nccl.has(*f));
            let lacks = lacks.map(|f| f.name().to_owned()).collect();
            let facts = Facts { nccl: Some(nccl.version()), lacks, ..Facts::default() };
            tell(stream, &Answer::Ready(facts))?;
            blocks(stream, largest, |timing, op| world.time(timing, op))
        }
    }
}

fn load(library: Vec<PathBuf>) -> Result<Nccl> {
    let names: Vec<OsString> = library.into_iter().map(Into::into).collect();
    Nccl::load(&names)
}

fn tell(stream: &mut UnixStream, answer: &Answer) -> Result<()> {
    write(stream, answer).map_err(|e| Error::lost(format!("nobody hears: {e}")))
}

fn facts(driver: Driver) -> Result<Facts> {
    let count = driver.count();
    let gpus = (0..count).map(|i| Gpu::open(driver, i)).collect::<Result<Vec<_>>>()?;
    let ids = gpus.iter().map(Gpu::id).collect::<Result<_>>()?;
    let gpus = gpus.iter().map(Gpu::name).collect::<Result<_>>()?;
    let row = |from| (0..count).map(|to| Ok(from == to || driver.reaches(from, to)?)).collect();
    let reach = (0..count).map(row).collect::<Result<_>>()?;
    Ok(Facts { gpus, ids, driver: driver.version(), reach, ..Facts::default() })
}

/// Times one block after another, of at most `largest` bytes.
fn blocks(
    stream: &mut UnixStream,
    largest: u64,
    mut time: impl FnMut(&Timing, &Op) -> Result<Answer>,
) -> Result<()> {
    // The other end's hanging up is the end.
    while let Ok(Order::Time(timing)) = read(stream) {
        let runs = [timing.warm, timing.reps, timing.inner];
        if timing.size > largest || runs.into_iter().any(|count| count > MOST) {
            return Err(Error::environment("GPUs do not run so much at once"));
        }
        let op: Op = timing.op.parse()?;
        let answer = time(&timing, &op)?;
        tell(stream, &answer)?;
    }
    Ok(())
}

/// Ranks of NCCL on GPUs of this process.
struct World {
    gpus: Vec<Gpu>,
    ranks: u32,
    first: u32,
    buffers: Vec<(Buffer, Buffer)>,
    communicators: Vec<Communicator>,
    nccl: Nccl,
    clocks: Clocks,
}

impl Drop for World {
    fn drop(&mut self) {
        // Buffers and communicators go before the GPUs that they are of.
        for gpu in &self.gpus {
            let _ = gpu.wait();
        }
        self.communicators.clear();
        self.buffers.clear();
    }
}

/// Numbers at either end of a buffer that are compared.
const COMPARED: usize = 64 << 10;

impl World {
    fn join(
        driver: Driver,
        nccl: &Nccl,
        id: UniqueId,
        (ranks, first): (u32, u32),
        gpus: &[u32],
        largest: u64,
    ) -> Result<Self> {
        let gpus = gpus.iter().map(|&i| Gpu::open(driver, i)).collect::<Result<Vec<_>>>()?;
        let bytes = usize::try_from(largest).unwrap_or(usize::MAX);
        let communicators = nccl.communicators(id, ranks, first, &gpus)?;
        let mut buffers = Vec::with_capacity(gpus.len());
        for (gpu, rank) in gpus.iter().zip(first..) {
            let pair = (gpu.allocate(bytes)?, gpu.allocate(bytes)?);
            let numbers = (0..bytes / 4).flat_map(|i| brought(rank, i).to_ne_bytes());
            gpu.write(&pair.0, 0, &numbers.collect::<Vec<u8>>())?;
            buffers.push(pair);
        }
        ramp(&gpus, &buffers, bytes)?;
        let clocks = Clocks::of(&gpus)?;
        Ok(Self { gpus, ranks, first, buffers, communicators, nccl: nccl.clone(), clocks })
    }

    fn time(&mut self, timing: &Timing, op: &Op) -> Result<Answer> {
        let collective = match op {
            Op::Forced(Forced { collective, .. }) | Op::Library(Library { collective, .. }) => {
                *collective
            }
            _ => return Err(Error::input(format!("{op} is nothing that NCCL does"))),
        };
        let function = Function::of(collective)
            .ok_or_else(|| Error::input(format!("NCCL has no {}", collective.name())))?;
        let floats = timing.size as usize / 4;
        let count = if function.gathers() { floats / self.ranks as usize } else { floats };
        if timing.check
            && let Some(wrong) = self.compare(function, count)?
        {
            return Ok(Answer::Wrong(wrong));
        }
        for _ in 0..timing.warm {
            self.start(function, count)?;
        }
        self.wait()?;
        let (mut host, mut event) = (Vec::new(), Vec::new());
        for _ in 0..timing.reps {
            self.gather(function)?;
            self.gpus.iter().try_for_each(Gpu::mark_start)?;
            for _ in 0..timing.inner.max(1) {
                self.start(function, count)?;
            }
            self.gpus.iter().try_for_each(Gpu::mark_end)?;
            self.wait()?;
            let mut longest = 0.0_f64;
            for gpu in &self.gpus {
                longest = longest.max(gpu.between()?.0);
            }
            event.push(longest * 1e9 / f64::from(timing.inner.max(1)));
        }
        let pace = self.clocks.pace();
        for _ in 0..timing.reps {
            self.gather(function)?;
            let begin = Instant::now();
            self.start(function, count)?;
            self.wait()?;
            host.push(begin.elapsed().as_nanos() as f64);
        }
        Ok(Answer::Timed { host, event, pace })
    }

    /// Has ranks of several processes begin together: those that come first wait for the last in the
    /// least collective that needs them all and that goes the way of `function`.
    fn gather(&self, function: Function) -> Result<()> {
        if self.gpus.len() == self.ranks as usize {
            return Ok(());
        }
        let rooted = matches!(function, Function::Broadcast | Function::Reduce);
        self.start(if rooted { Function::AllReduce } else { function }, 1)?;
        self.wait()
    }

    fn start(&self, function: Function, count: usize) -> Result<()> {
        self.nccl.group(|| {
            let each = self.communicators.iter().zip(&self.buffers).zip(&self.gpus);
            for ((communicator, (send, receive)), gpu) in each {
                communicator.start(function, (send, receive), count, gpu)?;
            }
            Ok(())
        })
    }

    fn wait(&self) -> Result<()> {
        self.gpus.iter().try_for_each(Gpu::wait)
    }

    /// Runs it once and compares both ends of what came out at every rank of this process; says
    /// what is wrong.
    fn compare(&self, function: Function, count: usize) -> Result<Option<String>> {
        let length =
            if function == Function::AllGather { count * self.ranks as usize } else { count };
        let piece = COMPARED.min(length);
        let ends = [0, length - piece];
        let nothing = vec![0xA5; 4 * piece];
        for (gpu, (_, receive)) in self.gpus.iter().zip(&self.buffers) {
            ends.iter().try_for_each(|&at| gpu.write(receive, 4 * at, &nothing))?;
        }
        self.start(function, count)?;
        self.wait()?;
        let mut found = vec![0; 4 * piece];
        for ((gpu, (_, receive)), rank) in self.gpus.iter().zip(&self.buffers).zip(self.first..) {
            if function == Function::Reduce && rank != 0 {
                continue;
            }
            for &at in &ends {
                gpu.read(receive, 4 * at, &mut found)?;
                for (i, bytes) in found.chunks_exact(4).enumerate() {
                    let got = f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    let wanted = self.result(function, rank, at + i, count);
                    if got != wanted {
                        return Ok(Some(format!(
                            "number {} of rank {rank} is {got}, not {wanted}",
                            at + i
                        )));
                    }
                }
            }
        }
        Ok(None)
    }

    /// What must come out as number `i` of `rank`.
    fn result(&self, function: Function, rank: u32, i: usize, count: usize) -> f32 {
        let sum = |i: usize| (0..self.ranks).map(|rank| brought(rank, i)).sum();
        match function {
            Function::AllReduce | Function::Reduce => sum(i),
            Function::Broadcast => brought(0, i),
            Function::AllGather => brought((i / count) as u32, i % count),
            Function::ReduceScatter => sum(rank as usize * count + i),
        }
    }
}

/// What `rank` brings as number `i`: whole and small, so that sums are exact in every order.
fn brought(rank: u32, i: usize) -> f32 {
    ((i % 251 + 7 * rank as usize) % 97) as f32
}
