//! One algorithm: what it does, its formula with and without numbers, term by term.

use serde::Serialize;

use super::{Explanation, Subject};
use crate::answer::cost::{
    MachineView, Promise, QuestionView, machine, question, ships, with_launch,
};
use crate::answer::notes::{self, Contradiction};
use crate::answer::{assumed, without_gamma};
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte, Volume};
use crate::cost::bound::{bound, least_messages_on, least_share, switch_adds};
use crate::cost::price::{InTurn, Prepared, Price, busy, step_load};
use crate::machine::fabric::Fabric;
use crate::machine::presets::PORT_BUDGETS;
use crate::machine::query::Query;
use crate::model::algorithm::{Algorithm, Named, Registry, Route, Step};
use crate::model::formula::{At, Cost, Expr, Form, Level, Notation, Phase, Shape, Values};

/// One algorithm on a machine.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlgorithmView {
    /// Its id.
    pub id: &'static str,
    /// Its name in a sentence.
    pub title: &'static str,
    /// Who sends what to whom.
    pub summary: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// Libraries that ship it for this collective, with their name for it.
    pub ships: Vec<String>,
    /// The paper or code that defines it.
    pub source: &'static str,
    /// Which of its cost forms: `exact`, `paper` or `asymptotic`.
    pub form: &'static str,
    /// The question.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// The messages one after another, with equal ones grouped.
    pub steps: Vec<StepView>,
    /// The number of groups of steps beyond those listed.
    pub steps_left_out: usize,
    /// The closed form.
    pub formula: String,
    /// The same in LaTeX.
    pub formula_latex: String,
    /// The definitions of functions that it names, such as `side(N) = ⌊√N⌋`.
    pub functions: Vec<&'static str>,
    /// The same with numbers put in.
    pub numbers: String,
    /// n_α, including switch hops.
    pub n_alpha: f64,
    /// n_β, vectors through the busiest port on equal links.
    pub n_beta: f64,
    /// n_γ, vectors reduced.
    pub n_gamma: f64,
    /// The time, term by term.
    pub terms: Vec<Term>,
    /// Their sum.
    pub time_s: f64,
    /// The largest of latency, bandwidth, compute and launch.
    pub dominant: Option<&'static str>,
    /// Its share of the time.
    pub dominant_share: f64,
    /// The links that take the most time, if there are several kinds.
    pub binds: Option<String>,
    /// Their share of the time.
    pub binds_share: f64,
    /// The size at which latency and bandwidth cost the same; absent if P depends on the size.
    pub half_bytes: Option<f64>,
    /// Segments and their best number, if it is pipelined.
    pub pipeline: Option<Pipeline>,
    /// The port model.
    pub ports: PortsView,
    /// The lower bound for any algorithm.
    pub bound: BoundView,
    /// The rates that follow from the time.
    pub rates: RatesView,
    /// The published costs of the algorithm; more than one if texts print another.
    pub forms: Vec<FormView>,
    /// The reason why they differ.
    pub contradictions: Vec<&'static Contradiction>,
    /// What to know before trusting a number.
    pub notes: Vec<String>,
}

/// Equal messages one after another.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepView {
    /// The number of messages.
    pub count: u64,
    /// The fraction of the vector: `M/64`, `3·M/8`.
    pub share: String,
    /// The same in bytes.
    pub message_bytes: f64,
    /// The fraction of the received data that is added.
    pub added: f64,
    /// The links that carry them.
    pub over: String,
    /// Bytes through the busiest port there, divided by those of one message.
    pub load: f64,
    /// n_α·α of all of them.
    pub latency_s: f64,
    /// The transfer time of all of them.
    pub bandwidth_s: f64,
}

/// A term of the sum.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Term {
    /// `launch`, `latency`, `bandwidth`, `compute`.
    pub term: &'static str,
    /// The links it belongs to.
    pub over: Option<String>,
    /// Its derivation: `126 x 1 µs`.
    pub numbers: String,
    /// The time.
    pub time_s: f64,
    /// Its share of the whole.
    pub share: f64,
}

