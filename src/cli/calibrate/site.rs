//! Where ranks run: processes that this one starts, or one process per host, started by a launcher.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::cli::flags::{value, whole};
use crate::cli::profiles::now;
use crate::cli::streams::say;
use collcost::base::error::{Error, Result};
use collcost::machine::sample::LaunchRecord;
use collcost::measure::fit::Gate;
use collcost::model::algorithm::Registry;
use collcost::run::calibrate::{Groups, Host, Intent, clock_step};
use collcost::run::execute::{Runner, Start};
use collcost::run::launch::{Executor, Group, Pin, Setup, Usable, usable};
use collcost::run::rendezvous::{
    Hosts, Launcher, Made, Meeting, Part, Purpose, Token, Typed, meet, serve,
};
use collcost::run::transport::{Kind, Wait};

// How ranks that were started elsewhere find each other.
#[derive(clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(super) struct HostFlags {
    /// Address where rank 0 listens and the others connect; default: from the launcher
    #[arg(long, value_name = "ADDRESS:PORT", hide_short_help = true)]
    rendezvous: Option<String>,
    /// File of at least 32 random bytes that all hosts share and no other user can read
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    token_file: Option<PathBuf>,
    /// The rank of this process, if no launcher sets it
    #[arg(long, value_name = "R", allow_hyphen_values = true, hide_short_help = true)]
    rank: Option<String>,
    /// The launcher of the ranks: openmpi, pmi, slurm, torchrun or none; default: detected from
    /// environment variables
    #[arg(long, value_name = "NAME")]
    launcher: Option<String>,
}

impl HostFlags {
    /// Whether a token is given.
    pub(super) fn has_token(&self) -> bool {
        self.token_file.is_some()
    }

    /// This process's part among several; none if it starts the ranks itself.
    pub(super) fn part(&self, ranks: Option<u32>) -> Result<Option<Part>> {
        let typed = Typed {
            launcher: value::<Launcher>("--launcher", self.launcher.as_ref())?,
            rank: whole("--rank", "rank", self.rank.as_ref())?,
            ranks,
            rendezvous: self.rendezvous.clone(),
        };
        Part::of(&typed, &|name| std::env::var(name).ok())
    }

    /// Waits as rank 0 for all others.
    pub(super) fn gather(
        &self,
        part: &Part,
        purpose: Purpose,
        own: Host,
        interrupt: Option<&OwnedFd>,
    ) -> Result<Hosts> {
        // The token that ranks of one host share is removed when all have connected.
        let (token, _made) = self.known(part)?;
        let (others, by) = (part.ranks - 1, part.launcher);
        let how = if by == Launcher::None { String::new() } else { format!(" by {by}") };
        say(format_args!(
            "rank 0 of {}{how}: waiting for {others} more at {}",
            part.ranks, part.at
        ));
        meet(part, token, own, Meeting { purpose, interrupt, say: &mut |text| say(text) })
    }

    pub(super) fn token(&self, part: &Part) -> Result<Token> {
        self.known(part).map(|(token, _)| token)
    }

    /// The token of the given file or, if a launcher started all ranks on this host, one that the
    /// ranks create and share themselves.
    fn known(&self, part: &Part) -> Result<(Token, Option<Made>)> {
        if self.token_file.is_none()
            && part.launcher != Launcher::None
            && part.at.ip().is_loopback()
        {
            return Token::between(&beside(), part.rank);
        }
        let file = self.token_file.as_ref().ok_or_else(|| {
            Error::input("the ranks need a token to identify each other")
                .at(format!("{} ranks, --rendezvous {}", part.ranks, part.at))
                .help(
                    "add --token-file FILE; make one with \
                     `(umask 077; head -c 32 /dev/urandom > FILE)`",
                )
        })?;
        Token::read(file).map(|token| (token, None))
    }

    /// Serves as a rank above 0.
    pub(super) fn serve(&self, part: &Part, setup: &Setup) -> Result<()> {
        serve(part, &self.token(part)?, &setup.program, setup.interrupt.as_ref())
    }

    /// The flags to record in the command, without secrets.
    pub(super) fn words(&self) -> Vec<String> {
        let launcher = self.launcher.iter().map(|name| format!("--launcher {name}"));
        let shared = self.token_file.iter().map(|_| "--token-file …".to_owned());
        launcher.chain(shared).collect()
    }
}

/// A file for this user and this launch only: named after the launcher's job number, or after the
/// process that started all ranks.
fn beside() -> PathBuf {
    const NUMBERS: &[&str] = &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"];
    let number = NUMBERS.iter().find_map(std::env::var_os);
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let start = number.map_or(parent.to_string(), |number| number.to_string_lossy().into_owned());
    let step = std::env::var("SLURM_STEP_ID").unwrap_or_default();
    let words = format!("{}/{start}/{step}", rustix::process::geteuid().as_raw());
    std::env::temp_dir().join(format!("collcost-token-{:08x}", crc32fast::hash(words.as_bytes())))
}

/// Where ranks run.
pub(super) struct Site {
    /// The ranks that are started, and how.
    pub(super) setup: Setup,
    /// Which of all ranks they are.
    among: Vec<u32>,
    /// The ranks' hosts, where a launcher started them.
    hosts: Option<Hosts>,
    /// Each machine with its ranks.
    machines: Vec<(Host, u32)>,
}

impl Site {
    /// Only on this machine.
    pub(super) fn here(setup: Setup, usable: Usable) -> Self {
        let machines = vec![(Host::look(usable.cpus, usable.at_once), setup.ranks)];
        Self { among: (0..setup.ranks).collect(), setup, hosts: None, machines }
    }

