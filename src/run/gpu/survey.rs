//! What GPUs do without NCCL: copies between them and in their memory, additions, the start of a
//! kernel and of a graph, the round trip to the host.
//!
//! Times are the host's, from the start of one operation until the host detects its end: the time
//! that a program waiting for it sees.

use std::time::Instant;

use super::driver::{Buffer, Driver, Gpu, Graph, Pinned};
use super::pace::{Clocks, ramp};
use super::talk::{Answer, Timing};
use crate::base::error::{Error, Result};
use crate::machine::sample::{Device, Op};

/// All GPUs of this process, with two buffers each.
pub(super) struct Survey {
    buffers: Vec<(Buffer, Buffer)>,
    pinned: Pinned,
    pageable: Vec<u8>,
    gpus: Vec<Gpu>,
    clocks: Clocks,
}

/// Bytes compared at either end.
const COMPARED: usize = 64 << 10;

impl Survey {
    pub(super) fn open(driver: Driver, largest: u64) -> Result<Self> {
        let gpus = (0..driver.count()).map(|i| Gpu::open(driver, i)).collect::<Result<Vec<_>>>()?;
        let bytes = usize::try_from(largest).unwrap_or(usize::MAX);
        for a in &gpus {
            for b in gpus.iter().filter(|b| !std::ptr::eq(*b, a)) {
                a.reach(b)?;
            }
        }
        let pair = |gpu: &Gpu| Ok((gpu.allocate(bytes)?, gpu.allocate(bytes)?));
        let buffers = gpus.iter().map(pair).collect::<Result<Vec<_>>>()?;
        let first = gpus.first().ok_or_else(|| Error::environment("there is no GPU"))?;
        let pinned = Pinned::new(first, bytes)?;
        ramp(&gpus, &buffers, bytes)?;
        let clocks = Clocks::of(&gpus)?;
        Ok(Self { buffers, pinned, pageable: vec![0; bytes], gpus, clocks })
    }

    pub(super) fn time(&mut self, timing: &Timing, op: &Op) -> Result<Answer> {
        let bytes = usize::try_from(timing.size).unwrap_or(usize::MAX);
        if timing.check
            && let Some(wrong) = self.compare(op, bytes)?
        {
            return Ok(Answer::Wrong(wrong));
        }
        let graph = match op {
            Op::Device(Device::Graph) => {
                let first = self.gpus.iter().zip(&self.buffers).next();
                first.map(|(gpu, (a, b))| gpu.graph(|gpu| gpu.add(a, b, bytes / 4))).transpose()?
            }
            _ => None,
        };
        let mut host = Vec::with_capacity(timing.reps as usize);
        let (gpus, buffers) = (&self.gpus, &self.buffers);
        let mut hosts = (self.pinned.bytes(), self.pageable.as_mut_slice());
        for rep in 0..timing.warm + timing.reps {
            let begin = Instant::now();
            once(gpus, buffers, &mut hosts, graph.as_ref(), op, bytes)?;
            if rep >= timing.warm {
                host.push(begin.elapsed().as_nanos() as f64);
            }
        }
        // The clock rates are read while the GPU works.
        for _ in 0..timing.hold.max(1) {
            for (gpu, (from, to)) in gpus.iter().zip(buffers) {
                gpu.copy(to, from, bytes)?;
            }
        }
        let pace = self.clocks.pace();
        gpus.iter().try_for_each(Gpu::wait)?;
        Ok(Answer::Timed { host, event: Vec::new(), pace, captured: true })
    }

    fn gpu(&self, number: u32) -> Result<&Gpu> {
        self.gpus.get(number as usize).ok_or_else(|| {
            Error::input(format!("there is no GPU {number}, only {}", self.gpus.len()))
        })
    }

