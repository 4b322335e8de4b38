//! Every command that the README, the documents and `tests/cmd` show prints what is shown.
//!
//! `TRYCMD=overwrite cargo test --test transcripts` writes the present output into them; read what
//! changed before keeping it.

use trycmd::TestCases;

/// A terminal that shows all characters, has no width and no colour, and a user without files.
fn plain() -> TestCases {
    let cases = TestCases::new();
    let unset = ["COLUMNS", "LC_CTYPE", "LANG", "CLICOLOR_FORCE", "COLLCOST_PROFILE"];
    unset.into_iter().for_each(|name| _ = cases.env(name, ""));
    cases.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
    cases.env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
    cases
}

#[test]
fn documents_show_what_the_command_prints() {
    plain().case("README.md").case("docs/*.md");
}

/// Questions that people asked in public, one file each; `docs/QUESTIONS.md` lists them.
#[test]
fn questions_are_answered() {
    plain().case("tests/cmd/questions/*.md");
}

/// The screens at 80 and 120 columns, in colour and without, in Unicode and ASCII. Each file sets
/// the whole environment of its command.
#[test]
fn screens_fit_the_terminal() {
    TestCases::new().case("tests/cmd/screens/*.toml");
}
