//! The file of samples: JSON Lines, only ever appended to, readable after a kill at any byte.
//!
//! ```text
//! {"t":"hdr","v":1,"run":"…","command":"…",…,"c":"1f0e2d3c"}
//! {"t":"launch","l":0,"time":"2026-11-20T06:00:00Z","pids":[…],"cpus":[[0],[1]],"c":"…"}
//! {"t":"blk","l":0,"b":17,"op":"allreduce/ring","n":4,"M":1048576,"ns":[…],"late":[…],"c":"…"}
//! {"t":"abort","l":0,"reason":"rank 3: peer closed","c":"…"}
//! {"t":"end","l":0,"c":"…"}
//! ```
//!
//! `c` is the last field of every line: the CRC-32 of all bytes before `,"c":`. A last line
//! without its line feed, or whose sum is wrong, was torn and is left out; such a line anywhere
//! else is an error.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU32;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Block, Clock, IMPORT, Mode, Origin, Sample, Samples, Wait};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Seconds};
use crate::machine::link::Bucket;

/// The version of this format.
const VERSION: u32 = 1;

/// The first line: what is measured, where and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// A unique name of the run.
    pub run: String,
    /// The command that measures.
    pub command: String,
    /// The program with its version.
    pub tool: String,
    /// The day, as 2026-11-20.
    pub date: String,
    /// The seed of the order.
    pub seed: u64,
    /// How data moves: `shm`, `tcp`.
    pub transport: String,
    /// The settings of the transport: buffer sizes, congestion control, as `key=value`.
    #[serde(default)]
    pub options: Vec<String>,
    /// How ranks wait.
    pub wait: Option<Wait>,
    /// N.
    pub ranks: u32,
    /// The ranks of a group, if only links inside such groups are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<NonZeroU32>,
    /// The communication library with its version, if one chose what ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Equal for two runs that measure the same points in the same way.
    pub plan_hash: String,
    /// Equal for two runs on the same machine since the same boot.
    pub fingerprint: String,
    /// The machine in words: host, processor, kernel.
    pub machine: String,
    /// What to know before trusting the times, each with the log that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A start of the processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Which, from 0.
    #[serde(rename = "l")]
    pub launch: u32,
    /// When, as 2026-11-20T06:00:00Z.
    pub time: String,
    /// The process of each rank.
    #[serde(default)]
    pub pids: Vec<u32>,
    /// The CPUs that each rank may use.
    #[serde(default)]
    pub cpus: Vec<Vec<u32>>,
    /// The least step of the clock, ns.
    #[serde(default)]
    pub clock_res_ns: u64,
    /// The congestion control of the connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The token bucket that was found before anything was timed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "numbers")]
    pub bucket: Option<Bucket>,
    /// The rate at which data flowed for a while without a pause, before anything was timed, B/s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "rate")]
    pub stream: Option<Bandwidth>,
    /// Which ranks and links are slower than the others, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<String>,
    /// Ports that the ranks of a group share towards other groups, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<NonZeroU32>,
}

/// A token bucket as plain numbers; profiles write it with units.
mod numbers {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::base::quantity::{Bandwidth, Bytes};
    use crate::machine::link::Bucket;

    #[derive(Serialize, Deserialize)]
    struct Numbers {
        rate: f64,
        burst: u64,
    }

    pub(super) fn serialize<S: Serializer>(
        bucket: &Option<Bucket>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let numbers = bucket.map(|b| Numbers { rate: b.rate.0, burst: b.burst.0 });
        numbers.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bucket>, D::Error> {
        let numbers = Option::<Numbers>::deserialize(deserializer)?;
        let bucket = |n: Numbers| Bucket { rate: Bandwidth(n.rate), burst: Bytes(n.burst) };
        Ok(numbers.filter(|n| n.rate.is_finite() && n.rate > 0.0).map(bucket))
    }
}

/// A rate as a plain number.
mod rate {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::base::quantity::Bandwidth;

