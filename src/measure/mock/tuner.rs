//! NCCL's own table without a protocol: how much longer its tuner expects a call to take without it.

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio};
use crate::library::nccl::{
    Call, Chooser, Function, Place, Proto, Reduction, Settings, Table, Version,
};
use crate::machine::query::Query;

/// The tuner with all protocols, and without some.
pub(super) struct Tuner {
    function: Function,
    all: Chooser,
    without: Chooser,
}

impl Tuner {
    /// The tuner of the newest known NCCL on the machine, with and without the protocols `off`.
    ///
    /// # Errors
    /// The machine's graphs are unknown, or the tuner does not tune the collective.
    pub(super) fn new(query: &Query, off: &[Proto]) -> Result<Self> {
        let names: Vec<&str> = off.iter().map(|proto| proto.name()).collect();
        let place = || format!("--fault protocol-off={}", names.join(" "));
        let function = Function::of(query.shape.collective).ok_or_else(|| {
            let what = format!("NCCL's tuner does not tune {}", query.shape.collective);
            Error::input(what).at(place()).help("omit the fault: protocols do not change it")
        })?;
        let machine = query.machine.nccl_graphs.as_deref().ok_or_else(|| {
            Error::input(format!("NCCL's graphs on {} are unknown", query.machine.name))
                .at(place())
                .help("name an unchanged profile with `nccl_graphs`, such as dgx-h100")
        })?;
        let nodes = query.placement.nodes();
        let per_node = query.shape.ranks / nodes;
        let comm = Place { machine, per_node, nodes, search: None }
            .communicator()
            .map_err(|e| e.at(place()))?;
        let chooser = |settings: &Settings| {
            let table = Table::new(&comm, Version::NEWEST, settings)?;
            Ok::<_, Error>(Chooser::new(&comm, Version::NEWEST, &table, Reduction::default()))
        };
        let mut settings = Settings::default();
        settings.set("NCCL_PROTO", &format!("^{}", names.join(",")))?;
        Ok(Self { function, all: chooser(&Settings::default())?, without: chooser(&settings)? })
    }

    /// The tuner's estimate without the protocols, divided by that with all of them.
    pub(super) fn factor(&self, size: Bytes) -> Ratio {
        let call = Call { function: self.function, size, pipelined: 1 };
        let time = |chooser: &Chooser| chooser.decide(&call).and_then(|d| d.time);
        match (time(&self.all), time(&self.without)) {
            (Some(all), Some(without)) if all.0 > 0.0 && without.0.is_finite() => {
                Ratio(f64::from(without.0) / f64::from(all.0))
            }
            _ => Ratio(1.0),
        }
    }
}
