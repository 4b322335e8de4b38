//! Quantities with their units: sizes, times, rates.
//!
//! One table per quantity serves both parsing and printing. Sizes follow nccl-tests: `16M` and
//! `16MiB` are 16·2^20 bytes, `16MB` is 16·10^6. `b` is a bit, so `16 Mb` is refused as a size
//! while `400Gb/s` is a fine bandwidth. Bandwidths always print as 10^9 bytes per second.

mod exact;
mod parse;
mod percent;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Sub};
use std::str::FromStr;

use crate::base::dtype::DataType;
use crate::base::error::{Error, Result};
use crate::base::order::sorted;
pub use exact::{Rate, decimal, nearest};
use parse::{Unit, scan};
pub use percent::Percent;

/// A whole number of bytes, as a user gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A computed amount of data in bytes, not necessarily whole: M/N, a crossover.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Volume(pub f64);

/// A time in seconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Seconds(pub f64);

/// A rate in bytes per second: one direction of one port.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Bandwidth(pub f64);

/// Seconds per byte: γ, the time to reduce one byte, or an inverse bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct SecondsPerByte(pub f64);

/// A number without unit: a coefficient, an efficiency, a ratio to a bound.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

const SIZE_UNITS: &[Unit] = &[
    Unit::new("EiB", 1_152_921_504_606_846_976.0),
    Unit::new("PiB", 1_125_899_906_842_624.0),
    Unit::new("TiB", 1_099_511_627_776.0),
    Unit::new("GiB", 1_073_741_824.0),
    Unit::new("MiB", 1_048_576.0),
    Unit::new("KiB", 1_024.0),
    Unit::new("B", 1.0),
    Unit::new("EB", 1e18),
    Unit::new("PB", 1e15),
    Unit::new("TB", 1e12),
    Unit::new("GB", 1e9),
    Unit::new("MB", 1e6),
    Unit::new("kB", 1e3),
    Unit::new("KB", 1e3),
    // nccl-tests reads one bare letter of either case as a power of 1024.
    Unit::new("T", 1_099_511_627_776.0),
    Unit::new("G", 1_073_741_824.0),
    Unit::new("M", 1_048_576.0),
    Unit::new("K", 1_024.0),
    Unit::new("t", 1_099_511_627_776.0),
    Unit::new("g", 1_073_741_824.0),
    Unit::new("m", 1_048_576.0),
    Unit::new("k", 1_024.0),
    Unit::new("", 1.0),
];

/// Powers of ten: a decimal number is scaled by one exactly, so that 0.81us is 8.1e-7 to the bit.
const TIME_UNITS: &[(&str, i32)] =
    &[("s", 0), ("ms", -3), ("us", -6), ("µs", -6), ("μs", -6), ("ns", -9), ("ps", -12)];

/// The amounts of data in the numerator of a rate; `/s` or `ps` follows.
const RATE_UNITS: &[Unit] = &[
    Unit::new("TB", 1e12),
    Unit::new("GB", 1e9),
    Unit::new("MB", 1e6),
    Unit::new("kB", 1e3),
    Unit::new("KB", 1e3),
    Unit::new("B", 1.0),
    Unit::new("TiB", 1_099_511_627_776.0),
    Unit::new("GiB", 1_073_741_824.0),
    Unit::new("MiB", 1_048_576.0),
    Unit::new("KiB", 1_024.0),
    Unit::new("Tb", 0.125e12),
    Unit::new("Gb", 0.125e9),
    Unit::new("Mb", 0.125e6),
    Unit::new("kb", 0.125e3),
    Unit::new("Kb", 0.125e3),
    Unit::new("b", 0.125),
];

impl FromStr for Bytes {
    type Err = Error;

