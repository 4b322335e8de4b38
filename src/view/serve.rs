//! A model being served.

use super::page::Page;
use super::{Look, counted};
use crate::answer::serve::{BandView, PhaseView, RequestsView, ServeView};
use crate::base::quantity::{Seconds, Volume};

/// Writes it.
pub fn serve(report: &ServeView, look: Look) -> Page {
    let mut page = Page::default();
    page.line(format!(
        "{}: serving on {} {} ({}), {}",
        look.strong(&report.name),
        report.gpus,
        report.device,
        report.machine,
        report.layout.join(", ")
    ));
    page.gap();
    let gb = |bytes: f64| format!("{:.1}", bytes / 1e9);
    let fits = match report.fits {
        true => {
            let sure = if report.least_bytes > report.cache_low_bytes { "at risk" } else { "fits" };
            format!(
                "{} of {} tokens: {sure}",
                counted(report.sequences, "sequence"),
                report.context
            )
        }
        false => format!(
            "does not fit: a sequence of {} tokens needs {} GB",
            report.least_tokens,
            gb(report.least_bytes)
        ),
    };
    let states = match report.state_bytes_per_sequence {
        0.0 => String::new(),
        bytes => format!(" and states of {} per sequence", Volume(bytes)),
    };
    page.entry(
        "memory   ",
        format!(
            "weights {} of {} GB, {} beside, {} for caches (8 of 10: {} to {}): {} per token{states}, {:.0} tokens per group; \
             {fits}",
            gb(report.weights_bytes),
            gb(report.capacity_bytes),
            gb(report.beside_bytes),
            gb(report.cache_bytes),
            gb(report.cache_low_bytes),
            gb(report.cache_high_bytes),
            Volume(report.cache_bytes_per_token),
            report.cache_tokens
        ),
    );
    let phase = |p: &PhaseView| {
        let by: Vec<&str> = p.allreduce.as_deref().into_iter().chain(p.experts).collect();
        let by = if by.is_empty() { String::new() } else { format!(", by {}", by.join(" and ")) };
        let unmeasured = p.unmeasured.map_or(String::new(), |kernels| {
            format!("; nobody measured {kernels} on such ranks: its bytes over the links")
        });
        format!(
            "{} expected{}: memory and kernels {}, between kernels {}, collectives {}{}{by}{unmeasured}",
            Seconds(p.time_s),
            band(p.low_s, p.high_s),
            Seconds(p.busy_s),
            Seconds(p.between_s),
            Seconds(p.messages_s),
            band(p.messages_low_s, p.messages_high_s)
        )
    };
    if let Some(decode) = &report.decode {
        let sequences = counted(report.sequences, "sequence");
        let text = format!("one token for {sequences} {}", phase(decode));
        page.entry("decode   ", text);
    }
    if let Some(prefill) = &report.prefill {
        page.entry("prefill  ", format!("{} tokens {}", report.prefill_tokens, phase(prefill)));
    }
    if let Some(seen) = &report.traffic {
        page.entry("traffic  ", traffic(seen, report.gpus));
    }
    let handing = report.handoff_s.map_or(String::new(), |s| {
        format!(", {} expected to another node if all GPUs of the node send", Seconds(s))
    });
    let handoff = Volume(report.handoff_bytes);
    page.entry("hand-off ", format!("{handoff} of cache per sequence{handing}"));
    page.entry("basis    ", &report.basis);
    page.entries("inferred ", &report.inferred);
    page.record(
        report,
        "",
        &[
            "name",
            "gpus",
            "weights_bytes",
            "cache_tokens",
            "decode.time_s",
            "decode.low_s",
            "decode.high_s",
            "prefill.time_s",
            "prefill.low_s",
            "prefill.high_s",
            "traffic.first.time_s",
            "traffic.first.low_s",
            "traffic.first.high_s",
            "traffic.between.time_s",
            "traffic.between.low_s",
            "traffic.between.high_s",
            "traffic.tokens_per_s",
            "fits",
        ],
    );
    page
}

/// What requests see, by the words of benchmarks of servers.
fn traffic(seen: &RequestsView, gpus: u32) -> String {
    let time = |name: &str, band: &BandView| {
        format!("{name} {} expected{}", Seconds(band.time_s), self::band(band.low_s, band.high_s))
    };
    let of = if seen.between.is_some() { "tokens/s" } else { "tokens of prompts/s" };
    let times = [("TTFT", &seen.first), ("TPOT", &seen.between)];
    let times = times.iter().filter_map(|(name, band)| Some(time(name, band.as_ref()?)));
    format!(
        "{} tokens in, {} out: {}, {:.0} {of} (8 of 10: {:.0} to {:.0}), {:.0} per GPU",
        seen.input,
        seen.output,
        times.collect::<Vec<_>>().join(", "),
        seen.tokens_per_s,
        seen.tokens_per_s_low,
        seen.tokens_per_s_high,
        seen.tokens_per_s / f64::from(gpus)
    )
}

/// Ends that differ.
fn band(low: f64, high: f64) -> String {
    match high > 1.005 * low {
        true => format!(" (8 of 10: {} to {})", Seconds(low), Seconds(high)),
        false => String::new(),
    }
}