/// The segments of a pipeline.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pipeline {
    /// P*, the optimum if P need not be an integer.
    pub best_real: f64,
    /// The time there.
    pub time_at_real_s: f64,
    /// The cost of filling the pipeline there, the √ term: 2√(b·d·M).
    pub correction_s: f64,
    /// The best integer P, or the requested one.
    pub segments: u32,
    /// The time for some values of P.
    pub rows: Vec<PipelineRow>,
}

/// One number of segments.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PipelineRow {
    /// P.
    pub segments: u32,
    /// Messages one after another.
    pub slots: f64,
    /// n_β.
    pub n_beta: f64,
    /// n_α·α.
    pub latency_s: f64,
    /// n_β·M/BW.
    pub bandwidth_s: f64,
    /// All terms.
    pub time_s: f64,
}

/// The port model.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortsView {
    /// The number of ports that the ranks have.
    pub have: String,
    /// The number of partners at once with which no step waits for a port.
    pub needed: u32,
    /// Whether the ranks have that many ports.
    pub fits: bool,
    /// How the time relates to that of the schedule.
    pub guarantee: Promise,
    /// The ports of common fabrics; empty if it needs a switch that adds or multicasts.
    pub budgets: Vec<Budget>,
}

/// Ports of a fabric.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Budget {
    /// The fabric.
    pub fabric: &'static str,
    /// The minimum.
    pub least: u32,
    /// The maximum.
    pub most: u32,
    /// Whether that suffices: `yes`, `no`, or `some` if only the larger ones do.
    pub fits: &'static str,
}

/// The lower bound for any algorithm.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundView {
    /// The minimum number of messages one after another.
    pub messages: u32,
    /// The minimum number of vectors through the busiest rank.
    pub share: f64,
    /// Whether a switch of the machine adds, which lowers that number.
    pub switch_adds: bool,
    /// The time of the minimum messages; absent, as the other times, if a parameter of the links is unknown.
    pub latency_s: Option<f64>,
    /// The time of the minimum data.
    pub bandwidth_s: Option<f64>,
    /// The larger of both, plus the launch.
    pub time_s: Option<f64>,
    /// The time divided by it.
    pub ratio: Option<f64>,
}

/// The rates that follow from the time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RatesView {
    /// M over the time.
    #[serde(rename = "algbw_Bps")]
    pub algbw: f64,
    /// algbw times the factor.
    #[serde(rename = "busbw_Bps")]
    pub busbw: f64,
    /// nccl-tests' factor.
    pub busbw_factor: f64,
    /// The bytes that the busiest rank sends, over M.
    pub sent_share: f64,
    /// The same per second.
    #[serde(rename = "sent_Bps")]
    pub sent: f64,
}

/// A published cost.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormView {
    /// `exact`, `paper` or `asymptotic`.
    pub form: &'static str,
    /// The formula.
    pub formula: String,
    /// The same as LaTeX.
    pub formula_latex: String,
    /// n_α, including switch hops.
    pub n_alpha: f64,
    /// n_β.
    pub n_beta: f64,
    /// The time on equal links; absent over several tiers.
    pub time_s: Option<f64>,
}

/// The number of groups of steps that are listed.
const MOST_STEPS: usize = 24;

