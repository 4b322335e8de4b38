//! Files of a megabyte, as bad as rules can make them out of a small good one: very many of one of
//! its parts, very long words and numbers, numbers that ask for very much, very deep nesting, bytes
//! that are nothing. What is drawn depends on the number of the case alone.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::Value;

/// How long they are.
const LONG: usize = 1_000_000;

pub struct Case {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Numbers drawn by a multiplicative generator; the high half is good enough.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Numbers that ask for more than a machine has.
const LARGE: [&str; 8] = [
    "4294967295",
    "18446744073709551615",
    "9007199254740993",
    "1e308",
    "1048576",
    "16777216",
    "65536",
    "-1",
];

/// What opens and never closes, or does.
const NESTS: [(&str, &str, &str); 7] = [
    ("[", "", "]"),
    ("{\"a\":", "1", "}"),
    ("<a>", "", "</a>"),
    ("(", "", ")"),
    ("a.", "a = 1", ""),
    ("{a=", "1", "}"),
    ("- ", "a", ""),
];

/// The case of that number, made of `seed`.
pub fn case(seed: &str, number: usize) -> Case {
    let mut dice =
        Dice(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9));
    dice.below(2);
    let parsed: Option<Value> = serde_json::from_str(seed).ok();
    let (name, text) = match (number % 8, parsed) {
        (0 | 3, Some(mut value)) => grown(&mut value, &mut dice),
        (0, None) => many(seed, &mut dice, false),
        (1..=2, _) => many(seed, &mut dice, true),
        (3 | 4, _) => long_word(seed, &mut dice),
        (5, _) => large_numbers(seed, &mut dice),
        (6, _) => nested(seed, &mut dice),
        _ => return noise(seed, &mut dice),
    };
    Case { name, bytes: text.into_bytes() }
}

/// Where parts of `text` begin and end: a line, and what is indented below it or stands before the
/// next head.
fn part(lines: &[&str], at: usize) -> std::ops::Range<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_head = |line: &str| line.starts_with('[');
    let own = indent(lines[at]);
    let ends = |line: &&str| match is_head(lines[at]) {
        true => is_head(line),
        false => indent(line) <= own,
    };
    let below = lines[at + 1..].iter().position(ends).unwrap_or(lines.len() - at - 1);
    let mut end = at + 1 + below;
    if below > 0
        && lines.get(end).is_some_and(|line| line.trim_start().starts_with(['<', '}', ']']))
    {
        end += 1;
    }
    at..end
}

/// `text` with the numbers in it, or those behind letters, replaced by `count`.
fn counted(text: &str, count: usize, only_names: bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let begins = c.is_ascii_digit() && !before.is_ascii_digit() && before != '.';
        if begins && (!only_names || before.is_alphabetic() || before == '"') {
            while chars.next_if(char::is_ascii_digit).is_some() {}
            write!(out, "{count}").unwrap();
            before = '0';
            continue;
        }
        out.push(c);
        before = c;
    }
    out
}

/// One part very often, as it is or with numbers of its own.
fn many(seed: &str, dice: &mut Dice, counts: bool) -> (String, String) {
    let lines: Vec<&str> = seed.lines().collect();
    let at = dice.below(lines.len());
    let range = part(&lines, at);
    let body = lines[range.clone()].join("\n") + "\n";
    let only_names = dice.below(2) == 0;
    let mut text = lines[..at].join("\n") + if at > 0 { "\n" } else { "" };
    let mut count = 0;
    while text.len() < LONG && body.len() > 1 || count == 0 {
        match counts {
            true => text += &counted(&body, count, only_names),
            false => text += &body,
        }
        count += 1;
    }
    text += &lines[range.end..].join("\n");
    let how = match (counts, only_names) {
        (false, _) => "",
        (true, true) => ", names counted",
        (true, false) => ", numbers counted",
    };
    (format!("line {} {count} times{how}", at + 1), text + "\n")
}

/// The places of words, or of numbers.
fn words(seed: &str, numbers: bool) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    for (i, c) in seed.char_indices().chain([(seed.len(), ' ')]) {
        let fits =
            if numbers { c.is_ascii_digit() } else { c.is_alphanumeric() || "_-./".contains(c) };
        match (fits, start) {
            (true, None) => start = Some(i),
            (false, Some(from)) => {
                found.push(from..i);
                start = None;
            }
            _ => {}
        }
    }
    found
}

fn with(seed: &str, place: std::ops::Range<usize>, word: &str) -> String {
    [&seed[..place.start], word, &seed[place.end..]].concat()
}

