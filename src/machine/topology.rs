//! Counts of regular networks: diameters, bisections, fat trees, oversubscription.

use crate::base::quantity::{Bandwidth, Ratio};

/// Hops between the farthest ranks of a torus: Σ⌊d/2⌋.
///
/// ```
/// assert_eq!(collcost::machine::topology::torus_diameter(&[8, 8, 8]), 12);
/// ```
#[must_use]
pub fn torus_diameter(sides: &[u32]) -> u64 {
    sides.iter().map(|&d| u64::from(d / 2)).sum()
}

/// Hops between the farthest ranks of a mesh, a torus without wrap-around: Σ(d − 1).
#[must_use]
pub fn mesh_diameter(sides: &[u32]) -> u64 {
    sides.iter().map(|&d| u64::from(d.saturating_sub(1))).sum()
}

/// Links that a cut through the longest side severs: two per line of it on a torus, one on a mesh.
///
/// A side of two has one link on either. An odd side is cut as evenly as it can be.
#[must_use]
pub fn bisection_links(sides: &[u32], wraps: bool) -> u64 {
    let longest = sides.iter().copied().max().unwrap_or(1);
    if longest < 2 {
        return 0;
    }
    let ranks: u64 = sides.iter().map(|&d| u64::from(d)).product();
    let lines = ranks / u64::from(longest);
    if wraps && longest > 2 { 2 * lines } else { lines }
}

/// Links of one rank: two per side of a torus, and one if a side has only two ranks.
#[must_use]
pub fn torus_degree(sides: &[u32]) -> u32 {
    sides.iter().map(|&d| d.saturating_sub(1).min(2)).sum()
}

/// Hosts of a three-level fat tree of k-port switches: k³/4. k is even.
#[must_use]
pub fn fat_tree_hosts(k: u64) -> u64 {
    k.pow(3) / 4
}

/// Switches of that fat tree: 5k²/4, of which k²/4 are the core.
#[must_use]
pub fn fat_tree_switches(k: u64) -> u64 {
    5 * k.pow(2) / 4
}

/// Oversubscription of a switch: bandwidth offered below over bandwidth towards the rest.
///
/// 1 if it is non-blocking; a tier with s > 1 has BW/s per port under full load.
#[must_use]
pub fn oversubscription(
    ports_down: u32,
    bandwidth_down: Bandwidth,
    ports_up: u32,
    bandwidth_up: Bandwidth,
) -> Ratio {
    let down = f64::from(ports_down) * bandwidth_down.0;
    Ratio(down / (f64::from(ports_up) * bandwidth_up.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 512 ranks in one to four dimensions (spiceMonkey/collective-comm 02 App. B).
    #[test]
    fn diameters_of_512_ranks() {
        let table: [(&[u32], u64, u64); 4] = [
            (&[512], 256, 511),
            (&[32, 16], 24, 46),
            (&[8, 8, 8], 12, 21),
            (&[8, 4, 4, 4], 10, 16),
        ];
        for (sides, torus, mesh) in table {
            assert_eq!(torus_diameter(sides), torus, "{sides:?}");
            assert_eq!(mesh_diameter(sides), mesh, "{sides:?}");
        }
    }

    #[test]
    fn cuts_and_degrees() {
        assert_eq!(bisection_links(&[8, 8, 8], true), 128);
        assert_eq!(bisection_links(&[8, 8, 8], false), 64);
        assert_eq!(bisection_links(&[2, 2], true), 2);
        assert_eq!(bisection_links(&[1], true), 0);
        assert_eq!(torus_degree(&[8, 2, 1]), 3);
    }

    #[test]
    fn fat_tree_of_48_ports() {
        assert_eq!(fat_tree_hosts(48), 27_648);
        assert_eq!(fat_tree_switches(48), 2_880);
    }

    #[test]
    fn a_leaf_with_half_the_uplinks_is_two_to_one() {
        let s = oversubscription(32, Bandwidth(50e9), 8, Bandwidth(100e9));
        assert_eq!(s, Ratio(2.0));
    }
}
