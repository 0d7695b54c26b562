// The logs that the pages are tried with: records as JSON lines.

import { randomUUID } from "node:crypto";

// Texts that run, load or break a page that does not escape them. Each calls `hacked`, or loads
// from evil.example.
export const HOSTILE = [
  `<script>hacked(1)</script>`,
  `"><script>hacked(2)</script>`,
  `'"><img src=x onerror=hacked(3)>`,
  `</title><script>hacked(4)</script>`,
  `</textarea></pre></code><svg onload=hacked(5)>`,
  `<img src="http://evil.example/a.png">`,
  `![x](http://evil.example/b.png)`,
  `[click](javascript:hacked(6))`,
  `<a href="javascript:hacked(7)">x</a>`,
  `[x](data:text/html,<script>hacked(8)</script>)`,
  `<iframe src="http://evil.example/"></iframe>`,
  `<link rel=stylesheet href=http://evil.example/c.css>`,
  `<style>@import "http://evil.example/d.css"; * { display: none !important }</style>`,
  `<base href="http://evil.example/">`,
  `<meta http-equiv=refresh content="0;url=http://evil.example/">`,
  `<form action="http://evil.example/"><button autofocus onfocus=hacked(9)>x</button></form>`,
  `<details open ontoggle=hacked(10)>x</details>`,
  `<math><mtext><table><mglyph><style><img src=x onerror=hacked(11)>`,
  `<svg><animate onbegin=hacked(12) attributeName=x dur=1s>`,
  `\`\`\`js"><script>hacked(13)</script>\n</code></pre><script>hacked(14)</script>\n\`\`\``,
  `| <img src=x onerror=hacked(15)> |\n|-|\n| <script>hacked(16)</script> |`,
  `{{constructor.constructor('hacked(17)')()}} \${hacked(18)}`,
  `\u202egnp.exe\u202c \u2066\u2069 \u0000 \u0007 \u001b[31mred\u001b[0m`,
  `--- a/x\n+++ b/<script>hacked(19)</script>\n@@ -1 +1 @@\n-<img src=x onerror=hacked(20)>\n+<b>\n`,
  `x`.repeat(5000),
  `${"> ".repeat(400)}deep`,
  `${"[".repeat(2000)}`,
  `\u{1F468}\u200D\u{1F469}\u200D\u{1F467} Z\u0351\u036b\u0343\u032a\u0302\u036b\u033d\u034falgo 漢字かな 한글 \u05d0\u05d1\u05d2`,
];

/** A record of each kind, with a hostile text in every field that takes a text. */
export function hostile() {
  const records = [];
  const now = Date.now();
  HOSTILE.forEach((text, nth) => {
    const at = now - 60_000 + nth * 1000;
    const time = new Date(at).toISOString();
    const [conversation, request, turn] = [randomUUID(), randomUUID(), randomUUID()];
    const name = text.replaceAll(/[\u0000-\u001f]/g, " ").slice(0, 200);
    const payload = { [name]: text, text, list: [text] };
    records.push(
      { kind: "conversations", id: conversation, client: "api", workspace: name, project: name, session_id: name, title: text.slice(0, 500), created_at: time },
      { kind: "messages", conversation_id: conversation, role: "system", content: text, timestamp: time },
      { kind: "messages", conversation_id: conversation, role: "user", content: text, timestamp: time },
      { kind: "messages", conversation_id: conversation, role: "assistant", content: text, reasoning: text, model_used: name, config_used: name, orchestration_mode: name, task_type: name, tokens_in: 10, tokens_out: 1, latency_ms: 5, timestamp: time },
      { kind: "messages", conversation_id: conversation, role: "assistant", content: text, content_type: "markdown", error: text, error_type: name, timestamp: time },
      { kind: "messages", conversation_id: conversation, role: "assistant", content: text, content_type: "code", timestamp: time },
      { kind: "messages", conversation_id: conversation, role: "assistant", content: JSON.stringify(payload), content_type: "json", timestamp: time },
      { kind: "messages", conversation_id: conversation, role: "assistant", content: "", tool_name: name, tool_call_id: `call_${nth}`, tool_args: payload, timestamp: time },
      { kind: "messages", conversation_id: conversation, role: "tool", content: "", tool_name: name, tool_call_id: `call_${nth}`, tool_result: text, error_type: name, timestamp: time },
      { kind: "conversation_turns", id: turn, message_id: randomUUID(), thread_id: conversation, turn_kind: "user", content: text, created_at: at },
      { kind: "tool_calls", op: "requested", request_id: request, call_id: `call_${nth}`, parent_id: turn, vendor: name, tool_name: name, started_at: at, arguments_json: payload },
      { kind: "tool_calls", op: "failed", request_id: request, call_id: `call_${nth}`, ended_at: at + 40, error_kind: name, error_msg: text, outcome_json: text },
      { kind: "code_edit_proposals", request_id: request, created_at: at, diffs_json: [{ file: name, old_string: text, new_string: `${text}2` }, { file: name, diff: text }], op: "pending" },
      { kind: "events", event_type: "agent.started", created_at: at, payload },
      { kind: "inbox", update_id: nth, created_at: at, chat_id: 1, message_date: 1, text, payload },
      { kind: "thought_records", task_id: name || "t", type: "plan", agent_id: name || "a", content: text },
    );
  });
  return records;
}

/** Conversations with this number of messages each. */
export function generated(conversations, messages) {
  const records = [];
  const start = Date.now() - 20 * 86_400_000;
  const models = ["small-1", "big-2", "huge-3"];
  for (let nth = 0; nth < conversations; nth++) {
    const id = randomUUID();
    const at = start + Math.floor((nth / conversations) * 19 * 86_400_000);
    records.push({ kind: "conversations", id, client: "cli", project: `project-${nth % 7}`, title: `Generated ${nth}`, status: "completed", created_at: new Date(at).toISOString() });
    for (let step = 0; step < messages; step++) {
      const timestamp = new Date(at + step * 900).toISOString();
      const message = { kind: "messages", conversation_id: id, timestamp };
      if (step % 4 === 0) records.push({ ...message, role: "user", content: `Question ${step} of ${nth}: why does the build fail?` });
      else if (step % 4 === 1) records.push({ ...message, role: "assistant", content: "", tool_name: "bash", tool_call_id: `c${nth}_${step}`, tool_args: { command: `cargo test case_${step}` }, model_used: models[nth % 3], tokens_in: 900 + step, tokens_out: 40, latency_ms: 200 + (step % 50) * 30 });
      else if (step % 4 === 2) records.push({ ...message, role: "tool", content: "", tool_name: "bash", tool_call_id: `c${nth}_${step - 1}`, tool_result: `running 1 test\ntest case_${step} ... ok\n`, ...(step % 40 === 2 && { error_type: "exit_code" }) });
      else records.push({ ...message, role: "assistant", content: `**Step ${step}** is done:\n\n\`\`\`rust\nfn case_${step}() -> u32 { ${step} }\n\`\`\``, model_used: models[nth % 3], tokens_in: 1000 + step, tokens_out: 60, latency_ms: 400 });
    }
  }
  return records;
}
