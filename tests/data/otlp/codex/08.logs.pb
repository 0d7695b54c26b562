
æ
Î

env
test

	host.name
devbox
 
telemetry.sdk.language
rust

service.name

codex_exec

service.version	
0.171.0
%
telemetry.sdk.name
opentelemetry
!
telemetry.sdk.version
0.31.0’

codex_otel.log_onlyø	INFO2!

event.name
codex.user_prompt2
prompt_length
122
prompt
Please fail.2-
event.timestamp
2026-11-29T07:57:08.471Z29
conversation.id&
$01a2264e-c940-7601-8982-882e16fdc5322
app.version	
0.171.02

originator

codex_exec2
terminal.type
dumb2
model

gpt-test2
slug

gpt-testY­ÛIöuìb/event otel/src/events/session_telemetry.rs:1234