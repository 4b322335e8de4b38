//! `collcost mcp`: answers agents over the Model Context Protocol, JSON-RPC 2.0 line by line.
//!
//! Both generations of the protocol are supported: `initialize` of the revisions up to 2025-11-25,
//! and `server/discover` of 2026-07-28, in which every request names its revision. The server keeps
//! no state between requests, so the two can be mixed. A tool is a kind of question of `batch`.

mod tools;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Stop, input};
use collcost::answer::batch::Batch;
use collcost::base::error::{Error, Result};
use collcost::machine::profile::Profile;
use collcost::model::algorithm::Registry;
use collcost::plan::config::is_file;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost mcp
  claude mcp add collcost -- collcost mcp
  collcost mcp --files

A client starts it and speaks JSON-RPC 2.0 over its standard input and output. Tools: expect,
explain, compare, choose, list, plan. It writes no files, opens no connections and, without
--files, reads no files but your own profiles.")]
pub(super) struct Args {
    /// Let questions name profiles by path too; clients can then learn the contents of files
    #[arg(long)]
    files: bool,
}

/// Revisions whose clients start with a handshake, the latest last. 2025-03-26 is not among them: a server of it
/// must take requests in batches, which the next revision removed.
const SHAKING: [&str; 3] = ["2024-11-05", "2025-06-18", "2025-11-25"];

/// The revision in which every request names its revision.
const LATEST: &str = "2026-07-28";

/// The instructions for agents about all tools.
const INSTRUCTIONS: &str = "\
Times of collective operations (all-reduce, all-gather, …) on GPU clusters: what a call is expected to take, \
which algorithm a library picks, why, whether a measured time is healthy, and what a step of a model needs. \
`profile` names the machine, such as dgx-h100 or p5.48xlarge. Answers keep `expect` (time_s with its band) \
separate from ideal prices; quote the band and what it is based on.";

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let find = if self.files { super::profiles::find } else { known };
        let mut batch = Batch::new(Registry::builtin(), find);
        let mut requests = io::BufReader::with_capacity(1 << 16, io::stdin().lock());
        let mut line = Vec::new();
        loop {
            let Some(read) = input::line(&mut requests, &mut line)? else { return Ok(()) };
            let answer = match read.map(str::trim) {
                Err(error) => refused(PARSE, error.to_string()),
                Ok("") => None,
                Ok(request) => reply(&mut batch, request),
            };
            if let Some(reply) = answer {
                serde_json::to_writer(&mut *out, &reply).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
                out.flush()?;
            }
        }
    }
}

/// A machine that is built in or the user's own, by its name.
fn known(name: &str) -> Result<Profile> {
    if is_file(name) {
        return Err(Error::input(format!("`{name}` is a file, and files are not read for agents"))
            .help("name a machine of `collcost profiles`, or start collcost mcp --files"));
    }
    super::profiles::find(name)
}

/// The fields of a message that are used.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    /// Present but null, it is no notification.
    #[serde(default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    params: Option<&'a RawValue>,
}

/// A value that is there, even if it is null.
fn given<'de, D: serde::Deserializer<'de>>(
    value: D,
) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// The parameters of a request. Only objects are accepted: serde would read a sequence as fields in
/// order.
#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta", default)]
    meta: Meta,
}

#[derive(Deserialize, Default)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<String>,
}

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Result(Answer),
    Error(Fault),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Made(Value),
    Lasting(&'static RawValue),
    Called(Called),
}

/// What a tool says: the text of `batch`, whose numbers a second reading could change.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Called {
    content: [Content; 1],
    is_error: bool,
    result_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Fields>,
}

#[derive(Serialize)]
struct Content {
    r#type: &'static str,
    text: String,
}

type Fields = BTreeMap<String, Box<RawValue>>;

/// The answer to `tools/list`, written once because it is long and always the same.
static LISTED: LazyLock<Box<RawValue>> = LazyLock::new(|| {
    let listed = lasting(json!({ "tools": tools::all() }));
    serde_json::value::to_raw_value(&listed).unwrap_or_default()
});

