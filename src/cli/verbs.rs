//! The verbs, one line each, from which the parser, the grouped help and the dispatch are built.

use std::ffi::OsString;
use std::io::Write;

use clap::{Args as _, FromArgMatches, Subcommand};

use collcost::Collective;

use super::{
    Stop, accuracy, batch, bucket, check, compare, completions, config, convert, cost, crossover,
    explain, explore, export, fit, import, list, man, mcp, mock, nccl, optimum, plan, profiles,
    select, simulate, trace, verify,
};
#[cfg(target_os = "linux")]
use super::{calibrate, run};

/// Makes the verbs from `Name(module) or "other name" "its line in the help"` under group headings.
macro_rules! verbs {
    (
        $first:literal { $($collective:ident $whose:literal)* }
        $($heading:literal { $($(#[$if:meta])? $verb:ident($module:ident) $(or $also:literal)? $help:literal)* })*
    ) => {
        // Deferred: only the named verb's flags are built, which halves the start-up time.
        #[derive(Subcommand)]
        #[command(defer = true, rename_all = "lower")]
        #[command(mut_subcommand("barrier", |verb| verb.defer(cost::without_sizes)))]
        pub(super) enum Verb {
            $(#[command(about = $whose)] $collective(cost::Args),)*
            $($($(#[$if])? #[command(about = $help $(, visible_alias = $also)?)] $verb($module::Args),)*)*
        }

        /// Verbs grouped by purpose, in the order of the help: collectives first, and last those
        /// that the help only names.
        pub(super) const GROUPS: &[(&str, &[&str])] = &[
            ($first, &[$(stringify!($collective)),*]),
            $(($heading, &[$($(#[$if])? stringify!($verb)),*]),)*
        ];

        impl Verb {
            pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
                match self {
                    $(Self::$collective(args) => args.run(Collective::$collective, out),)*
                    $($($(#[$if])? Self::$verb(args) => args.run(out),)*)*
                }
            }

            fn of(collective: Collective, args: cost::Args) -> Self {
                match collective {
                    $(Collective::$collective => Self::$collective(args),)*
                }
            }
        }
    };
}

verbs! {
    "Ask" {
        AllReduce "Every rank gets the reduction of all vectors"
        AllGather "Every rank gets the blocks of all ranks"
        ReduceScatter "Every rank gets its block of the reduction"
        AllToAll "Every rank sends a block to every other"
        Broadcast "Every rank gets the root's vector"
        Reduce "The root gets the reduction of all vectors"
        Scatter "Every rank gets its block of the root's vector"
        Gather "The root gets every rank's block"
        SendRecv "One rank gets another's vector"
        Barrier "No rank leaves before all have arrived"
    }
    "Understand" {
        Explain(explain) "Why: an algorithm derived, a collective's algorithms, a topic"
        Simulate(simulate) "A schedule, or jobs on a fabric, message by message"
        Convert(convert) "Convert between time, algbw, busbw and the sizes of tools"
        Export(export) "A schedule or a tuning file in other programs' formats"
        Mock(mock) "What nccl-tests would print on a machine, without GPUs"
        Batch(batch) "Questions as JSON Lines in, answers out, in order"
    }
    "Choose" {
        Choose(select) or "select" "What a library or engine will pick, why, and at what cost"
        Crossover(crossover) "The size at which one algorithm overtakes another"
        Optimum(optimum) "The best rate on a fabric, proven by a cut or by lengths"
        Nccl(nccl) "NCCL's tuner: its table, its choices, its logs"
    }
    "Plan" {
        Plan(plan) "A step of a model: its collectives, times and exposed time"
        Bucket(bucket) "Gradients fused into buckets: sizes, exposed time, the best cap"
        Check(check) "Budgets in a file checked against the model or measurements"
    }
    "Measure" {
        #[cfg(target_os = "linux")]
        Calibrate(calibrate) "This machine's parameters, by running the collectives on it"
        Import(import) "Logs of benchmarks, traces of jobs: nccl-tests, OSU, Kineto …"
        Fit(fit) "A machine's parameters from timed runs, with their errors"
        Compare(compare) "Is a measured run healthy, and if not, why"
        Profiles(profiles) "Known machines: list, show, compare, check a file"
    }
    "More" {
        Trace(trace) "Step by step: who sends what to whom, what ranks then hold"
        Verify(verify) "Check that schedules and closed forms do what they promise"
        #[cfg(target_os = "linux")]
        Run(run) "A schedule run on this machine, timed and checked"
        Explore(explore) "One HTML page: costs by sliders, schedules step by step"
        Accuracy(accuracy) "How far predictions are off on held-out measurements"
        List(list) "Names of collectives, algorithms, libraries, topics and more"
        Mcp(mcp) "A server for agents on standard input and output: Model Context Protocol"
        Config(config) "Settings in effect, and where each comes from"
        Completions(completions) "A script that completes verbs and flags in a shell"
        Man(man) "The manual page of the command, or of one verb"
    }
}

impl Verb {
    /// Whether answers come one after another for as long as there are questions or a reader.
    pub(super) fn streams(&self) -> bool {
        match self {
            Self::Batch(_) | Self::Mcp(_) | Self::Trace(_) => true,
            Self::Nccl(args) => args.streams(),
            _ => false,
        }
    }

    /// A collective's verb with its flags, parsed without the other verbs, which take longer to
    /// build than all prices. None for another verb, and for help or an error, which clap words
    /// best when it knows all verbs.
    pub(super) fn priced(arguments: &[OsString]) -> Option<Self> {
        let collective = arguments.get(1)?.to_str()?.parse::<Collective>().ok()?;
        let mut flags = cost::Args::augment_args(clap::Command::new(collective.id()));
        let mut found = flags.try_get_matches_from_mut(&arguments[1..]).ok()?;
        let args = cost::Args::from_arg_matches_mut(&mut found).ok()?;
        // The process ends soon: to take hundreds of flags apart would be a fiftieth of a start.
        std::mem::forget((flags, found));
        Some(Self::of(collective, args))
    }
}
