//! The releases of NCCL whose rules are known, one row each, and the names that people give them.

use std::fmt;
use std::str::FromStr;

use super::since::Rule;
use crate::base::error::{Error, Result};

/// A release without its rules, which [`super::since`] lists with their tags.
struct Release {
    /// Minor version and patch level; the major one is 2.
    tag: (u8, u8),
    /// The name among the policies, with the tag after the `@`.
    policy: &'static str,
    /// The versions of PyTorch that pin it, by the metadata of their packages on PyPI
    /// (`nvidia-nccl-cu12==…`); since 2.10 a version pins one for each CUDA version.
    pytorch: &'static [&'static str],
}

const fn release(tag: (u8, u8), policy: &'static str, pytorch: &'static [&'static str]) -> Release {
    Release { tag, policy, pytorch }
}

/// Every release from 2.18.1 on, oldest first.
static RELEASES: [Release; 34] = [
    release((18, 1), "nccl@2.18.1", &["2.1"]),
    release((18, 3), "nccl@2.18.3", &[]),
    release((18, 5), "nccl@2.18.5", &[]),
    release((18, 6), "nccl@2.18.6", &[]),
    release((19, 1), "nccl@2.19.1", &[]),
    release((19, 3), "nccl@2.19.3", &["2.2"]),
    release((19, 4), "nccl@2.19.4", &[]),
    release((20, 3), "nccl@2.20.3", &[]),
    release((20, 5), "nccl@2.20.5", &["2.3", "2.4"]),
    release((21, 5), "nccl@2.21.5", &["2.5", "2.6"]),
    release((22, 3), "nccl@2.22.3", &[]),
    release((23, 4), "nccl@2.23.4", &[]),
    release((24, 3), "nccl@2.24.3", &[]),
    release((25, 1), "nccl@2.25.1", &[]),
    release((26, 2), "nccl@2.26.2", &["2.7"]),
    release((26, 3), "nccl@2.26.3", &[]),
    release((26, 5), "nccl@2.26.5", &[]),
    release((26, 6), "nccl@2.26.6", &[]),
    release((27, 3), "nccl@2.27.3", &["2.8"]),
    release((27, 5), "nccl@2.27.5", &["2.9", "2.10-cu12"]),
    release((27, 6), "nccl@2.27.6", &[]),
    release((27, 7), "nccl@2.27.7", &[]),
    release((28, 3), "nccl@2.28.3", &[]),
    release((28, 7), "nccl@2.28.7", &[]),
    release((28, 9), "nccl@2.28.9", &["2.10-cu13", "2.11"]),
    release((29, 2), "nccl@2.29.2", &[]),
    release((29, 3), "nccl@2.29.3", &[]),
    release((29, 7), "nccl@2.29.7", &["2.12", "2.13"]),
    release((30, 3), "nccl@2.30.3", &[]),
    release((30, 4), "nccl@2.30.4", &[]),
    release((30, 7), "nccl@2.30.7", &["2.14", "2.15"]),
    release((31, 2), "nccl@2.31.2", &[]),
    release((32, 3), "nccl@2.32.3", &[]),
    release((32, 6), "nccl@2.32.6", &[]),
];

/// A release of NCCL whose tuner and search are known; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(u8);

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; RELEASES.len()] = {
        let mut all = [Self(0); RELEASES.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = Self(i as u8);
            i += 1;
        }
        all
    };

    /// The newest release that a PyTorch version pins: the default if none is named.
    pub const NEWEST: Self = {
        let mut newest = RELEASES.len() - 1;
        while RELEASES[newest].pytorch.is_empty() {
            newest -= 1;
        }
        Self(newest as u8)
    };

    const fn release(self) -> &'static Release {
        &RELEASES[self.0 as usize]
    }

    /// Minor version and patch level; the major version is 2.
    #[must_use]
    pub const fn tag(self) -> (u8, u8) {
        self.release().tag
    }

    /// Its position among all releases; the oldest has 0.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether the release has a rule.
    #[must_use]
    pub(crate) const fn has(self, rule: Rule) -> bool {
        rule.holds(self.tag())
    }

    /// The text, such as `2.27.3`.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.policy().split_at("nccl@".len()).1
    }

    /// The name of its tuner among the policies, such as `nccl@2.27.3`.
    #[must_use]
    pub fn policy(self) -> &'static str {
        self.release().policy
    }

    /// A caveat about its answers: 2.32.6 was read before its release.
    #[must_use]
    pub fn caveat(self) -> Option<&'static str> {
        self.has(super::since::FITTED_REDUCTIONS).then_some(
            "2.32.6 follows the last development state before the release, not the release itself",
        )
    }

    /// The interface of its tuner plugins, if it differs from that of the previous release.
    #[must_use]
    pub fn plugins(self) -> Option<&'static str> {
        match self {
            _ if self.has(super::since::FITTED_REDUCTIONS) => Some(
                "2.32.6 loads plugins through ncclTunerPlugin_v7, whose constants have a fifth row \
                 for Rubin-class GPUs; v5 and v6 plugins are loaded too, and their rows come first",
            ),
            _ if self.has(super::since::FITTED_KERNELS) => {
                Some("2.32.3 loads plugins of v2 to v6; the constants set by v6's init hold")
            }
            _ if self.has(super::since::COST_MODELS) => Some(
                "2.31.2 loads plugins of v2 to v6; the constants set by v6's init are overwritten",
            ),
            _ => None,
        }
    }

    /// The versions of PyTorch that pin it, such as `2.10-cu13`.
    #[must_use]
    pub fn pytorch(self) -> &'static [&'static str] {
        self.release().pytorch
    }

    /// The release that a version of PyTorch pins.
    fn pinned(name: &str) -> Result<Self> {
        let pins: Vec<(&str, Self)> =
            Self::ALL.iter().flat_map(|&v| v.pytorch().iter().map(move |&pin| (pin, v))).collect();
        let (release, cuda) = python(name);
        let by_cuda = format!("{release}{cuda}");
        let found = [name, &by_cuda, &release]
            .into_iter()
            .find_map(|name| pins.iter().find(|(pin, _)| *pin == name));
        if let Some(&(_, version)) = found {
            return Ok(version);
        }
        let name = &*release;
        let names = |which: &dyn Fn(&str) -> bool| {
            let named = pins.iter().map(|(pin, _)| *pin).filter(|pin| which(pin));
            named.map(|pin| format!("torch-{pin}")).collect::<Vec<_>>()
        };
        let by_cuda = names(&|pin| pin.strip_prefix(name).is_some_and(|c| c.starts_with("-cu")));
        Err(match by_cuda.is_empty() {
            false => Error::input(format!("PyTorch {name} pins a release for each CUDA"))
                .help(format!("write {}", by_cuda.join(" or "))),
            true => Error::input(format!("which NCCL PyTorch {name} pins is not known"))
                .help(format!("known: {}", names(&|_| true).join(", "))),
        })
    }

    /// The release nearest to the one in a text such as `2.32.3`, whose own rules may not be known;
    /// `None` if it is no release, or older than all known rules.
    pub(crate) fn near(text: &str) -> Option<Self> {
        let (minor, patch) = numbers(plain(text))?;
        (minor >= OLDEST).then(|| Self::nearest(minor, patch.unwrap_or(0)))
    }

    /// The release nearest to a tag that is not a release; of two equally near ones, the older.
    fn nearest(minor: u32, patch: u32) -> Self {
        // No minor version has sixteen patch levels.
        let place = |minor: u32, patch: u32| minor.saturating_mul(16).saturating_add(patch.min(15));
        let far = |version: &Self| {
            let (known, level) = version.tag();
            place(known.into(), level.into()).abs_diff(place(minor, patch))
        };
        Self::ALL.into_iter().min_by_key(far).unwrap_or(Self::NEWEST)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// The minor version from which the rules are those known here.
const OLDEST: u32 = 18;

/// `2.27.3` of `v2.27.3-1` or `2.27.3+cuda12.4`.
fn plain(text: &str) -> &str {
    let text = text.trim().trim_start_matches('v');
    text.split(['-', '+']).next().unwrap_or(text)
}

/// `2.10` and `-cu12` of `2.10.1+cu128`, as Python's packages call themselves: patches pin what their release does.
fn python(name: &str) -> (String, String) {
    let (version, build) = name.split_once(['+', '-']).unwrap_or((name, ""));
    let release: Vec<&str> = version.splitn(3, '.').take(2).collect();
    let cuda = build.get(..4).filter(|cuda| cuda.starts_with("cu"));
    (release.join("."), cuda.map_or(String::new(), |cuda| format!("-{cuda}")))
}

/// The minor version and the patch level, if it has one.
fn numbers(plain: &str) -> Option<(u32, Option<u32>)> {
    let numbers: Vec<u32> =
        plain.split('.').map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    match numbers[..] {
        [2, minor] => Some((minor, None)),
        [2, minor, patch] => Some((minor, Some(patch))),
        _ => None,
    }
}

impl FromStr for Version {
    type Err = Error;

    /// Reads a release, `2.27.3` or `v2.27.3-1`; a minor version alone, `2.27`, which means its last
    /// release; or a version of PyTorch, `torch-2.7`, which means the release that it pins.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        for prefix in ["torch-", "pytorch-"] {
            if let Some(name) = text.to_ascii_lowercase().strip_prefix(prefix) {
                return Self::pinned(name);
            }
        }
        let plain = plain(text);
        let (minor, patch) = numbers(plain).ok_or_else(|| {
            Error::input(format!("`{text}` is not an NCCL version"))
                .help("write a release such as 2.27.3, or the PyTorch that pins it, torch-2.7")
        })?;
        if minor < OLDEST {
            return Err(Error::unsupported(format!("NCCL {plain} chose by other rules"))
                .help("use 2.18 or later"));
        }
        let asked = |version: &Self| {
            let (known, level) = version.tag();
            u32::from(known) == minor && patch.is_none_or(|patch| u32::from(level) == patch)
        };
        Self::ALL.into_iter().rfind(asked).ok_or_else(|| {
            let nearest = Self::nearest(minor, patch.unwrap_or(0));
            Error::input(format!("the rules of NCCL {plain} are not known"))
                .help(format!("the nearest release with known rules is {nearest}"))
        })
    }
}