    /// Reads `16MiB`, `16M`, `16MB`, `4096`, or parameters with a data type, `7B@bf16`.
    fn from_str(text: &str) -> Result<Self> {
        const ACCEPTED: &str =
            "write a size such as 16MiB or 16M (2^20 bytes), 16MB (10^6 bytes), 4096, or 7B@bf16";
        if let Some((count, dtype)) = text.split_once('@') {
            return parameters(text, count, dtype);
        }
        let (number, unit) = scan(text).map_err(|e| e.help(ACCEPTED))?;
        let is_prefix = |u: &&str| {
            let letter = u.strip_suffix('i').unwrap_or(u);
            u.is_empty() || letter.len() == 1 && "kKmMgGtTpPeE".contains(letter)
        };
        if let Some(bytes) = unit.strip_suffix('b').filter(is_prefix) {
            let bits = match bytes {
                "" => "bits".to_owned(),
                prefix if prefix.ends_with('i') => format!("{}bibits", &long_prefix(prefix)[..2]),
                prefix => format!("{}bits", long_prefix(prefix)),
            };
            let upper = bytes.to_uppercase().replace('I', "");
            return Err(Error::input(format!("`{text}` is {number} {bits}, not bytes")).help(
                match upper.as_str() {
                    "" => format!("write {number} for bytes, or {number}B@bf16 for parameters"),
                    _ => format!(
                        "write {number}{upper}B ({}) or {number}{upper}iB ({})",
                        power(&upper, 10),
                        power(&upper, 2)
                    ),
                },
            ));
        }
        let scale = Unit::find(SIZE_UNITS, unit).ok_or_else(|| {
            Error::input(format!("`{text}` is not a size: unit `{unit}` is unknown")).help(ACCEPTED)
        })?;
        let bytes = number.value() * scale;
        // `1.1GiB` means the nearest byte; half a byte was never meant.
        let bytes = if scale > 1.0 { bytes.round() } else { bytes };
        whole(text, bytes).map_err(|e| e.help(ACCEPTED))
    }
}

/// The size that a person asks for. `7B` is 7 bytes, and nearly always means 7 billion parameters: a `B`
/// alone is for powers of two, as nccl-tests prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked(pub Bytes);

impl FromStr for Asked {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let size: Bytes = text.parse()?;
        match text.trim().strip_suffix('B').map(str::trim_end) {
            Some(number) if number.ends_with(|c: char| c.is_ascii_digit()) => {
                if size.0.is_power_of_two() {
                    return Ok(Self(size));
                }
                Err(Error::input(format!("`{number}B` can be bytes or billions of parameters"))
                    .help(format!("write {number} for bytes, or {number}B@bf16 for parameters")))
            }
            _ => Ok(Self(size)),
        }
    }
}

/// How many parameters a letter stands for: all are decimal.
pub(crate) fn scale_of_parameters(letter: &str) -> Option<f64> {
    Some(match letter {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "b" | "B" | "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        _ => return None,
    })
}

/// `7B@bf16`: a count of parameters times the bytes of each.
fn parameters(text: &str, count: &str, dtype: &str) -> Result<Bytes> {
    let (number, unit) = scan(count)?;
    let scale = scale_of_parameters(unit).ok_or_else(|| {
        Error::input(format!("`{count}` is not a number of parameters"))
            .help("write 7B@bf16, 350M@fp32 or 70e9@fp8")
    })?;
    let Bytes(each) = dtype.parse::<DataType>()?.bytes();
    whole(text, number.value() * scale * each as f64)
}

impl Bytes {
    /// The size, if memory can have so many bytes.
    ///
    /// # Errors
    /// More than any memory.
    pub fn possible(self) -> Result<Self> {
        within(&self.0.to_string(), self.0 as f64).map(|()| self)
    }
}

fn within(text: &str, bytes: f64) -> Result<()> {
    // 2^63 bytes is far above any buffer and still exact to print.
    if bytes > 9.2e18 {
        return Err(Error::input(format!("`{text}` is more than any memory: below 8 EiB")));
    }
    Ok(())
}

