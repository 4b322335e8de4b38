// throwaway
use collcost::profile::Profile;
fn links(p: &Profile) -> Vec<String> {
    p.tiers
        .iter()
        .map(|t| {
            let mut t = t.clone();
            t.kind = None;
            format!("{t:?}")
        })
        .collect()
}
#[test]
fn compare() {
    let mut diffs = 0;
    for e in std::fs::read_dir("/tmp/prof/old").unwrap() {
        let path = e.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let old = Profile::parse(&text, "old").unwrap();
        let new = Profile::builtin(&old.name).unwrap();
        let mut say = |k: &str, a: String, b: String| {
            if a != b {
                diffs += 1;
                println!("{} {k}:\n  - {a}\n  + {b}", old.name)
            }
        };
        say("title", old.title.clone(), new.title.clone());
        say("aliases", format!("{:?}", old.aliases), format!("{:?}", new.aliases));
        say("library", format!("{:?}", old.library), format!("{:?}", new.library));
        say("graphs", format!("{:?}", old.nccl_graphs), format!("{:?}", new.nccl_graphs));
        say(
            "picture",
            old.picture.clone().unwrap_or_default(),
            new.picture.clone().unwrap_or_default(),
        );
        for n in &old.notes {
            if !new.notes.contains(n) {
                say("note", n.clone(), String::new())
            }
        }
        for n in &new.notes {
            if !old.notes.contains(n) {
                say("note", String::new(), n.clone())
            }
        }
        if old.notes.len() == new.notes.len() && old.notes.iter().all(|n| new.notes.contains(n)) {
            say("note order", old.notes.join("\n    "), new.notes.join("\n    "))
        }
        say("tiers", links(&old).join("\n    "), links(&new).join("\n    "));
        say("launch", format!("{:?}", old.launch), format!("{:?}", new.launch));
        say("gamma", format!("{:?}", old.gamma), format!("{:?}", new.gamma));
        say("c_real", format!("{:?}", old.c_real), format!("{:?}", new.c_real));
        say(
            "node",
            format!("{:?}", {
                let o = &old;
                o.node()
            }),
            format!("{:?}", new.node()),
        );
        for c in &old.curves {
            assert!(new.curves.contains(c), "{} lost a curve", old.name)
        }
        for (i, t) in new.tiers.iter().enumerate() {
            let (a, b) = (old.tier_kind(i), t.kind.unwrap_or(new.tier_kind(i)));
            if a != b {
                println!("{} tier {i} {a} -> {b}", old.name)
            }
        }
        if old.curves.len() != new.curves.len() {
            println!("{} curves {} -> {}", old.name, old.curves.len(), new.curves.len());
        }
        println!(
            "OK {} board {:?} gen {:?} link {:?} net {:?} nvls {} kinds {:?}",
            new.name,
            new.board,
            new.generation.map(|g| g.id()),
            new.link.map(|g| g.id()),
            new.network.map(|g| g.id()),
            new.has_nvls(),
            (0..new.tiers.len()).map(|i| new.tier_kind(i).id()).collect::<Vec<_>>()
        );
    }
    println!("{diffs} differences");
}
