//! Every command that the README and the documents show prints what is shown.
//!
//! `TRYCMD=overwrite cargo test --test transcripts` writes the present output into them.

#[test]
fn documents_show_what_the_command_prints() {
    trycmd::TestCases::new().case("README.md").case("docs/*.md");
}
