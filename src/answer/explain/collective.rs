//! A collective: what it does, and all its algorithms compared with the lower bound.

use serde::Serialize;

use super::{Explanation, Subject};
use crate::answer::cost::{MachineView, QuestionView, machine, question, ships};
use crate::answer::notes::{self, Contradiction};
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::Volume;
use crate::cost::bound::{least_messages_on, least_share, switch_adds};
use crate::cost::price::{Prepared, uses};
use crate::machine::query::Query;
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::{At, Cost, Expr, Notation, Number, Shape, Symbol};

/// A collective with its algorithms.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveView {
    /// Its id.
    pub id: &'static str,
    /// Its name in a sentence.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// What the ranks have before and after.
    pub state: State,
    /// What M counts.
    pub size_means: &'static str,
    /// The collectives that it consists of, or is a part of.
    pub identities: &'static [&'static str],
    /// Where training and inference use it.
    pub used_by: &'static str,
    /// busbw over algbw, as a formula.
    pub busbw_factor: &'static str,
    /// The same for this question.
    pub busbw_factor_here: f64,
    /// The minimum number of messages one after another.
    pub least_messages: u32,
    /// The minimum number of vectors that the busiest rank sends.
    pub least_share: f64,
    /// Whether a switch of the machine adds, which lowers that number.
    pub switch_adds: bool,
    /// The question.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// Whether a size was given; otherwise there are no times.
    pub sized: bool,
    /// The algorithms: those that apply here, then the others.
    pub algorithms: Vec<AlgorithmRow>,
    /// Remarks that apply to the question.
    pub remarks: Vec<String>,
    /// Where texts print something else.
    pub contradictions: Vec<&'static Contradiction>,
}

/// What the ranks have before and after.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Rank i before.
    pub before: &'static str,
    /// Rank i after.
    pub after: &'static str,
}

/// One algorithm among the others.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlgorithmRow {
    /// Its id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Whether it applies here.
    pub applies: bool,
    /// Why it does not.
    pub reason: Option<String>,
    /// The latency term.
    pub latency: String,
    /// The bandwidth term.
    pub bandwidth: String,
    /// Messages one after another; absent if the number of segments depends on an open size.
    pub n_alpha: Option<f64>,
    /// Vectors through the busiest port; if it is pipelined, in the limit of many segments.
    pub n_beta: f64,
    /// Messages divided by the minimum.
    pub latency_ratio: Option<f64>,
    /// Vectors divided by the minimum on these ports.
    pub bandwidth_ratio: Option<f64>,
    /// Whether it is pipelined.
    pub pipelined: bool,
    /// The number of partners at once with which no step waits for a port.
    pub ports_needed: u32,
    /// Whether the ranks have that many ports.
    pub fits: bool,
    /// The rank counts for which it runs: `any`, `2^m`, `even`, `some`.
    pub ranks: &'static str,
    /// Libraries that ship it.
    pub ships: Vec<String>,
    /// The time, if a size was given.
    pub time_s: Option<f64>,
    /// Bytes through the busiest NIC, if there are several nodes and a size was given.
    pub nic_bytes: Option<f64>,
}

/// Explains the question's collective.
///
/// # Errors
/// More ranks than the machine connects.
pub fn collective(registry: &Registry, query: &Query, sized: bool) -> Result<Explanation> {
    let collective = query.shape.collective;
    // A barrier needs no size to be priced.
    let sized = sized || collective == Collective::Barrier;
    let n = query.shape.ranks;
    query.machine.fabric.depth(n)?;
    let adds = switch_adds(&query.machine.fabric);
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for algorithm in registry.of(collective) {
        let row = row(algorithm, query, sized);
        if row.applies { &mut rows } else { &mut refused }.push(row);
    }
    rows.append(&mut refused);
    let view = CollectiveView {
        id: collective.id(),
        name: collective.name(),
        aliases: collective.aliases(),
        state: state(collective),
        size_means: size_means(collective),
        identities: identities(collective),
        used_by: used_by(collective),
        busbw_factor: busbw_formula(collective),
        busbw_factor_here: collective.busbw_factor(n).0,
        least_messages: least_messages_on(&query.machine.fabric, collective, n)?,
        least_share: least_share(collective, n, adds).0,
        switch_adds: adds && collective == Collective::AllReduce,
        question: question(query),
        machine: machine(&query.machine),
        sized,
        algorithms: rows,
        remarks: remarks(query),
        contradictions: notes::about_collective(collective).collect(),
    };
    Ok(Explanation::of(Subject::Collective(Box::new(view))))
}

