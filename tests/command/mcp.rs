//! `collcost mcp`: the protocol as lines, and as its own client library speaks it.

use std::io::Write;
use std::process::{Command, Stdio};

use collcost::answer::batch::Batch;
use serde_json::{Value, json};

/// What the server replies to lines, each a reply.
fn replies(arguments: &[&str], lines: &[&str]) -> Vec<Value> {
    let text = replied(arguments, lines);
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The same as its text.
fn replied(arguments: &[&str], lines: &[impl AsRef<[u8]>]) -> String {
    let mut server = Command::new(env!("CARGO_BIN_EXE_collcost"))
        .arg("mcp")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = server.stdin.take().expect("piped");
    let mut asked = lines.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(&b'\n');
    asked.push(b'\n');
    let writer = std::thread::spawn(move || input.write_all(&asked));
    let output = server.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn call(id: u32, tool: &str, arguments: Value) -> String {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    })
    .to_string()
}

#[test]
fn both_eras_find_the_same_tools() {
    let found = replies(
        &[],
        &[
            r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"1999-01-01"}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"server/discover"}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#,
        ],
    );
    assert_eq!(found.len(), 6, "a notification has no reply");
    assert_eq!(found[5]["result"]["protocolVersion"], "2025-11-25", "that one needs batches");
    assert_eq!(found[0]["id"], "a");
    assert_eq!(found[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(found[1]["result"]["protocolVersion"], "2025-11-25", "the latest that it knows");
    assert!(
        found[2]["result"]["supportedVersions"].as_array().unwrap().contains(&"2026-07-28".into())
    );
    let tools = found[3]["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!(names, ["expect", "explain", "compare", "choose", "list", "plan"]);
    for tool in tools {
        jsonschema::validator_for(&tool["inputSchema"]).expect("a JSON Schema");
    }
    assert_eq!(found[4]["result"], json!({}));
}

#[test]
fn its_answers_are_those_of_batch() {
    let fields =
        json!({ "collective": "allreduce", "size_bytes": 1 << 24, "n": 64, "alpha_inter": "3us" });
    let found = replies(&[], &[&call(1, "expect", fields.clone())]);
    let mut question = fields;
    question["kind"] = "expect".into();
    let mut batch = Command::new(env!("CARGO_BIN_EXE_collcost"))
        .arg("batch")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(batch.stdin.take().unwrap(), "{question}").unwrap();
    let answer: Value = serde_json::from_slice(&batch.wait_with_output().unwrap().stdout).unwrap();
    let result = &found[0]["result"];
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"]["expect"], answer["expect"]);
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
}

#[test]
fn one_number_has_the_causes_that_the_command_gives() {
    for (number, flag) in [("258GB/s", "--busbw"), ("10ms", "--time")] {
        let fields = json!({ "collective": "allreduce", "n": 8, "points": [["1GiB", number]] });
        let told = &replies(&[], &[&call(1, "compare", fields)])[0]["result"];
        let command = Command::new(env!("CARGO_BIN_EXE_collcost"))
            .args(["compare", "allreduce", "--size", "1GiB", flag, number, "-n", "8"])
            .args(["--format", "json"])
            .output()
            .unwrap();
        let said: Value = serde_json::from_slice(&command.stdout).unwrap();
        let causes = &said["runs"][0]["causes"];
        assert!(causes[0]["chance"].as_f64().is_some(), "{said}");
        assert_eq!(told["structuredContent"]["compare"]["runs"][0]["causes"], *causes);
    }
}

/// To the last digit, which reading a number and writing it again may change.
#[test]
fn its_numbers_are_those_of_batch() {
    let asked = |k: u32| json!({ "collective": "allreduce", "n": 16, "size_bytes": 3_u64 << k });
    let calls: Vec<String> = (8..32).map(|k| call(k, "expect", asked(k))).collect();
    let told = replied(&[], &calls);
    assert_eq!(told.lines().count(), calls.len());
    let mut batch = Batch::default();
    for (k, told) in (8..32).zip(told.lines()) {
        let mut question = asked(k);
        question["kind"] = "expect".into();
        let mut answer = Vec::new();
        batch.answer(&question.to_string(), &mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (_, time) = answer.split_once("\"time_s\":").expect("a time");
        let (time, _) = time.split_once(',').expect("more fields");
        let both = told.matches(&format!("time_s\":{time},")).count()
            + told.matches(&format!("time_s\\\":{time},")).count();
        assert_eq!(both, 2, "{time}, as text and as fields: {told}");
    }
}

/// JSON is UTF-8: no other `id` than the client's is sent back.
#[test]
fn a_line_in_another_encoding_is_not_read() {
    let told = replied(&[], &[b"{\"jsonrpc\":\"2.0\",\"id\":\"Z\xfcrich\",\"method\":\"ping\"}"]);
    assert!(told.contains("is not text in UTF-8"), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["id"], &told["error"]["code"]), (&Value::Null, &json!(-32700)));
}

#[test]
fn a_question_that_is_wrong_is_answered_with_what_would_be_right() {
    let wrong = [
        ("expect", json!({ "collective": "allreduce", "size_bytes": "16Mb", "n": 8 }), "megabits"),
        ("expect", json!({ "collective": "allreduce", "size_bytes": 8, "gpus": 8 }), "`gpus`"),
        ("expect", json!({ "collective": "allreduce" }), "size_bytes"),
        ("expect", json!({ "kind": "cost", "collective": "allreduce" }), "`kind`"),
        ("expect", json!({ "id": 7, "collective": "allreduce" }), "`id`"),
        ("explain", json!({ "what": "busbv" }), "busbw"),
        ("compare", json!({ "collective": "allreduce", "points": [] }), "pairs"),
        ("compare", json!({ "collective": "allreduce", "points": [["1GiB", "-1"]] }), "points"),
        ("choose", json!({ "library": "nccl9" }), "nccl9"),
        ("plan", json!({}), "preset"),
        ("plan", json!({ "preset": "none" }), "known: "),
        ("plan", json!({ "preset": "hsdp-70b", "profile": "dgx-a100" }), "in `set`: "),
        ("plan", json!({ "preset": "hsdp-70b", "n": 512 }), "`n` has no effect"),
        ("plan", json!({ "preset": "hsdp-70b", "alpha": "9us" }), "\"alpha\": \"9us\""),
        ("plan", json!({ "preset": "hsdp-70b", "step": "a" }), "a preset is one step"),
        ("explain", json!({ "what": "busbw", "nodes": 4 }), "`nodes` has no effect"),
        ("plan", json!({ "toml": "[step.a]\ntp = 0\n" }), "toml:"),
        ("plan", json!({ "toml": "include = \"/etc/passwd\"\n[step.a]\n" }), "no files"),
    ];
    let lines: Vec<String> = wrong.iter().map(|(tool, a, _)| call(1, tool, a.clone())).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let found = replies(&[], &lines);
    assert_eq!(found.len(), wrong.len());
    for ((tool, arguments, part), reply) in wrong.iter().zip(&found) {
        let result = &reply["result"];
        assert_eq!(result["isError"], true, "{tool} {arguments}: {reply}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(part), "{tool} {arguments}: {text}");
    }
}

/// As `--set inter.bw=25GB/s` is: a parameter has a dot.
#[test]
fn a_plan_sets_a_machines_parameter() {
    let on = |set: Value| call(1, "plan", json!({ "preset": "hsdp-70b", "set": set }));
    let lines = [on(json!({})), on(json!({ "inter.bw": "10GB/s" }))];
    let found = replies(&[], &lines.each_ref().map(String::as_str));
    let step =
        |reply: &Value| reply["result"]["structuredContent"]["plan"]["steps"][0]["step_s"].as_f64();
    assert!(step(&found[0]) < step(&found[1]), "{}", found[1]);
}

#[test]
fn files_are_read_where_that_was_asked_for() {
    let asked = |path: &str| {
        call(
            1,
            "expect",
            json!({ "collective": "allreduce", "size_bytes": 8, "n": 8, "profile": path }),
        )
    };
    let own = "profiles/machines/dgx-h100.toml";
    let closed = replies(&[], &[&asked(own), &asked("/etc/passwd")]);
    for reply in &closed {
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("files are not read for agents"), "{text}");
    }
    let open = replies(&["--files"], &[&asked(own)]);
    assert_eq!(open[0]["result"]["isError"], false, "{open:?}");
}

#[test]
fn whatever_comes_is_answered_by_the_protocol() {
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}",
        "[".repeat(100_000)
    );
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"x\":\"{}\"}}",
        "x".repeat(9 << 20)
    );
    let lines = [
        ("nonsense", -32700),
        ("{\"jsonrpc\":\"2.0\"", -32700),
        ("\u{0}\u{7f}", -32700),
        (deep.as_str(), -32700),
        (long.as_str(), -32700),
        ("[]", -32600),
        ("[\"2.0\",1,\"ping\",{}]", -32600),
        ("7", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
        // Without an id it would be a notification, to which nobody answers.
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/run"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cost"}}"#, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":[]}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01"}}}"#,
            -32022,
        ),
    ];
    let asked: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let found = replies(&[], &asked);
    assert_eq!(found.len(), lines.len());
    for ((line, code), reply) in lines.iter().zip(&found) {
        let line: String = line.chars().take(100).collect();
        assert_eq!(reply["error"]["code"], *code, "{line}: {reply}");
        assert_eq!(reply["jsonrpc"], "2.0");
    }
    // A reply to nothing, and a notification that is unknown, are passed over.
    let quiet =
        [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, r#"{"jsonrpc":"2.0","method":"x"}"#, ""];
    assert!(replies(&[], &quiet).is_empty());
}

/// Five questions by the protocol's own client, in both eras. `.ci/run` has the package.
#[test]
fn its_own_client_is_answered() {
    let python = std::env::var("COLLCOST_MCP_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "from mcp.client import Client"]).output();
    if !has.is_ok_and(|o| o.status.success()) {
        eprintln!("{python} has no package mcp >= 2: the server was not tested with its client");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
    let asked =
        Command::new(&python).args([script, env!("CARGO_BIN_EXE_collcost")]).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&asked.stdout), String::from_utf8_lossy(&asked.stderr));
    assert!(asked.status.success(), "{out}{err}");
    assert_eq!(out.matches("5 questions by revision").count(), 2, "{out}");
}
