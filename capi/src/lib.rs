//! `collcost.h`: what the library promises, for C.
//!
//! A handle is a box; what is written to a caller's struct is written as a whole after everything has
//! succeeded. No panic leaves: it is an error of its own.

#![deny(unsafe_op_in_unsafe_fn)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use collcost_core::machine::parameters::in_keys;
use collcost_core::{Basis, Bytes, Error, Question};

/// `collcost_status`.
type Status = i32;
const OK: Status = 0;
const INPUT: Status = 1;
const UNKNOWN: Status = 2;
const UNSUPPORTED: Status = 3;
const INTERNAL: Status = 4;

/// `COLLCOST_NAME`.
const NAME: usize = 64;

/// `collcost_expectation`.
#[repr(C)]
pub struct Expectation {
    time_s: f64,
    low_s: f64,
    high_s: f64,
    busbw: f64,
    basis: i32,
    channels: u32,
    runs: [c_char; NAME],
}

/// `collcost_ideal`.
#[repr(C)]
pub struct Ideal {
    time_s: f64,
    latency_s: f64,
    bandwidth_s: f64,
    bound_ratio: f64,
    segments: u32,
    reserved: u32,
}

// The example holds the header to the same numbers.
const _: () = assert!(size_of::<Expectation>() == 104 && size_of::<Ideal>() == 40);

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

fn say(what: &str) {
    // A text with a 0 inside, which no message of ours has, ends there.
    let text: Vec<u8> = what.bytes().take_while(|&b| b != 0).collect();
    ERROR.set(CString::new(text).unwrap_or_default());
}

/// Does it, and says what went wrong.
fn done(work: impl FnOnce() -> Result<(), Error>) -> Status {
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return OK,
        Ok(Err(error)) => error,
        Err(_) => {
            say("a fault of collcost itself, which should be reported with the question");
            return INTERNAL;
        }
    };
    say(&in_keys(&error.to_string()));
    match error {
        e if e.is_unknown() => UNKNOWN,
        e if e.is_unsupported() => UNSUPPORTED,
        _ => INPUT,
    }
}

/// A caller's text.
///
/// # Safety
/// It is NULL or ends in 0.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(Error::input(format!("{what} is NULL")));
    }
    // SAFETY: it ends in 0, as the caller promises.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Error::input(format!("{what} is no UTF-8")))
}

fn null(what: &str) -> Error {
    Error::input(format!("`{what}` is NULL"))
}

/// A name with its end, cut at a letter where it is too long.
fn name(text: &str) -> [c_char; NAME] {
    let mut end = text.len().min(NAME - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = [0; NAME];
    for (to, from) in name.iter_mut().zip(text[..end].bytes()) {
        *to = from as c_char;
    }
    name
}

/// See `collcost.h`.
///
/// # Safety
/// Pointers are NULL or good for what the header says of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collcost_question_new(
    collective: *const c_char,
    size_bytes: u64,
    question: *mut *mut Question,
) -> Status {
    done(|| {
        if question.is_null() {
            return Err(null("question"));
        }
        // SAFETY: the caller's promise.
        let collective = unsafe { text(collective, "`collective`") }?.parse()?;
        let new = Box::new(Question::new(collective, Bytes(size_bytes)));
        // SAFETY: not NULL, and the caller's to be written.
        unsafe { question.write(Box::into_raw(new)) };
        Ok(())
    })
}

/// See `collcost.h`.
///
/// # Safety
/// As [`collcost_question_new`]; the question is one of ours that was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collcost_question_set(
    question: *mut Question,
    key: *const c_char,
    value: *const c_char,
) -> Status {
    done(|| {
        // SAFETY: the caller's promises.
        let (key, value) = unsafe { (text(key, "`key`")?, text(value, "`value`")?) };
        // SAFETY: NULL or one of ours, which no other thread uses.
        let question = unsafe { question.as_mut() }.ok_or_else(|| null("question"))?;
        *question = question.clone().with(key, value)?;
        Ok(())
    })
}

