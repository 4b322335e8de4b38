//! Network namespaces with a bridge between them, made and removed here.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use collcost::run::launch::Place;

use super::cells::Library;
use super::peer::Folder;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What a rank's link carries each way.
const RATE: &str = "200mbit";

/// One namespace a rank, and one for the bridge.
pub struct Network {
    ranks: Vec<String>,
    bridge: String,
    /// What the launchers use to start something on a "host", which is a namespace's name.
    agent: PathBuf,
}

impl Network {
    pub fn new(ranks: u32, folder: &Folder) -> Result<Self> {
        remove_left();
        let prefix = format!("sbs{}", std::process::id());
        let names = (0..ranks).map(|rank| format!("{prefix}-{rank}")).collect();
        let agent = folder.path().join("agent");
        let network = Self { ranks: names, bridge: format!("{prefix}-b"), agent };
        fs::write(&network.agent, AGENT)?;
        fs::set_permissions(&network.agent, fs::Permissions::from_mode(0o755))?;
        network.make()?;
        Ok(network)
    }

    fn make(&self) -> Result<()> {
        let bridge = &self.bridge;
        run(&format!("ip netns add {bridge}"))?;
        run(&format!("ip -n {bridge} link add br0 type bridge"))?;
        run(&format!("ip -n {bridge} link set br0 up"))?;
        for (rank, name) in self.ranks.iter().enumerate() {
            for line in [
                format!("ip netns add {name}"),
                format!("ip -n {name} link set lo up"),
                format!("ip -n {name} link add e0 type veth peer name p{rank} netns {bridge}"),
                format!("ip -n {name} link set e0 gso_max_size 16384"),
                format!("ip -n {bridge} link set p{rank} master br0 up"),
                format!("ip -n {name} addr add {}/24 dev e0", address(rank)),
                format!("ip -n {name} link set e0 up"),
                format!("tc -n {name} qdisc add dev e0 root tbf rate {RATE} burst 32k limit 4m"),
            ] {
                run(&line)?;
            }
            // Who is a host has a name that the others know.
            let folder = PathBuf::from("/etc/netns").join(name);
            fs::create_dir_all(&folder)?;
            let hosts = self.ranks.iter().enumerate();
            let hosts: String = hosts.map(|(r, name)| format!("{} {name}\n", address(r))).collect();
            fs::write(folder.join("hosts"), format!("127.0.0.1 localhost\n{hosts}"))?;
        }
        Ok(())
    }

    /// Where our ranks run.
    pub fn places(&self) -> Vec<Place> {
        let place = |(rank, name): (usize, &String)| Place {
            namespace: Some(PathBuf::from("/run/netns").join(name)),
            address: address(rank).into(),
        };
        self.ranks.iter().enumerate().map(place).collect()
    }

    /// A library's launcher in the first namespace, which starts a rank in each.
    pub fn launcher(&self, library: Library, environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(&self.agent);
        command.arg(&self.ranks[0]).arg(format!("mpirun.{}", library.suffix()));
        match library {
            Library::OpenMpi => {
                let hosts: Vec<String> =
                    self.ranks.iter().map(|name| format!("{name}:1")).collect();
                command.args(["--bind-to", "none", "--host", &hosts.join(",")]);
                command.args(["--mca", "plm_rsh_agent"]).arg(&self.agent);
                command.args(["--mca", "oob_tcp_if_include", "e0"]);
                for (name, _) in environment {
                    command.args(["-x", name]);
                }
            }
            Library::Mpich => {
                command.args(["-launcher", "rsh", "-launcher-exec"]).arg(&self.agent);
                command.args(["-hosts", &self.ranks.join(","), "-iface", "e0"]);
            }
        }
        command.args(["-n", &self.ranks.len().to_string()]);
        command
    }
}

/// Runs the rest of its words in a namespace, with its name as the host's; a remote shell.
const AGENT: &str = "#!/bin/sh\n\
    name=$1; shift\n\
    exec ip netns exec \"$name\" unshare --uts sh -c \"hostname $name; exec $*\"\n";

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.ranks.iter().chain([&self.bridge]) {
            remove(name);
        }
        // Only where nobody else has something in it.
        let _ = fs::remove_dir("/etc/netns");
    }
}

fn remove(name: &str) {
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
    let _ = fs::remove_dir_all(PathBuf::from("/etc/netns").join(name));
}

/// Removes what a run left that was killed.
fn remove_left() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix("sbs").and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !PathBuf::from("/proc").join(pid).exists()) {
            remove(&name);
        }
    }
}

fn address(rank: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, rank as u8 + 1)
}

fn run(line: &str) -> Result<()> {
    let mut words = line.split(' ');
    let status = Command::new(words.next().unwrap_or_default()).args(words).status()?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed; is this root?").into()) }
}
