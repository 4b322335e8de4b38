//! The real libraries: what they run by themselves is what the policies say, and a file that was
//! written for them is obeyed.
//!
//! Programs of `tests/peers` make the calls and look on. Where Open MPI or MPICH is not installed
//! nothing is tested, which standard error says; `.ci/run` installs Debian's where it can.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use collcost::answer::tune;
use collcost::base::quantity::Bytes;
use collcost::library::mpich::{name as mpich_name, rules as mpich};
use collcost::library::openmpi::rules as openmpi;
use collcost::library::tuning_file;
use collcost::library::{Call, Flavour, Operation, Part, Runs, Site, policy};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Shape;
use collcost::model::schedule::List;

/// A folder of this test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("collcost-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end, which must be good; what it said on both outputs.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command:?}:\n{text}");
    text
}

/// Runs a command whose programs write their lines into a file of their own; those lines.
fn heard(command: &mut Command, says: &Path) -> String {
    let _ = fs::remove_file(says);
    run(command);
    fs::read_to_string(says).unwrap_or_default()
}

fn is_installed(names: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = names
        .iter()
        .find(|name| !std::env::split_paths(&path).any(|folder| folder.join(name).is_file()));
    if let Some(name) = missing {
        eprintln!(
            "not run: {name} is not installed (apt-get install openmpi-bin libopenmpi-dev mpich libmpich-dev)"
        );
    }
    missing.is_none()
}

/// Compiles the calls and the spy of a library.
fn built(folder: &Folder, compiler: &str, spy: &str) -> (PathBuf, PathBuf) {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
    let (calls, library) = (folder.file("calls"), folder.file("spy.so"));
    run(Command::new(compiler).args(["-O1", "-o"]).arg(&calls).arg(peers.join("calls.c")));
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(peers.join(spy));
    run(command.arg("-ldl"));
    (calls, library)
}

/// Writes a tuning file with the command.
fn export(format: &str, flags: &str, file: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(["export", format]).args(flags.split_whitespace()).arg("-o").arg(file);
    run(&mut command);
    fs::read_to_string(file).unwrap()
}

/// What is asked of a library: the operation, and the bytes that the program is told.
#[derive(Clone, Copy)]
struct Asked {
    operation: Operation,
    bytes: u64,
}

impl Asked {
    fn word(&self) -> String {
        format!("{}:{}", self.operation, self.bytes)
    }

    /// The call that the program makes of it: whole elements, and whole blocks of them.
    fn call(&self, ranks: u32, nodes: u32) -> Call {
        let Operation { collective, flavour } = self.operation;
        use collcost::Collective as C;
        let blocks = matches!(
            collective,
            C::AllGather | C::ReduceScatter | C::AllToAll | C::Gather | C::Scatter
        );
        let parts = if blocks { u64::from(ranks) } else { 1 };
        let size = Bytes(self.bytes / 4 / parts * parts * 4);
        Call { flavour, nodes, ..Call::new(collective, ranks, size) }
    }
}

fn asked(operations: impl Iterator<Item = Operation>, sizes: &[u64]) -> Vec<Asked> {
    let all = operations.flat_map(|operation| sizes.iter().map(move |&bytes| (operation, bytes)));
    all.map(|(operation, bytes)| Asked { operation, bytes }).collect()
}

/// The lines of a run between the two lines of a call, by rank, without the rank.
fn lines_of(text: &str, call: &str) -> BTreeMap<u32, Vec<String>> {
    let mut open: BTreeMap<u32, bool> = BTreeMap::new();
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(what), Some(rank), Some(rest)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Ok(rank) = rank.parse() else { continue };
        match what {
            "CALL" => drop(open.insert(rank, rest == call)),
            "DONE" => drop(open.insert(rank, false)),
            "RUNS" | "SENDS" if open.get(&rank) == Some(&true) => {
                found.entry(rank).or_default().push(rest.to_owned());
            }
            _ => {}
        }
    }
    found
}

