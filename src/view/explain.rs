//! Explanations as pages.

use super::page::Page;
use super::{counted, giga};
use crate::answer::explain::{
    AlgorithmRow, AlgorithmView, Block, CollectiveView, Explanation, Pipeline, StepView, Subject,
    TopicView,
};
use crate::answer::notes::Contradiction;
use crate::answer::{MachineView, Promise, QuestionView};
use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume, percent, without_zeros};
use crate::machine::placement::laid;
use crate::model::algorithm::Library;

/// An explanation.
#[must_use]
pub fn explanation(report: &Explanation) -> Page {
    let blocks = match &report.subject {
        Subject::Algorithm(view) => algorithm(view),
        Subject::Collective(view) => collective(view),
        Subject::Topic(view) => topic(view),
    };
    blocks.into()
}

fn heading(text: &str) -> Block {
    Block::Heading(text.to_owned())
}

fn topic(view: &TopicView) -> Vec<Block> {
    let plain = view.id.starts_with('K');
    let title = if plain { format!("{}: {}", view.id, view.title) } else { view.title.clone() };
    let mut blocks = vec![Block::Heading(title)];
    blocks.extend(view.blocks.iter().cloned());
    if !view.next.is_empty() {
        blocks.push(heading("Next"));
        blocks.push(Block::Lines(view.next.iter().map(|&n| n.to_owned()).collect()));
    }
    blocks
}

fn micro(seconds: f64) -> String {
    format!("{:.2}", seconds * 1e6)
}

/// A coefficient with as many decimals as it needs, at most four.
fn short(value: f64) -> String {
    without_zeros(&format!("{value:.4}")).to_owned()
}

/// `all-reduce of 16 MiB on each of 64 ranks = 8 nodes x 8, machine dgx-h100 (default)`.
fn asked(question: &QuestionView, machine: &MachineView, sized: bool) -> String {
    let layout = laid(question.ranks, question.nodes, question.ranks_per_node);
    let collective = question.collective;
    let name = collective.name();
    let size = if sized && collective != Collective::Barrier {
        format!(" of {}", Bytes(question.size_bytes))
    } else {
        String::new()
    };
    let means = collective.size_means();
    let means = if sized { means } else { "over" };
    let ranks = counted(question.ranks, "rank");
    let chosen = match machine.chosen {
        "flags" => String::new(),
        chosen => format!(" ({chosen})"),
    };
    format!("{name}{size} {means} {ranks}{layout}, machine {}{chosen}", machine.name)
}

/// The rates of a machine: raw, one way, both ways, reached.
fn links(machine: &MachineView, nodes: u32) -> Block {
    let used = if nodes > 1 { machine.tiers.len() } else { 1 };
    let how = |how: Option<crate::machine::profile::How>| {
        how.map_or("given".to_owned(), |h| h.to_string())
    };
    let rows = machine.tiers.iter().take(used).map(|tier| {
        let alpha = match tier.alpha_s {
            Some(alpha) => format!("{} {}", Seconds(alpha), how(tier.alpha_how)),
            None => "unknown".to_owned(),
        };
        let rate = tier.bandwidth.map_or("unknown".to_owned(), |b| Bandwidth(b).to_string());
        let note = match (tier.raw_bandwidth, tier.efficiency) {
            (Some(raw), Some(part)) => format!(
                "{} one way, {} both ways together, {} x {part:.2} reached, {}",
                Bandwidth(raw),
                Bandwidth(2.0 * raw),
                how(tier.bandwidth_how),
                how(tier.efficiency_how),
            ),
            _ => format!("one way, {}", how(tier.bandwidth_how)),
        };
        let nics = tier.nics.map_or(String::new(), |n| format!("; {n} per node"));
        vec![tier.name.clone(), alpha, rate, note + &nics]
    });
    Block::table(&["links", "α", "BW", "of it"], rows)
}