fn whole(text: &str, bytes: f64) -> Result<Bytes> {
    within(text, bytes)?;
    if bytes < 0.0 {
        return Err(Error::input(format!("`{text}` is negative: a size is 0 bytes or more")));
    }
    let rounded = bytes.round();
    if (bytes - rounded).abs() > 1e-6 * rounded.max(1e-9) {
        return Err(Error::input(format!(
            "`{text}` is {bytes} bytes, which is not a whole number"
        )));
    }
    Ok(Bytes(rounded as u64))
}

fn long_prefix(prefix: &str) -> &'static str {
    match prefix.trim_end_matches('i') {
        "k" | "K" => "kilo",
        "m" | "M" => "mega",
        "g" | "G" => "giga",
        "p" | "P" => "peta",
        "e" | "E" => "exa",
        _ => "tera",
    }
}

fn power(prefix: &str, base: u32) -> String {
    let step = if base == 10 { 3 } else { 10 };
    let rank = match prefix {
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "P" => 5,
        "E" => 6,
        _ => 4,
    };
    format!("{base}^{} bytes", step * rank)
}

/// The longest time that may be given, in seconds.
const LONGEST: f64 = 1e9;

impl FromStr for Seconds {
    type Err = Error;

    /// Reads `5us`, `5µs`, `0.2ms`, `200ns`, `1e-6s`; a bare `0` too.
    fn from_str(text: &str) -> Result<Self> {
        const ACCEPTED: &str = "write a time with its unit: 5us, 200ns, 0.2ms or 1e-6s";
        let (number, unit) = scan(text).map_err(|e| e.help(ACCEPTED))?;
        if number.value() < 0.0 {
            return Err(
                Error::input(format!("`{text}` is negative: a time is 0 or more")).help(ACCEPTED)
            );
        }
        let seconds = match (unit, TIME_UNITS.iter().find(|(name, _)| *name == unit)) {
            (_, Some(&(_, exponent))) => number.times_power_of_ten(exponent),
            ("min" | "m", None) => 60.0 * number.value(),
            ("h", None) => 3600.0 * number.value(),
            ("", None) if number.value() == 0.0 => 0.0,
            ("", None) => {
                return Err(Error::input(format!("`{text}` is a time without unit")).help(ACCEPTED));
            }
            _ => {
                let what = format!("`{text}` is not a time: unit `{unit}` is unknown");
                return Err(Error::input(what).help(ACCEPTED));
            }
        };
        match seconds > LONGEST {
            true => Err(Error::input(format!("`{text}` is more than thirty years")).help(ACCEPTED)),
            false => Ok(Self(seconds)),
        }
    }
}

impl Seconds {
    /// A time that something can take.
    pub(crate) fn checked(seconds: f64) -> Option<Self> {
        (0.0..=LONGEST).contains(&seconds).then_some(Self(seconds))
    }
}

impl Bandwidth {
    /// A rate that a link can have.
    pub(crate) fn checked(rate: f64) -> Option<Self> {
        (1e-3..=1e24).contains(&rate).then_some(Self(rate))
    }
}

impl FromStr for Bandwidth {
    type Err = Error;

    /// Reads `50GB/s`, `400Gb/s`, `400Gbps`, `46GiB/s`; a number without unit is refused.
    fn from_str(text: &str) -> Result<Self> {
        const ACCEPTED: &str = "write bytes as 50GB/s or bits as 400Gb/s";
        let (number, unit) = scan(text).map_err(|e| e.help(ACCEPTED))?;
        let number = number.value();
        if unit.is_empty() {
            return Err(Error::input(format!(
                "`{text}` is a bandwidth without unit: bits or bytes per second?"
            ))
            .help(ACCEPTED));
        }
        let amount = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps"));
        let amount = match amount {
            // Link rates are commonly written in lower case, and always mean bits.
            Some("gb") => Some("Gb"),
            Some("mb") => Some("Mb"),
            Some("tb") => Some("Tb"),
            other => other,
        };
        let scale = amount.and_then(|a| Unit::find(RATE_UNITS, a)).ok_or_else(|| {
            Error::input(format!("`{text}` is not a bandwidth: unit `{unit}` is unknown"))
                .help(ACCEPTED)
        })?;
        Self::checked(number * scale).ok_or_else(|| {
            let what =
                if number > 0.0 { "no link is so fast or slow" } else { "it must be above 0" };
            Error::input(format!("`{text}` is not a bandwidth: {what}")).help(ACCEPTED)
        })
    }
}