fn row(algorithm: &dyn Algorithm, query: &Query, sized: bool) -> AlgorithmRow {
    let fabric = &query.machine.fabric;
    let shape = fabric.fill(&query.shape);
    let (meta, collective) = (algorithm.meta(), shape.collective);
    let named = AlgorithmRow {
        id: meta.id,
        title: meta.title,
        ships: ships(algorithm, query),
        pipelined: algorithm.is_pipelined(),
        ..AlgorithmRow::default()
    };
    let refused = |reason: String| AlgorithmRow { reason: Some(reason), ..named_again(&named) };
    if let Err(why) = algorithm.applies(&shape) {
        return refused(why.to_string());
    }
    let size = Volume::from(query.size);
    let prepared = match Prepared::new(algorithm, &shape, fabric) {
        Ok(prepared) => prepared,
        Err(error) => return refused(error.what().to_owned()),
    };
    let price = prepared.price(size);
    let at = if named.pipelined { shape.with_segments(price.segments) } else { shape };
    let (latency, bandwidth) = written(&algorithm.print(&At::symbols(at)));
    let phase = algorithm.price(&At::numbers(at)).total();
    let n_beta = if named.pipelined { limit(algorithm, &shape) } else { phase.beta };
    let needed = if shape.ranks > 1 { algorithm.ports_needed(&shape) } else { 0 };
    let open = named.pipelined && !sized && query.shape.params.segments.is_none();
    let n_alpha = (!open).then_some(phase.alpha + phase.switch);
    let least = f64::from(least_messages_on(fabric, collective, shape.ranks).unwrap_or(0));
    let switched = phase.switch > 0.0;
    let sends = f64::from(shape.ports.sends(shape.ranks.saturating_sub(1)).max(1));
    let share = least_share(collective, shape.ranks, switch_adds(fabric)).0 / sends;
    let ratio = |value: f64, least: f64| (least > 0.0).then_some(value / least);
    let nic = || {
        let used = uses(algorithm, &at, fabric).ok()?;
        used.iter().skip(1).map(|u| u.share.0 * size.0).reduce(f64::max)
    };
    AlgorithmRow {
        applies: true,
        latency,
        bandwidth,
        n_alpha,
        n_beta,
        // A hop through a switch is not a message between ranks.
        latency_ratio: n_alpha.filter(|_| !switched).and_then(|n| ratio(n, least)),
        bandwidth_ratio: ratio(n_beta, share),
        ports_needed: needed,
        fits: shape.ports.sends(needed) >= needed,
        ranks: ranks(algorithm, &shape),
        time_s: sized.then_some(price.total().0),
        nic_bytes: if sized { nic() } else { None },
        ..named
    }
}

fn named_again(row: &AlgorithmRow) -> AlgorithmRow {
    AlgorithmRow {
        id: row.id,
        title: row.title,
        ships: row.ships.clone(),
        pipelined: row.pipelined,
        ..AlgorithmRow::default()
    }
}

/// n_β as the number of segments grows: c of c + d/P.
fn limit(algorithm: &dyn Algorithm, shape: &Shape) -> f64 {
    let beta = |p| algorithm.price(&At::numbers(shape.with_segments(p))).total().beta;
    3.0 * beta(3) - 2.0 * beta(2)
}