fn long_word(seed: &str, dice: &mut Dice) -> (String, String) {
    let numbers = dice.below(2) == 0;
    let all = words(seed, numbers);
    let Some(place) = (!all.is_empty()).then(|| dice.one(&all).clone()) else {
        return ("a long word".to_owned(), "a".repeat(LONG));
    };
    let unit: &&str = match numbers {
        true => dice.one(&["9", "0", "1,", "1 ", "0.0"]),
        false => dice.one(&["a", "a,", "a b ", "é", "\\n", "a.", "a/", "..", "*", "%s", "a=1,"]),
    };
    let word = seed[place.clone()].to_owned() + &unit.repeat(LONG / unit.len());
    (format!("`{}` and a long run of `{unit}`", &seed[place.clone()]), with(seed, place, &word))
}

/// Numbers that ask for very much; all of these files are short.
fn large_numbers(seed: &str, dice: &mut Dice) -> (String, String) {
    let all = words(seed, true);
    let Some(place) = (!all.is_empty()).then(|| dice.one(&all).clone()) else {
        return ("numbers".to_owned(), "9".repeat(LONG));
    };
    let large = dice.one(&LARGE);
    (format!("{large} for `{}`", &seed[place.clone()]), with(seed, place, large))
}

fn nested(seed: &str, dice: &mut Dice) -> (String, String) {
    let (open, inner, close) = *dice.one(&NESTS);
    let depth = LONG / (open.len() + close.len());
    let closes = dice.below(2) == 0;
    let nest = open.repeat(depth) + inner + &close.repeat(if closes { depth } else { 0 });
    let all = words(seed, false);
    match dice.below(3) {
        0 => (format!("nothing but `{open}` {depth} deep"), nest),
        _ if all.is_empty() => (format!("nothing but `{open}` {depth} deep"), nest),
        _ => {
            let place = dice.one(&all).clone();
            (
                format!("`{open}` {depth} deep for `{}`", &seed[place.clone()]),
                with(seed, place, &nest),
            )
        }
    }
}

/// Behind the seed, or instead of it, bytes that mean nothing.
fn noise(seed: &str, dice: &mut Dice) -> Case {
    let (name, unit): (_, Vec<u8>) = match dice.below(7) {
        0 => ("line ends", b"\n".to_vec()),
        1 => ("spaces", b" ".to_vec()),
        2 => ("zeros", vec![0]),
        3 => ("bytes of no text", vec![0xff]),
        4 => ("comment signs", b"#".to_vec()),
        5 => ("quotes", b"\"".to_vec()),
        _ => {
            let mut bytes = seed.as_bytes().to_vec();
            bytes.resize(bytes.len() + 32 * LONG, b' ');
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            packer.write_all(&bytes).unwrap();
            return Case { name: "gzip of spaces".to_owned(), bytes: packer.finish().unwrap() };
        }
    };
    let keeps = dice.below(2) == 0;
    let mut bytes = if keeps { seed.as_bytes().to_vec() } else { Vec::new() };
    bytes.extend(unit.repeat(LONG / unit.len()));
    Case { name: format!("{}{name}", if keeps { "then " } else { "" }), bytes }
}

/// One array or object of a JSON text with very many entries.
fn grown(value: &mut Value, dice: &mut Dice) -> (String, String) {
    let (mut arrays, mut objects) = (0, 0);
    count(value, &mut arrays, &mut objects);
    let counts = dice.below(3);
    let in_array = arrays > 0 && (objects == 0 || dice.below(3) > 0);
    let mut left = dice.below(if in_array { arrays } else { objects });
    let mut name = String::new();
    grow(value, &mut left, in_array, counts, &mut name);
    (name, value.to_string())
}

fn count(value: &Value, arrays: &mut usize, objects: &mut usize) {
    match value {
        Value::Array(all) => {
            *arrays += 1;
            all.iter().for_each(|v| count(v, arrays, objects));
        }
        Value::Object(all) => {
            *objects += 1;
            all.values().for_each(|v| count(v, arrays, objects));
        }
        _ => {}
    }
}

