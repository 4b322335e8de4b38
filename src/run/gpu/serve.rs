//! The side of a process with GPUs: it executes orders, one block after another.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::call::CALLS;
use super::driver::{Driver, Gpu};
use super::nccl::{Nccl, UniqueId};
use super::survey::Survey;
use super::talk::{Answer, Facts, Job, Order, Task, Timing};
use super::world::{Ranks, World};
use crate::base::error::{Error, Result};
use crate::machine::sample::Op;
use crate::run::launch::{read, write};

/// The most repetitions of one block, and the most runs between two readings of the clock.
const MOST: u32 = 10_000;

/// Serves until the other end of `control` hangs up.
///
/// # Errors
/// An invalid channel. Other errors are reported to the other end.
pub fn serve(control: OwnedFd) -> Result<()> {
    let mut stream = UnixStream::from(control);
    let gone = |e: std::io::Error| {
        Error::input(format!("this process has no parent to serve: {e}"))
            .help("it is started by `collcost calibrate`")
    };
    let Order::Hello { parent, task } = read(&mut stream).map_err(gone)? else {
        return Err(Error::lost("this process got no task"));
    };
    // The kernel ends it when the process that started it ends.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| Error::environment(format!("it cannot end with its parent: {e}")))?;
    if getppid() != Pid::from_raw(parent) {
        return Err(Error::lost("the measuring process has ended"));
    }
    let done = work(&mut stream, task);
    if let Err(error) = done {
        // If the other end is gone, it cannot receive this.
        let _ = write(&mut stream, &Answer::from(error));
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
            blocks(stream, 0, |_, op| Err(Error::input(format!("{op} cannot be timed here"))))
        }
        Job::Survey { largest } => {
            let mut survey = Survey::open(driver, largest)?;
            tell(stream, &Answer::Ready(facts(driver)?))?;
            blocks(stream, largest, |timing, op| survey.time(timing, op))
        }
        Job::Nccl { gpus, ranks, first, largest, registered } => {
            let nccl = load(library)?;
            let own = (first == 0).then(|| nccl.unique_id()).transpose()?;
            tell(stream, &Answer::Id(own.map(|id| id.bytes().to_vec())))?;
            let Ok(Order::Id(id)) = read(stream) else {
                return Err(Error::lost("the communicator's id did not arrive"));
            };
            let id = UniqueId::of(&id).ok_or_else(|| Error::lost("invalid NCCL id"))?;
            let of = Ranks { gpus: &gpus, all: ranks, first, largest, registered };
            let mut world = World::join(driver, &nccl, id, of)?;
            let lacks = CALLS.into_iter().filter(|call| !nccl.has(*call));
            let lacks = lacks.map(|call| call.id().to_owned()).collect();
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
    write(stream, answer).map_err(|e| Error::lost(format!("no answer can be sent: {e}")))
}

fn facts(driver: Driver) -> Result<Facts> {
    let count = driver.count();
    let gpus = (0..count).map(|i| Gpu::open(driver, i)).collect::<Result<Vec<_>>>()?;
    let ids = gpus.iter().map(Gpu::id).collect::<Result<_>>()?;
    let names = gpus.iter().map(Gpu::name).collect::<Result<_>>()?;
    let free = gpus.iter().map(|gpu| gpu.free().map(|free| free.0)).collect::<Result<_>>()?;
    let row = |from| (0..count).map(|to| Ok(from == to || driver.reaches(from, to)?)).collect();
    let reach = (0..count).map(row).collect::<Result<_>>()?;
    Ok(Facts { gpus: names, ids, free, driver: driver.version(), reach, ..Facts::default() })
}

/// Times one block after another, of at most `largest` bytes.
fn blocks(
    stream: &mut UnixStream,
    largest: u64,
    mut time: impl FnMut(&Timing, &Op) -> Result<Answer>,
) -> Result<()> {
    // The loop ends when the other end hangs up.
    while let Ok(Order::Time(timing)) = read(stream) {
        let runs = [timing.warm, timing.reps, timing.inner, timing.hold];
        if timing.size > largest || runs.into_iter().any(|count| count > MOST) {
            return Err(Error::environment("the block is larger than GPUs may run at once"));
        }
        let op: Op = timing.op.parse()?;
        // Errors are reported before resources are freed, which may wait for a peer that is gone.
        let answer = time(&timing, &op).unwrap_or_else(Answer::from);
        let is_over = matches!(answer, Answer::Refused(_) | Answer::Lost(_));
        tell(stream, &answer)?;
        if is_over {
            return Ok(());
        }
    }
    Ok(())
}
