//! The fields of a row.

use super::Read;
use crate::base::quantity::{Bandwidth, Seconds};
use crate::base::refused::Refused;

/// More fields than any row has.
pub(super) const MOST: usize = 48;

/// The fields of a line, as many as a row can have.
pub(super) fn split(text: &str) -> ([&str; MOST], usize) {
    let mut fields = [""; MOST];
    let mut count = 0;
    for (place, field) in fields.iter_mut().zip(text.split_ascii_whitespace()) {
        *place = field;
        count += 1;
    }
    (fields, count)
}

/// A whole number, if the field is one.
pub(super) fn whole(field: &str) -> Option<u64> {
    let is_number = !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| field.parse().ok()).flatten()
}

/// A finite number, if the field is one.
pub(super) fn number(field: &str) -> Option<f64> {
    if let Some((digits, behind)) = decimal(field) {
        // Both are exact, so the quotient is the nearest number.
        return Some(digits as f64 / POWERS[behind]);
    }
    let first = *field.as_bytes().first()?;
    if !(first.is_ascii_digit() || matches!(first, b'-' | b'.' | b'+')) {
        return None;
    }
    field.parse::<f64>().ok().filter(|x| x.is_finite())
}

/// 10^0, 10^1 …
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// `1232.16` as its digits, 123216, and how many of them follow the point; `None` for any other text,
/// and for more digits than a double holds.
fn decimal(field: &str) -> Option<(u64, usize)> {
    let (mut digits, mut count, mut point) = (0_u64, 0, None);
    for &byte in field.as_bytes() {
        match byte {
            b'0'..=b'9' if count < 15 => {
                digits = 10 * digits + u64::from(byte - b'0');
                count += 1;
            }
            b'.' if point.is_none() => point = Some(count),
            _ => return None,
        }
    }
    (count > 0).then(|| (digits, count - point.unwrap_or(count)))
}

/// Half of the last digit; numbers too wide for their column are printed as 1.2e+07.
pub(super) fn half(field: &str) -> f64 {
    if let Some((_, behind)) = decimal(field) {
        return 0.5 / POWERS[behind];
    }
    let (digits, power) = field.split_once(['e', 'E']).unwrap_or((field, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    0.5 * 10_f64.powi(power.clamp(-300, 300) - decimals(digits) as i32)
}

/// Placeholders for a value that was not measured.
pub(super) fn is_none(field: &str) -> bool {
    field.eq_ignore_ascii_case("n/a") || field.eq_ignore_ascii_case("nan")
}

/// The number of digits after the point.
pub(super) fn decimals(field: &str) -> usize {
    field.split_once('.').map_or(0, |(_, behind)| behind.len())
}

/// In microseconds: no call is as short.
const PICOSECOND: f64 = 1e-6;

/// A time in units of `unit` seconds; `None` if it is not a number above zero.
pub(super) fn time(field: &str, unit: f64) -> Option<Seconds> {
    number(field).filter(|time| *time > 0.0).map(|time| Seconds(time * unit))
}

/// A time in microseconds; `None` if it is zero or not a number.
///
/// # Errors
/// A negative time, or one that nothing takes.
pub(super) fn micros(field: &str, line: usize) -> Read<Option<Seconds>> {
    let Some(time) = number(field) else { return Ok(None) };
    if time < 0.0 {
        return Err(Refused::at(line, format!("`{field}` is a negative time")));
    }
    if time > 0.0 && time < PICOSECOND {
        return Err(Refused::at(line, format!("`{field}` is shorter than a picosecond")));
    }
    Ok((time > 0.0).then_some(Seconds(time * 1e-6)))
}

/// A rate in units of `unit`; `None` if it is zero or not a number.
///
/// # Errors
/// A negative rate.
pub(super) fn rate(field: &str, unit: Bandwidth, line: usize) -> Read<Option<Bandwidth>> {
    let Some(rate) = number(field) else { return Ok(None) };
    if rate < 0.0 {
        return Err(Refused::at(line, format!("`{field}` is a negative rate")));
    }
    Ok((rate > 0.0).then_some(Bandwidth(rate * unit.0)))
}

/// Refuses a size with a unit (`4K`, `1MB`) in a column of plain bytes.
///
/// # Errors
/// Such a size, in a line whose next field is a number.
pub(super) fn plain_size(fields: &[&str], line: usize) -> Read<()> {
    let [first, second, ..] = fields else { return Ok(()) };
    let digits = first.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_unit = matches!(
        digits.to_ascii_lowercase().as_str(),
        "k" | "m" | "g" | "kb" | "mb" | "gb" | "kib" | "mib" | "gib"
    );
    if is_unit && digits.len() < first.len() && number(second).is_some() {
        let what = format!("the size `{first}` has a unit, and the table's sizes are in bytes");
        return Err(Refused::at(line, what).help("write all sizes in bytes, as the benchmark does"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_numbers_or_nothing() {
        assert_eq!((whole("8"), whole("8.0"), whole("-1")), (Some(8), None, None));
        assert_eq!((number("1e-07"), number("inf"), number("nan")), (Some(1e-7), None, None));
        assert_eq!(micros("0.00", 1).unwrap(), None);
        assert!(micros("-1.5", 7).is_err() && plain_size(&["4K", "1.5"], 7).is_err());
        assert!(plain_size(&["4K", "pages"], 7).is_ok());
        for text in ["0", "12.30", "1232.16", "999999999.999999", "0.1", "123456789012345"] {
            assert_eq!(number(text), text.parse().ok(), "{text}");
        }
        assert_eq!((half("12.30"), half("7"), half("1.2e+07")), (0.005, 0.5, 0.5e6));
        assert_eq!((number("."), number("1.2.3"), number("")), (None, None, None));
        assert_eq!((decimals("12.30"), decimals("12")), (2, 0));
    }
}