/// Explains one algorithm of the question's collective.
///
/// # Errors
/// An unknown name, an algorithm that does not apply, an unknown parameter.
pub fn algorithm(registry: &Registry, query: &Query, name: &str) -> Result<Explanation> {
    let Named { algorithm, form } =
        registry.find_for(&query.machine.fabric.fill(&query.shape), name)?;
    let fabric = &query.machine.fabric;
    let size = Volume::from(query.size);
    let prepared = Prepared::stated(algorithm, form, &query.shape, fabric)?;
    let price = prepared.price(size);
    let free = fabric.fill(&query.shape);
    let shape = if algorithm.is_pipelined() { free.with_segments(price.segments) } else { free };
    let meta = algorithm.meta();
    let sum = Sum::new(algorithm, &shape, fabric, size)?;
    let symbols = algorithm.print_form(&At::symbols(shape), form).unwrap_or_else(Cost::zero);
    let phase = coefficients(algorithm, shape, form);
    let terms = match form {
        Form::Exact => sum.terms(&price),
        _ => printed_terms(&phase, &price, fabric),
    };
    let total = price.total();
    let (dominant, dominant_share) = largest(&terms, total, |t| Some(t.term));
    let (binds, binds_share) = match terms.iter().filter_map(|t| t.over.as_deref()).next() {
        Some(_) if fabric.depth(shape.ranks)? > 1 => largest(&terms, total, |t| t.over.as_deref()),
        _ => (None, 0.0),
    };
    let gamma = fabric.gamma.is_some();
    let formula = symbols.formula(gamma);
    let view = AlgorithmView {
        id: meta.id,
        title: meta.title,
        summary: meta.summary,
        aliases: meta.aliases,
        ships: ships(algorithm, query),
        source: meta.source,
        form: form_name(form),
        question: question(query),
        machine: machine(&query.machine),
        formula: formula.write(Notation::Text),
        formula_latex: formula.write(Notation::Latex),
        functions: formula.named_functions().iter().map(|named| named.means).collect(),
        numbers: and_launch(
            match sum.values(&symbols, &shape, fabric, size) {
                Some(values) => formula.write(Notation::Numbers(&values)),
                None => written(&terms),
            },
            price.launch,
        ),
        n_alpha: phase.alpha + phase.switch,
        n_beta: phase.beta,
        n_gamma: phase.gamma,
        dominant: dominant.map(|d| named_term(&d)),
        dominant_share,
        binds,
        binds_share,
        time_s: total.0,
        terms,
        half_bytes: prepared.line().filter(|l| l.0 > 0.0 && l.1 > 0.0).map(|(a, b)| a / b),
        pipeline: (form == Form::Exact && algorithm.is_pipelined() && size.0 > 0.0)
            .then(|| pipeline(algorithm, &free, fabric, size, &price))
            .transpose()?
            .flatten(),
        ports: ports(algorithm, &shape, fabric),
        bound: bound_view(query, total)?,
        rates: rates(algorithm, &shape, &price, size),
        forms: forms(algorithm, &shape, fabric, size),
        contradictions: notes::about_algorithm(shape.collective, meta.id).collect(),
        notes: trust(query, &sum),
        steps_left_out: sum.groups.len().saturating_sub(MOST_STEPS),
        steps: sum.groups.into_iter().map(|g| g.view).take(MOST_STEPS).collect(),
    };
    Ok(Explanation::of(Subject::Algorithm(Box::new(view))))
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::Exact => "exact",
        Form::Paper => "paper",
        Form::Asymptotic => "asymptotic",
    }
}

fn coefficients(algorithm: &dyn Algorithm, shape: Shape, form: Form) -> Phase<f64> {
    algorithm.price_form(&At::numbers(shape), form).unwrap_or_else(Cost::zero).total()
}

/// Equal steps with their cost.
struct Group {
    step: Step,
    view: StepView,
    tier: usize,
}

/// All steps of an algorithm on a machine.
struct Sum {
    groups: Vec<Group>,
    tiers: Vec<TierSum>,
    size: f64,
    /// Whether stages take turns at NICs that ranks share, which no term of the formula says.
    takes_turns: bool,
}

/// The traffic on one tier.
#[derive(Clone, Default)]
struct TierSum {
    name: String,
    alpha: f64,
    rate: f64,
    messages: u64,
    latency: f64,
    /// Messages through its switch, and their latency.
    hops: u64,
    hopping: f64,
    /// Bytes through the busiest port while this tier is the bottleneck.
    bytes: f64,
    bandwidth: f64,
}

impl Sum {
    fn new(
        algorithm: &dyn Algorithm,
        shape: &Shape,
        fabric: &Fabric,
        size: Volume,
    ) -> Result<Self> {
        let tiers = fabric.tiers.iter().map(|t| TierSum {
            name: t.name.clone(),
            alpha: t.link.alpha.map_or(0.0, |a| a.0),
            rate: t.link.bandwidth.map_or(0.0, |b| b.0),
            ..TierSum::default()
        });
        let mut sum = Self {
            groups: Vec::new(),
            tiers: tiers.collect(),
            size: size.0,
            takes_turns: algorithm.stages(shape).is_some() && fabric.shares_nics(shape.ranks),
        };
        for step in InTurn::new(algorithm, shape, fabric, size)?.messages {
            sum.add(step, shape, fabric)?;
        }
        Ok(sum)
    }

