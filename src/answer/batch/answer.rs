//! One answer per kind.

use std::io::Write;

use super::Batch;
use super::question::{Question, needed, time};
use crate::answer::cost::Promise;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::order::rising;
use crate::base::quantity::{Ratio, Volume};
use crate::cost::crossover::Pipeline;
use crate::cost::price::refuse;
use crate::model::algorithm::{Named, coefficients};
use crate::model::formula::{At, Form, Phase, Ports, Shape, ceil_lg};

impl Batch {
    /// Kinds `cost` and `paper`: the price for the given ports, or the printed formula.
    pub(super) fn cost(
        &mut self,
        q: &Question<'_>,
        form: Option<Form>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let collective = q.collective()?.unwrap_or(Collective::AllReduce);
        let named = self.find(collective, &q.algorithm()?)?;
        let form = match form {
            _ if q.is_asymptotic() => Form::Asymptotic,
            Some(form) if named.form == Form::Exact => form,
            _ => named.form,
        };
        let shape = q.shape(collective)?;
        let phase = stated(Named { form, ..named }, &shape)?;
        let (latency, bandwidth) = terms(&phase, q)?;
        number(out, "time_s", latency + bandwidth)?;
        number(out, "latency_s", latency)?;
        number(out, "bandwidth_s", bandwidth)?;
        number(out, "n_alpha", phase.alpha + phase.switch)?;
        number(out, "n_beta", phase.beta)?;
        text(out, "guarantee", Promise::of(form, named.algorithm.guarantee(&shape).into()).name());
        Ok(())
    }

    /// Kind `select`: the fastest candidate; ties keep the order given.
    pub(super) fn select(&mut self, q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let collective = q.collective()?.unwrap_or(Collective::AllReduce);
        let shape = q.shape(collective)?;
        let mut times = Vec::new();
        for name in needed(&q.candidates, "candidates")?.split(',').map(str::trim) {
            let (latency, bandwidth) = terms(&stated(self.find(collective, name)?, &shape)?, q)?;
            times.push((latency + bandwidth, name));
        }
        // A stable sort keeps the order of equal times.
        rising(&mut times, |a| a.0);
        let names: Vec<&str> = times.iter().map(|&(_, name)| name).collect();
        let (least, winner) = times[0];
        text(out, "winner", winner);
        text(out, "order", &names.join(","));
        number(out, "time_s", least)?;
        Ok(())
    }

    /// Kind `crossover`: the size below which `a` and above which `b` wins.
    pub(super) fn crossover(&mut self, q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let (a, b) =
            (needed(&q.algorithm_a, "algorithm_a")?, needed(&q.algorithm_b, "algorithm_b")?);
        let collective = match q.collective()? {
            Some(collective) => collective,
            None => self.common(a, b)?,
        };
        let shape = q.shape(collective)?;
        let a = stated(self.find(collective, a)?, &shape)?;
        let b = stated(self.find(collective, b)?, &shape)?;
        let crossing = a.alpha < b.alpha && a.beta > b.beta;
        if !crossing {
            text(out, "size_bytes", "none");
            return Ok(());
        }
        let (a_latency, _) = terms_at(&a, q, Volume(0.0))?;
        let (b_latency, _) = terms_at(&b, q, Volume(0.0))?;
        let size = (b_latency - a_latency) * q.bandwidth()?.0 / (a.beta - b.beta);
        number(out, "size_bytes", size)?;
        Ok(())
    }

    /// The collective that two names have in common: all-reduce if it is one of them.
    fn common(&mut self, a: &str, b: &str) -> Result<Collective> {
        let both =
            Collective::ALL.iter().find(|&&c| self.find(c, a).is_ok() && self.find(c, b).is_ok());
        both.copied().ok_or_else(|| {
            Error::input(format!("`{a}` and `{b}` have no collective in common"))
                .help("name the `primitive` and two of its algorithms")
        })
    }