/// Whether it was this one or one inside.
fn grow(
    value: &mut Value,
    left: &mut usize,
    in_array: bool,
    counts: usize,
    name: &mut String,
) -> bool {
    let is_it = value.is_array() && in_array || value.is_object() && !in_array;
    if is_it && *left > 0 {
        *left -= 1;
    } else if is_it {
        let first = match &*value {
            Value::Array(all) => all.first().cloned().unwrap_or(Value::Null),
            Value::Object(all) => all.values().next().cloned().unwrap_or(Value::Null),
            _ => Value::Null,
        };
        let text = first.to_string();
        let times = LONG / (text.len() + if in_array { 1 } else { 10 });
        let entry = |i: usize| -> Value {
            let own = || counted(&text, i, counts == 1);
            let text = if counts == 0 { text.clone() } else { own() };
            serde_json::from_str(&text).unwrap_or_else(|_| first.clone())
        };
        match value {
            Value::Array(all) => all.extend((0..times).map(entry)),
            Value::Object(all) => all.extend((0..times).map(|i| (format!("k{i}"), entry(i)))),
            _ => {}
        }
        let short: String = text.chars().take(24).collect();
        *name = format!("{times} more of `{short}`");
        return true;
    }
    match value {
        Value::Array(all) => all.iter_mut().any(|v| grow(v, left, in_array, counts, name)),
        Value::Object(all) => all.values_mut().any(|v| grow(v, left, in_array, counts, name)),
        _ => false,
    }
}

