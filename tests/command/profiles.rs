//! Machines as data: every built-in figure has a source, every seeded fault is found, and a machine
//! is taken from where the command says that it is looked for.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use collcost::Collective;
use collcost::base::quantity::{Bytes, Volume};
use collcost::cost::rank::{candidates, rank};
use collcost::machine::profile::{Asked, Date, Need, Profile, Severity, check};
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Params;

/// The day on which the built-in figures were last looked at.
fn today() -> Option<Date> {
    "2026-11-20".parse().ok()
}

fn text(name: &str) -> String {
    Profile::builtin(name).unwrap_or_else(|e| panic!("{e}")).to_toml()
}

#[test]
fn the_built_in_machines_are_without_fault() {
    let (mut machines, mut figures) = (0, 0);
    for name in Profile::names() {
        let asked = Asked { today: today(), need: &[] };
        for finding in check(&text(name), &asked) {
            // α that nobody published stays unknown; nothing else may be wrong.
            assert_eq!(finding.severity, Severity::Warning, "{name}: {finding:?}");
            assert!(finding.what.contains("alpha of"), "{name}: {finding:?}");
        }
        machines += 1;
        figures += Profile::builtin(name).unwrap().figures().count();
    }
    assert!(machines >= 25 && figures >= 300, "{machines} machines, {figures} figures");
}

#[test]
fn the_built_in_machines_say_what_they_are() {
    for name in Profile::names() {
        let profile = Profile::builtin(name).unwrap();
        assert!(text(name).is_ascii(), "{name}");
        assert!(profile.title.len() <= 76 && !profile.notes.is_empty(), "{name}");
        let picture = profile.picture.as_deref().unwrap_or("");
        assert!((2..=10).contains(&picture.lines().count()), "{name}");
        for line in picture.lines() {
            assert!(line.len() <= 76 && line.trim_end() == line, "{name}: {line}");
        }
        for word in ["shared/", "project data", "UNITS.md", "RESULTS.md"] {
            assert!(!text(name).contains(word), "{name}: {word}");
        }
    }
}

#[derive(serde::Deserialize)]
struct Faults {
    fault: Vec<Fault>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    id: String,
    base: String,
    old: String,
    new: String,
    kind: String,
    part: String,
    at: String,
    need: Option<String>,
}

#[test]
fn every_seeded_fault_is_found_at_its_line() {
    let faults: Faults = toml::from_str(include_str!("../data/profile_faults.toml")).unwrap();
    assert!(faults.fault.len() >= 20);
    for fault in faults.fault {
        let id = &fault.id;
        let good = text(&fault.base);
        let edit = good.find(&fault.old).unwrap_or_else(|| panic!("{id}: nothing to replace"));
        let bad = good.replacen(&fault.old, &fault.new, 1);
        let behind = bad[edit..].find(&fault.at).map(|i| edit + i);
        let start = behind.or_else(|| bad.find(&fault.at)).unwrap_or_else(|| panic!("{id}"));
        let line = bad[..start].matches('\n').count() + 1;
        let column = start - bad[..start].rfind('\n').map_or(0, |end| end + 1) + 1;

        let need: Vec<Need> = fault.need.iter().map(|n| n.parse().unwrap()).collect();
        let found = check(&bad, &Asked { today: today(), need: &need });
        let hit = found.iter().any(|f| {
            let at = (f.place.line, f.place.column) == (line, column);
            at && f.kind.to_string() == fault.kind && f.what.contains(&fault.part)
        });
        assert!(hit, "{id} at {line}:{column}: {found:#?}");
    }
}

