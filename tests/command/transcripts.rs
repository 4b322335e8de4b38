//! Every command that the README, the documents and `tests/cmd` show prints what is shown.
//!
//! `TRYCMD=overwrite cargo test --test command transcripts` writes the present output into them; read what
//! changed before keeping it.

use trycmd::TestCases;

/// A terminal that shows all characters, has no width and no colour, and a user without settings.
fn plain() -> TestCases {
    let cases = TestCases::new();
    let unset =
        ["COLUMNS", "LC_CTYPE", "LANG", "CLICOLOR_FORCE", "COLLCOST_PROFILE", "XDG_CONFIG_HOME"];
    for name in unset {
        cases.env(name, "");
    }
    cases.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8").env("HOME", "/home/you");
    cases
}

#[test]
fn documents_show_what_the_command_prints() {
    plain().case("README.md").case("docs/**/*.md").case("tests/cmd/pages/*.md");
}

/// Questions that people asked in public, one file each; `docs/dev/questions.md` lists them.
#[test]
fn questions_are_answered() {
    plain().case("tests/cmd/questions/*.md");
}

/// The list has all of them, each names its transcript, and the README's table the verb.
#[test]
fn the_list_of_questions_is_complete() {
    let list = include_str!("../../docs/dev/questions.md");
    let readme = include_str!("../../README.md");
    let (list, _) = list.split_once("\n## ").expect("what is left open stands behind the table");
    let rows: Vec<&str> =
        list.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| |")).collect();
    let numbers = (1..=50).map(|n| format!("{n:02}"));
    let numbers = numbers.chain(["50b", "50c", "50d", "51", "52", "53", "54"].map(str::to_owned));
    let numbers: Vec<String> = numbers.collect();
    assert_eq!(rows.len(), numbers.len());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/questions");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    for (number, row) in numbers.iter().zip(rows) {
        assert!(row.starts_with(&format!("| {} | ", number.trim_start_matches('0'))), "{row}");
        let own = files.iter().find(|name| name.starts_with(&format!("{number}-")));
        let own = own.unwrap_or_else(|| panic!("question {number} has no transcript"));
        assert!(row.contains(&format!("`{own}`")), "{row}");
        let page = std::fs::read_to_string(format!("{folder}/{own}")).unwrap();
        assert!(page.contains("\n$ collcost "), "{own} runs nothing");
        assert!(!page.contains("\n? 2\n"), "{own} answers with an error");
        let verb = row.split("`collcost ").nth(1).and_then(|rest| rest.split(' ').next());
        let verb = verb.unwrap_or_else(|| panic!("no command: {row}"));
        let asked = match verb {
            _ if verb.parse::<collcost::Collective>().is_ok() => "`collcost allreduce ".to_owned(),
            "select" => "`collcost choose ".to_owned(),
            _ => format!("`collcost {verb} "),
        };
        assert!(readme.contains(&asked), "README.md has no row for `{verb}`");
    }
}

/// The screens at 80 and 120 columns, in colour and without, in Unicode and ASCII. Each file sets
/// the whole environment of its command.
#[test]
fn screens_fit_the_terminal() {
    TestCases::new().case("tests/cmd/screens/*.toml");
}

/// No line of a screen is longer than its file's name says. Colour takes no room; what ASCII spells
/// out may take more.
#[test]
fn no_line_passes_the_width() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/screens");
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(file.with_extension("stdout").exists(), "{name} checks nothing");
        let width = match name.rsplit_once('-') {
            Some((_, "ascii")) => continue,
            _ if name.contains("-80") => 80,
            _ => 120,
        };
        for line in std::fs::read_to_string(file.with_extension("stdout")).unwrap().lines() {
            let shown: usize = line
                .split('\x1b')
                .enumerate()
                .map(|(i, part)| match i {
                    0 => part.chars().count(),
                    _ => part.split_once('m').map_or(0, |(_, rest)| rest.chars().count()),
                })
                .sum();
            assert!(shown <= width, "{name}: {shown} characters: {line}");
        }
    }
}