    fn add(&mut self, step: Step, shape: &Shape, fabric: &Fabric) -> Result<()> {
        let one = step_load(&step, shape, fabric, 0.0)?;
        let count = step.count as f64;
        let (latency, bandwidth) = (count * one.latency, count * one.transfer * self.size);
        let share = step.share.value() * self.size;
        let busy = busy(&step, shape, fabric)?;
        let crossed = &mut self.tiers[busy.tier];
        if busy.switch {
            crossed.hops += step.count;
            crossed.hopping += latency;
        } else {
            crossed.messages += step.count;
            crossed.latency += latency;
        }
        let (mut tier, mut load) = (busy.tier, busy.load);
        if step.share.value() > 0.0 {
            let inverse;
            (tier, load, inverse) = busy.longest(fabric)?;
            let binding = &mut self.tiers[tier];
            binding.bandwidth += bandwidth;
            binding.bytes += count * share * load;
            if busy.switch {
                binding.rate = 1.0 / inverse;
            }
        }
        let name = &self.tiers[tier].name;
        let over = if busy.switch { format!("the switch of {name}") } else { name.clone() };
        let view = StepView {
            count: step.count,
            share: share_text(&step),
            message_bytes: share,
            added: if share > 0.0 { step.reduced.value() / step.share.value() } else { 0.0 },
            over,
            load,
            latency_s: latency,
            bandwidth_s: bandwidth,
        };
        self.push(Group { step, view, tier });
        Ok(())
    }

    /// Adds a group to the last one if they differ only in their number.
    fn push(&mut self, group: Group) {
        if let Some(last) = self.groups.last_mut() {
            let (a, b) = (&last.view, &group.view);
            let alike = a.share == b.share
                && a.over == b.over
                && a.added == b.added
                && a.load == b.load
                && last.step.level == group.step.level;
            if alike {
                last.view.count += group.view.count;
                last.view.latency_s += group.view.latency_s;
                last.view.bandwidth_s += group.view.bandwidth_s;
                return;
            }
        }
        self.groups.push(group);
    }

    /// The time term by term: launch, then latency and bandwidth over each tier, then compute.
    fn terms(&self, price: &Price) -> Vec<Term> {
        let mut terms = Vec::new();
        let mut add = |term, over: Option<&str>, numbers: String, time: f64| {
            if time > 0.0 {
                terms.push(Term {
                    term,
                    over: over.map(str::to_owned),
                    numbers,
                    time_s: time,
                    share: 0.0,
                });
            }
        };
        add("launch", None, "once per call".to_owned(), price.launch.0);
        for tier in self.tiers.iter().filter(|tier| tier.hops > 0) {
            let (hops, each) = (tier.hops, Seconds(tier.hopping / tier.hops as f64));
            let name = format!("the switch of {}", tier.name);
            add("latency", Some(&name), format!("{hops} hops x {each}"), tier.hopping);
        }
        for tier in &self.tiers {
            let numbers = format!("{} x {}", tier.messages, Seconds(tier.alpha));
            add("latency", Some(&tier.name), numbers, tier.latency);
        }
        for tier in &self.tiers {
            let moved = Volume(tier.bytes).as_meant();
            let numbers = format!("{moved} at {}", Bandwidth(tier.rate));
            add("bandwidth", Some(&tier.name), numbers, tier.bandwidth);
        }
        if let Some(compute) = price.compute {
            add("compute", None, "additions at the busiest rank".to_owned(), compute.0);
        }
        shared(terms, price.total())
    }