/// A NIC is as fast as its slot, not as the data that GPUs exchange through the host.
#[test]
fn servers_of_the_parts_are_without_contradiction() {
    let made = |node: &str, nics: &str| {
        format!(
            "schema = 1\nname = \"our\"\ntitle = \"Ours\"\nnode = \"{node}\"\nnics = \"{nics}\"\n"
        )
    };
    let found = |text: &str| {
        let mut found = check(text, &Asked { today: today(), need: &[] });
        found.retain(|f| f.severity == Severity::Error);
        found
    };
    for (node, nics) in [
        ("l40s-pcie", "4 x edr-100g"),
        ("pcie-4", "4 x hdr-200g"),
        ("pcie-5", "4 x ndr-400g"),
        ("rtx-pro-6000", "4 x ndr-400g"),
        ("b60", "4 x hdr-200g"),
        ("geforce-pcie-4", "4 x hdr-200g"),
        ("pcie-4-bridged", "4 x hdr-200g"),
        ("hgx-h100", "8 x ndr-400g"),
    ] {
        assert_eq!(found(&made(node, nics)), [], "{node}");
    }
    // More than the slot carries, at the line that says so.
    let [slot] = &found(&made("pcie-4", "4 x ndr-400g"))[..] else { panic!() };
    assert_eq!(
        slot.what,
        "`NDR 400G` is faster than `PCIe 4.0` inside it: 48 GB/s against 31 GB/s"
    );
    assert_eq!(slot.place.to_string(), "5:8: nics = \"4 x ndr-400g\"");
    let over = "[[tier]]\nname = \"NDR 400G\"\n[tier.bandwidth]\nvalue = \"480GB/s\"\n\
                how = \"measured\"\nsource = \"made up for a test\"\n";
    let [own] = &found(&(made("hgx-h100", "8 x ndr-400g") + over))[..] else { panic!() };
    assert!(own.what.contains("480 GB/s against 360 GB/s"), "{own:?}");
    assert_eq!(own.place.to_string(), "9:9: value = \"480GB/s\"");
}

/// What has no value of its own is shown and compared, too.
#[test]
fn knots_and_ports_and_curves_are_compared() {
    let own = text("dgx-h100");
    let name = "name = \"NDR 400G\"\n";
    let knots = format!("{name}knots = [{{ below = \"64KiB\", bandwidth = \"5GB/s\" }}]\n");
    let curves = text("gcp-c2d");
    let without = curves.split("\n[[measured]]").next().unwrap().to_owned();
    let place = Place::new(
        "diff",
        &[
            ("project/a.toml", own.as_str()),
            ("project/knots.toml", &own.replacen(name, &knots, 1)),
            ("project/nics.toml", &own.replacen("nics = 8", "nics = 4", 1)),
            ("project/curves.toml", &curves),
            ("project/without.toml", &without),
        ],
    );
    let shown = place.stdout("project", "profiles show knots.toml");
    assert!(shown.contains("  knots                5 GB/s below 64 KiB, fitted\n"), "{shown}");
    let shown = place.stdout("project", "profiles show curves.toml");
    assert!(shown.contains("  measured "), "{shown}");
    let changed = |other: &str, old: &str| {
        let output = place.run("project", &format!("profiles diff {old} {other}"));
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find(|l| l.starts_with("changed ")).unwrap().to_owned();
        (output.status.code().unwrap(), line["changed".len()..].trim().to_owned())
    };
    let says = |code: i32, text: &str| (code, text.to_owned());
    assert_eq!(changed("nics.toml", "a.toml"), says(1, "NDR 400G nics"));
    let by_fits = "unknown: no interval says whether NDR 400G knots differ by chance";
    assert_eq!(changed("knots.toml", "a.toml"), says(0, by_fits));
    let (code, line) = changed("without.toml", "curves.toml");
    assert!(code == 1 && line.contains("measured"), "{line}");
}

/// A figure that nobody knows is asked for; everything else has a price.
#[test]
fn every_built_in_machine_answers_or_says_what_is_unknown() {
    let (mut answered, mut refused) = (0, 0);
    for name in Profile::names() {
        for &collective in Collective::ALL {
            let profile = Profile::builtin(name).unwrap();
            let machine = Machine::new(Some((profile, "test")), &Given::default(), collective);
            let layout = Layout { ranks: NonZeroU32::new(8), ..Layout::default() };
            let size = Bytes(1 << 20);
            let query =
                Query::new(machine.unwrap(), collective, size, layout, Params::default()).unwrap();
            match candidates(&Registry::builtin(), &query.shape, &query.machine.fabric) {
                Ok((ready, _)) => {
                    answered += 1;
                    let ranked = rank(&ready, Volume::from(query.size));
                    let fastest = ranked[0].price.total().0;
                    assert!((1e-7..1.0).contains(&fastest), "{name} {collective:?}: {fastest}");
                }
                Err(why) => {
                    assert!(why.is_unknown(), "{name} {collective:?}: {why}");
                    refused += 1;
                }
            }
        }
    }
    assert!(answered > 10 * refused, "{answered} answered, {refused} refused");
}