/// Functions of Open MPI by what the library calls the algorithm, where that is not its own name.
const FUNCTIONS: &[(&str, &str)] = &[
    ("allgather_intra_basic_linear", "linear"),
    ("allgather_intra_neighborexchange", "neighbor"),
    ("allgather_intra_two_procs", "two_proc"),
    ("allreduce_intra_ring_segmented", "segmented_ring"),
    ("allreduce_intra_redscat_allgather", "rabenseifner"),
    ("alltoall_intra_basic_linear", "linear"),
    ("alltoall_intra_bruck", "modified_bruck"),
    ("alltoall_intra_two_procs", "two_proc"),
    ("barrier_intra_basic_linear", "linear"),
    ("barrier_intra_doublering", "double_ring"),
    ("barrier_intra_two_procs", "two_proc"),
    ("bcast_intra_bintree", "binary_tree"),
    ("bcast_intra_split_bintree", "split_binary_tree"),
    ("reduce_intra_basic_linear", "linear"),
    ("reduce_intra_in_order_binary", "in-order_binary"),
    ("reduce_intra_redscat_gather", "rabenseifner"),
    ("reduce_scatter_block_basic_linear", "basic_linear"),
    ("reduce_scatter_intra_basic_recursivehalving", "recursive_halving"),
    ("reduce_scatter_block_intra_recursivehalving", "recursive_halving"),
    ("reduce_scatter_intra_nonoverlapping", "non-overlapping"),
];

/// The algorithm that rank 0 entered first, by the library's name, and its segments.
fn entered(text: &str, asked: &Asked) -> (String, u64) {
    let lines = lines_of(text, &asked.word());
    let first = lines.get(&0).and_then(|lines| lines.first());
    let first = first.unwrap_or_else(|| panic!("{} ran nothing:\n{text}", asked.word()));
    ran(first)
}

/// The algorithm of a line of the spy, and its segments.
fn ran(line: &str) -> (String, u64) {
    let (function, segment) = line.split_once(' ').unwrap();
    let known = FUNCTIONS.iter().find(|(name, _)| *name == function);
    let plain = function.split("_intra_").last().unwrap();
    let name = known.map_or(plain, |(_, name)| name).replace("recursived", "recursive_d");
    (name, segment.parse().unwrap())
}

/// The heats of a race on four ranks, each with its contenders that are not the library's own choice:
/// name, segment, and how often it ran.
fn raced(mut launcher: Command, library: &str, rules: &Path, words: &str) -> Vec<Contenders> {
    let tuned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fitted.toml");
    launcher.arg(env!("CARGO_BIN_EXE_collcost")).args(["calibrate", "--library", library, "--on"]);
    launcher.arg(tuned).args(words.split(' ')).args(["--format", "json", "--out"]).arg(rules);
    let output = launcher.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ranks"], 4, "{report}");
    let heats = report["heats"].as_array().unwrap().iter().map(|heat| {
        let all = heat["contenders"].as_array().unwrap();
        assert!(all[0]["runs"].as_u64() >= Some(3), "{heat}");
        let one = |c: &serde_json::Value| {
            let segment = c["segment_bytes"].as_u64().unwrap_or(0);
            (c["algorithm"].as_str().unwrap().to_owned(), segment, c["runs"].as_u64().unwrap())
        };
        all[1..].iter().map(one).collect()
    });
    heats.collect()
}

const RACE: &str = "--ops broadcast,allgather,reducescatter --sizes 16K,64K --time-budget 40s";

type Contenders = Vec<(String, u64, u64)>;

struct OpenMpi {
    calls: PathBuf,
    spy: PathBuf,
}

