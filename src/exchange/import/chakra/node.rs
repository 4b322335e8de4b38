//! The nodes of one rank's file: lengths and messages, first the file's own metadata, then a node
//! each (et_def.proto of github.com/mlcommons/chakra, 0.0.4).

use std::collections::HashMap;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::protobuf::{Broken, Message, Value};
use crate::base::quantity::{Bytes, Seconds};

/// A node of a rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Its number in the file.
    pub id: u64,
    pub does: Does,
    /// The nodes that it waits for, by number.
    pub after: Vec<u64>,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Does {
    /// Computes, or copies within memory: so long, on the GPU or on the host.
    Computes {
        time: Seconds,
        on_host: bool,
    },
    Sends {
        to: u32,
        tag: u64,
        bytes: Bytes,
    },
    Receives {
        from: u32,
        tag: u64,
        bytes: Bytes,
    },
    Calls(Call),
}

/// A rank's part of a collective.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub collective: Collective,
    /// What each rank puts in.
    pub bytes: Bytes,
    /// Its communicator; absent: all ranks.
    pub group: Option<String>,
    /// A rank of the trace; absent: the first of the group.
    pub root: Option<u32>,
}

/// `NodeType`.
mod kind {
    pub const INVALID: u64 = 0;
    pub const METADATA: u64 = 1;
    pub const LOAD: u64 = 2;
    pub const STORE: u64 = 3;
    pub const COMPUTES: u64 = 4;
    pub const SENDS: u64 = 5;
    pub const RECEIVES: u64 = 6;
    pub const CALLS: u64 = 7;
    pub const STORAGE: u64 = 8;
    pub const BATCH: u64 = 9;
    pub const CHECKPOINT: u64 = 10;
}

/// The nodes of a file.
///
/// # Errors
/// Bytes that are no Chakra trace; a node that does not say what it needs.
pub(super) fn nodes(bytes: &[u8], file: &str) -> Result<Vec<Node>> {
    let broken = |Broken| {
        Error::input("this is not a Chakra trace: its messages end within a value")
            .at(file)
            .help("give whole files of protobuf, as Chakra's converters write them, unpacked")
    };
    let mut rest = Message(bytes);
    rest.delimited().map_err(broken)?;
    let mut nodes = Vec::new();
    while !rest.0.is_empty() {
        let message = Message(rest.delimited().map_err(broken)?);
        let raw = Raw::of(message).map_err(broken)?;
        let place = |e: Error| e.at(format!("{file}, node {}", raw.id));
        nodes.push(raw.node().map_err(place)?);
    }
    match nodes.is_empty() {
        false => Ok(nodes),
        true => Err(Error::input("the trace has no nodes")
            .at(file)
            .help("give the files that Chakra's converter wrote, one for each rank")),
    }
}

/// A node as written.
#[derive(Default)]
struct Raw<'a> {
    id: u64,
    kind: u64,
    after: Vec<u64>,
    micros: u64,
    /// The field that holds the value tells its type.
    attributes: HashMap<&'a [u8], (u64, Value<'a>)>,
}

impl<'a> Raw<'a> {
    fn of(mut message: Message<'a>) -> std::result::Result<Self, Broken> {
        let mut raw = Self::default();
        while let Some((field, value)) = message.field()? {
            match (field, value) {
                (1, _) => raw.id = value.number(),
                (3, _) => raw.kind = value.number(),
                (4 | 5, Value::Bytes(packed)) => {
                    let mut packed = Message(packed);
                    while !packed.0.is_empty() {
                        raw.after.push(packed.number()?);
                    }
                }
                (4 | 5, _) => raw.after.push(value.number()),
                (7, _) => raw.micros = value.number(),
                (10, _) => raw.attribute(Message(value.bytes()))?,
                _ => {}
            }
        }
        Ok(raw)
    }

    fn attribute(&mut self, mut message: Message<'a>) -> std::result::Result<(), Broken> {
        let (mut name, mut content) = (&b""[..], None);
        while let Some((field, value)) = message.field()? {
            match field {
                1 => name = value.bytes(),
                2 => {}
                _ => content = Some((field, value)),
            }
        }
        if let Some(content) = content {
            self.attributes.insert(name, content);
        }
        Ok(())
    }