/// A folder of settings that this test alone sees.
struct Place {
    root: PathBuf,
}

impl Place {
    /// `files` are names under the folder with their texts.
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("collcost-{}-{name}", std::process::id()));
        for folder in ["home", "project/sub"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { root }
    }

    fn run(&self, folder: &str, line: &str) -> Output {
        self.command(folder, line).output().unwrap()
    }

    fn command(&self, folder: &str, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
        command.args(line.split_whitespace()).current_dir(self.root.join(folder));
        command.env("HOME", self.root.join("home"));
        command.env_remove("XDG_CONFIG_HOME").env_remove("COLLCOST_PROFILE");
        command
    }

    fn stdout(&self, folder: &str, line: &str) -> String {
        let output = self.run(folder, line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn machine(&self, folder: &str, line: &str) -> serde_json::Value {
        let report: serde_json::Value =
            serde_json::from_str(&self.stdout(folder, &format!("{line} --format json"))).unwrap();
        report["machine"].clone()
    }

    fn refusal(&self, folder: &str, line: &str) -> String {
        let output = self.run(folder, line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

const ASK: &str = "allreduce --n 8 --size 1MiB";
const USER: &str = "home/.config/collcost/config.toml";

/// In JSON a machine can only be a fabric, so that its fault is the fabric's.
#[test]
fn a_fault_in_a_fabric_is_said_as_such() {
    let text = r#"{"ranks": 2, "links": [{"between": ["g0", "g1"], "bw": "10GB/s"}]}"#;
    let files = [("project/f.json", &text[..24]), ("project/whole.json", text)];
    let place = Place::new("fabric", &files);
    assert!(place.stdout("project", "allreduce 1MiB --on whole.json").contains("10 GB/s"));
    for line in ["allreduce 1MiB --on f.json", "simulate allreduce ring 1MiB --on f.json"] {
        let refusal = place.refusal("project", line);
        assert!(refusal.contains("EOF") && refusal.contains("f.json"), "{line}: {refusal}");
    }
}

#[test]
fn the_nearest_names_the_machine() {
    let mine = text("dgx-h100").replacen("\"dgx-h100\"", "\"mine\"", 1);
    let mine = mine.replacen("aliases = [", "aliases = [] # ", 1);
    let place = Place::new(
        "nearest",
        &[
            ("project/collcost.toml", "[defaults]\nprofile = \"machines/a.toml\"\n"),
            ("project/machines/a.toml", &text("dgx-a100")),
            (USER, "[defaults]\nprofile = \"mine\"\n"),
            ("home/.config/collcost/profiles/mine.toml", &mine),
        ],
    );
    let named = |folder: &str, line: &str| {
        let machine = place.machine(folder, line);
        let text = |key: &str| machine[key].as_str().unwrap().to_owned();
        (text("name"), text("chosen"))
    };
    let pair = |name: &str, by: &str| (name.to_owned(), by.to_owned());
    assert_eq!(named("home", ASK), pair("mine", "config.toml"));
    assert_eq!(named("project", ASK), pair("dgx-a100", "collcost.toml"));
    assert_eq!(named("project/sub", ASK), pair("dgx-a100", "collcost.toml"));
    assert_eq!(named("project/sub", &format!("{ASK} --on GB200")), pair("gb200-nvl72", "--on"));
    let file = format!("{ASK} --profile ../machines/a.toml");
    assert_eq!(named("project/sub", &file), pair("dgx-a100", "--on"));
    // α and BW make a machine of their own.
    let own = format!("{ASK} --alpha 1us --bw 1GB/s");
    assert_eq!(named("project", &own), pair("the given parameters", "flags"));

    let environment = place.command("project", &format!("{ASK} --format json"));
    let output = { environment }.env("COLLCOST_PROFILE", "mine").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["machine"]["chosen"], "COLLCOST_PROFILE");

    let error = place.refusal("project", &format!("{ASK} --on mien"));
    assert!(error.contains("did you mean `mine`?"), "{error}");
    let listed = place.stdout("home", "profiles --format json");
    assert!(listed.contains("\"name\": \"mine\""));
}

#[test]
fn a_repository_and_the_home_folder_end_the_search() {
    let place = Place::new(
        "ends",
        &[("collcost.toml", "[defaults]\nprofile = \"dgx-a100\"\n"), ("project/.git/HEAD", "")],
    );
    assert_eq!(place.machine("project/sub", ASK)["chosen"], "default");
    assert_eq!(place.machine("home", ASK)["chosen"], "default");
    assert_eq!(place.machine(".", ASK)["name"], "dgx-a100");
}

/// Whatever the spelling, a machine of the user's is the user's, also by its aliases.
#[test]
fn the_users_machine_has_all_its_names() {
    let place = Place::new("names", &[]);
    let own = place.stdout("project", "profiles show dgx-a100 --format toml");
    let own = own.replacen("aliases = [", "aliases = [\"foo-rack\", ", 1);
    let folder = place.root.join("home/.config/collcost/profiles");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("dgx-h100.toml"), own).unwrap();
    for name in ["dgx-h100", "DGX_H100", "h100", "foo-rack", "Foo_Rack"] {
        let machine = place.machine("project", &format!("{ASK} --on {name}"));
        assert_eq!(machine["name"], "dgx-a100", "{name}");
    }
}

/// A step that names no machine takes that of the settings, as every other question does.
#[test]
fn a_plan_takes_the_machine_of_the_settings() {
    let place = Place::new(
        "plan",
        &[
            ("project/collcost.toml", "[defaults]\nprofile = \"dgx-a100\"\n"),
            (
                "project/steps.toml",
                "[step.a]\npreset = \"ddp-7b\"\n[step.b]\npreset = \"ddp-7b\"\nprofile = \"dgx-h100\"\n",
            ),
        ],
    );
    let machines = |line: &str| {
        let plan: serde_json::Value =
            serde_json::from_str(&place.stdout("project", &format!("{line} --format json")))
                .unwrap();
        let steps = plan["steps"].as_array().unwrap();
        steps.iter().map(|s| s["machine"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(machines("plan --preset ddp-7b"), ["dgx-a100"]);
    assert_eq!(machines("plan steps.toml"), ["dgx-a100", "dgx-h100"]);
}

/// More than a link carries is refused where a machine is read, not only where it is checked.
#[test]
fn an_efficiency_above_one_is_refused() {
    let place = Place::new("efficiency", &[]);
    let text = place.stdout("project", "profiles show dgx-a100 --format toml");
    let part = "[tier.efficiency]\nvalue = ";
    let at = text.find(part).unwrap() + part.len();
    let end = at + text[at..].find('\n').unwrap();
    fs::write(place.root.join("project/a.toml"), format!("{}79{}", &text[..at], &text[end..]))
        .unwrap();
    let refused = place.run("project", "allreduce 1MiB -n 8 --on a.toml");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("above 1"), "{refused:?}");
}

#[test]
fn flags_win_over_settings() {
    let place = Place::new(
        "flags",
        &[(
            "project/collcost.toml",
            "[defaults]\nprofile = \"dgx-a100\"\nn = 32\ngpus_per_node = 4\nports = 2\nformat = \"json\"\n\
             [machine]\nalpha_inter = \"2.4us\"\nnics = 2\ngamma = \"20ps/B\"\n",
        )],
    );
    let ask = |flags: &str| -> serde_json::Value {
        serde_json::from_str(&place.stdout("project", &format!("allreduce 1MiB {flags}"))).unwrap()
    };
    let settled = ask("");
    assert_eq!(settled["question"]["ranks"], 32);
    assert_eq!(settled["question"]["nodes"], 8);
    assert!(settled["question"]["ports"].as_str().unwrap().starts_with('2'));
    assert_eq!(settled["machine"]["tiers"][1]["alpha_s"], 2.4e-6);
    assert_eq!(settled["machine"]["tiers"][1]["nics"], 2);
    assert_eq!(settled["machine"]["gamma_s_per_byte"], 2e-11);
    let typed = ask("--nodes 2 --ports 1 --alpha-inter 9us");
    assert_eq!(typed["question"]["ranks"], 8);
    assert!(typed["question"]["ports"].as_str().unwrap().starts_with('1'));
    assert_eq!(typed["machine"]["tiers"][1]["alpha_s"], 9e-6);
    // The figures are of dgx-a100 and say nothing about another machine.
    let other = ask("--on dgx-h100");
    assert_eq!(other["question"]["ranks_per_node"], 8);
    assert_eq!(other["machine"]["tiers"][1]["alpha_s"], 3.3e-6);
    let trust = other["trust"].to_string();
    assert!(trust.contains("gpus_per_node of collcost.toml, nics of"), "{trust}");
    // So is a machine that the environment names.
    let mut named = place.command("project", "allreduce 1MiB");
    let named = named.env("COLLCOST_PROFILE", "dgx-h100").output().unwrap();
    let named: serde_json::Value = serde_json::from_slice(&named.stdout).unwrap();
    let trust = named["trust"].to_string();
    assert!(trust.contains("gpus_per_node of collcost.toml, "), "{trust}");
    assert!(!settled["trust"].to_string().contains("another machine"), "{settled}");
    assert!(place.stdout("project", "allreduce 1MiB --format table").contains("dgx-a100"));
}

#[test]
fn settings_say_where_they_come_from() {
    let place = Place::new(
        "config",
        &[
            ("project/collcost.toml", "[defaults]\n\nprofile = \"dgx-a100\"\n"),
            (USER, "[defaults]\nn = 16\n[machine]\nlaunch = \"9us\"\n"),
        ],
    );
    let report: serde_json::Value =
        serde_json::from_str(&place.stdout("project", "config --format json")).unwrap();
    assert_eq!(report["schema"], "collcost/config/1");
    let held = &report["settings"];
    assert_eq!((&held[0]["key"], &held[0]["from"]), (&"profile".into(), &"collcost.toml:3".into()));
    assert_eq!((&held[1]["key"], &held[1]["line"]), (&"n".into(), &2.into()));
    assert_eq!(report["left_out"][0]["key"], "launch");
    assert_eq!(report["left_out"][0]["instead"], "collcost.toml:3");
    let table = place.stdout("project", "config");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(table.lines().nth(1).unwrap()), ["profile", "dgx-a100", "collcost.toml:3"]);
    assert!(place.stdout("home", "config").contains("built in"));
}

#[test]
fn a_wrong_setting_names_file_line_and_column() {
    let place = Place::new("wrong", &[("project/collcost.toml", "[defaults]\nprofil = \"x\"\n")]);
    for line in [ASK, "config"] {
        let error = place.refusal("project", line);
        assert!(error.contains("collcost.toml:2:1: profil = \"x\""), "{error}");
        assert!(error.contains("did you mean `profile`?"), "{error}");
        assert_eq!(error.lines().count(), 3, "{error}");
    }
    // Questions in bulk mean the same everywhere: no settings are read.
    assert!(place.stdout("project", "batch").is_empty());
}

/// A budget and a step name a machine; what is wrong with its file is said there.
#[test]
fn a_fault_of_a_profile_is_at_its_own_place() {
    let bad = text("dgx-h100").replacen("title =", "titel =", 1);
    let line = bad.lines().position(|line| line.starts_with("titel")).unwrap() + 1;
    let budget = "[[budget]]\nname = \"b\"\ncollective = \"allreduce\"\nn = 8\nsize = \"1MB\"\n\
                  max_time = \"1s\"\nprofile = \"bad.toml\"\n";
    let step = "[step.s]\nprofile = \"bad.toml\"\nn = 8\ncompute = \"1ms\"\ncalls = []\n";
    let files =
        [("project/m/bad.toml", &*bad), ("project/m/b.toml", budget), ("project/m/s.toml", step)];
    let place = Place::new("innermost", &files);
    let wanted = format!("m/bad.toml:{line}:1");
    for words in
        ["check m/b.toml", "plan m/s.toml", "plan --preset ddp-7b --set profile=m/bad.toml"]
    {
        let output = place.run("project", words);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(&wanted) && said.contains("titel"), "{words}: {said}");
    }
    let report = place.run("project", "check m/b.toml --format json").stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["faults"][0]["file"], "m/bad.toml", "{report}");
}

#[test]
fn a_check_fails_on_errors_alone() {
    let bad = text("dgx-h100").replacen("low = 0.73", "low = 0.83", 1);
    let doubtful = text("dgx-h100").replacen("450GB/s", "450Gb/s", 1);
    let doubtful = doubtful.replacen("48GB/s", "4.8GB/s", 2).replacen("\"46GB/s", "\"4.6GB/s", 1);
    let place =
        Place::new("check", &[("project/bad.toml", &bad), ("project/doubtful.toml", &doubtful)]);
    let found = place.run("project", "profiles check bad.toml");
    assert_eq!(found.status.code(), Some(1));
    let said = String::from_utf8(found.stdout).unwrap();
    assert!(
        said.starts_with("error: contradictory: low 0.83 is above value 0.8\n  bad.toml:"),
        "{said}"
    );
    assert!(said.ends_with("1 error, 0 warnings\n"), "{said}");
    let said = place.stdout("project", "profiles check doubtful.toml");
    assert!(said.contains("warning: suspicious: 56.25 GB/s is an eighth"), "{said}");
    assert!(place.stdout("project", "profiles check --builtin").contains(" 0 errors"));
    assert_eq!(place.run("project", "profiles check h100 --need gamma").status.code(), Some(1));
    assert!(place.refusal("project", "profiles check none.toml").contains("cannot be read"));
    let report: serde_json::Value = serde_json::from_slice(
        &place.run("project", "profiles check bad.toml --format json").stdout,
    )
    .unwrap();
    assert_eq!(report["schema"], "collcost/profiles-check/1");
    assert_eq!(report["findings"][0]["kind"], "contradictory");
}

/// A machine whose files are not there answers nothing: a check says so, at the line that names them.
#[test]
fn a_check_reads_the_files_that_a_machine_names() {
    let own = |key: &str, file: &str| format!("{key} = \"{file}\"\n{}", text("dgx-h100"));
    let files = [
        ("project/f.toml", &*own("fabric", "none.toml")),
        ("project/t.toml", &*own("nccl_topology", "broken.xml")),
        ("project/broken.xml", "<system"),
    ];
    let place = Place::new("named", &files);
    for (file, key) in [("f.toml", "fabric"), ("t.toml", "nccl_topology")] {
        let found = place.run("project", &format!("profiles check {file}"));
        let said = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("the file that `{key}` names")), "{said}");
        assert!(said.contains(&format!("{file}:1:1")), "{said}");
    }
}