impl FromStr for SecondsPerByte {
    type Err = Error;

    /// Reads `20ps/B`, or the rate whose inverse it is, `50GB/s`.
    fn from_str(text: &str) -> Result<Self> {
        let help = "write seconds per byte as 20ps/B, or the rate as 50GB/s";
        if let Some(time) = text.strip_suffix("/B") {
            return Seconds::from_str(time).map(|time| Self(time.0)).map_err(|e| e.help(help));
        }
        if text.trim() == "0" {
            return Ok(Self(0.0));
        }
        if text.trim().parse::<f64>().is_ok() {
            return Err(Error::input(format!("`{text}` has no unit")).help(help));
        }
        Bandwidth::from_str(text).map(|rate| Self(1.0 / rate.0)).map_err(|e| e.help(help))
    }
}

impl fmt::Display for Bytes {
    /// Prints it in the unit that makes it a short number: 16777216 is `16 MiB`, 1000000000 is `1
    /// GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let short = |unit: &Unit| {
            let thousandths = bytes / unit.scale() * 1e3;
            thousandths == thousandths.round() && (1e3..1e6).contains(&thousandths)
        };
        let units = SIZE_UNITS.iter().filter(|u| u.name().len() > 1);
        match units.clone().find(|u| short(u)) {
            Some(unit) => write_short(f, bytes / unit.scale(), unit.name()),
            None => Volume(bytes).fmt(f),
        }
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = ["TiB", "GiB", "MiB", "KiB"].into_iter().find_map(|name| {
            let scale = Unit::find(SIZE_UNITS, name)?;
            (self.0 >= scale).then_some((scale, name))
        });
        match unit {
            Some((scale, name)) => write_short(f, self.0 / scale, name),
            None => write_short(f, self.0, "B"),
        }
    }
}

impl Volume {
    /// Whole bytes in the unit in which they were meant, as [`Bytes`] are written.
    pub(crate) fn as_meant(self) -> String {
        if self.0.fract() == 0.0 { Bytes(self.0 as u64).to_string() } else { self.to_string() }
    }
}

/// A unit of time for a whole column, which has it in its head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeUnit {
    /// `µs`.
    pub name: &'static str,
    per_second: f64,
}

impl TimeUnit {
    /// The largest unit in which a time is 1 or more.
    #[must_use]
    pub fn of(time: Seconds) -> Self {
        let (name, per_second) = match time.0.abs() {
            s if s >= 1.0 => ("s", 1.0),
            s if s >= 1e-3 => ("ms", 1e3),
            s if s >= 1e-6 || s == 0.0 => ("µs", 1e6),
            _ => ("ns", 1e9),
        };
        Self { name, per_second }
    }

    /// The unit for all of these times. It follows one of the short ones, so that a single very
    /// short time does not make all others long. Times of 0 are ignored.
    #[must_use]
    pub fn common(times: impl IntoIterator<Item = Seconds>) -> Self {
        Self::of(short(times))
    }

    /// The same unit; for times that would have five digits before the point, the unit common to
    /// them.
    #[must_use]
    pub fn or_own(self, times: impl IntoIterator<Item = Seconds>) -> Self {
        let short = short(times);
        if short.0 * self.per_second < 1e4 { self } else { Self::of(short) }
    }

