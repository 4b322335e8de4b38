//! This process's rank and the meeting point: from flags, or from a launcher's environment
//! variables.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::base::error::{Error, Result, did_you_mean};

/// The default port where ranks of one host meet.
const PORT: u16 = 29_533;

/// What started the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// None: ranks are processes that this one starts.
    None,
    /// Open MPI's mpirun.
    OpenMpi,
    /// A launcher that uses PMI: MPICH's, Intel's, or srun --mpi=pmi2.
    Pmi,
    /// Slurm's srun.
    Slurm,
    /// PyTorch's torchrun, with --no-python; or anything else that sets the same variables.
    Torchrun,
}

impl Launcher {
    /// All of them.
    pub const ALL: &[Self] = &[Self::None, Self::OpenMpi, Self::Pmi, Self::Slurm, Self::Torchrun];

    /// The name on the command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::OpenMpi => "openmpi",
            Self::Pmi => "pmi",
            Self::Slurm => "slurm",
            Self::Torchrun => "torchrun",
        }
    }

    /// The variables that hold the rank and the number of ranks, in order of preference.
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::None => &[],
            Self::OpenMpi => &[("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")],
            Self::Pmi => &[("PMI_RANK", "PMI_SIZE"), ("PMIX_RANK", "PMI_SIZE")],
            // In a batch script outside a step, which is one process, this number is not set.
            Self::Slurm => {
                &[("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("PMIX_RANK", "SLURM_STEP_NUM_TASKS")]
            }
            Self::Torchrun => &[("RANK", "WORLD_SIZE")],
        }
    }

    /// The launcher whose variables are set; if several started each other, the innermost.
    fn find(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        if variable("TORCHELASTIC_RUN_ID").is_some() {
            return Self::Torchrun;
        }
        let is_here = |launcher: &&Self| {
            launcher
                .variables()
                .iter()
                .any(|(rank, ranks)| variable(rank).is_some() && variable(ranks).is_some())
        };
        Self::ALL.iter().find(is_here).copied().unwrap_or(Self::None)
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Launcher {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|launcher| launcher.id() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|launcher| launcher.id()).collect();
            Error::input(format!("`{text}` is not a launcher")).help(did_you_mean(
                text,
                names.iter().copied(),
                || format!("write {}", names.join(", ")),
            ))
        })
    }
}

/// This process's part in a run of several processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its rank.
    pub rank: u32,
    /// N.
    pub ranks: u32,
    /// Where rank 0 listens and the others call.
    pub at: SocketAddr,
    /// The launcher that set the rank.
    pub launcher: Launcher,
}

/// The flags given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// The launcher; if absent, the one whose variables are set.
    pub launcher: Option<Launcher>,
    /// The rank, if no launcher sets it.
    pub rank: Option<u32>,
    /// N.
    pub ranks: Option<u32>,
    /// The rendezvous.
    pub rendezvous: Option<String>,
}

impl Part {
    /// The part of a process, from its flags and its environment; `None` if it is alone.
    ///
    /// # Errors
    /// Variables that are invalid or contradict each other or the flags; no meeting point.
    pub fn of(typed: &Typed, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let variable = &|name: &str| variable(name).filter(|value| !value.is_empty());
        let launcher = match (typed.launcher, typed.rank) {
            (Some(launcher), _) => launcher,
            (None, Some(_)) => Launcher::None,
            (None, None) => Launcher::find(variable),
        };
        let (rank, ranks) = match (launcher, typed.rank) {
            (Launcher::None, None) => {
                return match &typed.rendezvous {
                    None => Ok(None),
                    Some(at) => Err(Error::input("which rank is this?")
                        .at(format!("--rendezvous {at}"))
                        .help("add --rank and -n, or start it with mpirun, srun or torchrun")),
                };
            }
            (Launcher::None, Some(rank)) => {
                let ranks = typed.ranks.ok_or_else(|| {
                    Error::input("how many ranks are there?")
                        .at(format!("--rank {rank}"))
                        .help("add -n, the same for all ranks")
                })?;
                (rank, ranks)
            }
            (launcher, None) => numbers(launcher, variable)?,
            (launcher, Some(rank)) => {
                return Err(Error::input(format!("{launcher} already sets the rank"))
                    .at(format!("--rank {rank}"))
                    .help("leave out --rank, or add --launcher none"));
            }
        };
        if rank >= ranks {
            return Err(Error::input(format!("there is no rank {rank} of {ranks}"))
                .help("ranks are counted from 0"));
        }
        if let Some(typed) = typed.ranks.filter(|&typed| typed != ranks) {
            return Err(Error::input(format!("{launcher} has started {ranks} ranks"))
                .at(format!("-n {typed}"))
                .help("leave out -n"));
        }
        if ranks == 1 {
            return Ok(None);
        }
        let at = match &typed.rendezvous {
            Some(text) => address(text, "--rendezvous")?,
            None => place(launcher, ranks, variable)?,
        };
        if at.ip().is_unspecified() && rank > 0 {
            return Err(Error::input("ranks above 0 cannot call a wildcard address")
                .at(format!("--rendezvous {at}"))
                .help("give ranks above 0 the address of rank 0's host"));
        }
        Ok(Some(Self { rank, ranks, at, launcher }))
    }
}