#[test]
fn a_machine_shows_every_figure_and_what_is_unknown() {
    let place = Place::new("show", &[]);
    for name in Profile::names() {
        let shown = place.stdout("home", &format!("profiles show {name}"));
        let profile = Profile::builtin(name).unwrap();
        for figure in profile.figures() {
            assert!(shown.contains(&figure.value.to_string()), "{name}: {figure:?}");
            let first = figure.source.split(' ').next().unwrap();
            assert!(shown.contains(first), "{name}: {figure:?}");
        }
        for line in shown.lines() {
            assert!(line.chars().count() <= 80 || !line.trim().contains(' '), "{name}: {line}");
        }
    }
    let shown = place.stdout("home", "profiles show dgx-h100");
    for part in ["raw, both ways", "unknown  gamma", "NIC0 NIC1", "payload, one way", "per node"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&place.stdout("home", "profiles show p4d --format json")).unwrap();
    let payload = &report["links"][1]["rates"][2];
    assert_eq!(payload["counted"], "payload, one way");
    assert_eq!(payload["node_Bps"], 4.0 * 11e9);
    assert_eq!(payload["rank_Bps"], 4.0 * 11e9 / 8.0);
}

#[test]
fn the_list_fits_the_terminal() {
    let place = Place::new("list", &[]);
    for width in ["80", "120"] {
        let output = place.command("home", "profiles").env("COLUMNS", width).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        let widest = listed.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(widest <= width.parse().unwrap(), "{widest}: {listed}");
        assert!(Profile::names().all(|name| listed.contains(name)));
    }
    assert!(
        place.stdout("home", "profiles --format csv").starts_with("name,library,links,title\n")
    );
    assert!(place.stdout("home", "profiles --format markdown").starts_with("| name |"));
}

