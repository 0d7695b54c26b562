//! A sample: its conversation, and those of its agents and scorers.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::events::{self, Events, Ran, Request};
use super::message::{self, Attachments};
use super::{Eval, FORMAT, Items, shape};
use crate::import::facts::{Facts, Tokens};
use crate::import::heading::{Heading, Of, Origin};
use crate::import::json::{self, Raw};
use crate::import::step::{Step, Thread};
use crate::record::Role;

/// Reads a sample.
pub(super) fn read(items: &mut Items<'_, '_, '_>, eval: &Eval, text: &str) -> Result<(), String> {
    let sample: shape::Sample<'_> = json::object(text)?.ok_or("a sample that is no object")?;
    let transcript: shape::Transcript<'_> = json::member(sample.transcript)?.unwrap_or_default();
    let pool: shape::Pool<'_> = json::member(sample.events_data)?.unwrap_or_default();
    let events = Events::of(sample.events.or(transcript.events))?;
    let started = events::time(sample.started).or(events.first);
    let at = started
        .or(eval.created)
        .ok_or("a sample without any time")?;
    let id = json::text_or_bytes(sample.id)?.unwrap_or_default();
    let epoch = json::number(sample.epoch).unwrap_or(1);
    // A copy in the log of a later attempt is the same; a sample that ran again began later.
    let key = match json::owned_text(sample.uuid)? {
        Some(uuid) => uuid,
        None => format!("{}/{id}/{epoch}/{at}", eval.task_id),
    };
    let mut reader = Reader {
        thread: Thread::new(FORMAT, &key),
        attachments: Attachments::of(sample.attachments.or(transcript.content))?,
        pool: json::array(pool.messages.or(sample.message_pool))?.unwrap_or_default(),
        said: HashMap::new(),
        ends: events::time(sample.completed).or(events.last).unwrap_or(at),
        events,
        at,
        items,
    };
    let epoch = match epoch {
        1 => String::new(),
        epoch => format!(", epoch {epoch}"),
    };
    let title = format!("{}: sample {id}{epoch}", eval.task);
    let heading = reader.thread.titled(Origin::Summary, &title);
    let not_understood = std::mem::take(&mut reader.events.others);
    reader.items.take(Ok(Facts {
        headings: heading.into_iter().collect(),
        not_understood,
        ..Facts::default()
    }));
    reader.messages(sample.messages)?;
    reader.notices(&sample)?;
    reader.rest(sample.model_usage)
}

/// What tells a message from others of its conversation.
fn identity(message: &shape::Message<'_>, attachments: &Attachments<'_>) -> Result<String, String> {
    match json::owned_text(message.id)? {
        Some(id) => Ok(id),
        None => Ok(format!("{:016x}", message::said(message, attachments)?)),
    }
}

struct Reader<'r, 'w, 'a, 'log, 's> {
    items: &'r mut Items<'w, 'a, 'log>,
    thread: Thread,
    attachments: Attachments<'s>,
    pool: Vec<&'s str>,
    events: Events<'s>,
    /// The time of messages that have none: that of the message before.
    at: i64,
    ends: i64,
    /// The messages of the conversation so far, and how often each was there.
    said: HashMap<String, u64>,
}