    /// Kind `bytes`: the bytes that the busiest rank sends, and the rounds on one full-duplex port.
    pub(super) fn bytes(&mut self, q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let collective = q.collective()?.unwrap_or(Collective::AllReduce);
        let named = self.find(collective, &q.algorithm()?)?;
        let shape = q.shape(collective)?.with_ports(Ports::ONE);
        applies(named, &shape)?;
        let sent = named.algorithm.sent(&At::numbers(shape));
        number(out, "max_sent", sent * q.size()?.0)?;
        number(out, "steps", coefficients(named.algorithm, shape).alpha)?;
        Ok(())
    }
}

pub(super) fn applies(named: Named, shape: &Shape) -> Result<()> {
    named.algorithm.applies(shape).map_err(|why| refuse(named.algorithm, &why))
}

/// The coefficients of the requested form.
pub(super) fn stated(named: Named, shape: &Shape) -> Result<Phase<f64>> {
    applies(named, shape)?;
    let cost = named.algorithm.price_form(&At::numbers(*shape), named.form).ok_or_else(|| {
        Error::unsupported(format!("`{}` has no such form", named.algorithm.meta().id))
    })?;
    Ok(cost.total())
}

/// Latency and bandwidth terms in seconds.
fn terms(phase: &Phase<f64>, q: &Question<'_>) -> Result<(f64, f64)> {
    terms_at(phase, q, q.size()?)
}

/// A parameter is needed only if a coefficient needs it.
pub(super) fn terms_at(phase: &Phase<f64>, q: &Question<'_>, size: Volume) -> Result<(f64, f64)> {
    let mut latency = 0.0;
    if phase.alpha != 0.0 {
        latency += phase.alpha * q.alpha()?.0;
    }
    if phase.switch != 0.0 {
        latency += phase.switch * q.alpha_switch()?.0;
    }
    let bandwidth = if phase.beta == 0.0 { 0.0 } else { phase.beta * (size / q.bandwidth()?).0 };
    Ok((latency, bandwidth))
}

/// Kind `pipeline`: the best number of segments of a pipeline of a given depth.
pub(super) fn pipeline(q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
    let depth = match &q.depth {
        Some(depth) => depth.whole("depth", 1)?,
        None => depth_of(needed(&q.algorithm, "algorithm")?, q.ranks()?)?,
    };
    let pipeline = Pipeline { depth, alpha: q.alpha()?, transfer: q.size()? / q.bandwidth()? };
    let best = pipeline.best();
    number(out, "pstar_real", pipeline.best_real().0)?;
    number(out, "pstar_int", f64::from(best))?;
    number(out, "time_at_int_s", pipeline.time(best).0)?;
    number(out, "time_at_real_s", pipeline.time_at_real().0)?;
    number(out, "correction_s", pipeline.correction().0)?;
    number(out, "asymptotic_s", pipeline.asymptotic().0)?;
    Ok(())
}

/// L of the pipelines that texts tabulate (spiceMonkey/collective-comm 01, C.3).
fn depth_of(name: &str, ranks: u32) -> Result<u32> {
    let plain = name.split('(').next().unwrap_or(name).trim();
    Ok(match plain {
        "chain" => ranks.saturating_sub(1),
        "binomial" | "circulant" => ceil_lg(ranks),
        "tree" | "dbt" | "double-binary-tree" => 2 * ceil_lg(ranks),
        _ => {
            return Err(Error::input(format!("the depth of `{name}` is not known"))
                .help("give `depth`, the slots that the first segment takes"));
        }
    }
    .max(1))
}

/// Kind `pipeline_table`: the slots of a pipeline, as coefficients.
pub(super) fn pipeline_table(q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
    let depth = q.depth.as_ref().map_or(Ok(1), |d| d.whole("depth", 1))?;
    let segments = q.segments()?;
    let slots = f64::from(depth) + f64::from(segments) - 1.0;
    number(out, "n_alpha", slots)?;
    number(out, "n_beta", slots / f64::from(segments))?;
    number(out, "slots", slots)?;
    Ok(())
}