/// The built-in machines and their parts are the files, no more and no fewer.
#[test]
fn every_file_is_built_in() {
    let files = |folder: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles").join(folder);
        let names = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
        let names = names.map(|f| f.file_stem().unwrap().to_str().unwrap().to_owned());
        names.collect::<std::collections::BTreeSet<String>>()
    };
    let all = |names: &mut dyn Iterator<Item = &'static str>| {
        names.map(str::to_owned).collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(files("machines"), all(&mut Profile::names()));
    assert_eq!(files("nodes"), all(&mut collcost::machine::profile::nodes()));
    assert_eq!(files("networks"), all(&mut collcost::machine::profile::networks()));
}

/// A file that stands alone says the same as the machine that it was written from.
#[test]
fn a_machine_is_written_as_a_file_that_stands_alone() {
    let place = Place::new("alone", &[]);
    let alone = place.stdout("home", "profiles show p5 --format toml");
    assert!(alone.contains("board = \"hgx-h100\"") && !alone.contains("\nnode = "), "{alone}");
    let profile = Profile::parse(&alone, "p5.toml").unwrap();
    assert_eq!(profile.curves.len(), Profile::builtin("p5").unwrap().curves.len());
}

/// The texts between a fence that begins with `fence` and its end.
fn blocks<'a>(page: &'a str, fence: &str) -> Vec<&'a str> {
    let fence = format!("```{fence}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_page_about_machines_shows_files_that_work() {
    let examples = blocks(include_str!("../../docs/reference/profiles.md"), "toml");
    let [rack, parts, measured, settings] = examples[..] else {
        panic!("{} examples", examples.len())
    };
    let with = format!("{rack}\n{measured}");
    let files = [
        ("rack.toml", rack),
        ("parts.toml", parts),
        ("measured.toml", &with),
        ("collcost.toml", settings),
    ];
    let files = files.map(|(name, text)| (format!("project/{name}"), text));
    let place = Place::new("page", &files.each_ref().map(|(name, text)| (name.as_str(), *text)));
    let checked = place.stdout("project", "profiles check measured.toml");
    assert!(checked.ends_with(": 0 errors, 0 warnings\n"), "{checked}");
    let said = place.stdout("project", "allreduce 1KiB -n 8 --on measured.toml --format table");
    assert!(said.contains("measurements of this machine (NCCL 2.27.3; measured)"), "{said}");
    let checked = place.stdout("project", "profiles check rack.toml");
    assert!(checked.ends_with(": 0 errors, 0 warnings\n"), "{checked}");
    assert!(place.stdout("project", "profiles show rack.toml").contains("Our rack"));
    // No graphs are known for its NICs: those of another machine would be chosen by.
    let refusal = place.refusal("project", "choose nccl allreduce 16MiB -n 16 --on rack.toml");
    assert!(refusal.contains("nccl_topology"), "{refusal}");
    let checked = place.stdout("project", "profiles check parts.toml");
    assert!(checked.ends_with(": 0 errors, 0 warnings\n"), "{checked}");
    assert_eq!(place.machine("project", "allreduce 1G --on parts.toml")["tiers"][1]["nics"], 4);
    let answer = place.machine("project", "allreduce 1G --on rack.toml");
    assert_eq!(answer["tiers"][1]["nics"], 4);
    let answer = place.stdout("project/sub", "allreduce 16MiB");
    assert!(answer.contains("| --- |"), "{answer}");
    let answer = place.machine("project/sub", "allreduce 16MiB");
    assert_eq!((&answer["name"], &answer["chosen"]), (&"rack".into(), &"collcost.toml".into()));
    assert_eq!(answer["tiers"][1]["alpha_s"], 2.4e-6);
}

