
·
Î
!
telemetry.sdk.version
0.31.0

	host.name
devbox
%
telemetry.sdk.name
opentelemetry

service.version	
0.171.0

env
test
 
telemetry.sdk.language
rust

service.name

codex_execã

codex_otel.log_only§	INFO2#

event.name
codex.startup_phase2-
startup.phase
thread_start_create_thread2
startup.status
ready2
duration_ms
432-
event.timestamp
2026-11-29T07:57:07.308Z29
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

gpt-testYË—õ°uìb.event otel/src/events/session_telemetry.rs:380Ÿ	INFO2#

event.name
codex.startup_phase2%
startup.phase
thread_start_total2
startup.status
ready2
duration_ms
592-
event.timestamp
2026-11-29T07:57:07.321Z29
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

gpt-testYQTÀ±uìb.event otel/src/events/session_telemetry.rs:380