/// Kind `crossover_approx`: α·BW·N/(⌈lg N⌉ − 1), a text's shortcut for tree against ring (K19).
pub(super) fn crossover_approx(q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
    let n = q.ranks()?;
    if n < 3 {
        text(out, "size_bytes", "none");
        return Ok(());
    }
    let size = q.alpha()?.0 * q.bandwidth()?.0 * f64::from(n) / f64::from(ceil_lg(n) - 1);
    number(out, "size_bytes", size)?;
    Ok(())
}

/// Kind `busbw`: from algbw with nccl-tests' factor.
pub(super) fn busbw(q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
    let collective = q.collective()?.unwrap_or(Collective::AllReduce);
    let algbw = super::question::rate(&q.algbw, "algbw_Bps")?;
    number(out, "busbw_Bps", (algbw * collective.busbw_factor(q.ranks()?)).0)?;
    Ok(())
}

/// Kind `threshold`: a text's table of sizes. It does not depend on N, so it is a preset, not a
/// model (K22).
pub(super) fn threshold(q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
    let preset = q.preset.as_deref().unwrap_or("seed-nccl");
    if preset != "seed-nccl" {
        return Err(Error::input(format!("`{preset}` is not a preset"))
            .help("the only preset is seed-nccl"));
    }
    let kilo = match q.unit.as_deref().unwrap_or("KB=1000") {
        "KB=1000" => 1000.0,
        "KB=1024" => 1024.0,
        other => {
            return Err(
                Error::input(format!("`{other}` is not a unit")).help("write KB=1000 or KB=1024")
            );
        }
    };
    let size = q.size()?.0;
    let choice = match size {
        s if s < 256.0 * kilo => "tree",
        s if s <= 4.0 * kilo * kilo => "hybrid",
        _ => "ring",
    };
    text(out, "choice", choice);
    Ok(())
}

/// Kind `eta`: η_α·n_α·α + n_β·M/(η_β·BW) (spiceMonkey/collective-comm 04).
pub(super) fn eta(q: &Question<'_>, out: &mut Vec<u8>) -> Result<()> {
    let given = |value: &Option<super::question::Value<'_>>, name, default| {
        value.as_ref().map_or(Ok(default), |v| v.number(name))
    };
    let eta_alpha = given(&q.eta_alpha, "eta_alpha", 1.0)?;
    let eta_beta = given(&q.eta_beta, "eta_beta", 1.0)?;
    if eta_alpha < 0.0 || eta_beta <= 0.0 {
        return Err(Error::input("`eta_alpha` must be 0 or more and `eta_beta` above 0"));
    }
    let n_alpha = time(&q.n_alpha, "n_alpha")?.0;
    let n_beta = time(&q.n_beta, "n_beta")?.0;
    let latency = q.alpha()? * Ratio(n_alpha * eta_alpha);
    let bandwidth = q.size()? / (q.bandwidth()? * Ratio(eta_beta)) * Ratio(n_beta);
    number(out, "time_s", (latency + bandwidth).0)?;
    Ok(())
}

/// `,"name":value`, in the fewest digits that parse back to the same value.
///
/// # Errors
/// A value that JSON cannot write.
pub(super) fn number(out: &mut Vec<u8>, name: &str, value: f64) -> Result<()> {
    if !value.is_finite() {
        return Err(Error::input(format!("`{name}` would not be a finite number"))
            .help("give times, rates and sizes above 0 that machines have"));
    }
    let _ = match value.abs() {
        whole if whole == whole.trunc() && whole < 1e15 => {
            write!(out, ",\"{name}\":{}", value as i64)
        }
        1e-3..1e15 => write!(out, ",\"{name}\":{value}"),
        _ => write!(out, ",\"{name}\":{value:e}"),
    };
    Ok(())
}

/// `,"name":"value"`.
pub(super) fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    let _ = write!(out, ",\"{name}\":");
    // A string always serialises.
    let _ = serde_json::to_writer(out, value);
}