/// Its files are those that its commands name, and the same as the example that its transcripts ask.
#[test]
fn the_page_about_fabrics_shows_files_that_work() {
    let page = include_str!("../../docs/how-to/bound-a-fabric.md");
    let (tomls, commands) = (blocks(page, "toml"), blocks(page, "sh"));
    let [rack, faults, generated] = tomls[..] else { panic!("{} examples", tomls.len()) };
    let [jobs] = blocks(page, "json")[..] else { panic!("not one file of jobs") };
    let faulty = format!("{rack}\n{faults}");
    let files = [
        ("project/rack.toml", rack),
        ("project/faulty.toml", &faulty),
        ("project/generated.toml", generated),
        ("project/two_boxes.toml", include_str!("../data/fabrics/two_boxes.toml")),
        ("project/jobs.json", jobs),
    ];
    let place = Place::new("fabrics", &files);
    for line in commands[0].lines() {
        let line = line.split('#').next().and_then(|l| l.strip_prefix("collcost "));
        let line = line.expect("a command").trim();
        let said = place.stdout("project", line);
        assert_eq!(said, place.stdout("project", &line.replace("rack.toml", "two_boxes.toml")));
    }
    let best = |file: &str| place.stdout("project", &format!("optimum allgather --fabric {file}"));
    assert!(best("rack.toml").contains("best rate  200 GB/s"));
    assert!(best("faulty.toml").contains("150 GB/s over 1 link: nv0>g0"));
    assert!(best("generated.toml").contains("1024 ranks"));
}

