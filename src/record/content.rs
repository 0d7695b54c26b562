//! The content of a message in the formats that clients send: a text, or an array of blocks.

use serde::Deserialize;

/// The parsed content of a client's message.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) text: String,
    /// The model's reasoning, from blocks of the type `thinking`.
    pub(crate) reasoning: Option<String>,
    /// The text is an array of blocks that contains a block other than text.
    pub(crate) is_json: bool,
}

/// A block, such as `{"type": "text", "text": "…"}`.
#[derive(Deserialize)]
struct Block {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
}

impl Content {
    /// Reads a JSON string or an array of blocks. The texts of blocks are joined by an empty line,
    /// and so is the reasoning. An array with other blocks, such as images, is kept unchanged.
    pub(crate) fn from_json(json: &str) -> serde_json::Result<Content> {
        if !json.starts_with('[') {
            let text = serde_json::from_str(json)?;
            return Ok(Content {
                text,
                ..Content::default()
            });
        }
        let blocks: Vec<Block> = serde_json::from_str(json)?;
        let (mut texts, mut thoughts) = (Vec::new(), Vec::new());
        for block in blocks {
            match (&*block.r#type, block.text, block.thinking) {
                ("text" | "input_text" | "output_text", Some(text), _) => texts.push(text),
                ("thinking", _, Some(thought)) => thoughts.push(thought),
                _ => {
                    return Ok(Content {
                        text: json.to_owned(),
                        is_json: true,
                        reasoning: None,
                    });
                }
            }
        }
        Ok(Content {
            text: texts.join("\n\n"),
            reasoning: (!thoughts.is_empty()).then(|| thoughts.join("\n\n")),
            is_json: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_and_other_blocks_kept() {
        let thought =
            r#"[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"}]"#;
        let content = Content::from_json(thought).unwrap();
        assert_eq!(
            (&*content.text, content.reasoning.as_deref()),
            ("a", Some("hm"))
        );
        let read = |json: &str| {
            let content = Content::from_json(json).unwrap();
            (content.text, content.is_json)
        };
        assert_eq!(read(r#""hi""#), ("hi".to_owned(), false));
        assert_eq!(read("[]"), (String::new(), false));
        let texts =
            r#"[{"type":"text","text":"a","cache_control":{}},{"type":"input_text","text":"b"}]"#;
        assert_eq!(read(texts), ("a\n\nb".to_owned(), false));
        let image = r#"[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]"#;
        assert_eq!(read(image), (image.to_owned(), true));
        for json in ["1", "{}", "[1]", r#"[{"text":"a"}]"#] {
            assert!(Content::from_json(json).is_err(), "{json}");
        }
    }
}