/// The rank and the number of ranks set by the launcher.
fn numbers(launcher: Launcher, variable: &dyn Fn(&str) -> Option<String>) -> Result<(u32, u32)> {
    let both = launcher
        .variables()
        .iter()
        .find_map(|&(rank, ranks)| Some(((rank, variable(rank)?), (ranks, variable(ranks)?))));
    let Some((rank, ranks)) = both else {
        let (rank, ranks) = launcher.variables().first().copied().unwrap_or_default();
        return Err(Error::input(format!("{launcher} did not start this process"))
            .at(format!("--launcher {launcher}"))
            .help(format!("it would have set {rank} and {ranks}")));
    };
    let number = |(name, text): (&str, String)| {
        text.parse().map_err(|_| {
            Error::input(format!("`{text}` is not a number of ranks"))
                .at(name.to_owned())
                .help("unset it, or add --launcher none")
        })
    };
    Ok((number(rank)?, number(ranks)?))
}

/// The meeting point of ranks for which none was given.
fn place(
    launcher: Launcher,
    ranks: u32,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<SocketAddr> {
    if let (Some(host), Some(port)) = (variable("MASTER_ADDR"), variable("MASTER_PORT")) {
        let number: u16 = port.parse().map_err(|_| {
            Error::input(format!("`{port}` is not a port")).at("MASTER_PORT").help("write 29500")
        })?;
        // torchrun's own store listens at its port, unless the variable is set otherwise.
        let taken = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|text| text == "True");
        let next = if number == u16::MAX { number - 1 } else { number + 1 };
        return address(&join(&host, if taken { next } else { number }), "MASTER_ADDR");
    }
    if launcher == Launcher::Slurm
        && let Some(nodes) = variable("SLURM_STEP_NODELIST").or_else(|| variable("SLURM_NODELIST"))
        && let Some(first) = first_host(&nodes)
    {
        let number = |name: &str| variable(name).and_then(|text| text.parse::<u32>().ok());
        let job = number("SLURM_JOB_ID").unwrap_or(0);
        let step = number("SLURM_STEP_ID").unwrap_or(0);
        // Steps that run on one host at the same time must not meet each other.
        let port = 20_000 + job.wrapping_mul(31).wrapping_add(step) % 10_000;
        return address(&join(&first, port as u16), "SLURM_STEP_NODELIST");
    }
    let here = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"].into_iter().find_map(variable);
    if here.is_some_and(|here| here.parse() == Ok(ranks)) {
        return Ok(SocketAddr::from(([127, 0, 0, 1], PORT)));
    }
    Err(Error::input("where do the ranks meet?")
        .at("calibrate")
        .help(format!("add --rendezvous ADDRESS:{PORT}, with an address of rank 0's host")))
}

