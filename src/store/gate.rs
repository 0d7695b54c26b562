//! The gate: what every record passes before its bytes can reach the disk.
//!
//! A [`Record`] becomes [`Admitted`] before the lock is taken, as that takes time, and [`Kept`]
//! under it, where the settings that it was admitted by are known to hold still. Rules take, and a
//! transaction writes, nothing else; and there is no other way to make one.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError};

use super::{Inner, Settings, Txn, manifest};
use crate::error::Result;
use crate::privacy::{Privacy, has_hashed_user};
use crate::record::{Kind, Record};

/// Settings, ready to be obeyed.
#[derive(Debug)]
pub(super) struct Gate {
    settings: Settings,
    user_id_key: Option<PathBuf>,
    /// Made when it is first needed, as who only reads mostly never does.
    privacy: OnceLock<Privacy>,
    /// Tells it from the other gates of the same handle.
    number: u64,
}

impl Gate {
    /// The first one of a handle.
    pub(super) fn new(settings: Settings, user_id_key: Option<PathBuf>) -> Gate {
        Gate {
            settings,
            user_id_key,
            privacy: OnceLock::new(),
            number: 0,
        }
    }

    /// The next one, for other settings.
    fn next(&self, settings: Settings) -> Gate {
        Gate {
            number: self.number + 1,
            ..Gate::new(settings, self.user_id_key.clone())
        }
    }

    fn privacy(&self) -> Result<&Privacy> {
        if let Some(privacy) = self.privacy.get() {
            return Ok(privacy);
        }
        let privacy = Privacy::new(self.settings.privacy.clone())?;
        let privacy = privacy.with_key_at(self.user_id_key.clone());
        Ok(self.privacy.get_or_init(|| privacy))
    }

    fn apply(&self, record: Record) -> Result<Record> {
        self.privacy()?.apply(record)
    }
}

/// What may be kept of a record, by the settings that its handle knew then.
#[derive(Debug)]
pub(crate) struct Admitted {
    record: Record,
    /// The gate's.
    number: u64,
}

/// What is kept of a record, by the settings that hold.
#[derive(Debug)]
pub(crate) struct Kept(Record);

impl Inner {
    /// What may be kept of a record that was checked.
    pub(crate) fn admit(&self, record: Record) -> Result<Admitted> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Admitted {
            record: gate.apply(record)?,
            number: gate.number,
        })
    }

    /// The forms in which the log may have a user's id, whatever the settings were when it was
    /// recorded: as it is given, and hashed. No key is made.
    ///
    /// # Errors
    /// There are hashed ids, and the key cannot be read.
    pub(crate) fn user_ids(&self, id: &str) -> Result<Vec<String>> {
        let mut forms = vec![id.to_owned()];
        match self.gate().privacy()?.hashed_user_id(id) {
            Ok(hashed) if hashed != id => forms.push(hashed),
            Err(e) if self.has_hashed_users()? => return Err(e),
            _ => {}
        }
        Ok(forms)
    }

    fn has_hashed_users(&self) -> Result<bool> {
        for name in self.segments()? {
            let mut is_any = false;
            let mut look = |line: &[u8]| is_any |= has_hashed_user(line);
            if name.kind == Kind::Conversations {
                // What cannot be read is told as damage.
                let _ = self.each_line(name, &mut look);
            }
            if is_any {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The settings as this handle last read them.
    pub(super) fn known_settings(&self) -> Settings {
        self.gate().settings.clone()
    }

    /// The gate of the settings that the manifest has; the known one if it is gone.
    pub(super) fn read_gate(&self) -> Result<Arc<Gate>> {
        let manifest = manifest::read(&*self.storage)?;
        Ok(manifest.map_or_else(|| self.gate(), |manifest| self.obey(manifest.settings)))
    }

    fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets records in by these settings from now on.
    pub(super) fn obey(&self, settings: Settings) -> Arc<Gate> {
        let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        if gate.settings != settings {
            *gate = Arc::new(gate.next(settings));
        }
        Arc::clone(&gate)
    }
}

impl Txn<'_> {
    /// What is kept of a record that was admitted before the lock was taken.
    pub(crate) fn admit(&self, admitted: Admitted) -> Result<Kept> {
        let Admitted { record, number } = admitted;
        if number == self.gate().number {
            return Ok(Kept(record));
        }
        self.keep(record)
    }

    /// What is kept of a record that was made, and checked, under the lock.
    pub(crate) fn keep(&self, record: Record) -> Result<Kept> {
        self.gate().apply(record).map(Kept)
    }
}

/// What the log itself gives a record. Texts are not among it: those go through the gate, also
/// where they come from another line, which may be older than the settings.
impl Kept {
    pub(crate) fn record(&self) -> &Record {
        &self.0
    }

    /// The id of an event, a task or an entry.
    pub(crate) fn set_id(&mut self, given: i64) {
        match &mut self.0 {
            Record::Event(event) => event.id = given,
            Record::InboxTask(task) => task.id = given,
            Record::History(entry) => entry.id = given,
            _ => {}
        }
    }

    /// The place of a message in its conversation.
    pub(crate) fn set_sequence(&mut self, sequence: i64) {
        if let Record::Message(message) = &mut self.0 {
            message.sequence = Some(sequence);
        }
    }

    /// Which attempt a step of a task is of.
    pub(crate) fn set_attempt(&mut self, attempt: i64) {
        if let Record::InboxStep(step) = &mut self.0 {
            step.attempt = attempt;
        }
    }

    /// Binds a thought to the one before it, by its hash.
    pub(crate) fn chain(&mut self, prev_hash: String) {
        if let Record::Thought(thought) = &mut self.0 {
            thought.prev_hash = prev_hash;
            thought.hash = thought.computed_hash();
        }
    }

    /// Makes a conversation a change of one that the log has.
    pub(crate) fn make_change(&mut self) {
        if let Record::Conversation(conversation) = &self.0 {
            self.0 = Record::ConversationUpdated(conversation.clone());
        }
    }
}