impl OpenMpi {
    fn run(&self, ranks: u32, asked: &[Asked], rules: Option<&Path>) -> String {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "60", "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]);
        command.args(["-n", &ranks.to_string(), "--mca", "btl", "self,vader"]);
        command.args(["--mca", "btl_vader_single_copy_mechanism", "none"]);
        if let Some(rules) = rules {
            command.args(["--mca", "coll_tuned_use_dynamic_rules", "1"]);
            command.args(["--mca", "coll_tuned_dynamic_rules_filename"]).arg(rules);
        }
        let says = self.spy.with_file_name("says");
        command.arg("-x").arg(format!("LD_PRELOAD={}", self.spy.display()));
        command.arg("-x").arg(format!("COLLCOST_SAYS={}", says.display())).arg(&self.calls);
        heard(command.args(asked.iter().map(Asked::word)), &says)
    }
}

/// What the fixed decisions of 4.1 enter, before the algorithm looks at the call itself.
fn decided(asked: &Asked, ranks: u32) -> String {
    let choice = policy("openmpi@4.1", &Site::default()).unwrap().choose(&asked.call(ranks, 1));
    let choice = choice.unwrap();
    choice.fell_back.first().map_or(choice.name, |first| first.from.clone()).into_owned()
}

const OPEN_MPI: &[&str] = &["mpirun.openmpi", "mpicc.openmpi", "cc", "timeout"];

/// Sizes in several rows of the tables, not all of them multiples of the ranks.
const SIZES: &[u64] = &[64, 300, 1024, 5000, 16_384, 65_536, 300_000, 1 << 20];

#[test]
fn open_mpi_decides_as_the_policy_says() {
    if !is_installed(OPEN_MPI) {
        return;
    }
    let folder = Folder::new("openmpi-default");
    let (calls, spy) = built(&folder, "mpicc.openmpi", "spy_openmpi.c");
    let mpi = OpenMpi { calls, spy };
    let all = asked(tune::openmpi::operations(), SIZES);
    for ranks in 2..=8 {
        let text = mpi.run(ranks, &all, None);
        for one in &all {
            let (ran, expected) = (entered(&text, one).0, decided(one, ranks));
            assert_eq!(ran, expected, "{} over {ranks} ranks", one.word());
        }
    }
}

#[test]
fn open_mpi_obeys_a_file_for_the_ranks_that_it_names() {
    if !is_installed(OPEN_MPI) {
        return;
    }
    let folder = Folder::new("openmpi-rules");
    let (calls, spy) = built(&folder, "mpicc.openmpi", "spy_openmpi.c");
    let mpi = OpenMpi { calls, spy };
    let file = folder.file("rules.conf");
    let text = export("openmpi-rules", "-n 4,6 --on tests/data/fitted.toml", &file);
    let rules = tuning_file::read_openmpi_rules(&text, "rules.conf").unwrap();
    let all = asked(tune::openmpi::operations(), SIZES);
    for ranks in [2, 4, 5, 6, 8] {
        let text = mpi.run(ranks, &all, Some(&file));
        let mut changed = 0;
        for one in &all {
            let coll = tune::openmpi::coll(one.operation).unwrap();
            let rule = rules.rule(coll, ranks, one.call(ranks, 1).size);
            let rule = rule.filter(|rule| rule.algorithm > 0);
            let own = decided(one, ranks);
            let (ran, segment) = entered(&text, one);
            match rule {
                Some(rule) => {
                    let named = coll.algorithm(rule.algorithm).unwrap();
                    assert_eq!(ran, named, "{} over {ranks} ranks", one.word());
                    assert_eq!(segment, rule.segment.0, "{} over {ranks} ranks", one.word());
                    changed += usize::from(ran != own);
                }
                None => assert_eq!(ran, own, "{} over {ranks} ranks", one.word()),
            }
        }
        let named = [4, 6].contains(&ranks);
        assert!(if named { changed > 15 } else { changed == 0 }, "{changed} over {ranks} ranks");
    }
}