/// A host and a port; an IPv6 address is put in brackets.
fn join(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn address(text: &str, place: &str) -> Result<SocketAddr> {
    let refuse = |what: String| {
        Error::input(what).at(format!("{place} {text}")).help(format!("write 10.0.0.1:{PORT}"))
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let is_pair = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !is_pair {
        return Err(refuse(format!("`{text}` is not an address with a port")));
    }
    let mut found = text
        .to_socket_addrs()
        .map_err(|e| refuse(format!("the host of `{text}` was not found: {e}")))?;
    found.next().ok_or_else(|| refuse(format!("the host of `{text}` has no address")))
}

/// The first host in Slurm's list: `gpu[03-07,9],login` begins with gpu03.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (head, rest) = list.split_at(end);
    let Some(inside) = rest.strip_prefix('[') else {
        return (!head.is_empty()).then(|| head.to_owned());
    };
    let (inside, tail) = inside.split_once(']')?;
    let number = inside.split([',', '-']).next()?;
    // The text after the bracket belongs to each name: rack[1-2]n[1-4].
    let tail = first_host(tail).filter(|_| !tail.starts_with(',')).unwrap_or_default();
    Some(format!("{head}{number}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(typed: &Typed, variables: &[(&str, &str)]) -> Result<Option<Part>> {
        Part::of(typed, &|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn found(variables: &[(&str, &str)]) -> (Launcher, u32, u32, String) {
        let part = part(&Typed::default(), variables).unwrap().unwrap();
        (part.launcher, part.rank, part.ranks, part.at.to_string())
    }

    #[test]
    fn launchers_say_rank_size_and_place() {
        let local = "127.0.0.1:29533".to_owned();
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("PMIX_RANK", "2"),
            // mpirun was started in an allocation; its daemon was started by srun.
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ];
        assert_eq!(found(&open_mpi), (Launcher::OpenMpi, 2, 4, local.clone()));
        let mpich = [("PMI_RANK", "1"), ("PMI_SIZE", "3"), ("MPI_LOCALNRANKS", "3")];
        assert_eq!(found(&mpich), (Launcher::Pmi, 1, 3, local));
        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_STEP_NODELIST", "127.0.0.[1-4]"),
            ("SLURM_JOB_ID", "4711"),
            ("SLURM_STEP_ID", "2"),
        ];
        assert_eq!(found(&slurm), (Launcher::Slurm, 5, 8, "127.0.0.1:26043".to_owned()));
        let torchrun = [
            ("RANK", "3"),
            ("WORLD_SIZE", "16"),
            ("MASTER_ADDR", "10.0.0.7"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_RUN_ID", "none"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ];
        let at = |port: u16| (Launcher::Torchrun, 3, 16, format!("10.0.0.7:{port}"));
        assert_eq!(found(&torchrun), at(29_500));
        let store = [&torchrun[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(found(&store), at(29_501), "torchrun's own store has the port");
    }

    #[test]
    fn who_is_alone_starts_its_own_ranks() {
        for variables in [
            &[][..],
            &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")],
            // A batch script, which has the variables of the allocation.
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "64"), ("SLURM_NODELIST", "n[1-8]")],
        ] {
            assert_eq!(part(&Typed::default(), variables), Ok(None), "{variables:?}");
        }
        let typed = Typed { launcher: Some(Launcher::None), ..Typed::default() };
        assert_eq!(part(&typed, &[("RANK", "1"), ("WORLD_SIZE", "2")]), Ok(None));
    }

    #[test]
    fn by_hand_all_is_typed() {
        let typed = Typed {
            rank: Some(1),
            ranks: Some(4),
            rendezvous: Some("[::1]:4000".to_owned()),
            launcher: None,
        };
        let part = part(&typed, &[("RANK", "7"), ("WORLD_SIZE", "8")]).unwrap().unwrap();
        assert_eq!((part.rank, part.ranks, part.at.to_string()), (1, 4, "[::1]:4000".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |typed: Typed, variables: &[(&str, &str)]| {
            part(&typed, variables).unwrap_err().to_string()
        };
        let two = [("RANK", "0"), ("WORLD_SIZE", "2")];
        let at = |text: &str| Typed { rendezvous: Some(text.to_owned()), ..Typed::default() };
        for (typed, variables, said) in [
            (Typed::default(), &two[..], "where do the ranks meet?"),
            (at("10.0.0.1"), &two, "not an address with a port"),
            (at("no.such.host.invalid:1"), &two, "was not found"),
            (at("10.0.0.1:1"), &[], "which rank is this?"),
            (at("0.0.0.0:1"), &[("RANK", "1"), ("WORLD_SIZE", "2")], "a wildcard address"),
            (Typed { ranks: Some(3), ..at("10.0.0.1:1") }, &two, "has started 2 ranks"),
            (Typed { rank: Some(1), ..at("10.0.0.1:1") }, &two, "how many ranks"),
            (at("10.0.0.1:1"), &[("RANK", "2"), ("WORLD_SIZE", "2")], "no rank 2 of 2"),
            (at("10.0.0.1:1"), &[("RANK", "x"), ("WORLD_SIZE", "2")], "`x` is not a number"),
            (
                Typed { launcher: Some(Launcher::Slurm), ..Typed::default() },
                &two,
                "slurm did not start this process",
            ),
        ] {
            let error = refused(typed, variables);
            assert!(error.contains(said), "{error}, not {said}");
        }
    }

    #[test]
    fn slurms_lists_begin_somewhere() {
        for (list, first) in [
            ("gpu[03-07,9],login", "gpu03"),
            ("login,gpu[1-2]", "login"),
            ("n1", "n1"),
            ("rack[1-2]n[04-8]x", "rack1n04x"),
            ("a[7],b", "a7"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(first));
        }
        assert_eq!(first_host(""), None);
        assert_eq!(first_host("n[1"), None);
    }
}