    pub(super) fn serialize<S: Serializer>(
        rate: &Option<Bandwidth>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rate.map(|rate| rate.0.round()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bandwidth>, D::Error> {
        let rate = Option::<f64>::deserialize(deserializer)?;
        Ok(rate.filter(|rate| rate.is_finite() && *rate > 0.0).map(Bandwidth))
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The first.
    Header(Header),
    /// Processes started.
    Launch(LaunchRecord),
    /// A block was measured.
    Block(Block),
    /// A launch ended early.
    Abort {
        /// Which.
        launch: u32,
        /// Why.
        reason: String,
    },
    /// A launch ended.
    End {
        /// Which.
        launch: u32,
    },
}

/// A line as written in the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "t")]
enum Line {
    #[serde(rename = "hdr")]
    Header {
        v: u32,
        #[serde(flatten)]
        header: Header,
    },
    #[serde(rename = "launch")]
    Launch(LaunchRecord),
    #[serde(rename = "blk")]
    Block(BlockLine),
    #[serde(rename = "abort")]
    Abort { l: u32, reason: String },
    #[serde(rename = "end")]
    End { l: u32 },
}

#[derive(Serialize, Deserialize)]
struct BlockLine {
    l: u32,
    b: u32,
    op: String,
    n: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodes: Option<u32>,
    #[serde(rename = "M")]
    size: u64,
    mode: Mode,
    #[serde(rename = "K", default = "once", skip_serializing_if = "is_once")]
    inner: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nivcsw: Option<u64>,
    #[serde(rename = "clk", default, skip_serializing_if = "is_host")]
    clock: Clock,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chose: Option<String>,
    ns: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    late: Vec<u8>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rd_us: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cpu_ns: Vec<f64>,
}

fn once() -> u32 {
    1
}

fn is_host(clock: &Clock) -> bool {
    *clock == Clock::Host
}

fn is_once(inner: &u32) -> bool {
    *inner == 1
}

impl BlockLine {
    fn new(block: &Block) -> Self {
        let delays: Option<Vec<f64>> =
            block.samples.iter().map(|s| s.run_delay.map(|r| tenths(r.0 * 1e6))).collect();
        let late = block.samples.iter().any(|s| s.late);
        // Only where a rank lost one.
        let lost = block.samples.iter().any(|s| s.lost_cpu(block.inner));
        let on: Option<Vec<f64>> =
            block.samples.iter().map(|s| s.with_cpus.map(|t| tenths(t.0 * 1e9))).collect();
        Self {
            l: block.launch,
            b: block.block,
            op: block.op.to_string(),
            n: block.ranks,
            nodes: block.nodes,
            size: block.size.0,
            mode: block.mode,
            inner: block.inner,
            nivcsw: block.preempted,
            clock: block.clock,
            chose: block.chose.map(|chose| chose.to_string()),
            ns: block.samples.iter().map(|s| tenths(s.span.0 * 1e9)).collect(),
            late: block.samples.iter().filter(|_| late).map(|s| u8::from(s.late)).collect(),
            rd_us: delays.unwrap_or_default(),
            cpu_ns: on.filter(|_| lost).unwrap_or_default(),
        }
    }

    fn block(self) -> Result<Block> {
        let count = self.ns.len();
        let (late, delays, on) = (&self.late, &self.rd_us, &self.cpu_ns);
        let lengths = [("late", late.len()), ("rd_us", delays.len()), ("cpu_ns", on.len())];
        if let Some((key, length)) = lengths.iter().find(|(_, l)| *l != 0 && *l != count) {
            return Err(Error::input(format!("{count} times in `ns`, but {length} in `{key}`")));
        }
        if self.n == 0 || count == 0 {
            return Err(Error::input("a block has no ranks or no times"));
        }
        let usable = |x: &f64| x.is_finite() && *x >= 0.0;
        if !self.ns.iter().all(|x| usable(x) && *x > 0.0) || !delays.iter().chain(on).all(usable) {
            return Err(Error::input("a time is not a positive number"));
        }
        let samples = (0..count).map(|i| Sample {
            span: Seconds(self.ns[i] * 1e-9),
            late: self.late.get(i).is_some_and(|l| *l != 0),
            run_delay: self.rd_us.get(i).map(|us| Seconds(us * 1e-6)),
            with_cpus: self.cpu_ns.get(i).map(|ns| Seconds(ns * 1e-9)),
        });
        Ok(Block {
            op: self.op.parse()?,
            ranks: self.n,
            size: Bytes(self.size),
            launch: self.l,
            block: self.b,
            mode: self.mode,
            inner: self.inner,
            nodes: self.nodes,
            preempted: self.nivcsw,
            clock: self.clock,
            chose: self.chose.map(|chose| chose.parse()).transpose()?,
            samples: samples.collect(),
        })
    }
}

/// Rounded to a tenth: finer than any clock, and short in the file.
fn tenths(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

/// `,"c":"1f0e2d3c"}`
const TAIL: usize = 16;

impl Record {
    /// The line with its sum and its line feed.
    #[must_use]
    pub fn line(&self) -> String {
        let line = match self {
            Self::Header(header) => Line::Header { v: VERSION, header: header.clone() },
            Self::Launch(launch) => Line::Launch(launch.clone()),
            Self::Block(block) => Line::Block(BlockLine::new(block)),
            Self::Abort { launch, reason } => Line::Abort { l: *launch, reason: reason.clone() },
            Self::End { launch } => Line::End { l: *launch },
        };
        // Strings, numbers and lists of them: nothing that JSON cannot hold.
        let mut text = serde_json::to_string(&line).unwrap_or_default();
        text.pop();
        let sum = crc32fast::hash(text.as_bytes());
        text + &format!(",\"c\":\"{sum:08x}\"}}\n")
    }

    /// Reads a line without its line feed; `None` if the checksum is wrong.
    fn read(line: &str) -> Option<Result<Self>> {
        let cut = line.len().checked_sub(TAIL).filter(|&cut| line.is_char_boundary(cut))?;
        let (text, tail) = line.split_at(cut);
        let sum = tail.strip_prefix(",\"c\":\"")?.strip_suffix("\"}")?;
        if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(text.as_bytes()) {
            return None;
        }
        let whole = text.to_owned() + "}";
        let line = match serde_json::from_str::<Line>(&whole) {
            Ok(line) => line,
            Err(e) => return Some(Err(Error::input(format!("unknown record: {e}")))),
        };
        Some(match line {
            Line::Header { v, .. } if v != VERSION => {
                Err(Error::input(format!("samples of version {v}, not {VERSION}"))
                    .help("measure again: older files are not supported"))
            }
            Line::Header { header, .. } => Ok(Self::Header(header)),
            Line::Launch(launch) => Ok(Self::Launch(launch)),
            Line::Block(block) => block.block().map(Self::Block),
            Line::Abort { l, reason } => Ok(Self::Abort { launch: l, reason }),
            Line::End { l } => Ok(Self::End { launch: l }),
        })
    }
}

/// Reads the text of `file`: its header and samples.
///
/// # Errors
/// A file that does not hold samples, or has another version; a damaged line that is not the last:
/// each with its line.
pub fn read(text: &str, file: &str) -> Result<(Header, Samples)> {
    const MEND: &str = "name a file that `collcost calibrate --samples` wrote";
    let mut header = None;
    let mut samples = Samples::default();
    let mut blocks = BTreeSet::new();
    let mut lines = (1..).zip(text.split_inclusive('\n')).peekable();
    while let Some((number, line)) = lines.next() {
        let place = || format!("{file}:{number}");
        let last = lines.peek().is_none();
        // Copies through other systems may have ended lines in their way.
        let whole = line.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let record = whole.and_then(Record::read);
        let Some(record) = record else {
            if last && header.is_some() {
                samples.torn = true;
                break;
            }
            let what = match header {
                None => "the file holds no samples: its first line is not a header",
                Some(_) => "a damaged line: its checksum is wrong",
            };
            return Err(Error::input(what).at(place()).help(match header {
                None => MEND,
                Some(_) => "remove the line, and measure its block again",
            }));
        };
        match record.map_err(|e| e.at(place()).or_help(MEND))? {
            Record::Header(mut found) => {
                found.notes.retain(|note| !samples.notes.contains(note));
                samples.notes.append(&mut found.notes);
                match &header {
                    None => header = Some(found),
                    Some(first) if first.plan_hash == found.plan_hash => {}
                    Some(_) => {
                        return Err(Error::input("a second header, of another plan")
                            .at(place())
                            .help("keep the samples of each plan in a separate file"));
                    }
                }
            }
            _ if header.is_none() => {
                return Err(Error::input("the first line is not a header").at(place()).help(MEND));
            }
            Record::Block(block) => {
                // Imports have a sample a block and few digits: theirs may be alike by chance.
                let is_own = header.as_ref().is_some_and(|header| header.run != IMPORT);
                if is_own && !blocks.insert(line.trim_end()) {
                    return Err(Error::input("a block that was read before: it would count twice")
                        .at(place())
                        .help("leave the copy out"));
                }
                let ranks = header.as_ref().map_or(block.ranks, |header| header.ranks);
                let of = if block.ranks > ranks { &mut samples.whole } else { &mut samples.blocks };
                of.push(block);
            }
            Record::Abort { reason, .. } => samples.aborted.push(reason),
            Record::Launch(launch) => {
                samples.bucket = samples.bucket.or(launch.bucket);
                // A later look is at the fastest so far.
                samples.stream = launch.stream.or(samples.stream);
                samples.nics = launch.nics.or(samples.nics);
                let new = launch.slow.into_iter().filter(|slow| !samples.slow.contains(slow));
                let new: Vec<String> = new.collect();
                samples.slow.extend(new);
            }
            Record::End { .. } => {}
        }
    }
    let Some(header) = header else {
        return Err(Error::input("the file holds no samples: it is empty").at(file).help(MEND));
    };
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    samples.origin = Origin {
        files: vec![file.to_owned()],
        command: some(&header.command),
        date: some(&header.date),
        library: header.library.clone(),
        transport: some(&header.transport),
        wait: header.wait,
        machine: some(&header.machine),
        fingerprint: some(&header.fingerprint),
        span: header.span,
    };
    Ok((header, samples))
}

/// Appends records, each with one write of a whole line.
///
/// It is the only part of the library besides the transports that writes a file: a run that is
/// killed at any moment must keep what it has measured.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl Writer<File> {
    /// Opens `path` for appending, and creates it if it does not exist. A torn last line is cut
    /// off.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if another writer has it open.
    pub fn append(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        if !file.metadata()?.is_file() {
            // Opening a pipe could wait forever, and a device keeps nothing.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        file.try_lock()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64)?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Self { out: file })
    }

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        self.out.sync_data()
    }
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, which must not buffer.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes one record with a single write.
    ///
    /// # Errors
    /// The system's; if the disk took only a part of the line, a reader leaves it out.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let line = record.line();
        loop {
            match self.out.write(line.as_bytes()) {
                Ok(written) if written == line.len() => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::collective::Collective;
    use crate::machine::sample::Op;

    fn records() -> Vec<Record> {
        let header = Header {
            run: "r".into(),
            command: "collcost calibrate".into(),
            transport: "tcp".into(),
            wait: Some(Wait::Poll),
            ranks: 4,
            plan_hash: "p".into(),
            fingerprint: "f".into(),
            ..Header::default()
        };
        let sample = |ns: f64, late, waited_us: f64| Sample {
            span: Seconds(ns * 1e-9),
            late,
            run_delay: Some(Seconds(waited_us * 1e-6)),
            with_cpus: Some(Seconds((ns - 1e3 * waited_us) * 1e-9)),
        };
        let block = |b| Block {
            op: Op::run(Collective::AllReduce, "ring"),
            ranks: 4,
            size: Bytes(1 << 20),
            launch: 0,
            block: b,
            mode: Mode::Isolated,
            inner: 1,
            nodes: Some(1),
            preempted: Some(3),
            clock: Clock::Event,
            chose: "ring/ll128".parse().ok(),
            samples: vec![sample(71_231_002.0, false, 1.0), sample(71_002_113.0, true, 3e4)],
        };
        vec![
            Record::Header(header),
            Record::Launch(LaunchRecord {
                pids: vec![1, 2],
                bucket: Some(bucket()),
                stream: Some(Bandwidth(14e6)),
                ..LaunchRecord::default()
            }),
            Record::Block(block(0)),
            Record::Block(block(1)),
            Record::Abort { launch: 0, reason: "rank 3: peer closed".into() },
            Record::End { launch: 0 },
        ]
    }

    fn bucket() -> Bucket {
        Bucket { rate: Bandwidth(15e6), burst: Bytes(1_000_000) }
    }

    fn text() -> String {
        let mut writer = Writer::new(Vec::new());
        records().iter().for_each(|r| writer.write(r).unwrap());
        String::from_utf8(writer.out).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let (header, samples) = read(&text(), "x").unwrap();
        assert_eq!((header.ranks, header.wait), (4, Some(Wait::Poll)));
        assert_eq!(samples.blocks.len(), 2);
        let Record::Block(first) = &records()[2] else { panic!("a block") };
        assert_eq!(&samples.blocks[0], first);
        assert_eq!(samples.aborted, ["rank 3: peer closed"]);
        assert!(!samples.torn);
        assert_eq!((samples.bucket, samples.stream), (Some(bucket()), Some(Bandwidth(14e6))));
    }

    #[test]
    fn a_kill_at_any_byte_leaves_what_was_whole() {
        let text = text();
        let first = text.find('\n').unwrap() + 1;
        for end in first..text.len() {
            let (_, samples) = read(&text[..end], "x").unwrap();
            let whole = text[..end].matches("\n{\"t\":\"blk\"").count();
            let ended = text[..end].ends_with('\n');
            assert!(samples.blocks.len() <= whole, "{end}");
            assert!(samples.blocks.len() + 1 >= whole, "{end}");
            assert_eq!(samples.torn, !ended, "{end}");
        }
        for end in 0..first {
            let error = read(&text[..end], "x").unwrap_err();
            assert!(error.to_string().contains("holds no samples"), "{error}");
        }
    }

    #[test]
    fn damage_that_is_not_at_the_end_is_refused_with_its_line() {
        let damaged = text().replacen("71002113", "71002114", 1);
        let error = read(&damaged, "x.jsonl").unwrap_err().to_string();
        assert!(error.contains("checksum is wrong") && error.contains("x.jsonl:3"), "{error}");
        let error = read("{\"schema\": 1}\n{}\n", "x.jsonl").unwrap_err().to_string();
        assert!(error.contains("not a header") && error.contains("x.jsonl:1"), "{error}");
    }

    #[test]
    fn another_version_is_refused() {
        let line = records()[0].line();
        let text = line[..line.len() - TAIL - 1].replace("\"v\":1", "\"v\":2");
        let line = format!("{text},\"c\":\"{:08x}\"}}\n", crc32fast::hash(text.as_bytes()));
        let error = read(&line, "x").unwrap_err().to_string();
        assert!(error.contains("version 2, not 1") && error.contains("x:1"), "{error}");
    }

    #[test]
    fn appending_cuts_a_torn_line_off() {
        let path = std::env::temp_dir().join(format!("collcost-samples-{}", std::process::id()));
        std::fs::write(&path, text() + "{\"t\":\"bl").unwrap();
        Writer::append(&path).unwrap().write(&Record::End { launch: 1 }).unwrap();
        let read_back = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read_back, text() + &Record::End { launch: 1 }.line());
    }
}
