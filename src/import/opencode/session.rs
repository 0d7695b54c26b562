//! A session as all forms of storage hold it: messages and their parts, each a JSON document.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::FORMAT;
use super::parts::{Finish, Part, Tool, said_of_file};
use crate::import::agent::Whole;
use crate::import::facts::{Facts, Tokens};
use crate::import::heading::{Heading, Of, Origin};
use crate::import::ids::{foreign_id, named};
use crate::import::step::{Call, Outcome, Step, Thread};
use crate::record::{Role, now};

/// After this time, what is unfinished was left so by a program that ended.
const LEFT_MS: i64 = 86_400_000;
/// The length of the time at the end of a title that opencode gives before there is a better one.
const TITLE_TIME_BYTES: usize = 24;

/// A session with its messages in their order.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) title: Option<String>,
    pub(super) messages: Vec<Item>,
}

/// A message with its parts in their order.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) json: String,
    /// When it or any of its parts was last written.
    pub(super) touched: Option<i64>,
    pub(super) parts: Vec<(String, String)>,
}

/// The document of a message.
#[derive(Debug, Deserialize)]
struct Info {
    role: String,
    #[serde(default)]
    time: Time,
    #[serde(rename = "modelID")]
    model: Option<String>,
    #[serde(rename = "providerID")]
    provider: Option<String>,
    cost: Option<f64>,
    tokens: Option<Box<RawValue>>,
    error: Option<Failure>,
}

#[derive(Debug, Default, Deserialize)]
struct Time {
    created: Option<f64>,
    completed: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    name: Option<String>,
    data: Option<FailureData>,
}

#[derive(Debug, Deserialize)]
struct FailureData {
    message: Option<String>,
}

impl Failure {
    fn text(self) -> String {
        let name = self.name.unwrap_or_else(|| "error".to_owned());
        match self.data.and_then(|data| data.message) {
            Some(message) => format!("{name}: {message}"),
            None => name,
        }
    }
}

/// The parts of one request to the model.
#[derive(Default)]
struct Unit {
    /// The id of its first part.
    key: String,
    parts: Vec<(String, Part)>,
    finish: Option<Finish>,
}

impl Session {
    pub(super) fn thread(&self) -> Thread {
        let mut thread = Thread::new(FORMAT, &self.id);
        thread.cwd = self.directory.clone().filter(|path| !path.is_empty());
        let parent = self.parent.as_deref();
        thread.parent = parent.map(|parent| foreign_id("opencode:session", parent));
        thread
    }

    /// The title, unless it is the one that every session begins with.
    pub(super) fn heading(&self, thread: &Thread) -> Option<Heading> {
        let title = self.title.as_deref()?;
        let time = ["New session - ", "Child session - "];
        let time = time
            .iter()
            .find_map(|beginning| title.strip_prefix(beginning));
        let is_first = time.is_some_and(|it| it.len() == TITLE_TIME_BYTES && it.ends_with('Z'));
        (!is_first).then(|| thread.titled(Origin::Model, title))?
    }

    /// Hands over what no longer changes. Returns whether that was all.
    pub(super) fn hand_over(&self, whole: &mut Whole<'_, '_>, number: &mut u64) -> bool {
        whole.begin_session();
        let mut thread = self.thread();
        *number += 1;
        let headings = self.heading(&thread).into_iter().collect();
        let heading = Facts {
            headings,
            ..Facts::default()
        };
        whole.take(*number, vec![heading]);
        let infos: Vec<Result<Info, String>> = self
            .messages
            .iter()
            .map(|item| serde_json::from_str(&item.json).map_err(|e| e.to_string()))
            .collect();
        let is_answer =
            |info: &Result<Info, String>| info.as_ref().is_ok_and(|info| info.role == "assistant");
        let last_answer = infos.iter().rposition(is_answer);
        let count = infos.len();
        for (at, (item, info)) in self.messages.iter().zip(infos).enumerate() {
            *number += 1;
            let info = match info {
                Ok(info) => info,
                Err(reason) => {
                    whole.broken(*number, format!("message {}: {reason}", item.id));
                    continue;
                }
            };
            // A session asks for one answer at a time.
            let is_over = info.time.completed.is_some()
                || last_answer.is_some_and(|last| at < last)
                || item.is_left();
            let mut reader = Reader {
                thread: &mut thread,
                whole: &mut *whole,
                number: *number,
                item,
            };
            let is_whole = match info.role.as_str() {
                "user" => reader.prompt(&info, at + 1 < count || is_over),
                "assistant" => reader.answer(info, is_over),
                role => {
                    reader.take_facts(Facts::not_understood(format!("message.{role}")));
                    true
                }
            };
            if !is_whole {
                whole.unfinished();
                return false;
            }
            if whole.is_stopped() {
                return false;
            }
        }
        true
    }
}

