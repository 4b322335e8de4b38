//! The table of NCCL's example tuner plugin: lines of eight to ten fields.
//!
//! The plugin silently drops lines with fewer fields, ignores fields beyond the tenth, splits lines of
//! more than 255 characters, skips empty fields, and reads unknown words as all-reduce, ring and
//! simple. Here each of these is an error.

use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::base::refused::Refused;
use crate::library::nccl::rules::{COLLECTIVES, Channels, Rule, Rules};
use crate::library::nccl::{Algo, Proto};
use crate::library::tuning_file::Line;

/// The longest line that the plugin reads as one.
const LONGEST: usize = 254;

pub(in crate::library) fn read(text: &str) -> Result<Rules, Refused> {
    let mut rules = Rules::default();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        if line.len() > LONGEST {
            return Err(Refused::at(number, format!("a line of {} bytes", line.len()))
                .help(format!("the plugin cuts lines after {LONGEST} bytes")));
        }
        rules.rules.push(rule(line, number)?);
    }
    Ok(rules)
}

fn rule(line: &str, at: usize) -> Result<Rule, Refused> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let fault = |what: String, help: &str| Err(Refused::at(at, what).help(help));
    if line.trim_start().starts_with('#') || line.trim().is_empty() {
        return fault(
            "a comment or an empty line begins with blanks".to_owned(),
            "remove them: the plugin reads it as a rule",
        );
    }
    if !(8..=10).contains(&fields.len()) {
        return fault(
            format!("a rule has 8 to 10 fields, not {}", fields.len()),
            "write collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks\
             [,pipe_ops[,registered]]: the plugin silently drops a shorter line",
        );
    }
    if fields.contains(&"") {
        return fault(
            "an empty field".to_owned(),
            "write -1 for any: the plugin shifts the following fields left",
        );
    }
    let known = |field: &str, what: &str, instead: &str, names: Vec<&str>| {
        Refused::at(at, format!("`{field}` is not {what}"))
            .help(format!("the plugin silently reads it as {instead}; known: {}", names.join(", ")))
    };
    let collective = COLLECTIVES.iter().find(|c| c.id() == fields[0]).ok_or_else(|| {
        let names = COLLECTIVES.iter().map(|c: &Collective| c.id()).collect();
        known(fields[0], "a collective", "allreduce", names)
    })?;
    let algorithm = Algo::ALL.into_iter().find(|a| a.lower() == fields[3]).ok_or_else(|| {
        let names = Algo::ALL.map(Algo::lower).to_vec();
        known(fields[3], "an algorithm", "ring", names)
    })?;
    let protocol = Proto::ALL.into_iter().find(|p| p.lower() == fields[4]).ok_or_else(|| {
        let names = Proto::ALL.map(Proto::lower).to_vec();
        known(fields[4], "a protocol", "simple", names)
    })?;
    let (from, to) = (bytes(fields[1], at)?, bytes(fields[2], at)?);
    if from > to {
        return fault(
            format!("there is no size from {} to {}", from.0, to.0),
            "write the smaller size first",
        );
    }
    let optional = |index: usize| match fields.get(index) {
        Some(field) => count(field, at),
        None => Ok(None),
    };
    let channels = match count(fields[5], at)? {
        None => Channels::One,
        Some(0) => Channels::Own,
        Some(most) => Channels::AtMost(most),
    };
    let registered = optional(9)?;
    if registered.is_some_and(|r| r > 1) {
        return fault(
            format!("`{}` is not a value for registered buffers", fields[9]),
            "write 0, 1 or -1",
        );
    }
    Ok(Rule {
        collective: *collective,
        from,
        to,
        algorithm,
        protocol,
        channels,
        nodes: optional(6)?,
        ranks: optional(7)?,
        pipe_ops: optional(8)?,
        registered,
        line: Line(at),
    })
}

fn bytes(field: &str, at: usize) -> Result<Bytes, Refused> {
    field.parse().map(Bytes).map_err(|_| {
        Refused::at(at, format!("`{field}` is not a number of bytes"))
            .help(format!("write a whole number up to {}", u64::MAX))
    })
}

/// A number that the plugin keeps in an `int`; -1 is any.
fn count(field: &str, at: usize) -> Result<Option<u32>, Refused> {
    match field.parse::<i32>() {
        Ok(-1) => Ok(None),
        Ok(number) if number >= 0 => Ok(Some(number.unsigned_abs())),
        _ => Err(Refused::at(at, format!("`{field}` is not a count"))
            .help("write a whole number from 0 on, or -1 for any")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::nccl::rules::Call;

    const GOOD: &str = "\
# order, wildcards, blanks, optional fields
allreduce,0,65536,tree,simple,2,1,-1,-1,1
allreduce,0,65536,ring,ll,-1,1,8

 allreduce , 65537 , 18446744073709551615 , tree , ll128 , 0 , -1 , -1
";

    fn call(size: u64, nodes: u32, ranks: u32) -> Call {
        let collective = Collective::AllReduce;
        Call { collective, size: Bytes(size), nodes, ranks, pipe_ops: 1, registered: false }
    }

    #[test]
    fn the_first_line_that_fits_decides() {
        let rules = read(GOOD).unwrap();
        let first = |size, nodes, ranks| rules.fitting(call(size, nodes, ranks)).next();
        assert_eq!(first(65536, 1, 8).unwrap().line.0, 3);
        assert_eq!(first(65536, 1, 8).unwrap().channels, Channels::One);
        assert_eq!(first(65536, 2, 16), None);
        assert_eq!(first(u64::MAX, 2, 16).unwrap().channels, Channels::Own);
        let registered = Call { registered: true, ..call(1, 1, 8) };
        assert_eq!(rules.fitting(registered).next().unwrap().channels, Channels::AtMost(2));
    }

    /// The plugin silently drops each of these or reads it as something else.
    #[test]
    fn what_the_plugin_passes_over_is_refused_with_its_line() {
        for (line, what) in [
            (
                "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
                "`collective` is not a collective",
            ),
            ("AllReduce,0,1,ring,ll,-1,1,8", "`AllReduce` is not a collective"),
            ("allreduce,0,1,Ring,ll,-1,1,8", "`Ring` is not an algorithm"),
            ("allreduce,0,1,ring,LL,-1,1,8", "`LL` is not a protocol"),
            ("allreduce,0,1,ring,ll,-1,1", "a rule has 8 to 10 fields, not 7"),
            ("allreduce,0,1,ring,ll,-1,1,8,-1,-1,5", "a rule has 8 to 10 fields, not 11"),
            ("allreduce,0,1,ring,ll,,1,8,-1", "an empty field"),
            ("allreduce,2,1,ring,ll,-1,1,8", "there is no size from 2 to 1"),
            ("allreduce,0,4GiB,ring,ll,-1,1,8", "`4GiB` is not a number of bytes"),
            ("allreduce,0,1,ring,ll,-2,1,8", "`-2` is not a count"),
            ("allreduce,0,1,ring,ll,-1,1,8,-1,2", "`2` is not a value for registered buffers"),
            (" # a comment", "a comment or an empty line begins with blanks"),
        ] {
            let refused = read(&format!("# one\n{line}\n")).unwrap_err();
            assert!(refused.what.starts_with(what), "{}", refused.what);
            assert_eq!(refused.line, Some(2), "{what}");
            assert!(refused.help.is_some(), "{what}");
        }
    }
}
