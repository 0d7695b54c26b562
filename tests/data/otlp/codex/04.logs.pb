
Ó
Œ
%
telemetry.sdk.name
opentelemetry
 
telemetry.sdk.language
rust

env
test

service.version	
0.171.0

service.name

codex_exec

	host.name
devbox
!
telemetry.sdk.version
0.31.0ö

codex_otel.log_onlyÄ	INFO2!

event.name
codex.user_prompt2
prompt_length
202 
prompt
What is the weather?2-
event.timestamp
2026-11-29T07:57:07.874Z29
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

gpt-testYêøæ“uÏb/event otel/src/events/session_telemetry.rs:1234