/// What only this kind can be, beside what any can.
pub fn own(kind: &str) -> Vec<Case> {
    let case = |name: &str, bytes: Vec<u8>| Case { name: name.to_owned(), bytes };
    let text = |name: &str, text: String| case(name, text.into_bytes());
    let list = |count: usize, of: &dyn Fn(usize) -> String| -> String {
        (0..count).map(of).collect::<Vec<_>>().join(",")
    };
    match kind {
        "flight recorder, pickle" => {
            let pickle = |body: &[u8]| [b"\x80\x04".as_slice(), body, b"."].concat();
            let of = |unit: &[u8]| pickle(&unit.repeat(LONG / unit.len()));
            // Lists of the list before, twice each: unfolded they would have 2^n values.
            let shared = [b"]\x94".as_slice(), &b"](h\x00h\x00e\x94".repeat(LONG / 9)].concat();
            vec![
                case("marks", of(b"(")),
                case("empty lists", of(b"]")),
                case("empty dicts", of(b"}")),
                case("nothing", of(b"N")),
                case("a list of one byte each", pickle(&[b"](".as_slice(), &b"N".repeat(LONG), b"e"].concat())),
                case("copies of the top", pickle(&[b"]".as_slice(), &b"2".repeat(LONG)].concat())),
                case("lists of lists", of(b"](")),
                case("tuples of tuples", pickle(&[b")".as_slice(), &b"\x85".repeat(LONG)].concat())),
                case("shared lists", pickle(&shared)),
                case("a long text", pickle(&[b"X\xff\xff\xff\x7f".as_slice(), &vec![b'a'; LONG]].concat())),
                case("a far memo", of(b"]r\xff\xff\x3f\x00")),
            ]
        }
        "Nsight Systems" => {
            let page = |size: u16, fill: u8| {
                let mut bytes = b"SQLite format 3\0".to_vec();
                bytes.extend(size.to_be_bytes());
                bytes.extend([1, 1, 0, 64, 32, 32]);
                bytes.resize(100, 0);
                // A leaf of the schema with very many cells.
                bytes.extend([fill, 0, 0, 0xff, 0xff, 0, 0, 0]);
                bytes.resize(LONG, fill);
                bytes
            };
            let all = [(512, 13), (4096, 5), (1, 13), (4096, 2), (512, 10)];
            all.map(|(size, fill)| case(&format!("pages of {size} full of {fill}"), page(size, fill))).into()
        }
        "fabric" => {
            let full = |n: usize| {
                let link = |i: usize| {
                    format!("{{\"from\":\"g{}\",\"to\":\"g{}\",\"bw\":1e9}}", i / n, i % n)
                };
                let pairs: Vec<usize> = (0..n * n).filter(|i| i / n != i % n).collect();
                format!("{{\"ranks\":{n},\"links\":[{}]}}", list(pairs.len(), &|i| link(pairs[i])))
            };
            let ring = |n: usize| {
                let link = |i: usize| {
                    format!("{{\"between\":[\"g{i}\",\"g{}\"],\"bw\":{}}}", (i + 1) % n, 1_000_003 + i)
                };
                format!("{{\"ranks\":{n},\"links\":[{}]}}", list(n, &link))
            };
            vec![
                text("every pair of 140 ranks", full(140)),
                text("a ring of 200 ranks, no two rates alike", ring(200)),
                text("a ring of 20000 ranks, no two rates alike", ring(20_000)),
                text("4294967295 ranks", "ranks = 4294967295\n".to_owned()),
                text("16 million ranks", "ranks = 16000000\nlinks = []\n".to_owned()),
            ]
        }
        "fabric, generated" => {
            let made = |rest: &str| format!("[generate]\nbw = \"1GB/s\"\n{rest}\n");
            [
                "kind = \"full\"\nranks = 4000",
                "kind = \"full\"\nranks = 1000",
                "kind = \"torus\"\nsides = [1000, 1000, 1000]",
                "kind = \"hypercube\"\ndimension = 24",
                "kind = \"hypercube\"\ndimension = 16",
                "kind = \"fat-tree\"\nk = 200",
                "kind = \"fat-tree\"\nk = 64",
                "kind = \"ring\"\nranks = 4000000000",
                "kind = \"ring\"\nranks = 131072",
                "kind = \"ring\"\nranks = 5000",
                "kind = \"star\"\nranks = 131072",
                "kind = \"star\"\nranks = 5000",
                "kind = \"mesh\"\nsides = [64, 64]",
                "kind = \"mesh\"\nsides = [300, 300]",
                "kind = \"torus\"\nsides = [16, 16]",
                "kind = \"leaf-spine\"\nleaves = 1\nhosts = 1\nspines = 4294967295",
                "kind = \"leaf-spine\"\nleaves = 1000\nhosts = 100\nspines = 500",
                "kind = \"dragonfly\"\ngroups = 60000\nrouters = 60000\nhosts = 1\nglobal = 60000\nlocal_bw = 1\nglobal_bw = 1",
                "kind = \"dragonfly\"\ngroups = 1\nrouters = 4294967295\nhosts = 0\nglobal = 1\nlocal_bw = 1\nglobal_bw = 1",
                "kind = \"boxes\"\nboxes = 10\ngpus = 10000\nmesh = 1",
            ]
            .map(|rest| text(&rest.replace('\n', ", "), made(rest)))
            .into()
        }
        "nccl-tests, judged" => {
            let row = |i: usize| {
                let times = format!("{}.0 104.86 183.50 0", 10 * i);
                format!("{} {} float sum -1 {times} {times}\n", i << 20, i << 18)
            };
            let log = include_str!("../../data/logs/all_reduce.txt").to_owned();
            vec![text("8000 sizes", log + &(200..8_200).map(row).collect::<String>())]
        }
        "jobs on a fabric" => {
            let message = |i: usize| {
                format!("{{\"id\":\"m{i}\",\"from\":\"g{}\",\"to\":\"g{}\",\"bytes\":{}}}", i % 8, (i + 1) % 8, i + 1)
            };
            let chained = |i: usize| {
                format!("{{\"id\":\"m{i}\",\"from\":\"g{}\",\"to\":\"g{}\",\"bytes\":9,\"after\":[\"m{}\"]}}",
                        i % 8, (i + 3) % 8, i.saturating_sub(1)).replace("\"m0\"],", "],")
            };
            let one = |messages: String| format!("{{\"jobs\":[{{\"name\":\"a\",\"messages\":[{messages}]}}]}}");
            let job = |i: usize| format!("{{\"name\":\"j{i}\",\"messages\":[]}}");
            let after = list(60_000, &|i| format!("\"j{}\"", i % 9000));
            let named = |size: &str, name: &str, count: usize| {
                let job = |i: usize| {
                    format!("{{\"name\":\"j{i}\",\"collective\":\"alltoall\",\"algorithm\":\"{name}\",\"size\":\"{size}\"}}")
                };
                format!("{{\"jobs\":[{}]}}", list(count, &job))
            };
            vec![
                text("16000 messages at once", one(list(16_000, &message))),
                text("13000 messages in a row", one(list(13_000, &chained).replace("\"after\":[\"m0\"]", "\"after\":[]"))),
                text("30000 jobs", format!("{{\"jobs\":[{}]}}", list(30_000, &job))),
                text("a job after 60000", format!("{{\"jobs\":[{},{{\"name\":\"z\",\"messages\":[],\"after\":[{after}]}}]}}", list(9000, &job))),
                text("11000 all-to-alls", named("1MiB", "pairwise", 11_000)),
            ]
        }
        "events" | "events, simulated" => {
            let head = |ranks: u64, switches: u64, chunks: usize| {
                let bytes = list(chunks, &|_| "1".to_owned());
                format!("{{\"schema\":\"collcost/events/1\",\"collective\":\"allgather\",\"ranks\":{ranks},\"switches\":{switches},\"chunk_bytes\":[{bytes}]}}\n")
            };
            let line = |i: usize| format!("{{\"round\":{i},\"from\":{},\"to\":{},\"chunks\":[{}],\"op\":\"copy\"}}\n", i % 4, (i + 1) % 4, i % 4);
            let at_once = |i: usize| line(i).replacen(&format!("\"round\":{i}"), "\"round\":0", 1);
            let whole = list(300_000, &|i| (i % 9).to_string());
            vec![
                text("16000 rounds", head(4, 0, 4) + &(0..16_000).map(line).collect::<String>()),
                text("16000 messages in a round", head(4, 0, 4) + &(0..16_000).map(at_once).collect::<String>()),
                text("a message of 300000 chunks", head(4, 0, 9) + &format!("{{\"round\":0,\"from\":0,\"to\":1,\"chunks\":[{whole}],\"op\":\"copy\"}}\n")),
                text("400000 chunks", head(4, 0, 400_000)),
                text("a million ranks", head(1_000_000, 0, 1)),
                text("2000 ranks of 4000 chunks", head(2000, 0, 4000)),
                text("2^31 switches", head(2, 1 << 31, 1)),
                text("a late round", head(2, 0, 1) + "{\"round\":4294967295,\"from\":0,\"to\":1,\"chunks\":[0],\"op\":\"copy\"}\n"),
            ]
        }
        "profile" | "profile, asked" | "budgets" | "settings" | "steps" => vec![
            text("one key and very many dots", format!("{} = 1\n", vec!["a"; LONG / 2].join("."))),
            text("a table in a table, 300000 deep", format!("[{}]\n", vec!["a"; 300_000].join("."))),
            text("very many tables", (0..90_000).map(|i| format!("[t{i}]\na=1\n")).collect()),
            text("very many steps", (0..25_000).map(|i| format!("[step.s{i}]\npreset=\"hsdp-70b\"\n")).collect()),
            text("very many keys", (0..100_000).map(|i| format!("k{i}=1\n")).collect()),
            text("very many inline tables", format!("a = [{}]\n", "{a=1},".repeat(LONG / 6))),
            text("arrays in arrays", format!("a = {}1{}\n", "[".repeat(LONG / 2), "]".repeat(LONG / 2))),
        ],
        "questions" => {
            let line = |of: &str| format!("{of}\n").repeat(LONG / (of.len() + 1));
            vec![
                text("a field of a megabyte", format!("{{\"kind\":\"{}\"}}\n", "x".repeat(LONG))),
                text("a key of a megabyte", format!("{{\"kind\":\"cost\",\"{}\":1}}\n", "x".repeat(LONG))),
                text("an id of a megabyte", format!("{{\"id\":\"{}\"}}\n", "x".repeat(LONG))),
                text("empty objects", line("{}")),
                text("simulations", line(r#"{"kind":"simulate","primitive":"allreduce","algorithm":"ring","n":1000,"size_bytes":1,"alpha_s":1,"bw_Bps":1,"mode":"local"}"#)),
            ]
        }
        "NCCL's topology" => vec![
            text("very many GPUs", format!("<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"1\">{}</cpu></system>",
                (0..9000).map(|i| format!("<pci busid=\"0000:{:02x}:{:02x}.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"{i}\" sm=\"80\"/></pci>", i / 32 % 256, i % 32)).collect::<String>())),
            text("entities", format!("<!DOCTYPE a [<!ENTITY a \"{}\">]><system version=\"1\">{}</system>", "a".repeat(LONG / 2), "&a;".repeat(LONG / 8))),
            text("nested pci", format!("<system version=\"1\"><cpu numaid=\"0\">{}{}</cpu></system>", "<pci busid=\"0\">".repeat(45_000), "</pci>".repeat(45_000))),
            text("attributes", format!("<system version=\"1\" {}/>", (0..90_000).map(|i| format!("a{i}=\"\" ")).collect::<String>())),
        ],
        "MSCCL" => vec![
            text("entities", format!("<!DOCTYPE a [<!ENTITY a \"{}\">]><algo name=\"{}\"/>", "a".repeat(LONG / 2), "&a;".repeat(LONG / 8))),
            text("attributes", format!("<algo {}/>", (0..90_000).map(|i| format!("a{i}=\"\" ")).collect::<String>())),
        ],
        _ => Vec::new(),
    }
}
