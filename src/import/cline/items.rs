//! The messages that the user sees.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::files::{Age, Models};
use crate::import::agent::Whole;
use crate::import::facts::{Facts, Tokens};
use crate::import::json::compact;
use crate::import::step::{Call, Outcome, Step, Thread};
use crate::record::Role;

/// What Cline adds to the text of a result that can be compared with the state before it.
const HAS_CHANGES: &str = "HAS_CHANGES";

#[derive(Debug, Deserialize)]
pub(super) struct UiMessage {
    ts: f64,
    ask: Option<String>,
    say: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    images: Option<Vec<String>>,
    #[serde(default)]
    partial: Option<bool>,
    /// Of older versions of Roo Code.
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(rename = "modelInfo")]
    model: Option<ModelInfo>,
    #[serde(rename = "contextCondense")]
    condensed: Option<Condensed>,
}

#[derive(Debug, Deserialize)]
struct ModelInfo {
    #[serde(rename = "modelId")]
    model: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Condensed {
    summary: Option<String>,
}

/// The text of `api_req_started`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names)] // As in the document.
struct Request {
    request: Option<String>,
    /// Of versions of Roo Code in which `tokens_in` has the tokens of the cache in it.
    api_protocol: Option<String>,
    tokens_in: Option<f64>,
    tokens_out: Option<f64>,
    cache_writes: Option<f64>,
    cache_reads: Option<f64>,
    cost: Option<f64>,
    cancel_reason: Option<String>,
    streaming_failed_message: Option<String>,
}

impl Request {
    /// Whether the answer is over, although its tokens may still grow.
    fn is_answered(&self) -> bool {
        self.tokens_out.is_some() || self.cost.is_some() || self.cancel_reason.is_some()
    }

    fn tokens(&self) -> Option<Tokens> {
        let of = Tokens::counted;
        let (write, read) = (of(self.cache_writes), of(self.cache_reads));
        let (input, cached) = (of(self.tokens_in), write.saturating_add(read));
        let is_sum = self.api_protocol.is_some() && input >= cached;
        let tokens = Tokens {
            input: if is_sum {
                input
            } else {
                input.saturating_add(cached)
            },
            cache_write: write,
            cache_read: read,
            output: of(self.tokens_out),
            ..Tokens::default()
        };
        (tokens != Tokens::default()).then_some(tokens)
    }
}

impl UiMessage {
    pub(super) fn read(json: &str) -> Result<UiMessage, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    fn kind(&self) -> &str {
        self.say
            .as_deref()
            .or(self.ask.as_deref())
            .unwrap_or_default()
    }

    fn is_request(&self) -> bool {
        self.say.as_deref() == Some("api_req_started")
    }

    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

/// A call of which the result was not seen.
struct Open {
    id: String,
    is_command: bool,
}

pub(super) struct Reader<'r, 'a, 'log> {
    whole: &'r mut Whole<'a, 'log>,
    thread: Thread,
    format: &'static str,
    models: Models,
    age: Age,
    number: u64,
    /// The request being answered, and its model.
    request: Option<(Uuid, Option<String>)>,
    open: Vec<Open>,
    /// The output of the command that was called last, and when it came.
    output: Option<(i64, String)>,
}

impl<'r, 'a, 'log> Reader<'r, 'a, 'log> {
    pub(super) fn new(
        whole: &'r mut Whole<'a, 'log>,
        thread: Thread,
        format: &'static str,
        models: Models,
        age: Age,
    ) -> Self {
        Reader {
            whole,
            thread,
            format,
            models,
            age,
            number: 0,
            request: None,
            open: Vec::new(),
            output: None,
        }
    }

    /// Reads the messages up to the first that still changes.
    pub(super) fn read_all(mut self, messages: Vec<Result<UiMessage, String>>) {
        let is_request =
            |it: &Result<UiMessage, String>| it.as_ref().is_ok_and(UiMessage::is_request);
        let last_request = messages.iter().rposition(is_request);
        let count = messages.len();
        for (at, message) in messages.into_iter().enumerate() {
            self.number = at as u64 + 1;
            self.whole.take(self.number, Vec::new());
            let message = match message {
                Ok(message) => message,
                Err(reason) => {
                    self.whole.broken(self.number, reason);
                    continue;
                }
            };
            let is_past = last_request.is_some_and(|last| at < last);
            if !is_past && !self.is_final(&message) {
                self.whole.unfinished();
                return;
            }
            let is_first = at == 0;
            // The output of a command comes in pieces, for as long as it runs.
            if message.kind() == "command_output" {
                self.piece(&message);
                if at + 1 == count && !self.age.is_left() {
                    self.whole.unfinished();
                    return;
                }
                continue;
            }
            self.end_command();
            self.read(&message, is_first);
            if self.whole.is_stopped() {
                return;
            }
        }
        self.end_command();
    }

