//! The same question gets the same bytes: every command of the documents and transcripts, twice,
//! and in every format.

use crate::cores;
#[path = "../support/shown.rs"]
mod shown;

use crate::full::one_in;
use shown::{commands, run};

#[test]
fn the_same_question_gets_the_same_bytes() {
    let all = commands();
    assert!(all.len() > 50, "the documents show {} commands", all.len());
    let some: Vec<_> = all.iter().step_by(one_in(14)).collect();
    cores::spread(&some, |words| {
        for more in [&[][..], &["--format", "json"], &["--format", "markdown"]] {
            let (first, second) = (run(words, more), run(words, more));
            assert_eq!(first.status.code(), second.status.code(), "{words:?} {more:?}");
            assert!(first.stdout == second.stdout, "{words:?} {more:?}");
            assert!(first.stderr == second.stderr, "{words:?} {more:?}");
        }
    });
}