#[test]
fn open_mpi_runs_what_a_race_forces() {
    if !is_installed(OPEN_MPI) {
        return;
    }
    let folder = Folder::new("openmpi-race");
    let (_, spy) = built(&folder, "mpicc.openmpi", "spy_openmpi.c");
    let command = || {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "100", "mpirun.openmpi", "--allow-run-as-root"]);
        command.args(["--oversubscribe", "-n", "4", "--mca", "btl", "self,vader"]);
        command.args(["--mca", "mpi_yield_when_idle", "1"]);
        command.arg("-x").arg(format!("LD_PRELOAD={}", spy.display()));
        command.arg("-x").arg(format!("COLLCOST_SAYS={}", folder.file("says").display()));
        command
    };
    let file = folder.file("rules.conf");
    let heats = raced(command(), "openmpi", &file, RACE);
    let said = fs::read_to_string(folder.file("says")).unwrap();
    let lines = said.lines().filter_map(|line| line.strip_prefix("RUNS 0 "));
    let entered: std::collections::BTreeSet<(String, u64)> = lines.map(ran).collect();
    let contenders: Vec<_> = heats.iter().flatten().collect();
    assert!(contenders.len() > 6, "{contenders:?}");
    for (name, segment, runs) in contenders {
        assert!(*runs >= 3, "{name} did not run");
        assert!(entered.contains(&(name.clone(), *segment)), "{name} {segment}: {entered:?}");
    }
    let text = fs::read_to_string(&file).unwrap();
    tuning_file::read_openmpi_rules(&text, "rules.conf").unwrap();
    // No more than the rule for a winner is claimed of it.
    assert!(text.contains("surely (95 %) took less time than"), "{text}");
    assert!(text.contains("and 3 % less as measured"), "{text}");
    // Its rounds are kept: it goes on with all of them, or puts them aside.
    let rounds = || fs::read_to_string(folder.file("rules.race.jsonl")).unwrap().lines().count();
    let kept = rounds();
    let again = raced(command(), "openmpi", &file, &format!("{RACE} --resume"));
    let runs = |heats: &[Contenders]| heats.iter().flatten().map(|c| c.2).sum::<u64>();
    assert!(runs(&again) >= runs(&heats) && rounds() >= kept, "{again:?}");
    raced(command(), "openmpi", &file, "--ops broadcast --sizes 16K --time-budget 10s");
    assert!(folder.file("rules.1.race.jsonl").exists());
}

#[test]
fn mpich_runs_what_a_race_forces() {
    if !is_installed(MPICH) {
        return;
    }
    let folder = Folder::new("mpich-race");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "100", "mpirun.mpich", "-n", "4"]);
    let file = folder.file("tuned.json");
    let heats = raced(command, "mpich", &file, RACE);
    let contenders: Vec<_> = heats.iter().flatten().collect();
    assert!(contenders.len() > 3, "{contenders:?}");
    assert!(contenders.iter().all(|(_, _, runs)| *runs >= 3), "{contenders:?}");
    let text = fs::read_to_string(&file).unwrap();
    tuning_file::read_mpich_json(&text, "tuned.json").unwrap();
}

const MPICH: &[&str] = &["mpirun.mpich", "mpicc.mpich", "cc", "timeout"];

struct Mpich {
    calls: PathBuf,
    spy: PathBuf,
}

impl Mpich {
    /// Every rank is on a node of its own, so that messages go where the spy sees them.
    fn run(&self, ranks: u32, asked: &[Asked], tree: Option<&Path>) -> String {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "60", "mpirun.mpich", "-n", &ranks.to_string()]);
        command.arg("-genv").arg("LD_PRELOAD").arg(&self.spy);
        command.args(["-genv", "MPIR_CVAR_NOLOCAL", "1"]);
        if let Some(tree) = tree {
            command.args(["-genv", "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"]).arg(tree);
        }
        let says = self.spy.with_file_name("says");
        command.arg("-genv").arg("COLLCOST_SAYS").arg(&says);
        heard(command.arg(&self.calls).args(asked.iter().map(Asked::word)), &says)
    }
}

/// Bytes of all messages that hold data, ascending.
fn sent(text: &str, asked: &Asked) -> Vec<u64> {
    let lines = lines_of(text, &asked.word());
    let mut sizes: Vec<u64> = lines.values().flatten().map(|size| size.parse().unwrap()).collect();
    sizes.retain(|&size| size > 0);
    sizes.sort_unstable();
    sizes
}

