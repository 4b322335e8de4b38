//! Merges the two levels as which some Broadcom switches appear into one.
//!
//! Source: NVIDIA/nccl, `src/graph/topo.cc`.

use super::rules::broadcom;
use super::system::{Kind, System, What};
use crate::library::nccl::since;

/// Every such switch takes over the devices of its neighbors of the same make.
pub(super) fn broadcom_switches(system: &mut System) {
    let mut at = 0;
    while let Some(&switch) = system.of(Kind::Pci).get(at) {
        let number = number(system, switch);
        let Some(generation) = broadcom(system.version, number, false) else {
            at += 1;
            continue;
        };
        let exact = !system.version.has(since::BROADCOM_MAKE);
        let mut swallowed: Vec<usize> = Vec::new();
        for link in &system.nodes[switch].links {
            if system.nodes[link.to].kind != Kind::Pci || swallowed.contains(&link.to) {
                continue;
            }
            let other = self::number(system, link.to);
            let same = if exact {
                other == number
            } else {
                broadcom(system.version, other, true) == Some(generation)
            };
            if same {
                swallowed.push(link.to);
            }
        }
        system.nodes[switch].links.retain(|link| !swallowed.contains(&link.to));
        for gone in swallowed {
            take_over(system, switch, gone);
        }
        // It must not be found again.
        system.nodes[switch].what =
            What::Pci(if exact { 0x1000_c010_1000_0000 } else { number | 0xffff });
        // Older versions check again from the second switch on.
        at = usize::from(!system.version.has(since::BROADCOM_FROM_FIRST));
    }
}

fn number(system: &System, switch: usize) -> u64 {
    match system.nodes[switch].what {
        What::Pci(number) => number,
        _ => 0,
    }
}

/// Links keep their rates and are added at the end, in order.
fn take_over(system: &mut System, switch: usize, gone: usize) {
    for link in system.nodes[gone].links.clone() {
        if link.to == switch {
            continue;
        }
        system.nodes[switch].links.push(link);
        let back = system.nodes[link.to].links.iter_mut().find(|back| back.to == gone);
        if let Some(back) = back {
            back.to = switch;
        }
    }
    system.remove(gone);
}
