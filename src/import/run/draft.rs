//! The message that is being read: which lines add to it, and how.

use std::borrow::Cow;

use crate::import::batch::Place;
use crate::import::facts::{Piece, Text, Tokens};
use crate::record::ConversationMessage;

pub(super) struct Draft {
    pub(super) place: Place,
    pub(super) piece: Piece,
    pub(super) message: Box<ConversationMessage>,
    pub(super) tokens: Option<Tokens>,
}

impl Draft {
    pub(super) fn is_added_to_by(
        &self,
        next: &Draft,
        texts: &[Text<'_>],
        bytes_max: usize,
    ) -> bool {
        if self.message.conversation_id != next.message.conversation_id {
            return false;
        }
        match (self.piece, next.piece) {
            (Piece::Of(response), Piece::Of(other)) => {
                let bytes: usize = texts.iter().map(Text::len).sum();
                let so_far = self.message.content.len()
                    + self.message.tool_args.as_ref().map_or(0, String::len);
                response == other
                    && so_far + bytes <= bytes_max
                    && self.message.error.is_none()
                    && next.message.error.is_none()
            }
            (Piece::WithoutUsage, Piece::Usage) => true,
            _ => false,
        }
    }

    pub(super) fn add(&mut self, next: Draft, texts: Vec<Text<'_>>) {
        self.tokens = next.tokens.or(self.tokens);
        let (mine, more) = (&mut self.message, next.message);
        mine.model_used = more.model_used.or(mine.model_used.take());
        mine.inference_metadata = more.inference_metadata.or(mine.inference_metadata.take());
        self.add_texts(texts);
    }

    /// The first call stands in the fields that are made for it, any other among the texts.
    pub(super) fn add_texts(&mut self, texts: Vec<Text<'_>>) {
        let message = &mut self.message;
        for text in texts {
            let words = match text {
                Text::Words(words) => words,
                Text::Call { name, args } if message.tool_name.is_none() => {
                    message.tool_name = Some(name);
                    message.tool_args = args;
                    continue;
                }
                Text::Call { name, args } => match args {
                    Some(args) => Cow::Owned(format!("[tool_use {name}] {args}")),
                    None => Cow::Owned(format!("[tool_use {name}]")),
                },
            };
            if message.content.is_empty() {
                message.content = words.into_owned();
            } else if !words.is_empty() {
                message.content.push_str("\n\n");
                message.content.push_str(&words);
            }
        }
    }
}