fn algorithm(view: &AlgorithmView) -> Vec<Block> {
    let sized = view.question.collective != Collective::Barrier;
    let mut blocks = vec![
        Block::Heading(format!("{}: {}", view.title, view.summary)),
        Block::Text(asked(&view.question, &view.machine, true)),
        links(&view.machine, view.question.nodes),
        heading(match view.form {
            "paper" => "Formula, as printed",
            "asymptotic" => "Formula, the limit for large M",
            _ => "Formula",
        }),
        Block::Formula {
            text: format!("T = {}", view.formula),
            latex: format!("T = {}", view.formula_latex),
        },
        Block::Lines(vec![format!("  = {}", view.numbers)]),
    ];
    if !view.functions.is_empty() {
        blocks.push(Block::Text(format!("{}.", view.functions.join("; "))));
    }
    if let Some(p) = &view.pipeline {
        blocks.push(Block::Text(format!("P = {} segments.", p.segments)));
    }
    blocks.push(heading("Steps"));
    blocks.push(steps(view));
    blocks.push(heading("Term by term"));
    blocks.push(terms(view));
    blocks.push(Block::Text(verdict(view, sized)));
    if let Some(pipeline) = &view.pipeline {
        blocks.extend(segments(pipeline));
    }
    blocks.extend(ports(view));
    blocks.extend(bounds(view, sized));
    blocks.extend(forms(view));
    blocks.extend(differences(&view.contradictions));
    blocks.push(heading("Names and source"));
    blocks.push(names(view));
    if !view.notes.is_empty() {
        blocks.push(Block::Text(format!("Note: {}.", view.notes.join("; "))));
    }
    blocks
}