    /// The numbers behind the letters, unless one letter would have several values.
    fn values(
        &self,
        cost: &Cost<Expr>,
        shape: &Shape,
        fabric: &Fabric,
        size: Volume,
    ) -> Option<Values> {
        if self.takes_turns {
            return None;
        }
        let has = |level: Level| cost.phases().any(|p| p.level == level && !nothing(p));
        let flat = has(Level::Flat);
        let switched = self.tiers.iter().any(|tier| tier.hops > 0);
        let moves = |g: &&Group| g.step.share.chunks > 0;
        // A letter must have one value: the tier and load of all its steps, over links or through a switch.
        let one = |level: Level, switch: bool| -> Option<Option<(usize, f64)>> {
            let of =
                |g: &&Group| g.step.level == level && (g.step.route == Route::Switch) == switch;
            let all = self.groups.iter().filter(of);
            let mut all = all.map(|g| (g.tier, moves(&g).then_some(g.view.load)));
            let Some((tier, first)) = all.next() else { return Some(None) };
            let mut load = first;
            for (t, l) in all {
                if t != tier || (l.is_some() && load.is_some() && l != load) {
                    return None;
                }
                load = load.or(l);
            }
            Some(Some((tier, load.unwrap_or(1.0))))
        };
        let (any, inner) = (one(Level::Flat, false)?, one(Level::Inner, false)?);
        // The letters of equal links stand for those of several kinds.
        if inner.is_some() && !has(Level::Inner) {
            return None;
        }
        let outer = match (one(Level::Outer, false)?, one(Level::Outer, true)?) {
            (Some(_), Some(_)) => return None,
            (links, switch) => links.or(switch),
        };
        let rate = |at: Option<(usize, f64)>| {
            let (tier, load) = at.unwrap_or((0, 1.0));
            Bandwidth(self.tiers[tier].rate / load)
        };
        let alpha = |at: Option<(usize, f64)>| Seconds(self.tiers[at.map_or(0, |a| a.0)].alpha);
        let hop = fabric.tiers[0].switch.and_then(|s| s.alpha);
        let outermost = fabric.depth(shape.ranks).ok()? - 1;
        let far_hop = fabric.tiers[outermost].switch.and_then(|s| s.alpha);
        if switched && flat && any.is_some() {
            return None;
        }
        Some(Values {
            ranks: shape.ranks,
            segments: shape.segments(),
            group: shape.group(),
            size,
            alpha: alpha(any),
            bandwidth: rate(any),
            alpha_inner: alpha(inner),
            bandwidth_inner: rate(inner),
            alpha_outer: alpha(outer),
            bandwidth_outer: rate(outer),
            gamma: fabric.gamma.unwrap_or(SecondsPerByte(0.0)),
            alpha_switch: hop.unwrap_or(Seconds(0.0)),
            alpha_switch_outer: far_hop.unwrap_or(Seconds(0.0)),
        })
    }
}

fn nothing(phase: &Phase<Expr>) -> bool {
    phase.alpha.is_zero() && phase.beta.is_zero() && phase.switch.is_zero()
}

/// `M/64`, `3·M/8`, `M`, `no data`.
fn share_text(step: &Step) -> String {
    let (mut a, mut b) = (step.share.chunks, step.share.of);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    let divisor = a.max(1);
    match (step.share.chunks / divisor, step.share.of / divisor) {
        (0, _) => "no data".to_owned(),
        (1, 1) => "M".to_owned(),
        (1, of) => format!("M/{of}"),
        (chunks, 1) => format!("{chunks}·M"),
        (chunks, of) => format!("{chunks}·M/{of}"),
    }
}

/// The terms of a printed form: equal links.
fn printed_terms(phase: &Phase<f64>, price: &Price, fabric: &Fabric) -> Vec<Term> {
    let name = &fabric.tiers[0].name;
    let term = |term, numbers: String, time: f64| Term {
        term,
        over: (term != "launch" && term != "compute").then(|| name.clone()),
        numbers,
        time_s: time,
        share: 0.0,
    };
    let messages = phase.alpha + phase.switch;
    let mut terms = vec![
        term("launch", "once per call".to_owned(), price.launch.0),
        term("latency", format!("{} messages", Ratio(messages)), price.latency.0),
        term("bandwidth", format!("{} vectors", Ratio(phase.beta)), price.bandwidth.0),
    ];
    if let Some(compute) = price.compute {
        terms.push(term("compute", format!("{} vectors", Ratio(phase.gamma)), compute.0));
    }
    terms.retain(|t| t.time_s > 0.0);
    shared(terms, price.total())
}