/// A budget says what was given in place of the machine's own, as the first screen does.
#[test]
fn a_budget_names_what_was_given() {
    let settings = "[defaults]\nprofile = \"dgx-h100\"\n[machine]\nbw_inter = \"24GB/s\"\n\
        [[budget]]\nname = \"g\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\nmax_time = \"90ms\"\n";
    let place = Place::new("given", &[("project/collcost.toml", settings)]);
    let named = "of dgx-h100 with inter.bw 24 GB/s";
    assert!(place.stdout("project", "allreduce 1GiB -n 64").contains(named));
    assert!(place.stdout("project", "check").contains(&format!("64 ranks {named} by ")));
    let report: serde_json::Value =
        serde_json::from_str(&place.stdout("project", "check --format json")).unwrap();
    let budget = &report["budgets"][0];
    assert_eq!(
        (&budget["machine"], &budget["given"][0]),
        (&"dgx-h100".into(), &"inter.bw 24 GB/s".into())
    );
}

/// `calibrate` writes the profile of that name.
#[test]
fn an_unmeasured_machine_is_measured_first() {
    let place = Place::new("local", &[]);
    let refusal = place.refusal("project", "run allreduce ring 1MiB -n 2 --on local");
    assert!(refusal.contains("collcost calibrate"), "{refusal}");
    let place = Place::new("here", &[("project/rack.toml", &text("dgx-h100"))]);
    let refusal = place.refusal("project", &format!("{ASK} --on rack"));
    assert!(refusal.contains("write rack.toml"), "{refusal}");
}

#[test]
fn the_page_about_machines_names_every_key() {
    let page = include_str!("../../docs/reference/profiles.md");
    for id in collcost::machine::profile::nodes().chain(collcost::machine::profile::networks()) {
        assert!(page.contains(&format!("`{id}`")), "{id}");
    }
    let how = ["measured", "fitted", "vendor", "datasheet", "paper", "assumed"];
    assert!(how.into_iter().all(|how| page.contains(&format!("| `{how}` |"))));
    for generation in Profile::names().filter_map(|id| Profile::builtin(id).ok()?.generation) {
        assert!(page.contains(&format!("`{generation}`")), "{generation}");
    }
    assert!(page.contains(&format!("\n{} machines are built in", Profile::names().count())));
}
