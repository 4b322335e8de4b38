//! Kinds `buckets` and `step`: many calls of one algorithm, and the calls of a decoding step.

use super::Batch;
use super::answer::{number, stated, terms_at};
use super::question::{Question, Value, needed};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Volume;
use crate::model::formula::Shape;
use crate::plan::Mode;

impl Batch {
    /// Kind `buckets`: a call carries as many whole tensors as fit under the cap; a tensor above
    /// the cap has its own call.
    pub(super) fn buckets(&mut self, q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let given =
            |value: &Option<Value<'_>>, name: &str| needed(value, name)?.at_least(name, 0.0);
        let tensors = f64::from(needed(&q.tensors, "tensors")?.whole("tensors", 1)?);
        let each = given(&q.tensor_bytes, "tensor_bytes")?;
        let cap = given(&q.bucket_cap_bytes, "bucket_cap_bytes")?;
        let whole = if each > 0.0 { (cap / each).floor() } else { tensors };
        let full = whole.clamp(1.0, tensors);
        let calls = (tensors / full).floor();
        let rest = tensors - calls * full;
        let collective = q.collective()?.unwrap_or(Collective::AllReduce);
        let named = self.find(collective, &q.algorithm()?)?;
        let phase = stated(named, &q.shape(collective)?)?;
        let time = |bytes: f64| -> Result<f64> {
            let (latency, bandwidth) = terms_at(&phase, q, Volume(bytes))?;
            Ok(latency + bandwidth)
        };
        let last = if rest > 0.0 { time(rest * each)? } else { 0.0 };
        number(out, "buckets", calls + f64::from(u8::from(rest > 0.0)))?;
        number(out, "time_s", calls * time(full * each)? + last)?;
        Ok(())
    }

    /// Kind `step`: a ring all-reduce per layer of TP, a ring all-gather per layer of SP, two
    /// pairwise all-to-alls per layer of experts, a hop from each stage to the next.
    pub(super) fn step(&mut self, q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        use Collective::{AllGather, AllReduce, AllToAll, SendRecv};
        let is_known = |mode: &str| matches!(mode.parse(), Ok(Mode::Decoding));
        if let Some(other) = q.mode.as_deref().filter(|mode| !is_known(mode)) {
            return Err(Error::input(format!("`{other}` is not a mode of a step"))
                .at(format!("\"mode\": \"{other}\""))
                .help("write decode; collcost plan prices training steps too"));
        }
        let whole = |value: &Option<Value<'_>>, name: &str, absent: u32, least: u32| {
            value.as_ref().map_or(Ok(absent), |v| v.whole(name, least))
        };
        let stages = whole(&q.pp, "pp", 1, 1)?;
        let parts = [
            (AllReduce, "ring", (&q.tp, "tp"), (&q.tp_bytes, "tp_bytes"), {
                whole(&q.tp_layers, "tp_layers", 0, 0)?
            }),
            (AllGather, "ring", (&q.sp, "sp"), (&q.sp_bytes, "sp_bytes"), {
                whole(&q.sp_layers, "sp_layers", 0, 0)?
            }),
            (AllToAll, "pairwise", (&q.ep, "ep"), (&q.ep_bytes, "ep_bytes"), {
                whole(&q.moe_layers, "moe_layers", 0, 0)?.saturating_mul(2)
            }),
        ];
        let mut sum = 0.0;
        for (collective, algorithm, (ranks, of), (bytes, named), calls) in parts {
            let ranks = whole(ranks, of, 1, 1)?;
            if ranks > 1 && calls > 0 {
                let size = needed(bytes, named)?.at_least(named, 0.0)?;
                sum += f64::from(calls) * self.call(q, (collective, algorithm, ranks), size)?;
            }
        }
        if stages > 1 {
            let size = needed(&q.pp_bytes, "pp_bytes")?.at_least("pp_bytes", 0.0)?;
            sum += f64::from(stages - 1) * self.call(q, (SendRecv, "p2p", 2), size)?;
        }
        number(out, "time_s", sum)?;
        Ok(())
    }

    fn call(
        &mut self,
        q: &Question<'_>,
        (collective, algorithm, ranks): (Collective, &str, u32),
        size: f64,
    ) -> Result<f64> {
        let named = self.find(collective, algorithm)?;
        let shape = Shape { ports: q.ports()?, ..Shape::new(collective, ranks) };
        let (latency, bandwidth) = terms_at(&stated(named, &shape)?, q, Volume(size))?;
        Ok(latency + bandwidth)
    }
}
