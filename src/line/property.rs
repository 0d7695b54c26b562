//! Property tests with lines of random, hostile records, and with mutations of such lines: the fast
//! paths must agree with the parser.

use proptest::prelude::*;
use uuid::Uuid;

use super::decode::decode_any;
use super::fuzz_check::{any_line, facts, has_own_type, restamped, texts, typed};
use super::*;
use crate::record::{
    Client, CodeEditProposal, ContentType, Conversation, ConversationMessage, ConversationStatus,
    ConversationTurn, Day, Event, HistoryEntry, IdHashes, InboxStep, InboxTask, MessageSums,
    ProposalStatus, ProposalStep, Record, Role, Rollup, Sketch, Source, TaskStatus, ThoughtRecord,
    ThoughtType, Timestamp, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity,
};

/// A random generator with a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 27)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.roll() >> 16) as usize % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn some<T>(&mut self, value: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| value(self))
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.roll(), self.roll())
    }

    fn int(&mut self) -> i64 {
        let (any, bits) = (self.roll().cast_signed(), self.below(64));
        self.pick(&[0, 1, -1, 42, i64::MIN, i64::MAX, any, any >> bits])
    }

    fn at(&mut self) -> i64 {
        self.pick(&[0, 1, 99_999_999, 1_766_832_000_123, 253_402_300_799_999])
    }

    fn validity(&mut self) -> Validity {
        Validity {
            at: self.at(),
            is_valid: self.below(3) > 0,
        }
    }

    fn time(&mut self) -> Timestamp {
        let time = self.pick(&[
            "2026-04-17T02:00:00+02:00",
            "2026-04-17T00:00:00Z",
            "2024-02-29T23:59:59.999Z",
            "2016-12-31T23:59:60Z",
            "1970-01-01t00:00:00.000000001z",
            "9999-12-31T23:59:59.9994Z",
        ]);
        time.parse().unwrap()
    }

    fn fraction(&mut self) -> f64 {
        self.pick(&[0.0, 1.0, 0.5, 5e-324, 0.1 + 0.2, 1.0 - f64::EPSILON, 1e-7])
    }

    fn text(&mut self) -> String {
        const PIECES: &[&str] = &[
            "a",
            "plain words, more of them than fit in one block of bytes; ",
            "\"",
            "\\",
            "\\\"",
            "\n",
            "\r\n",
            "\t",
            "\0",
            "\u{8}\u{c}\u{1f}\u{7f}\u{85}",
            "\u{2028}🦀é",
            "\\u0000",
            ",\"crc\":\"00000000\"}",
            "\",\"parent_id\":\"",
            "/",
        ];
        (0..self.below(7)).map(|_| self.pick(PIECES)).collect()
    }

    fn payload(&mut self) -> String {
        const PAYLOADS: &[&str] = &[
            "{}",
            "[]",
            " {}",
            "{\n}",
            "{a}",
            "[1e400]",
            "[123456789012345678901234567890, 0.10000000000000000555]",
            "[ 1 ,\t2 , { \"b\" : [ ] } ]",
            r#"{"a":{"b":{"c":[1,2.50,"\u00e9\n"]}},"a":1}"#,
            r#"{"a":"x","crc":"00000000"}"#,
            r#"["\ud83d\ude00"]"#,
            r#"{"a":"}],\"","b\\":"{["}"#,
        ];
        match self.below(4) {
            0 => self.text(),
            1 => serde_json::json!({ self.text(): [self.text(), self.int()] }).to_string(),
            2 => "[".repeat(63) + &"]".repeat(63),
            _ => self.pick(PAYLOADS).to_owned(),
        }
    }

    fn record(&mut self) -> Record {
        match self.below(14) {
            0 => Record::Turn(ConversationTurn {
                id: self.uuid(),
                parent_id: self.some(Dice::uuid),
                message_id: self.uuid(),
                kind: self.pick(TurnKind::ALL),
                content: self.text(),
                created_at: self.validity(),
                thread_id: self.some(Dice::uuid),
            }),
            1 => Record::CallRequested(ToolCallReq {
                request_id: self.uuid(),
                call_id: self.text(),
                parent_id: self.uuid(),
                vendor: self.text(),
                tool_name: self.text(),
                args_sha256: self.text(),
                arguments_json: self.some(Dice::payload),
                started_at: self.validity(),
            }),
            2 => Record::CallDone(ToolCallDone {
                request_id: self.uuid(),
                call_id: self.text(),
                ended_at: Validity::at(self.at()),
                latency_ms: self.int(),
                outcome_json: self.some(Dice::payload),
                error_kind: self.some(Dice::text),
                error_msg: self.some(Dice::text),
                status: self.pick(ToolStatus::ALL),
            }),
            3 => Record::Proposal(CodeEditProposal {
                confidence: self.some(Dice::fraction),
                created_at: self.validity(),
                ..CodeEditProposal::new(self.uuid(), self.payload(), 0)
            }),
            4 => self.proposal_step(),
            5 => Record::Conversation(self.conversation()),
            6 => Record::ConversationUpdated(self.conversation()),
            7 => Record::Message(Box::new(self.message())),
            8 => Record::Event(Event {
                id: self.int(),
                parent_id: self.some(Dice::int),
                event_type: self.text(),
                created_at: self.at(),
                payload: self.some(Dice::payload),
            }),
            9 => Record::History(HistoryEntry {
                id: self.int(),
                chat_id: self.int(),
                role: self.pick(Role::ALL),
                created_at: self.at(),
                text: self.text(),
            }),
            10 => {
                let at = self.at();
                Record::InboxTask(InboxTask {
                    id: self.int(),
                    chat_id: self.some(Dice::int),
                    text: self.some(Dice::text),
                    message_date: self.some(Dice::int),
                    created_at: at,
                    updated_at: at,
                    ..InboxTask::new(self.int(), self.some(Dice::payload))
                })
            }
            11 => Record::InboxStep(InboxStep {
                id: self.int().max(1),
                status: self.pick(TaskStatus::ALL),
                at: self.at(),
                attempt: self.int(),
                error: self.some(Dice::text),
            }),
            12 => Record::Rollup(Box::new(self.rollup())),
            _ => Record::Thought(ThoughtRecord {
                id: self.text(),
                task_id: self.text(),
                prev_hash: self.text(),
                hash: self.text(),
                thought_type: self.pick(ThoughtType::ALL),
                agent_id: self.text(),
                timestamp: self.time(),
                content: self.text(),
            }),
        }
    }

    fn rollup(&mut self) -> Rollup {
        let mut latency_sketch = Sketch::default();
        for _ in 0..self.below(4) {
            latency_sketch.add(self.count());
        }
        let counted = latency_sketch.count();
        Rollup {
            day: Day::of(self.at()).unwrap(),
            model_used: self.some(Dice::text),
            config_used: self.some(Dice::text),
            orchestration_mode: self.some(Dice::text),
            task_type: self.some(Dice::text),
            part: self.pick(&[0, 0, 1, u64::MAX]),
            through_seq: self.count(),
            messages: self.count(),
            requests: self.count(),
            tokens_in: self.count(),
            tokens_out: self.count(),
            tokens_cache_write: self.count(),
            tokens_cache_write_1h: self.count(),
            tokens_cache_read: self.count(),
            tokens_reasoning: self.count(),
            cost_nano_usd: self.count(),
            cost_count: self.count(),
            latency_ms_sum: self.count(),
            latency_count: self.pick(&[counted, counted, 7]),
            latency_sketch,
            context_utilization_sum: self.fraction() * self.pick(&[1.0, 1e9, f64::MAX]),
            context_utilization_count: self.count(),
            compressed: self.count(),
            errors: self.count(),
            errors_by_type: (0..self.below(3))
                .map(|_| (self.text(), self.count()))
                .collect(),
            conversations: self.count(),
            active_conversations: self.count(),
            others: self.others(),
            message_hashes: self.hashes(),
            conversation_hashes: self.hashes(),
        }
    }

    fn hashes(&mut self) -> IdHashes {
        IdHashes::of((0..self.below(4)).map(|_| self.count()).collect())
    }

    fn others(&mut self) -> MessageSums {
        if self.below(2) == 0 {
            return MessageSums::default();
        }
        let mut latency_sketch = Sketch::default();
        latency_sketch.add(self.count());
        MessageSums {
            tokens_in: self.count(),
            tokens_cache_write_1h: self.count(),
            tokens_cache_read: self.count(),
            cost_nano_usd: self.count(),
            latency_count: self.pick(&[1, 1, 7]),
            latency_sketch,
            context_utilization_sum: self.fraction(),
            errors: self.count(),
            errors_by_type: [(self.text(), self.count())].into(),
            ..MessageSums::default()
        }
    }

    fn count(&mut self) -> u64 {
        let (any, bits) = (self.roll(), self.below(64));
        self.pick(&[0, 1, 42, u64::MAX, any, any >> bits])
    }

    fn proposal_step(&mut self) -> Record {
        let status = self.pick(&ProposalStatus::ALL[1..]);
        let is_decision = matches!(status, ProposalStatus::Approved | ProposalStatus::Denied);
        Record::ProposalStep(ProposalStep {
            decided_at: self.some(Dice::int).filter(|_| !is_decision),
            applied_at: self
                .some(Dice::int)
                .filter(|_| status == ProposalStatus::Reverted),
            commit_hash: self.some(Dice::text),
            ..ProposalStep::new(self.uuid(), status, self.at())
        })
    }

    fn conversation(&mut self) -> Conversation {
        Conversation {
            id: self.uuid(),
            workspace: self.some(Dice::text),
            project: self.some(Dice::text),
            client: self.pick(Client::ALL),
            user_id: self.some(Dice::text),
            session_id: self.some(Dice::text),
            parent_id: self.some(Dice::uuid),
            agent: self.some(Dice::text),
            parent_call_id: self.some(Dice::text),
            title: self.some(Dice::text),
            status: self.pick(ConversationStatus::ALL),
            created_at: self.time(),
            updated_at: self.time(),
            last_error: self.some(Dice::text),
        }
    }

    fn message(&mut self) -> ConversationMessage {
        ConversationMessage {
            id: self.uuid(),
            conversation_id: self.uuid(),
            sequence: Some(self.int()),
            timestamp: self.time(),
            role: self.pick(Role::ALL),
            source: self.pick(Source::ALL),
            content_type: self.pick(ContentType::ALL),
            model_used: self.some(Dice::text),
            config_used: self.some(Dice::text),
            orchestration_mode: self.some(Dice::text),
            task_type: self.some(Dice::text),
            git_branch: self.some(Dice::text),
            tokens_in: self.some(Dice::int),
            tokens_out: self.some(Dice::int),
            tokens_cache_write: self.some(Dice::int),
            tokens_cache_write_1h: self.some(Dice::int),
            tokens_cache_read: self.some(Dice::int),
            tokens_reasoning: self.some(Dice::int),
            latency_ms: self.some(Dice::int),
            context_utilization: self.some(Dice::fraction),
            cost_usd: self.some(|dice| dice.fraction() * 1e3),
            handoff_steps: self.some(Dice::int),
            compression_applied: self.some(|dice| dice.below(2) == 0),
            error_type: self.some(Dice::text),
            error: self.some(Dice::text),
            tool_name: self.some(Dice::text),
            tool_call_id: self.some(Dice::text),
            models_in_chain: self
                .some(|dice| (0..dice.below(3)).map(|_| dice.text()).collect::<Vec<_>>()),
            part_of: self.some(Dice::uuid),
            content: self.text(),
            reasoning: self.some(Dice::text),
            tool_args: self.some(Dice::payload),
            tool_result: self.some(Dice::text),
            inference_metadata: self.some(Dice::payload),
        }
    }

    /// A random record and its line, without LF.
    fn line(&mut self) -> (Record, Vec<u8>) {
        let (record, parent_id) = (self.record(), self.some(Dice::uuid));
        let seq = self.pick(&[1, 12_345_678, 1_234_567_890_123_456_789]);
        let mut line = Vec::new();
        encode(&record, parent_id, seq, LINE_BYTES_MAX, &mut line).unwrap();
        assert_eq!(line.pop(), Some(b'\n'));
        (record, line)
    }
}

