//! Flags for how ranks are started on this machine.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use super::flags::value;
use super::run::RANK;
use collcost::base::error::{Error, Result};
use collcost::run::launch::{Pin, Place, Setup};
use collcost::run::transport::Kind;

// How ranks are started.
#[derive(clap::Args)]
#[command(next_help_heading = "Ranks")]
pub(super) struct ProcessFlags {
    /// How bytes move: shm (shared memory) or tcp, in calibrate also nccl or cuda; auto is tcp if a
    /// launcher started the ranks, else shm
    #[arg(long, value_name = "NAME", default_value = "auto")]
    transport: String,
    /// How ranks wait: spin or poll; default: spin if each rank has its own CPU
    #[arg(long, value_name = "HOW", hide_short_help = true)]
    wait: Option<String>,
    /// Let ranks move between CPUs
    #[arg(long, hide_short_help = true)]
    no_pin: bool,
    /// The CPUs of the ranks, rank 0's first, such as 0,8 for two cores that share no cache; default:
    /// in order
    #[arg(long, value_name = "CPU,…", conflicts_with = "no_pin", hide_short_help = true)]
    cpus: Option<String>,
    /// Network namespaces for ranks over TCP, with their addresses: r1=10.0.0.1,r2=10.0.0.2
    #[arg(long, value_name = "NAME=ADDRESS,…", hide_short_help = true)]
    netns: Option<String>,
}

impl ProcessFlags {
    /// How ranks are started; their number is set later. Ranks `started` by a launcher may be on
    /// several hosts.
    pub(super) fn setup(&self, started: bool) -> Result<Setup> {
        let named = Some(&self.transport).filter(|name| *name != "auto");
        if matches!(self.transport.as_str(), "nccl" | "cuda") {
            return Err(no_gpus(&self.transport));
        }
        let usual = if started { Kind::Tcp } else { Kind::Shm };
        let transport: Kind = value("--transport", named)?.unwrap_or(usual);
        if started && transport != Kind::Tcp {
            return Err(Error::input("ranks that a launcher started may be on several hosts")
                .at(format!("--transport {}", transport.id()))
                .help("write --transport tcp; or add --launcher none, which starts ranks itself"));
        }
        if started && self.netns.is_some() {
            return Err(Error::input("a launcher has placed the ranks already")
                .at("--netns")
                .help("leave out --netns, or add --launcher none"));
        }
        let program = this_program()?;
        let places = self.places()?;
        if transport != Kind::Tcp && !places.is_empty() {
            return Err(Error::input("namespaces have no effect on shared memory")
                .at("--netns")
                .help("add --transport tcp"));
        }
        Ok(Setup {
            program: (program, vec![RANK.to_owned()]),
            ranks: 0,
            transport,
            wait: value("--wait", self.wait.as_ref())?,
            pin: self.pin(started)?,
            places,
            delay: None,
            interrupt: Some(interruption()?),
        })
    }

    /// The CPUs of ranks. Those `started` by a launcher have theirs from it.
    fn pin(&self, started: bool) -> Result<Pin> {
        let Some(text) = &self.cpus else {
            return Ok(if self.no_pin { Pin::Free } else { Pin::InOrder });
        };
        let place = |e: Error| e.at(format!("--cpus {text}"));
        if started {
            return Err(place(Error::input("a launcher has placed the ranks already"))
                .help("let it bind them to CPUs, or add --launcher none"));
        }
        let cpu = |word: &str| {
            word.trim().parse::<usize>().map_err(|_| {
                place(Error::input(format!("`{word}` is not the number of a CPU")))
                    .help("write 0,8")
            })
        };
        text.split(',').map(cpu).collect::<Result<Vec<usize>>>().map(Pin::To)
    }

    /// An error about the CPUs that are given by hand.
    pub(super) fn of_cpus(&self, error: Error) -> Error {
        match &self.cpus {
            Some(text) => error.at(format!("--cpus {text}")),
            None => error,
        }
    }

    /// Refuses fewer namespaces than ranks: those in one would talk over its loopback, not over the link.
    pub(super) fn places_suffice(&self, ranks: u32) -> Result<()> {
        let Some(count) = self.namespaces().filter(|&count| count < ranks) else { return Ok(()) };
        Err(Error::input(format!("{ranks} ranks need {ranks} namespaces, not {count}"))
            .at("--netns")
            .help("name one for each rank, or start fewer ranks"))
    }