fn shared(mut terms: Vec<Term>, total: Seconds) -> Vec<Term> {
    for term in &mut terms {
        term.share = if total.0 > 0.0 { term.time_s / total.0 } else { 0.0 };
    }
    terms
}

/// `126 x 3.3 µs + 31.5 MiB at 48 GB/s`.
fn written(terms: &[Term]) -> String {
    let parts = terms.iter().filter(|t| t.term != "launch");
    let parts: Vec<String> = parts
        .map(|t| match t.term {
            "bandwidth" => t.numbers.replace(" at ", "/(") + ")",
            _ => t.numbers.clone(),
        })
        .collect();
    parts.join(" + ")
}

/// The formula is the algorithm's; a machine's launch is added once.
fn and_launch(numbers: String, launch: Seconds) -> String {
    if launch.0 > 0.0 { format!("{numbers} + {launch} (launch)") } else { numbers }
}

/// The key with the most time in total, and its share.
fn largest(
    terms: &[Term],
    total: Seconds,
    key: impl Fn(&Term) -> Option<&str>,
) -> (Option<String>, f64) {
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for term in terms {
        let Some(name) = key(term) else { continue };
        // A hop through the switch is a hop over its links.
        let name = name.strip_prefix("the switch of ").unwrap_or(name);
        match sums.iter_mut().find(|s| s.0 == name) {
            Some(sum) => sum.1 += term.time_s,
            None => sums.push((name, term.time_s)),
        }
    }
    match sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, time)) if total.0 > 0.0 => (Some(name.to_owned()), time / total.0),
        _ => (None, 0.0),
    }
}

fn named_term(name: &str) -> &'static str {
    ["launch", "latency", "bandwidth", "compute"].into_iter().find(|t| *t == name).unwrap_or("")
}

/// P around the best, and the time at each.
fn pipeline(
    algorithm: &dyn Algorithm,
    free: &Shape,
    fabric: &Fabric,
    size: Volume,
    price: &Price,
) -> Result<Option<Pipeline>> {
    let at =
        |p: u32| Prepared::new(algorithm, &free.with_segments(p), fabric).map(|f| f.price(size));
    // Latency a + b·P, data c + d/P, from P = 2 on; for stages over several tiers, near the best P.
    let near = if algorithm.stages(free).is_some() { price.segments.max(2) } else { 2 };
    let (two, three) = (at(near)?, at(near + 1)?);
    let split = |p: &Price| p.bandwidth.0 + p.compute.unwrap_or_default().0;
    let few = f64::from(near);
    let b = three.latency.0 - two.latency.0;
    let d = few * (few + 1.0) * (split(&two) - split(&three));
    if b <= 0.0 || d <= 0.0 {
        return Ok(None);
    }
    let fixed = two.total().0 - few * b - d / few;
    let star = (d / b).sqrt();
    let best = Prepared::new(algorithm, &free.with_segments(0), fabric)?.price(size).segments;
    let mut counts: Vec<u32> = std::iter::successors(Some(1_u32), |p| p.checked_mul(4))
        .take_while(|p| f64::from(*p) < 2.0 * star.max(1.0))
        .collect();
    counts.extend([price.segments, best, best.saturating_mul(2)]);
    counts.sort_unstable();
    counts.dedup();
    let row = |segments: u32| -> Result<PipelineRow> {
        let one = at(segments)?;
        let phase = coefficients(algorithm, free.with_segments(segments), Form::Exact);
        Ok(PipelineRow {
            segments,
            slots: phase.alpha + phase.switch,
            n_beta: phase.beta,
            latency_s: one.latency.0,
            bandwidth_s: one.bandwidth.0,
            time_s: one.total().0,
        })
    };
    Ok(Some(Pipeline {
        best_real: star,
        time_at_real_s: fixed + 2.0 * (b * d).sqrt(),
        correction_s: 2.0 * (b * d).sqrt(),
        segments: price.segments,
        rows: counts.into_iter().map(row).collect::<Result<_>>()?,
    }))
}

