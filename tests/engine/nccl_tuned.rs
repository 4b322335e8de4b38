//! NCCL on AWS's P5 and P6 against what the tuner's own code answered: aws/aws-ofi-nccl at 2daf7d30,
//! `src/tuner/nccl_ofi_regions.cpp`, compiled and asked. `none/` leaves the call to NCCL.

use std::num::NonZeroU32;

use collcost::base::quantity::Bytes;
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::measure::expect::{Expecting, Rules};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Params;

#[test]
fn aws_machines_run_what_their_tuner_says() {
    let registry = Registry::builtin();
    let table = include_str!("../data/aws_tuner.csv");
    let mut asked = 0;
    for line in table.lines().skip(1) {
        let [tuner, per_node, nodes, collective, bytes, choice] =
            line.split(',').collect::<Vec<_>>().try_into().unwrap();
        let machine = format!("{}.48xlarge", tuner.strip_prefix("aws-").unwrap());
        let [per_node, nodes]: [u32; 2] = [per_node, nodes].map(|n| n.parse().unwrap());
        let collective = collective.parse().unwrap();
        let profile = Profile::builtin(&machine).unwrap();
        let machine = Machine::on(&profile, "--on", &Given::default(), collective).unwrap();
        let layout = Layout {
            ranks: NonZeroU32::new(per_node * nodes),
            nodes: NonZeroU32::new(nodes),
            per_node: None,
        };
        let size = Bytes(bytes.parse().unwrap());
        let query = Query::new(machine, collective, size, layout, Params::default()).unwrap();
        let runs = Expecting::new(&registry, &query).unwrap().runs(size);
        let told = if runs.rules == Rules::Tuner { runs.name() } else { "none/".to_owned() };
        assert_eq!(told, choice, "{line}");
        asked += 1;
    }
    assert!(asked > 400);
}
