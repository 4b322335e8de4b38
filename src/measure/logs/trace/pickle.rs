//! Reads pickles of plain data without executing them.
//!
//! A pickle is a program for a stack machine. The flight recorder's pickles only build lists, dicts and
//! plain values; a file with an operation that would look up or call anything (`GLOBAL`, `REDUCE`,
//! `BUILD` …) is refused. Values are kept in one list and refer to each other by number, so neither cycles
//! nor depth are a problem.
//!
//! Source: CPython 3.13 Lib/pickletools.py.

use super::json::Fault;

/// A value.
enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<u32>),
    Dict(Vec<(u32, u32)>),
    Mark,
}

/// The values of a pickle.
pub(super) struct Pickle {
    nodes: Vec<Node>,
    root: u32,
}

/// A recorder with its longest buffer and deep stacks produces a tenth of this many.
const NODES: usize = 1 << 22;
/// A recorder writes no deeper values.
const DEPTH: usize = 32;
/// The longest entry.
const LONGEST: usize = 1 << 22;

const WHOLE: &str =
    "give the unchanged file that PyTorch wrote, or its JSON (dump_nccl_trace_json)";

fn refused(what: impl Into<String>) -> Fault {
    Fault::Refused(what.into(), WHOLE)
}

/// Bytes that are read sequentially.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.all.len());
        let part = &self.all[self.at..end.ok_or(Fault::Cut)?];
        self.at += count;
        Ok(part)
    }

    /// An unsigned integer of `count` bytes.
    fn whole(&mut self, count: usize) -> Result<u64, Fault> {
        Ok(self.take(count)?.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b)))
    }

    fn length(&mut self, count: usize) -> Result<usize, Fault> {
        usize::try_from(self.whole(count)?).map_err(|_| Fault::Cut)
    }

    fn line(&mut self) -> Result<&'a str, Fault> {
        let rest = &self.all[self.at..];
        let end = rest.iter().position(|b| *b == b'\n').ok_or(Fault::Cut)?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end])
            .map_err(|_| refused("the pickle contains text that is not UTF-8"))
    }
}

/// A signed integer of any length; a recorder writes none that does not fit.
fn long(bytes: &[u8]) -> Node {
    if bytes.len() > 8 {
        return Node::None;
    }
    let sum = bytes.iter().rev().fold(0_u64, |sum, b| sum << 8 | u64::from(*b));
    let shift = 64 - 8 * bytes.len() as u32;
    Node::Int(if shift == 64 { 0 } else { ((sum << shift) as i64) >> shift })
}

/// The machine: its stack and its memo.
struct Machine {
    nodes: Vec<Node>,
    stack: Vec<u32>,
    memo: Vec<u32>,
}