/// An error of the protocol; an error in a question is part of the tool's answer.
#[derive(Serialize)]
struct Fault {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl Fault {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

const PARSE: i32 = -32700;
const REQUEST: i32 = -32600;
const METHOD: i32 = -32601;
const PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
const VERSION: i32 = -32022;

/// The reply to what is no request.
fn refused<'a>(code: i32, why: impl Into<String>) -> Option<Reply<'a>> {
    Some(Reply { jsonrpc: "2.0", id: None, outcome: Outcome::Error(Fault::new(code, why)) })
}

/// The reply to one line; none to a notification or a reply, since the server sends no requests.
fn reply<'a>(batch: &mut Batch, line: &'a str) -> Option<Reply<'a>> {
    let of = |id, outcome: std::result::Result<Answer, Fault>| {
        let outcome = outcome.map_or_else(Outcome::Error, Outcome::Result);
        Some(Reply { jsonrpc: "2.0", id, outcome })
    };
    let message: Message<'_> = match object(line) {
        Ok(message) => message,
        Err(error) if error.is_data() => {
            return refused(REQUEST, format!("not a request: {error}"));
        }
        Err(error) => return refused(PARSE, format!("not JSON: {error}")),
    };
    let id = match (message.id, &message.method) {
        (Some(id), Some(_)) => id,
        (None, Some(_)) | (Some(_), None) => return None,
        (None, None) => return refused(REQUEST, "neither `id` nor `method`"),
    };
    if !id.get().starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        return refused(REQUEST, "`id` must be a string or a number");
    }
    if message.jsonrpc.as_deref() != Some("2.0") {
        return of(Some(id), Err(Fault::new(REQUEST, "`jsonrpc` is not \"2.0\"")));
    }
    of(Some(id), outcome(batch, message.method.as_deref().unwrap_or(""), message.params))
}

/// Reads an object, and refuses a sequence, whose items serde would read as fields.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let read = serde_json::from_str(text)?;
    match text.trim_start().starts_with('{') {
        true => Ok(read),
        false => Err(serde::de::Error::custom("an object is expected")),
    }
}

fn outcome(
    batch: &mut Batch,
    method: &str,
    params: Option<&RawValue>,
) -> std::result::Result<Answer, Fault> {
    let params: Params<'_> = match params {
        None => Params::default(),
        Some(raw) => object(raw.get()).map_err(|e| Fault::new(PARAMS, format!("`params`: {e}")))?,
    };
    let spoken = || SHAKING.iter().copied().chain([LATEST]);
    if let Some(version) = &params.meta.version
        && !spoken().any(|known| known == version)
    {
        let supported: Vec<&str> = spoken().collect();
        let data = json!({ "supported": supported, "requested": version });
        let fault = Fault::new(VERSION, format!("the revision `{version}` is not supported"));
        return Err(Fault { data: Some(data), ..fault });
    }
    let made = match method {
        "initialize" => {
            let asked = params.version.as_deref();
            let same = SHAKING.iter().copied().find(|known| Some(*known) == asked);
            json!({
                "protocolVersion": same.unwrap_or(SHAKING[SHAKING.len() - 1]),
                "capabilities": { "tools": {} },
                "serverInfo": server(),
                "instructions": INSTRUCTIONS,
            })
        }
        "server/discover" => lasting(json!({
            "supportedVersions": spoken().collect::<Vec<_>>(),
            "capabilities": { "tools": {} },
            "serverInfo": server(),
            "instructions": INSTRUCTIONS,
            "_meta": { "io.modelcontextprotocol/serverInfo": server() },
        })),
        "ping" => json!({}),
        "tools/list" => return Ok(Answer::Lasting(&LISTED)),
        "tools/call" => return called(batch, &params).map(Answer::Called),
        _ => return Err(Fault::new(METHOD, format!("`{method}` is not a method of this server"))),
    };
    Ok(Answer::Made(made))
}

fn server() -> Value {
    json!({ "name": "collcost", "version": env!("CARGO_PKG_VERSION") })
}

/// An answer that does not change while the server runs: a client may cache it for an hour.
fn lasting(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    result["ttlMs"] = json!(3_600_000);
    result["cacheScope"] = json!("public");
    result
}

/// Passes a tool's question to `batch`.
fn called(batch: &mut Batch, params: &Params<'_>) -> std::result::Result<Called, Fault> {
    let name = params.name.as_deref().unwrap_or("");
    if !tools::TOOLS.iter().any(|tool| tool.name == name) {
        let known: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.name).collect();
        let message = format!("`{name}` is not a tool; known tools: {}", known.join(", "));
        return Err(Fault::new(PARAMS, message));
    }
    let arguments = params.arguments.map_or("{}", RawValue::get);
    let inner = arguments.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(|| Fault::new(PARAMS, "`arguments` must be an object"))?.trim();
    let comma = if inner.is_empty() { "" } else { "," };
    // A second `id` or `kind` is refused as a duplicate field.
    let question = format!("{{\"id\":null,\"kind\":\"{name}\"{comma}{inner}}}");
    let mut answer = Vec::new();
    batch.answer(&question, &mut answer);
    let unread = |e| Fault::new(INTERNAL, format!("the answer cannot be read: {e}"));
    let mut fields: Fields = serde_json::from_slice(&answer).map_err(unread)?;
    fields.remove("id");
    let error: Option<String> =
        fields.get("error").and_then(|error| serde_json::from_str(error.get()).ok());
    let is_error = error.is_some();
    let text = match error {
        Some(error) => error,
        None => serde_json::to_string(&fields).map_err(unread)?,
    };
    Ok(Called {
        content: [Content { r#type: "text", text }],
        is_error,
        result_type: "complete",
        structured_content: (!is_error).then_some(fields),
    })
}
