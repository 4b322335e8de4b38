//! The versions of NCCL whose tuner is known, and which of them stands for another.

use std::fmt;
use std::str::FromStr;

use crate::base::error::{Error, Result};

/// A version whose rules are known; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 2.18.3.
    V2_18,
    /// 2.21.5.
    V2_21,
    /// 2.27.3.
    V2_27,
    /// 2.30.7.
    V2_30,
}

/// The version that somebody asked for, and the one whose rules answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The rules that answer.
    pub rules: Version,
    /// Major, minor and patch that were asked for.
    pub asked: (u32, u32, u32),
}

impl Version {
    /// All of them, the oldest first.
    pub const ALL: [Self; 4] = [Self::V2_18, Self::V2_21, Self::V2_27, Self::V2_30];

    /// The newest.
    pub const NEWEST: Self = Self::V2_30;

    fn numbers(self) -> (u32, u32, u32) {
        [(2, 18, 3), (2, 21, 5), (2, 27, 3), (2, 30, 7)][self as usize]
    }

    /// The text, such as `2.27.3`.
    #[must_use]
    pub fn id(self) -> &'static str {
        ["2.18.3", "2.21.5", "2.27.3", "2.30.7"][self as usize]
    }

    /// Whether PAT, per-collective `NCCL_ALGO` lists and the later rules of NVLS and LL128 apply:
    /// 2.27.3 and later.
    #[must_use]
    pub fn is_new(self) -> bool {
        self >= Self::V2_27
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl Asked {
    /// What to tell a person where the rules of another version answer.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        if self.asked == self.rules.numbers() {
            return None;
        }
        let (major, minor, patch) = self.asked;
        Some(format!(
            "NCCL {major}.{minor}.{patch} is not known decision for decision; {} stands for it",
            self.rules
        ))
    }
}

impl FromStr for Asked {
    type Err = Error;

    /// Reads `2.27.3`, `2.27` or `v2.27.3-1`; a version between known ones is answered by the
    /// nearest minor version, of two equally near ones by the older.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let known: Vec<_> = Version::ALL.iter().map(|v| v.id()).collect();
            Error::input(format!("`{text}` is no NCCL version"))
                .help(format!("write one such as 2.27.3; known in full are {}", known.join(", ")))
        };
        let plain = text.trim().trim_start_matches('v');
        let plain = plain.split(['-', '+']).next().unwrap_or(plain);
        let mut parts = plain.split('.').map(str::parse::<u32>);
        let mut next = || parts.next().transpose().map_err(|_| refuse());
        let major = next()?.ok_or_else(refuse)?;
        let minor = next()?.ok_or_else(refuse)?;
        let patch = next()?;
        if next()?.is_some() || major != 2 {
            return Err(refuse());
        }
        if minor < 18 {
            return Err(Error::unsupported(format!("NCCL {plain} chose by other rules"))
                .help("ask for 2.18 or later"));
        }
        let distance = |v: &Version| v.numbers().1.abs_diff(minor);
        let rules = Version::ALL.into_iter().min_by_key(distance).ok_or_else(refuse)?;
        // A minor version alone means the known one where there is one.
        let patch = patch.unwrap_or(if distance(&rules) == 0 { rules.numbers().2 } else { 0 });
        Ok(Self { rules, asked: (major, minor, patch) })
    }
}

impl From<Version> for Asked {
    fn from(rules: Version) -> Self {
        Self { rules, asked: rules.numbers() }
    }
}