impl Machine {
    fn push(&mut self, node: Node) -> Result<(), Fault> {
        if self.nodes.len() >= NODES {
            return Err(refused("the pickle contains more values than a flight recorder writes"));
        }
        self.stack.push(self.nodes.len() as u32);
        self.nodes.push(node);
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.push(Node::Text(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn pop(&mut self) -> Result<u32, Fault> {
        self.stack
            .pop()
            .ok_or_else(|| refused("the pickle takes more from its stack than is there"))
    }

    /// Removes the last mark and the values above it, and returns these.
    fn above_mark(&mut self) -> Result<Vec<u32>, Fault> {
        let is_mark = |&n: &u32| matches!(self.nodes[n as usize], Node::Mark);
        let at = self.stack.iter().rposition(is_mark);
        let at = at.ok_or_else(|| refused("the pickle lacks a mark"))?;
        let above = self.stack.split_off(at + 1);
        self.stack.pop();
        Ok(above)
    }

    fn remember(&mut self, at: usize) -> Result<(), Fault> {
        let &top = self
            .stack
            .last()
            .ok_or_else(|| refused("the pickle's stack is empty where it stores to its memo"))?;
        if at > NODES {
            return Err(refused("the pickle's memo has more entries than values"));
        }
        if at >= self.memo.len() {
            self.memo.resize(at + 1, u32::MAX);
        }
        self.memo[at] = top;
        Ok(())
    }

    fn recall(&mut self, at: usize) -> Result<(), Fault> {
        let known = self.memo.get(at).copied().filter(|&n| n != u32::MAX);
        self.stack.push(
            known.ok_or_else(|| refused("the pickle reads a memo entry that it never held"))?,
        );
        Ok(())
    }

    fn extend(&mut self, items: Vec<u32>) -> Result<(), Fault> {
        match self.stack.last().map(|&top| &mut self.nodes[top as usize]) {
            Some(Node::List(list)) => list.extend(items),
            _ => return Err(refused("the pickle appends to something that is no list")),
        }
        Ok(())
    }

    fn set(&mut self, items: &[u32]) -> Result<(), Fault> {
        match self.stack.last().map(|&top| &mut self.nodes[top as usize]) {
            Some(Node::Dict(dict)) => dict.extend(items.chunks_exact(2).map(|p| (p[0], p[1]))),
            _ => return Err(refused("the pickle sets a key of something that is no dict")),
        }
        Ok(())
    }

    fn tuple(&mut self, count: usize) -> Result<(), Fault> {
        let at = self.stack.len().checked_sub(count);
        let at = at.ok_or_else(|| refused("the pickle takes more from its stack than is there"))?;
        let items = self.stack.split_off(at);
        self.push(Node::List(items))
    }

    /// Executes one operation; returns whether more follow.
    fn step(&mut self, bytes: &mut Bytes) -> Result<bool, Fault> {
        let code = bytes.take(1)?[0];
        match code {
            b'.' => return Ok(false),
            0x80 => drop(bytes.take(1)?),
            0x95 => drop(bytes.take(8)?),
            b'(' => self.push(Node::Mark)?,
            b'N' => self.push(Node::None)?,
            0x88 => self.push(Node::Bool(true))?,
            0x89 => self.push(Node::Bool(false))?,
            b'I' => match bytes.line()? {
                "01" => self.push(Node::Bool(true))?,
                "00" => self.push(Node::Bool(false))?,
                number => self.push(number.parse().map_or(Node::None, Node::Int))?,
            },
            b'L' => {
                let number = bytes.line()?.trim_end_matches('L').parse();
                self.push(number.map_or(Node::None, Node::Int))?;
            }
            b'J' => {
                let number = long(bytes.take(4)?);
                self.push(number)?;
            }
            b'K' => {
                let number = bytes.whole(1)? as i64;
                self.push(Node::Int(number))?;
            }
            b'M' => {
                let number = bytes.whole(2)? as i64;
                self.push(Node::Int(number))?;
            }
            0x8a | 0x8b => {
                let length = bytes.length(if code == 0x8a { 1 } else { 4 })?;
                let number = long(bytes.take(length)?);
                self.push(number)?;
            }
            b'F' => {
                let number = bytes.line()?.parse();
                self.push(number.map_or(Node::None, Node::Float))?;
            }
            b'G' => {
                let number = bytes.take(8)?.iter().fold(0, |sum, b| sum << 8 | u64::from(*b));
                self.push(Node::Float(f64::from_bits(number)))?;
            }
            b'S' | b'V' => {
                let text = bytes.line()?;
                self.text(text.trim_matches(['\'', '"']).as_bytes())?;
            }
            b'X' | b'T' | b'B' | b'U' | b'C' | 0x8c | 0x8d | 0x8e => {
                let length = bytes.length(match code {
                    b'U' | b'C' | 0x8c => 1,
                    0x8d | 0x8e => 8,
                    _ => 4,
                })?;
                let text = bytes.take(length)?;
                self.text(text)?;
            }
            b']' | b')' => self.push(Node::List(Vec::new()))?,
            b'}' => self.push(Node::Dict(Vec::new()))?,
            b'l' | b't' => {
                let items = self.above_mark()?;
                self.push(Node::List(items))?;
            }
            b'd' => {
                let items = self.above_mark()?;
                self.push(Node::Dict(Vec::new()))?;
                self.set(&items)?;
            }
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            b'e' => {
                let items = self.above_mark()?;
                self.extend(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.above_mark()?;
                self.set(&items)?;
            }
            b'0' => drop(self.pop()?),
            b'1' => drop(self.above_mark()?),
            b'2' => {
                let top = self.pop()?;
                self.stack.extend([top, top]);
            }
            b'p' | b'g' => {
                let at = bytes.line()?.parse().unwrap_or(usize::MAX);
                if code == b'p' { self.remember(at)? } else { self.recall(at)? }
            }
            b'q' | b'r' => {
                let at = bytes.length(if code == b'q' { 1 } else { 4 })?;
                self.remember(at)?;
            }
            0x94 => self.remember(self.memo.len())?,
            b'h' | b'j' => {
                let at = bytes.length(if code == b'h' { 1 } else { 4 })?;
                self.recall(at)?;
            }
            _ => {
                return Err(refused(format!(
                    "the pickle would build objects (operation {code:#04x}): such a file is a program, which \
                     is not run"
                )));
            }
        }
        Ok(true)
    }
}

/// Reads a pickle.
///
/// # Errors
/// The pickle would do more than build plain data, or is damaged.
pub(super) fn read(bytes: &[u8]) -> Result<Pickle, Fault> {
    let mut machine = Machine { nodes: Vec::new(), stack: Vec::new(), memo: Vec::new() };
    let mut bytes = Bytes { all: bytes, at: 0 };
    loop {
        match machine.step(&mut bytes) {
            Ok(true) => {}
            Ok(false) => break,
            // A truncated program has built nothing.
            Err(Fault::Cut) => return Err(refused("the pickle is cut off")),
            Err(fault) => return Err(fault),
        }
    }
    let root = machine.pop()?;
    Ok(Pickle { nodes: machine.nodes, root })
}

impl Pickle {
    /// The value of a key of the outermost dict.
    pub fn key(&self, name: &str) -> Option<u32> {
        let Node::Dict(dict) = &self.nodes[self.root as usize] else { return None };
        dict.iter().find(|(key, _)| self.is(*key, name)).map(|&(_, value)| value)
    }

    /// The values of a list.
    pub fn list(&self, node: u32) -> &[u32] {
        match &self.nodes[node as usize] {
            Node::List(list) => list,
            _ => &[],
        }
    }

    fn is(&self, node: u32, name: &str) -> bool {
        matches!(&self.nodes[node as usize], Node::Text(text) if text == name)
    }

    /// A value as JSON without the keys in `but`; `None` if it is too deep or too long.
    pub fn json(&self, node: u32, but: &[&str]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.write(node, but, DEPTH, &mut out).then_some(out)
    }

    fn write(&self, node: u32, but: &[&str], depth: usize, out: &mut Vec<u8>) -> bool {
        if depth == 0 || out.len() > LONGEST {
            return false;
        }
        match &self.nodes[node as usize] {
            Node::None | Node::Mark => out.extend(b"null"),
            Node::Bool(b) => out.extend(b.to_string().bytes()),
            Node::Int(i) => out.extend(i.to_string().bytes()),
            Node::Float(x) => out.extend(x.to_string().bytes()),
            Node::Text(text) => {
                out.extend(serde_json::Value::from(text.as_str()).to_string().bytes())
            }
            Node::List(list) => {
                out.push(b'[');
                for (i, &item) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    if !self.write(item, but, depth - 1, out) {
                        return false;
                    }
                }
                out.push(b']');
            }
            Node::Dict(dict) => {
                out.push(b'{');
                let mut first = true;
                for &(key, value) in dict {
                    let Node::Text(name) = &self.nodes[key as usize] else { continue };
                    if but.contains(&name.as_str()) {
                        continue;
                    }
                    if !std::mem::take(&mut first) {
                        out.push(b',');
                    }
                    self.write(key, but, depth - 1, out);
                    out.push(b':');
                    if !self.write(value, but, depth - 1, out) {
                        return false;
                    }
                }
                out.push(b'}');
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(bytes: &[u8]) -> Result<String, String> {
        let pickle = read(bytes).map_err(|fault| match fault {
            Fault::Refused(what, _) => what,
            other => format!("{other:?}"),
        })?;
        Ok(String::from_utf8(pickle.json(pickle.root, &["frames"]).unwrap_or_default()).unwrap())
    }

    #[test]
    fn plain_data_is_read() {
        // {"a": [1, -2, 2.5, None, True], "frames": 7, "b": ("x", "x")}, by memo and by mark.
        let bytes = b"\x80\x02}(X\x01\0\0\0a](K\x01J\xfe\xff\xff\xffG\x40\x04\0\0\0\0\0\0N\x88eX\x06\0\0\0framesK\x07X\x01\0\0\0bX\x01\0\0\0xq\x05h\x05\x86u.";
        assert_eq!(json(bytes).unwrap(), r#"{"a":[1,-2,2.5,null,true],"b":["x","x"]}"#);
        assert_eq!(json(b"\x80\x02\x8a\x03\x00\x00\x80.").unwrap(), "-8388608");
    }

    #[test]
    fn programs_and_damage_are_refused() {
        // posix.system("true")
        let system = b"cposix\nsystem\n(S'true'\ntR.";
        assert!(json(system).unwrap_err().contains("is not run"));
        for (bytes, what) in [
            (b"\x80\x02}(X\xff\xff\xff\xffa".as_slice(), "cut off"),
            (b"a.", "more from its stack"),
            (b"h\x05.", "never held"),
            (b"K\x01K\x02s.", "no dict"),
            (b"\x80\x04\x93.", "is not run"),
        ] {
            let said = json(bytes).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
    }

    #[test]
    fn a_list_that_holds_itself_and_one_of_great_depth_end() {
        assert_eq!(json(b"]q\0h\0a.").unwrap(), "");
        let mut deep = vec![b']'; 100_000];
        deep.extend(vec![b'a'; 99_999]);
        deep.push(b'.');
        assert_eq!(json(&deep).unwrap(), "");
    }
}
