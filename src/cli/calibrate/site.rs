//! Where ranks run: processes that this one starts, or one per host that a launcher started.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::cli::flags::{value, whole};
use crate::cli::streams::say;
use collcost::base::error::{Error, Result};
use collcost::measure::fit::Gate;
use collcost::run::calibrate::{Host, Intent};
use collcost::run::launch::{Group, Setup, Usable};
use collcost::run::rendezvous::{
    Hosts, Launcher, Meeting, Part, Purpose, Token, Typed, meet, serve,
};
use collcost::run::transport::{Kind, Wait};

// How ranks that were started elsewhere find each other.
#[derive(clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(super) struct HostFlags {
    /// Where rank 0 listens and the others call; without it what the launcher says
    #[arg(long, value_name = "ADDRESS:PORT", hide_short_help = true)]
    rendezvous: Option<String>,
    /// 32 random bytes or more that all hosts share and nobody else can read
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    token_file: Option<PathBuf>,
    /// Which rank this is, where no launcher says it
    #[arg(long, value_name = "R", allow_hyphen_values = true, hide_short_help = true)]
    rank: Option<String>,
    /// What started the ranks: openmpi, pmi, slurm, torchrun or none; without it by their variables
    #[arg(long, value_name = "NAME")]
    launcher: Option<String>,
}

impl HostFlags {
    /// This process's part among several; none where it is to start ranks itself.
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
        let token = self.token(part)?;
        let (others, by) = (part.ranks - 1, part.launcher);
        let how = if by == Launcher::None { String::new() } else { format!(" by {by}") };
        say(format_args!(
            "rank 0 of {}{how}: waiting for {others} more at {}",
            part.ranks, part.at
        ));
        meet(part, token, own, Meeting { purpose, interrupt, say: &mut |text| say(text) })
    }

    pub(super) fn token(&self, part: &Part) -> Result<Token> {
        let file = self.token_file.as_ref().ok_or_else(|| {
            Error::input("the ranks need a token, by which they know each other")
                .at(format!("{} ranks, --rendezvous {}", part.ranks, part.at))
                .help(
                    "add --token-file FILE; make one with \
                     `(umask 077; head -c 32 /dev/urandom > FILE)`",
                )
        })?;
        Token::read(file)
    }

    /// Serves as a rank above 0.
    pub(super) fn serve(&self, part: &Part, setup: &Setup) -> Result<()> {
        serve(part, &self.token(part)?, &setup.program, setup.interrupt.as_ref())
    }

    /// Flags that a reader of the command may know.
    pub(super) fn words(&self) -> Vec<String> {
        let launcher = self.launcher.iter().map(|name| format!("--launcher {name}"));
        let shared = self.token_file.iter().map(|_| "--token-file …".to_owned());
        launcher.chain(shared).collect()
    }
}

/// Where ranks run.
pub(super) struct Site {
    pub(super) setup: Setup,
    /// The ranks' hosts, where a launcher started them.
    hosts: Option<Hosts>,
    /// Each machine with its ranks.
    machines: Vec<(Host, u32)>,
}

impl Site {
    /// On this machine alone.
    pub(super) fn here(setup: Setup, usable: Usable) -> Self {
        let machines = vec![(Host::look(usable.cpus, usable.at_once), setup.ranks)];
        Self { setup, hosts: None, machines }
    }

    /// With all ranks that a launcher started, as rank 0 of them.
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
        Ok(Self { setup, hosts: Some(hosts), machines })
    }

    /// The machine of rank 0.
    pub(super) fn first(&self) -> &Host {
        &self.machines[0].0
    }

    /// What speaks for and against measuring on each machine.
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

    /// The machines in words, and equal for the same ones since their starts.
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

    /// Starts the ranks anew.
    pub(super) fn start(&mut self) -> Result<Group> {
        let Setup { program, wait, pin, .. } = &self.setup;
        let how = (wait.unwrap_or(Wait::Poll), *pin);
        let interrupt = || -> Result<Option<OwnedFd>> { Ok(self.setup.try_clone()?.interrupt) };
        match &mut self.hosts {
            Some(hosts) => hosts.start(program, how, interrupt()?),
            None => Group::start(self.setup.try_clone()?),
        }
    }

    /// Lets the ranks go; they hear of an error that ended it.
    pub(super) fn end(&mut self, error: Option<&Error>) {
        if let Some(hosts) = self.hosts.take() {
            hosts.end(error);
        }
    }
}