/// The latency and bandwidth terms, separately; two equal phases are written as twice one.
fn written(cost: &Cost<Expr>) -> (String, String) {
    let letter = Expr::symbol;
    let (mut latency, mut bandwidth) = (Terms::default(), Terms::default());
    for phase in cost.phases() {
        let (links, hop) = phase.level.letters();
        let transfer = letter(Symbol::M) / letter(Symbol::Bandwidth(links));
        latency.add(phase.switch.clone() * letter(hop));
        latency.add(phase.alpha.clone() * letter(Symbol::Alpha(links)));
        bandwidth.add(phase.beta.clone() * transfer);
    }
    (latency.written(), bandwidth.written())
}

/// The terms of a sum, with the number of times each occurs in it.
#[derive(Default)]
struct Terms(Vec<(Expr, i64)>);

impl Terms {
    fn add(&mut self, term: Expr) {
        let text = term.write(Notation::Text);
        match self.0.iter_mut().find(|(known, _)| known.write(Notation::Text) == text) {
            Some((_, times)) => *times += 1,
            None if !term.is_zero() => self.0.push((term, 1)),
            None => {}
        }
    }

    fn written(self) -> String {
        let sum = self
            .0
            .into_iter()
            .fold(Expr::int(0), |sum, (term, times)| sum + Expr::int(times) * term);
        sum.write(Notation::Text)
    }
}

/// The rank counts for which it runs; on several nodes, the node counts.
fn ranks(algorithm: &dyn Algorithm, shape: &Shape) -> &'static str {
    let each = shape.group.map_or(1, |g| g.get());
    let runs = |k: u32| {
        let ranks = k * each;
        // A torus is laid out for the given ranks.
        algorithm.applies(&Shape { ranks, ..*shape }).is_ok()
    };
    let all = |pick: fn(u32) -> bool| (2..=20).all(|k| runs(k) == pick(k));
    if all(|_| true) {
        "any"
    } else if all(u32::is_power_of_two) {
        "2^m"
    } else if all(|k| k % 2 == 0) {
        "even"
    } else {
        "some"
    }
}

/// What it does to the ranks' data.
#[must_use]
pub fn state(collective: Collective) -> State {
    use Collective as C;
    let (what, before, after) = match collective {
        C::AllReduce => ("every rank gets the reduction of all vectors", "vector V_i", "Σ V"),
        C::AllGather => ("every rank gets every block", "block i, M/N", "all blocks, M"),
        C::ReduceScatter => {
            ("every rank gets its block of the reduction", "vector V_i", "block i of Σ V, M/N")
        }
        C::AllToAll => (
            "every rank sends a block to every other",
            "a block for each rank, M in all",
            "a block from each rank, M in all",
        ),
        C::Broadcast => ("every rank gets the root's vector", "root: V; others: nothing", "V"),
        C::Reduce => {
            ("the root gets the reduction of all vectors", "vector V_i", "root: Σ V; others: V_i")
        }
        C::Scatter => (
            "every rank gets its block of the root's vector",
            "root: V; others: nothing",
            "block i of V, M/N",
        ),
        C::Gather => ("the root gets every block", "block i, M/N", "root: all blocks, M"),
        C::SendRecv => ("one rank gets another's vector", "sender: V", "receiver: V"),
        C::Barrier => ("no rank leaves before all have arrived", "–", "–"),
    };
    State { what, before, after }
}

fn size_means(collective: Collective) -> &'static str {
    use Collective as C;
    match collective {
        C::AllReduce | C::Reduce => "the vector that each rank has",
        C::Broadcast => "the root's vector",
        C::SendRecv => "the message",
        C::ReduceScatter => "the vector that each rank has before; it keeps M/N",
        C::AllGather | C::Gather => "all blocks together; each rank has M/N before",
        C::Scatter => "all blocks together; each rank gets M/N",
        C::AllToAll => "one rank's whole buffer, its own block of M/N included",
        C::Barrier => "nothing: there are no data",
    }
}

