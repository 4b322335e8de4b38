//! NCCL ranks on GPUs of this process: one call after another, timed and compared.
//!
//! Calls are captured as graphs before they are timed. Then NCCL itself does nothing and writes no
//! log line while the clock runs, and one thread starts the GPUs of a process fast enough. If a
//! version of NCCL allows no capture, its calls are started one by one, and a note says so.

use std::time::Instant;

use super::call::{Call, PERIOD, contents, element, numbers};
use super::driver::{Buffer, Driver, Gpu, Graph};
use super::nccl::{Communicator, Nccl, UniqueId};
use super::pace::{Clocks, Pace, ramp};
use super::talk::{Answer, Timing};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::sample::{DataType, Forced, Library, Op};

/// The ranks of a process, and their parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranks<'a> {
    pub(super) gpus: &'a [u32],
    pub(super) all: u32,
    pub(super) first: u32,
    /// The bytes of the largest call.
    pub(super) largest: u64,
    /// Whether NCCL allocates and registers the buffers.
    pub(super) registered: bool,
}

/// NCCL ranks on GPUs of this process.
pub(super) struct World {
    gpus: Vec<Gpu>,
    ranks: u32,
    first: u32,
    buffers: Vec<(Buffer, Buffer)>,
    /// The type that the first of the buffers is filled with.
    filled: Option<DataType>,
    communicators: Vec<Communicator>,
    nccl: Nccl,
    clocks: Clocks,
}

impl Drop for World {
    fn drop(&mut self) {
        // Communicators end first: waiting for a GPU that waits for a lost peer would never end.
        // Buffers are freed before their GPUs.
        self.communicators.clear();
        for gpu in &self.gpus {
            let _ = gpu.wait();
        }
        self.buffers.clear();
    }
}

/// Numbers compared at either end of a buffer.
const COMPARED: usize = 64 << 10;
/// How many checks of a stream come between two checks of NCCL's own state.
const LOOKS: u32 = 1 << 12;

/// How a call is started.
enum Started<'a> {
    /// As graphs of this many calls, one per GPU.
    Graphs(Vec<Graph<'a>>),
    /// One by one.
    Calls(u32),
}

impl World {
    pub(super) fn join(driver: Driver, nccl: &Nccl, id: UniqueId, of: Ranks<'_>) -> Result<Self> {
        let gpus = of.gpus.iter().map(|&i| Gpu::open(driver, i)).collect::<Result<Vec<_>>>()?;
        let bytes = usize::try_from(of.largest).unwrap_or(usize::MAX);
        let communicators = nccl.communicators(id, of.all, of.first, &gpus)?;
        let mut buffers = Vec::with_capacity(gpus.len());
        for (gpu, communicator) in gpus.iter().zip(&communicators) {
            let one = || match of.registered {
                true => communicator.registered(gpu, bytes),
                false => gpu.allocate(bytes),
            };
            buffers.push((one()?, one()?));
        }
        ramp(&gpus, &buffers, bytes)?;
        let clocks = Clocks::of(&gpus)?;
        let (ranks, first, nccl) = (of.all, of.first, nccl.clone());
        Ok(Self { gpus, ranks, first, buffers, filled: None, communicators, nccl, clocks })
    }

    /// Fills every rank's buffer with its input.
    fn fill(&mut self, dtype: DataType) -> Result<()> {
        if self.filled == Some(dtype) {
            return Ok(());
        }
        let number = element(dtype).map_or(4, |(_, bytes)| bytes);
        for ((gpu, (send, _)), rank) in self.gpus.iter().zip(&self.buffers).zip(self.first..) {
            let count = (PERIOD * 64).min(send.bytes() / number);
            let period = contents(dtype, rank, count);
            gpu.write(send, 0, &period)?;
            if count == PERIOD * 64 {
                gpu.repeat(send, period.len())?;
            }
        }
        self.filled = Some(dtype);
        Ok(())
    }