#[test]
fn a_task_without_update_id_is_no_step_either() {
    let line = restamped(br#"{"seq":1,"at":1,"op":"queued","id":0,"crc":"00000000"}"#.to_vec());
    any_line(crate::record::Kind::Inbox, &line);
    let reason = decode_any(crate::record::Kind::Inbox, &line)
        .err()
        .map(|it| it.text);
    assert_eq!(reason.as_deref(), Some("missing field `update_id`"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_written_is_read_on_the_fast_path(seed in any::<u64>()) {
        let (record, line) = Dice(seed).line();
        let kind = record.kind();
        let fast = canonical::decode(kind, &line);
        let slow = decode_any(kind, &line).unwrap();
        let shown = String::from_utf8_lossy(&line);
        prop_assert!(fast.is_some(), "{}", shown);
        let fast = fast.unwrap();
        prop_assert_eq!(facts(&fast), facts(&slow), "{}", shown);
        prop_assert_eq!(&slow.record, &record, "{}", shown);
        if has_own_type(&record) {
            prop_assert_eq!(typed(&record, &line), Some(record), "{}", shown);
        }
    }

    #[cfg(feature = "rows")]
    #[test]
    fn a_line_is_the_row_of_its_record(seed in any::<u64>(), columns in any::<u64>()) {
        use crate::record::columns::{ColumnSet, Row};
        use crate::record::declare::Fields as _;
        let (record, line) = Dice(seed).line();
        let kind = record.kind();
        for wanted in [ColumnSet::ALL, ColumnSet(columns)] {
            let mut expected = Row::of(kind, wanted);
            crate::record::each_type!(&record, it => it.write(&mut expected)).unwrap();
            let mut row = Row::of(kind, wanted);
            let is_read = add_line(&mut row, kind, &line).is_some();
            let is_of_values = match &record {
                Record::Turn(turn) => turn.created_at.is_valid,
                Record::CallRequested(call) => call.started_at.is_valid,
                Record::CallDone(_)
                | Record::Message(_)
                | Record::Event(_)
                | Record::History(_)
                | Record::Thought(_) => true,
                _ => false,
            };
            prop_assert_eq!(is_read, is_of_values);
            if is_read {
                prop_assert_eq!(row.into_cells(), expected.into_cells());
            }
        }
    }

    #[test]
    fn a_record_has_the_envelope_that_its_line_has(seed in any::<u64>()) {
        let (record, line) = Dice(seed).line();
        let kind = record.kind();
        let found = match classify(kind, &line) {
            Line::Good(found) => found,
            // Random records have neither ids that the store assigned nor hashes.
            _ if record.missing().is_some() => return Ok(()),
            _ => panic!("{}", String::from_utf8_lossy(&line)),
        };
        let decoded = decode(kind, &line).unwrap();
        let of_record = decoded.envelope(found.seq);
        let facts = |envelope: &Envelope<'_>| (envelope.seq, envelope.at, envelope.op, envelope.number);
        prop_assert_eq!(facts(&found), facts(&of_record));
        let of_count = |measures: Option<Measures<'_>>| measures.map(|measures| {
            format!("{measures:?}")
        });
        prop_assert_eq!(of_count(found.measures()), of_count(of_record.measures()));
        // The parent of an outcome is that of its request.
        if !matches!(record, Record::CallDone(_)) {
            prop_assert_eq!(texts(&found), texts(&of_record));
        }
    }

    #[test]
    fn what_the_fast_path_is_sure_of_is_what_the_parser_says(
        seed in any::<u64>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..6usize, any::<u8>()), 1..4),
    ) {
        const MEMBERS: &[&str] = &[
            ",\"new\":1",
            ",\"new\":{\"a\":[]}",
            ",\"parent_id\":null",
            ",\"content\":\"twice\"",
            ",\"outcome_json\":[1]",
            ",\"attempts\":2",
            ",\"locked_at\":5",
            ",\"decided_at\":5",
        ];
        const BYTES: &[u8] = b"\"\\{}[],:0-.eE nu\n\r\x00\xff";
        let (record, mut line) = Dice(seed).line();
        for (index, edit, byte) in edits {
            let commas: Vec<usize> = memchr::memchr_iter(b',', &line).collect();
            let at = index.index(line.len());
            let comma = commas.get(index.index(commas.len().max(1))).copied().unwrap_or(0);
            let next = commas.iter().copied().find(|next| *next > comma).unwrap_or(comma);
            match edit {
                0 => line[at] ^= 1 << (byte % 8),
                1 => line[at] = BYTES[byte as usize % BYTES.len()],
                2 => {
                    let member = MEMBERS[byte as usize % MEMBERS.len()];
                    line.splice(comma..comma, member.bytes());
                }
                3 => drop(line.drain(comma..next)),
                // Move a member to another place.
                4 => {
                    let moved: Vec<u8> = line.drain(comma..next).collect();
                    let to = commas[0].min(line.len());
                    line.splice(to..to, moved);
                }
                _ => drop(line.remove(at)),
            }
            if line.is_empty() {
                break;
            }
        }
        for line in [restamped(line.clone()), line] {
            let kind = record.kind();
            any_line(kind, &line);
        }
    }

    #[test]
    fn records_that_serialize_themselves_stand_in_lines_as_they_do(seed in any::<u64>()) {
        let (record, line) = Dice(seed).line();
        let members = match &record {
            // A serialised conversation includes absent fields as null.
            Record::Conversation(own) | Record::ConversationUpdated(own) => {
                let json = serde_json::to_string(own);
                json.map(|json| {
                    let names = ["workspace", "project", "user_id", "session_id"];
                    let without = |json: String, name| json.replace(&format!("\"{name}\":null,"), "");
                    names.into_iter().fold(json, without)
                })
            }
            Record::Message(own) => serde_json::to_string(own),
            Record::Event(own) => serde_json::to_string(own),
            Record::History(own) => serde_json::to_string(own),
            Record::Thought(own) => serde_json::to_string(own),
            Record::Rollup(own) => serde_json::to_string(own),
            _ => return Ok(()),
        };
        let members = members.unwrap();
        let line = String::from_utf8(line).unwrap();
        let covered = &line[..line.len() - TAIL_LEN];
        let own = &members[1..members.len() - 1];
        let (first, _) = own.split_once(':').unwrap();
        let start = covered.find(&format!(",{first}:")).unwrap() + 1;
        prop_assert_eq!(&covered[start..], own);
    }
}
