//! Kind `expect`: what a call will take on a named machine, as every other verb says it.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::str::FromStr;

use super::Batch;
use super::question::{Question, Value, missing};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Seconds, SecondsPerByte};
use crate::machine::fabric::Order;
use crate::machine::profile::{DEFAULT, Profile};
use crate::machine::query::{Given, Layout, Machine, Query};
use crate::measure::expect::{Expect, Expecting};
use crate::model::formula::{Params, Protocol};

impl Batch {
    /// Kind `expect`.
    pub(super) fn expect(&mut self, q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let collective = q.collective()?.ok_or_else(|| missing("collective"))?;
        let name = q.profile.as_deref().unwrap_or(DEFAULT);
        let profile = self.profile(name)?;
        let machine = Machine::on(&profile, "profile", &given(q)?, collective)?;
        let count = |value: &Option<Value<'_>>, name: &str| {
            value
                .as_ref()
                .map(|v| v.whole(name, 1))
                .transpose()
                .map(|n| n.and_then(NonZeroU32::new))
        };
        let layout = Layout {
            ranks: count(&q.n, "n")?,
            nodes: count(&q.nodes, "nodes")?,
            per_node: count(&q.gpus_per_node, "gpus_per_node")?,
        };
        let size = match collective {
            Collective::Barrier => Bytes(0),
            _ => Bytes(q.size()?.0.round() as u64),
        };
        let mut query = Query::new(machine, collective, size, layout, Params::default())?;
        query.seen = seen(q.seen.as_deref())?;
        let expecting = Expecting::of(&self.registry, &query, q.algorithm.as_deref())?;
        let expect = Expect::new(&expecting, size);
        out.extend_from_slice(b",\"expect\":");
        serde_json::to_writer(out, &expect)
            .map_err(|e| Error::environment(format!("an expectation cannot be written: {e}")))
    }

    /// A machine by its name; many questions share one.
    fn profile(&mut self, name: &str) -> Result<Rc<Profile>> {
        if let Some(known) = self.profiles.get(name) {
            return Ok(Rc::clone(known));
        }
        let found = Rc::new((self.find_profile)(name)?);
        self.profiles.insert(name.into(), Rc::clone(&found));
        Ok(found)
    }
}

/// `1MiB=88us`.
fn seen(text: Option<&str>) -> Result<Vec<(Bytes, Seconds)>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let place = |e: Error| e.at(format!("\"seen\": \"{text}\""));
    let (size, time) = text
        .split_once('=')
        .ok_or_else(|| place(Error::input("no size with its time").mend("write 1MiB=88us")))?;
    Ok(vec![(size.trim().parse().map_err(place)?, time.trim().parse().map_err(place)?)])
}

/// What the flags of a machine know, under the names of a project's file.
fn given(q: &Question<'_>) -> Result<Given> {
    let nics = q.nics.as_ref().map(|v| v.whole("nics", 1)).transpose()?;
    Ok(Given {
        alpha: read::<Seconds>(&q.alpha, "alpha")?,
        bandwidth: read::<Bandwidth>(&q.bw, "bw")?,
        alpha_inter: read::<Seconds>(&q.alpha_inter, "alpha_inter")?,
        bandwidth_inter: read::<Bandwidth>(&q.bw_inter_text, "bw_inter")?,
        gamma: read::<SecondsPerByte>(&q.gamma, "gamma")?,
        alpha_switch: read::<Seconds>(&q.alpha_switch, "alpha_switch")?,
        launch: read::<Seconds>(&q.launch, "launch")?,
        nics: nics.and_then(NonZeroU32::new),
        order: read::<Order>(&q.placement, "placement")?.unwrap_or_default(),
        protocol: read::<Protocol>(&q.protocol, "protocol")?.unwrap_or_default(),
        ports: if q.ports.is_some() { Some(q.ports()?) } else { None },
        ..Given::default()
    })
}

/// A quantity with its unit, as in `"5us"`.
fn read<T: FromStr<Err = Error>>(
    field: &Option<std::borrow::Cow<'_, str>>,
    name: &str,
) -> Result<Option<T>> {
    let one = |text: &str| text.parse::<T>().map_err(|e| e.at(format!("\"{name}\": \"{text}\"")));
    field.as_deref().map(one).transpose()
}
