//! A rank above 0 with GPUs: starts the processes that rank 0 orders on its host, and forwards
//! their answers.

use rustix::event::PollFd;

use super::set::Set;
use super::talk::{Answer, FarNews, FarOrder, Job, Order, Task};
use super::worker::{Gone, Setup, Worker};
use crate::base::error::Result;
use crate::run::rendezvous::{Line, Part, Purpose, Service, Token};

/// Serves as `part` until the run is over.
///
/// # Errors
/// No coordinator found, another version or token, a coordinator that is lost or gave up the run,
/// an interruption.
pub fn attend(part: &Part, token: &Token, setup: &Setup) -> Result<()> {
    let line = Line::open(part, token, Purpose::Gpus, setup.interrupt.as_ref())?;
    line.serve(&mut Far { setup, process: None })
}

struct Far<'a> {
    setup: &'a Setup,
    /// The current process, with its number.
    process: Option<(u32, Worker)>,
}

impl Far<'_> {
    fn start(&mut self, run: u32, set: Option<usize>, job: Job, line: &Line<'_>) -> Result<()> {
        self.process = None;
        // Rank 0's NCCL also writes what NCCL would write here.
        let log = self.setup.scratch.join("nccl");
        // An unknown set sets nothing: rank 0 sees in its log that another algorithm was used.
        let set = set.and_then(|number| Set::ALL.get(number));
        let registered = matches!(job, Job::Nccl { registered: true, .. });
        let variables = set.map(|set| set.variables(&log.to_string_lossy(), registered));
        let task = Task { library: self.setup.library.clone(), job };
        match Worker::start(self.setup, 0, task, variables.unwrap_or_default()) {
            Ok(process) => self.process = Some((run, process)),
            Err(e) => line.say(FarNews::Said(run, Answer::Refused(e.to_string())))?,
        }
        Ok(())
    }

    fn tell(&mut self, order: &Order) {
        if let Some((_, process)) = &mut self.process {
            // A process that does not receive this has ended, which is detected.
            let _ = process.tell(order);
        }
    }
}

impl Service for Far<'_> {
    type Order = FarOrder;

    fn obey(&mut self, order: FarOrder, line: &Line<'_>) -> Result<()> {
        match order {
            FarOrder::Start { run, set, job } => return self.start(run, set, job, line),
            FarOrder::Id(id) => self.tell(&Order::Id(id)),
            FarOrder::Time(timing) => self.tell(&Order::Time(timing)),
            FarOrder::Stop => self.process = None,
        }
        Ok(())
    }

    fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>) {
        if let Some((_, process)) = &self.process {
            process.watch(files);
        }
    }

    fn look(&mut self, line: &Line<'_>) -> Result<()> {
        let Some((run, process)) = &mut self.process else { return Ok(()) };
        let news = match process.answer() {
            Ok(None) => return Ok(()),
            Ok(Some(answer)) => return line.say(FarNews::Said(*run, answer)),
            Err(Gone::Refused(text)) => FarNews::Said(*run, Answer::Refused(text)),
            Err(Gone::Lost(how)) => FarNews::Ended(*run, how),
            Err(Gone::All(error)) => return Err(error),
        };
        self.process = None;
        line.say(news)
    }
}
