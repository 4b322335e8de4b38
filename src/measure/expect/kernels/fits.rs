//! The fitted figures, and which kernel stands for which.

use std::sync::LazyLock;

use crate::base::quantity::{Bandwidth, Bytes, Seconds};
use crate::machine::profile::{Generation, LinkKind};

/// A machine on which kernels were measured.
pub(super) struct Measured {
    pub name: &'static str,
    pub board: &'static str,
    pub generation: Generation,
    pub link: LinkKind,
    /// α of its links in µs, as its profile has it.
    pub alpha: f64,
    /// GB/s of a GPU's links one way.
    pub rate: f64,
}

const fn measured(
    (name, board): (&'static str, &'static str),
    generation: Generation,
    link: LinkKind,
    (alpha, rate): (f64, f64),
) -> Measured {
    Measured { name, board, generation, link, alpha, rate }
}

pub(super) const MACHINES: [Measured; 5] = {
    use Generation::{Ada, Ampere, Blackwell, Hopper};
    use LinkKind::{NvLink, Pcie};
    [
        measured(("a100_sxm", "hgx-a100"), Ampere, NvLink, (0.92, 300.0)),
        measured(("h100_sxm", "hgx-h100"), Hopper, NvLink, (0.81, 450.0)),
        measured(("b200_sxm", "hgx-b200"), Blackwell, NvLink, (1.29, 900.0)),
        measured(("gb200", "gb200-nvl72"), Blackwell, NvLink, (1.26, 900.0)),
        measured(("l40s", "l40s-pcie"), Ada, Pcie, (1.6, 31.0)),
    ]
};

/// One line of the table.
#[derive(Clone, Copy)]
pub(super) struct Fit {
    start: f64,
    peer: f64,
    root: f64,
    slope: f64,
    corner: f64,
    beyond: f64,
}

impl Fit {
    /// µs for x kB.
    pub(super) fn micros(&self, ranks: u32, x: f64) -> f64 {
        let peers = f64::from(ranks.saturating_sub(1));
        let straight = self.start + self.peer * peers + self.slope * x;
        straight + self.root * x.sqrt() + self.beyond * (x - self.corner).max(0.0)
    }

    /// The same on links of another α and rate.
    pub(super) fn moved_to(
        self,
        from: &Measured,
        alpha: Option<Seconds>,
        rate: Bandwidth,
        like: &Like,
    ) -> Self {
        let start = alpha.map_or(1.0, |a| a.0 * 1e6 / from.alpha);
        let slope = match like.backend {
            "custom" => 1.0,
            _ => from.rate / (rate.0 / 1e9),
        };
        Self {
            start: self.start * start,
            peer: self.peer * start,
            root: self.root * (start * slope).sqrt(),
            slope: self.slope * slope,
            corner: self.corner,
            beyond: self.beyond * slope,
        }
    }
}

/// The table, read once.
pub(super) struct Fits(Vec<([&'static str; 3], u32, Fit)>);

pub(super) static FITS: LazyLock<Fits> = LazyLock::new(|| {
    let lines = include_str!("fits.csv").lines().filter(|l| !l.starts_with('#')).skip(1);
    Fits(lines.filter_map(line).collect())
});

fn line(text: &'static str) -> Option<([&'static str; 3], u32, Fit)> {
    let words: Vec<&'static str> = text.split(',').collect();
    let [machine, backend, kernel, ranks, numbers @ ..] = &words[..] else { return None };
    let numbers: Vec<f64> = numbers.iter().filter_map(|n| n.parse().ok()).collect();
    let &[start, peer, root, slope, corner, beyond] = &numbers[..] else { return None };
    let fit = Fit { start, peer, root, slope, corner, beyond };
    Some(([machine, backend, kernel], ranks.parse().ok()?, fit))
}

impl Fits {
    /// What was fitted for these ranks, else for any number of them.
    pub(super) fn of(&self, machine: &str, like: &Like, ranks: u32) -> Option<Fit> {
        let key = [machine, like.backend, like.kernel];
        let of = |n: u32| self.0.iter().find(|line| line.0 == key && line.1 == n);
        of(ranks).or_else(|| of(0)).map(|line| line.2)
    }
}

/// A measured kernel.
pub(super) struct Like {
    pub backend: &'static str,
    pub kernel: &'static str,
}

impl Like {
    /// kB that the form moves.
    pub(super) fn moved(&self, size: Bytes, ranks: u32) -> f64 {
        let (n, kilo) = (f64::from(ranks.max(1)), size.0 as f64 / 1e3);
        match self.kernel {
            "one-shot-pull" | "one-shot-push" => (n - 1.0) * kilo,
            "two-shot-multimem" => (1.0 + 1.0 / n) * kilo,
            _ => 2.0 * (n - 1.0) / n * kilo,
        }
    }
}

/// The measured kernel that stands for one, and how many times its bytes that one moves; none
/// where nothing measured is like it.
pub(super) fn like(backend: &'static str, kernel: &'static str) -> Option<(Like, f64)> {
    let own = |backend, kernel| Some((Like { backend, kernel }, 1.0));
    match (backend, kernel) {
        ("custom" | "trtllm", _) | ("custom-v2", "one-shot-push" | "two-shot-pull") => {
            own(backend, kernel)
        }
        ("symm-mem", "two-shot-multimem" | "two-shot-pull") => own("symm-mem", kernel),
        (_, "one-shot-push") => own("trtllm", kernel),
        ("flashinfer-trtllm", "two-shot-pull") => own("trtllm", kernel),
        (_, "two-shot-push" | "RSxLD_AGxST") => own("custom-v2", "two-shot-pull"),
        (_, "one-shot-pull" | "two-shot-pull") => own("custom", kernel),
        (_, "two-shot-multimem" | "RSxLDMC_AGxSTMC" | "nvls-zero-copy") => {
            own("symm-mem", "two-shot-multimem")
        }
        (_, "nvls-warp-pipeline" | "nvls-block-pipeline") => own("symm-mem", "two-shot-multimem"),
        (_, "rsag" | "rsag-zero-copy" | "rsag-pipeline" | "fullmesh") => {
            own("custom-v2", "two-shot-pull")
        }
        (_, "allpair-packet" | "AGxLL_R") => {
            Some((Like { backend: "custom-v2", kernel: "one-shot-push" }, 2.0))
        }
        (_, "packet") => Some((Like { backend: "custom-v2", kernel: "two-shot-pull" }, 2.0)),
        _ => None,
    }
}
