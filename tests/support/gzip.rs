//! Tables that are kept compressed.

use std::io::Read;

pub fn inflate(packed: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("it is gzip");
    text
}