    /// Whether a message of the last request is written for good.
    fn is_final(&self, message: &UiMessage) -> bool {
        if message.partial == Some(true) {
            return self.age.is_left();
        }
        if !message.is_request() {
            return true;
        }
        let request: Request = serde_json::from_str(message.text()).unwrap_or_default();
        self.age.is_left() || self.age.is_quiet() && request.is_answered()
    }

    fn take(&mut self, step: Step) {
        match self.thread.facts(self.format, step) {
            Ok(facts) => self.whole.take(self.number, vec![facts]),
            Err(reason) => self.whole.broken(self.number, reason),
        }
    }

    fn step(&self, message: &UiMessage, role: Role) -> Step {
        let at = message.ts as i64;
        let mut step = self.step_at(&key(message), at, role);
        if role == Role::Assistant
            && let Some((request, model)) = &self.request
        {
            step.part_of = Some(*request);
            step.model.clone_from(model);
        }
        step
    }

    fn step_at(&self, key: &str, at: i64, role: Role) -> Step {
        Step::new(self.thread.key(self.format, key), at, role)
    }

    fn read(&mut self, message: &UiMessage, is_first: bool) {
        let kind = message.kind().to_owned();
        match kind.as_str() {
            "api_req_started" => self.request(message),
            "task" => self.say(message, Role::User, message.text()),
            "text" if is_first => self.say(message, Role::User, message.text()),
            "user_feedback" | "user_feedback_diff" => {
                self.say(message, Role::User, message.text());
            }
            "text" | "completion_result" | "plan_mode_respond" | "act_mode_respond"
            | "followup" | "new_task" | "condense" => {
                if !message.text().is_empty() || message.images.is_some() {
                    self.say(message, Role::Assistant, &question(message.text()));
                }
            }
            "reasoning" => {
                let mut step = self.step(message, Role::Assistant);
                let reasoning = message.reasoning.as_deref();
                let reasoning = reasoning.unwrap_or_else(|| message.text());
                step.reasoning.push(reasoning.to_owned());
                self.take(step);
            }
            "tool" | "command" | "use_mcp_server" | "browser_action_launch" | "browser_action" => {
                self.call(message, &kind);
            }
            "mcp_server_response" | "browser_action_result" => {
                let text = shown_result(message.text());
                self.result(message.ts as i64, &key(message), text, false);
            }
            "error" | "diff_error" | "rooignore_error" | "clineignore_error"
                if !self.open.is_empty() =>
            {
                let text = message.text().to_owned();
                self.result(message.ts as i64, &key(message), text, true);
            }
            // What the user sees besides the conversation, and what the program does.
            "error"
            | "diff_error"
            | "rooignore_error"
            | "clineignore_error"
            | "api_req_failed"
            | "api_req_retry_delayed"
            | "mistake_limit_reached"
            | "condense_context"
            | "condense_context_error"
            | "sliding_window_truncation"
            | "subtask_result"
            | "codebase_search_result"
            | "shell_integration_warning"
            | "task_progress"
            | "info"
            | "user_edit_todos" => self.notice(message),
            // Without content: questions whether to go on, and states of files. The tokens of
            // `api_req_retried` and `api_req_finished` are in `api_req_started`.
            "resume_task"
            | "resume_completed_task"
            | "auto_approval_max_req_reached"
            | "api_req_retried"
            | "api_req_finished"
            | "checkpoint_created"
            | "checkpoint_saved"
            | "mcp_server_request_started" => {}
            other => {
                let kind = if message.say.is_some() { "say" } else { "ask" };
                let facts = Facts::not_understood(format!("{kind}.{other}"));
                self.whole.take(self.number, vec![facts]);
            }
        }
    }

    fn say(&mut self, message: &UiMessage, role: Role, text: &str) {
        let mut step = self.step(message, role);
        let text = text.strip_suffix(HAS_CHANGES).unwrap_or(text);
        step.texts.push(text.to_owned());
        for _ in message.images.iter().flatten() {
            step.others.count("image");
        }
        self.take(step);
    }

    fn notice(&mut self, message: &UiMessage) {
        let mut step = self.step(message, Role::System);
        step.is_harness = true;
        let summary = message
            .condensed
            .as_ref()
            .and_then(|it| it.summary.as_deref());
        let text = summary.unwrap_or_else(|| message.text());
        step.texts
            .push(format!("[{}] {text}", message.kind()).trim_end().to_owned());
        self.take(step);
    }