impl<'s> Reader<'_, '_, '_, '_, 's> {
    /// Hands over all messages: those of the sample, and what else was asked of models.
    fn messages(&mut self, raw: Raw<'s>) -> Result<(), String> {
        let mut messages = Vec::new();
        for text in json::array(raw)?.into_iter().flatten() {
            messages.push(json::object::<shape::Message<'_>>(text)?.unwrap_or_default());
        }
        let answers = self.answers(&messages)?;
        let requests = std::mem::take(&mut self.events.requests);
        let taken: HashSet<usize> = answers.iter().flatten().copied().collect();
        let owners = taken.iter().filter_map(|n| requests.get(*n));
        let owners: HashSet<Option<String>> = owners.map(|it| it.owner.clone()).collect();
        let is_own =
            |request: &Request<'_>| request.owner.is_none() || owners.contains(&request.owner);
        let mut open: VecDeque<usize> = (0..requests.len())
            .filter(|n| !taken.contains(n) && requests.get(*n).is_some_and(is_own))
            .collect();
        for (message, answer) in messages.iter().zip(&answers) {
            while let Some(n) = open.front().copied()
                && answer.is_some_and(|answer| n < answer)
            {
                open.pop_front();
                self.beside(requests.get(n));
            }
            self.message(message, answer.and_then(|n| requests.get(n)));
        }
        for n in open {
            self.beside(requests.get(n));
        }
        let main = self.thread.clone();
        let mut agents: Vec<&String> = Vec::new();
        for request in &requests {
            if let Some(owner) = request.owner.as_ref().filter(|_| !is_own(request))
                && !agents.contains(&owner)
            {
                agents.push(owner);
            }
        }
        for agent in agents {
            let requests = requests.iter();
            let of_agent = requests.filter(|it| it.owner.as_ref() == Some(agent));
            self.agent(&main, agent, of_agent)?;
        }
        self.thread = main;
        self.events.requests = requests;
        Ok(())
    }

    /// The request that each message answers: by its id, else by what it says.
    fn answers(&self, messages: &[shape::Message<'_>]) -> Result<Vec<Option<usize>>, String> {
        let requests = &self.events.requests;
        let mut by_id: HashMap<String, VecDeque<usize>> = HashMap::new();
        for (n, request) in requests.iter().enumerate() {
            if let Some(answer) = &request.answer
                && let Some(id) = json::owned_text(answer.id)?
            {
                by_id.entry(id).or_default().push_back(n);
            }
        }
        let mut answers = Vec::with_capacity(messages.len());
        for message in messages {
            let id = json::text(message.id)?;
            answers.push(id.and_then(|id| by_id.get_mut(&*id)?.pop_front()));
        }
        let taken: HashSet<usize> = answers.iter().flatten().copied().collect();
        let mut by_words: HashMap<u64, VecDeque<usize>> = HashMap::new();
        for (n, request) in requests.iter().enumerate() {
            if let Some(answer) = request.answer.as_ref().filter(|_| !taken.contains(&n)) {
                let words = message::said(answer, &self.attachments)?;
                by_words.entry(words).or_default().push_back(n);
            }
        }
        for (message, answer) in messages.iter().zip(&mut answers) {
            let is_open = answer.is_none() && !by_words.is_empty();
            if is_open && message::role(message)? == Some(Role::Assistant) {
                let words = message::said(message, &self.attachments)?;
                *answer = by_words.get_mut(&words).and_then(VecDeque::pop_front);
            }
        }
        Ok(answers)
    }

    /// A message of the conversation.
    fn message(&mut self, message: &shape::Message<'_>, request: Option<&Request<'_>>) {
        let step = self.step(message, request);
        match step {
            Ok(steps) => {
                for step in steps {
                    let facts = self.thread.facts(FORMAT, step);
                    self.items.take(facts);
                }
            }
            Err(reason) => self.items.take(Err(reason)),
        }
    }

    fn step(
        &mut self,
        message: &shape::Message<'_>,
        request: Option<&Request<'_>>,
    ) -> Result<Vec<Step>, String> {
        let Some(role) = message::role(message)? else {
            let role = json::type_name(message.role)?;
            let role: String = role.chars().take(80).collect();
            let facts = Facts::not_understood(format!("message.{role}"));
            self.items.take(Ok(facts));
            return Ok(Vec::new());
        };
        let own = json::text(message.id)?;
        let key = identity(message, &self.attachments)?;
        // The same message twice: the second one is another.
        let again = self.said.get(&key).copied().unwrap_or(0);
        let id = match again {
            0 => key.clone(),
            times => format!("{key}:{}", times + 1),
        };
        let ran = match role {
            Role::Tool => {
                let call = json::text(message.call_id)?;
                self.events.ran(own.as_deref(), call.as_deref())
            }
            _ => None,
        };
        let at = request.and_then(|request| request.at);
        self.at = at.or(ran.map(|ran| ran.at)).unwrap_or(self.at);
        let mut step = Step::new(self.thread.key(FORMAT, &id), self.at, role);
        let results = message::fill(&mut step, message, &self.attachments)?;
        step.model = json::owned_text(message.model)?;
        if let Some(request) = request {
            count(&mut step, request);
        }
        if let (Some(result), Some(Ran { latency_ms, .. })) = (&mut step.result, ran) {
            result.latency_ms = latency_ms;
        }
        let mut steps = vec![step];
        for result in results {
            let key = format!("{id}:{}", result.call_id);
            let mut step = Step::new(self.thread.key(FORMAT, &key), self.at, Role::Tool);
            step.result = Some(result);
            steps.push(step);
        }
        self.said.insert(key, again + 1);
        Ok(steps)
    }

    /// A request of the same agent, whose answer is not in its conversation.
    fn beside(&mut self, request: Option<&Request<'_>>) {
        let Some(request) = request else { return };
        let steps = match &request.answer {
            Some(answer) => self.step(answer, Some(request)),
            None => Ok(self.unanswered(request).into_iter().collect()),
        };
        match steps {
            Ok(steps) => {
                for mut step in steps {
                    step.is_harness = true;
                    let facts = self.thread.facts(FORMAT, step);
                    self.items.take(facts);
                }
            }
            Err(reason) => self.items.take(Err(reason)),
        }
    }

    /// A request without an answer: it failed, or the sample ended before.
    fn unanswered(&mut self, request: &Request<'_>) -> Option<Step> {
        if request.error.is_none() && request.tokens.is_none() {
            return None;
        }
        self.at = request.at.unwrap_or(self.at);
        let error = request.error.clone().unwrap_or_default();
        let key = format!("request:{}:{error}", self.at);
        let mut step = Step::new(self.thread.key(FORMAT, &key), self.at, Role::Assistant);
        step.is_usage = request.error.is_none();
        step.texts.extend(request.error.clone());
        count(&mut step, request);
        Some(step)
    }

    /// The conversation of an agent or a scorer: what it sent to models, and their answers.
    fn agent<'q>(
        &mut self,
        main: &Thread,
        span: &str,
        requests: impl Iterator<Item = &'q Request<'s>>,
    ) -> Result<(), String>
    where
        's: 'q,
    {
        let id = main.key(FORMAT, &format!("span:{span}"));
        self.thread = main.agent(id, main.id);
        self.said = HashMap::new();
        let name = self.events.spans.get(span).map(|span| span.name.as_str());
        let title = self
            .thread
            .titled(Origin::Summary, name.unwrap_or_default());
        let call = self.events.started.get(span).cloned();
        let started = Heading {
            of: Of::ConversationRef(id),
            title: title.and_then(|heading| heading.title),
            parent: Some(main.id),
            call,
        };
        self.items.take(Ok(Facts {
            headings: vec![started],
            ..Facts::default()
        }));
        let mut is_first = true;
        for request in requests {
            if std::mem::take(&mut is_first) {
                self.at = request.at.unwrap_or(self.at);
            }
            for text in request.input(&self.pool)? {
                let message: shape::Message<'_> = json::object(text)?.unwrap_or_default();
                let key = identity(&message, &self.attachments)?;
                if !self.said.contains_key(&key) {
                    self.message(&message, None);
                }
            }
            match &request.answer {
                Some(answer) => self.message(answer, Some(request)),
                None => self.beside(Some(request)),
            }
        }
        Ok(())
    }

    /// What ended the sample, and its scores.
    fn notices(&mut self, sample: &shape::Sample<'_>) -> Result<(), String> {
        let mut notices = Vec::new();
        for retry in json::array(sample.retries)?.into_iter().flatten() {
            let retry: shape::Trouble<'_> = json::object(retry)?.unwrap_or_default();
            let error = self.attachments.text(retry.message)?.unwrap_or_default();
            notices.push(format!("Error, the sample was tried again: {error}"));
            if json::array(retry.events)?.is_some_and(|it| !it.is_empty()) {
                let facts = Facts::not_understood("error_retries.events");
                self.items.take(Ok(facts));
            }
        }
        if let Some(limit) = json::member::<shape::Trouble<'_>>(sample.limit)? {
            let kind = json::type_name(limit.kind)?;
            let most = limit.limit.get().unwrap_or_default();
            let reason = self.attachments.text(limit.reason)?;
            let reason = reason.map(|it| format!(": {it}")).unwrap_or_default();
            notices.push(format!("Limit reached: {kind} {most}{reason}"));
        }
        if let Some(error) = json::member::<shape::Trouble<'_>>(sample.error)? {
            let error = self.attachments.text(error.message)?.unwrap_or_default();
            notices.push(format!("Error: {error}"));
        }
        for (name, score) in json::members(sample.scores)?.into_iter().flatten() {
            notices.push(self.score(&name, score)?);
        }
        if sample.score.get().is_some() {
            notices.push(self.score("score", sample.score)?);
        }
        self.at = self.ends;
        for (n, text) in notices.into_iter().enumerate() {
            let key = format!("notice:{n}:{text}");
            let mut step = Step::new(self.thread.key(FORMAT, &key), self.at, Role::System);
            step.is_harness = true;
            step.texts.push(text);
            let facts = self.thread.facts(FORMAT, step);
            self.items.take(facts);
        }
        Ok(())
    }

    fn score(&self, name: &str, raw: Raw<'_>) -> Result<String, String> {
        let score: shape::Score<'_> = json::member(raw)?.unwrap_or_default();
        let value = json::text_or_bytes(score.value)?.unwrap_or("null".into());
        let mut text = format!("Score {name}: {value}");
        for (what, raw) in [("Answer", score.answer), ("Explanation", score.explanation)] {
            if let Some(said) = self.attachments.text(raw)?.filter(|it| !it.is_empty()) {
                text = format!("{text}\n\n{what}: {said}");
            }
        }
        Ok(text)
    }

    /// What the sample used beyond the requests in its events.
    fn rest(&mut self, usage: Raw<'_>) -> Result<(), String> {
        let all = json::members(usage)?.unwrap_or_default();
        let mut sums: BTreeMap<&str, (Tokens, f64)> = BTreeMap::new();
        for request in &self.events.requests {
            if let Some(tokens) = request.tokens {
                let (sum, cost) = sums.entry(&request.billed).or_default();
                events::add(sum, tokens);
                *cost += request.cost_usd.unwrap_or(0.0);
            }
        }
        // Under another name, a sum would be counted twice.
        if !sums.keys().all(|model| all.contains_key(*model)) {
            return Ok(());
        }
        for (model, usage) in &all {
            let usage: shape::Usage<'_> = json::member(*usage)?.unwrap_or_default();
            let (sum, cost) = sums.get(model.as_str()).copied().unwrap_or_default();
            let Some(rest) = events::tokens(&usage).map(|all| all.beyond(sum)) else {
                continue;
            };
            if rest == Tokens::default() {
                continue;
            }
            let key = format!("usage:{model}");
            let mut step = Step::new(self.thread.key(FORMAT, &key), self.ends, Role::Assistant);
            step.is_usage = true;
            step.model = Some(model.clone());
            step.tokens = Some(rest);
            step.cost_usd = json::float(usage.cost)
                .map(|all| all - cost)
                .filter(|cost| *cost > 1e-9);
            let facts = self.thread.facts(FORMAT, step);
            self.items.take(facts);
        }
        Ok(())
    }
}

/// What a request used, and how it ended.
#[allow(clippy::cast_possible_truncation)] // Seconds of a request.
fn count(step: &mut Step, request: &Request<'_>) {
    step.model = step.model.take().or_else(|| request.model.clone());
    step.tokens = request.tokens;
    step.cost_usd = request.cost_usd;
    step.usage = request.output.usage.get().map(json::compact);
    step.latency_ms = json::float(request.output.time)
        .filter(|time| *time >= 0.0)
        .map(|time| (time * 1000.0).round() as i64);
    step.error.clone_from(&request.error);
    for _ in 0..request.others {
        step.others.count("choice");
    }
}