    fn node(&self) -> Result<Node> {
        let does = match self.kind {
            kind::INVALID | kind::METADATA => Does::Computes { time: Seconds(0.0), on_host: true },
            // What the host's storage does; who waits for it says so.
            kind::STORAGE | kind::BATCH | kind::CHECKPOINT => {
                Does::Computes { time: Seconds(self.micros as f64 * 1e-6), on_host: true }
            }
            kind::LOAD | kind::STORE | kind::COMPUTES => self.computes()?,
            kind::SENDS => Does::Sends {
                to: self.rank("comm_dst")?,
                tag: self.number("comm_tag")?.unwrap_or(0),
                bytes: Bytes(self.needed("comm_size")?),
            },
            kind::RECEIVES => Does::Receives {
                from: self.rank("comm_src")?,
                tag: self.number("comm_tag")?.unwrap_or(0),
                bytes: Bytes(self.needed("comm_size")?),
            },
            kind::CALLS => Does::Calls(self.call()?),
            other => {
                return Err(Error::input(format!("{other} is not a type of node"))
                    .help("types are 1 (metadata) to 10 (checkpoint)"));
            }
        };
        Ok(Node { id: self.id, does, after: self.after.clone() })
    }

    fn computes(&self) -> Result<Does> {
        let operations = self.number("num_ops")?.unwrap_or(0);
        if self.micros == 0 && operations > 0 {
            return Err(Error::unsupported(format!(
                "the node has {operations} operations, but not their time"
            ))
            .help("write duration_micros into the nodes that compute (traces made by a profiler have it), or num_ops = 0 to time the messages alone"));
        }
        let on_host = self.number("is_cpu_op")?.unwrap_or(0) != 0;
        Ok(Does::Computes { time: Seconds(self.micros as f64 * 1e-6), on_host })
    }

    fn call(&self) -> Result<Call> {
        let collective = match self.number("comm_type")?.unwrap_or(0) {
            0 => Collective::AllReduce,
            1 => Collective::Reduce,
            2 => Collective::AllGather,
            3 => Collective::Gather,
            4 => Collective::Scatter,
            5 => Collective::Broadcast,
            6 => Collective::AllToAll,
            7 | 8 => Collective::ReduceScatter,
            9 => Collective::Barrier,
            other => {
                return Err(Error::input(format!("comm_type {other} is not a collective"))
                    .help("comm_type is 0 (all-reduce) to 9 (barrier)"));
            }
        };
        self.all_dimensions()?;
        let bytes = match collective {
            Collective::Barrier => 0,
            _ => self.needed("comm_size")?,
        };
        let root = self.number("root_rank")?.map(|_| self.rank("root_rank")).transpose()?;
        let group = self.text("pg_name")?.filter(|name| !name.is_empty());
        Ok(Call { collective, bytes: Bytes(bytes), group, root })
    }

    /// ASTRA-sim's own way to name a group selects dimensions of its network, which a fabric does
    /// not have.
    fn all_dimensions(&self) -> Result<()> {
        let Some((_, value)) = self.attributes.get(&b"involved_dim"[..]) else { return Ok(()) };
        let mut list = Message(value.bytes());
        while let Ok(Some((_, value))) = list.field() {
            let some = matches!(value, Value::Bytes(packed) if packed.contains(&0));
            if some || value == Value::Number(0) {
                return Err(Error::unsupported(
                    "involved_dim selects dimensions of ASTRA-sim's network",
                )
                .help("name the group of ranks with the attribute pg_name"));
            }
        }
        Ok(())
    }

    /// A whole number; attributes of every such type are accepted, and numbers as text.
    fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(&(field, value)) = self.attributes.get(name.as_bytes()) else { return Ok(None) };
        let number = match (field, value) {
            // int32, int64, sfixed32, sfixed64: below 0 as two's complement.
            (7 | 9 | 25, _) => u64::try_from(value.number().cast_signed()).ok(),
            (23, _) => u64::try_from((value.number() as u32).cast_signed()).ok(),
            (11 | 13 | 19 | 21 | 27, _) => Some(value.number()),
            // sint32, sint64: the lowest bit is the sign.
            (15 | 17, _) => Some(value.number()).filter(|x| x % 2 == 0).map(|x| x / 2),
            (29, _) => std::str::from_utf8(value.bytes()).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        let number = number.ok_or_else(|| {
            Error::input(format!("{name} is not a whole number of at least 0"))
                .help(format!("write {name} as an attribute of type int64 or uint64"))
        })?;
        Ok(Some(number))
    }

    fn needed(&self, name: &str) -> Result<u64> {
        self.number(name)?.ok_or_else(|| {
            Error::input(format!("the node has no {name}"))
                .help(format!("add the attribute {name} to nodes that communicate"))
        })
    }

    fn rank(&self, name: &str) -> Result<u32> {
        let rank = self.needed(name)?;
        u32::try_from(rank).map_err(|_| {
            Error::input(format!("{name} {rank} is not a rank"))
                .help("ranks are numbered as the files are, from 0")
        })
    }

    /// A text, or a number written as one.
    fn text(&self, name: &str) -> Result<Option<String>> {
        match self.attributes.get(name.as_bytes()) {
            Some((29 | 31, value)) => Ok(Some(String::from_utf8_lossy(value.bytes()).into_owned())),
            _ => Ok(self.number(name)?.map(|number| number.to_string())),
        }
    }
}