    /// A time in this unit, without the unit's name, as in a column.
    #[must_use]
    pub fn number(self, time: Seconds) -> String {
        match time.0 * self.per_second {
            0.0 => "0".to_owned(),
            value if value.abs() >= 0.1 => format!("{value:.*}", decimals(value)),
            value if value.abs() >= 0.01 => format!("{value:.4}"),
            value => format!("{value:.5}"),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = TimeUnit::of(*self);
        write_short(f, self.0 * unit.per_second, unit.name)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Columns, which have their unit in the head, ask for a precision or `{:#}`.
        let scaled = f.precision().is_none() && !f.alternate();
        match self.0.abs() {
            rate if rate >= 1e8 || rate == 0.0 || !scaled => write_short(f, self.0 / 1e9, "GB/s"),
            rate if rate >= 1e5 => write_short(f, self.0 / 1e6, "MB/s"),
            _ => write_short(f, self.0 / 1e3, "kB/s"),
        }
    }
}

impl fmt::Display for SecondsPerByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_short(f, self.0 * 1e12, "ps/B")
    }
}

/// A part as three digits in percent: `0.53 %`, `12.3 %`, `120 %`.
pub(crate) fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    let decimals = match percent.abs() {
        p if p >= 99.95 => 0,
        p if p >= 9.995 => 1,
        _ => 2,
    };
    format!("{percent:.decimals$} %")
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", f.precision().unwrap_or(3), self.0)
    }
}

/// A time that is longer than a fifth of them.
fn short(times: impl IntoIterator<Item = Seconds>) -> Seconds {
    let times = sorted(times.into_iter().map(|t| t.0.abs()).filter(|t| *t > 0.0));
    Seconds(times.get(times.len() / 5).copied().unwrap_or(0.0))
}

/// The number of decimals that gives four digits.
fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    }
}

/// A number's text without zeros at the end of its decimals, and without a point that nothing follows.
pub(crate) fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// Whole numbers unchanged, others with enough decimals for three to four digits.
fn write_short(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    let text = match f.precision() {
        Some(decimals) => format!("{value:.decimals$} {unit}"),
        None if value == value.round() && value.abs() < 1e15 => format!("{value:.0} {unit}"),
        None => format!("{} {unit}", without_zeros(&format!("{value:.*}", decimals(value)))),
    };
    // Not `pad`, which would cut at the precision.
    let width = f.width().unwrap_or(0);
    match f.align() {
        Some(fmt::Alignment::Left) => write!(f, "{text:<width$}"),
        _ => write!(f, "{text:>width$}"),
    }
}

impl From<Bytes> for Volume {
    fn from(b: Bytes) -> Self {
        Self(b.0 as f64)
    }
}

impl Div<Bandwidth> for Volume {
    type Output = Seconds;
    fn div(self, rate: Bandwidth) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Div<Seconds> for Volume {
    type Output = Bandwidth;
    fn div(self, time: Seconds) -> Bandwidth {
        Bandwidth(self.0 / time.0)
    }
}

impl Mul<SecondsPerByte> for Volume {
    type Output = Seconds;
    fn mul(self, inverse: SecondsPerByte) -> Seconds {
        Seconds(self.0 * inverse.0)
    }
}

impl Mul<Ratio> for Volume {
    type Output = Self;
    fn mul(self, k: Ratio) -> Self {
        Self(self.0 * k.0)
    }
}

impl Mul<Ratio> for Seconds {
    type Output = Self;
    fn mul(self, k: Ratio) -> Self {
        Self(self.0 * k.0)
    }
}

impl Mul<Ratio> for Bandwidth {
    type Output = Self;
    fn mul(self, k: Ratio) -> Self {
        Self(self.0 * k.0)
    }
}

impl Div for Seconds {
    type Output = Ratio;
    fn div(self, other: Self) -> Ratio {
        Ratio(self.0 / other.0)
    }
}

impl Add for Seconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Seconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Seconds {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        // Not f64's own sum, which is −0 of nothing.
        iter.fold(Self(0.0), Add::add)
    }
}

#[cfg(test)]
mod tests;