    fn request(&mut self, message: &UiMessage) {
        let request: Request = match serde_json::from_str(message.text()) {
            Ok(request) => request,
            Err(reason) => {
                self.whole
                    .broken(self.number, format!("api_req_started: {reason}"));
                return;
            }
        };
        let at = message.ts as i64;
        self.answer(at, &key(message), &request);
        let own = message.model.as_ref().and_then(|it| it.model.clone());
        let model = own.or_else(|| self.models.at(at).map(str::to_owned));
        let mut step = self.step_at(&key(message), at, Role::Assistant);
        step.model.clone_from(&model);
        step.tokens = request.tokens();
        step.cost_usd = request.cost.filter(|cost| *cost > 0.0);
        // The request's text, which is left out here, is what other messages say.
        step.error = request.streaming_failed_message.or(request.cancel_reason);
        self.request = Some((step.id, model));
        self.take(step);
    }

    /// What the model is sent tells the result of the call before.
    fn answer(&mut self, at: i64, key: &str, request: &Request) {
        let text = request.request.as_deref().unwrap_or_default();
        let text = text
            .split("<environment_details>")
            .next()
            .unwrap_or(text)
            .trim();
        if self.open.len() == 1 && !text.is_empty() {
            let is_error = text.contains("<error>") || text.contains("The tool execution failed");
            self.result(at, &format!("{key}:result"), text.to_owned(), is_error);
        }
        self.open.clear();
    }

    fn call(&mut self, message: &UiMessage, kind: &str) {
        let text = message.text();
        let json: Option<Value> = serde_json::from_str(text).ok();
        let named = json.as_ref().and_then(|json| json.get("tool")?.as_str());
        let name = match kind {
            "command" => "execute_command",
            "browser_action_launch" => "browser_action",
            "tool" => named.unwrap_or("tool"),
            kind => kind,
        };
        let args = if json.as_ref().is_some_and(Value::is_object) {
            compact(text)
        } else {
            // A text always has a form in JSON.
            let key = if kind == "command" { "command" } else { "text" };
            serde_json::json!({ key: text }).to_string()
        };
        let id = key(message);
        let mut step = self.step(message, Role::Assistant);
        step.calls.push(Call {
            id: id.clone(),
            name: name.to_owned(),
            args,
        });
        self.take(step);
        self.open.push(Open {
            id,
            is_command: kind == "command",
        });
    }

    fn piece(&mut self, message: &UiMessage) {
        let (at, output) = self.output.get_or_insert_default();
        *at = message.ts as i64;
        if !output.is_empty() && !message.text().is_empty() {
            output.push('\n');
        }
        output.push_str(message.text());
    }

    /// Ends the output of a command.
    fn end_command(&mut self) {
        let Some((at, output)) = self.output.take() else {
            return;
        };
        let Some(open) = self.open.iter().rposition(|open| open.is_command) else {
            return self.whole.take(
                self.number,
                vec![Facts::not_understood("command_output without command")],
            );
        };
        let open = self.open.remove(open);
        self.done(at, &format!("{}:result", open.id), open.id, (output, false));
    }

    /// The result of the last call.
    fn result(&mut self, at: i64, key: &str, text: String, is_error: bool) {
        if let Some(open) = self.open.pop() {
            self.done(at, key, open.id, (text, is_error));
        } else {
            let facts = Facts::not_understood("result without call");
            self.whole.take(self.number, vec![facts]);
        }
    }

    fn done(&mut self, at: i64, key: &str, call_id: String, (text, is_error): (String, bool)) {
        let mut step = self.step_at(key, at, Role::Tool);
        step.result = Some(Outcome {
            call_id,
            error: is_error.then(|| text.clone()),
            text,
            ..Outcome::default()
        });
        self.take(step);
    }
}

/// The id of a message in its task. Cline knows messages by their time.
fn key(message: &UiMessage) -> String {
    format!("{}:{}", message.ts as i64, message.kind())
}

/// The words of a question with its options, without the answer that is added to it later.
fn question(text: &str) -> String {
    let Ok(Value::Object(json)) = serde_json::from_str(text) else {
        return text.to_owned();
    };
    let words = ["question", "response"];
    let Some(words) = words.iter().find_map(|key| json.get(*key)?.as_str()) else {
        return text.to_owned();
    };
    let mut said = words.to_owned();
    let options = ["options", "suggest"]
        .iter()
        .find_map(|key| json.get(*key)?.as_array());
    for option in options.into_iter().flatten() {
        let answer = option.as_str().or_else(|| option.get("answer")?.as_str());
        if let Some(answer) = answer {
            said.push_str("\n- ");
            said.push_str(answer);
        }
    }
    said
}

/// A result without the picture in it.
fn shown_result(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(Value::Object(mut json)) if json.contains_key("screenshot") => {
            json.insert("screenshot".to_owned(), Value::from("(picture)"));
            Value::Object(json).to_string()
        }
        _ => text.to_owned(),
    }
}