impl Item {
    fn is_left(&self) -> bool {
        self.touched
            .is_some_and(|touched| now().saturating_sub(touched) > LEFT_MS)
    }
}

struct Reader<'r, 'a, 'log> {
    thread: &'r mut Thread,
    whole: &'r mut Whole<'a, 'log>,
    number: u64,
    item: &'r Item,
}

impl Reader<'_, '_, '_> {
    fn take_facts(&mut self, facts: Facts<'_>) {
        self.whole.take(self.number, vec![facts]);
    }

    fn take(&mut self, step: Step) {
        match self.thread.facts(FORMAT, step) {
            Ok(facts) => self.take_facts(facts),
            Err(reason) => self.broken(&reason),
        }
    }

    fn broken(&mut self, reason: &str) {
        let reason = format!("message {}: {reason}", self.item.id);
        self.whole.broken(self.number, reason);
    }

    fn step(&self, key: &str, at: i64, role: Role) -> Step {
        Step::new(self.thread.key(FORMAT, key), at, role)
    }

    /// The parts that can be read.
    fn parts(&mut self) -> Vec<(String, Part)> {
        let mut parts = Vec::new();
        for (id, json) in &self.item.parts {
            match Part::read(json) {
                Ok(part) => parts.push((id.clone(), part)),
                Err(reason) => self.broken(&format!("part {id}: {reason}")),
            }
        }
        parts
    }

    /// The parts of a user's message. Each is written once.
    fn prompt(&mut self, info: &Info, is_over: bool) -> bool {
        let parts = self.parts();
        if parts.is_empty() {
            if is_over {
                self.take_facts(Facts::not_understood("message.user without parts"));
            }
            return is_over;
        }
        let at = ms(info.time.created);
        for (id, part) in parts {
            let mut step = self.step(&id, at, Role::User);
            match part {
                Part::Text(text) => {
                    step.is_harness = text.is_synthetic();
                    step.texts.push(text.text);
                }
                Part::File(file) => match said_of_file(&file) {
                    Ok(said) => step.texts.push(said),
                    Err(kind) => step.others.count(kind),
                },
                Part::Subtask(task) => step.texts.push(task.prompt),
                // Asks the model for a summary, which is the next answer.
                Part::Compaction => {
                    step.is_harness = true;
                    step.texts.push("[compaction]".to_owned());
                }
                // The name of an agent that the text before it mentions, and states of files.
                Part::Nothing => continue,
                Part::Unknown(kind) => step.others.count(kind),
                part => step.others.count(part.kind()),
            }
            self.take(step);
        }
        true
    }

    /// The requests of a model's message, as far as they are over.
    fn answer(&mut self, mut info: Info, is_over: bool) -> bool {
        self.thread.vendor = info.provider.take().or_else(|| self.thread.vendor.take());
        let units = units(self.parts());
        let mut failure = is_over.then(|| info.error.take()).flatten();
        let has_finish = units.iter().any(|unit| unit.finish.is_some());
        let last = units.len().checked_sub(1);
        for (n, mut unit) in units.into_iter().enumerate() {
            if unit.finish.is_none() {
                if !is_over {
                    return false;
                }
                // Versions before steps had parts of their own.
                if !has_finish && Some(n) == last {
                    unit.finish = Some(Finish {
                        cost: info.cost,
                        tokens: info.tokens.take(),
                    });
                }
            }
            let is_failed = Some(n) == last && unit.finish.as_ref().is_none_or(Finish::is_zero);
            let failure = if is_failed { failure.take() } else { None };
            self.unit(&info, (n, unit), failure);
        }
        if let Some(failure) = failure {
            let key = format!("{}:error", self.item.id);
            let at = ms(info.time.completed.or(info.time.created));
            let mut step = self.step(&key, at, Role::Assistant);
            step.model = info.model.take();
            step.error = Some(failure.text());
            self.take(step);
        }
        is_over
    }

    fn unit(&mut self, info: &Info, (nth, unit): (usize, Unit), failure: Option<Failure>) {
        let created = ms(info.time.created);
        let at = unit.parts.iter().find_map(|(_, part)| part.start());
        let mut step = self.step(&unit.key, at.unwrap_or(created), Role::Assistant);
        let mut results = Vec::new();
        for (id, part) in unit.parts {
            match part {
                Part::Text(text) => step.texts.push(text.text),
                Part::Reasoning(text) => step.reasoning.push(text.text),
                Part::Tool(tool) => {
                    step.calls.push(Call {
                        id: tool.call_id.clone(),
                        name: tool.tool.clone(),
                        args: tool.args(),
                    });
                    results.push((id, tool));
                }
                Part::File(file) => match said_of_file(&file) {
                    Ok(said) => step.texts.push(said),
                    Err(kind) => step.others.count(kind),
                },
                Part::Retry(retry) => {
                    let mut step = self.step(&id, retry.at(created), Role::Assistant);
                    step.model.clone_from(&info.model);
                    step.error = Some(retry.error.map_or_else(String::new, Failure::text));
                    self.take(step);
                }
                Part::Nothing => {}
                Part::Unknown(kind) => step.others.count(kind),
                part => step.others.count(part.kind()),
            }
        }
        step.model.clone_from(&info.model);
        step.error = failure.map(Failure::text);
        if let Some(finish) = unit.finish {
            // A session's copy has other ids, and the same times and tokens.
            if let Some((tokens, usage)) = finish.tokens() {
                let model = info.model.as_deref().unwrap_or_default();
                let counts = [
                    tokens.input,
                    tokens.output,
                    tokens.cache_read,
                    tokens.cache_write,
                ];
                let copied = format!("{created}:{nth}:{model}:{counts:?}");
                let is_any = tokens != Tokens::default();
                step.response = is_any.then(|| named("opencode:response", &copied));
                step.tokens = Some(tokens);
                step.usage = Some(usage);
            }
            step.cost_usd = finish.cost.filter(|cost| *cost > 0.0);
        }
        self.take(step);
        for (id, tool) in results {
            self.result(&id, tool);
        }
    }

    /// The result of a call, and the session of the agent that it started.
    fn result(&mut self, id: &str, tool: Tool) {
        let child = tool.session();
        let child = child.as_deref().map(|child| Heading {
            of: Of::ConversationRef(foreign_id("opencode:session", child)),
            title: None,
            parent: Some(self.thread.id),
            call: Some(tool.call_id.clone()),
        });
        let Some((at, text, error)) = tool.outcome() else {
            return;
        };
        let mut step = self.step(&format!("{id}:result"), at, Role::Tool);
        step.result = Some(Outcome {
            latency_ms: tool.latency_ms(),
            call_id: tool.call_id,
            text,
            error,
            ..Outcome::default()
        });
        self.take(step);
        if let Some(child) = child {
            self.take_facts(Facts {
                headings: vec![child],
                ..Facts::default()
            });
        }
    }
}

/// The requests of a message: each begins with a `step-start` and ends with a `step-finish`.
fn units(parts: Vec<(String, Part)>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (id, part) in parts {
        let is_start = matches!(part, Part::StepStart);
        let begins = units
            .last()
            .is_none_or(|unit| unit.finish.is_some() || is_start);
        match (part, units.last_mut()) {
            // What follows a request, such as a list of changed files.
            (Part::Nothing, _) => {}
            (part, last)
                if begins && !(is_start && last.as_ref().is_some_and(|it| it.is_empty())) =>
            {
                let mut unit = Unit {
                    key: id.clone(),
                    ..Unit::default()
                };
                unit.add(id, part);
                units.push(unit);
            }
            (part, Some(unit)) => unit.add(id, part),
            (_, None) => {}
        }
    }
    units
}

impl Unit {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.finish.is_none()
    }

    fn add(&mut self, id: String, part: Part) {
        match part {
            Part::StepFinish(finish) => self.finish = Some(finish),
            Part::StepStart => {}
            part => self.parts.push((id, part)),
        }
    }
}

pub(super) fn ms(time: Option<f64>) -> i64 {
    time.unwrap_or(0.0) as i64
}