fn steps(view: &AlgorithmView) -> Block {
    let words = |s: &StepView| {
        let plural = if s.count == 1 { "message" } else { "messages" };
        let adds = match s.added {
            0.0 => String::new(),
            1.0 => ", added".to_owned(),
            part => format!(", {} of it added", short(part)),
        };
        let load = match s.load {
            l if (l - 1.0).abs() < 1e-12 => String::new(),
            l => format!(", x {} on its busiest port", short(l)),
        };
        vec![
            s.count.to_string(),
            format!("{plural} of {}", s.share),
            Volume(s.message_bytes).as_meant(),
            format!("{}{adds}{load}", s.over),
            micro(s.latency_s + s.bandwidth_s),
        ]
    };
    let mut rows: Vec<Vec<String>> = view.steps.iter().map(words).collect();
    if view.steps_left_out > 0 {
        rows.push(vec![
            "…".to_owned(),
            format!("{} more groups", view.steps_left_out),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    Block::table(&["", "one after another", "each", "over", "µs"], rows)
}

fn terms(view: &AlgorithmView) -> Block {
    let mut rows: Vec<Vec<String>> = view
        .terms
        .iter()
        .map(|t| {
            let over = t.over.clone().unwrap_or_default();
            vec![t.term.to_owned(), over, t.numbers.clone(), micro(t.time_s), percent(t.share)]
        })
        .collect();
    let blank = String::new;
    rows.push(vec!["ideal time".to_owned(), blank(), blank(), micro(view.time_s), blank()]);
    Block::table(&["term", "over", "", "µs", "share"], rows)
}

fn verdict(view: &AlgorithmView, sized: bool) -> String {
    let mut text = String::new();
    if let Some(dominant) = view.dominant {
        text.push_str(&format!(
            "{}-bound: {dominant} is {} of it.",
            capital(dominant),
            percent(view.dominant_share)
        ));
    }
    if let Some(links) = &view.binds {
        text.push_str(&format!(" The links that bind are {links}, {}.", percent(view.binds_share)));
    }
    if let (Some(half), true) = (view.half_bytes, sized) {
        text.push_str(&format!(
            " Latency and bandwidth cost the same at {} (n½), where half of the rate is reached.",
            Volume(half)
        ));
    }
    text
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or(String::new(), |c| c.to_uppercase().collect::<String>() + letters.as_str())
}

fn segments(pipeline: &Pipeline) -> Vec<Block> {
    let rows = pipeline.rows.iter().map(|row| {
        vec![
            row.segments.to_string(),
            short(row.slots),
            short(row.n_beta),
            micro(row.latency_s),
            micro(row.bandwidth_s),
            micro(row.time_s),
            if row.segments == pipeline.segments { "taken".to_owned() } else { String::new() },
        ]
    });
    vec![
        heading("Segments"),
        Block::table(&["P", "slots", "n_β", "latency µs", "bandwidth µs", "total µs", ""], rows),
        Block::Text(format!(
            "P* = {:.2}; there T = {}. Of this, the √ term, the cost of filling the pipeline, is \
             {}. More segments cost latency; fewer leave links idle.",
            pipeline.best_real,
            Seconds(pipeline.time_at_real_s),
            Seconds(pipeline.correction_s),
        )),
    ]
}

fn ports(view: &AlgorithmView) -> Vec<Block> {
    let ports = &view.ports;
    let guarantee = match ports.guarantee {
        Promise::Equal => "Under these ports the schedule takes exactly this time.",
        Promise::EqualInRounds => {
            "Under these ports the schedule takes exactly this time with a barrier after every round."
        }
        Promise::UpperBound => "Under these ports the schedule takes at most this time.",
        Promise::Pipelined => {
            "The schedule takes this time, except that its first segments wait for each other."
        }
        Promise::Asymptotic => {
            "The formula is the time in the limit of large vectors in many segments. The schedule sends one, and \
             links wait."
        }
        Promise::SumOfSteps | Promise::AsPrinted => {
            "This is the sum of the steps. The schedule may take less or more, as collcost simulate \
             shows: here links are of several kinds, messages share a port's rate, or additions overlap \
             with messages."
        }
    };
    let fits = if ports.fits { "it fits" } else { "steps wait for a port" };
    let budgets = ports.budgets.iter().map(|b| {
        let range = if b.least == b.most {
            b.least.to_string()
        } else {
            format!("{}–{}", b.least, b.most)
        };
        format!("{} ({range}) {}", b.fabric, b.fits)
    });
    vec![
        heading("Ports"),
        Block::Text(format!(
            "A rank has {}; partners at once so that no step waits: {}; {fits}. {guarantee}",
            ports.have, ports.needed,
        )),
        Block::Text(match ports.budgets.is_empty() {
            true => "It needs a switch that adds or multicasts, whatever the ports.".to_owned(),
            false => format!("On fabrics: {}.", budgets.collect::<Vec<_>>().join(", ")),
        }),
    ]
}

fn bounds(view: &AlgorithmView, sized: bool) -> Vec<Block> {
    let b = &view.bound;
    let least = match (b.share, b.switch_adds) {
        (0.0, _) => String::new(),
        (share, false) => {
            format!(", or moves less than {} M through the busiest rank", short(share))
        }
        (share, true) => format!(
            ", or moves less than {} M through the busiest rank, since a switch adds",
            short(share)
        ),
    };
    let launch = match view.machine.launch_s {
        0.0 => String::new(),
        launch => format!("with the launch of {}, ", Seconds(launch)),
    };
    let time = match b.time_s {
        Some(time) => format!("{launch}{} at least", Seconds(time)),
        None => "in what time is not known, since a parameter of these links is unknown".to_owned(),
    };
    let switched = if b.switch_adds { ", or one through the switch" } else { "" };
    let mut text = format!(
        "Through these ports no algorithm takes fewer than {} messages between ranks one after \
         another{switched}{least}: {time}.",
        b.messages,
    );
    if let Some(ratio) = b.ratio {
        text.push_str(&format!(" This one takes {:.2} times that.", Ratio(ratio)));
    }
    let mut blocks = vec![heading("Bound and rates"), Block::Text(text)];
    if sized && view.time_s > 0.0 {
        let r = &view.rates;
        blocks.push(Block::table(
            &["rate", "GB/s", "what"],
            [
                ["algbw", &giga(r.algbw, 2), "M over the time"].map(str::to_owned).to_vec(),
                vec![
                    "busbw".to_owned(),
                    giga(r.busbw, 2),
                    format!("algbw x {}, by the collective", short(r.busbw_factor)),
                ],
                vec![
                    "sent".to_owned(),
                    giga(r.sent, 2),
                    format!("the busiest rank actually sends {} M", short(r.sent_share)),
                ],
            ],
        ));
    }
    blocks
}

/// What texts print, compared with what holds, if they differ.
fn forms(view: &AlgorithmView) -> Vec<Block> {
    if view.forms.len() < 2 {
        return Vec::new();
    }
    let exact = view.forms.first().and_then(|f| f.time_s);
    let mut blocks = vec![heading("Textbook and exact")];
    let rows = view.forms.iter().map(|form| {
        let name = match form.form {
            "paper" => "as printed",
            "asymptotic" => "limit for large M",
            _ => "exact",
        };
        let against = match (form.time_s, exact) {
            (Some(time), Some(exact)) if exact > 0.0 => format!("{:.3}", time / exact),
            _ => "–".to_owned(),
        };
        vec![
            name.to_owned(),
            short(form.n_alpha),
            short(form.n_beta),
            form.time_s.map_or("–".to_owned(), micro),
            against,
        ]
    });
    blocks.push(Block::table(&["form", "n_α", "n_β", "µs", "x exact"], rows));
    for form in &view.forms[1..] {
        blocks.push(Block::Formula {
            text: format!(
                "{}: {}",
                if form.form == "paper" { "printed" } else { "limit" },
                form.formula
            ),
            latex: form.formula_latex.clone(),
        });
    }
    blocks
}

fn differences(notes: &[&Contradiction]) -> Vec<Block> {
    if notes.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![heading("Where texts differ, and why")];
    let rows = notes.iter().flat_map(|note| {
        let title = format!("{} ({})", note.title, note.cited());
        [
            vec![note.id.to_owned(), title],
            vec![String::new(), format!("Printed: {}", note.printed)],
            vec![String::new(), format!("Holds: {}", note.holds)],
        ]
    });
    blocks.push(Block::table(&["", ""], rows));
    blocks
}

fn names(view: &AlgorithmView) -> Block {
    let or = |text: String, none: &str| if text.is_empty() { none.to_owned() } else { text };
    let rows = [
        vec!["id".to_owned(), view.id.to_owned()],
        vec!["also".to_owned(), or(view.aliases.join(", "), "–")],
        vec!["shipped as".to_owned(), or(view.ships.join(", "), "no library known here")],
        vec!["source".to_owned(), view.source.to_owned()],
    ];
    Block::table(&["", ""], rows)
}

fn collective(view: &CollectiveView) -> Vec<Block> {
    let rows = [
        ["rank i before", view.state.before],
        ["rank i after", view.state.after],
        ["M is", view.size_means],
        ["used by", view.used_by],
    ];
    let mut rows: Vec<Vec<String>> = rows.iter().map(|r| r.map(str::to_owned).to_vec()).collect();
    let n = view.question.ranks;
    let factor =
        format!("algbw x {} = {} at {n} ranks", view.busbw_factor, short(view.busbw_factor_here));
    rows.push(vec!["busbw".to_owned(), factor]);
    let least = format!(
        "{} messages one after another; the busiest rank sends {} M{}",
        view.least_messages,
        short(view.least_share),
        if view.switch_adds { ", since a switch adds" } else { "" }
    );
    rows.push(vec!["at least".to_owned(), least]);
    if !view.aliases.is_empty() {
        rows.push(vec!["also".to_owned(), view.aliases.join(", ")]);
    }
    let mut blocks = vec![
        Block::Heading(format!("{}: {}", view.name, view.state.what)),
        Block::table(&["", ""], rows),
    ];
    if !view.identities.is_empty() {
        blocks.push(Block::Lines(view.identities.iter().map(|&i| i.to_owned()).collect()));
    }
    let (applies, refused): (Vec<&AlgorithmRow>, Vec<&AlgorithmRow>) =
        view.algorithms.iter().partition(|r| r.applies);
    blocks.push(heading("Cost of its algorithms"));
    blocks.push(Block::table(&["algorithm", "latency term", "bandwidth term"], alike(&applies)));
    blocks.push(heading("Against the least"));
    blocks.push(Block::Text(asked(&view.question, &view.machine, view.sized)));
    blocks.push(links(&view.machine, view.question.nodes));
    blocks.push(against(view, &applies));
    blocks.push(Block::Text(
        "x α and x M: messages and bytes over the least possible; `least` is optimal. Pipelined \
         algorithms (P) show bytes for many segments. N: the numbers of ranks, or nodes, at which \
         it runs. * has the ports it needs."
            .to_owned(),
    ));
    for remark in &view.remarks {
        blocks.push(Block::Text(remark.trim().to_owned()));
    }
    if !refused.is_empty() {
        blocks.push(heading("Do not apply here"));
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in refused {
            let reason = row.reason.clone().unwrap_or_default();
            match rows.iter_mut().find(|r| r[0] == reason) {
                Some(same) => same[1] = format!("{}, {}", same[1], row.id),
                None => rows.push(vec![reason, row.id.to_owned()]),
            }
        }
        blocks.push(Block::table(&["because", "algorithms"], rows));
    }
    if !view.contradictions.is_empty() {
        blocks.push(heading("Where texts print something else"));
        let rows = view
            .contradictions
            .iter()
            .map(|n| vec![n.id.to_owned(), n.title.to_owned(), n.cited()]);
        blocks.push(Block::table(&["", "", ""], rows));
    }
    blocks.push(heading("Next"));
    let first = applies.first().map_or("ring", |r| r.id);
    let example = applies.iter().find(|r| !r.ships.is_empty()).map_or(first, |r| r.id);
    let size = if view.question.collective == Collective::Barrier { "" } else { " 16MiB" };
    blocks.push(Block::Lines(vec![
        format!("collcost explain {} {example}", view.id),
        format!("collcost {}{size}", view.id),
        "collcost explain collectives".to_owned(),
    ]));
    blocks
}

/// The algorithms by their terms: those of equal cost share a row.
fn alike(rows: &[&AlgorithmRow]) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let same = |f: &&mut Vec<String>| f[1] == row.latency && f[2] == row.bandwidth;
        match found.iter_mut().find(same) {
            Some(first) => {
                first[0].push_str(", ");
                first[0].push_str(row.id);
            }
            None => found.push(vec![row.id.to_owned(), row.latency.clone(), row.bandwidth.clone()]),
        }
    }
    found
}

/// `nccl openmpi` of `nccl:Ring`, `openmpi:4 ring`. RCCL follows NCCL: it is named where it has what NCCL has not.
fn libraries(ships: &[String]) -> String {
    let names: Vec<&str> = ships.iter().map(|s| s.split(':').next().unwrap_or(s)).collect();
    let follows = names.contains(&Library::Nccl.id()).then(|| Library::Rccl.id());
    let names = names.into_iter().filter(|name| Some(*name) != follows);
    names.collect::<Vec<_>>().join(" ")
}

fn against(view: &CollectiveView, rows: &[&AlgorithmRow]) -> Block {
    let nics = view.question.nodes > 1 && view.algorithms.iter().any(|a| a.nic_bytes > Some(0.0));
    let mut header = vec!["algorithm", "steps", "x α", "x M", "ports", "N"];
    if view.sized {
        header.push("µs");
    }
    if nics {
        header.push("NIC MiB");
    }
    header.push("shipped by");
    let ratio = |r: Option<f64>| match r {
        Some(r) if r < 1.0 + 1e-9 => "least".to_owned(),
        Some(r) => format!("{r:.2}"),
        None => "–".to_owned(),
    };
    let cells = rows.iter().map(|r| {
        let mut cells = vec![
            format!("{}{}", r.id, if r.pipelined { " (P)" } else { "" }),
            r.n_alpha.map_or("–".to_owned(), short),
            ratio(r.latency_ratio),
            ratio(r.bandwidth_ratio),
            format!("{}{}", r.ports_needed, if r.fits { "*" } else { "" }),
            r.ranks.to_owned(),
        ];
        if view.sized {
            cells.push(r.time_s.map_or("–".to_owned(), |t| format!("{:.1}", t * 1e6)));
        }
        if nics {
            cells.push(r.nic_bytes.map_or("–".to_owned(), |b| format!("{:.1}", b / 1_048_576.0)));
        }
        cells.push(libraries(&r.ships));
        cells
    });
    Block::table(&header, cells)
}