/// The same of our schedules of parts, each over a vector of so many bytes.
fn scheduled(size: Bytes, parts: &[Part]) -> Vec<u64> {
    let mut sizes = Vec::new();
    for part in parts {
        let one = messages(size, part);
        // Two ranks out of more are a pair of a fold, of which there are as many as ranks too many.
        let pairs = part.of.filter(|_| part.ranks == 2).map_or(1, |of| of - (1 << of.ilog2()));
        sizes.extend((0..pairs).flat_map(|_| one.iter().copied()));
    }
    sizes.sort_unstable();
    sizes
}

fn messages(size: Bytes, part: &Part) -> Vec<u64> {
    let algorithm = Registry::builtin().find(part.collective, part.algorithm).unwrap().algorithm;
    let schedule = algorithm.schedule(&Shape::new(part.collective, part.ranks)).unwrap();
    let chunk = size.0 / u64::from(schedule.frame().parts);
    let list = List::of(&*schedule);
    let chunks = |runs: &[collcost::model::schedule::Run]| {
        runs.iter().map(|r| u64::from(r.len)).sum::<u64>()
    };
    list.iter().map(|m| chunks(m.runs) * chunk).collect()
}

/// What MPICH's reduce-scatter sends where ranks are no power of two, the smaller halves too: whole
/// vectors, halves of blocks of two ranks and of one, and a block to each that stood by.
fn halved_unevenly(size: Bytes, ranks: u32) -> Vec<u64> {
    let (block, left) = (size.0 / u64::from(ranks), 1 << ranks.ilog2());
    let folded = ranks - left;
    let blocks = |ranks: std::ops::Range<u32>| -> u64 {
        ranks.map(|rank| if rank < folded { 2 * block } else { block }).sum()
    };
    let mut sizes: Vec<u64> = (0..folded).flat_map(|_| [size.0, block]).collect();
    let mut half = left / 2;
    while half > 0 {
        // Each sends the half that its partner goes on with.
        sizes.extend((0..left).map(|rank| {
            let first = (rank ^ half) & !(half - 1);
            blocks(first..first + half)
        }));
        half /= 2;
    }
    sizes.sort_unstable();
    sizes
}

/// What the tree picks, as the library names it without its stem.
fn leaf(tree: &mpich::Tree, asked: &Asked, ranks: u32) -> String {
    let call = asked.call(ranks, ranks);
    let blocks = u64::from(ranks);
    let is_all_to_all = call.collective == collcost::Collective::AllToAll;
    let average = if is_all_to_all { call.block() } else { call.size };
    let name = mpich_name(asked.operation);
    let seen = mpich::Call {
        inter: false,
        ranks,
        nodes: ranks,
        hierarchy: mpich::Hierarchy::Flat,
        consecutive: true,
        average,
        total: call.size,
        count: call.count() / if asked.operation.flavour == Flavour::Block { blocks } else { 1 },
        since_5: false,
        commutative: true,
        builtin_op: true,
        in_place: false,
        regular: true,
        threads: false,
    };
    let leaf = tree.leaf(name, &seen).unwrap().0;
    leaf.algorithm.split("_intra_").last().unwrap().to_owned()
}

/// The algorithm that the tree names, whose messages must be those that were sent.
fn runs_as(
    text: &str,
    tree: &mpich::Tree,
    asked: &Asked,
    ranks: u32,
    faults: &mut Vec<String>,
) -> String {
    let name = leaf(tree, asked, ranks);
    let size = asked.call(ranks, ranks).size;
    let offers = tune::mpich::offers(&asked.call(ranks, ranks)).unwrap();
    let offer = offers.iter().find(|offer| offer.pick.name == name);
    let offer = offer.unwrap_or_else(|| panic!("{name} is not priced"));
    let mut expected = match &offer.choice.runs {
        // Its parts are priced by the larger half of each step, and the smaller ones are sent too.
        Runs::Parts(_) if name == "recursive_halving" && !ranks.is_power_of_two() => {
            halved_unevenly(size, ranks)
        }
        Runs::Parts(parts) => scheduled(size, parts),
        Runs::Unpriced(why) => panic!("{name}: {why}"),
    };
    if name == "scattered" {
        // Each rank also sends its own block to itself.
        let own = asked.call(ranks, ranks).block().0;
        expected.extend(std::iter::repeat_n(own, ranks as usize));
        expected.sort_unstable();
    }
    let sent = sent(text, asked);
    if sent != expected {
        let what = format!("{} over {ranks} ranks, {name}", asked.word());
        faults.push(format!("{what}: sent {sent:?}, not {expected:?}"));
    }
    name
}

