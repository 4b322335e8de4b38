//! The tools: kinds of questions of `batch`, described for agents.

use serde_json::{Map, Value, json};

use collcost::base::collective::Collective;
use collcost::machine::parameters::PARAMETERS;
use collcost::plan::preset_names;

/// One tool.
pub(super) struct Tool {
    /// Its name, which is the kind of its questions.
    pub name: &'static str,
    title: &'static str,
    about: &'static str,
    /// Names and meanings of its own arguments, besides the parameters of every question.
    own: &'static [(&'static str, Takes, &'static str)],
    needed: &'static [&'static str],
    /// Whether it accepts the parameters of every question.
    of_machine: bool,
}

/// What a field holds.
#[derive(Clone, Copy)]
enum Takes {
    Collective,
    Size,
    Word,
    Points,
    Keys,
}

use Takes::{Keys, Points, Size, Word};

const COLLECTIVE: (&str, Takes, &str) = ("collective", Takes::Collective, "The collective");
const SIZE: (&str, Takes, &str) = (
    "size_bytes",
    Size,
    "The size as nccl-tests counts it: the vector of each rank; for an all-gather the whole result. In bytes, or as 16MiB; a barrier has none",
);

const PROFILE: &str =
    "The machine, such as dgx-h100: the tool list names all; a file only if the server reads files";

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "expect",
        title: "What a call will take",
        about: "The expected time of a collective on a machine: time_s with the band low_s to high_s that \
                holds 8 of 10 runs, busbw, what the library runs, and what the time is based on.",
        own: &[
            COLLECTIVE,
            SIZE,
            (
                "algorithm",
                Word,
                "Only this algorithm, such as ring; default: what the library runs",
            ),
            ("seen", Word, "A measured time, which adjusts the expectation: 1MiB=88us"),
        ],
        needed: &["collective"],
        of_machine: true,
    },
    Tool {
        name: "explain",
        title: "Why",
        about: "Explains an algorithm of a collective with the numbers of the question, a collective with all \
                its algorithms, or a topic such as busbw, terms, map, nvls.",
        own: &[
            ("what", Word, "A collective or a topic"),
            ("algorithm", Word, "An algorithm of the collective, such as ring or nvlstree"),
            SIZE,
        ],
        needed: &["what"],
        of_machine: true,
    },
    Tool {
        name: "compare",
        title: "Is a measured run healthy",
        about: "Compares measured times with what is expected on the machine: a verdict (healthy, ill, cannot \
                tell) with likely causes and what to run next.",
        own: &[
            COLLECTIVE,
            (
                "points",
                Points,
                "Pairs of a size and its time or busbw: [[\"1GiB\", \"5.2ms\"], [\"4GiB\", \"200GB/s\"]]",
            ),
            ("dtype", Word, "The type of the elements, such as bf16"),
        ],
        needed: &["collective", "points"],
        of_machine: true,
    },
    Tool {
        name: "choose",
        title: "What a library picks",
        about: "Which algorithm a library or inference engine runs, by its own rules, at one size or, without \
                size_bytes, at all sizes with the switch points; with times and how to force a choice.",
        own: &[
            COLLECTIVE,
            (
                "library",
                Word,
                "nccl, nccl@2.27.7, openmpi@4.1, mpich, vllm@0.33.0, …; list of policies names all",
            ),
            SIZE,
            ("dtype", Word, "The type of the elements, such as bf16"),
            ("env", Keys, "Variables of NCCL or of the engine: {\"NCCL_ALGO\": \"Ring\"}"),
        ],
        needed: &["collective", "library"],
        of_machine: true,
    },
    Tool {
        name: "list",
        title: "What has a name",
        about: "The names that the other tools accept: machines for `profile`, policies for `library`, algorithms, \
                topics of explain, and the parameters that every question about a machine takes besides those \
                listed (alpha_inter, bw_inter, placement, …).",
        own: &[(
            "what",
            Word,
            "machines, collectives, algorithms, libraries, policies, topics, contradictions or parameters",
        )],
        needed: &["what"],
        of_machine: false,
    },
    Tool {
        name: "plan",
        title: "A step of a model",
        about: "The collectives of a training or decoding step, their times, the part that computation hides, \
                and the step's time with its band.",
        own: &[
            ("toml", Word, "Steps as [step.NAME] tables"),
            ("preset", Word, "A built-in layout from practice, instead of toml"),
            ("step", Word, "Only this step of toml"),
            (
                "set",
                Keys,
                "Other values for keys of the step, and for the machine's parameters: \
                 {\"tp\": \"4\", \"profile\": \"dgx-a100\", \"inter.bw\": \"800Gb/s\"}",
            ),
        ],
        needed: &[],
        of_machine: false,
    },
];

/// All tools, as `tools/list` gives them.
pub(super) fn all() -> Vec<Value> {
    let tool = |tool: &Tool| {
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.about,
            "inputSchema": schema(tool),
            "outputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
        })
    };
    TOOLS.iter().map(tool).collect()
}

/// The arguments as JSON Schema. It names only the common parameters, but all are accepted.
fn schema(tool: &Tool) -> Value {
    let mut properties: Map<String, Value> =
        tool.own.iter().map(|&(key, takes, help)| (key.to_owned(), field(takes, help))).collect();
    if let Some(preset) = properties.get_mut("preset") {
        preset["enum"] = json!(preset_names().collect::<Vec<_>>());
    }
    if tool.of_machine {
        for parameter in PARAMETERS.iter().filter(|p| p.common) {
            let is_number = parameter.example.parse::<f64>().is_ok();
            let kinds = if is_number { json!(["number", "string"]) } else { json!("string") };
            let text = match parameter.help.contains("such as") {
                _ if parameter.key == "profile" => PROFILE.to_owned(),
                true => parameter.help.to_owned(),
                false => format!("{}, such as {}", parameter.help, parameter.example),
            };
            let one = json!({ "type": kinds, "description": text });
            properties.insert(parameter.key.to_owned(), one);
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": tool.needed,
        // The tool `list` names all. An unknown name is refused with the nearest one.
        "additionalProperties": tool.of_machine,
    })
}

fn field(takes: Takes, help: &str) -> Value {
    let kind = match takes {
        Takes::Collective => {
            let known: Vec<&str> = Collective::ALL.iter().map(|c| c.id()).collect();
            return json!({ "type": "string", "enum": known, "description": help });
        }
        Size => json!(["number", "string"]),
        Word => json!("string"),
        Keys => json!("object"),
        Points => {
            let one = json!({ "type": ["number", "string"] });
            let pair = json!({ "type": "array", "items": one, "minItems": 2, "maxItems": 2 });
            return json!({ "type": "array", "items": pair, "minItems": 1, "description": help });
        }
    };
    json!({ "type": kind, "description": help })
}