    pub(super) fn time(&mut self, timing: &Timing, op: &Op) -> Result<Answer> {
        let (Op::Forced(Forced { collective, dtype, .. })
        | Op::Library(Library { collective, dtype, .. })) = *op
        else {
            return Err(Error::input(format!("{op} is not an operation of NCCL")));
        };
        let dtype = dtype.unwrap_or(DataType::F32);
        let call = Call::new(collective, dtype, Bytes(timing.size), self.ranks)
            .ok_or_else(|| Error::input(format!("{} is not measured", dtype.id())))?;
        self.fill(dtype)?;
        if timing.check
            && let Some(wrong) = self.compare(call)?
        {
            return Ok(Answer::Wrong(wrong));
        }
        // Connections are made in the first call, which cannot be part of a graph.
        for _ in 0..timing.warm.max(1) {
            self.start(call)?;
        }
        self.wait()?;
        let inner = timing.inner.max(1);
        let many = self.ready(call, inner)?;
        let captured = matches!(many, Started::Graphs(_));
        let mut event = Vec::with_capacity(timing.reps as usize);
        for _ in 0..timing.reps {
            // The same work runs before, so all GPUs are busy with it when the first of them starts
            // its clock, and the timed work has been queued by then.
            match inner {
                1 => self.gather(call)?,
                _ => self.launch(&many, call)?,
            }
            self.gpus.iter().try_for_each(Gpu::mark_start)?;
            self.launch(&many, call)?;
            self.gpus.iter().try_for_each(Gpu::mark_end)?;
            self.wait()?;
            let mut longest = 0.0_f64;
            for gpu in &self.gpus {
                longest = longest.max(gpu.between()?.0);
            }
            event.push(longest * 1e9 / f64::from(inner));
        }
        let pace = self.pace(&many, call, timing.hold)?;
        let one = match inner {
            1 => many,
            _ => self.ready(call, 1)?,
        };
        let mut host = Vec::with_capacity(timing.reps as usize);
        for _ in 0..timing.reps {
            self.gather(call)?;
            let begin = Instant::now();
            self.launch(&one, call)?;
            self.wait()?;
            host.push(begin.elapsed().as_nanos() as f64);
        }
        Ok(Answer::Timed { host, event, pace, captured })
    }

    /// `count` calls, prepared to be started at once.
    fn ready(&self, call: Call, count: u32) -> Result<Started<'_>> {
        let captured = Gpu::graphs(&self.gpus, || (0..count).try_for_each(|_| self.start(call)));
        match captured {
            Ok(graphs) => Ok(Started::Graphs(graphs)),
            // A persistent error occurs again below.
            Err(_) => Ok(Started::Calls(count)),
        }
    }

    fn launch(&self, started: &Started<'_>, call: Call) -> Result<()> {
        match started {
            Started::Graphs(graphs) => graphs.iter().try_for_each(Graph::start),
            Started::Calls(count) => (0..*count).try_for_each(|_| self.start(call)),
        }
    }

    /// The GPUs' clock rates while they work: read after they have begun, and before they have
    /// ended.
    fn pace(&self, started: &Started<'_>, call: Call, hold: u32) -> Result<Option<Pace>> {
        for _ in 0..hold.max(1) {
            self.launch(started, call)?;
        }
        let pace = self.clocks.pace();
        self.wait()?;
        Ok(pace)
    }

    /// Makes ranks of several processes begin together: early ranks wait for the last one in the
    /// smallest collective that needs them all and takes the same path.
    fn gather(&self, call: Call) -> Result<()> {
        if self.gpus.len() == self.ranks as usize {
            return Ok(());
        }
        self.start(call.least())?;
        self.wait()
    }

    fn start(&self, call: Call) -> Result<()> {
        self.nccl.group(|| {
            let each = self.communicators.iter().zip(&self.buffers).zip(&self.gpus);
            for (((communicator, (send, receive)), gpu), rank) in each.zip(self.first..) {
                communicator.start(call, (send, receive), (rank, self.ranks), gpu)?;
            }
            Ok(())
        })
    }

    /// Waits for the GPUs and checks for errors meanwhile: a lost peer is not reported to the GPUs.
    fn wait(&self) -> Result<()> {
        let mut looks = 0_u32;
        for gpu in &self.gpus {
            while !gpu.is_through()? {
                looks += 1;
                if looks.is_multiple_of(LOOKS) {
                    self.communicators.iter().try_for_each(Communicator::look)?;
                }
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Runs it once and compares both ends of the result on every rank of this process; describes
    /// any mismatch.
    fn compare(&self, call: Call) -> Result<Option<String>> {
        let number = element(call.dtype).map_or(4, |(_, bytes)| bytes);
        let length = call.length(self.ranks);
        let piece = COMPARED.min(length);
        let ends = [0, length - piece];
        let nothing = vec![0xA5; number * piece];
        for (gpu, (_, receive)) in self.gpus.iter().zip(&self.buffers) {
            ends.iter().try_for_each(|&at| gpu.write(receive, number * at, &nothing))?;
        }
        self.start(call)?;
        self.wait()?;
        let mut found = vec![0; number * piece];
        for ((gpu, (_, receive)), rank) in self.gpus.iter().zip(&self.buffers).zip(self.first..) {
            if !call.is_compared(rank, self.ranks) {
                continue;
            }
            for &at in &ends {
                gpu.read(receive, number * at, &mut found)?;
                for (i, got) in (at..).zip(numbers(call.dtype, &found)) {
                    let wanted = call.result((rank, self.ranks), i);
                    if got != wanted {
                        let what = format!("number {i} of rank {rank} is {got}, not {wanted}");
                        return Ok(Some(what));
                    }
                }
            }
        }
        Ok(None)
    }
}