fn identities(collective: Collective) -> &'static [&'static str] {
    use Collective as C;
    match collective {
        C::AllReduce => &[
            "all-reduce = reduce-scatter + all-gather, in what it does and in what the ring costs",
            "all-reduce = reduce + broadcast, which moves the whole vector twice",
        ],
        C::AllGather => {
            &["reduce-scatter + all-gather = all-reduce", "gather + broadcast = all-gather"]
        }
        C::ReduceScatter => {
            &["reduce-scatter + all-gather = all-reduce", "reduce + scatter = reduce-scatter"]
        }
        C::AllToAll => &[
            "a permutation of blocks: block j of rank i becomes block i of rank j; nothing is added",
            "a layer of experts runs one all-to-all there and one back: dispatch and combine",
        ],
        C::Broadcast => &["scatter + all-gather = broadcast", "reduce + broadcast = all-reduce"],
        C::Reduce => {
            &["reduce-scatter + gather = reduce", "a broadcast run backwards, adding, is a reduce"]
        }
        C::Scatter => &["scatter + all-gather = broadcast"],
        C::Gather => &["a scatter run backwards is a gather"],
        C::SendRecv | C::Barrier => &[],
    }
}

/// Where training and inference use it.
#[must_use]
pub fn used_by(collective: Collective) -> &'static str {
    use Collective as C;
    match collective {
        C::AllReduce => {
            "data parallelism (DDP) on gradients; tensor parallelism on partial products"
        }
        C::AllGather => {
            "FSDP and ZeRO-3 on parameters; sequence parallelism; half of an all-reduce"
        }
        C::ReduceScatter => {
            "FSDP and ZeRO on gradients; sequence parallelism; half of an all-reduce"
        }
        C::AllToAll => "expert parallelism: dispatch and combine; transposes",
        C::Broadcast => "initial parameters; weights to inference workers",
        C::Reduce => "metrics; gradients to a parameter server",
        C::Scatter => "data to workers; first half of a broadcast of large vectors",
        C::Gather => "results and checkpoints to one rank",
        C::SendRecv => "pipeline parallelism between stages",
        C::Barrier => "start and end of a phase",
    }
}

/// busbw over algbw, as nccl-tests defines it.
pub(in crate::answer) fn busbw_formula(collective: Collective) -> &'static str {
    match (collective.busbw_factor(2).0, collective.busbw_factor(3).0) {
        (two, three) if two == three => "1",
        (1.0, _) => "2(N − 1)/N",
        _ => "(N − 1)/N",
    }
}

/// Remarks that the layout of the question needs.
fn remarks(query: &Query) -> Vec<String> {
    let mut remarks = Vec::new();
    let nodes = query.placement.nodes();
    let collective = query.shape.collective;
    if collective == Collective::AllReduce && (2..=3).contains(&nodes) {
        let (sends, factor) = if nodes == 2 { ("M", "2") } else { ("1.5 M", "4/3") };
        remarks.push(format!(
            "Over {nodes} nodes a double tree's NICs send {sends} where a ring's send 2(N − 1)/N·M: \
             busbw may read up to {factor} times the NICs' rate (explain two-nodes)."
        ));
    }
    if matches!(collective, Collective::AllGather | Collective::ReduceScatter) {
        remarks.push(
            "Libraries default to the ring: it sends the fewest bytes, works at any N, talks to \
             two neighbours, and runs at sizes where its N − 1 messages hardly matter (explain \
             ring-default)."
                .to_owned(),
        );
    }
    if collective == Collective::AllToAll {
        let n = f64::from(query.shape.ranks);
        remarks.push(format!(
            "A rank's own block does not travel: M/BW is 1/N too much, {:.1} % at {n} ranks. {}",
            100.0 / (n - 1.0).max(1.0),
            if nodes > 1 {
                let away = (n - f64::from(query.placement.per_node)) / n;
                format!("Of M, {:.1} % leave the node.", 100.0 * away)
            } else {
                String::new()
            }
        ));
    }
    remarks
}
