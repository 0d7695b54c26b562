//! Every exchange with a model is in the log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::sent::{Call, Exchange, Said, exchanges};
use super::{Log, Role, Talk, Target, Tokens, bodies, fixtures, text_of};
use crate::record::ToolStatus;

/// What a recording does not have, or has otherwise than it was sent.
enum Difference {
    /// No system prompt.
    NoSystem,
    /// No system prompt of the Responses API.
    NoInstructions,
    /// The results of calls are not reported.
    NoResults,
    /// The result of this call does not name it.
    NoResultOf(&'static str),
    /// The answer to this user text is not reported.
    NoAnswer(&'static str),
    /// The request with this user text is reported without its messages.
    NoMessages(&'static str),
    /// The tools have another name.
    Tool(&'static str),
    /// Number of errors that are reported.
    Errors(usize),
    /// What is reported minus what was sent.
    Tokens(Tokens),
}

use Difference::{
    Errors, NoAnswer, NoInstructions, NoMessages, NoResultOf, NoResults, NoSystem, Tool,
};

const NONE: Tokens = Tokens::NONE;

/// The differences of each recording, with the reason. All else must be equal.
const DIFFERENCES: &[(&str, Difference, &str)] = &[
    ("claude-code", NoResults, "the log events have no results"),
    (
        "claude-code-raw",
        NoResults,
        "the log events have no results",
    ),
    (
        "claude-code-raw",
        Tool("mcp_tool"),
        "MCP tools are all named so in log events",
    ),
    (
        "claude-code-detailed",
        Tool("get_weather"),
        "named so beside the server's name",
    ),
    ("codex", NoSystem, "the log events have no system prompt"),
    (
        "codex-json",
        NoSystem,
        "the log events have no system prompt",
    ),
    (
        "codex-traces",
        NoSystem,
        "the log events have no system prompt",
    ),
    (
        "js-openai",
        Difference::Tokens(Tokens {
            cache_read: -200,
            reasoning: -25,
            ..NONE
        }),
        "cached and reasoning tokens are not reported",
    ),
    (
        "js-openinference",
        Difference::Tokens(Tokens {
            input: -120,
            output: -15,
            cache_read: -40,
            reasoning: -5,
            ..NONE
        }),
        "streams have no tokens",
    ),
    (
        "js-openinference",
        Errors(0),
        "the span of a failed request is never ended",
    ),
    (
        "js-traceloop",
        Difference::Tokens(Tokens {
            input: -120,
            output: -15,
            cache_read: -200,
            reasoning: -25,
            ..NONE
        }),
        "streams have no tokens; cached and reasoning tokens are not reported",
    ),
    (
        "js-traceloop",
        Errors(0),
        "the span of a failed request is never ended",
    ),
    ("js-traceloop", NoInstructions, "not reported"),
    (
        "openai-v2-events",
        Difference::Tokens(Tokens {
            cache_read: -160,
            reasoning: -20,
            ..NONE
        }),
        "cached and reasoning tokens are not reported",
    ),
    (
        "openai-v2-latest",
        Difference::Tokens(Tokens {
            cache_read: -160,
            reasoning: -20,
            ..NONE
        }),
        "cached and reasoning tokens are not reported",
    ),
    (
        "openai-v2-legacy",
        Difference::Tokens(Tokens {
            cache_read: -160,
            reasoning: -20,
            ..NONE
        }),
        "cached and reasoning tokens are not reported",
    ),
    (
        "openllmetry-anthropic",
        Difference::Tokens(Tokens { output: 1, ..NONE }),
        "the 1 output token of the stream's start is added to that of its end",
    ),
    (
        "openllmetry-anthropic",
        Errors(2),
        "the SDK reports the failed request too, in a trace of its own and without a response",
    ),
    (
        "openllmetry-langchain",
        Difference::Tokens(Tokens {
            reasoning: -15,
            ..NONE
        }),
        "reasoning tokens are not reported",
    ),
    (
        "openllmetry-openai",
        Difference::Tokens(Tokens {
            reasoning: -5,
            ..NONE
        }),
        "reasoning tokens of a stream are not reported",
    ),
    (
        "openllmetry-openai",
        NoResultOf("call_6"),
        "a call of the Responses API has the id of its item, and its result that of the call",
    ),
    (
        "openllmetry-openai-events",
        Difference::Tokens(Tokens {
            reasoning: -5,
            ..NONE
        }),
        "reasoning tokens of a stream are not reported",
    ),
    (
        "openllmetry-openai-events",
        NoAnswer("Say it in pieces."),
        "a stream has no event of its answer",
    ),
    (
        "openllmetry-openai-events",
        NoResultOf("call_2"),
        "the event of a result does not name the call",
    ),
    (
        "pydantic-ai",
        NoMessages("Now fail."),
        "the span of a failed request has no messages",
    ),
    (
        "python-manual",
        Difference::Tokens(Tokens {
            cache_write: 20,
            ..NONE
        }),
        "written by hand, though the model did not say so",
    ),
    (
        "vercel-ai",
        Difference::Tokens(Tokens {
            reasoning: -20,
            ..NONE
        }),
        "reasoning tokens are not reported",
    ),
    (
        "vercel-ai-json",
        Difference::Tokens(Tokens {
            reasoning: -20,
            ..NONE
        }),
        "reasoning tokens are not reported",
    ),
];

/// A recording with its differences.
struct Case {
    exchanges: Vec<Exchange>,
    differences: Vec<&'static Difference>,
}

impl Case {
    fn has(&self, is_it: impl Fn(&Difference) -> bool) -> bool {
        self.differences.iter().any(|it| is_it(it))
    }

    /// What of an exchange is in the telemetry.
    fn reported(&self, exchange: &Exchange) -> Vec<Said> {
        let asked = exchange.history.iter().rfind(|it| it.role == Role::User);
        let asked = asked.map_or("", |it| &it.text);
        if self.has(|it| matches!(it, NoMessages(text) if *text == asked)) {
            return Vec::new();
        }
        let is_responses = exchange.path.ends_with("/responses");
        let no_system = self.has(|it| match it {
            NoSystem => true,
            NoInstructions => is_responses,
            _ => false,
        });
        let answer = exchange
            .answer
            .iter()
            .filter(|_| !self.has(|it| matches!(it, NoAnswer(text) if *text == asked)));
        let all = exchange.history.iter().chain(answer);
        let all = all.filter(|it| it.role != Role::System || !no_system);
        all.cloned().collect()
    }

    /// Number of failed requests. One that is sent again counts once.
    fn errors(&self) -> usize {
        for difference in &self.differences {
            if let Errors(errors) = difference {
                return *errors;
            }
        }
        let failed = self.exchanges.iter().filter(|it| it.answer.is_none());
        let failed: BTreeSet<String> = failed.map(|it| format!("{:?}", it.history)).collect();
        failed.len()
    }
}

fn case(name: &str) -> Case {
    let differences = DIFFERENCES.iter().filter(|(of, ..)| *of == name);
    Case {
        exchanges: exchanges(name),
        differences: differences.map(|(_, difference, _)| difference).collect(),
    }
}

/// Checks each recording. Reports all that is wrong at once.
fn for_each(check: impl Fn(&Case, &Log) -> Vec<String>) {
    let mut wrong = Vec::new();
    for name in fixtures() {
        let case = case(&name);
        let log = Target::of(&bodies(&name)).log();
        let found = check(&case, &log).into_iter();
        wrong.extend(found.map(|it| format!("{name}: {it}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn has(talk: &Talk, said: &Said) -> bool {
    let text = said.text.trim();
    text.is_empty()
        || talk
            .messages
            .iter()
            .any(|it| it.role == said.role && it.content.trim() == text)
}

#[test]
fn each_exchange_is_in_one_conversation() {
    for_each(|case, log| {
        let mut wrong = Vec::new();
        for exchange in &case.exchanges {
            let is_reported = exchange.answer.is_some() || case.errors() > 0;
            let said = case.reported(exchange);
            let has_all = |talk: &Talk| said.iter().all(|it| has(talk, it));
            if is_reported && !log.talks.iter().any(has_all) {
                wrong.push(format!("no conversation has all of {said:?}"));
            }
        }
        wrong
    });
}

#[test]
fn tokens_are_those_that_were_sent() {
    for_each(|case, log| {
        if case.exchanges.is_empty() {
            return Vec::new();
        }
        let mut wanted = Tokens::default();
        for exchange in &case.exchanges {
            wanted.add(exchange.usage);
        }
        for difference in &case.differences {
            if let Difference::Tokens(more) = difference {
                wanted.add(*more);
            }
        }
        let found = Tokens::of(log.messages());
        let is_equal = found == wanted;
        let wrong = (!is_equal).then(|| format!("{found:?}, wanted {wanted:?}"));
        wrong.into_iter().collect()
    });
}

#[test]
fn each_failed_exchange_is_an_error() {
    for_each(|case, log| {
        let errors: Vec<_> = log.messages().filter(|it| it.error.is_some()).collect();
        let wanted = if case.exchanges.is_empty() {
            1
        } else {
            case.errors()
        };
        let is_equal = errors.len() == wanted && errors.iter().all(|it| it.role == Role::Assistant);
        let wrong = (!is_equal).then(|| format!("{wanted} errors wanted: {errors:?}"));
        wrong.into_iter().collect()
    });
}

#[test]
fn each_call_has_its_arguments_and_its_result() {
    for_each(|case, log| {
        let mut wrong = Vec::new();
        for exchange in &case.exchanges {
            for call in exchange.answer.iter().flat_map(|it| &it.calls) {
                if !has_call(case, log, call) {
                    wrong.push(format!("no call like {call:?}"));
                }
            }
            let results = exchange.history.iter().filter_map(|it| it.result.as_ref());
            for (call_id, result) in results {
                wrong.extend(result_problem(case, log, call_id, result));
            }
        }
        wrong
    });
}

fn has_call(case: &Case, log: &Log, call: &Call) -> bool {
    let renamed = case.differences.iter().find_map(|it| match it {
        Tool(name) => Some(*name),
        _ => None,
    });
    log.calls.iter().any(|(req, _)| {
        let args = req.arguments_json.as_deref().unwrap_or_default();
        let args: Option<Value> = serde_json::from_str(args).ok();
        call.ids.contains(&req.call_id)
            && req.tool_name == renamed.unwrap_or(&call.name)
            && args.as_ref() == Some(&call.args)
    })
}

/// Why a result has not reached its call.
fn result_problem(case: &Case, log: &Log, call_id: &str, result: &str) -> Option<String> {
    if case.has(|it| matches!(it, NoResultOf(id) if *id == call_id)) {
        return None;
    }
    let of_call = log.calls.iter().filter(|(req, _)| req.call_id == call_id);
    let outcomes: Vec<_> = of_call.filter_map(|(_, done)| done.as_ref()).collect();
    let no_text = case.has(|it| matches!(it, NoResults));
    let is_it = outcomes.iter().any(|done| {
        let outcome = done.outcome_json.as_deref().unwrap_or_default().trim();
        // The telemetry may leave out what the CLI adds, or put the result in an object.
        let is_same =
            result.starts_with(outcome) && !outcome.is_empty() || outcome.contains(result);
        done.status == ToolStatus::Completed && (is_same || no_text && outcome.is_empty())
    });
    (!is_it).then(|| format!("the result {result:?} of {call_id} is not among {outcomes:?}"))
}

/// How often each text was said, in different places of different conversations.
fn really_said(case: &Case) -> BTreeMap<(&'static str, String), BTreeSet<String>> {
    let mut said: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for exchange in &case.exchanges {
        let mut before = exchange.path.clone();
        for message in exchange.history.iter().chain(&exchange.answer) {
            let result = message.result.as_ref().map(|(_, result)| result);
            let text = result.unwrap_or(&message.text).trim().to_owned();
            let said_here = format!("{:?}", (message.role.as_str(), &text, &message.calls));
            before.push_str(&said_here);
            let places = said.entry((message.role.as_str(), text)).or_default();
            places.insert(before.clone());
        }
    }
    said
}

#[test]
fn nothing_is_said_more_often_than_it_was() {
    for_each(|case, log| {
        if case.exchanges.is_empty() {
            return Vec::new();
        }
        let said = really_said(case);
        let mut wrong = Vec::new();
        for talk in &log.talks {
            let mut found: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
            let messages = talk.messages.iter().filter(|it| it.error.is_none());
            for message in messages {
                let key = (message.role.as_str(), text_of(message).trim().to_owned());
                *found.entry(key).or_default() += 1;
            }
            found.remove(&("assistant", String::new()));
            for (key, times) in found {
                let places = said.get(&key).map_or(0, BTreeSet::len);
                if times > places {
                    wrong.push(format!(
                        "{key:?} is there {times} times, and was said {places}"
                    ));
                }
            }
        }
        wrong
    });
}

#[test]
fn what_the_rust_sdk_sends_is_the_same_in_both_encodings() {
    let texts = |name: &str| {
        let log = Target::of(&bodies(name)).log();
        let mut texts: Vec<String> = log
            .messages()
            .map(|it| format!("{} {} {:?}", it.role.as_str(), text_of(it), it.tool_args))
            .collect();
        texts.sort();
        let calls = log.calls.iter().map(|(req, done)| {
            let done = done.as_ref().unwrap();
            format!(
                "{} {:?} {:?}",
                req.tool_name, req.arguments_json, done.outcome_json
            )
        });
        texts.extend(calls);
        (texts, Tokens::of(log.messages()))
    };
    let (found, tokens) = texts("rust-sdk");
    assert_eq!((found.clone(), tokens), texts("rust-sdk-json"));
    assert_eq!(
        tokens,
        Tokens {
            input: 360,
            output: 45,
            cache_read: 120,
            cache_write: 20,
            reasoning: 15
        }
    );
    let args = r#"Some("{\"city\":\"Paris\"}")"#;
    let wanted = [
        "assistant Hello from the model. None".to_owned(),
        "assistant It is sunny in Paris. None".to_owned(),
        "assistant The model failed. None".to_owned(),
        format!("assistant  {args}"),
        "system You are a test. None".to_owned(),
        r#"tool {"weather":"sunny"} None"#.to_owned(),
        "user Say hello. None".to_owned(),
        "user What is the weather? None".to_owned(),
        format!(r#"get_weather {args} Some("{{\"weather\":\"sunny\"}}")"#),
    ];
    let wanted: BTreeSet<String> = wanted.into_iter().collect();
    assert_eq!(found.into_iter().collect::<BTreeSet<String>>(), wanted);
}

#[test]
fn every_difference_is_of_a_recording() {
    let all = fixtures();
    for (name, ..) in DIFFERENCES {
        assert!(
            all.iter().any(|it| it == name) || std::env::var("ONLY").is_ok(),
            "{name}"
        );
    }
}