    /// Runs it once with known contents; describes any mismatch.
    fn compare(&mut self, op: &Op, bytes: usize) -> Result<Option<String>> {
        let (from, to) = match *op {
            Op::Device(Device::Copy { from, to }) => (from, to),
            Op::Copy => (0, 0),
            Op::Reduce | Op::Device(Device::Kernel) => return self.compare_sum(op, bytes),
            _ => return Ok(None),
        };
        let piece = COMPARED.min(bytes);
        for at in [0, bytes - piece] {
            let wanted: Vec<u8> = (0..piece).map(|i| ((at + i) % 251) as u8).collect();
            let source = &self.buffers[from as usize].0;
            self.gpu(from)?.write(source, at, &wanted)?;
        }
        self.once(op, bytes)?;
        let mut found = vec![0; piece];
        for at in [0, bytes - piece] {
            let target = &self.buffers[to as usize].1;
            self.gpu(to)?.read(target, at, &mut found)?;
            if let Some(i) = (0..piece).find(|i| found[*i] != ((at + i) % 251) as u8) {
                return Ok(Some(format!("byte {} is {}", at + i, found[i])));
            }
        }
        Ok(None)
    }

    fn compare_sum(&mut self, op: &Op, bytes: usize) -> Result<Option<String>> {
        let all = bytes / 4;
        let piece = (COMPARED / 4).min(all);
        let numbers = |at: usize, scale: usize| -> Vec<u8> {
            (at..at + piece).flat_map(|i| ((i % 97 * scale) as f32).to_ne_bytes()).collect()
        };
        let ends = [0, all - piece];
        for at in ends {
            self.gpu(0)?.write(&self.buffers[0].0, 4 * at, &numbers(at, 1))?;
            self.gpu(0)?.write(&self.buffers[0].1, 4 * at, &numbers(at, 2))?;
        }
        self.once(op, bytes)?;
        let mut found = vec![0; 4 * piece];
        for at in ends {
            self.gpu(0)?.read(&self.buffers[0].0, 4 * at, &mut found)?;
            let wanted = numbers(at, 3);
            let mut both = found.chunks_exact(4).zip(wanted.chunks_exact(4));
            if let Some(i) = both.position(|(a, b)| a != b) {
                return Ok(Some(format!("number {} is not the sum", at + i)));
            }
        }
        Ok(None)
    }

    fn once(&mut self, op: &Op, bytes: usize) -> Result<()> {
        let mut hosts = (self.pinned.bytes(), self.pageable.as_mut_slice());
        once(&self.gpus, &self.buffers, &mut hosts, None, op, bytes)
    }
}

/// Carries out `op` and waits for its end.
fn once(
    gpus: &[Gpu],
    buffers: &[(Buffer, Buffer)],
    (pinned, pageable): &mut (&mut [u8], &mut [u8]),
    graph: Option<&Graph<'_>>,
    op: &Op,
    bytes: usize,
) -> Result<()> {
    let find = |number: u32| {
        let number = number as usize;
        let found = gpus.get(number).zip(buffers.get(number));
        found.ok_or_else(|| Error::input(format!("there is no GPU {number}")))
    };
    let (gpu, (a, b)) = find(0)?;
    match *op {
        Op::Copy => gpu.copy(b, a, bytes)?,
        Op::Reduce | Op::Device(Device::Kernel) => gpu.add(a, b, bytes / 4)?,
        Op::Device(Device::Graph) => graph.map_or(Ok(()), Graph::start)?,
        Op::Device(Device::Copy { from, to }) => {
            let ((gpu, (source, _)), (_, (_, target))) = (find(from)?, find(to)?);
            gpu.copy(target, source, bytes)?;
            return gpu.wait();
        }
        Op::Device(Device::Exchange { a, b }) => {
            let ((one, (first, into_first)), (other, (second, into_second))) = (find(a)?, find(b)?);
            one.copy(into_second, first, bytes)?;
            other.copy(into_first, second, bytes)?;
            one.wait()?;
            return other.wait();
        }
        Op::Device(Device::Upload { pinned: is_pinned }) => {
            let host = if is_pinned { &**pinned } else { &**pageable };
            return gpu.write(a, 0, &host[..bytes.min(host.len())]);
        }
        Op::Device(Device::Download { pinned: is_pinned }) => {
            let host = if is_pinned { &mut **pinned } else { &mut **pageable };
            let bytes = bytes.min(host.len());
            return gpu.read(a, 0, &mut host[..bytes]);
        }
        _ => return Err(Error::input(format!("{op} is not an operation of GPUs"))),
    }
    gpu.wait()
}
