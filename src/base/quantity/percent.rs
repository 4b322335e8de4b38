//! Percentages as a person writes them.

use std::str::FromStr;

use crate::base::error::{Error, Result};

/// A percentage as a fraction: 0.1, which is written `10%` or `0.1`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let (number, scale) = match text.strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text, 1.0),
        };
        match number.trim().parse::<f64>() {
            // `10` may be meant as 10 % or as ten times.
            Ok(x) if scale == 1.0 && x.is_finite() && x >= 1.0 => {
                // Without the last digits of binary fractions.
                let [most, part] = [100.0 * x, x / 100.0].map(|y| (1e6 * y).round() / 1e6);
                Err(Error::input(format!("`{text}` may mean {x} % or {most} %"))
                    .help(format!("write {x}%, or {part}")))
            }
            Ok(x) if x.is_finite() && x >= 0.0 => Ok(Self(x / scale)),
            _ => {
                Err(Error::input(format!("`{text}` is not a percentage")).help("write 10%, or 0.1"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_from_1_is_not_guessed() {
        for (text, part) in [("10%", 0.1), ("0.1", 0.1), (" 7 %", 0.07), ("0", 0.0), ("250%", 2.5)]
        {
            assert_eq!(text.parse::<Percent>().unwrap(), Percent(part), "{text}");
        }
        let refused = |text: &str| text.parse::<Percent>().unwrap_err();
        let error = refused("10");
        assert_eq!(error.what(), "`10` may mean 10 % or 1000 %");
        assert_eq!(error.mending(), Some("write 10%, or 0.1"));
        assert!(refused("1.1").what().contains("1.1 % or 110 %"));
        for text in ["", "%", "-5%", "inf", "nan%", "ten"] {
            assert!(refused(text).what().contains("is not a percentage"), "{text}");
        }
    }
}
