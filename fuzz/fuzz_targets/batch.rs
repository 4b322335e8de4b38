//! Every line has exactly one answer, which is JSON with the line's id.
#![no_main]

use collcost::answer::batch::Batch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut batch = Batch::default();
    for line in text.lines() {
        let mut out = Vec::new();
        batch.answer(line, &mut out);
        let (end, answer) = out.split_last().expect("an answer is not empty");
        assert_eq!(*end, b'\n');
        assert!(!answer.contains(&b'\n'), "{line}");
        assert!(answer.starts_with(b"{\"id\":") && answer.ends_with(b"}"), "{line}");
    }
});