/// Sizes of which every part is whole, over 4, 6, 8 and 9 ranks, and halves of it too.
const WHOLE: &[u64] = &[2016, 36_864, 147_456, 1_179_648];

#[test]
fn mpich_decides_as_its_own_tree_says() {
    if !is_installed(MPICH) {
        return;
    }
    let folder = Folder::new("mpich-default");
    let (calls, spy) = built(&folder, "mpicc.mpich", "spy_ucx.c");
    let mpi = Mpich { calls, spy };
    let tree = mpich::builtin(mpich::Version::V4_0);
    let all = asked(tune::mpich::operations(), WHOLE);
    let own = policy("mpich@4", &Site::default()).unwrap();
    let mut faults = Vec::new();
    // Of 8 and 9 ranks the all-to-all and the broadcast tell whether `comm_size<8` holds.
    for ranks in [4, 6, 8, 9] {
        let text = mpi.run(ranks, &all, None);
        for one in &all {
            let name = runs_as(&text, &tree, one, ranks, &mut faults);
            let says = own.choose(&one.call(ranks, ranks)).unwrap().name;
            assert_eq!(says, name, "{} over {ranks} ranks", one.word());
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn mpich_obeys_a_file_for_the_ranks_that_it_names() {
    if !is_installed(MPICH) {
        return;
    }
    let folder = Folder::new("mpich-json");
    let (calls, spy) = built(&folder, "mpicc.mpich", "spy_ucx.c");
    let mpi = Mpich { calls, spy };
    let own = mpich::builtin(mpich::Version::V4_0);
    let all = asked(tune::mpich::operations(), WHOLE);
    let mut faults = Vec::new();
    for named in [4, 6] {
        let file = folder.file(&format!("tree-{named}.json"));
        let flags =
            format!("-n {named} -N {named} -g 1 --on tests/data/fitted.toml --for mpich@4.0");
        let text = export("mpich-json", &flags, &file);
        let tree = tuning_file::read_mpich_json(&text, "tree.json").unwrap();
        for ranks in [4, 6] {
            let text = mpi.run(ranks, &all, Some(&file));
            let mut changed = 0;
            for one in &all {
                let name = runs_as(&text, &tree, one, ranks, &mut faults);
                changed += usize::from(name != leaf(&own, one, ranks));
            }
            assert_eq!(changed > 2, ranks == named, "{changed} over {ranks} ranks");
        }
        // What a rule must not see goes its own way: an operation of the user, other collectives.
        let others = ["user:allreduce:98304", "user:reduce:98304", "barrier:0", "gather:96"];
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "60", "mpirun.mpich", "-n", &named.to_string()]);
        command.args(["-genv", "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"]).arg(&file);
        let text = run(command.arg(&mpi.calls).args(others));
        assert!(others.iter().all(|call| text.contains(&format!("DONE 0 {call}"))), "{text}");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The collectives that a rule of a file rules are those whose names the table has.
#[test]
fn every_operation_has_its_name_in_both_libraries() {
    for operation in tune::openmpi::operations() {
        let coll = tune::openmpi::coll(operation).unwrap();
        assert!(openmpi::Coll::all().any(|known| known == coll));
    }
    for operation in tune::mpich::operations() {
        assert!(mpich::COLLECTIVES.contains(&mpich_name(operation)));
    }
}