    /// How many namespaces ranks are given.
    pub(super) fn namespaces(&self) -> Option<u32> {
        self.netns.as_ref().map(|text| text.split(',').count() as u32)
    }

    /// How many CPUs ranks are given by hand.
    pub(super) fn cpus(&self) -> Option<u32> {
        self.cpus.as_ref().map(|text| text.split(',').count() as u32)
    }

    /// The value of `--transport`.
    #[cfg(feature = "cuda")]
    pub(super) fn transport(&self) -> &str {
        &self.transport
    }

    /// The flags that were typed; of namespaces only their number.
    pub(super) fn words(&self) -> Vec<String> {
        let transport = Some(&self.transport).filter(|name| *name != "auto");
        let spaces = self.netns.as_ref().map(|text| text.split(',').count());
        let words = [
            transport.map(|name| format!("--transport {name}")),
            self.wait.as_ref().map(|wait| format!("--wait {wait}")),
            self.no_pin.then(|| "--no-pin".to_owned()),
            self.cpus.as_ref().map(|cpus| format!("--cpus {cpus}")),
            spaces.map(|count| format!("--netns ({count})")),
        ];
        words.into_iter().flatten().collect()
    }

    fn places(&self) -> Result<Vec<Place>> {
        let Some(text) = &self.netns else { return Ok(Vec::new()) };
        let refuse = |part: &str| {
            Error::input(format!("`{part}` is not a namespace with its address"))
                .at(format!("--netns {text}"))
                .help("write r1=10.0.0.1,r2=10.0.0.2")
        };
        let place = |part: &str| {
            let (name, address) = part.split_once('=').ok_or_else(|| refuse(part))?;
            let address: IpAddr = address.parse().map_err(|_| refuse(part))?;
            // Where `ip netns` keeps them; a full path is used unchanged.
            let namespace = Some(PathBuf::from("/run/netns").join(name));
            Ok(Place { namespace, address })
        };
        text.split(',').map(place).collect()
    }
}

/// The file of this program, to start it again.
pub(super) fn this_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|e| Error::environment(format!("this program does not know where it is: {e}")))
}

/// Whether this program is linked statically and cannot load libraries.
const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// Reports that there are GPUs but this program, being static, cannot use them.
#[cfg(not(feature = "cuda"))]
pub(super) fn passed_over_gpus() {
    if IS_STATIC && std::path::Path::new("/dev/nvidiactl").exists() {
        super::streams::say(format_args!("note: {}", no_gpus("nccl")));
    }
}

/// Why GPUs cannot be used here.
pub(super) fn no_gpus(transport: &str) -> Error {
    let (what, help) = match (cfg!(feature = "cuda"), IS_STATIC) {
        (true, _) => (
            "schedules are run between processes, not by GPUs",
            "`collcost calibrate --transport nccl` measures GPUs",
        ),
        (false, true) => (
            "this collcost is a static program, which cannot load CUDA or NCCL",
            "use the build for glibc of the same release (linux-gnu), or the Python wheel",
        ),
        (false, false) => {
            ("this collcost was built without GPU support", "build it with the feature `cuda`")
        }
    };
    Error::environment(what).at(format!("--transport {transport}")).help(help)
}

/// The exit code of what was interrupted.
const INTERRUPTED: i32 = 130;

/// Whether a signal ends the program itself.
static ENDS: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Where no ranks run, nobody looks at what an interruption makes readable: then the signal ends the program.
pub(super) fn signals_end(they_do: bool) {
    ENDS.store(they_do, Ordering::SeqCst);
}

/// What becomes readable when the user interrupts.
pub(super) fn interruption() -> Result<OwnedFd> {
    let failed = |e| Error::environment(format!("interrupt signals cannot be caught: {e}"));
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    // A launcher ends its ranks by the second of them.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let ends = Arc::clone(&ENDS);
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, ends)
            .map_err(failed)?;
        let theirs = theirs.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, theirs).map_err(failed)?;
    }
    Ok(ours.into())
}