fn ports(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric) -> PortsView {
    let needed = if shape.ranks > 1 { algorithm.ports_needed(shape) } else { 0 };
    let mut switched = false;
    algorithm.steps(shape, &mut |step| switched |= step.route == Route::Switch);
    // Their ports say nothing of a switch that adds or multicasts, which none of them is known to have.
    let fabrics = if switched { &[] } else { PORT_BUDGETS };
    let budgets = fabrics.iter().map(|figure| {
        let (least, most) = (figure.low.sends(u32::MAX), figure.high.sends(u32::MAX));
        let fits = match needed {
            k if k <= least => "yes",
            k if k > most => "no",
            _ => "some",
        };
        Budget { fabric: figure.name, least, most, fits }
    });
    let inside = shape.params.ports_inside.filter(|_| shape.spans_domains());
    let inside = inside.map_or(String::new(), |ports| format!(", inside its node {ports}"));
    PortsView {
        have: format!("{}{inside}", shape.ports),
        needed,
        fits: shape.ports.sends(needed) >= needed,
        guarantee: Promise::on(algorithm.guarantee(shape), shape, fabric),
        budgets: budgets.collect(),
    }
}

/// The bound of the question, including the launch as in the main report.
fn bound_view(query: &Query, total: Seconds) -> Result<BoundView> {
    let (shape, fabric) = (&query.shape, &query.machine.fabric);
    let least = match bound(shape, Volume::from(query.size), fabric) {
        // The algorithm may cross only links whose parameters are known.
        Err(unknown) if unknown.is_unknown() => None,
        least => Some(least?),
    };
    let switch = switch_adds(fabric);
    let time = least.map(|least| with_launch(least.time(), query).0);
    Ok(BoundView {
        messages: least_messages_on(fabric, shape.collective, shape.ranks)?,
        share: least_share(shape.collective, shape.ranks, switch).0,
        switch_adds: switch && shape.collective == Collective::AllReduce,
        latency_s: least.map(|least| least.latency.0),
        bandwidth_s: least.map(|least| least.bandwidth.0),
        time_s: time,
        ratio: time.filter(|time| *time > 0.0).map(|time| total.0 / time),
    })
}

fn rates(algorithm: &dyn Algorithm, shape: &Shape, price: &Price, size: Volume) -> RatesView {
    let algbw = if price.total().0 > 0.0 { price.algbw(size).0 } else { 0.0 };
    let factor = shape.collective.busbw_factor(shape.ranks).0;
    let sent = algorithm.sent(&At::numbers(*shape));
    RatesView {
        algbw,
        busbw: algbw * factor,
        busbw_factor: factor,
        sent_share: sent,
        sent: algbw * sent,
    }
}

/// The exact form, and the printed ones that differ from it.
fn forms(algorithm: &dyn Algorithm, shape: &Shape, fabric: &Fabric, size: Volume) -> Vec<FormView> {
    let mut views: Vec<FormView> = Vec::new();
    for form in [Form::Exact, Form::Paper, Form::Asymptotic] {
        let Some(cost) = algorithm.print_form(&At::symbols(*shape), form) else { continue };
        let formula = cost.formula(false);
        let text = formula.write(Notation::Text);
        if views.iter().any(|v| v.formula == text) {
            continue;
        }
        let phase = coefficients(algorithm, *shape, form);
        let price = Prepared::stated(algorithm, form, shape, fabric).map(|p| p.price(size));
        views.push(FormView {
            form: form_name(form),
            formula: text,
            formula_latex: formula.write(Notation::Latex),
            n_alpha: phase.alpha + phase.switch,
            n_beta: phase.beta,
            time_s: price.ok().map(|p| p.total().0),
        });
    }
    views
}

fn trust(query: &Query, sum: &Sum) -> Vec<String> {
    let mut notes: Vec<String> =
        without_gamma(&query.machine.fabric, query.shape.collective).into_iter().collect();
    let used = sum.tiers.iter().zip(&query.machine.origins);
    for (tier, origin) in used.filter(|(t, _)| t.latency + t.bandwidth > 0.0) {
        notes.extend(assumed(&tier.name, origin));
    }
    notes
}
