//! The simple commands of a script, split into words as a shell does.

/// Maximum bytes of a script that are looked at.
const SCRIPT_BYTES_MAX: usize = 16 << 10;

/// The simple commands of a script, each as its words without quotes. Redirections are left out;
/// it ends at a here-document, whose text is no command.
pub(super) fn commands(script: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut is_target = false;
    let mut chars = script.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if at > SCRIPT_BYTES_MAX {
            break;
        }
        let mut end_word = |words: &mut Vec<String>, word: &mut Option<String>| {
            let Some(word) = word.take() else { return };
            if !std::mem::take(&mut is_target) {
                words.push(word);
            }
        };
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                while let Some((_, inner)) = chars.next() {
                    match inner {
                        _ if inner == c => break,
                        '\\' if c == '"' => word.extend(chars.next().map(|(_, c)| c)),
                        _ => word.push(inner),
                    }
                }
            }
            '\\' => match chars.next() {
                // A line that continues.
                Some((_, '\n')) | None => {}
                // Programs of Windows have such paths.
                Some((_, c)) if c.is_alphanumeric() => {
                    word.get_or_insert_default().extend(['\\', c]);
                }
                Some((_, c)) => word.get_or_insert_default().push(c),
            },
            '#' if word.is_none() => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '<' if chars.peek().is_some_and(|(_, c)| *c == '<') => {
                end_word(&mut words, &mut word);
                break;
            }
            '>' | '<' => {
                // The number of a file before it.
                if word
                    .as_ref()
                    .is_some_and(|it| it.bytes().all(|b| b.is_ascii_digit()))
                {
                    word = None;
                }
                end_word(&mut words, &mut word);
                while chars
                    .next_if(|(_, c)| matches!(c, '>' | '&' | '|'))
                    .is_some()
                {}
                is_target = true;
            }
            '\n' | ';' | '&' | '|' | '(' | ')' => {
                if c == '&' && chars.next_if(|(_, c)| *c == '>').is_some() {
                    end_word(&mut words, &mut word);
                    is_target = true;
                    continue;
                }
                end_word(&mut words, &mut word);
                is_target = false;
                found.push(std::mem::take(&mut words));
            }
            c if c.is_whitespace() => end_word(&mut words, &mut word),
            c => word.get_or_insert_default().push(c),
        }
    }
    if let Some(word) = word.filter(|_| !is_target) {
        words.push(word);
    }
    found.push(words);
    found.retain(|words| !words.is_empty());
    found
}