    /// With all ranks that a launcher started, of which this is rank 0.
    pub(super) fn of(
        mut setup: Setup,
        usable: Usable,
        flags: &HostFlags,
        part: &Part,
    ) -> Result<Self> {
        let own = Host::look(usable.cpus, usable.at_once);
        let interrupt = setup.interrupt.as_ref();
        let hosts = flags.gather(part, Purpose::Processes, own, interrupt)?;
        setup.ranks = part.ranks;
        setup.wait = setup.wait.or(Some(hosts.wait()));
        let machines = hosts.machines();
        Ok(Self { among: (0..part.ranks).collect(), setup, hosts: Some(hosts), machines })
    }

    /// Starts only these from now on.
    pub(super) fn only(&mut self, ranks: Vec<u32>, transport: Kind) {
        (self.setup.ranks, self.setup.transport) = (ranks.len() as u32, transport);
        self.among = ranks;
    }

    /// How bytes move between ranks of one group: through memory where the groups are hosts, if this
    /// process may use as many CPUs. A launcher may have bound it to one.
    pub(super) fn inside(&self, groups: &Groups) -> Result<Kind> {
        let many = self.hosts.as_ref().filter(|_| self.machines.len() == groups.iter().count());
        let are_hosts =
            many.is_some_and(|hosts| groups.iter().all(|group| hosts.share_memory(group)));
        let fits = usable()?.at_once >= groups.first().len();
        Ok(if are_hosts && fits { Kind::Shm } else { self.setup.transport })
    }

    /// The machine of rank 0.
    pub(super) fn first(&self) -> &Host {
        &self.machines[0].0
    }

    /// The gates of each machine: whether measuring there is sensible.
    pub(super) fn gates(&self) -> Vec<Gate> {
        let wait = self.setup.wait.unwrap_or(Wait::Poll);
        let in_memory = self.setup.transport == Kind::Shm;
        let many = self.machines.len() > 1;
        let of = |(host, ranks): &(Host, u32)| {
            let name = host.name.clone();
            let gates = host.gates(Intent { ranks: *ranks, wait, in_memory }).into_iter();
            gates.map(move |gate| match many {
                true => Gate { said: format!("{name}: {}", gate.said), ..gate },
                false => gate,
            })
        };
        self.machines.iter().flat_map(of).collect()
    }

    /// The machines in words, and a fingerprint that stays equal until one of them boots again.
    pub(super) fn identity(&self) -> (String, String) {
        match &self.hosts {
            Some(hosts) => (hosts.describe(), hosts.fingerprint()),
            None => (self.first().describe(), self.first().fingerprint()),
        }
    }

    /// Whether a launcher started the ranks.
    pub(super) fn is_several(&self) -> bool {
        self.hosts.is_some()
    }

    /// The name of a rank, with its host if there are several.
    pub(super) fn name(&self, rank: u32) -> String {
        let rank = self.among.get(rank as usize).copied().unwrap_or(rank);
        let hosts = self.hosts.as_ref().filter(|_| rank > 0);
        let known = hosts.and_then(|hosts| hosts.names().nth(rank as usize - 1));
        known.map_or(format!("rank {rank}"), str::to_owned)
    }

    /// Starts the ranks anew; with how their runs start, and their record.
    pub(super) fn launch(&mut self) -> Result<(Box<dyn Runner>, Start, LaunchRecord)> {
        let group = self.start()?;
        let start = match group.wait() {
            Wait::Spin => Start::Window,
            Wait::Poll => Start::Barrier,
        };
        let cpus = group.cpus().into_iter();
        let record = LaunchRecord {
            time: now(),
            pids: group.processes(),
            cpus: cpus.map(|cpu| cpu.into_iter().map(|cpu| cpu as u32).collect()).collect(),
            clock_res_ns: (clock_step().0 * 1e9).round() as u64,
            congestion: group.congestion().map(str::to_owned),
            ..LaunchRecord::default()
        };
        Ok((Box::new(Executor::new(Registry::builtin(), group)), start, record))
    }

    /// Starts the ranks anew.
    fn start(&mut self) -> Result<Group> {
        let Setup { program, wait, pin, .. } = &self.setup;
        let how = (wait.unwrap_or(Wait::Poll), *pin != Pin::Free);
        let interrupt = || -> Result<Option<OwnedFd>> { Ok(self.setup.try_clone()?.interrupt) };
        if let Some(hosts) = self.hosts.as_mut().filter(|_| self.setup.transport == Kind::Tcp) {
            return hosts.start(program, how, &self.among, interrupt()?);
        }
        let setup = self.setup.try_clone()?;
        let usable = usable()?;
        // Where ranks shared CPUs, these need not; those of a launcher have other numbers on this host.
        let shared = self.machines[0].1 as usize > usable.at_once;
        let pin = match shared || self.hosts.is_some() {
            true => setup.pin,
            false => setup.pin.among(&self.among, &usable)?,
        };
        let places = match setup.places.len() {
            0 => Vec::new(),
            many => {
                let of = |&rank: &u32| setup.places[rank as usize % many].clone();
                self.among.iter().map(of).collect()
            }
        };
        Group::start(Setup { pin, places, ..setup })
    }

    /// Releases the ranks; an error that ended the run is sent to them.
    pub(super) fn end(&mut self, error: Option<&Error>) {
        if let Some(hosts) = self.hosts.take() {
            hosts.end(error);
        }
    }
}
