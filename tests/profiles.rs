//! Machines as data: every built-in figure has a source, and every seeded fault is found.

use collcost::profile::{Asked, Date, Need, Profile, Severity, check};

/// The day on which the built-in figures were last looked at.
fn today() -> Option<Date> {
    "2026-11-20".parse().ok()
}

fn text(name: &str) -> &'static str {
    Profile::builtin_text(name).unwrap_or_else(|| panic!("{name} is not built in"))
}

#[test]
fn the_built_in_machines_are_without_fault() {
    let (mut machines, mut figures) = (0, 0);
    for name in Profile::names() {
        let asked = Asked { today: today(), need: &[] };
        for finding in check(text(name), &asked) {
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
        for word in ["/work", "shared/", "project data", "UNITS.md", "RESULTS.md"] {
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
    let faults: Faults = toml::from_str(include_str!("data/profile_faults.toml")).unwrap();
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