/// See `collcost.h`.
///
/// # Safety
/// As [`collcost_question_set`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collcost_question_set_size(
    question: *mut Question,
    size_bytes: u64,
) -> Status {
    done(|| {
        // SAFETY: NULL or one of ours, which no other thread uses.
        let question = unsafe { question.as_mut() }.ok_or_else(|| null("question"))?;
        *question = question.clone().sized(Bytes(size_bytes));
        Ok(())
    })
}

/// See `collcost.h`.
///
/// # Safety
/// As [`collcost_question_set`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collcost_expect(
    question: *const Question,
    expected: *mut Expectation,
) -> Status {
    done(|| {
        // SAFETY: NULL or one of ours.
        let question = unsafe { question.as_ref() }.ok_or_else(|| null("question"))?;
        if expected.is_null() {
            return Err(null("expected"));
        }
        let expect = collcost_core::expect(question)?;
        let found = Expectation {
            time_s: expect.time_s,
            low_s: expect.low_s,
            high_s: expect.high_s,
            busbw: expect.busbw.unwrap_or(0.0),
            basis: match expect.basis {
                Basis::Measured => 0,
                Basis::SameBoard => 1,
                Basis::Transferred => 2,
                // One that is not known yet is no better.
                Basis::Modelled | _ => 3,
            },
            channels: expect.runs.channels.unwrap_or(0),
            runs: name(&expect.runs.name()),
        };
        // SAFETY: not NULL, and the caller's to be written.
        unsafe { expected.write(found) };
        Ok(())
    })
}

/// See `collcost.h`.
///
/// # Safety
/// As [`collcost_question_set`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collcost_price(
    question: *const Question,
    algorithm: *const c_char,
    ideal: *mut Ideal,
) -> Status {
    done(|| {
        // SAFETY: the caller's promise.
        let algorithm = unsafe { text(algorithm, "`algorithm`") }?;
        // SAFETY: NULL or one of ours.
        let question = unsafe { question.as_ref() }.ok_or_else(|| null("question"))?;
        if ideal.is_null() {
            return Err(null("ideal"));
        }
        let row = collcost_core::price(question, algorithm)?;
        let unknown = || Error::unknown("a parameter of the machine that the price needs");
        let found = Ideal {
            time_s: row.time_s.ok_or_else(unknown)?,
            latency_s: row.latency_s.ok_or_else(unknown)?,
            bandwidth_s: row.bandwidth_s.ok_or_else(unknown)?,
            bound_ratio: row.bound_ratio.unwrap_or(0.0),
            segments: row.segments.unwrap_or(0),
            reserved: 0,
        };
        // SAFETY: not NULL, and the caller's to be written.
        unsafe { ideal.write(found) };
        Ok(())
    })
}

/// See `collcost.h`.
///
/// # Safety
/// As [`collcost_question_set`]; `chosen` has room for `COLLCOST_NAME` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collcost_choose(
    question: *const Question,
    library: *const c_char,
    chosen: *mut [c_char; NAME],
) -> Status {
    done(|| {
        // SAFETY: the caller's promise.
        let library = unsafe { text(library, "`library`") }?;
        // SAFETY: NULL or one of ours.
        let question = unsafe { question.as_ref() }.ok_or_else(|| null("question"))?;
        if chosen.is_null() {
            return Err(null("name"));
        }
        let choice = collcost_core::choose(question, library)?;
        // SAFETY: not NULL, and the caller's to be written.
        unsafe { chosen.write(name(&choice.name)) };
        Ok(())
    })
}

/// See `collcost.h`.
///
/// # Safety
/// The question is NULL or one of ours, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collcost_question_free(question: *mut Question) {
    if !question.is_null() {
        // SAFETY: it came out of a box, and nobody uses it again.
        drop(unsafe { Box::from_raw(question) });
    }
}

/// See `collcost.h`.
#[unsafe(no_mangle)]
pub extern "C" fn collcost_error() -> *const c_char {
    ERROR.with_borrow(|text| text.as_ptr())
}

/// See `collcost.h`.
#[unsafe(no_mangle)]
pub extern "C" fn collcost_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// See `collcost.h`.
#[unsafe(no_mangle)]
pub extern "C" fn collcost_api() -> u32 {
    1
}
